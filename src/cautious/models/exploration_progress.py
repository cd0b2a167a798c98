"""What an exploration tells while it runs: a callback, and a bar on the terminal."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

EVERY_SECONDS = 0.1


@dataclass(frozen=True)
class ExplorationProgress:
    """What the callback of ``ca.from_function`` receives, about ten times a second and at the end.

    ``found`` states are known, ``explored`` of them have been asked for their actions and outcomes.

    Examples
    --------
    >>> import cautious as ca
    >>> seen = []
    >>> mdp = ca.from_function([0], lambda s: ["on"], lambda s, a: [(1.0, (s + 1) % 5, 0.0)], callback=seen.append)
    >>> seen[-1].found, seen[-1].explored, seen[-1].outcomes
    (5, 5, 5)
    """

    found: int
    explored: int
    outcomes: int
    seconds: float


class Watch:
    """Calls back now and then, and draws a bar on standard error where one is wanted and can be seen."""

    def __init__(self, callback: Callable[[ExplorationProgress], Any] | None, progress: bool) -> None:
        self._callback = callback
        self._begun = self._told = time.perf_counter()
        self._bar: Progress | None = None
        console = Console(stderr=True)
        # rich writes an empty line where nothing can be redrawn
        if progress and (console.is_terminal or console.is_jupyter):
            self._bar = Progress(
                TextColumn("exploring"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[figures]}"),
                console=console,
                transient=True,
            )
            self._task = self._bar.add_task("", total=None, figures="")

    def __enter__(self) -> "Watch":
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def look(self, found: int, explored: int, outcomes: int) -> None:
        """Tell, if the last time was long enough ago or everything is explored."""
        now = time.perf_counter()
        if now - self._told < EVERY_SECONDS and explored < found:
            return
        self._told = now
        seconds = now - self._begun
        if self._callback is not None:
            self._callback(ExplorationProgress(found, explored, outcomes, seconds))
        if self._bar is not None:
            figures = f"{explored:,} of {found:,} states found  {outcomes:,} outcomes  {seconds:.0f} s"
            self._bar.update(self._task, total=found, completed=explored, figures=figures)
