"""Processes that measure: one for every solver; see ``cautious.peers.workers``.

In a full run every request gets a new process; a quick run keeps them, because most of its time would be the import of
packages.
"""

from pathlib import Path
from types import TracebackType

from cautious.peers.workers import Row, Worker

CHILD = Path(__file__).resolve().with_name("_child.py")

__all__ = ["Row", "Workers"]


class Workers:
    """Workers by solver; ``keep`` them between requests or make a new one each time."""

    def __init__(self, keep: bool) -> None:
        self.keep, self.kept = keep, dict[tuple[str, bool], Worker]()

    def ask(self, solver: str, request: Row, limit_seconds: float, pinned: bool) -> Row:
        """What ``Worker.ask`` says."""
        key = solver, pinned
        if key not in self.kept or not self.kept[key].alive:
            self.kept[key] = Worker([str(CHILD)], pinned)
        found = self.kept[key].ask(request, limit_seconds)
        if not self.keep:
            self.kept.pop(key).close()
        return found

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.kept.values():
            if worker.alive:
                worker.close()
