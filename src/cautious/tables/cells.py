"""Cells of a table to numbers: labels to codes, numbers to float64, flags to booleans.

Values are an Arrow array, a NumPy array or a sequence of objects; those of a text file (``is_text``) are texts. A bad
cell raises ``BadCell`` with its place in the values.
"""

from collections.abc import Callable, Hashable, Iterable
from decimal import Decimal
from fractions import Fraction
from itertools import compress
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array, Codes, Mask
from cautious.errors import InputError, shown

Values = Any
NUMBERS = (int, float, np.number, np.bool_, Decimal, Fraction)
NO_LABEL = -1
# what stands for a missing cell in text files, beside nothing at all
MISSING_TEXTS = frozenset({"", "na", "n/a", "nan", "null", "#n/a"})
FLAGS = {"0": False, "1": True, "false": False, "true": True}


class BadCell(Exception):
    """A cell that cannot be used: its place in the values, and what is wrong with it."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(problem)
        self.at, self.problem = at, problem


@runtime_checkable
class ArrowArray(Protocol):
    """What tells a ``pyarrow.Array`` from other values."""

    null_count: int

    def dictionary_encode(self) -> Any:
        """Distinct values, and which one each entry is."""
        ...


def is_arrow(values: Values) -> bool:
    """True for an Arrow array, whether or not pyarrow is installed."""
    return isinstance(values, ArrowArray)


class Coding(dict[Any, int]):
    """Cells to codes 0, 1, ... in the order of first appearance; ``labels`` are the distinct cells.

    Cells of a text file are texts, and blanks around them do not count; elsewhere " a" is not "a". Where cells
    ``may_be_empty``, an empty one has the code ``NO_LABEL``.
    """

    def __init__(self, is_text: bool, may_be_empty: bool = False) -> None:
        super().__init__()
        self.is_text, self.may_be_empty = is_text, may_be_empty
        self.labels: dict[Hashable, int] = {}

    def __missing__(self, cell: Any) -> int:
        label = cell.strip() if self.is_text else cell
        missing = is_missing(label)
        if missing or (isinstance(label, str) and not label.strip()):
            if self.may_be_empty:
                return self.setdefault(cell, NO_LABEL)
            raise InputError("is missing" if missing else "is empty")
        if isinstance(label, str) and "\0" in label:
            raise InputError(f"is {shown(cell)}; expected a label")
        if isinstance(label, np.generic):
            label = label.item()
        return self.setdefault(cell, self.labels.setdefault(label, len(self.labels)))

    def codes(self, values: Values) -> Codes:
        """Codes (n,) of the values."""
        if is_arrow(values):
            return self._arrow(values)
        if isinstance(values, np.ndarray) and values.dtype != object:
            distinct, inverse = np.unique(_plain(values), return_inverse=True)
            return self._mapped(distinct.tolist(), inverse)
        try:
            return np.fromiter(map(self.__getitem__, values), np.int32, len(values))
        except (InputError, TypeError):
            raise _first_bad(values, self._checked) from None

    def _arrow(self, values: Any) -> Codes:
        if values.null_count:
            if self.may_be_empty:
                return self.codes(values.to_pylist())
            raise BadCell(int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))), "is missing")
        try:
            encoded = values.dictionary_encode()
            distinct = encoded.dictionary.to_pylist()
        except NotImplementedError:
            # nested values
            return self.codes(values.to_pylist())
        except (ValueError, OverflowError) as error:
            raise BadCell(0, f"this row or a later one cannot be read ({error})") from None
        return self._mapped(distinct, encoded.indices.to_numpy(zero_copy_only=False))

    def _mapped(self, distinct: list[Any], which: NDArray[Any]) -> Codes:
        # a dictionary may list what no row has
        is_used = np.zeros(len(distinct), dtype=np.bool_)
        is_used[which] = True
        places = np.flatnonzero(is_used).tolist()
        codes: Codes = np.full(len(distinct), -1, dtype=np.int32)
        try:
            codes[is_used] = [self[distinct[place]] for place in places]
        except (InputError, TypeError):
            bad = _first_bad((distinct[place] for place in places), self._checked)
            raise BadCell(int(np.argmax(which == places[bad.at])), bad.problem) from None
        return np.asarray(codes[which])

    def _checked(self, cell: Any) -> int:
        try:
            return self[cell]
        except TypeError:
            raise InputError(f"is {shown(cell)}; a label must be hashable, found {type(cell).__name__}") from None


def is_missing(value: Any) -> bool:
    """None, NaN, NaT and the like."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        # pandas' NA refuses to be true or false
        return type(value).__name__ == "NAType"


