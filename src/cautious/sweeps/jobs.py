"""``run_jobs``: many jobs on any executor, each a pure function of its description; a job is done once.

Results come as they are ready and are kept at once; they are returned in the order of the jobs, so that neither the
number of workers nor an interruption changes anything.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from cautious.errors import WorkerError
from cautious.runtime.executors import Workers
from cautious.runtime.threads import use_threads
from cautious.sweeps.folder import Job, ResultFolder

Content = TypeVar("Content")


@dataclass(frozen=True)
class SweepProgress:
    """What the callback of ``ca.sweep`` receives after every run.

    ``done`` of ``total`` runs are finished, ``kept`` of them by an earlier call in the same folder and ``failed`` of
    them with an error. ``seconds_left`` is an estimate by the samples that are left, nan before the first run.
    ``last`` is the row of the run that was just finished; its gap is not known yet.

    Examples
    --------
    >>> import cautious as ca
    >>> seen = []
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> found = ca.sweep({"swim": problem}, ["plug-in"], samples=[2000], seeds=2, callback=seen.append)
    >>> seen[-1].done == seen[-1].total, seen[-1].failed
    (True, 0)
    """

    done: int
    total: int
    kept: int
    failed: int
    seconds: float
    seconds_left: float
    last: Mapping[str, Any]


def run_jobs(
    work: Callable[[Content, Any], Any],
    content: Content,
    jobs: Sequence[Job],
    executor: Executor | None = None,
    *,
    folder: ResultFolder | None = None,
    weight: Callable[[Job], float] = lambda job: 1.0,
    failed: Callable[[Job, Exception], Any] | None = None,
    callback: Callable[[SweepProgress], Any] | None = None,
    timeout_seconds: float = np.inf,
    again: Callable[[Any], bool] = lambda result: False,
) -> list[Any]:
    """The result of every job, None for those that were not done because the callback asked to stop.

    ``work(content, job)`` gives a result that JSON can hold. Heavy jobs, by ``weight``, begin first. ``failed`` makes
    the result of a job that ended its worker or took too long; without it that is an error. ``again`` says which kept
    results are to be computed anew.
    """
    results: list[Any] = [None if folder is None else folder.read(job) for job in jobs]
    results = [None if result is not None and again(result) else result for result in results]
    missing = sorted((k for k, result in enumerate(results) if result is None), key=lambda k: -weight(jobs[k]))
    kept, began = len(jobs) - len(missing), time.monotonic()
    to_do, done = sum(weight(jobs[k]) for k in missing), 0.0
    while missing:
        waiting = list(missing)
        running = Workers(executor, timeout_seconds=timeout_seconds).run(
            _Limited(work), content, (jobs[k] for k in waiting), ordered=False
        )
        try:
            for number, result in running:
                place = waiting[number]
                missing.remove(place)
                results[place] = result
                if folder is not None:
                    folder.write(jobs[place], result)
                done += weight(jobs[place])
                if callback is not None and callback(_progress(results, kept, began, done, to_do, result)) is True:
                    return results
        except WorkerError as error:
            # one that names no task is about the executor
            if failed is None or error.task is None:
                raise
            place = waiting[error.task]
            missing.remove(place)
            results[place] = failed(jobs[place], error)
            if folder is not None:
                folder.write(jobs[place], results[place])
    return results


@dataclass(frozen=True)
class _Limited:
    """One job has one thread, wherever it runs: the same bytes, and as many jobs as cores at a time."""

    work: Callable[[Any, Any], Any]

    def __call__(self, content: Any, job: Any) -> Any:
        with threadpool_limits(limits=1), use_threads(1):
            return self.work(content, job)


def _progress(results: Sequence[Any], kept: int, began: float, done: float, to_do: float, last: Any) -> SweepProgress:
    finished = [result for result in results if result is not None]
    seconds = time.monotonic() - began
    return SweepProgress(
        done=len(finished),
        total=len(results),
        kept=kept,
        failed=sum(isinstance(one, Mapping) and bool(one.get("error")) for one in finished),
        seconds=seconds,
        seconds_left=seconds * (to_do - done) / done if done > 0 else np.nan,
        last=last,
    )
