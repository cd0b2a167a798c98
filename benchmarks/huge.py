"""A grid that is never written down: ``cautious bench huge [--quick] [--side 4000] [--problems SafeSet,Exposure]``.

Its outcomes come from ``examples/grid_kernel.c``, compiled here. A pass asks for all outcomes of all pairs once; those
that a policy's chain is made of count in proportion. With ``--quick`` it has 300 x 300 cells.
"""

import argparse
import ctypes
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil

import cautious as ca
from cautious.models.matrix_free import MatrixFreeMDP
from cautious.planning import plan
from cautious.runtime.threads import over_pieces, threads_for

SOURCE = Path(__file__).parents[1] / "examples" / "grid_kernel.c"
DISCOUNT = 0.99
N_ACTIONS, N_OUTCOMES = 4, 3
# how much of the way a limit lies from the least time in wet cells to that of the best policy without a risk
LIMIT_SHARE = 0.5
PROBLEMS = ("none", "SafeSet", "PeakExposure", "Exposure")


class Counted:
    """An outcome function, and how many outcomes of states it was asked for."""

    def __init__(self, function: Any) -> None:
        self.function, self.asked = function, 0

    def __call__(self, states: np.ndarray, action: int) -> Any:
        self.asked += states.size
        return self.function(states, action)


def compiled(side: int, folder: str) -> Any:
    """The grid's function in a library of its own."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("this benchmark needs a C compiler")
    library = Path(folder) / "grid_kernel.so"
    command = [compiler, "-O3", "-shared", "-fPIC", f"-DSIDE={side}", str(SOURCE), "-o", str(library)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library)).outcomes


def problem_of(model: MatrixFreeMDP, name: str, wet: np.ndarray, share: float) -> ca.Problem:
    """A problem about the time in wet cells, of which the best policy without a risk spends a ``share`` there."""
    if name == "none":
        return ca.Problem(model)
    if name == "PeakExposure":
        return ca.Problem(model, ca.PeakExposure([wet]), caution=20.0)
    dry = np.where(wet[:, None], -1.0, 0.0) * np.ones(N_ACTIONS)
    least = -(1 - DISCOUNT) * plan(model, dry, tolerance=1e-4 * share / (1 - DISCOUNT)).lower
    limit = least + LIMIT_SHARE * (share - least)
    if name == "SafeSet":
        return ca.Problem(model, ca.SafeSet(~wet, slack=limit), caution=1.0)
    return ca.Problem(model, constraints=[ca.Exposure(wet) <= limit])


def seconds_of_a_pass(model: MatrixFreeMDP) -> float:
    """By the clock on the wall, on all cores."""

    def ask(first: int, last: int) -> None:
        for _ in model.row_blocks(first, last):
            pass

    started = time.perf_counter()
    over_pieces(model.n_states, threads_for(model.n_entries), ask)
    return time.perf_counter() - started


def main(quick: bool = False, arguments: Sequence[str] = ()) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="cautious bench huge")
    parser.add_argument("--side", type=int, default=300 if quick else 4000)
    parser.add_argument("--problems", default="none,SafeSet")
    given = parser.parse_args(list(arguments))
    names = given.problems.split(",")
    if not set(names) <= set(PROBLEMS):
        raise SystemExit(f"--problems must be some of {', '.join(PROBLEMS)}")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        counted, n_states = compiled(given.side, folder), given.side**2
        model = ca.from_kernel(n_states, N_ACTIONS, counted, DISCOUNT, n_outcomes=N_OUTCOMES)
        model.outcomes.function = counted = Counted(model.outcomes.function)
        wet, share = model.rewards[:, 0] < -1, 0.0
        print(f"one pass over {n_states:,} states: {seconds_of_a_pass(model):.3g} s")
        print("| problem | states | status | relative gap | passes | wall, s | processor, s | memory, GB |")
        print("|---|---|---|---|---|---|---|---|")
        # what the risks are measured against comes first
        for name in sorted({"none", *names}, key=PROBLEMS.index):
            problem = problem_of(model, name, wet, share)
            counted.asked, before = 0, psutil.Process().memory_info().rss
            wall, processor = time.perf_counter(), time.process_time()
            solution = ca.solve(problem)
            wall, processor = time.perf_counter() - wall, time.process_time() - processor
            row = {
                "problem": name,
                "states": n_states,
                "status": solution.status.name,
                "relative_gap": solution.gap / max(1.0, abs(solution.objective)),
                "passes": counted.asked / (n_states * N_ACTIONS),
                "wall_seconds": wall,
                "seconds": processor,
                "bytes": before + solution.memory_bytes,
            }
            rows.append(row)
            print(
                f"| {name} | {n_states:,} | {row['status']} | {row['relative_gap']:.1e} | {row['passes']:.0f} | "
                f"{wall:.3g} | {processor:.3g} | {row['bytes'] / 1e9:.2f} |",
                flush=True,
            )
            if name == "none":
                share = float(solution.occupancy[wet].sum())
            del solution, problem
    return rows


if __name__ == "__main__":
    import sys

    main("--quick" in sys.argv, [argument for argument in sys.argv[1:] if argument != "--quick"])
