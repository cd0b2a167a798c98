"""Whether the caller's time is up, for long computations that are not handed a clock."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


def _never() -> bool:
    return False


_over: ContextVar[Callable[[], bool]] = ContextVar("time_is_up", default=_never)


@contextmanager
def until(over: Callable[[], bool]) -> Iterator[None]:
    """While inside, ``time_is_up`` asks this."""
    token = _over.set(over)
    try:
        yield
    finally:
        _over.reset(token)


def time_is_up() -> bool:
    """Whether to come to an end with what there is."""
    return _over.get()()
