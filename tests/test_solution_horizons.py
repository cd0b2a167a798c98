"""Solutions with a horizon: files, shapes, and playing them step by step."""

import numpy as np
import pytest

import cautious as ca
from cautious import storage


@pytest.fixture(scope="module")
def solution():
    mdp = ca.worlds.machine_replacement()
    return ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0.05], horizon=6)).require()


def test_a_horizon_is_stored_with_the_solution(solution, tmp_path):
    solution.save(tmp_path / "six.npz")
    again = ca.load(tmp_path / "six.npz")
    assert again.horizon == again.mdp.horizon == 6
    for name in ("policy", "occupancy", "multipliers", "adjusted_reward", "reached"):
        assert np.array_equal(getattr(again, name), getattr(solution, name))
    assert again.policy.shape == (6, *again.mdp.shape)
    assert repr(again) == repr(solution)
    assert "horizon=6" in repr(again)
    again.save(tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "six.npz").read_bytes()


def test_files_without_a_horizon_are_discounted_ones(tmp_path):
    ca.solve(ca.worlds.problem("queue")).save(tmp_path / "old.npz")
    header, arrays = storage.read(tmp_path / "old.npz", "solution")
    del header["horizon"], header["format"], header["version"]
    storage.write(tmp_path / "old.npz", "solution", header, arrays)
    assert ca.load(tmp_path / "old.npz").horizon is None


@pytest.mark.parametrize("horizon", [None, 5, 0, "average", "later", [6]])
def test_a_file_whose_horizon_does_not_fit_is_refused(solution, tmp_path, horizon):
    solution.save(tmp_path / "six.npz")
    header, arrays = storage.read(tmp_path / "six.npz", "solution")
    header = {**header, "horizon": horizon}
    storage.write(tmp_path / "six.npz", "solution", {k: v for k, v in header.items() if k != "format"}, arrays)
    with pytest.raises(ca.FileError):
        ca.load(tmp_path / "six.npz")


def test_predict_counts_the_steps(solution):
    state, taken = None, []
    for step in range(6):
        action, state = solution.predict("broken", state, step == 0, deterministic=True)
        taken.append(action)
        assert state == step + 1
    broken = solution.mdp.state_names.index("broken")
    assert taken == np.argmax(solution.policy[:, broken], axis=1).tolist()
    with pytest.raises(ca.InputError, match="6 steps were taken, and the policy has 6"):
        solution.predict("broken", state)
    assert solution.predict("broken", state, True)[1] == 1


def test_predict_counts_the_steps_of_each_environment(solution):
    rng = np.random.default_rng(0)
    actions, state = solution.predict(np.array([0, 1, 2]), None, np.ones(3, bool), rng=rng)
    assert actions.shape == (3,)
    assert state.tolist() == [1, 1, 1]
    _, state = solution.predict(np.array([0, 1, 2]), state, np.array([False, True, False]), rng=rng)
    assert state.tolist() == [2, 1, 2]
    with pytest.raises(ca.InputError, match=r"state has shape \(2,\)"):
        solution.predict(np.array([0, 1, 2]), np.array([1, 2]))
    with pytest.raises(ca.InputError, match="the number that predict returned"):
        solution.predict(0, "later")


def test_a_risk_that_plays_no_part_is_that_of_all_steps():
    solution = ca.solve(ca.Problem(ca.worlds.queue(), ca.PeakExposure([[0]]), caution=0.0, horizon=4))
    assert solution.policy_risk == pytest.approx(solution.occupancy[:, 0].sum())
