"""Processes that work beside this one."""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context
from typing import Any


class _LastingPool(Executor):
    """A process pool that is replaced when it has lost a process; what it was doing is lost."""

    def __init__(self, workers: int) -> None:
        self._max_workers, self._lock = workers, threading.Lock()
        self._pool = self._new()

    def _new(self) -> ProcessPoolExecutor:
        """Spawned, because this process has threads; Ctrl-C is for this process alone."""
        ignoring = (signal.SIGINT, signal.SIG_IGN)
        return ProcessPoolExecutor(self._max_workers, get_context("spawn"), signal.signal, ignoring)

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> "Future[Any]":
        """To the present pool, or to a new one."""
        with self._lock:
            try:
                return self._pool.submit(function, *args, **keywords)
            except BrokenExecutor:
                self._pool = self._new()
                return self._pool.submit(function, *args, **keywords)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As of any executor."""
        self._pool.shutdown(wait, cancel_futures=cancel_futures)


@contextmanager
def process_pool(workers: int) -> Iterator[Executor]:
    """So many processes, for as long as the context; one that dies is replaced.

    A call that is still running at the end is given up: it may hang, and its result is no longer wanted.
    """
    others = set(active_children())
    pool = _LastingPool(workers)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
