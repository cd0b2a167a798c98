"""The one loop of learning: pieces of work, checkpoints, history, Ctrl-C, and a trial of the policy at the end.

A run has two parts. The method learns with most of the samples; then the policy it delivers is tried on fresh
samples, which is what makes a statement about it possible.
"""

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.errors import FileError, SimulatorError, WorkerError
from cautious.history import History
from cautious.learning.checkpoints import Checkpoint, read_checkpoint
from cautious.learning.draws import PROBE_SAMPLES, Draws
from cautious.learning.method import Method, Point, Result
from cautious.learning.statements.confidence import path_sums_of
from cautious.learning.statements.trial import Trial
from cautious.learning.task import Task
from cautious.regular_files import check_writable, exists
from cautious.runtime.clock import Clock
from cautious.runtime.executors import StopRequested
from cautious.runtime.interruption import Interruption

# the history grows with the logarithm of the samples: about nine rows per tenfold
HISTORY_GROWTH = 1.3
# of the time of a run with a callback, for estimates between the rows of the history; growth of the samples between two
GLIMPSE_SHARE, GLIMPSE_GROWTH = 0.1, 1.1
COLUMNS = tuple(field.name for field in fields(Point))


@dataclass(frozen=True)
class LearningProgress:
    """What a callback receives while learning; returning True from the callback stops the run.

    ``objective``, ``risk``, ``gap`` and ``violation`` are those of the latest row of the history, or of a look at what
    was counted since. ``waiting_share`` is how much of the time the learner waited for the simulator.

    Examples
    --------
    >>> import cautious as ca
    >>> def enough(progress):
    ...     return progress.samples >= progress.total / 4
    >>> ca.learn(ca.worlds.river_swim().simulator(), samples=20_000, callback=enough).status.name
    'STOPPED'
    """

    samples: int
    total: int
    seconds: float
    samples_per_second: float
    objective: float
    risk: float
    gap: float
    violation: float
    phase: str
    method: str
    waiting_share: float = float("nan")


LearningCallback = Callable[[LearningProgress], Any]


@dataclass(frozen=True)
class FinishedRun:
    """What a run ends with; ``trial`` is None when it was stopped before the trial was over."""

    result: Result
    trial: Trial | None
    history: History
    used: int
    seconds: float
    stopped: bool


