"""Sweeps and evaluations on workers: ``cautious bench sweep [--quick]``.

A worker of two is killed again and again in the middle of a sweep; the folder of results must be the same, byte by
byte, as that of a serial sweep, and a rerun must compute nothing. Then many episodes are simulated, serially and on two
workers: seconds of the wall clock, the most memory, and whether the answers are the same.
"""

import os
import resource
import signal
import tempfile
import time
from multiprocessing import active_children
from pathlib import Path
from typing import Any

import numpy as np

import cautious as ca
from cautious.runtime.processes import process_pool

KILLS, QUICK_KILLS = 20, 3
STEPS = 50
EPISODES, QUICK_EPISODES = 3_000_000, 50_000


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.json")}


def killed(kills: int) -> dict[str, Any]:
    """A sweep of which a worker is killed after every second run, so many times."""
    problem, rng, done = ca.worlds.problem("drift"), np.random.default_rng(0), 0

    def kill(progress: ca.SweepProgress) -> None:
        nonlocal done
        if progress.done % 2 == 0 and done < kills:
            victims = sorted(child.pid for child in active_children() if child.pid is not None)
            os.kill(int(rng.choice(victims)), signal.SIGKILL)
            done += 1

    runs = {"methods": ["plug-in", "primal-dual"], "samples": [3_000, 10_000], "seeds": max(2, kills)}
    with tempfile.TemporaryDirectory() as place:
        folder, serial = Path(place) / "killed", Path(place) / "serial"
        with process_pool(2) as pool:
            found = ca.sweep({"drift": problem}, **runs, folder=folder, executor=pool, callback=kill)
        again: list[ca.SweepProgress] = []
        ca.sweep({"drift": problem}, **runs, folder=folder, callback=again.append)
        ca.sweep({"drift": problem}, **runs, folder=serial)
        same = contents(folder) == contents(serial)
    return {"kills": done, "runs": len(found.rows), "failed": len(found.failed), "same": same, "repeated": len(again)}


def evaluated(episodes: int) -> dict[str, Any]:
    """Many episodes, serially and on two workers."""
    # a fixed number of steps, so that the exact mean is that of the episodes
    problem = ca.Problem(ca.worlds.inventory(), horizon=STEPS)
    solution = ca.solve(problem)

    def run(executor: Any) -> tuple[float, ca.Evaluation]:
        began = time.perf_counter()
        found = ca.evaluate(problem.mdp, solution, episodes=episodes, executor=executor)
        return time.perf_counter() - began, found

    alone, one = run(None)
    with process_pool(2) as pool:
        both, two = run(pool)
    widths = {percent: high - low for percent, (low, high) in one.quantile_intervals.items()}
    return {
        "episodes": episodes,
        "seconds_serial": alone,
        "seconds_two_workers": both,
        "same": repr(one.table()) == repr(two.table()) and one.returns.tobytes() == two.returns.tobytes(),
        "standard_errors_off": abs(one.mean - (one.exact_mean or 0.0)) / one.standard_error,
        "width_of_quantiles": widths,
        "most_memory_MB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main(quick: bool = False) -> dict[str, Any]:
    """Both parts, printed as they are measured."""
    found: dict[str, Any] = {}
    for name, part in (
        ("killed workers", lambda: killed(QUICK_KILLS if quick else KILLS)),
        ("episodes", lambda: evaluated(QUICK_EPISODES if quick else EPISODES)),
    ):
        found[name] = part()
        print(f"{name}: " + ", ".join(f"{key} {value}" for key, value in found[name].items()))
    return found


if __name__ == "__main__":
    main()
