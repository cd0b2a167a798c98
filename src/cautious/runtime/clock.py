"""``Clock``: the limits of a run, and requests to stop it."""

import time

import numpy as np

from cautious.runtime.memory import MemoryWatch
from cautious.status import Status

# a solver never has less than this share of the time limit
LEAST_SOLVER_SHARE = 0.5


class Clock:
    """Limits and stop requests, asked by long computations.

    ``reserved`` seconds before the time limit are kept for what follows a solver: the evaluation of its policy.
    """

    def __init__(self, limit_seconds: float | None, memory: MemoryWatch | None = None) -> None:
        self.started = time.perf_counter()
        self.memory = MemoryWatch(None) if memory is None else memory
        self.limit = np.inf if limit_seconds is None else limit_seconds
        self.stop_requested = False
        self.reserved = 0.0

    def reserve(self, seconds: float) -> None:
        """Keep so many seconds of the time limit, but not most of it."""
        self.reserved = min(seconds, (1 - LEAST_SOLVER_SHARE) * self.limit)

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.perf_counter() - self.started

    @property
    def left(self) -> float:
        """Seconds until the limit."""
        return self.limit - self.seconds

    @property
    def over(self) -> bool:
        """Whether a solver must return as soon as it can."""
        return self.stop_requested or self.left <= self.reserved or self.memory.exceeded

    @property
    def limit_reached(self) -> bool:
        """Whether the limit itself is reached, without the time that is reserved for the evaluation."""
        return self.stop_requested or self.left <= 0 or self.memory.exceeded

    @property
    def ended(self) -> Status:
        """Why it is over."""
        if self.stop_requested:
            return Status.STOPPED
        return Status.MEMORY_LIMIT if self.memory.exceeded else Status.TIME_LIMIT