@dataclass
class Loop:
    """One call of ``ca.learn``: what is learned, how, and the arguments of that call that say how to run."""

    task: Task
    method: Method
    checkpoint: str | os.PathLike[str] | None
    checkpoint_seconds: float
    call_timeout_seconds: float | None
    callback: LearningCallback | None
    executor: Executor | None

    def __post_init__(self) -> None:
        task = self.task
        self.clock = Clock(None)
        self.draws = Draws(
            task.simulator,
            task.samples,
            task.seed,
            timeout_seconds=self.call_timeout_seconds,
            executor=self.executor,
            stopping=lambda: self.clock.stop_requested,
        )
        self.before = 0, 0
        self.trial_samples = self.method.trial_samples(task) if task.samples >= 2 * task.pairs else 0
        self.probes = 0 if self.draws.table is not None else min(PROBE_SAMPLES, task.samples // 100)
        self.rows: list[Point] = []
        self.latest: Point | None = None
        self.glimpse_seconds = 0.0
        self.trial: Trial | None = None
        self.result: Result | None = None
        self.question: dict[str, Any] = {}
        if self.checkpoint is not None:
            drawn = {"draws per seed": self.draws.per_call}
            self.question = task.fingerprint() | {"method": repr(self.method)} | drawn

    def run(self) -> FinishedRun:
        """Learn, try the policy on fresh samples, and return both results."""
        with Interruption(self.clock):
            try:
                self._open()
            except StopRequested:
                # nothing has been learned yet: this is an ordinary Ctrl-C
                raise KeyboardInterrupt from None
            try:
                self._work()
            except StopRequested:
                self._save()
            except (SimulatorError, WorkerError) as error:
                self._fail(error)
        finished = self.trial is not None and self.trial.done and self.trial.paths > 0
        return FinishedRun(
            self.learner.result() if self.result is None else self.result,
            self.trial if finished else None,
            History(**columns(self.rows)),
            self.draws.used,
            self.clock.seconds,
            stopped=not self._over,
        )

    def _open(self) -> None:
        """A new run, or the one in the checkpoint."""
        training = self.task.samples - self.trial_samples - 2 * self.probes
        self.learner = self.method.begin(self.task, self.draws, training)
        path = self.checkpoint
        if path is not None and exists(path):
            try:
                self._resume(read_checkpoint(path, self.question))
            except FileError:
                raise
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                # whole, but not what this version writes
                raise FileError(f"{path}: this checkpoint cannot be continued ({error!r}); delete it") from None
            return
        if path is not None:
            check_writable(path)
        if self.probes:
            pairs = np.argwhere(self.task.allowed)
            some = pairs[np.linspace(0, len(pairs) - 1, self.probes).astype(np.int64)]
            self.draws.check_repeatable(some[:, 0].copy(), some[:, 1].copy())

    def _work(self) -> None:
        self.started = self.saved = time.monotonic()
        self.began, self.draws.after_part = self.draws.used, self._between
        # a run that has ended already is saved as it is
        self.before = self.draws.used, self.draws.calls
        while not self._over:
            try:
                self._advance()
            except (StopRequested, SimulatorError, WorkerError):
                # a piece that fails has changed nothing but these two counters
                self.draws.used, self.draws.calls = self.before
                raise
            self.before = self.draws.used, self.draws.calls
            self.draws.forget()
            is_due = not self.rows or self.draws.used >= HISTORY_GROWTH * self.rows[-1].samples
            if self.trial is None and ((is_due and not self.learner.midway) or self.learner.done):
                self.rows.append(self.learner.point())
                self.latest = self.rows[-1]
            self._between()
        self._save()

    def _between(self) -> None:
        """Write a checkpoint, call the callback, and see whether to stop: after every piece of work or part of one."""
        if self._over:
            self._tell()
            return
        if time.monotonic() - self.saved >= self.checkpoint_seconds:
            self._save()
            self.saved = time.monotonic()
        self._tell()
        if self.clock.stop_requested:
            raise StopRequested

    @property
    def _over(self) -> bool:
        return self.learner.done and (self.trial_samples == 0 or (self.trial is not None and self.trial.done))

    def _advance(self) -> None:
        if not self.learner.done:
            self.learner.advance()
            return
        if self.trial is None:
            self.trial = self._new_trial()
        self.trial.advance()

    def _new_trial(self) -> Trial:
        """A trial of what was learned; the learner is done, so that its result is final."""
        self.result = self.learner.result()
        sums = path_sums_of(self.task, self.result)
        return Trial(self.task, self.draws, self.result.policy, self.trial_samples, sums)

    @property
    def _drawn(self) -> int:
        """Samples drawn, those of an unfinished piece of work included."""
        return self.before[0] + self.draws.pending

    def _tell(self) -> None:
        if self.callback is None:
            return
        self._glimpse()
        latest = asdict(Point(0) if self.latest is None else self.latest) | {"samples": self._drawn}
        seconds, workers = max(time.monotonic() - self.started, 1e-9), self.draws.workers
        waited = workers.waited_seconds + (0.0 if workers.apart else workers.busy_seconds)
        progress = LearningProgress(
            total=self.task.samples,
            seconds=self.clock.seconds,
            samples_per_second=(self._drawn - self.began) / seconds,
            phase="learning" if self.trial is None else "trial",
            method=self.method.name,
            waiting_share=min(1.0, waited / seconds),
            **latest,
        )
        if self.callback(progress) is True:
            self.clock.stop_requested = True

    def _glimpse(self) -> None:
        """An estimate of what could be delivered now, found in a small part of the time."""
        budget = GLIMPSE_SHARE * (time.monotonic() - self.started) - self.glimpse_seconds
        shown = 0 if self.latest is None or not np.isfinite(self.latest.objective) else self.latest.samples
        if self.trial is not None or self.learner.done or budget <= 0 or self.draws.used < GLIMPSE_GROWTH * shown:
            return
        began = time.monotonic()
        self.latest = self.learner.glimpse(budget) or self.latest
        self.glimpse_seconds += time.monotonic() - began

    def _fail(self, error: SimulatorError | WorkerError) -> None:
        """Keep what was learned where a checkpoint was asked for, and say where it is."""
        if self.checkpoint is None:
            said = f"{error}; {self._drawn} samples are lost: no checkpoint was asked for"
        else:
            self._save()
            said = f"{error}; {self._drawn} samples are kept in {self.checkpoint}: the same call continues there"
        raise type(error)(said) from error

    def _save(self) -> None:
        """Write the run as it was before the present piece of work, and the draws of that piece."""
        if self.checkpoint is None:
            return
        parts = {"learner": self.learner.storage(), "history": ({}, columns(self.rows)), "draws": self.draws.storage()}
        if self.trial is not None:
            parts["trial"] = self.trial.storage()
        used, calls = self.before
        Checkpoint(self.question, {"used": used, "calls": calls}, parts).write(self.checkpoint)

    def _resume(self, kept: Checkpoint) -> None:
        self.learner.restore(*kept.parts["learner"])
        history = kept.parts["history"][1]
        self.rows = [
            Point(int(row[0]), *(float(value) for value in row[1:]))
            for row in zip(*(history[name] for name in COLUMNS), strict=True)
        ]
        if "trial" in kept.parts:
            self.trial = self._new_trial()
            self.trial.restore(*kept.parts["trial"])
        self.draws.used, self.draws.calls = int(kept.counters["used"]), int(kept.counters["calls"])
        self.draws.restore(*kept.parts["draws"])
        self.latest = self.rows[-1] if self.rows else None


def columns(rows: Sequence[Point]) -> dict[str, Array]:
    """The columns of the history, by name."""
    return {name: np.array([getattr(row, name) for row in rows], dtype=np.float64) for name in COLUMNS}
