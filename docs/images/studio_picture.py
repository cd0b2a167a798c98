"""Take the picture of the studio: rooms with walkers and a limit on the time in danger.

Run from the root of a checkout, where there is a Chromium: python docs/images/studio_picture.py
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from cautious.studio.server import Studio  # noqa: E402
from studio.browser import BROWSER, FLAGS  # noqa: E402
from studio.conftest import running  # noqa: E402

# walks of a few seconds, so that there are traces and figures
WALK_MILLISECONDS = 9000


def main() -> None:
    """The page as somebody sees it who has just set the limit."""
    with running(Studio()) as site, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=BROWSER, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 860}, color_scheme="light")
        toured = {"name": "cautious-studio-toured", "value": "1", "url": f"http://{site.host}"}
        page.context.add_cookies([toured])  # type: ignore[list-item]
        page.goto(site.address)
        page.locator("#example").select_option("rooms")
        page.locator("#risk").select_option("none")
        page.locator("#limit-time-counts").check()
        page.locator("#limit-time").fill("2")
        page.locator("#walk-speed").fill("70")
        page.locator("#curve .point").first.wait_for()
        page.wait_for_timeout(WALK_MILLISECONDS)
        page.screenshot(path=HERE / "studio.png")
        browser.close()


if __name__ == "__main__":
    main()
