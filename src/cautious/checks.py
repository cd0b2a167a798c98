"""Array checks: every message names the datum, the first bad entry, the value found and the value allowed."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from functools import reduce
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious.arrays import Array, Mask
from cautious.errors import IncompatibleError, InputError, MemoryLimitError, shown

SUM_TOLERANCE = 1e-9
FLOAT32_SUM_TOLERANCE = 1e-5
# from here on NumPy adds a row in another order
LONG_ROW = 8
LARGEST_COUNT = 2**63 - 1
LARGEST_SEED = 2**128 - 1
# names among which the nearest is looked for
SEARCHED = 10_000
# letters of a name that fits one line of a table
LONGEST_WORD = 80


def sum_tolerance(dtype: Any) -> float:
    """How far from one a sum of probabilities stored in this dtype may be."""
    return FLOAT32_SUM_TOLERANCE if np.dtype(dtype) in (np.float32, np.float16) else SUM_TOLERANCE


def picked(table: Any, where: Mask) -> Any:
    """The entries of an array where a mask of its shape holds; mostly that is everywhere, and costs nothing."""
    return table.ravel() if where.all() else table[where]


def states_of(pairs: Mask) -> Mask:
    """States (S,) that have at least one of the pairs (S, A); (T, S) of (T, S, A)."""
    # column by column: NumPy is slow along short rows
    columns, none = np.moveaxis(pairs, -1, 0), np.zeros(pairs.shape[:-1], np.bool_)
    return np.asarray(reduce(np.logical_or, columns, none), dtype=np.bool_)


def state_sums_of(table: Any) -> Any:
    """Sums (S,) over the actions of a table (S, A); (T, S) of (T, S, A)."""
    # column by column, in the order in which NumPy adds rows as short as these
    if 1 < table.shape[-1] < LONG_ROW and table.dtype != np.bool_:
        return reduce(np.add, np.moveaxis(table, -1, 0))
    return table.sum(axis=-1)


def spread_to(where: Mask, numbers: Any, elsewhere: float = 0.0) -> Any:
    """A table with these numbers where a mask of its shape holds: the way back from ``picked``."""
    if where.all():
        return numbers.reshape(where.shape)
    table = np.full(where.shape, elsewhere)
    table[where] = numbers
    return table


def first_bad(bad: NDArray[np.bool_]) -> tuple[int, ...]:
    """Index of the first true entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(bad)), bad.shape))


def as_array(name: str, value: Any) -> NDArray[Any]:
    """Any rectangular array."""
    try:
        return np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name} is not a rectangular array: {error}") from None


def axes_of(value: Any) -> int:
    """How many axes an array has; 0 for what is none, which later checks refuse."""
    try:
        return np.ndim(value)
    except ValueError:
        return 0


def as_floats(name: str, value: Any) -> Array:
    """A float64 array of finite numbers, or an InputError that names the first other entry."""
    raw = as_array(name, value)
    if raw.dtype == object or not (np.issubdtype(raw.dtype, np.number) or raw.dtype == np.bool_):
        raise InputError(f"{name} must hold numbers, found dtype {raw.dtype}")
    if np.iscomplexobj(raw):
        raise InputError(f"{name} must hold real numbers, found dtype {raw.dtype}")
    # what comes out of a file may begin at any byte, which compiled loops refuse
    array: Array = np.require(raw, np.float64, ["C_CONTIGUOUS", "ALIGNED", "ENSUREARRAY"])
    check_finite(name, array)
    return array


def check_finite(name: str, array: Array) -> None:
    """Refuse NaN and infinities."""
    bad = ~np.isfinite(array)
    if bad.any():
        where = first_bad(bad)
        raise InputError(f"{name}{_at(where)} is {array[where]}; every entry must be finite")


def check_shape(name: str, array: NDArray[Any], shape: tuple[int, ...], meaning: str) -> None:
    """Refuse any other shape; ``meaning`` says what the axes are."""
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}; expected {shape} = {meaning}")


