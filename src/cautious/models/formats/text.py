"""Text files of numbers, read in pieces: the memory is that of the columns, whatever the size of the file.

Errors name the file, the line, what stands there and what was expected.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cautious._core import text as kernels
from cautious.arrays import Array
from cautious.errors import FileError
from cautious.regular_files import opened

PIECE_BYTES = 2**20
LONGEST_LINE = 2**16


@dataclass(frozen=True)
class LineColumns:
    """Entry i of every column is one line: whole numbers (k, n), a real number, and the number of its word.

    ``after`` is the number of lines before them.
    """

    path: Path
    after: int
    whole: NDArray[np.int32]
    real: Array
    word: NDArray[np.int32]
    words: tuple[str, ...]

    def refusal(self, entry: int, problem: str) -> FileError:
        """An error about an entry, to be raised; its line is looked up."""
        return FileError(f"{self.path}, line {_line_of(self.path, self.after, entry)}: {problem}")

    def refuse_outside(self, what: str, values: NDArray[Any], limit: int) -> None:
        """Refuse numbers (n,) that are not below the limit."""
        if values.size and int(values.max()) >= limit:
            entry = int(np.argmax(values >= limit))
            raise self.refusal(entry, f"{what} {values[entry]}; expected 0 to {limit - 1}")


def count_lines(path: Path) -> int:
    """An upper bound on the lines of a file; the counts that its header claims are not trusted."""
    with opened(path) as stream:
        return 1 + sum(piece.count(b"\n") for piece in iter(lambda: stream.read(PIECE_BYTES), b""))


def header_lines(path: Path, stream: BinaryIO) -> Iterator[tuple[int, str]]:
    """Number and text of each line, as long as the caller goes on; too long or not UTF-8 is refused."""
    number = 0
    while True:
        raw = stream.readline(LONGEST_LINE + 1)
        number += 1
        if not raw:
            return
        yield number, decoded(path, number, raw)


def decoded(path: Path, number: int, raw: bytes) -> str:
    """A line without its end."""
    if len(raw) > LONGEST_LINE:
        raise FileError(f"{path}, line {number}: longer than {LONGEST_LINE} bytes")
    try:
        return raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise FileError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from None


def read_columns(path: Path, stream: BinaryIO, after: int, n_whole: int, expected: str, *, words: bool) -> LineColumns:
    """The rest of a stream, ``after`` so many lines: ``n_whole`` whole numbers, a real number, perhaps a word.

    ``expected`` describes a line for the error message.
    """
    room = count_lines(path)
    whole, real = np.empty((n_whole, room), np.int32), np.empty(room)
    word = np.empty(room if words else 0, np.int32)
    starts, letters = np.zeros(kernels.MOST_WORDS + 2, np.int64), np.empty(2**20, np.uint8)
    used, line = 0, after
    for piece in _pieces(path, stream, after):
        text = np.frombuffer(piece, np.uint8)
        most = piece.count(b"\n") + 2
        slow, slow_line = np.empty((most, kernels.NUMBER_WIDTH), np.uint8), np.empty(most, np.int64)
        used, n_slow, lines, parsed = kernels.parse_lines(
            text, whole, real, word, used, slow, slow_line, starts, letters
        )
        line += lines
        if parsed < text.size:
            bad = piece[parsed : parsed + LONGEST_LINE].split(b"\n", 1)[0]
            raise FileError(f"{path}, line {line + 1}: expected {expected}, found {shown(bad)}")
        real[slow_line[:n_slow]] = _slow_numbers(path, after, slow[:n_slow], slow_line, expected)
    bounds = starts[: int(starts[-1]) + 1].tolist()
    names = [bytes(letters[low:high]) for low, high in pairwise(bounds)]
    known = tuple(_word(path, name) for name in names)
    return LineColumns(path, after, whole[:, :used], real[:used], word[:used], known)


def shown(raw: bytes) -> str:
    """A line for a message: cut when it is long, odd bytes escaped."""
    text = raw.decode("utf-8", "backslashreplace").strip()
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _line_of(path: Path, after: int, entry: int) -> int:
    """The line of an entry of the columns; only errors need it."""
    with opened(path) as stream:
        for number, raw in enumerate(stream, 1):
            if number > after and raw.strip(b" \t\r\n") and not raw.lstrip(b" \t\r").startswith(b"#"):
                if entry == 0:
                    return number
                entry -= 1
    return 0


def _pieces(path: Path, stream: BinaryIO, line: int) -> Iterator[bytes]:
    """The stream in pieces that end with a line."""
    rest = b""
    while piece := stream.read(PIECE_BYTES):
        piece = rest + piece
        cut = piece.rfind(b"\n") + 1
        if cut == 0 and len(piece) > LONGEST_LINE:
            raise FileError(f"{path}: a line after line {line} is longer than {LONGEST_LINE} bytes")
        line += piece.count(b"\n")
        yield piece[:cut]
        rest = piece[cut:]
    if rest:
        yield rest


def _slow_numbers(
    path: Path, after: int, tokens: NDArray[np.uint8], entries: NDArray[np.int64], expected: str
) -> Array:
    """Numbers with many digits, and fractions such as 23/10."""
    strings = np.ascontiguousarray(tokens).view(f"S{kernels.NUMBER_WIDTH}").ravel()
    try:
        return np.asarray(strings.astype(np.float64))
    except ValueError:
        pass
    numbers = np.empty(strings.size)
    for i, token in enumerate(strings.tolist()):
        try:
            numbers[i] = float(Fraction(token.decode("ascii"))) if b"/" in token else float(token)
        except (ValueError, ZeroDivisionError, OverflowError):
            line = _line_of(path, after, int(entries[i]))
            raise FileError(f"{path}, line {line}: expected {expected}, found the number {shown(token)}") from None
    return numbers


def _word(path: Path, raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise FileError(f"{path}: the word {shown(raw)} is not UTF-8 text") from None
