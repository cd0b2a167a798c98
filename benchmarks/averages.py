"""The best long-run average beside Storm (LRA) and HiGHS, on the grid and the garnet.

``cautious bench averages [--quick]``, or ``python benchmarks/averages.py``. Everyone works in a process of its own, on
one thread: processor seconds from arrays to a certified answer for us, from Storm's own model to its answer for Storm,
and from matrices to the optimum for HiGHS. All are asked for a relative precision of 1e-6.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

import _case
import cautious as ca

HERE = Path(__file__).resolve()
SOLVERS = ("cautious", "Storm", "HiGHS")
RELATIVE_PRECISION = 1e-6
MAX_ITERATIONS = 10**7
LIMIT_SECONDS = 600.0
REPEATS = 3


def model(kind: str, n_states: int) -> ca.MDP:
    """A model of the other benchmarks, without its discount."""
    mdp = _case.model(kind, n_states, 0.95)
    return ca.MDP(mdp.transitions, mdp.rewards, discount=1, start=mdp.start)


def by_us(mdp: ca.MDP) -> dict[str, Any]:
    """The fastest of a few solves, each of a fresh problem; the first one loads what is loaded late."""
    ca.solve(ca.Problem(model("garnet", 20), horizon="average"))
    best: dict[str, Any] = {}
    for _ in range(REPEATS):
        fresh = ca.MDP(mdp.transitions, mdp.rewards, discount=1, start=mdp.start)
        started = time.process_time()
        solution = ca.solve(ca.Problem(fresh, horizon="average"), threads=1)
        seconds = time.process_time() - started
        if seconds < best.get("seconds", np.inf):
            best = {"seconds": seconds, "status": solution.status.name, "gain": solution.objective, "gap": solution.gap}
    return best


def by_storm(mdp: ca.MDP) -> dict[str, Any]:
    """Sound bounds, to the relative precision; its model is built before the clock runs."""
    import stormpy
    from stormpy import datastructures, environments, models

    n_states, n_actions = mdp.shape
    rows = mdp.transitions
    ends, columns, chances = rows.indptr.tolist(), rows.indices.tolist(), rows.data.tolist()
    builder = datastructures.SparseMatrixBuilder[float](n_states * n_actions, n_states, 0, True, True, n_states)
    for row in range(n_states * n_actions):
        if row % n_actions == 0:
            builder.new_row_group(row)
        for k in range(ends[row], ends[row + 1]):
            builder.add_next_value(row, columns[k], chances[k])
    labels = models.StateLabeling(n_states)
    labels.add_label("init")
    labels.add_label_to_state("init", 0)
    rewards = {"r": models.SparseRewardModel[float](optional_state_action_reward_vector=mdp.rewards.ravel().tolist())}
    storm = models.SparseMdp[float](models.SparseModelComponents[float](builder.build(), labels, rewards))
    (query,) = stormpy.parse_properties('R{"r"}max=? [LRA]')
    environment = environments.default(storm) if hasattr(environments, "default") else stormpy.Environment()
    settings = environment.solver().min_max()
    settings.precision = stormpy.Rational(RELATIVE_PRECISION)
    settings.relative_termination_criterion = True
    settings.maximal_number_of_iterations = MAX_ITERATIONS
    started = time.process_time()
    found = stormpy.model_checking(storm, query, environment=environment)
    return {"seconds": time.process_time() - started, "status": "finished", "gain": float(found.get_value(0))}


def by_highs(mdp: ca.MDP) -> dict[str, Any]:
    """The linear program of stationary occupancies."""
    from scipy.optimize import linprog

    n_states, n_actions = mdp.shape
    leaving = sp.kron(sp.eye_array(n_states), np.ones((1, n_actions)))
    equations = sp.csr_array(sp.vstack([sp.csr_array(leaving - mdp.transitions.T), np.ones((1, n_states * n_actions))]))
    right = np.append(np.zeros(n_states), 1.0)
    started = time.process_time()
    limit = {"time_limit": LIMIT_SECONDS}
    found = linprog(-mdp.rewards.ravel(), A_eq=equations, b_eq=right, method="highs", options=limit)
    gain = None if found.fun is None else -float(found.fun)
    return {"seconds": time.process_time() - started, "status": found.message[:40], "gain": gain}


WORK: dict[str, Callable[[ca.MDP], dict[str, Any]]] = {"cautious": by_us, "Storm": by_storm, "HiGHS": by_highs}


def in_a_child(solver: str, kind: str, n_states: int) -> dict[str, Any]:
    """One row, from a process of its own."""
    command = [sys.executable, str(HERE), "--child", solver, kind, str(n_states)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=HERE.parent, check=False, timeout=1.5 * LIMIT_SECONDS
        )
    except subprocess.TimeoutExpired:
        return {"status": "over the time limit"}
    if done.returncode != 0:
        return {"status": (done.stderr.strip().splitlines() or ["ended"])[-1]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def main(quick: bool) -> dict[str, Any]:
    """Run everything, print a table, and return all numbers."""
    found = []
    table = Table("model", "states", "solver", "seconds", "times ours", "gain", "status", title="long-run averages")
    for n_states in (400,) if quick else (1000, 10_000):
        for kind in ("grid", "garnet"):
            own = None
            for solver in SOLVERS:
                row = {"model": kind, "states": n_states, "solver": solver, **in_a_child(solver, kind, n_states)}
                found.append(row)
                seconds, gain = row.get("seconds"), row.get("gain")
                own = seconds if solver == "cautious" else own
                ratio = "" if seconds is None or not own else f"{seconds / own:.1f}"
                words = (
                    "" if seconds is None else f"{seconds:.3f}",
                    ratio,
                    "" if gain is None else f"{gain:.9f}",
                    str(row["status"]),
                )
                table.add_row(kind, f"{n_states:,}", solver, *words)
    # standard output belongs to --json
    Console(stderr=True, width=120).print(table)
    return {"rows": found, "limit_seconds": LIMIT_SECONDS}


if __name__ == "__main__":
    if "--child" in sys.argv:
        solver, kind, size = sys.argv[-3:]
        print(json.dumps(WORK[solver](model(kind, int(size)))))
    else:
        main("--quick" in sys.argv)
