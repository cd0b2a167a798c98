"""``cautious warmup`` leaves nothing to compile."""

import os
import subprocess
import sys

import pytest

LARGE = """
import numpy as np, scipy.sparse as sp, cautious as ca
marks = np.random.default_rng(3).integers(4, size=(75, 75)).astype(str)
grid = ca.worlds.from_grid(["".join(row) for row in marks], {str(k): float(k) for k in range(4)})
for mdp in (grid, ca.worlds.garnet(3500, 4, 5, seed=2)):
    n, rng = mdp.n_states, np.random.default_rng(1)
    tasks, even = rng.random((3, n, 4)), np.full(n, 1 / n)
    ring = sp.csr_array((np.ones(n), (np.arange(n), (np.arange(n) + 1) % n)), shape=(n, n))
    zones = [np.arange(k * n // 4, (k + 1) * n // 4) for k in range(3)]
    risks = [None, ca.SafeSet(np.arange(n // 4, n), 0.6), ca.TaskFloors(tasks, np.ones(3)), ca.PeakExposure(zones)]
    risks += [ca.WorstTask(tasks), ca.Variance(), ca.CVaR(0.9), ca.Entropy(), ca.KL(even), ca.TotalVariation(even)]
    risks += [ca.Quadratic(even), ca.Wasserstein(even, ring), ca.Entropy() + ca.PeakExposure(zones)]
    for risk in risks:
        ca.solve(ca.Problem(mdp, risk, 10.0), time_limit_seconds=5.0)
"""


@pytest.mark.slow
def test_nothing_is_left_to_compile_for_large_models(tmp_path):
    def compiled():
        return {path.name for path in tmp_path.rglob("*.nbc")}

    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-m", "cautious", "warmup"], env=environment, check=True)
    before = compiled()
    assert before
    subprocess.run([sys.executable, "-c", LARGE], env=environment, check=True)
    assert sorted(compiled() - before) == []
