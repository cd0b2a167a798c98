"""What tests in a browser share: which one, and what a page should read."""

import os
import shutil

import pytest

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


def driver():
    """What starts a Chromium. Without one tests are skipped, but not where the tests of a change are run."""
    found = pytest.importorskip("playwright.sync_api", reason="needs playwright").sync_playwright
    if BROWSER is None:
        missing = "needs a Chromium, such as Debian's package chromium"
        pytest.fail(missing) if os.environ.get("CI") == "true" else pytest.skip(missing)
    return found()


def serious(axe, page):
    """What axe-core finds serious on a page, by its name: the beginnings of the elements."""
    # most of the time went into lists of what is in order and into parts of formulas, whose colour is that of the text
    checked = axe.run(page, context={"exclude": [["math"]]}, options={"resultTypes": ["violations"]})
    found = checked.response["violations"]
    grave = [one for one in found if one["impact"] in ("serious", "critical")]
    return {one["id"]: [node["html"][:160] for node in one["nodes"]] for one in grave}


def serious_of_files(paths):
    """The same of pages in files, light and dark."""
    axe, findings = pytest.importorskip("axe_playwright_python.sync_playwright").Axe(), {}
    with driver() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        for scheme in ("light", "dark"):
            page = browser.new_page(color_scheme=scheme)
            for path in paths:
                page.goto(path.as_uri())
                for name, elements in serious(axe, page).items():
                    findings[path.name, scheme, name] = elements
        browser.close()
    return findings


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
