"""Processes that work beside this one."""

import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import active_children, get_context


@contextmanager
def process_pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Spawned processes, because this one has threads; Ctrl-C is for this process alone.

    A call that is still running at the end is given up: it may hang, and its result is no longer wanted.
    """
    others = set(active_children())
    pool = ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for child in set(active_children()) - others:
            child.terminate()
