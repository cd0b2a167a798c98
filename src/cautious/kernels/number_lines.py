"""Lines of numbers in a text file: some whole numbers, one real number, perhaps a word.

A decimal m * 10^e with m < 2^53 and |e| <= 22 is one multiplication or division of exact numbers, hence correctly
rounded. Other real numbers are copied to ``slow`` and left to Python: what is read is always the nearest double.

Legend: ``text`` (n,) bytes, whole lines; ``whole`` (k, lines); ``slow`` (lines + 1, WIDTH) bytes, zeros at first.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from cautious.arrays import Array

Bytes = NDArray[np.uint8]
Whole = NDArray[np.int32]

WIDTH = 64
# the most different words that are told apart; further ones count as MANY
WORDS = 4096
NONE, MANY = -1, -2
TENS = np.array([10.0**k for k in range(23)])
LARGEST_EXACT = 2**53
LARGEST_WHOLE = 2**31 - 1

SPACE, TAB, RETURN, NEWLINE, HASH = 32, 9, 13, 10, 35
ZERO, NINE, PLUS, MINUS, DOT, SLASH, LITTLE_E, BIG_E = 48, 57, 43, 45, 46, 47, 101, 69


@njit(cache=True, nogil=True, inline="always")
def _is_blank(byte: int) -> bool:
    return byte in (SPACE, TAB, RETURN)


@njit(cache=True, nogil=True)
def _whole(text: Bytes, at: int, end: int) -> int:
    """The whole number of a token, or -1."""
    if end - at > 10 or end <= at:
        return -1
    value = np.int64(0)
    for i in range(at, end):
        digit = text[i]
        if digit < ZERO or digit > NINE:
            return -1
        value = value * 10 + (np.int64(digit) - ZERO)
    return int(value) if value <= LARGEST_WHOLE else -1


@njit(cache=True, nogil=True)
def _real(text: Bytes, at: int, end: int, slow: Bytes) -> tuple[float, int]:
    """The real number of a token and 0; or 1 if it went to ``slow``; or -1 if it is none."""
    for i in range(at, end):
        c = text[i]
        if not (ZERO <= c <= NINE or c in (DOT, MINUS, PLUS, LITTLE_E, BIG_E, SLASH)):
            return 0.0, -1
    if end - at > WIDTH:
        return 0.0, -1
    i, sign, digits, shift, seen_dot = at, 1.0, 0, np.int64(0), False
    mantissa = np.int64(0)
    if text[i] == MINUS or text[i] == PLUS:
        sign = -1.0 if text[i] == MINUS else 1.0
        i += 1
    exact = True
    while i < end and (ZERO <= text[i] <= NINE or (text[i] == DOT and not seen_dot)):
        if text[i] == DOT:
            seen_dot = True
        else:
            digits += 1
            if mantissa <= LARGEST_EXACT:
                mantissa = mantissa * 10 + (np.int64(text[i]) - ZERO)
                shift -= 1 if seen_dot else 0
            else:
                exact = False
        i += 1
    if digits > 0 and exact and i < end and (text[i] == LITTLE_E or text[i] == BIG_E):
        power, direction, count = np.int64(0), 1, 0
        i += 1
        if i < end and (text[i] == MINUS or text[i] == PLUS):
            direction = -1 if text[i] == MINUS else 1
            i += 1
        while i < end and ZERO <= text[i] <= NINE and count < 4:
            power = power * 10 + (np.int64(text[i]) - ZERO)
            count += 1
            i += 1
        shift += direction * power
        if count == 0:
            return 0.0, -1
    if digits > 0 and exact and i == end and mantissa <= LARGEST_EXACT and -22 <= shift <= 22:
        value = np.float64(mantissa)
        return sign * (value * TENS[shift] if shift >= 0 else value / TENS[-shift]), 0
    for k in range(end - at):
        slow[k] = text[at + k]
    return 0.0, 1


@njit(cache=True, nogil=True)
def _word(text: Bytes, at: int, end: int, table: NDArray[np.int64], starts: NDArray[np.int64], letters: Bytes) -> int:
    """The number of a word in the order of appearance: word i is letters[starts[i]:starts[i+1]], starts[-1] counts."""
    count = starts[WORDS + 1]
    key = np.uint64(1469598103934665603)
    for i in range(at, end):
        key = (key ^ np.uint64(text[i])) * np.uint64(1099511628211)
    slot = np.int64(key % np.uint64(table.size))
    while table[slot] != 0:
        word = table[slot] - 1
        if starts[word + 1] - starts[word] == end - at:
            same = True
            for k in range(end - at):
                if letters[starts[word] + k] != text[at + k]:
                    same = False
                    break
            if same:
                return int(word)
        slot = (slot + 1) % table.size
    if count == WORDS or starts[count] + (end - at) > letters.size:
        return MANY
    for k in range(end - at):
        letters[starts[count] + k] = text[at + k]
    starts[count + 1] = starts[count] + (end - at)
    starts[WORDS + 1] = count + 1
    table[slot] = count + 1
    return int(count)


@njit(cache=True, nogil=True)
def parse_lines(
    text: Bytes,
    whole: Whole,
    real: Array,
    word: Whole,
    used: int,
    slow: Bytes,
    slow_line: NDArray[np.int64],
    table: NDArray[np.int64],
    starts: NDArray[np.int64],
    letters: Bytes,
) -> tuple[int, int, int, int]:
    """Read lines into the columns from place ``used`` on; blank lines and those that begin with # are left out.

    A line is one whole number per row of ``whole``, a real number, and perhaps a word (if ``word`` has room for any).
    Returns the places used then, the slow numbers, the lines passed, and how many bytes were read. A line that does not
    fit ends the reading at its beginning.
    """
    n_whole, at, lines, n_slow = whole.shape[0], 0, 0, 0
    while at < text.size:
        begin, token, word_here, is_slow = at, 0, NONE, False
        while at < text.size and text[at] != NEWLINE:
            if _is_blank(text[at]):
                at += 1
                continue
            if token == 0 and text[at] == HASH:
                while at < text.size and text[at] != NEWLINE:
                    at += 1
                break
            first = at
            while at < text.size and text[at] != NEWLINE and not _is_blank(text[at]):
                at += 1
            if used == real.size or token > n_whole + (1 if word.size else 0):
                return used, n_slow, lines, begin
            if token < n_whole:
                number = _whole(text, first, at)
                if number < 0:
                    return used, n_slow, lines, begin
                whole[token, used] = number
            elif token == n_whole:
                value, kind = _real(text, first, at, slow[n_slow])
                if kind < 0:
                    return used, n_slow, lines, begin
                real[used] = value
                is_slow = kind == 1
                slow_line[n_slow] = used
            else:
                word_here = _word(text, first, at, table, starts, letters)
            token += 1
        if token > 0:
            if token <= n_whole:
                return used, n_slow, lines, begin
            n_slow += 1 if is_slow else 0
            if word.size:
                word[used] = word_here
            used += 1
        at += 1
        lines += 1
    return used, n_slow, lines, text.size
