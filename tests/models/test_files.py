"""Model files: what is written is read back; a kill leaves the old file or the new one, never half of one."""

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious import storage as _storage

WRITER = """
import sys
import numpy as np
import cautious as ca
transitions = np.full((60, 4, 60), 1 / 60)
models = [ca.MDP(transitions, np.full((60, 4), float(k)), 0.9) for k in (1, 2)]
models[0].save(sys.argv[1])
print("ready", flush=True)
while True:
    for model in models:
        model.save(sys.argv[1])
"""


def example(**options):
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(4), size=(4, 2))
    rewards = options.pop("rewards", rng.normal(size=(4, 2)))
    return ca.MDP(transitions, rewards, 0.93, rng.dirichlet(np.ones(4)), **options)


EXAMPLES = {
    "plain": {},
    "outcomes": {"rewards": np.random.default_rng(1).normal(size=(4, 2, 4))},
    "spread": {"rewards": np.ones((4, 2)), "reward_square": np.full((4, 2), 3.0)},
    "names": {"state_names": ["é", "b", "c", "d"], "action_names": ["left", "right"]},
    "mask": {"allowed": np.array([[1, 1], [0, 1], [1, 0], [1, 1]], bool)},
    "scene": {"scene": ca.Scene("Title", "A story.", "day", "EUR", ("..", "#.", ".#"), ("<", ">"))},
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_round_trip(tmp_path, name):
    mdp = example(**EXAMPLES[name])
    path = tmp_path / "model.npz"
    mdp.save(path)
    found = ca.read_model(path)
    assert np.array_equal(found.transitions.toarray(), mdp.transitions.toarray())
    for attribute in ("rewards", "reward_square", "start", "allowed"):
        assert np.array_equal(getattr(found, attribute), getattr(mdp, attribute)), attribute
    if mdp.outcome_rewards is not None:
        assert np.array_equal(found.outcome_rewards, mdp.outcome_rewards)
    assert (found.discount, found.state_names, found.action_names) == (mdp.discount, mdp.state_names, mdp.action_names)
    assert found.scene == mdp.scene


def test_same_model_same_bytes(tmp_path):
    for name in ("one", "two"):
        example().save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_second_round_trip_keeps_the_bytes(tmp_path):
    example(**EXAMPLES["outcomes"]).save(tmp_path / "one")
    ca.read_model(tmp_path / "one").save(tmp_path / "two")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_killed_writer_leaves_a_whole_file(tmp_path):
    path = tmp_path / "model.npz"
    for attempt in range(5):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.003 * (attempt + 1))
        process.kill()
        process.wait()
        process.stdout.close()
        assert ca.read_model(path).rewards[0, 0] in (1.0, 2.0)


@pytest.mark.parametrize("step", ["write_array", "fsync", "replace"])
def test_failed_write_keeps_the_old_file_and_no_rubbish(tmp_path, monkeypatch, step):
    path = tmp_path / "model.npz"
    example().save(path)
    before = path.read_bytes()

    def fail(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_storage.npy if step == "write_array" else os, step, fail)
    with pytest.raises((OSError, ca.CautiousError), match="No space left"):
        example(**EXAMPLES["names"]).save(path)
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.npz"]


def test_file_mode_follows_the_umask(tmp_path):
    """A file written through a temporary name must not become private by accident."""
    example().save(tmp_path / "model.npz")
    plain = tmp_path / "plain"
    plain.write_bytes(b"")
    assert (tmp_path / "model.npz").stat().st_mode == plain.stat().st_mode


def test_bare_file_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example().save("model.npz")
    assert Path("model.npz").exists()
    assert ca.read_model("model.npz").n_states == 4


def test_solution_round_trip(tmp_path):
    solution = ca.solve(ca.Problem(example(), ca.Quadratic(np.full((4, 2), 1 / 8)), caution=3.0))
    path = tmp_path / "solution.npz"
    solution.save(path)
    found = ca.load(path)
    for name in ("policy", "occupancy", "multipliers", "adjusted_reward", "reached"):
        assert np.array_equal(getattr(found, name), getattr(solution, name)), name
    for name in ("status", "objective", "gap", "upper_bound", "risk", "caution", "tolerance", "method"):
        assert getattr(found, name) == getattr(solution, name), name
    assert found.certificate.kind == solution.certificate.kind
    assert found.certificate.statement == solution.certificate.statement


def test_infeasible_solution_round_trip(tmp_path):
    problem = ca.Problem(example(), ca.SafeSet([0], slack=1e-6), caution=1.0)
    solution = ca.solve(problem)
    assert solution.status is ca.Status.INFEASIBLE
    solution.save(tmp_path / "solution.npz")
    found = ca.load(tmp_path / "solution.npz")
    assert found.objective == -np.inf
    assert found.status is ca.Status.INFEASIBLE
