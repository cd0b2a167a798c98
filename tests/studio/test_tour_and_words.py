"""The tour, the words that explain themselves, and what axe-core finds on every view."""

import re

import pytest

from cautious.studio.server import FILES
from studio.browser import LONGEST, serious

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
VIEWS = ("world", "sides", "race")


def test_the_tour_is_offered_once(site, visit):
    page = visit(site, toured=False)
    playwright.expect(page.locator("#tour-title")).to_have_text("New here?")
    page.locator("#tour-next").click()
    titles = []
    while page.locator("#tour").is_visible():
        titles.append(page.locator("#tour-title").text_content())
        assert len(page.locator("#tour-text").text_content().split()) > 8
        assert page.locator(".toured").count() == 1
        playwright.expect(page.locator(".toured")).to_be_in_viewport()
        page.locator("#tour-next").click()
    assert len(titles) == len(set(titles)) == 11
    assert page.locator("#world").is_visible()
    page.reload()
    page.wait_for_selector("#timing[data-number]")
    assert not page.locator("#tour").is_visible()
    # again from the menu, back and forth, and left by keyboard
    page.locator("#files summary").click()
    page.locator("#tour-again").click()
    playwright.expect(page.locator("#tour-count")).to_have_text("1 of 11")
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#tour-count")).to_have_text("2 of 11")
    page.locator("#tour-back").click()
    playwright.expect(page.locator("#tour-count")).to_have_text("1 of 11")
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#tour")).to_be_hidden()


def test_words_explain_themselves(site, visit):
    page = visit(site)
    named = set(re.findall(r'data-word="(\w+)"', FILES["index.html"].read_text()))
    explained = set(re.findall(r"^  (\w+): \"", FILES["words.js"].read_text(), re.MULTILINE))
    assert named == explained
    for word in page.locator("#world .word:visible, #question .word:visible, #answer .word:visible").all():
        word.focus()
        tip = page.locator("#tip")
        playwright.expect(tip).to_be_visible()
        box, size = tip.bounding_box(), page.viewport_size
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= size["width"]
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= size["height"]
    page.keyboard.press("Escape")
    playwright.expect(page.locator("#tip")).to_be_hidden()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(site, visit, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    page = visit(site, toured=False, color_scheme=scheme)
    found = {}

    def look(where):
        found.update({(where, name): elements for name, elements in serious(axe, page).items()})

    for view in VIEWS:
        page.locator(f"#tab-{view}").click()
        if view == "sides":
            playwright.expect(page.locator("#returns svg")).to_be_visible(timeout=LONGEST)
        look(view)
    page.locator("#tour-end").click()
    page.locator("#files summary").click()
    look("files")
    page.locator("#bring-open").click()
    look("dialog")
    assert found == {}


def test_the_page_is_light(site, visit):
    script = sum(path.stat().st_size for path in FILES.values() if path.suffix == ".js")
    assert script < 200_000
    page = visit(site)
    paint = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
    page.reload()
    page.wait_for_selector("#timing[data-number]")
    # in milliseconds; a busy machine may be slow, so this is no benchmark
    assert page.evaluate(paint) < 5000
