"""The page in a browser: it shows what ``ca.solve`` finds, by pointer and by keyboard, and comes back by itself."""

import re
import socket
from dataclasses import replace

import numpy as np
import pytest

import cautious as ca
from cautious.studio.scenario import EXAMPLES
from cautious.studio.server import FILES, Studio
from studio.browser import LONGEST, reads, returns, shown
from studio.conftest import nameless, running

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

# controls that a screen reader could not name
NAMELESS = """() => [...document.querySelectorAll("input, select, button, #map")]
  .filter((one) => !one.ariaLabel && !one.labels?.length && !one.textContent.trim())
  .map((one) => one.outerHTML)"""


def cell(page, grid, row, column):
    """The middle of a cell on the screen."""
    box = page.locator("#map").bounding_box()
    height, width = len(grid.rows), len(grid.rows[0])
    return box["x"] + box["width"] * (column + 0.5) / width, box["y"] + box["height"] * (row + 0.5) / height


def test_the_page_shows_what_solve_finds(site, visit):
    page, maze = visit(site), EXAMPLES["maze"].grid
    reads(page, "#return", returns(maze, ca.Variance(), 10.0))
    playwright.expect(page.locator("#verdict")).to_contain_text("Proved: within")
    playwright.expect(page.locator("#curve .point")).to_have_count(9)
    assert site.token not in page.url
    # the slider by keyboard: its start is caution 0
    page.locator("#caution").press("Home")
    reads(page, "#return", returns(maze))
    # a point of the curve sets the caution
    page.locator("#curve .target").last.press("Enter")
    playwright.expect(page.locator("#caution-number")).not_to_have_value("0")


def test_every_point_of_the_curve_can_be_clicked(site, visit):
    page = visit(site)
    playwright.expect(page.locator("#curve .point")).to_have_count(9)
    names = page.locator("#curve .target").evaluate_all("(all) => all.map((one) => one.ariaLabel)")
    middles = """(all) => all.map((one) => one.getBoundingClientRect())
      .map((box) => [box.x + box.width / 2, box.y + box.height / 2])"""
    places = page.locator("#curve .point").evaluate_all(middles)
    chosen = set()
    for place in places:
        # of points in one place, each click takes the next
        for _ in range(sum(np.hypot(place[0] - x, place[1] - y) < 1 for x, y in places)):
            page.mouse.click(*place)
            chosen.add(float(page.locator("#caution-number").input_value()))
    wanted = {float(name.split(":")[0].removeprefix("caution ")) for name in names}
    assert len(wanted) == 9
    assert chosen == wanted
    # beside the curve nothing is chosen
    before = page.locator("#caution-number").input_value()
    box = page.locator("#curve").bounding_box()
    page.mouse.click(box["x"] + 2, box["y"] + box["height"] - 2)
    assert page.locator("#caution-number").input_value() == before


REFUSED = [
    ("caution-number", "1e12"),
    ("caution-number", "-1"),
    ("pay-step", "1e9"),
    ("pay-goal", "-1e7"),
    ("slip", "1.5"),
    ("discount", "1"),
    ("columns", "0"),
    ("rows", "61"),
    ("parameter", "101"),
    ("parameter", ""),
    ("limit-time", "-1"),
    ("steps", "0"),
    ("steps", "1e9"),
]


def test_a_field_does_not_keep_a_refused_value(site, visit):
    page = visit(site)
    page.locator("#risk").select_option("cvar")
    page.locator("#limit-time-counts").check()
    for field, refused in REFUSED:
        page.locator("#horizon").select_option("steps" if field == "steps" else "discounted")
        before = page.locator(f"#{field}").input_value()
        page.locator(f"#{field}").fill(refused)
        page.locator(f"#{field}").press("Enter")
        playwright.expect(page.locator(f"#{field}")).to_have_value(before)
        playwright.expect(page.locator(f"#{field}")).to_have_attribute("aria-invalid", "false")
        playwright.expect(page.locator("#banner")).to_be_hidden()


