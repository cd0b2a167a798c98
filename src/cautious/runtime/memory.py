"""How much memory a solve takes: watched while it runs, and kept below a limit.

It is the resident memory of the process, so that compiled code and libraries count too.
"""

import os
import threading
import time
from functools import lru_cache
from types import TracebackType

import numpy as np
import psutil

LOOK_EVERY_SECONDS = 0.02


class MemoryWatch:
    """Resident memory since the start of a solve; ``limit`` is what may be added, in bytes.

    While entered, a thread measures it every 20 ms, also during compiled loops, which release the GIL.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit, self.before = limit, _resident_bytes()
        self._largest = self.before

    def __enter__(self) -> None:
        self._watcher = _watcher(os.getpid())
        self._watcher.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watcher.remove(self)

    def look(self, now: int) -> None:
        """Take note of the bytes held now."""
        self._largest = max(self._largest, now)

    @property
    def exceeded(self) -> bool:
        """Whether more than the limit was ever seen to be added."""
        return self.limit is not None and self._largest - self.before > self.limit

    @property
    def left(self) -> float:
        """How many bytes may still be added to the most that was held."""
        return np.inf if self.limit is None else self.limit - self.most

    @property
    def most(self) -> int:
        """The most that was seen to be added at any time, in bytes."""
        self.look(_resident_bytes())
        return self._largest - self.before


class _Watcher:
    """One thread for all watches, because starting one takes as long as a small solve; it waits while there is none."""

    def __init__(self) -> None:
        self._watches: list[MemoryWatch] = []
        self._wanted = threading.Event()
        threading.Thread(target=self._run, name="cautious memory", daemon=True).start()

    def add(self, watch: MemoryWatch) -> None:
        self._watches.append(watch)
        if not self._wanted.is_set():
            self._wanted.set()

    def remove(self, watch: MemoryWatch) -> None:
        self._watches.remove(watch)

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            time.sleep(LOOK_EVERY_SECONDS)
            # cleared before looking, so that a watch added meanwhile is not forgotten
            self._wanted.clear()
            watches = tuple(self._watches)
            if watches:
                self._wanted.set()
                now = _resident_bytes()
                for watch in watches:
                    watch.look(now)


@lru_cache(maxsize=1)
def _watcher(process: int) -> _Watcher:
    """Kept between solves; ``process`` is part of the key because threads do not survive a fork."""
    return _Watcher()


@lru_cache(maxsize=1)
def _process(number: int) -> psutil.Process:
    return psutil.Process(number)


def _resident_bytes() -> int:
    return int(_process(os.getpid()).memory_info().rss)
