"""Models whose states are counts, drawn as boards, and the worlds that a page offers."""

import numpy as np
import pytest

import cautious as ca
from cautious.studio.board import board_of
from cautious.studio.messages import World, parse
from cautious.studio.opening import opened_words, opened_world
from cautious.studio.scenario import WORLDS
from studio.browser import LONGEST, reads, shown

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")


def named(names):
    """A model whose states have these names and stay where they are."""
    return ca.MDP(np.eye(len(names))[:, None], np.zeros((len(names), 1)), 0.9, state_names=names)


def test_one_count_is_a_line_that_is_broken_and_two_are_rows_and_columns():
    desk, shelf, clinic = (board_of(ca.worlds.problem(name).mdp) for name in ("queue", "inventory", "clinic"))
    assert (desk.rows, desk.things, desk.counts[6]) == ((8 * ".", 8 * "."), ("present",), (6,))
    assert shelf.rows == (7 * ".",) * 3
    assert (clinic.rows, clinic.things, clinic.counts[11]) == ((9 * ".",) * 6, ("urgent", "routine"), (1, 2))
    # walls fill the last line, and are no states
    assert board_of(named([f"{n} in the shop" for n in range(13)])).rows == (7 * ".", 6 * "." + "#")


@pytest.mark.parametrize(
    "names",
    [
        ["a", "b"],
        ["0 here", "1 there"],
        ["1 here", "2 here"],
        ["1 here", "0 here"],
        ["0 here, 0 there", "1 here"],
        ["0 a, 0 b", "0 a, 1 b", "1 a, 0 b"],
        ["0 a, 0 b, 0 c", "0 a, 0 b, 1 c"],
        ["-1 here", "0 here"],
        ["0 here ", "1 here "],
        [f"{n} here" for n in range(62)],
    ],
)
def test_other_names_are_no_board(names):
    assert board_of(named(names)) is None


def test_other_worlds_are_no_boards_and_a_map_stays_a_map():
    assert [name for name in ca.worlds.names() if board_of(ca.worlds.problem(name).mdp)] == [
        "inventory",
        "queue",
        "clinic",
    ]
    assert opened_words(ca.worlds.problem("maze"), "maze")["board"] is None


@pytest.mark.parametrize("name", WORLDS)
def test_worlds_have_danger_and_a_limit_that_costs_something(name):
    problem, words = opened_world(name)
    assert words["statement"] == WORLDS[name][0].plain()
    states = list(WORLDS[name][0].danger)
    bound = WORLDS[name][0].limits.time
    free = ca.solve(ca.Problem(problem.mdp))
    kept = ca.solve(ca.Problem(problem.mdp, constraints=[ca.Exposure(states) <= bound]))
    assert free.certificate.visits.pairs[states].sum() > bound
    assert kept.expected_return < free.expected_return


def test_only_the_worlds_of_the_page_are_opened():
    assert parse('{"type": "world", "number": 3, "name": "queue"}') == World(3, "queue")
    with pytest.raises(ca.InputError, match=r"name is 'maze'; it can be inventory, queue, clinic"):
        parse('{"type": "world", "number": 3, "name": "maze"}')


def test_a_world_is_a_board_can_be_changed_and_is_there_after_loading_again(site, visit):
    page = visit(site)
    page.select_option("#example", "world:clinic")
    mdp = ca.worlds.clinic()
    full = list(WORLDS["clinic"][0].danger)
    best = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure(full) <= 0.1]))
    reads(page, "#return", shown(best.expected_return))
    legend = " ".join(page.locator("#legend-board").inner_text().split())
    assert legend == "■ urgent □ routine treat urgent treat routine pause"
    assert page.is_hidden("#graph-frame")
    assert page.is_hidden("#table-frame")
    page.hover("#map", position={"x": 4, "y": 4})
    assert page.locator("#here").inner_text().startswith("0 urgent, 0 routine; ")
    page.fill("#limit-time", "20")
    page.keyboard.press("Tab")
    best = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure(full) <= 0.2]))
    reads(page, "#return", shown(best.expected_return))
    page.wait_for_timeout(1600)
    page.reload()
    reads(page, "#return", shown(best.expected_return))
    assert page.locator("#title").inner_text().startswith("Clinic: 54 states")


def test_a_link_to_a_world_is_short_and_opens(site, visit):
    page = visit(site, permissions=["clipboard-read", "clipboard-write"])
    page.select_option("#example", "world:queue")
    reads(page, "#danger", "5.00 %")
    page.click("#files summary")
    page.click("#share-link")
    playwright.expect(page.locator("#banner")).to_contain_text("copied", timeout=LONGEST)
    link = page.evaluate("() => navigator.clipboard.readText()")
    assert len(link) < 1000
    other = visit(site)
    other.evaluate("link => { location.hash = link.slice(link.indexOf('#') + 1); }", link)
    reads(other, "#danger", "5.00 %")
    other.wait_for_function("document.querySelector('#title').textContent.startsWith('Service desk')", timeout=LONGEST)
