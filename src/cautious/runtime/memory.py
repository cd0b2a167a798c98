"""How much memory a solve takes: watched while it runs, and kept below a limit.

The operating system's own figures are used, so that compiled code and solvers of others count too. Where it has none,
nothing is reported.
"""

import os
import threading
import time
from functools import lru_cache
from types import TracebackType

import numpy as np

STATUS = "/proc/self/status"
EVERY_SECONDS, MOMENT_SECONDS = 0.02, 2e-4
# more than the system ever writes there
STATUS_BYTES = 8192


class MemoryWatch:
    """Resident memory since the start of a solve; ``limit`` is what may be added, in bytes.

    While entered, a thread looks every 20 ms: compiled loops do not hold the interpreter, so it gets to.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.before, self._record = _just_now()
        self._seen = self.before

    def __enter__(self) -> None:
        self._watcher = _watcher(os.getpid())
        self._watcher.add(self)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._watcher.remove(self)

    def look(self, now: int) -> None:
        """Take note of the bytes held now."""
        self._seen = max(self._seen, now)

    @property
    def exceeded(self) -> bool:
        """Whether more than the limit was ever seen to be added."""
        return self.limit is not None and self._seen - self.before > self.limit

    @property
    def most(self) -> int | None:
        """The most that was added at any time, in bytes; None where the system does not say."""
        now, record = _note(_resident())
        if not now:
            return None
        # a record broken since the start is exact; otherwise what was seen while looking has to do
        return max((record if record > self._record else max(now, self._seen)) - self.before, 0)


class _Watcher:
    """One thread for all watches, because starting one takes as long as a small solve; it rests when there is none."""

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
            time.sleep(EVERY_SECONDS)
            # cleared before looking, so that a watch added meanwhile is not forgotten
            self._wanted.clear()
            watches = tuple(self._watches)
            if watches:
                self._wanted.set()
                now = _resident()[0]
                for watch in watches:
                    watch.look(now)


@lru_cache(maxsize=1)
def _watcher(process: int) -> _Watcher:
    """Kept between solves; ``process`` is part of the key because threads do not survive a fork."""
    return _Watcher()


class _Noted(threading.local):
    """The last figures that this thread asked for at the end of a watch, and when."""

    figures = (0, 0)
    at = -np.inf


_noted = _Noted()


def _note(figures: tuple[int, int]) -> tuple[int, int]:
    _noted.figures, _noted.at = figures, time.perf_counter()
    return figures


def _just_now() -> tuple[int, int]:
    """As ``_resident``, asked again only if that was not a moment ago: points of a frontier follow each other."""
    return _noted.figures if time.perf_counter() - _noted.at < MOMENT_SECONDS else _resident()


def _resident() -> tuple[int, int]:
    """Bytes held now, and the most ever held; zeros where the system does not say."""
    try:
        file = os.open(STATUS, os.O_RDONLY)
    except OSError:
        return 0, 0
    try:
        text = os.read(file, STATUS_BYTES)
    finally:
        os.close(file)
    return _bytes(text, b"VmRSS:"), _bytes(text, b"VmHWM:")


def _bytes(text: bytes, name: bytes) -> int:
    """The number after a name, which the system gives in units of 1024 bytes; zero if it is not there."""
    place = text.find(name)
    return 0 if place < 0 else 1024 * int(text[place + len(name) :].split(None, 1)[0])
