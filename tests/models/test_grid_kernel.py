"""The compiled example of `ca.from_kernel`, in C, against the same grid in NumPy."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import cautious as ca

GRID_SOURCE = Path(__file__).parents[2] / "examples" / "grid_kernel.c"
COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")


@pytest.fixture(scope="module")
def grid_library(tmp_path_factory):
    if COMPILER is None:
        pytest.skip("no C compiler on this machine")
    path = tmp_path_factory.mktemp("compiled") / "grid_kernel.so"
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-DSIDE=40", str(GRID_SOURCE), "-o", str(path)], check=True)
    return ctypes.CDLL(str(path))


def test_the_example_in_c_is_the_grid_that_it_says(grid_library):
    side, moves = 40, ((0, 1), (1, 0), (0, -1), (-1, 0))

    def outcomes(states, action):
        row, column = np.divmod(states, side)
        last = states == side * side - 1
        wet = ((row // 16) * 7 + (column // 16) * 13) % 8 == 0
        successors = np.empty((states.size, 3), np.int64)
        for j, turn in enumerate((0, 1, 3)):
            down, right = moves[(action + turn) % 4]
            there = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
            successors[:, j] = np.where(last, side * side - 1, there)
        paid = np.where(last, 0.0, np.where(wet, -1.5, -1.0))
        chances = np.broadcast_to([0.8, 0.1, 0.1], successors.shape)
        return successors, chances, np.broadcast_to(paid[:, None], successors.shape)

    compiled = ca.from_kernel(side * side, 4, grid_library.outcomes, discount=0.97, n_outcomes=3)
    plain = ca.from_kernel(side * side, 4, outcomes, discount=0.97)
    np.testing.assert_array_equal(compiled.rewards, plain.rewards)
    wet = compiled.rewards[:, 0] < -1
    for risk in (None, ca.SafeSet(~wet, slack=0.1)):
        one, other = ca.solve(ca.Problem(compiled, risk)).require(), ca.solve(ca.Problem(plain, risk)).require()
        assert (one.objective, one.upper_bound) == (other.objective, other.upper_bound)
