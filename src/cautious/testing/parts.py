"""What the checks share: the failure they raise, and how they compare and call."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import first_bad
from cautious.errors import CautiousError

ROUNDING_TOLERANCE = 1e-10
LOOSE_TOLERANCE = 1e-8


class CheckFailure(CautiousError, AssertionError):
    """A part does not keep its promises; the message says which one, where, and by how much."""


def require(ok: Any, message: str) -> None:
    """Raise the message unless ok."""
    if not ok:
        raise CheckFailure(message)


def close(what: str, found: Any, expected: Any, tolerance: float = ROUNDING_TOLERANCE) -> None:
    """Relative to the largest number involved."""
    found, expected = np.asarray(found, dtype=np.float64), np.asarray(expected, dtype=np.float64)
    require(found.shape == expected.shape, f"{what}: shape {found.shape}, expected {expected.shape}")
    off = np.abs(found - expected)
    bad = ~(off <= tolerance * max(1.0, float(np.abs(expected).max(initial=0.0))))
    if bad.any():
        where = first_bad(bad)
        at = f" at {list(where)}" if where else ""
        raise CheckFailure(
            f"{what}{at}: found {found[where]:.12g}, expected {expected[where]:.12g}, off by {off[where]:.3g}"
        )


def call(what: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a call; an exception, or an array argument that was changed, is a failure."""
    before = [argument.copy() if isinstance(argument, np.ndarray) else None for argument in arguments]
    try:
        result = function(*arguments)
    except Exception as error:
        raise CheckFailure(f"{what} raised {type(error).__name__}: {error}") from error
    for argument, copy in zip(arguments, before, strict=True):
        require(copy is None or np.array_equal(argument, copy, equal_nan=True), f"{what} changes its argument")
    return result


def member(part: Any, name: str) -> Any:
    """A member of a part; its absence is a failure."""
    try:
        return getattr(part, name)
    except AttributeError:
        raise CheckFailure(f"{type(part).__name__} has no member {name!r}") from None


def random_policy(allowed: Mask, rng: np.random.Generator) -> Array:
    """A policy (S, A) that uses every allowed action, unevenly."""
    weights = np.where(allowed, rng.exponential(size=allowed.shape) ** 2 + 1e-3, 0.0)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))
