"""Many workers: what a task costs, how busy workers are, and whether promises about time are kept.

``cautious bench workers [--quick]`` measures processes of this machine, with ``--workers N`` or ``--cluster ADDRESS``
those workers. The simulator sleeps, so that four workers can be measured on two cores. Of the runs with workers the
fastest of three counts, because other work on the machine delays the messages between processes.
"""

import os
import platform
import tempfile
import time
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np

import cautious as ca
from cautious.runtime.dask_cluster import local_workers
from cautious.runtime.executors import Workers, worker_count

DRAW_SECONDS = 0.02
CHECKPOINT_SECONDS = 5.0
SAMPLES, QUICK_SAMPLES = 5000, 1000
ATTEMPTS = 3


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


def process_of(content: Any, task: int) -> str:
    time.sleep(DRAW_SECONDS)
    return f"{platform.node()} {os.getpid()}"


def size_of(content: Any, task: int) -> int:
    return int(content.size)


def wait_until_used(executor: Executor) -> None:
    """Until every worker has done a task: its first one imports the package."""
    workers = Workers(executor)
    used: set[str] = set()
    while len(used) < workers.count:
        used |= {value for _, value in workers.run(process_of, None, range(4 * workers.count))}


def seconds_of(executor: Executor, function: Any, content: Any, tasks: list[Any]) -> float:
    """Of all tasks, on workers that have been used before."""
    wait_until_used(executor)
    started = time.perf_counter()
    list(Workers(executor).run(function, content, tasks))
    return time.perf_counter() - started


def task_costs(executor: Executor, megabytes: int) -> dict[str, float]:
    """Milliseconds of an empty task, the time of 64 naps against the ideal, and megabytes per second to all workers."""
    count = worker_count(executor)
    empty = min(seconds_of(executor, nothing, None, list(range(500))) for _ in range(ATTEMPTS))
    naps = min(seconds_of(executor, pause, None, [0.05] * 64) for _ in range(ATTEMPTS))
    sent = seconds_of(executor, size_of, np.zeros(megabytes * 125_000), list(range(2 * count)))
    found = {
        "milliseconds_per_task": 1000 * empty / 500,
        "64_naps_against_ideal": naps / (64 * 0.05 / count),
        "megabytes_per_second": count * megabytes / sent,
    }
    print(", ".join(f"{name} {value:.3g}" for name, value in found.items()), flush=True)
    return found


def learning(samples: int, executor: Executor | None) -> dict[str, Any]:
    """One run; the longest time between two checkpoints."""
    workers = 0 if executor is None else worker_count(executor)
    if executor is not None:
        wait_until_used(executor)
    seen: list[ca.LearningProgress] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.npz"
        # from the first draws on
        written: list[float] = []
        latest = (0, 0)

        def tell(progress: ca.LearningProgress) -> None:
            nonlocal latest
            seen.append(progress)
            found = os.stat(path) if path.exists() else None
            now = (0, 0) if found is None else (found.st_ino, found.st_mtime_ns)
            if now != latest or not written:
                # another file under the same name
                written.append(time.monotonic())
                latest = now

        started, options = time.perf_counter(), {"checkpoint": path, "checkpoint_seconds": CHECKPOINT_SECONDS}
        learned = ca.learn(Sleeping(), samples=samples, executor=executor, callback=tell, **options)
        seconds = time.perf_counter() - started
    row = {
        "workers": workers,
        "seconds": seconds,
        "samples_per_second": samples / seconds,
        "share_of_ideal": samples * DRAW_SECONDS / max(1, workers) / seconds,
        "learner_waiting": seen[-1].waiting_share,
        "longest_checkpoint_gap": float(np.max(np.diff(written))) if len(written) > 1 else None,
        "objective": learned.objective,
    }
    print({name: round(value, 3) if isinstance(value, float) else value for name, value in row.items()}, flush=True)
    return row


def runs(samples: int, executor: Executor) -> list[dict[str, Any]]:
    """Several with the same workers."""
    return [learning(samples, executor) for _ in range(ATTEMPTS)]


def main(quick: bool = False, *, executor: Executor | None = None) -> dict[str, Any]:
    """Costs of a task, and one run without workers and with them."""
    samples, megabytes = (QUICK_SAMPLES, 8) if quick else (SAMPLES, 64)
    every = [[learning(samples, None)]]
    if executor is not None:
        tasks = task_costs(executor, megabytes)
        every.append(runs(samples, executor))
    else:
        for count in (2, 4):
            with local_workers(count) as found:
                tasks = task_costs(found.executor, megabytes) if count == 2 else tasks
                every.append(runs(samples, found.executor))
    rows = [min(several, key=lambda row: row["seconds"]) for several in every]
    for row in rows:
        row["times_as_fast"] = rows[0]["seconds"] / row["seconds"]
        print(f"{row['workers']} workers: {row['times_as_fast']:.3g} times as fast as none")
    same = len({row["objective"] for several in every for row in several}) == 1
    print("all objectives are the same" if same else "OBJECTIVES DIFFER")
    return {"tasks": tasks, "learning": rows, "same": same}


if __name__ == "__main__":
    import sys

    main("--quick" in sys.argv)