def test_a_wrong_file_leaves_the_answer(site, visit, tmp_path):
    page = visit(site)
    figures = [page.locator(f"#{one}").text_content() for one in ("return", "objective", "verdict")]
    for k, content in enumerate(["no JSON", "[1, 2]", '{"grid": null}', "{" * 5000, '{"grid": {"rows": ["x"]}}']):
        page.evaluate("() => { document.querySelector('#banner').hidden = true }")
        (tmp_path / f"grid{k}.json").write_text(content)
        page.locator("#file").set_input_files(tmp_path / f"grid{k}.json")
        playwright.expect(page.locator("#banner")).to_be_visible()
        assert [page.locator(f"#{one}").text_content() for one in ("return", "objective", "verdict")] == figures
        assert "stale" not in (page.locator("body").get_attribute("class") or "")


def test_a_limit_is_a_limit(site, visit):
    page, maze = visit(site), EXAMPLES["maze"].grid
    page.locator("#risk").select_option("none")
    page.locator("#limit-time-counts").check()
    page.locator("#limit-time").fill("0.5")
    mdp = maze.model()
    wanted = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure(ca.worlds.dark_cells(mdp)) <= 0.005]))
    reads(page, "#return", shown(wanted.expected_return))
    playwright.expect(page.locator("#limit-time-words")).to_contain_text("one more percentage point is worth")
    playwright.expect(page.locator("#verdict")).to_contain_text("that keeps the limit")
    # the curve is along the limit, and a point of it sets the bound
    playwright.expect(page.locator("#trade-name")).to_have_text("What the limit costs")
    playwright.expect(page.locator("#curve")).to_contain_text("time in danger, at most (%)", timeout=LONGEST)
    page.locator("#curve .target").last.press("Enter")
    playwright.expect(page.locator("#limit-time")).not_to_have_value("0.5")
    page.locator("#limit-time-counts").uncheck()
    reads(page, "#return", returns(maze))
    reads(page, "#limit-time-words", "")


def test_an_impossible_limit_is_never_green(site, visit):
    page = visit(site)
    page.locator("#example").select_option("bridge")
    page.locator("#tools [data-mark='.']").click()
    page.mouse.click(*cell(page, EXAMPLES["bridge"].grid, 2, 0))
    page.locator("#risk").select_option("none")
    page.locator("#limit-time-counts").check()
    page.locator("#limit-time").fill("1")
    playwright.expect(page.locator("#verdict")).to_contain_text("every policy has at least", timeout=LONGEST)
    playwright.expect(page.locator("#verdict")).not_to_have_class("good")
    playwright.expect(page.locator("#limit-time-row")).to_have_class(re.compile("missed"))
    # what is possible is drawn
    playwright.expect(page.locator("#curve .point").first).to_be_visible(timeout=LONGEST)


@pytest.mark.parametrize("horizon", ["steps", "average", "total"])
def test_horizons(site, visit, horizon):
    page, name = visit(site), "drift" if horizon == "average" else "maze"
    page.locator("#example").select_option(name)
    page.locator("#risk").select_option("none")
    page.locator("#horizon").select_option(horizon)
    ahead = 40 if horizon == "steps" else horizon
    wanted = ca.solve(ca.Problem(EXAMPLES[name].grid.model(ahead), horizon=ahead))
    reads(page, "#return", shown(wanted.expected_return))
    playwright.expect(page.locator("#verdict")).to_have_class("good")
    assert page.locator("#discount").is_disabled() == (horizon != "steps")
    assert page.locator("#limit-ever-row").is_visible() == (horizon != "average")
    if horizon == "steps":
        page.locator("#step").fill("3")
        reads(page, "#step-words", "3 of 40")
        page.locator("#steps").fill("5")
        five = ca.solve(ca.Problem(EXAMPLES[name].grid.model(), horizon=5))
        reads(page, "#return", shown(five.expected_return))
        reads(page, "#step-words", "all 5 together")
    page.locator("#horizon").select_option("discounted")
    reads(page, "#return", returns(EXAMPLES[name].grid))


def test_what_is_refused_can_be_taken_back(site, visit):
    page, maze = visit(site), EXAMPLES["maze"].grid
    page.locator("#risk").select_option("none")
    page.locator("#horizon").select_option("total")
    page.locator("#limit-ever-counts").check()
    page.locator("#horizon").select_option("discounted")
    # the limit is not dropped but refused, and can still be taken away
    playwright.expect(page.locator("#banner")).to_contain_text("is a probability until some time", timeout=LONGEST)
    playwright.expect(page.locator("#verdict")).not_to_have_class("good")
    page.locator("#limit-ever-counts").uncheck()
    reads(page, "#return", returns(maze))
    playwright.expect(page.locator("#limit-ever-row")).to_be_hidden()
    # no danger, no limit on it
    page.locator("#example").select_option("blank")
    playwright.expect(page.locator("#limit-time-counts")).to_be_disabled()


