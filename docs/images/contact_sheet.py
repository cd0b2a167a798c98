"""Pages of the site, reports and the studio on one picture: light, dark, on a phone and on a projector.

Run from the root of a checkout, after make docs: make contact-sheet. It needs a Chromium.
"""

import io
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from PIL import Image, ImageDraw, ImageFont
from playwright.sync_api import Browser, sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

import cautious as ca  # noqa: E402
from cautious.studio.server import Studio  # noqa: E402
from studio.browser import BROWSER, FLAGS  # noqa: E402
from studio.conftest import running  # noqa: E402

SITE = HERE.parent / "_build" / "html"
SITE_PAGES = (
    "index",
    "tutorial",
    "cookbook",
    "glossary",
    "which-risk",
    "constraints",
    "horizons",
    "how-to/practitioner",
    "mathematics",
    "auto_gallery/plot_return",
)
# name, width and height of the window, colours
KINDS = (
    ("light", 1280, 900, "light"),
    ("dark", 1280, 900, "dark"),
    ("phone", 390, 844, "light"),
    ("projector", 1920, 1080, "light"),
)
ROW_HEIGHT, MARGIN, TITLE = 300, 14, 24
Step = Callable[[Any], None]


def reports(folder: Path) -> dict[str, str]:
    """Pages that are written about solutions, by name."""
    desk = ca.worlds.queue()
    limits = [ca.Exposure(list(range(8, 16)), name="crowded") <= 0.15, ca.Exposure([0], name="idle") <= 0.12]
    maze = ca.worlds.problem("maze")
    pages: dict[str, Any] = {
        "report of a map": ca.solve(maze),
        "report with limits": ca.solve(ca.Problem(desk, constraints=limits)),
        "report: impossible": ca.solve(ca.Problem(desk, constraints=[*limits, ca.Return(desk.rewards) >= 280])),
        "report of a frontier": ca.frontier(maze.mdp, ca.Variance(), [0, 1, 10, 50]),
        "report of learning": ca.learn(desk.simulator(), samples=20_000),
    }
    for name, what in pages.items():
        what.report(folder / f"{name}.html")
    return {name: (folder / f"{name}.html").as_uri() for name in pages}


def picture(browser: Browser, address: str, kind: tuple[str, int, int, str], prepare: Step | None) -> Image.Image:
    """What a window of this kind shows."""
    _, width, height, colours = kind
    context = browser.new_context(
        viewport={"width": width, "height": height}, color_scheme=colours, reduced_motion="reduce"
    )
    page = context.new_page()
    page.goto(address)
    if prepare is not None:
        prepare(page)
    taken = Image.open(io.BytesIO(page.screenshot()))
    context.close()
    return taken.resize((round(ROW_HEIGHT * width / height), ROW_HEIGHT), Image.Resampling.LANCZOS)


def solved(page: Any) -> None:
    """Wait until the studio has answered."""
    page.wait_for_selector("#timing[data-number]")
    page.wait_for_timeout(700)


def side_by_side(page: Any) -> None:
    """The second view of the studio."""
    solved(page)
    page.click("#tab-sides")
    page.wait_for_timeout(1500)


def sheet(rows: dict[str, list[Image.Image]]) -> Image.Image:
    """All pictures, a row per page."""
    width = MARGIN + sum(one.width + MARGIN for one in next(iter(rows.values())))
    whole = Image.new("RGB", (2 * width, (len(rows) + 1) // 2 * (ROW_HEIGHT + TITLE + MARGIN) + MARGIN), "#808890")
    draw, font = ImageDraw.Draw(whole), ImageFont.load_default(15)
    for number, (name, taken) in enumerate(rows.items()):
        x, y = number % 2 * width + MARGIN, number // 2 * (ROW_HEIGHT + TITLE + MARGIN) + MARGIN
        draw.text((x, y), name, "white", font)
        for one in taken:
            whole.paste(one, (x, y + TITLE))
            x += one.width + MARGIN
    return whole


def main() -> None:
    """The command."""
    if BROWSER is None or not SITE.exists():
        sys.exit("this needs a Chromium, such as Debian's package chromium, and the site: make docs")
    with TemporaryDirectory() as folder, running(Studio()) as site, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        pages: dict[str, tuple[str, Step | None]] = {
            name: ((SITE / f"{name}.html").as_uri(), None) for name in SITE_PAGES
        }
        pages |= {name: (where, None) for name, where in reports(Path(folder)).items()}
        pages |= {"studio": (site.address, solved), "studio, side by side": (site.address, side_by_side)}
        rows = {name: [picture(browser, *page[:1], kind, page[1]) for kind in KINDS] for name, page in pages.items()}
        browser.close()
    sheet(rows).quantize(128).save(HERE / "contact-sheet.png", optimize=True)


if __name__ == "__main__":
    main()
