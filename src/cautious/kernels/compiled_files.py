"""Compiled code on disk is written by one process at a time.

numba keeps the versions of a function in numbered files, and an index of them. Two processes that write at the same
time can both take the next number, for different versions (numba issues 4807 and 10128): the index then says one, the
file holds the other, and whoever loads it computes with the wrong code. Here whoever writes holds a lock, and whoever
reads waits for it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import caching

try:
    import fcntl
except ImportError:  # not on this system: files are written as numba does it
    fcntl = None  # type: ignore[assignment]


@contextmanager
def _locked(path: str, *, alone: bool) -> Iterator[None]:
    """Hold the lock of a file, alone or with other readers; without one where it cannot be made."""
    try:
        file = open(path, "ab")  # noqa: SIM115 - closed below, where leaving it open would keep the lock
    except OSError:
        yield
        return
    with file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


class LockedFiles(caching.IndexDataCacheFile):  # type: ignore[misc]
    """The files of one function."""

    @property
    def _lock(self) -> str:
        return f"{self._index_path}.lock"

    def save(self, key: Any, data: Any) -> None:
        """Add a version."""
        with _locked(self._lock, alone=True):
            super().save(key, data)

    def load(self, key: Any) -> Any:
        """A version, None if there is none."""
        with _locked(self._lock, alone=False):
            return super().load(key)


def lock_files() -> None:
    """Let numba keep compiled code this way from now on."""
    caching.IndexDataCacheFile = LockedFiles
