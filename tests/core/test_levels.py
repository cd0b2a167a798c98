"""The portable level and the processor's own: other instructions, the same answers within what is proved."""

import json
import os
import subprocess
import sys

import pytest

from cautious import _core

SOLVE = """
import json, sys
import numpy as np
import cautious as ca

def random_problem(seed):
    rng = np.random.default_rng(seed)
    n, actions = int(rng.integers(2, 40)), int(rng.integers(1, 6))
    mdp = ca.worlds.garnet(n, actions, min(n, 4), discount=float(rng.choice([0.5, 0.9, 0.95, 0.99])), seed=seed)
    prior = rng.dirichlet(np.ones(n * actions)).reshape(n, actions)
    half, tasks = np.arange(n) < n / 2, rng.random((2, n, actions))
    metric = np.abs(np.subtract.outer(np.arange(float(n)), np.arange(float(n))))
    risks = [None, ca.KL(prior), ca.KL(prior.sum(1)), ca.Entropy(), ca.TotalVariation(prior), ca.Quadratic(prior)]
    risks += [ca.TotalVariation(prior.sum(1)), ca.Quadratic(prior.sum(1)), ca.Wasserstein(prior.sum(1), metric)]
    risks += [ca.Variance(), ca.CVaR(0.8), ca.PeakExposure([half, ~half]), ca.WorstTask(tasks)]
    risks += [ca.SafeSet(half, 0.99), ca.TaskFloors(tasks, [0.0, 0.0]), ca.Quadratic(prior) + ca.PeakExposure([half])]
    return ca.Problem(mdp, risks[seed % len(risks)], float(rng.choice([0.1, 1.0, 10.0])))

rows = []
for seed in range(int(sys.argv[1])):
    solution = ca.solve(random_problem(seed))
    rows.append([solution.status.name, solution.objective, solution.upper_bound])
print(json.dumps(rows))
"""


def answers(level, count):
    environment = os.environ | {"CAUTIOUS_CPU_LEVEL": level}
    command = [sys.executable, "-c", SOLVE, str(count)]
    return json.loads(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def agree(count):
    portable, own = answers("2", count), answers("", count)
    for (status, objective, bound), (other_status, other, other_bound) in zip(portable, own, strict=True):
        assert status == other_status
        if status != "INFEASIBLE":
            assert objective <= other_bound
            assert other <= bound


@pytest.mark.skipif(_core.LEVEL < 3, reason="this processor has one level only")
def test_levels_agree_within_their_certificates():
    agree(48)


@pytest.mark.slow
@pytest.mark.skipif(_core.LEVEL < 3, reason="this processor has one level only")
def test_levels_agree_on_many_problems():
    agree(500)


def test_a_lower_level_can_be_asked_for():
    code = "from cautious import _core; print(_core.LEVEL)"
    for asked in ("2", "nonsense", ""):
        environment = os.environ | {"CAUTIOUS_CPU_LEVEL": asked}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert int(done.stdout) == (min(2, _core._cpu.LEVEL) if asked == "2" else _core._cpu.LEVEL)
