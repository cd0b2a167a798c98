"""``Clock``: the limits of a run, and requests to stop it."""

import time

import numpy as np

from cautious.runtime.memory import MemoryWatch
from cautious.status import Status


class Clock:
    """Limits and stop requests, asked by long computations."""

    def __init__(self, limit_seconds: float | None, memory: MemoryWatch | None = None) -> None:
        self.started = time.perf_counter()
        self.memory = MemoryWatch(None) if memory is None else memory
        self.limit = np.inf if limit_seconds is None else limit_seconds
        self.stop_requested = False

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
        """Whether to return at the next occasion."""
        return self.stop_requested or self.left <= 0 or self.memory.exceeded

    @property
    def ended(self) -> Status:
        """Why it is over."""
        if self.stop_requested:
            return Status.STOPPED
        return Status.MEMORY_LIMIT if self.memory.exceeded else Status.TIME_LIMIT
