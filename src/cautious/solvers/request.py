"""What the caller of a solve asks for beside the problem."""

from dataclasses import dataclass

from cautious.checks import as_count, as_number
from cautious.errors import IncompatibleError
from cautious.solvers.base import Callback


@dataclass(frozen=True)
class Request:
    """The parameters of ``ca.solve``; see there."""

    tolerance: float = 1e-6
    time_limit_seconds: float | None = None
    seed: int = 0
    callback: Callback | None = None
    threads: int | None = None
    memory_limit: float | None = None

    def check(self) -> "Request":
        """This request, if every part of it makes sense."""
        as_number("tolerance", self.tolerance, 0.0, 1.0, open_ends="(")
        as_count("seed", self.seed, 0)
        if self.callback is not None and not callable(self.callback):
            raise IncompatibleError(f"callback must be callable or None, found {type(self.callback).__name__}")
        if self.time_limit_seconds is not None:
            as_number("time_limit_seconds", self.time_limit_seconds, 0.0, open_ends="(")
        if self.threads is not None:
            as_count("threads", self.threads)
        if self.memory_limit is not None:
            as_number("memory_limit", self.memory_limit, 0.0, open_ends="(")
        return self
