"""csv files: comma-separated, in UTF-8, with a header; read line by line, with the line of every row."""

import csv
import os
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, TextIO

from cautious.errors import FileError
from cautious.tables.sources import Chunk, Source

# more rows at a time are slower: 700 new lists that stay wake Python's garbage collector
CHUNK_ROWS = 600
LINE_END = re.compile(r"\r\n|\r|\n")
OTHER_SEPARATORS = (";", "\t", "|")
OTHER_FILES = {
    b"\x1f\x8b": "; it is packed by gzip: unpack it first",
    b"\xff\xfe": "; it looks like UTF-16: save it as UTF-8",
    b"\xfe\xff": "; it looks like UTF-16: save it as UTF-8",
}


@dataclass(frozen=True)
class TextChunk(Chunk):
    """Columns of texts."""

    n_rows: int
    columns: list[tuple[str, ...]]

    def column(self, place: int) -> Any:
        """The texts of one column."""
        return self.columns[place]


class CsvFile(Source):
    """A csv file. Quoted cells may hold commas and line ends; empty lines are skipped; a byte-order mark is allowed."""

    error = FileError
    is_text = True

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path, self.name = path, str(path)
        # rows and lines part ways only at empty lines and line ends inside cells: first row and line - row of every run
        self._first_rows: list[int] = []
        self._offsets: list[int] = []
        header, _, line = next(self._records())
        self.columns = [cell.strip() for cell in header[0]]
        if not self.columns:
            raise FileError(f"{path}: the file is empty; expected a header and rows")
        for mark in OTHER_SEPARATORS:
            if len(self.columns) == 1 and mark in header[0][0]:
                raise FileError(f"{path}, line {line}: the cells are separated by {mark!r}; write the file with commas")

    def where(self, row: int) -> str:
        """File and line; of a row over several lines, the last one."""
        return f"{self.path}, line {row + self._offsets[bisect_right(self._first_rows, row) - 1]}"

    def chunks(self, places: list[int]) -> Iterator[Chunk]:
        """Texts, ``CHUNK_ROWS`` lines at a time."""
        done, width = 0, len(self.columns)
        records = self._records()
        next(records)
        for rows, before, after in records:
            kept = rows
            self._note(done, before + 1)
            if after - before != len(rows) or set(map(len, rows)) != {width}:
                kept = self._checked(rows, before, done)
            if kept:
                yield TextChunk(len(kept), list(zip(*kept, strict=True)))
            done += len(kept)

    def _checked(self, rows: list[list[str]], line: int, done: int) -> list[list[str]]:
        """The rows that are not empty, each with its line noted."""
        kept: list[list[str]] = []
        width = len(self.columns)
        for row in rows:
            line += 1 + sum(len(LINE_END.findall(cell)) for cell in row)
            if not row:
                continue
            if len(row) != width:
                raise FileError(f"{self.path}, line {line}: {len(row)} cells; the header has {width}")
            self._note(done + len(kept), line)
            kept.append(row)
        return kept

    def _note(self, row: int, line: int) -> None:
        if not self._offsets or self._offsets[-1] != line - row:
            self._first_rows.append(row)
            self._offsets.append(line - row)

    def _records(self) -> Iterator[tuple[list[list[str]], int, int]]:
        """The header, then chunks of rows; each with the numbers of the lines before and at its end."""
        line = 0
        with self._opened() as file:
            reader = csv.reader(file, strict=True)
            try:
                yield [next((row for row in reader if row), [])], 0, reader.line_num
                line = reader.line_num
                while rows := list(islice(reader, CHUNK_ROWS)):
                    yield rows, line, reader.line_num
                    line = reader.line_num
            except csv.Error as error:
                raise FileError(f"{self.path}, line {max(1, reader.line_num)}: {error}") from None
            except UnicodeDecodeError as error:
                known = next((what for mark, what in OTHER_FILES.items() if error.object.startswith(mark)), "")
                raise FileError(
                    f"{self.path}, after line {line}: not a csv file in UTF-8 ({error.reason}){known}"
                ) from None
            except OSError as error:
                raise FileError(f"{self.path}: {error.strerror}") from None

    def _opened(self) -> TextIO:
        try:
            return open(self.path, newline="", encoding="utf-8-sig")
        except OSError as error:
            raise FileError(f"{self.path}: {error.strerror}") from None
        except ValueError as error:
            raise FileError(f"{self.path!r}: {error}") from None
