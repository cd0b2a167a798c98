"""What every learning method is made of; ``loop`` runs it.

A ``Method`` is a frozen set of choices. It begins a ``Run``: arrays and counters that ``advance`` by one piece of work,
can be written to a file between pieces, and give a ``Result`` at any time.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.learning.checkpoints import Resumable
from cautious.learning.draws import Draws
from cautious.learning.plug_in.transition_counts import Counts
from cautious.learning.task import Task
from cautious.problem import Problem

NAN = float("nan")
TRIAL_SHARE = 0.1


@dataclass(frozen=True)
class Point:
    """One row of the history; see ``History``."""

    samples: int
    objective: float = NAN
    risk: float = NAN
    gap: float = NAN
    violation: float = NAN


@dataclass(frozen=True)
class Result:
    """What a method learned, before it is tried on fresh samples.

    ``policy`` (S, A), zero on pairs that do not exist. ``occupancy`` (S, A) the learner's own estimate, sums to one.
    ``multipliers`` (S,). ``payoff`` (S, A): the mean reward seen, less the scalar terms' share. ``scalars``: the number
    t of each scalar term of the task, in its order. ``optimum_below``: no policy exceeds this, with the confidence the
    method promises. ``problem``: the one in the counted model, where there is one, and ``counts`` what was counted.
    """

    policy: Array
    occupancy: Array
    multipliers: Array
    payoff: Array
    scalars: tuple[float, ...] = ()
    optimum_below: float = np.inf
    problem: Problem | None = None
    counts: Counts | None = None
    facts: dict[str, Any] = field(default_factory=dict)


class Run(Resumable, ABC):
    """One run of a method; see the module's text. Everything that ``advance`` changes is in ``storage``."""

    done: bool = False

    @property
    def midway(self) -> bool:
        """Whether the present state depends on how the draws were cut into tasks; there the history has no row."""
        return False

    @abstractmethod
    def advance(self) -> None:
        """The next piece of work: below half a second where the simulator allows; draws through ``Draws``.

        A draw may raise. The piece is then done again, and what was drawn already is handed over again: so a piece must
        change nothing of its own before its last call of ``Draws.sample`` or ``Draws.start_states``. Each part of
        ``Draws.stream`` is a piece by itself.
        """

    def look_every(self, samples: int) -> None:
        """Limit pieces of work to this many samples, so that progress can be shown after each."""

    def glimpse(self, seconds: float) -> Point | None:
        """What could be delivered now, found in about so many seconds, for callbacks; it changes nothing.

        None where ``point`` says as much.
        """
        return None

    @abstractmethod
    def point(self) -> Point:
        """The present estimates, as a row of the history."""

    @abstractmethod
    def result(self) -> Result:
        """What has been learned so far."""


class Method(ABC):
    """A way to learn; its fields are its settings."""

    name: str

    @abstractmethod
    def refusal(self, task: Task) -> str | None:
        """Why this method cannot take the task; None when it can."""

    def trial_samples(self, task: Task) -> int:
        """How many of the samples try the policy in the end."""
        return int(TRIAL_SHARE * task.samples)

    @abstractmethod
    def begin(self, task: Task, draws: Draws, samples: int) -> Run:
        """A run that may draw ``samples`` transitions from ``draws``; what is left tries the policy."""
