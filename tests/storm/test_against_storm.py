"""PRISM models that stormpy ships, built by Storm, read by us in three ways, solved by both."""

import numpy as np
import pytest

import cautious as ca

# model, discount, name of the first reward structure where there are several
MODELS = [
    ("coin2-2", 0.95, None),
    ("csma2-2", 0.99, None),
    ("die_c1", 0.9, None),
    ("die_selection", 0.95, None),
    ("firewire3-0.5", 0.95, "time_sending"),
    ("leader4", 0.95, None),
    ("maze_2", 0.9, None),
    ("maze_2_multigoal", 0.95, None),
    ("multiobjective1", 0.9, None),
    ("multiobjective2", 0.99, None),
    ("slipgrid", 0.95, None),
    ("tiny_rewards", 0.5, None),
    ("two_dice", 0.95, None),
]


def negated(mdp):
    return ca.MDP(mdp.transitions, -mdp.rewards, mdp.discount, mdp.start, allowed=mdp.allowed)


@pytest.mark.parametrize(("name", "discount", "reward"), MODELS, ids=[name for name, _, _ in MODELS])
def test_expected_discounted_reward(storm, tmp_path, name, discount, reward):
    n_states, n_choices, n_transitions = storm.ask(work="build", model=name, folder=str(tmp_path))
    high, low = (storm.ask(work="best", discount=discount, direction=word) for word in ("max", "min"))
    found = [
        ca.read_model(tmp_path / "model.umb", discount=discount, reward=reward),
        ca.read_model(tmp_path / "prism.tra", discount=discount),
        ca.read_model(tmp_path / "storm.tra", discount=discount),
    ]
    for mdp in found:
        assert (mdp.n_states, int(mdp.allowed.sum()), mdp.transitions.nnz) == (n_states, n_choices, n_transitions)
        assert (mdp.transitions != found[0].transitions).nnz == 0
        assert np.array_equal(mdp.rewards, found[0].rewards)
    best = ca.solve(ca.Problem(found[0]), tolerance=1e-9).require().expected_return
    worst = -ca.solve(ca.Problem(negated(found[1])), tolerance=1e-9).require().expected_return
    assert best == pytest.approx(high, rel=1e-6, abs=1e-9)
    assert worst == pytest.approx(low, rel=1e-6, abs=1e-9)


def exposure_range(mdp, unsafe):
    """The least exposure to some states, and the largest of a policy that is best for the reward alone."""
    mask = np.zeros(mdp.shape)
    mask[unsafe] = 1.0
    # among equally good policies the one that minds the states least; which one a solver finds is its own affair
    bonus = 1e-6 * max(1.0, np.abs(mdp.rewards).max())
    found = [
        ca.solve(ca.Problem(ca.MDP(mdp.transitions, reward, mdp.discount, mdp.start, allowed=mdp.allowed)), 1e-9)
        for reward in (-mask, mdp.rewards + bonus * mask)
    ]
    least, most = (float(one.require().occupancy[unsafe].sum()) for one in found)
    return least, most


# model, max or min of the reward, states whose exposure is limited, whether that costs something
LIMITED = [
    ("coin2-2", "max", [34, 44, 154, 159], False),
    ("csma2-2", "max", [4, 5], True),
    ("csma2-2", "min", [14, 29], True),
    ("die_c1", "max", [1, 3, 4, 5, 6], False),
    ("die_selection", "max", [0, 2, 3, 5], True),
    ("die_selection", "min", [0, 1, 6, 7, 8, 9, 10, 11], True),
    ("firewire3-0.5", "max", [6, 7, 9, 10], True),
    ("leader4", "max", [24, 28], False),
    ("maze_2", "min", [0, 14], True),
    ("multiobjective1", "max", [0, 2], True),
    ("multiobjective2", "max", [1], True),
    ("slipgrid", "max", [1, 2, 3, 4, 5, 6, 7, 8], False),
    ("tiny_rewards", "max", [1], True),
    ("two_dice", "max", [1, 2], False),
]
REWARD = {name: reward for name, _, reward in MODELS}


@pytest.mark.parametrize(
    ("name", "direction", "unsafe", "costs"), LIMITED, ids=[f"{name} {direction}" for name, direction, *_ in LIMITED]
)
def test_exposure_limit_is_the_safe_set_without_caution(storm, tmp_path, name, direction, unsafe, costs):
    """The barrier costs at most ``caution`` in return: with little of it, SafeSet is the hard limit."""
    discount, sign = 0.95, 1.0 if direction == "max" else -1.0
    storm.ask(work="build", model=name, folder=str(tmp_path))
    read = ca.read_model(tmp_path / "model.umb", discount=discount, reward=REWARD[name])
    mdp = read if direction == "max" else negated(read)
    least, most = exposure_range(mdp, unsafe)
    assert most > least + 1e-3, "the limit would not bind"
    limit = 0.5 * (least + most)
    asked = {"discount": discount, "direction": direction}
    hard = sign * storm.ask(work="limited", unsafe=unsafe, limit=limit / (1 - discount), **asked)
    unlimited = sign * storm.ask(work="best", **asked)
    assert (hard < unlimited - 1e-4 * max(1, abs(unlimited))) == costs
    safe = np.setdiff1d(np.arange(mdp.n_states), unsafe)
    caution = 1e-7 * max(1.0, abs(hard))
    solution = ca.solve(ca.Problem(mdp, ca.SafeSet(safe, slack=limit), caution), tolerance=1e-9)
    assert float(solution.occupancy[unsafe].sum()) < limit
    assert solution.expected_return == pytest.approx(hard, rel=1e-6, abs=1e-6)


def test_storm_reads_what_we_write(storm, tmp_path):
    rng = np.random.default_rng(0)
    allowed = np.array([[1, 1], [0, 1], [1, 0], [1, 1]], bool)
    mdp = ca.MDP(
        rng.dirichlet(np.ones(4), size=(4, 2)),
        rng.random((4, 2)),
        0.9,
        [0, 1, 0, 0],
        allowed=allowed,
        state_names=["a", "b c", "é", "d"],
        action_names=["left", "go right"],
    )
    mdp.save(tmp_path / "ours.umb")
    assert storm.ask(work="read", path=str(tmp_path / "ours.umb")) == [4, 6, mdp.transitions.nnz]
    value = storm.ask(work="best", discount=0.9, direction="max")
    assert ca.solve(ca.Problem(mdp), tolerance=1e-9).require().expected_return == pytest.approx(value, rel=1e-8)
