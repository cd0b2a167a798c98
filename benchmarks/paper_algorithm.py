"""What a sample costs in Algorithm 1 as printed, compiled and readable.

``cautious bench paper_algorithm [--quick]``, or ``python benchmarks/paper_algorithm.py``. How fast it converges is not
a matter of speed: ``cautious paper --figure theorems`` measures that against the theorems.
"""

import sys
import time
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cautious as ca
from cautious.learning.printed.algorithm_1 import AlgorithmOneRun
from cautious.paper.duality_gap import begin

SAMPLES = 10**7


def speed(sizes: tuple[int, ...]) -> list[dict[str, Any]]:
    """Nanoseconds per sample for garnets of these numbers of states, both loops in the same process."""
    rows = []
    for n_states in sizes:
        mdp = ca.worlds.garnet(n_states, discount=0.9)
        prior = np.random.default_rng(0).dirichlet(np.ones(mdp.allowed.size)).reshape(mdp.shape)
        for name, risk in (("neutral", None), ("KL", ca.KL(prior))):
            problem = ca.Problem(mdp, risk)
            compiled, readable = begin(problem, SAMPLES, 0), begin(problem, SAMPLES, 0)
            readable.compiled = None
            rows.append(
                {
                    "pairs": int(mdp.allowed.sum()),
                    "risk": name,
                    "compiled_ns": nanoseconds(compiled),
                    "readable_ns": nanoseconds(readable),
                }
            )
    return rows


def nanoseconds(run: AlgorithmOneRun) -> float:
    """The best of three pieces of work after a first one, in processor time per sample."""
    run.advance()
    best = np.inf
    for _ in range(3):
        before, started = run.count, time.process_time()
        run.advance()
        best = min(best, (time.process_time() - started) / (run.count - before))
    return 1e9 * best


def main(quick: bool) -> dict[str, Any]:
    """Measure, print a table, and return all numbers."""
    speeds = speed((100,) if quick else (100, 2500))
    costs = Table("pairs", "risk", "compiled", "readable", "ratio", title="nanoseconds of processor time per sample")
    for row in speeds:
        ratio = row["readable_ns"] / row["compiled_ns"]
        numbers = (f"{row['compiled_ns']:,.0f}", f"{row['readable_ns']:,.0f}", f"{ratio:.0f}")
        costs.add_row(f"{row['pairs']:,}", row["risk"], *numbers)
    # standard output belongs to --json
    Console(stderr=True, width=120).print(costs)
    return {"speed": speeds}


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
