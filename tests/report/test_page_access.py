"""Report pages in a browser: axe-core finds nothing serious, and on a phone nothing is cut off."""

import pytest

import cautious as ca
from studio.browser import BROWSER, FLAGS, driver, serious_of_files

pytest.importorskip("matplotlib", reason="extra plot")
# elements that stick out of a phone, and whether one around them scrolls
CUT_OFF = """() => [...document.querySelectorAll("table, img, pre, dl")].filter((one) => {
  if (one.getBoundingClientRect().right <= innerWidth + 1) return false;
  for (let around = one.parentElement; around !== null; around = around.parentElement)
    if (["auto", "scroll"].includes(getComputedStyle(around).overflowX)) return one.tagName === "TABLE";
  return true;
}).map((one) => one.outerHTML.slice(0, 200))"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Pages of different kinds."""
    folder = tmp_path_factory.mktemp("pages")
    machine, maze = ca.worlds.machine_replacement(), ca.worlds.problem("maze")
    limit = ca.Exposure("broken") <= 0.005
    found = {
        "map": ca.solve(maze),
        "limit": ca.solve(ca.Problem(machine, constraints=[limit])),
        "impossible": ca.solve(ca.Problem(machine, constraints=[ca.Exposure("wear 0") <= 0.0])),
        "frontier": ca.frontier(maze.mdp, ca.Variance(), [0, 10]),
        "steps": ca.solve(ca.Problem(machine, horizon=12)),
        "learned": ca.learn(machine.simulator(), samples=5000),
    }
    for name, what in found.items():
        what.report(folder / f"{name}.html")
    return sorted(folder.glob("*.html"))


def test_axe_finds_nothing_serious(pages):
    assert serious_of_files(pages) == {}


def test_nothing_is_cut_off_on_a_phone(pages):
    with driver() as started:
        browser = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        page = browser.new_page(viewport={"width": 390, "height": 844})
        for path in pages:
            page.goto(path.as_uri())
            assert page.evaluate("document.documentElement.scrollWidth") <= 390, path.name
            assert page.evaluate(CUT_OFF) == [], path.name
        browser.close()


def test_a_policy_that_mixes_stands_beside_the_best_one_that_does_not(tmp_path):
    machine = ca.worlds.machine_replacement()
    problem = ca.Problem(machine, constraints=[ca.Exposure("broken") <= 0.005])
    mixed, one = ca.solve(problem), ca.solve(problem, deterministic=True)
    mixed.report(tmp_path / "mixed.html")
    text = (tmp_path / "mixed.html").read_text()
    section = text[text.index("With one action in every state") :]
    assert f'<td class="words">{mixed.expected_return:,.0f} euros</td>' in section
    assert f'<td class="words">{one.expected_return:,.0f} euros</td>' in section
    assert mixed.expected_return > one.expected_return + 1
    assert "repair (67&nbsp;%), operate (33&nbsp;%)" in section
    # nothing is mixed where the limit does not matter, and one that was asked for has a section of its own
    for solution in (one, ca.solve(ca.Problem(machine, constraints=[ca.Exposure("broken") <= 0.9]))):
        solution.report(tmp_path / "other.html")
        assert "With one action in every state" not in (tmp_path / "other.html").read_text()


def test_where_no_policy_with_one_action_keeps_the_limits_the_page_says_so(tmp_path):
    # going on pays, resting does not, and half of the time must be spent on each
    mdp = ca.MDP([[[1.0], [1.0]]], [[1.0, 0.0]], 0.9)
    halves = [ca.Return([[1.0, 0.0]], name="work") <= 5.0, ca.Return([[1.0, 0.0]], name="work") >= 5.0]
    ca.solve(ca.Problem(mdp, constraints=halves)).report(tmp_path / "halves.html")
    assert "No policy that takes one action in every state keeps the limits." in (tmp_path / "halves.html").read_text()
