"""Numbers out of lines of text."""

from cautious.arrays import Array, Codes, Indices, Letters

NUMBER_WIDTH: int
MOST_WORDS: int
def parse_lines(
    text: Letters,
    whole: Codes,
    real: Array,
    word: Codes,
    used: int,
    slow: Letters,
    slow_line: Indices,
    starts: Indices,
    letters: Letters,
    /,
) -> tuple[int, int, int, int]:
    """Read lines into columns; places used, slow numbers, lines and bytes read."""

