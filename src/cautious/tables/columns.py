"""``read_columns``: the columns you want, from any table; ``rows_by_episode``: the order of rows that belong together.

Labels (states, actions, episodes: anything hashable) become codes 0 to n-1 beside the list of distinct labels; columns
of one family, such as state and next state, share their codes. Numbers become float64. Nothing is repaired: an
impossible cell raises an error that names the file and line, or the row, and so does a missing one, unless rows with
missing cells are to be left out.
"""

import os
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence, Sized
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious.arrays import Array, Codes, Indices, Mask
from cautious.checks import first_bad
from cautious.errors import IncompatibleError, InputError, shown
from cautious.regular_files import as_path
from cautious.tables.arrow_files import ARROW, PARQUET, ArrowFile, ArrowMemory, ArrowTable
from cautious.tables.cells import (
    NO_LABEL,
    BadCell,
    Coding,
    DecimalSign,
    as_flags,
    as_numbers,
    cells_at,
    missing_cells,
)
from cautious.tables.csv_files import CsvFile
from cautious.tables.hints import advice, column_near, listed, unused
from cautious.tables.sources import ColumnTable, RowTable, Source, unnamed_columns

KINDS = (
    "a mapping of columns, a pandas or polars DataFrame, a pyarrow Table, a NumPy structured array, a list of rows, a "
    "tuple of arrays, an array with a row per row, or the path of a csv, Parquet or Arrow file"
)
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
STEP = re.compile(r"\+?[0-9]{1,18}")
MONTH = re.compile(r"([0-9]{4})-(0[1-9]|1[0-2])")
WEEK = re.compile(r"([0-9]{4})-W([0-9]{2})")
# a day, also as pandas writes midnight
DATE = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]00:00(:00(\.0+)?)?)?")
DOTTED_DATE = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})")
# what to do with rows in which a cell is missing, and where rows of an episode are missing
Missing = Literal["refuse", "drop"]
Gaps = Literal["refuse", "split"]


@dataclass(frozen=True)
class Columns:
    """Columns of equal length.

    ``codes[column]`` (n,) indexes ``labels[family]``; ``numbers[column]`` (n,) float64; ``flags[column]`` (n,) bool.
    ``kept`` (n,): the rows of the table that these are, None for all; ``missing``: how many cells of a column were
    missing in those that were left out.
    """

    n_rows: int
    codes: dict[str, Codes]
    labels: dict[str, tuple[Hashable, ...]]
    numbers: dict[str, Array]
    flags: dict[str, Mask]
    source: Source
    kept: Indices | None = None
    missing: Mapping[str, int] = field(default_factory=dict)

    def where(self, row: int) -> str:
        """File and line of a row (counted from 0), or "row 17"."""
        return self.source.where(row if self.kept is None else int(self.kept[row]))

    def refusal(self, row: int, problem: str) -> InputError:
        """An error about a row, to be raised: a ``FileError`` when the table is a file."""
        return self.source.error(f"{self.where(row)}: {problem}")

    def numbered(self, column: str, family: str, number: Callable[[Any], int]) -> Indices:
        """The number (n,) of the label in each row; ``NO_LABEL`` where the cell is empty.

        ``number`` raises an ``InputError`` about a label that has none; the first row with such a label is refused.
        """
        labels, codes = self.labels[family], self.codes[column]
        found = np.full(len(labels) + 1, NO_LABEL, dtype=np.int64)
        refused: dict[int, str] = {}
        for code, label in enumerate(labels):
            try:
                found[code] = number(label)
            except InputError as error:
                refused[code] = str(error)
        if refused:
            (row,) = first_bad(np.isin(codes, list(refused)))
            raise self.refusal(row, refused[int(codes[row])])
        return found[codes]


