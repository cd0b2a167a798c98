"""Rewards near the end of double precision: counted, or refused by the row, never with a warning."""

import numpy as np
import pytest

import cautious as ca


def table(*rewards, done=False):
    return {
        "state": [0, 1, 1, 0],
        "action": [0, 0, 0, 0],
        "reward": list(rewards),
        "next_state": [1, 0, 0, 1],
        "done": [done] * 4,
    }


def test_equal_rewards_are_kept_whatever_their_size():
    logged = ca.from_transitions(table(1e300, 5.0, 5.0, 1e300), 0.9)
    assert logged.rewards.ravel().tolist() == [1e300, 5.0]
    assert ca.solve(ca.Problem(logged)).expected_return == pytest.approx((0.5 + 0.45) * 1e300 / (1 - 0.81))


@pytest.mark.parametrize("case", ["different", "restart"])
def test_what_cannot_be_squared_is_refused_by_its_row(case):
    rows = table(1.0, 2.0, -1e200, 1.0) if case == "different" else table(1.0, -1e200, -1e200, 1.0, done=True)
    given = {} if case == "different" else {"at_end": "restart", "start": {0: 0.5, 1: 0.5}}
    row = 2 if case == "different" else 1
    with pytest.raises(ca.InputError, match=rf"row {row} .*the reward is -1e\+200; .* rescale the rewards"):
        ca.from_transitions(rows, 0.9, **given)


def test_a_range_that_cannot_be_squared_is_refused():
    rows = table(1.0, 2.0, 3.0, 1.0) | {"action": [0, 0, 0, 1]}
    with pytest.raises(ca.InputError, match=r"rewards up to 1e\+200 have no square"):
        ca.from_transitions(rows, 0.9, untried="pessimistic", reward_range=(-1e200, 10))


def test_rewards_that_add_up_to_infinity_are_refused():
    with pytest.raises(ca.InputError, match="add up to more"):
        ca.from_transitions(table(1e308, 1e308, 1e308, 1e308), 0.9)


def test_pairs_that_always_pay_the_same_have_no_spread_after_restarts(tmp_path):
    """A third of 0.1 three times is not 0.1: such a model could not be written to formats without second moments."""
    rng = np.random.default_rng(0)
    states = rng.integers(5, size=300)
    rows = {"state": states, "action": rng.integers(2, size=300), "reward": 0.1 * states, "done": rng.random(300) < 0.3}
    rows["next_state"] = rng.integers(5, size=300)
    logged = ca.from_transitions(rows, 0.9, at_end="restart")
    assert np.array_equal(logged.rewards, np.repeat(0.1 * np.arange(5)[:, None], 2, axis=1))
    assert np.array_equal(logged.reward_square, logged.rewards**2)
    logged.save(tmp_path / "log.csv")
    assert np.array_equal(ca.read_model(tmp_path / "log.csv").rewards, logged.rewards)
