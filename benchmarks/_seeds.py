"""Runs that differ in their seed alone, here or on workers."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from cautious.runtime.executors import Workers


@dataclass(frozen=True)
class Seeds:
    """The seeds 0 to ``count`` - 1, and where their runs are done."""

    count: int
    executor: Executor | None = None

    def run(self, function: Callable[[Any, int], Any], content: Any) -> list[Any]:
        """``function(content, seed)`` for every seed."""
        return [found for _, found in Workers(self.executor).run(function, content, range(self.count))]
