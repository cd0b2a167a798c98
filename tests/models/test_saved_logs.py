"""A saved log keeps its counts, and says what it needs the rows for."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import cautious as ca
from cautious import storage as _storage

ROWS = {
    "episode": [0, 0, 1, 1, 2],
    "state": ["a", "b", "a", "b", "end"],
    "action": ["x", "x", "y", "x", "x"],
    "reward": [0.0, 1.0, 0.5, 0.0, 2.0],
    "next_state": ["b", "a", "b", "a", "a"],
    "done": [0, 1, 0, 1, 0],
}


@pytest.fixture
def logged():
    return ca.from_transitions(ROWS, 0.9, untried="pessimistic", at_end="absorb", reward_range=(-1, 2))


def test_added_states_do_not_take_the_name_of_another(logged):
    assert logged.state_names == ("a", "b", "end", "end 2", "untried")


def test_counts_and_words_survive(logged, tmp_path):
    logged.scene = ca.Scene("Ward", step="day", reward_unit="EUR")
    logged.save(tmp_path / "log.npz")
    back = ca.read_model(tmp_path / "log.npz")
    assert repr(back) == repr(logged)
    assert back.counts.sum() == 5
    assert back.scene == logged.scene
    for name in ("counts", "logging_policy", "rewards", "start", "allowed"):
        assert_array_equal(getattr(back, name), getattr(logged, name))
    assert back.reward_range == logged.reward_range == (-1, 2)
    prior = ca.KL(back.logging_policy)
    assert ca.solve(ca.Problem(back, prior)).objective == ca.solve(ca.Problem(logged, prior)).objective
    back.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "log.npz").read_bytes()


def test_the_model_of_a_saved_solution_has_them_too(logged, tmp_path):
    ca.solve(ca.Problem(logged)).save(tmp_path / "solution.npz")
    assert_array_equal(ca.load(tmp_path / "solution.npz").mdp.counts, logged.counts)


def test_rows_are_asked_for(logged, tmp_path):
    logged.save(tmp_path / "log.npz")
    back = ca.read_model(tmp_path / "log.npz")
    needed = r"needs the rows of the log, .* read the log again, ca\.from_transitions"
    for use in (lambda: ca.learn(back), lambda: ca.off_policy(back, back.logging_policy), lambda: back.outcome_counts):
        with pytest.raises(ca.IncompatibleError, match=needed):
            use()


@pytest.mark.parametrize("counts", [np.zeros((2, 2), int), np.full((5, 2), 0.5), np.full((5, 2), -1)])
def test_damaged_counts_are_refused(logged, tmp_path, counts):
    logged.save(tmp_path / "log.npz")
    header, arrays = _storage.read(tmp_path / "log.npz", "model")
    _storage.write(tmp_path / "bad.npz", "model", header, {**arrays, "counts": counts})
    with pytest.raises(ca.FileError, match="counts must be whole numbers"):
        ca.read_model(tmp_path / "bad.npz")