def test_limits_of_a_problem_that_was_opened(visit):
    machine = ca.worlds.machine_replacement()
    limits = [ca.Exposure("broken") <= 0.004, ca.Return(machine.rewards, name="income") >= 60000]
    opened = ca.Problem(machine, constraints=limits)
    with running(Studio(opened, "machine.toml")) as site:
        page = visit(site)
        reads(page, "#return", shown(ca.solve(opened).expected_return))
        reads(page, "#limit-own0-row .name", "Time in broken at most")
        assert page.locator("#limit-own0").input_value() == "0.4"
        assert page.locator("#limit-own1").input_value() == "60000"
        page.locator("#limit-own1-counts").uncheck()
        page.locator("#limit-own0").fill("0.2")
        tighter = ca.solve(ca.Problem(machine, constraints=[ca.Exposure("broken") <= 0.002]))
        reads(page, "#return", shown(tighter.expected_return))
        # horizons that do not fit cannot be chosen, and the reason stands there
        assert page.locator("#horizon option[value='average']").is_disabled()
        playwright.expect(page.locator("#horizon-words")).to_contain_text("do not discount, and this model has")


def test_a_barrier_at_caution_0_is_its_limit(visit):
    machine = ca.worlds.machine_replacement()
    working = [name for name in machine.state_names if name != "broken"]
    with running(Studio(ca.Problem(machine, ca.SafeSet(working, 0.004), 5000.0), "safe.toml")) as site:
        page = visit(site)
        page.locator("#caution").press("Home")
        reads(page, "#caution-words", "only its limit counts")
        wanted = ca.solve(ca.Problem(machine, constraints=[ca.Exposure("broken") <= 0.004]))
        reads(page, "#return", shown(wanted.expected_return))
        playwright.expect(page.locator("#limit-notes")).to_contain_text("Time in broken 0.4 %, at most 0.4 %: kept")
        reads(page, "#risk-name", "time in broken")


def test_the_page_can_be_loaded_again_and_its_cookie_is_for_its_folder_only(site, visit):
    page = visit(site)
    assert site.token not in page.url
    page.reload()
    page.wait_for_selector("#timing[data-number]")
    (cookie,) = [one for one in page.context.cookies() if not one["name"].endswith("toured")]
    assert (cookie["path"], cookie["httpOnly"], cookie["sameSite"]) == (site.folder, True, "Strict")
    with socket.create_server(("127.0.0.1", 0)) as other:
        other.settimeout(20)
        page.evaluate(f"() => {{ location.href = 'http://127.0.0.1:{other.getsockname()[1]}/' }}")
        line, _ = other.accept()
        with line:
            request = line.recv(10_000)
            line.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    assert b"GET / HTTP" in request
    assert site.token.encode() not in request
    assert site.folder.encode() not in request


def test_painting_undoing_and_keys(site, visit):
    page, maze = visit(site), EXAMPLES["maze"].grid
    page.locator("#risk").select_option("none")
    reads(page, "#return", returns(maze))
    # a wall across the corridor, in one stroke
    page.locator("#tools [data-mark='#']").click()
    page.mouse.move(*cell(page, maze, 5, 4))
    page.mouse.down()
    page.mouse.move(*cell(page, maze, 9, 4))
    page.mouse.up()
    walled = replace(maze, rows=tuple(row[:4] + "#" + row[5:] if i >= 5 else row for i, row in enumerate(maze.rows)))
    assert returns(walled) != returns(maze)
    reads(page, "#return", returns(walled))
    page.locator("#undo").click()
    reads(page, "#return", returns(maze))
    page.keyboard.press("Control+y")
    reads(page, "#return", returns(walled))
    # the same map by keyboard: the goal becomes floor, and there is no goal any more
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    for key, times in (("ArrowRight", 9), ("ArrowDown", 6)):
        for _ in range(times):
            page.keyboard.press(key)
    playwright.expect(page.locator("#here")).to_contain_text("Row 6, column 9: goal")
    page.keyboard.press("6")
    page.keyboard.press(" ")
    reads(page, "#return", returns(replace(walled, rows=tuple(row.replace("G", ".") for row in walled.rows))))


