"""How many threads the compiled loops use, and how a loop is divided among them.

A loop is cut into fixed pieces that do not depend on the number of threads; a thread takes a run of neighbouring
pieces, and sums are kept piece by piece. So any number of threads gives the same bytes.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache

from cautious._core.planning import PIECE

# handing work to another thread takes about as long as this many entries of the transition matrix
ENTRIES_WORTH_A_THREAD = 250_000

_limit: ContextVar[int | None] = ContextVar("threads", default=None)


@contextmanager
def use_threads(count: int | None) -> Iterator[None]:
    """While inside, loops use at most this many threads; None is all cores."""
    token = _limit.set(count)
    try:
        yield
    finally:
        _limit.reset(token)


def threads_for(n_entries: int) -> int:
    """How many threads pay for a loop over this many entries of a sparse matrix."""
    useful = n_entries // ENTRIES_WORTH_A_THREAD
    if useful <= 1:
        # asking for the number of cores takes longer than a loop over a small model
        return 1
    limit = _limit.get()
    return max(1, min(useful, (os.cpu_count() or 1) if limit is None else limit))


def pieces(n: int, size: int = PIECE) -> int:
    """Into how many pieces a loop over ``n`` things is cut."""
    return -(-n // size)


def over_pieces(n: int, threads: int, work: Callable[[int, int], object], size: int = PIECE) -> None:
    """Call ``work(first, last)`` on runs of pieces that together make up the loop over ``n`` things."""
    count = pieces(n, size)
    threads = min(threads, count)
    if threads <= 1:
        work(0, count)
        return
    edges = [count * i // threads for i in range(threads + 1)]
    pool = _pool(os.getpid(), threads - 1)
    others = [pool.submit(work, edges[i], edges[i + 1]) for i in range(1, threads)]
    try:
        work(edges[0], edges[1])
    finally:
        # no thread may still write into the arrays when this returns
        problems = [other.exception() for other in others]
    for problem in problems:
        if problem is not None:
            raise problem


@lru_cache(maxsize=4)
def _pool(process: int, workers: int) -> ThreadPoolExecutor:
    """Kept between calls; ``process`` is part of the key because threads do not survive a fork."""
    return ThreadPoolExecutor(workers, thread_name_prefix="cautious")
