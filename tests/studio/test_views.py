"""Side by side and the learning race, in a browser and message by message."""

import json
import threading

import numpy as np
import pytest

import cautious as ca
from cautious.studio import race as races
from cautious.studio.race import Race, sample_sizes
from cautious.studio.returns import return_arrays
from cautious.studio.scenario import EXAMPLES, Limits
from cautious.studio.session import Session
from studio.browser import LONGEST, shown
from studio.conftest import solve_message, statement, unpack

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")


def raced(asked, samples, while_running=lambda race, head: None):
    """Everything that a race says."""
    said = []

    def tell(head, arrays):
        said.append((head, arrays))
        while_running(race, head)

    race = Race(Session(), asked, samples, 0, 1, tell)
    said.append(({"event": "end", "why": race.run()}, {}))
    return said


@pytest.fixture
def hurried(monkeypatch):
    monkeypatch.setattr(races, "LEAST_SECONDS_PER_POINT", 0.0)
    monkeypatch.setattr(races, "POINTS_PER_DECADE", 2)


def test_points_are_the_exact_worth_of_what_learn_delivers(hurried):
    asked = statement("bridge", "peak", 1.0)
    said = raced(asked, 1000)
    start, points = said[0][0], [(head, arrays) for head, arrays in said if head["event"] == "point"]
    mdp = EXAMPLES["bridge"].grid.model()
    risk = Session().scenario(asked).risk(asked.risk)
    best = ca.solve(ca.Problem(mdp, risk, 1.0))
    assert start["optimum"] == pytest.approx(best.objective, abs=1e-6)
    assert start["sizes"] == sample_sizes(int(mdp.allowed.sum()), 1000)
    assert len(points) == 3 * len(start["sizes"])
    for head, arrays in points:
        learned = ca.learn(mdp.simulator(), risk, 1.0, head["size"], head["method"], 0)
        assert np.allclose(arrays["policy"], learned.policy.ravel(), atol=1e-6)
        d = arrays["occupancy"].astype(float).reshape(mdp.shape)
        worth = float((d * mdp.rewards).sum()) / (1 - mdp.discount) - max(d[part].sum() for part in risk.sets)
        assert head["objective"] == pytest.approx(worth, abs=1e-4)
        assert head["objective"] <= start["optimum"] + 1e-6
    assert said[-1][0]["why"] == "done"


def test_methods_that_cannot_take_part_say_why(hurried):
    said = [head for head, _ in raced(statement("bridge", "cvar", 1.0), 500)]
    refused = [head for head in said if head["event"] == "refused"]
    assert [head["method"] for head in refused] == ["paper"]
    assert "not convex" in refused[0]["why"]
    assert {head["method"] for head in said if head["event"] == "point"} == {"primal-dual", "plug-in"}


def test_habits_can_be_learned(hurried):
    said = [head for head, _ in raced(statement("bridge", "kl", 1.0), 500)]
    assert {head["method"] for head in said if head["event"] == "point"} == {"paper", "primal-dual", "plug-in"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (statement("maze", "none", horizon=12), "discounted for ever"),
        (statement("maze", "none", limits=Limits(0.05)), "take the limits away"),
    ],
)
def test_what_cannot_be_raced(asked, words):
    with pytest.raises(ca.IncompatibleError, match=words):
        raced(asked, 1000)


def test_too_few_samples():
    with pytest.raises(ca.InputError, match="100 samples do not reach every pair once; there are 368 pairs"):
        raced(statement(), 100)


def test_a_race_is_paused_resumed_and_stopped(hurried):
    seen = []

    def control(race, head):
        if head["event"] != "point":
            return
        seen.append(head)
        if len(seen) == 1:
            race.control("pause")
            threading.Timer(0.3, lambda: (seen.append("resumed"), race.control("resume"))).start()
        elif len(seen) == 4:
            race.control("stop")

    said = raced(statement("bridge", "none"), 5000, control)
    # nothing was said while it was paused
    assert [isinstance(one, str) for one in seen] == [False, True, False, False]
    assert said[-1][0] == {"event": "end", "why": "stopped"}


def test_one_race_for_a_page_two_for_a_studio(site):
    def start(line, number):
        asked = json.loads(solve_message(number)) | {"type": "race", "samples": 10_000_000}
        line.send(json.dumps(asked))

    def hear(line, kind):
        while True:
            data = line.recv(60)
            head = unpack(data)[0] if isinstance(data, bytes) else json.loads(data)
            if head["type"] == kind and head.get("event") in (None, "start", "end"):
                return head

    with site.connect() as one, site.connect() as two, site.connect() as three:
        start(one, 1)
        assert hear(one, "race")["event"] == "start"
        start(one, 2)
        assert hear(one, "error")["message"] == "a race is running already; stop it first"
        start(two, 1)
        assert hear(two, "race")["event"] == "start"
        start(three, 1)
        assert "2 races are running in this studio" in hear(three, "error")["message"]
        for line in (one, two):
            line.send(json.dumps({"type": "control", "number": 9, "what": "stop"}))
            assert hear(line, "race")["why"] == "stopped"
        line.send(json.dumps({"type": "control", "number": 9, "what": "jump"}))
        assert "what is 'jump'" in hear(line, "error")["message"]
        # a page that is closed in the middle of a race gives its place back
        start(two, 3)
        assert hear(two, "race")["event"] == "start"
    with site.connect() as one:
        start(one, 1)
        assert hear(one, "race")["event"] == "start"