def as_table(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """Real numbers of this shape, NaN and infinities among them."""
    array = as_array(name, value)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must hold real numbers, found dtype {array.dtype}")
    check_shape(name, array, shape, meaning)
    return np.asarray(array, dtype=np.float64)


def check_nonnegative(name: str, array: Array) -> None:
    """Refuse negative entries."""
    bad = array < 0
    if bad.any():
        where = first_bad(bad)
        raise InputError(f"{name}{_at(where)} is {array[where]}; negative values are not allowed")


def as_distribution(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Array:
    """A non-negative array summing to one (within the stated tolerance), renormalised to machine precision."""
    tolerance = sum_tolerance(getattr(value, "dtype", np.float64))
    array = as_floats(name, value)
    check_shape(name, array, shape, meaning)
    check_nonnegative(name, array)
    total = math.fsum(array.ravel())
    if abs(total - 1) > tolerance:
        raise InputError(f"{name} sums to {total:.12g}; it must sum to 1 within {tolerance:g}")
    # the correctly rounded sum of what was divided once is this close: saving and reading changes no bit
    return np.array(array) if abs(total - 1) <= 2 * np.finfo(np.float64).eps else np.asarray(array / total)


def as_policy(policy: Any, shape: tuple[int, ...]) -> Array:
    """A table (S, A), or (T, S, A), whose rows are distributions, renormalised to machine precision."""
    tolerance = sum_tolerance(getattr(policy, "dtype", np.float64))
    table = as_floats("policy", policy)
    check_shape("policy", table, shape, "(S, A)" if len(shape) == 2 else "(T, S, A)")
    check_nonnegative("policy", table)
    sums = table.sum(axis=-1)
    off = np.abs(sums - 1) > tolerance
    if off.any():
        row = first_bad(off)
        place = ", ".join(str(index) for index in row)
        raise InputError(f"policy[{place}] sums to {sums[row]:.12g}; every row must sum to 1 within {tolerance:g}")
    return np.asarray(table / sums[..., None])


def as_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf, *, open_ends: str = "") -> float:
    """A finite number between ``low`` and ``high``; ``open_ends`` may hold "(" and ")" to exclude an end."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise InputError(f"{name} must be a number, found {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    below = number <= low if "(" in open_ends else number < low
    above = number >= high if ")" in open_ends else number > high
    if not math.isfinite(number) or below or above:
        raise InputError(f"{name} is {number}; it must be a finite number{_range(low, high, open_ends)}")
    return number


def _range(low: float, high: float, open_ends: str) -> str:
    parts = []
    if math.isfinite(low):
        parts.append(f"above {low:g}" if "(" in open_ends else f"of at least {low:g}")
    if math.isfinite(high):
        parts.append(f"below {high:g}" if ")" in open_ends else f"of at most {high:g}")
    return " " + " and ".join(parts) if parts else ""


def as_count(name: str, value: Any, low: int = 1, high: int = LARGEST_COUNT) -> int:
    """A whole number from ``low`` to ``high``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise InputError(f"{name} must be a whole number of at least {low}, found {shown(value)}")
    if value > high:
        raise InputError(f"{name} must be a whole number of at most {high}, found {shown(value)}")
    return int(value)


def as_seed(value: Any) -> int:
    """The seed of a random generator: a whole number, not negative, of at most 128 bits."""
    return as_count("seed", value, 0, LARGEST_SEED)


def as_flag(name: str, value: Any) -> bool:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, found {shown(value)}")
    return bool(value)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse anything but one of two or more texts."""
    if not isinstance(value, str) or value not in choices:
        *others, last = (f'"{choice}"' for choice in choices)
        raise InputError(f"{name} is {shown(value)}; expected {', '.join(others)} or {last}")


def check_word(name: str, value: Any) -> None:
    """Refuse what is no name that fits one line of a table; empty means none."""
    if not isinstance(value, str) or len(value) > LONGEST_WORD or not value.isprintable():
        raise InputError(
            f"{name} must be a text of one line with at most {LONGEST_WORD} characters, found {shown(value)}"
        )


def check_callback(callback: object) -> None:
    """Refuse what cannot be called; None is no callback."""
    if callback is not None and not callable(callback):
        raise IncompatibleError(f"callback must be callable or None, found {type(callback).__name__}")


def is_listable(value: Any) -> bool:
    """True for what can be iterated over, except texts, whose letters are not meant.

    Sparse matrices and arrays without axes look as if they could.
    """
    if isinstance(value, np.ndarray):
        return value.ndim > 0
    return isinstance(value, Iterable) and not isinstance(value, str | bytes) and not sp.issparse(value)


@contextmanager
def fitting_memory(what: str) -> Iterator[None]:
    """What does not fit into the memory is an error of ours that names it."""
    try:
        yield
    except MemoryError as error:
        raise MemoryLimitError(f"{what} does not fit into the memory of this machine ({error})") from None


def as_names(name: str, value: Any, count: int) -> tuple[str, ...]:
    """``count`` different names."""
    if isinstance(value, str) or not isinstance(value, Sequence | np.ndarray) or not is_listable(value):
        raise InputError(f"{name} must be a sequence of {count} names, found {shown(value)}")
    try:
        names = tuple(str(item) for item in value)
    except ValueError:
        # whole numbers of thousands of digits have no text
        raise InputError(f"{name} holds {shown(value)}, which cannot be written as text") from None
    if len(names) != count:
        raise InputError(f"{name} has {len(names)} entries; expected {count}")
    seen: dict[str, int] = {}
    for index, item in enumerate(names):
        if item in seen:
            raise InputError(f"{name}[{index}] is {item!r}, already the name of number {seen[item]}")
        seen[item] = index
    return names


def as_mask(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Mask:
    """A boolean array; integers are accepted when they are all 0 or 1."""
    raw = as_array(name, value)
    check_shape(name, raw, shape, meaning)
    if raw.dtype != np.bool_:
        if not np.issubdtype(raw.dtype, np.number):
            raise InputError(f"{name} must be a mask of booleans, found dtype {raw.dtype}")
        bad = (raw != 0) & (raw != 1)
        if bad.any():
            where = first_bad(bad)
            raise InputError(f"{name}{_at(where)} is {raw[where]}; a mask holds only true and false")
    return np.array(raw, dtype=np.bool_)


def as_allowed(value: Any, shape: tuple[int, int]) -> Mask:
    """The pairs that exist (S, A), at least one per state; None for all."""
    if value is None:
        return np.ones(shape, dtype=np.bool_)
    allowed = as_mask("allowed", value, shape, "(S, A)")
    stuck = ~states_of(allowed)
    if stuck.any():
        raise InputError(f"allowed[{first_bad(stuck)[0]}] forbids every action; each state needs at least one")
    return allowed


def one_state(n_states: int, state: int) -> Array:
    """The distribution (S,) with all mass on one state."""
    distribution = np.zeros(n_states)
    distribution[state] = 1.0
    return distribution


def _at(where: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(i) for i in where) + "]" if where else ""


def did_you_mean(name: Any, known: Sequence[Any], spell: Callable[[Any], str] = str.lower) -> str:
    """A question that names the nearest of the first known names, as ``spell`` writes them; empty if none is near."""
    spelled = {spell(one): one for one in known[:SEARCHED]}
    close = get_close_matches(spell(name), spelled, 1)
    return f"; did you mean {spelled[close[0]]!r}?" if close else ""
