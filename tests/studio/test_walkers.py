"""Walkers: they go where the policy and the model lead them, with the chances that the model has."""

import json

import numpy as np
import pytest

import cautious as ca
from cautious.studio.answers import walk_message
from cautious.studio.messages import Message
from cautious.studio.scenario import EXAMPLES, Limits, RiskChoice, Statement
from cautious.studio.session import Session
from cautious.studio.walks import LARGEST_ROWS
from studio.browser import LONGEST
from studio.conftest import statement, unpack

WALK = """async ([head, lists, count, steps]) => {
  const { Walk } = await import("./walk.js");
  const arrays = Object.fromEntries(Object.entries(lists).map(([name, list]) => [name, new Float64Array(list)]));
  const walk = new Walk({ ...head, ...arrays }, count, 7);
  for (let k = 0; k < steps; k += 1) walk.step();
  return [walk.finished, walk.hit];
}"""


def walk(asked, session=None):
    """Head and arrays of what a page gets for walkers."""
    session = Session() if session is None else session
    solution = session.solve(asked, lambda: False)
    head, payload = unpack(walk_message(Message("walk", 1, asked, "map"), solution, session.scenario(asked)))
    arrays, at = {}, 0
    for name, kind, size in head["arrays"]:
        arrays[name] = np.frombuffer(payload, np.dtype(f"<{kind}"), size, at)
        at += 4 * size
    assert at == len(payload)
    return head, arrays, solution


def entered(head, arrays):
    """The chance that a walk enters danger, step by step over all states: walks of the page, without chance."""
    n, width = head["states"], head["actions"]
    policy = arrays["policy"].reshape(head["steps"], n, width).astype(float)
    pair = np.repeat(np.arange(n * width), np.diff(arrays["pointer"].astype(int)))
    step = np.zeros((n * width, n))
    np.add.at(step, (pair, arrays["next"]), arrays["chance"].astype(float))
    danger = np.isin(arrays["place"], arrays["danger"])
    outside = arrays["start"] * ~danger
    for time in range(head["longest"]):
        now = policy[min(time, head["steps"] - 1)]
        outside = np.einsum("s,sa,sat->t", outside, now, step.reshape(n, width, n)) * ~danger
    return 1 - outside.sum()


@pytest.mark.parametrize(
    "asked",
    [
        statement("maze", "none"),
        statement("bridge", "peak", 0.5, horizon=12),
        statement("maze", "none", limits=Limits(ever=0.05), horizon="total"),
    ],
)
def test_walkers_enter_danger_as_often_as_the_model_says(site, visit, asked):
    head, arrays, solution = walk(asked)
    wanted = entered(head, arrays)
    lists = {name: one.tolist() for name, one in arrays.items()}
    # the page needs no socket for this
    finished, hit = visit(site).evaluate(WALK, [json.loads(json.dumps(head)), lists, 400, 300])
    assert finished > 1000
    error = np.sqrt(wanted * (1 - wanted) / finished)
    assert abs(hit / finished - wanted) < 4 * error + 1e-6
    if asked.limits.ever is not None:
        # the policy remembers whether danger was entered
        assert solution.mdp.memory is not None
        assert wanted == pytest.approx(0.05, abs=1e-5)


def test_a_policy_of_each_step():
    head, arrays, solution = walk(statement("bridge", "none", horizon=6))
    assert (head["steps"], head["longest"]) == (6, 6)
    assert arrays["policy"] == pytest.approx(solution.policy.ravel())


def test_where_walks_end():
    head, arrays, _ = walk(statement("maze", "none"))
    goal = "".join(EXAMPLES["maze"].grid.rows).replace("#", "").index("G")
    assert arrays["ends"].tolist() == [goal]
    assert head["longest"] == 90
    assert walk(statement("drift", "none", horizon="average"))[0]["longest"] is None


def test_models_too_large_for_walkers(monkeypatch):
    monkeypatch.setattr("cautious.studio.walks.LARGEST_ROWS", 100)
    assert LARGEST_ROWS > 100
    with pytest.raises(ca.InputError, match="walkers need at most 100 transitions, and this model has"):
        walk(statement())


def test_walkers_walk_stop_and_flash(site, visit):
    page = visit(site, moving=True)
    page.wait_for_function("() => Number(document.querySelector('#map-walked').dataset.finished) > 0", timeout=LONGEST)
    page.locator("#walk-box [data-count='100']").click()
    page.locator("#walk-speed").fill("100")
    # risk-neutral, the maze is dangerous
    page.locator("#caution").press("Home")
    said = "() => /[1-9].*% entered danger/.test(document.querySelector('#map-walked').textContent)"
    page.wait_for_function(said, timeout=LONGEST)
    page.locator("#walk-play").click()
    assert page.locator("#walk-play").text_content() == "Walk"
    page.wait_for_timeout(100)
    pictures = [page.evaluate("() => document.querySelector('#map-walkers').toDataURL()") for _ in range(2)]
    assert pictures[0] == pictures[1]
    page.locator("#walk-play").click()
    page.wait_for_timeout(200)
    assert page.evaluate("() => document.querySelector('#map-walkers').toDataURL()") != pictures[0]


def test_who_wants_no_motion_gets_none(site, visit):
    page = visit(site)
    assert page.locator("#walk-play").text_content() == "Walk"
    page.wait_for_timeout(400)
    assert page.locator("#map-walked").text_content() == ""


def test_a_page_asks_for_walkers_field_by_field(site):

    asked = statement().plain()
    with site.connect() as line:
        line.recv(10)
        line.send(json.dumps({"type": "walk", "number": 1, "statement": asked, "side": "up"}))
        assert "side is 'up'" in json.loads(line.recv(30))["message"]
        line.send(json.dumps({"type": "walk", "number": 2, "statement": asked, "side": "left"}))
        head, _ = unpack(line.recv(30))
        assert (head["type"], head["number"], head["side"], head["states"]) == ("walk", 2, "left", 92)


def test_a_kept_answer_serves_two_problems():
    session = Session()
    one, other = statement("maze", "variance"), Statement(EXAMPLES["maze"].grid, RiskChoice(), 0.0)
    first = session.solve(one, lambda: False)
    second = session.solve(other, lambda: False)
    assert session.solve(one, lambda: False) is first
    assert session.solve(other, lambda: False) is second