def missing_cells(values: Values, is_text: bool) -> Mask:
    """Where (n,) a cell is missing; in a text file also where it is empty or says so, as in NA."""
    cells = values.to_pylist() if is_arrow(values) else values
    if is_text:
        return np.fromiter((cell is None or cell.strip().lower() in MISSING_TEXTS for cell in cells), np.bool_)
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biu":
        return np.zeros(len(cells), dtype=np.bool_)
    return np.fromiter((is_missing(cell) or (isinstance(cell, str) and not cell.strip()) for cell in cells), np.bool_)


def cells_at(values: Values, chosen: Mask) -> Values:
    """The chosen ones (n,) of the values."""
    if is_arrow(values):
        return values.filter(chosen)
    if isinstance(values, np.ndarray):
        return values[chosen]
    return tuple(compress(values, chosen))


class DecimalSign:
    """The decimal sign of a column of a text file that may write 1,5: a comma or a point, and not both."""

    def __init__(self) -> None:
        self.found: str | None = None

    def with_points(self, values: Values) -> Values:
        """The texts with points for commas."""
        texts = values.to_pylist() if is_arrow(values) else values
        for at, text in enumerate(texts):
            signs = [sign for sign in ",." if sign in text]
            if signs and self.found is None:
                self.found = signs[0]
            if signs and signs != [self.found]:
                raise BadCell(at, f"is {shown(text)}; the decimal sign of this column is {self.found!r}, nothing else")
        return [text.replace(",", ".") for text in texts] if self.found == "," else values


def as_numbers(values: Values, is_text: bool, sign: DecimalSign | None = None) -> Array:
    """Finite numbers (n,), float64."""
    values = values if sign is None else sign.with_points(values)
    numbers = _numbers_of_texts(values) if is_text else _numbers_of_objects(values)
    bad = ~np.isfinite(numbers)
    if bad.any():
        at = int(np.argmax(bad))
        found = values[at].as_py() if is_arrow(values) else values[at]
        raise BadCell(at, "is missing" if is_missing(found) else f"is {found!s:.80}; expected a finite number")
    return numbers


def as_flags(values: Values, is_text: bool) -> Mask:
    """True or false (n,): booleans, 0 and 1, or in text files also "true" and "false"."""
    if is_text:
        texts = values.to_pylist() if is_arrow(values) else values
        spelled = [text.strip().lower() for text in texts]
        for at, text in enumerate(spelled):
            if text not in FLAGS:
                raise BadCell(at, f"is {shown(texts[at])}; expected true or false, 1 or 0")
        return np.fromiter(map(FLAGS.__getitem__, spelled), np.bool_, len(spelled))
    numbers = as_numbers(values, is_text)
    bad = (numbers != 0) & (numbers != 1)
    if bad.any():
        at = int(np.argmax(bad))
        raise BadCell(at, f"is {numbers[at]:g}; expected true or false, 1 or 0")
    return np.asarray(numbers != 0)


def _numbers_of_texts(values: Values) -> Array:
    if is_arrow(values):
        try:
            return np.asarray(values.cast("float64"))
        except ValueError:
            # pyarrow does not say which one, and does not read numbers with blanks around them
            values = values.to_pylist()
    # Python's float also reads 1_000 and the digits of all scripts
    if _is_plain("".join(values)):
        try:
            return np.fromiter(map(float, values), np.float64, len(values))
        except ValueError:
            pass
    raise _first_bad(values, _text_number)


def _numbers_of_objects(values: Values) -> Array:
    if is_arrow(values):
        values = values.to_numpy(zero_copy_only=False)
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
        return values.astype(np.float64)
    try:
        return np.fromiter(map(_object_number, values), np.float64, len(values))
    except InputError:
        raise _first_bad(values, _object_number) from None


def _is_plain(text: str) -> bool:
    return text.isascii() and "_" not in text


def _text_number(text: str) -> float:
    if not text.strip():
        raise InputError("is empty; expected a number")
    try:
        if _is_plain(text):
            return float(text)
    except ValueError:
        pass
    raise InputError(f"is {shown(text)}; expected a number")


def _object_number(value: Any) -> float:
    if is_missing(value):
        raise InputError("is missing; expected a number")
    # NumPy counts durations among the whole numbers
    if not isinstance(value, NUMBERS) or isinstance(value, np.complexfloating | np.timedelta64):
        raise InputError(f"is {shown(value)}; expected a number")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"is {shown(value)}; expected a number of double precision") from None


def _plain(values: NDArray[Any]) -> NDArray[Any]:
    """Values that sort, as Python objects that say what they are: dates would become whole numbers."""
    if values.dtype.kind == "M":
        missing = np.isnat(values)
        if missing.any():
            raise BadCell(int(np.argmax(missing)), "is missing")
        return values.astype(str)
    return values


def _first_bad(values: Iterable[Any], check: Callable[[Any], Any]) -> BadCell:
    """The first value that a check refuses; called when one is known to be there."""
    for at, value in enumerate(values):
        try:
            check(value)
        except InputError as error:
            return BadCell(at, str(error))
    raise AssertionError("no value is refused")  # pragma: no cover