def test_the_page_comes_back_with_what_was_painted(visit):
    studio = Studio()
    blank = replace(EXAMPLES["maze"].grid, slip=0.5)
    with running(studio) as site:
        page = visit(site)
        page.locator("#risk").select_option("none")
        page.locator("#slip").fill("0.5")
        reads(page, "#return", returns(blank))
        port = site.port
    playwright.expect(page.locator("#banner")).to_contain_text("trying again", timeout=LONGEST)
    with running(Studio(token=studio.token), port):
        playwright.expect(page.locator("#banner")).to_be_hidden(timeout=LONGEST)
        page.locator("#slip").fill("0.2")
        reads(page, "#return", returns(EXAMPLES["maze"].grid))
        page.reload()
        reads(page, "#return", returns(EXAMPLES["maze"].grid))
        assert page.locator("#risk").input_value() == "none"


def test_a_model_without_a_map_is_a_table(visit):
    queue = ca.Problem(nameless(ca.worlds.queue()), ca.Variance(), 50.0)
    with running(Studio(queue, "queue")) as site:
        page = visit(site)
        reads(page, "#return", shown(ca.solve(queue).expected_return))
        assert page.locator("#table tr").count() == queue.mdp.n_states
        page.locator("#risk").select_option("peak")
        playwright.expect(page.locator("#banner")).to_contain_text("marked as danger")
        # nothing of the answer before is left that could pass for one to this question
        playwright.expect(page.locator("#verdict")).to_contain_text("No answer")
        playwright.expect(page.locator("#verdict")).not_to_have_class("good")
        reads(page, "#return", "\N{EN DASH}")
        page.get_by_label("state 0 is danger", exact=True).check()
        idle = ca.Problem(queue.mdp, ca.PeakExposure([[0]]), queue.caution)
        reads(page, "#return", shown(ca.solve(idle).expected_return))


def test_figures_stand_in_one_line_and_say_what_they_count(site, visit):
    page = visit(site, 1400, 800)
    page.locator("#risk").select_option("peak")
    playwright.expect(page.locator("#danger-card")).to_be_visible()
    tops = [page.locator(".card b").nth(k).bounding_box()["y"] for k in range(4)]
    assert len(set(tops)) == 1
    assert page.locator(".card i").all_text_contents() == ["points", "share of the time", "of the time", "points"]
    playwright.expect(page.locator("#curve")).to_contain_text("risk: share of the time", timeout=LONGEST)
    swim = ca.Problem(ca.worlds.river_swim(), 2.0 * ca.Entropy() + ca.Variance(), 1.0)
    with running(Studio(swim, "swim")) as other:
        reads(visit(other), "#risk-name", swim.risk_label)


def test_files_in_and_out(site, visit, tmp_path):
    page = visit(site)
    page.locator("#files summary").click()
    with page.expect_download() as found:
        page.get_by_role("button", name="Policy").click()
    found.value.save_as(tmp_path / "policy.csv")
    solution = ca.solve(ca.Problem(EXAMPLES["maze"].grid.model(), ca.Variance(), 10.0))
    assert len((tmp_path / "policy.csv").read_text().splitlines()) == 1 + np.count_nonzero(solution.policy)


@pytest.mark.parametrize(("width", "height"), [(390, 844), (1280, 800)])
def test_nothing_sticks_out(site, visit, width, height):
    page = visit(site, width, height)
    assert page.evaluate("() => document.documentElement.scrollWidth") <= width
    assert page.evaluate(NAMELESS) == []


def test_an_answer_can_be_read_in_the_dark(site, browser):
    colours = set()
    for scheme in ("light", "dark"):
        context = browser.new_context(color_scheme=scheme)
        page = context.new_page()
        page.goto(site.address)
        page.wait_for_selector("#map")
        colours.add(page.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        context.close()
    assert len(colours) == 2


@pytest.mark.parametrize("name", FILES)
def test_files_of_the_page_are_short(name):
    lines = FILES[name].read_text().splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 120 or name.endswith(".svg")