@pytest.mark.parametrize("horizon", [None, 12, "total"])
def test_returns_are_those_of_the_solution(horizon, monkeypatch):
    asked = statement("maze", "none", horizon=horizon)
    solution = Session().solve(asked, lambda: False)
    facts, arrays = return_arrays(solution)
    mass, mean = arrays["mass"].astype(float), arrays["mean"].astype(float)
    assert mass.sum() == pytest.approx(1, abs=1e-5)
    assert mass @ mean == pytest.approx(solution.expected_return, abs=1e-5)
    assert np.all(np.diff(mean) >= 0)
    assert mass.size <= 4000
    # the worst 5 % by simulation, far from the figure for another share
    played = ca.evaluate(solution.mdp, solution.policy, episodes=20_000, horizon=horizon or 400, seed=0)
    worst = np.sort(played.returns)[: len(played.returns) // 20].mean()
    assert facts["worst"] == pytest.approx(worst, abs=0.1)
    monkeypatch.setattr("cautious.studio.returns.LARGEST_ROWS", 10)
    with pytest.raises(ca.InputError, match="returns are drawn for models of at most 10 transitions"):
        return_arrays(solution)


def test_without_an_end_no_return_is_drawn(site, visit):
    page = visit(site)
    page.locator("#example").select_option("drift")
    page.locator("#horizon").select_option("average")
    page.locator("#tab-sides").click()
    playwright.expect(page.locator("#returns-words")).to_contain_text("no episode ends", timeout=LONGEST)
    playwright.expect(page.locator("#verdict")).to_contain_text("Proved")


def test_side_by_side_in_a_browser(site, visit):
    page = visit(site, moving=True)
    page.locator("#tab-sides").click()
    maze = EXAMPLES["maze"].grid
    neutral = ca.solve(ca.Problem(maze.model()))
    cautious = ca.solve(ca.Problem(maze.model(), ca.Variance(), 10.0))
    for side, solution in (("left", neutral), ("right", cautious)):
        words = f"expected return {shown(solution.expected_return)}"
        playwright.expect(page.locator(f"#{side}-figures")).to_contain_text(words, timeout=LONGEST)
    finished = (
        "() => ['left', 'right'].every((one) => Number(document.getElementById(`${one}-walked`).dataset.finished))"
    )
    page.locator("#walk-speed").fill("100")
    page.wait_for_function(finished, timeout=LONGEST)
    # another caution is another right side, and the same left one
    page.locator("#caution").press("Home")
    words = f"expected return {shown(neutral.expected_return)}"
    playwright.expect(page.locator("#right-figures")).to_contain_text(words, timeout=LONGEST)
    page.locator("#tab-sides").press("ArrowLeft")
    playwright.expect(page.locator("#map")).to_be_visible()
    playwright.expect(page.locator("#walk-box")).to_be_visible()


def test_a_race_in_a_browser(site, visit):
    page = visit(site)
    page.locator("#example").select_option("bridge")
    page.locator("#tab-race").click()
    page.locator("#race-samples").select_option("10000")
    page.locator("#race-start").click()
    playwright.expect(page.locator("#race-chart .best")).to_be_attached(timeout=LONGEST)
    page.locator("#race-pause").click()
    playwright.expect(page.locator("#race-pause")).to_have_text("Resume")
    page.wait_for_timeout(300)
    before = page.locator("#race-chart circle").count()
    page.wait_for_timeout(500)
    assert page.locator("#race-chart circle").count() == before
    page.locator("#race-pause").click()
    playwright.expect(page.locator("#race-chart circle").nth(before + 3)).to_be_visible(timeout=LONGEST)
    # another problem, another race
    page.locator("#caution").press("Home")
    playwright.expect(page.locator("#race-words")).to_contain_text("The problem has changed")
    page.locator("#limit-time-counts").check()
    playwright.expect(page.locator("#verdict")).to_contain_text("that keeps the limit")
    page.locator("#race-start").click()
    playwright.expect(page.locator("#race-words")).to_contain_text("take the limits away")
    playwright.expect(page.locator("#race-start")).to_be_enabled()