def read_columns(
    table: Any,
    *,
    labels: Mapping[str, str],
    numbers: Collection[str] = (),
    flags: Collection[str] = (),
    optional: Collection[str] = (),
    may_be_empty: Collection[str] = (),
    names: Mapping[str, Hashable] | None = None,
    order: Sequence[str] = (),
    missing: Missing | None = None,
) -> Columns:
    """Read named columns.

    Parameters
    ----------
    table
        A mapping of arrays or lists, a pandas or polars DataFrame, a pyarrow Table, a NumPy structured array, a list of
        mappings or of tuples, a tuple of arrays (n,), an array (n, k), or the path of a file: Parquet (``.parquet``,
        ``.pq``), Arrow (``.arrow``, ``.arr``, ``.feather``, ``.ipc``), else csv in UTF-8 with a header.
    labels
        Column to family: columns of one family share their codes. Labels that can be compared are sorted, others stand
        in the order of first appearance. In a csv file a family of whole numbers becomes integers; everything else is
        text, without the blanks around it.
    numbers, flags
        Columns of finite numbers; of true and false.
    optional
        Columns that may be absent.
    may_be_empty
        Columns of labels in which a cell may be empty; its code is ``NO_LABEL``.
    names
        What columns are called in the table, where that is not what they are called here.
    order
        What the columns without names are: those of a list of tuples, of a tuple of arrays, of an array (n, k).
    missing
        "drop" leaves out rows in which a cell of these columns is missing, and counts them; "refuse" raises an error
        that counts them, and names this choice; None raises an error, as there is no choice.

    Examples
    --------
    >>> from cautious.tables import read_columns
    >>> table = {"from": ["hot", "cold"], "to": ["cold", "cold"], "cost": [1, 2.5]}
    >>> found = read_columns(table, labels={"from": "place", "to": "place"}, numbers=["cost"])
    >>> found.labels["place"], found.codes["from"].tolist(), found.numbers["cost"].tolist()
    (('cold', 'hot'), [1, 0], [1.0, 2.5])
    """
    wanted = [*labels, *numbers, *flags]
    source = open_source(table, order)
    places = find_columns(source, wanted, optional, {} if names is None else names)
    families = {column: family for column, family in labels.items() if column in places}
    codings = {family: Coding(source.is_text, column in may_be_empty) for column, family in families.items()}
    convert: dict[str, Callable[[Any], NDArray[Any]]] = {
        **{column: codings[family].codes for column, family in families.items()},
        **{column: partial(as_numbers, is_text=source.is_text, sign=_sign(source)) for column in numbers},
        **dict.fromkeys(flags, partial(as_flags, is_text=source.is_text)),
    }
    # they grow where they are: lists of small arrays would be in memory twice when they are joined
    buffers = {column: bytearray() for column in places}
    rows, gone, n_seen = bytearray(), dict.fromkeys(places, 0), 0
    for chunk in source.chunks(list(places.values())):
        there = np.arange(n_seen, n_seen + len(chunk[0]))
        n_seen += len(chunk[0])
        if missing == "drop":
            lost = [missing_cells(cells, source.is_text) for cells in chunk]
            for column, where in zip(places, lost, strict=True):
                gone[column] += int(where.sum())
            chosen = ~np.any(lost, axis=0)
            there, chunk = there[chosen], [cells_at(cells, chosen) for cells in chunk]
            rows += there.data
        for (column, place), cells in zip(places.items(), chunk, strict=True):
            try:
                buffers[column] += convert[column](cells).data
            except BadCell as bad:
                called, row = source.columns[place], int(there[bad.at])
                hint = ""
                if missing == "refuse" and missing_cells(cells, source.is_text)[bad.at]:
                    hint = (
                        f'; missing in all: {counted(_missing(source, places))}; missing="drop" leaves these rows out'
                    )
                raise source.error(f"{source.where(row)}: {called!r} {bad.problem}{hint}") from None
    kept = np.frombuffer(rows, np.int64) if missing == "drop" else None
    n_rows = n_seen if kept is None else kept.size
    gone = {column: count for column, count in gone.items() if count}
    if n_rows == 0:
        left_out = f" without missing cells ({counted(gone)})" if n_seen else ""
        raise source.error(f"{source.name}: no rows{left_out}")
    ordered = {family: _in_order(coding, source.is_text) for family, coding in codings.items()}
    codes = {column: np.frombuffer(buffers.pop(column), np.int32) for column in families}
    return Columns(
        n_rows,
        {column: ordered[family][1][codes.pop(column)] for column, family in families.items()},
        {family: found for family, (found, _) in ordered.items()},
        {column: np.frombuffer(buffers.pop(column), np.float64) for column in numbers if column in places},
        {column: np.frombuffer(buffers.pop(column), np.bool_) for column in flags if column in places},
        source,
        kept,
        gone,
    )


