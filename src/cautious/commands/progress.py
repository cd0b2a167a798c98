"""Progress on standard error: a spinner, a bar and the time, erased when the work is done.

Nothing is written when standard error is not a terminal, or with --quiet or --json; work that takes less than half a
second shows nothing either.
"""

import math
import sys
from threading import Timer
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from rich.console import Console

    from cautious import LearningProgress, Progress, SweepProgress
    from cautious.comparison.compare import Turn

DELAY_SECONDS = 0.5


class Bar:
    """A progress bar around some work; it pulses while the amount of work is unknown.

    A ``console`` shows it at once, wherever that is.
    """

    def __init__(self, what: str, quiet: bool, console: "Console | None" = None) -> None:
        self.what = what
        self.wanted = not quiet and (console is not None or sys.stderr.isatty())
        self._console = console

    def __enter__(self) -> Self:
        if self.wanted:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[figures]}"),
                TimeElapsedColumn(),
                console=self._console or Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task(self.what, total=None, figures="")
            self._timer = Timer(DELAY_SECONDS if self._console is None else 0.0, self._bar.start)
            self._timer.daemon = True
            self._timer.start()
            if self._console is not None:
                self._timer.join()
        return self

    def show(self, what: str, done: float = 0.0, total: float | None = None, figures: str = "") -> None:
        """Show what is being done and how much of it is done."""
        if self.wanted:
            self._bar.update(self._task, description=what, completed=done, total=total, figures=figures)

    def __exit__(self, *_: object) -> None:
        if self.wanted:
            self._timer.cancel()
            self._timer.join()
            if self._bar.live.is_started:
                self._bar.stop()


class SolveBar(Bar):
    """The callback of a solve, or of the points of a frontier; with a time limit the bar fills as time passes."""

    def __init__(
        self,
        quiet: bool,
        limit_seconds: float | None = None,
        points: int | None = None,
        console: "Console | None" = None,
    ) -> None:
        super().__init__("solving", quiet, console)
        self.limit, self.points = limit_seconds, points
        self.point, self.last_step = 0, 0

    def __call__(self, progress: "Progress") -> None:
        """The solver's callback."""
        if progress.step <= self.last_step or self.point == 0:
            self.point += 1
        self.last_step = progress.step
        figures = f"objective {progress.objective:.6g}  gap {progress.gap:.2g}"
        if self.points is None:
            self.show(progress.method, progress.seconds, self.limit, figures)
        else:
            said = f"point {min(self.point, self.points)} of {self.points}, {progress.method}"
            self.show(said, self.point - 1, self.points, figures)


class CompareBar(Bar):
    """The callback of a comparison."""

    def __call__(self, turn: "Turn") -> None:
        """Before each method."""
        from cautious.comparison.results import label

        self.show(label(turn.method, turn.whose), turn.number - 1, turn.total, f"{turn.number} of {turn.total}")


class SweepBar(Bar):
    """The callback of a sweep."""

    def __call__(self, progress: "SweepProgress") -> None:
        """After every run."""
        parts = [f"{progress.done:,} of {progress.total:,} runs"]
        parts += [f"{progress.failed} failed"] if progress.failed else []
        parts += [f"{progress.seconds_left:,.0f} s left"] if math.isfinite(progress.seconds_left) else []
        self.show("sweeping", progress.done, progress.total, "  ".join(parts))


class LearningBar(Bar):
    """The callback of a learner."""

    def __call__(self, progress: "LearningProgress") -> None:
        """After every piece of work."""
        self.show(f"{progress.method}, {progress.phase}", progress.samples, progress.total, learning_figures(progress))


def learning_figures(progress: "LearningProgress") -> str:
    """What the bar says: samples, speed, objective, gap, time left."""
    parts = [f"{progress.samples:,} of {progress.total:,}", f"{progress.samples_per_second:,.0f}/s"]
    parts += [
        f"{name} {value:.4g}"
        for name, value in (("objective", progress.objective), ("gap", progress.gap))
        if math.isfinite(value)
    ]
    if progress.samples_per_second > 0:
        parts.append(f"{(progress.total - progress.samples) / progress.samples_per_second:,.0f} s left")
    return "  ".join(parts)
