"""The log's behaviour beside a policy, against what is known about the model that was logged."""

import numpy as np
import pytest

import cautious as ca
from logs_of import drawn_log


def test_against_the_known_model():
    mdp = ca.worlds.garnet(6, 2, 3, discount=0.7, seed=2)
    rng = np.random.default_rng(0)
    behaviour = rng.dirichlet([4, 4], size=6)
    policy = 0.7 * behaviour + 0.3 * rng.dirichlet([1, 1], size=6)
    logged = ca.from_transitions(drawn_log(mdp, 20_000, 12, rng, behaviour), 0.7)
    found = ca.off_policy(logged, policy)
    # twelve steps leave out at most 0.7^12/0.3 = 0.05
    for table, model, mean, error in (
        (behaviour, found.logged_model, found.logged_mean, found.logged_error),
        (policy, found.policy_model, found.policy_mean, found.policy_error),
    ):
        true = ca.evaluate(mdp, table, episodes=2).exact_mean
        assert model == pytest.approx(true, abs=0.05)
        assert true - 0.05 - 4 * error < mean < true + 4 * error
        assert 0.001 < error < 0.1
    assert found.episodes == found.cut_short == 20_000
    assert 100 < found.effective_episodes < 20_000
    own = ca.off_policy(logged, logged.logging_policy)
    assert own.policy_mean == pytest.approx(own.logged_mean)
    assert own.effective_episodes == pytest.approx(20_000)
    assert len(found.table()) == 4


def test_by_hand():
    rows = {
        "episode": [0, 0, 1, 2],
        "state": ["a", "b", "a", "a"],
        "action": ["x", "x", "y", "x"],
        "reward": [0.0, 1.0, 0.5, 2.0],
        "next_state": ["b", "a", "b", "b"],
        "done": [0, 1, 1, 0],
    }
    logged = ca.from_transitions(rows, 0.5, untried="forbid", at_end="absorb")
    found = ca.off_policy(logged, np.array([[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]]))
    assert found.logged_mean == pytest.approx((0.5 + 0.5 + 2.0) / 3)
    # the second episode is not the policy's; the others have equal weights
    assert found.policy_mean == pytest.approx((0.5 + 2.0) / 2)
    assert found.effective_episodes == pytest.approx(2)
    assert found.cut_short == 1
    never = ca.from_transitions({**rows, "action": ["x", "x", "x", "x"]}, 0.5, at_end="absorb")
    assert ca.off_policy(never, never.logging_policy).effective_episodes == pytest.approx(3)


def test_without_episodes_and_refusals():
    rows = [("a", "x", 1.0, "b"), ("b", "x", 0.0, "a"), ("a", "y", 0.0, "a"), ("b", "y", 0.0, "b")]
    logged = ca.from_transitions(rows, 0.5)
    found = ca.off_policy(logged, ca.solve(ca.Problem(logged)))
    assert found.logged_mean is None
    assert found.table() == [("value in the model", found.logged_model, found.policy_model)]
    assert found.policy_model > found.logged_model
    with pytest.raises(ca.IncompatibleError, match="needs a log"):
        ca.off_policy(ca.worlds.river_swim(), np.full((6, 2), 0.5))
    with pytest.raises(ca.InputError, match="policy has shape"):
        ca.off_policy(logged, np.ones((3, 1)))
