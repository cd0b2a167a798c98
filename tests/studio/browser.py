"""What tests in a browser share: which one, and what a page should read."""

import shutil

import cautious as ca

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LONGEST = 30_000


def reads(page, selector, text):
    """Wait until an element reads like this."""
    from playwright.sync_api import expect

    expect(page.locator(selector)).to_have_text(text, timeout=LONGEST)


def shown(value):
    """A figure as the page shows it."""
    if 1e4 <= abs(value) < 1e6:
        return f"{float(f'{value:.4g}'):.0f}"
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def returns(grid, risk=None, caution=0.0):
    return shown(ca.solve(ca.Problem(grid.model(), risk, caution)).expected_return)
