"""A problem in a link or a file opens as it was, in another studio too."""

import json

import pytest

import cautious as ca
from cautious.studio.scenario import EXAMPLES
from cautious.studio.server import Studio
from studio.browser import LONGEST, reads, returns, shown
from studio.conftest import running

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
BIGGEST = "() => { const s = '.#DGR'; let k = 1; const cell = () => s[(k = (k * 16807) % 2147483647) % 5];"


def copied(page):
    """The link to the page's problem."""
    page.locator("#files summary").click()
    page.locator("#share-link").click()
    playwright.expect(page.locator("#banner")).to_contain_text("copied", timeout=LONGEST)
    return page.evaluate("() => navigator.clipboard.readText()")


def as_it_was(page):
    return [page.locator(f"#{one}").input_value() for one in ("risk", "caution-number", "slip", "limit-time")]


def test_a_link_opens_as_it_was(site, visit):
    page = visit(site, permissions=["clipboard-read", "clipboard-write"])
    page.locator("#example").select_option("bridge")
    page.locator("#slip").fill("0.3")
    page.locator("#caution-number").fill("2.5")
    page.locator("#limit-time-counts").check()
    page.locator("#limit-time").fill("10")
    playwright.expect(page.locator("#limit-time-words")).to_contain_text("at most 10 %", timeout=LONGEST)
    link, before, result = copied(page), as_it_was(page), page.locator("#return").text_content()
    assert link.startswith(f"http://{site.host}{site.folder}#problem=")
    assert len(link) < 1000
    assert site.token not in link
    # pasted into another studio, and as its argument
    with running(Studio()) as other:
        there = visit(other)
        data = "(text) => { const data = new DataTransfer(); data.setData('text', text); document.body.dispatchEvent("
        data += "new ClipboardEvent('paste', { bubbles: true, clipboardData: data })); }"
        there.evaluate(data, link)
        reads(there, "#return", result)
        assert as_it_was(there) == before
        assert there.locator("#example").input_value() == "bridge"
    with running(Studio(shared=link)) as third:
        reads(visit(third), "#return", result)
    # in the address of the page itself, which is plain again afterwards
    page.locator("#example").select_option("blank")
    page.evaluate("(hash) => { location.hash = hash }", link.partition("#")[2])
    reads(page, "#return", result)
    assert "#" not in page.url


def test_damaged_links_are_refused(site, visit):
    page = visit(site)
    for text in ("AAAA", "%%", "q1YqVrJSKijKTylNLklVslJKVNJRSkksSVSyMtJRSi5KTSxJTQFyAA"):
        page.evaluate("() => { document.querySelector('#banner').hidden = true }")
        page.evaluate("(text) => { location.hash = `problem=${text}` }", text)
        playwright.expect(page.locator("#banner")).to_contain_text("damaged", timeout=LONGEST)
    reads(page, "#return", returns(EXAMPLES["maze"].grid, ca.Variance(), 10.0))


def test_what_a_link_holds_is_checked(site, visit):
    page = visit(site)
    bad = {"cautious": 1, "name": "maze", "document": {"grid": None, "risk": {"kind": "eval"}}, "brought": None}
    code = """async (found) => {
      const stream = new Blob([JSON.stringify(found)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
      const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
      location.hash = "problem=" + btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_");
    }"""
    page.evaluate(code, bad)
    playwright.expect(page.locator("#banner")).to_contain_text("needs caution", timeout=LONGEST)


def test_what_is_too_long_becomes_a_file(site, visit, tmp_path):
    page = visit(site)
    # a large grid without any order in it
    rows, k = [], 1
    for _ in range(60):
        row = ""
        for _ in range(60):
            k = k * 16807 % 2147483647
            row += ".#DGRS"[k // 7 % 6]
        rows.append(row)
    statement = EXAMPLES["maze"].plain() | {"grid": EXAMPLES["maze"].plain()["grid"] | {"rows": rows}}
    (tmp_path / "old.json").write_text(json.dumps({**statement, "risk": {"kind": "none"}}))
    files = {
        "state,action,next_state,probability,reward": [f"s{i},go,s{i * 7919 % 9973},1,{i % 13}" for i in range(9973)]
    }
    table = "\n".join([*files, *next(iter(files.values()))])
    (tmp_path / "long.csv").write_text(table)
    page.locator("#files summary").click()
    page.locator("#bring-open").click()
    page.locator("#bring-discount").fill("0.9")
    page.locator("#bring-files").set_input_files(tmp_path / "long.csv")
    page.locator("#bring-send").click()
    playwright.expect(page.locator("#title")).to_contain_text("9,973 states", timeout=LONGEST)
    # what was said of one file is not said of the next
    playwright.expect(page.locator("#bring-discount")).to_have_value("")
    page.locator("#risk").select_option("none")
    mdp = ca.read_model(tmp_path / "long.csv", discount=0.9)
    result = shown(ca.solve(ca.Problem(mdp)).expected_return)
    reads(page, "#return", result)
    page.locator("#files summary").click()
    page.locator("#share-link").click()
    playwright.expect(page.locator("#banner")).to_contain_text("makes a file instead", timeout=LONGEST)
    page.locator("#files summary").click()
    with page.expect_download() as found:
        page.locator("#share-file").click()
    found.value.save_as(tmp_path / "problem.json")
    there = visit(site)
    there.locator("#file").set_input_files(tmp_path / "problem.json")
    reads(there, "#return", result)
    playwright.expect(there.locator("#title")).to_contain_text("9,973 states")
    # a grid as it was saved before there were shared problems
    there.locator("#file").set_input_files(tmp_path / "old.json")
    playwright.expect(there.locator("#columns")).to_have_value("60", timeout=LONGEST)
