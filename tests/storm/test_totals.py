"""Undiscounted questions on PRISM models that stormpy ships: totals, probabilities to come somewhere, and both at once.

Storm may stay for ever where nothing is paid; here a policy comes to an end. The questions below are those where that
is the same: maxima of probabilities, totals of models whose policies all end, and least costs until the end.
"""

import numpy as np
import pytest

import cautious as ca

REWARD = {"firewire3-0.5": "time_sending"}


def model(storm, tmp_path, name, sign=1.0):
    storm.ask(work="build", model=name, folder=str(tmp_path))
    read = ca.read_model(tmp_path / "model.umb", discount=0.5, reward=REWARD.get(name))
    return ca.MDP(read.transitions, sign * read.rewards, 1.0, read.start, allowed=read.allowed)


def ending_in(mdp, goal):
    """The model in which these states are the end."""
    rows = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    rewards = mdp.rewards.copy()
    rows[goal] = 0.0
    for state in goal:
        rows[state, :, state] = 1.0
    rewards[goal] = 0.0
    return ca.MDP(rows, rewards, 1.0, mdp.start, allowed=mdp.allowed | np.isin(np.arange(mdp.n_states), goal)[:, None])


# model, and the label of the end where the model has none of its own
TOTALS = [
    ("coin2-2", "finished", "min"),
    ("coin2-2", "finished", "max"),
    ("die_c1", None, "max"),
    ("die_c1", None, "min"),
    ("die_selection", None, "max"),
    ("die_selection", None, "min"),
    ("firewire3-0.5", None, "max"),
    ("firewire3-0.5", None, "min"),
    ("leader4", None, "max"),
    ("leader4", None, "min"),
    ("maze_2", None, "min"),
    ("maze_2_multigoal", None, "min"),
    ("multiobjective1", None, "max"),
    ("multiobjective1", None, "min"),
    ("slipgrid", "goal", "min"),
    ("tiny_rewards", None, "max"),
    ("tiny_rewards", None, "min"),
    ("two_dice", None, "max"),
    ("two_dice", None, "min"),
    ("wlan0-2-2", None, "max"),
]


@pytest.mark.parametrize(("name", "label", "direction"), TOTALS)
def test_totals(storm, tmp_path, name, label, direction):
    sign = 1.0 if direction == "max" else -1.0
    mdp = model(storm, tmp_path, name, sign)
    if label is not None:
        goal = storm.ask(work="label", name=label)
        mdp = ending_in(mdp, goal)
        expected = storm.ask(work="total", direction=direction, ends=goal)
    elif direction == "min":
        expected = storm.ask(work="total", direction="min", ends=np.flatnonzero(mdp.ended).tolist())
    else:
        expected = storm.ask(work="total", direction="max")
    solution = ca.solve(ca.Problem(mdp, horizon="total"), tolerance=1e-7).require()
    assert sign * solution.objective == pytest.approx(expected, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["maze_2", "maze_2_multigoal"])
def test_totals_without_bound(storm, tmp_path, name):
    mdp = model(storm, tmp_path, name)
    assert storm.ask(work="total", direction="max") == "inf"
    with pytest.raises(ca.InputError, match=r"one can go on for ever in state 1, .* has no largest value"):
        ca.Problem(mdp, horizon="total")


@pytest.mark.parametrize("name", ["coin2-2", "csma2-2", "multiobjective2"])
def test_models_that_never_end(storm, tmp_path, name):
    mdp = model(storm, tmp_path, name)
    assert storm.ask(work="total", direction="max") == "inf"
    with pytest.raises(ca.InputError, match="from state 0 no policy comes to an end"):
        ca.Problem(mdp, horizon="total")


CHANCES = [
    ("coin2-2", "all_coins_equal_1", "max"),
    ("die_c1", "one", "max"),
    ("die_c1", "one", "min"),
    ("die_selection", "six", "max"),
    ("die_selection", "six", "min"),
    ("leader3", "elected", "max"),
    ("leader4", "elected", "min"),
    ("maze_2", "goal", "max"),
    ("maze_2_multigoal", "goalalt1", "max"),
    ("scheduler_generation", "target", "max"),
    ("scheduler_generation", "target", "min"),
    ("slipgrid", "goal", "max"),
    ("tiny_rewards", "target", "max"),
    ("two_dice", "seven", "max"),
    ("two_dice", "seven", "min"),
]


@pytest.mark.parametrize(("name", "label", "direction"), CHANCES)
def test_probabilities(storm, tmp_path, name, label, direction):
    read = model(storm, tmp_path, name)
    goal = storm.ask(work="label", name=label)
    expected = storm.ask(work="reach", direction=direction, goal=goal)
    mdp = ca.MDP(read.transitions, np.zeros(read.shape), 1.0, read.start, allowed=read.allowed)
    sign = 1.0 if direction == "max" else -1.0
    solution = ca.solve(ca.Problem(mdp, -sign * ca.Reach(goal), horizon="total"), tolerance=1e-7).require()
    assert sign * solution.objective == pytest.approx(expected, abs=1e-6)


# model, max or min of the reward, states to come to, what their probability must be
TOGETHER = [
    ("die_c1", "max", [6, 7, 10], "<=0.592"),
    ("die_selection", "max", [10], ">=0.07"),
    ("die_selection", "min", [10], "<=0.07"),
    ("die_selection", "max", [6, 7, 10], "<=0.452"),
    ("die_selection", "min", [6, 7, 10], "<=0.452"),
    ("firewire3-0.5", "min", [1103, 1259, 2091, 2605], ">=0.3"),
    ("firewire3-0.5", "min", [3328], ">=0.133"),
    ("leader4", "max", [855, 976, 1620, 2018], ">=0.081"),
    ("maze_2", "min", [7, 8], ">=0.492"),
    ("maze_2", "min", [12], ">=0.446"),
    ("multiobjective1", "max", [1], "<=0.4"),
    ("multiobjective1", "min", [1], ">=0.4"),
]


@pytest.mark.parametrize(("name", "direction", "goal", "bound"), TOGETHER)
def test_totals_and_probabilities_together(storm, tmp_path, name, direction, goal, bound):
    sign = 1.0 if direction == "max" else -1.0
    mdp = model(storm, tmp_path, name, sign)
    expected = storm.ask(work="multi", direction=direction, goal=goal, bound=bound)
    limit = float(bound[2:])
    constraint = ca.Reach(goal) >= limit if bound[0] == ">" else ca.Reach(goal) <= limit
    solution = ca.solve(ca.Problem(mdp, constraints=[constraint], horizon="total"))
    assert sign * solution.require().expected_return == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert solution.constraints[0].slack >= 0


@pytest.mark.parametrize(("name", "goal"), [("die_selection", [6, 7, 10]), ("firewire3-0.5", [3328])])
def test_probabilities_that_cannot_be_had(storm, tmp_path, name, goal):
    mdp = model(storm, tmp_path, name)
    most = storm.ask(work="reach", direction="max", goal=goal)
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Reach(goal) >= most + 1e-3], horizon="total"))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.facts["best_alone"][0] == pytest.approx(most, abs=1e-6)
