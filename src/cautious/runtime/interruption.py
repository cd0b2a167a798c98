"""Ctrl-C asks a solve to end with what it has."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import Any

from cautious.runtime.clock import Clock

_leaving_at_once = ContextVar("leaving_at_once", default=False)
_outermost: ContextVar["Interruption | None"] = ContextVar("outermost_interruption", default=None)


@contextmanager
def leaving_at_once() -> Iterator[None]:
    """While inside, Ctrl-C is raised as Python does: for calls of code that is not ours, and for work of many solves,
    none of which is what was asked for.
    """
    token = _leaving_at_once.set(True)
    try:
        yield
    finally:
        _leaving_at_once.reset(token)


class Interruption:
    """While inside, the first Ctrl-C asks the clock to stop; the second one leaves at once.

    A nested one only replaces the clock that the outer handler asks, because setting a handler for each point of a
    frontier takes time. A Ctrl-C stops the present clock and all that are nested in it, so that a run ends.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock, self.pressed = clock, False
        self._previous: Any = None
        self._outer: Interruption | None = None
        self._token: Any = None

    def __enter__(self) -> None:
        if threading.current_thread() is not threading.main_thread() or _leaving_at_once.get():
            return
        self._outer = _outermost.get()
        if self._outer is None:
            self._previous = signal.signal(signal.SIGINT, self._handle)
            self._token = _outermost.set(self)
        else:
            self._change_clock(self._outer)

    def __exit__(self, *_: object) -> None:
        if self._outer is not None:
            self._change_clock(self._outer)
        elif self._token is not None:
            _outermost.reset(self._token)
            # a handler that Python did not set cannot be set again by it
            signal.signal(signal.SIGINT, signal.SIG_DFL if self._previous is None else self._previous)

    def _change_clock(self, outer: "Interruption") -> None:
        outer.clock, self.clock = self.clock, outer.clock
        outer.clock.stop_requested |= outer.pressed

    def _handle(self, number: int, frame: FrameType | None) -> None:
        again, self.pressed, self.clock.stop_requested = self.pressed, True, True
        if again or _leaving_at_once.get():
            raise KeyboardInterrupt
