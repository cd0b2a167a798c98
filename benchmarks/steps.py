"""Finite horizons beside their own sweeps and HiGHS: ``cautious bench steps [--quick]``.

Processor seconds on one thread. Without limits the peer is as many optimality sweeps as there are steps. With a limit
on the time in some states, it is HiGHS on the linear program over all steps, given up after a time limit.
"""

import time
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog

import cautious as ca
from _case import model
from cautious._core import planning as kernels
from cautious.runtime.threads import pieces

DISCOUNT = 1.0
REPEATS = 3
LIMIT_SECONDS = 120.0
# the limit is this share of the time that the policy without limits spends in a fifth of the states
LIMIT_SHARE = 0.8

Found = TypeVar("Found")


def undiscounted(kind: str, n_states: int) -> ca.MDP:
    mdp = model(kind, n_states, 0.95)
    return ca.MDP(mdp.transitions, mdp.rewards, discount=DISCOUNT, start=mdp.start)


def fastest(work: Callable[[], Found]) -> tuple[float, Found]:
    """Processor seconds of the fastest of some calls, and what it gave."""
    best, found = np.inf, work()
    for _ in range(REPEATS):
        started = time.process_time()
        found = work()
        best = min(best, time.process_time() - started)
    return best, found


def sweeps(mdp: ca.MDP, steps: int) -> float:
    """Seconds of as many optimality sweeps, each from the values of the one before."""
    n, reward = mdp.n_states, np.ascontiguousarray(mdp.rewards).ravel()
    values, swept, actions = np.zeros(n), np.empty(n), np.zeros(n, np.int64)
    scope, summaries = np.ones(n, np.bool_), np.empty((pieces(n), kernels.SUMMARY))

    def work() -> None:
        nonlocal values, swept
        for _ in range(steps):
            kernels.bellman(*mdp.block, reward, 1.0, values, scope, mdp.start, actions, swept, summaries, 0, pieces(n))
            values, swept = swept, values

    return fastest(work)[0]


def limited(mdp: ca.MDP, steps: int) -> tuple[ca.Problem, np.ndarray, float]:
    """A limit on the fifth of the states where the policy without limits is most."""
    states = ca.solve(ca.Problem(mdp, horizon=steps)).occupancy.sum(axis=(0, 2))
    crowded = np.argsort(states)[-mdp.n_states // 5 :]
    bound = LIMIT_SHARE * float(states[crowded].sum())
    return ca.Problem(mdp, constraints=[ca.Exposure(crowded) <= bound], horizon=steps), crowded, bound


def by_highs(mdp: ca.MDP, steps: int, crowded: np.ndarray, bound: float) -> tuple[float, float | None]:
    """Seconds and the optimum of the program over all steps; no optimum after the time limit."""
    n, m = mdp.shape
    leaving = sp.csr_array(sp.kron(sp.eye_array(n), np.ones((1, m))))
    ahead = sp.eye_array(steps, k=-1)
    flow = sp.csr_array(sp.kron(sp.eye_array(steps), leaving) - sp.kron(ahead, mdp.transitions.T))
    right = np.concatenate([mdp.start, np.zeros((steps - 1) * n)])
    row = np.zeros(mdp.shape)
    row[crowded] = 1 / steps
    gain, time_there = np.tile(mdp.rewards.ravel(), steps), np.tile(row.ravel(), steps)[None]
    started = time.process_time()
    found = linprog(-gain, time_there, [bound], flow, right, method="highs", options={"time_limit": LIMIT_SECONDS})
    return time.process_time() - started, None if found.status != 0 else -float(found.fun)


def main(quick: bool = False) -> list[dict[str, Any]]:
    rows = []
    print("| model | states | steps | limit | ours, s | peer | peer, s | times ours | status | gap |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in ("grid", "garnet"):
        for n_states, steps, peer in ((1000, 12, True), *(() if quick else ((10_000, 60, False),))):
            mdp = undiscounted(kind, n_states)
            own, solution = fastest(lambda mdp=mdp, steps=steps: ca.solve(ca.Problem(mdp, horizon=steps), threads=1))
            there = sweeps(mdp, steps)
            rows.append(row(kind, mdp, steps, "none", own, f"{steps} sweeps", there, solution))
            problem, crowded, bound = limited(mdp, steps)
            own, solution = fastest(lambda problem=problem: ca.solve(problem, threads=1))
            seconds, best = by_highs(mdp, steps, crowded, bound) if peer and not quick else (np.nan, None)
            if best is not None and abs(best - solution.objective) > 1e-5 * max(1.0, abs(best)):
                raise SystemExit(f"{kind} {n_states}: HiGHS has {best}, ours is {solution.objective}")
            name = "HiGHS" if best is not None else "HiGHS, no answer" if peer and not quick else ""
            rows.append(row(kind, mdp, steps, "Exposure", own, name, seconds, solution))
    return rows


def row(
    kind: str, mdp: ca.MDP, steps: int, limit: str, own: float, peer: str, seconds: float, found: ca.Solution
) -> dict[str, Any]:
    """One measured line, which is also printed."""
    line = {"model": kind, "states": mdp.n_states, "steps": steps, "limit": limit, "seconds": own, "peer": peer}
    line |= {"peer_seconds": seconds, "status": found.status.name, "gap": found.gap}
    there = f"{seconds:.3g} | {seconds / own:.1f}" if np.isfinite(seconds) else " | "
    print(
        f"| {kind} | {mdp.n_states:,} | {steps} | {limit} | {own:.3g} | {peer} | {there} | {found.status.name} | "
        f"{found.gap:.1e} |"
    )
    return line


if __name__ == "__main__":
    import sys

    main("--quick" in sys.argv)
