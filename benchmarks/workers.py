"""Many workers: what a task costs, how busy workers are, and whether promises about time are kept.

``cautious bench workers --quick``, or ``python benchmarks/workers.py [--quick] [--out rows.json]``. The simulator
sleeps, so that four workers can be measured on two cores.
"""

import argparse
import json
import os
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

import cautious as ca
from cautious.runtime.dask_cluster import local_workers
from cautious.runtime.executors import Workers

DRAW_SECONDS = 0.02
CHECKPOINT_SECONDS = 5.0


class Sleeping:
    """A walk on a ring of ten; every draw takes 20 ms."""

    n_states, n_actions, discount, reward_range = 10, 2, 0.9, (0.0, 1.0)
    draws_per_seed = 1

    def start_states(self, n: int, rng: np.random.Generator) -> Any:
        return np.zeros(n, dtype=np.int64)

    def sample(self, states: Any, actions: Any, rng: np.random.Generator) -> Any:
        time.sleep(DRAW_SECONDS * len(states))
        return (states + np.where(rng.random(len(states)) < 0.8, 2 * actions - 1, 0)) % 10, (states == 5) * 1.0


def nothing(content: Any, task: int) -> int:
    return task


def pause(content: Any, task: float) -> None:
    time.sleep(task)


def size_of(content: Any, task: int) -> int:
    return int(content.size)


def seconds_of(executor: Executor, function: Any, content: Any, tasks: list[Any]) -> float:
    """Of all tasks, on workers that have been used before."""
    workers = Workers(executor)
    list(workers.run(nothing, None, range(2 * workers.count)))
    started = time.perf_counter()
    list(workers.run(function, content, tasks))
    return time.perf_counter() - started


def task_costs(megabytes: int) -> dict[str, float]:
    """Milliseconds of an empty task, the time of 64 naps against the ideal, and megabytes per second and worker."""
    with local_workers(2) as found:
        empty = seconds_of(found.executor, nothing, None, list(range(500)))
        naps = seconds_of(found.executor, pause, None, [0.05] * 64)
        sent = seconds_of(found.executor, size_of, np.zeros(megabytes * 125_000), list(range(4)))
    return {
        "milliseconds_per_task": 1000 * empty / 500,
        "64_naps_against_ideal": naps / (64 * 0.05 / 2),
        "megabytes_per_second": 2 * megabytes / sent,
    }


def learning(samples: int, workers: int) -> dict[str, Any]:
    """One run with so many workers, 0 for none; the longest time between two checkpoints."""
    seen: list[ca.LearningProgress] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        written, latest = [time.monotonic()], 0

        def tell(progress: ca.LearningProgress) -> None:
            nonlocal latest
            seen.append(progress)
            now = os.stat(path).st_ino if path.exists() else 0
            if now != latest:
                # another file under the same name
                written.append(time.monotonic())
                latest = now

        def run(executor: Executor | None) -> tuple[ca.Solution, float]:
            started, written[0] = time.perf_counter(), time.monotonic()
            options = {"checkpoint": path, "checkpoint_seconds": CHECKPOINT_SECONDS}
            learned = ca.learn(Sleeping(), samples=samples, executor=executor, callback=tell, **options)
            return learned, time.perf_counter() - started

        if workers == 0:
            learned, seconds = run(None)
        else:
            with local_workers(workers) as found:
                # the first task of a worker imports the package
                list(Workers(found.executor).run(nothing, None, range(8 * workers)))
                learned, seconds = run(found.executor)
    return {
        "workers": workers,
        "seconds": seconds,
        "samples_per_second": samples / seconds,
        "share_of_ideal": samples * DRAW_SECONDS / max(1, workers) / seconds,
        "learner_waiting": seen[-1].waiting_share,
        "longest_checkpoint_gap": float(np.max(np.diff(written))) if len(written) > 1 else None,
        "objective": learned.objective,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer samples, about a minute")
    parser.add_argument("--out", type=Path, help="write the numbers (.json)")
    given = parser.parse_args()
    rows = [learning(1000 if given.quick else 5000, workers) for workers in (0, 1, 2, 4)]
    found = {"tasks": task_costs(8 if given.quick else 64), "learning": rows}
    for name, value in found["tasks"].items():
        print(f"{name}: {value:.3g}")
    for row in rows:
        row["times_as_fast"] = rows[0]["seconds"] / row["seconds"]
        print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()})
    same = len({row["objective"] for row in rows}) == 1
    print("all objectives are the same" if same else "OBJECTIVES DIFFER")
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
