"""How much memory a solve takes: watched while it runs, and kept below a limit.

The operating system's own figures are used, so that compiled code and solvers of others count too. Where it has none,
nothing is reported.
"""

import threading
from pathlib import Path
from types import TracebackType

STATUS = Path("/proc/self/status")
EVERY_SECONDS = 0.02


class MemoryWatch:
    """Resident memory since the start of a solve; ``limit`` is what may be added, in bytes.

    While entered, a thread looks every 20 ms: compiled loops do not hold the interpreter, so it gets to.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.before, self._record = _resident()
        self._seen = self.before
        self._ended = threading.Event()

    def __enter__(self) -> None:
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        self._watcher.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._ended.set()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._ended.wait(EVERY_SECONDS):
            self._seen = max(self._seen, _resident()[0])

    @property
    def exceeded(self) -> bool:
        """Whether more than the limit was ever seen to be added."""
        return self.limit is not None and self._seen - self.before > self.limit

    @property
    def most(self) -> int | None:
        """The most that was added at any time, in bytes; None where the system does not say."""
        now, record = _resident()
        if not now:
            return None
        # a record broken since the start is exact; otherwise what was seen while looking has to do
        return max((record if record > self._record else max(now, self._seen)) - self.before, 0)


def _resident() -> tuple[int, int]:
    """Bytes held now, and the most ever held; zeros where the system does not say."""
    try:
        lines = STATUS.read_text().splitlines()
    except OSError:
        return 0, 0
    found = {line.split(":")[0]: line for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    return _bytes(found.get("VmRSS")), _bytes(found.get("VmHWM"))


def _bytes(line: str | None) -> int:
    return 0 if line is None else 1024 * int(line.split()[1])