def counted(missing: Mapping[str, int]) -> str:
    """How many cells of each column are missing, in words."""
    return ", ".join(f"{column} {count:,}" for column, count in missing.items())


def _missing(source: Source, places: Mapping[str, int]) -> dict[str, int]:
    """How many cells of each column are missing in the whole table."""
    found = dict.fromkeys(places, 0)
    for chunk in source.chunks(list(places.values())):
        for column, cells in zip(places, chunk, strict=True):
            found[column] += int(missing_cells(cells, source.is_text).sum())
    return {column: count for column, count in found.items() if count}


def _sign(source: Source) -> DecimalSign | None:
    return DecimalSign() if source.comma_decimals else None


@runtime_checkable
class Frame(Protocol):
    """What pandas and polars share: ``frame.columns``, ``frame[name]`` and a length."""

    columns: Any

    def __getitem__(self, name: Any) -> Any:
        """One column."""
        ...

    def __len__(self) -> int:
        """The number of rows."""
        ...


def open_source(table: Any, order: Sequence[str] = ()) -> Source:
    """The table behind any of the forms that ``read_columns`` takes."""
    if sp.issparse(table):
        # some formats are mappings, or can be cut like arrays, until a column is asked for
        raise IncompatibleError(f"the table is a sparse matrix ({type(table).__name__}); expected {KINDS}")
    if isinstance(table, str | os.PathLike):
        suffix = as_path(table).suffix.lower()
        if suffix in PARQUET or suffix in ARROW:
            return ArrowFile(table, suffix in PARQUET)
        return CsvFile(table)
    if isinstance(table, Mapping):
        return ColumnTable(table, list(table))
    if isinstance(table, np.ndarray) and table.dtype.names is not None and table.ndim == 1:
        return ColumnTable(table, table.dtype.names)
    if order and (unnamed := unnamed_columns(table)) is not None:
        if len(unnamed) != len(order):
            raise InputError(f"the table has {len(unnamed)} columns; expected {len(order)}: {', '.join(order)}")
        return ColumnTable(dict(zip(order, unnamed, strict=True)), order)
    if isinstance(table, ArrowTable):
        return ArrowMemory(table)
    # the length first: a lazy frame has none, and warns when it is asked for its columns
    if isinstance(table, Sized) and isinstance(table, Frame):
        return ColumnTable(table, list(table.columns))
    if isinstance(table, list | tuple) and (order or (table and isinstance(table[0], Mapping))):
        return RowTable(table, order)
    raise IncompatibleError(f"the table is {shown(table)} ({type(table).__name__}); expected {KINDS}")


def find_columns(
    source: Source,
    wanted: Sequence[str],
    optional: Collection[str],
    names: Mapping[str, Hashable],
    argument: str = "names",
    needed: Sequence[str] | None = None,
) -> dict[str, int]:
    """Where each column stands in the table.

    A column that is not there is refused with advice about the ``needed`` ones, by default those that are not optional;
    ``argument`` is what the caller's ``names`` are called.
    """
    if not isinstance(names, Mapping):
        raise InputError(f"{argument} must map columns to their names in the table, found {shown(names)}")
    for column in names:
        if column not in wanted:
            hint = column_near(column, wanted)
            raise InputError(
                f"{argument}[{column!r}]: there is no such column; the columns are {', '.join(wanted)}{hint}"
            )
    found = {}
    for column in wanted:
        called = names.get(column, column)
        count = source.columns.count(called)
        if count > 1:
            raise source.error(f"{source.name}: column {called!r} is there {count} times")
        if count == 1:
            found[column] = source.columns.index(called)
        elif column not in optional or column in names:
            hint = ""
            if column in names:
                hint = column_near(called, unused(names, wanted, source.columns))
            elif source.columns:
                asked = [one for one in wanted if one not in optional] if needed is None else needed
                hint = f"; {advice(argument, asked, names, source.columns)}"
            raise source.error(f"{source.name}: no column {called!r}; the columns are {listed(source.columns)}{hint}")
    return found


def _in_order(coding: Coding, is_text: bool) -> tuple[tuple[Hashable, ...], Codes]:
    """Distinct labels in their final order, and the place (n,) of every code there."""
    labels: list[Any] = list(coding.labels)
    if is_text and all(WHOLE.fullmatch(label) for label in labels):
        labels = [int(label) for label in labels]
    try:
        order = sorted(range(len(labels)), key=labels.__getitem__)
    except TypeError:
        order = list(range(len(labels)))
    # the place after the last is that of NO_LABEL, which is -1
    rank = np.full(len(labels) + 1, NO_LABEL, dtype=np.int32)
    rank[order] = np.arange(len(labels), dtype=np.int32)
    return tuple(labels[place] for place in order), rank


def rows_by_episode(table: Columns, gaps: Gaps = "refuse") -> tuple[Indices, Indices]:
    """Rows (n,) by the first appearance of their episode, then by step, then as they stand; and where episodes begin.

    Without a column of steps the order of the rows counts. Steps count up by one within an episode: a missing row would
    shift the discount of all that follow. With "split" an episode begins where rows are missing.
    """
    _, first, which = np.unique(table.codes["episode"], return_index=True, return_inverse=True)
    episode = first[which]
    if "step" not in table.codes:
        order = np.argsort(episode, kind="stable")
        return order, np.flatnonzero(np.diff(episode[order], prepend=-1))
    steps = step_numbers(table)
    order = np.lexsort((steps, episode))
    begins = np.diff(episode[order], prepend=-1) != 0
    jump = np.where(begins, 1, np.diff(steps[order], prepend=0))
    if gaps == "split":
        begins |= jump > 1
        jump[begins] = 1
    if np.any(jump != 1):
        (at,) = first_bad(jump != 1)
        before, here = steps[order[at - 1]], steps[order[at]]
        raise table.refusal(int(order[at]), f"step {here} follows step {before} of this episode; steps count up by one")
    return order, np.flatnonzero(begins)


def step_numbers(table: Columns) -> Indices:
    """The step of each row (n,)."""
    return table.numbered("step", "step", _step_number)


def _step_number(label: Hashable) -> int:
    """A whole number; of 2026-03, 2026-W11 and 2026-03-09 (or 9.3.2026) the number of the month, week or day."""
    if isinstance(label, date) or (isinstance(label, str) and not STEP.fullmatch(label)):
        number = _date_number(str(label))
        if number is not None:
            return number
    is_whole = isinstance(label, int | str) and not isinstance(label, bool)
    if not is_whole or not STEP.fullmatch(str(label)):
        raise InputError(
            f"the step is {shown(label)}; expected a whole number of at least 0, a month as 2026-03, a week as "
            "2026-W11, or a day as 2026-03-09 or 9.3.2026"
        )
    return int(str(label))


def _date_number(text: str) -> int | None:
    """The number of a month, a week or a day; None for other texts."""
    if (month := MONTH.fullmatch(text)) is not None:
        return 12 * int(month[1]) + int(month[2]) - 1
    try:
        if (week := WEEK.fullmatch(text)) is not None:
            return date.fromisocalendar(int(week[1]), int(week[2]), 1).toordinal() // 7
        if (day := DOTTED_DATE.fullmatch(text)) is not None:
            return date(int(day[3]), int(day[2]), int(day[1])).toordinal()
        if (day := DATE.fullmatch(text)) is not None:
            return date.fromisoformat(day[1]).toordinal()
    except ValueError:
        raise InputError(f"the step is {shown(text)}, and there is no such day or week") from None
    return None
