"""Lines of numbers against Python's own ``int`` and ``float``, on text as people write it and on any bytes."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cautious._core import text as kernels


class Columns:
    """Room for so many lines of ``n_whole`` whole numbers, a real number and perhaps a word."""

    def __init__(self, room, n_whole, *, words=False, slow=None):
        self.whole, self.real = np.full((n_whole, room), -7, np.int32), np.full(room, -7.0)
        self.word = np.full(room if words else 0, -7, np.int32)
        slow = room if slow is None else slow
        self.slow, self.slow_line = np.full((slow, kernels.NUMBER_WIDTH), 255, np.uint8), np.full(slow, -7)
        self.starts, self.letters = np.zeros(kernels.MOST_WORDS + 2, np.int64), np.empty(2**12, np.uint8)
        self.used = 0

    def read(self, raw):
        """Parse; how many slow numbers, lines and bytes. Entries end before a slow number that Python refuses."""
        self.used, n_slow, lines, parsed = kernels.parse_lines(
            np.frombuffer(raw, np.uint8),
            self.whole,
            self.real,
            self.word,
            self.used,
            self.slow,
            self.slow_line,
            self.starts,
            self.letters,
        )
        for k in range(n_slow):
            try:
                self.real[self.slow_line[k]] = float(bytes(self.slow[k]).rstrip(b"\0"))
            except ValueError:
                self.used = int(self.slow_line[k])
                return n_slow, lines, None
        return n_slow, lines, parsed

    @property
    def words(self):
        bounds = self.starts[: self.starts[-1] + 1]
        return [bytes(self.letters[a:b]) for a, b in pairwise(bounds)]


def reference(raw, room, n_whole):
    """The entries before the first line that does not fit, and where it begins; no words."""
    entries, at = [], 0
    for line in raw.split(b"\n"):
        tokens = [token for token in line.replace(b"\t", b" ").replace(b"\r", b" ").split(b" ") if token]
        if tokens and not tokens[0].startswith(b"#"):
            *whole, real = tokens if len(tokens) == n_whole + 1 else ([b"x"] * n_whole + [b"x"])
            if len(entries) == room or not all(t.isdigit() and len(t) <= 10 and int(t) < 2**31 for t in whole):
                return entries, at
            if len(real) > kernels.NUMBER_WIDTH or set(real) - set(b"0123456789+-.eE"):
                return entries, at
            try:
                entries.append(([int(t) for t in whole], float(real)))
            except ValueError:
                return entries, at
        at += len(line) + 1
    return entries, min(at, len(raw))


def same_bits(x, y):
    return np.float64(x).tobytes() == np.float64(y).tobytes()


@pytest.mark.parametrize("seed", range(5))
def test_every_double_is_read_back(seed):
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate([bits[np.isfinite(bits)], np.round(rng.standard_normal(20_000), 6), rng.random(20_000)])
    kept = Columns(numbers.size, 1)
    styles = [repr, "{:.3e}".format, "{:.17g}".format, "{:+g}".format, "{:E}".format]
    written = [styles[i % 5](x) for i, x in enumerate(numbers.tolist())]
    raw = "".join(f"{i} {x}\n" for i, x in enumerate(written)).encode()
    n_slow, lines, parsed = kept.read(raw)
    assert (lines, parsed, kept.used) == (numbers.size, len(raw), numbers.size)
    assert 0 < n_slow < numbers.size
    assert kept.whole[0].tolist() == list(range(numbers.size))
    assert kept.real.tobytes() == np.array([float(x) for x in written]).tobytes()


@pytest.mark.parametrize(
    "token",
    [
        "0",
        "-0",
        "+1",
        "1.",
        ".5",
        "-.5e1",
        "1e22",
        "1e23",
        "1e-22",
        "1e-23",
        "9007199254740992",
        "9007199254740993",
        "9007199254740992e22",
        "0.1e-3",
        "1E+5",
        "00000000000000000000001",
        "1e0005",
        "1e00005",
        "123456789012345678901234567890",
        "4.9e-324",
        "1e400",
        "0e9999",
    ],
)
def test_numbers_at_the_edge_of_the_quick_way(token):
    kept = Columns(1, 0)
    _, lines, parsed = kept.read(token.encode())
    assert (kept.used, lines, parsed) == (1, 1, len(token))
    assert same_bits(kept.real[0], float(token))


@pytest.mark.parametrize("token", ["1e", "1e+", "x", "1x", "nan", "inf", "1_0", "0x1", "1" * 65, "\0", "1\0", "1,5"])
def test_what_is_no_number_ends_the_reading(token):
    kept = Columns(3, 0)
    assert kept.read(f"1\n{token}\n2\n".encode()) == (0, 1, 2)
    assert kept.used == 1


@pytest.mark.parametrize("token", [".", "-", "+", "1/3", "--1", "1e5e5", "1.2.3", "+-1", "/", "e5", "1e12345", "1+1"])
def test_what_only_looks_like_a_number_is_left_to_python(token):
    kept = Columns(1, 0)
    kept.used, n_slow, *_ = kernels.parse_lines(
        np.frombuffer(token.encode(), np.uint8),
        *(kept.whole, kept.real, kept.word, 0, kept.slow, kept.slow_line, kept.starts, kept.letters),
    )
    assert (kept.used, n_slow, kept.slow_line[0]) == (1, 1, 0)
    assert bytes(kept.slow[0]) == token.encode().ljust(kernels.NUMBER_WIDTH, b"\0")


@pytest.mark.parametrize(("token", "value"), [("0", 0), ("007", 7), ("2147483647", 2**31 - 1), ("0000000001", 1)])
def test_whole_numbers(token, value):
    kept = Columns(1, 2)
    assert kept.read(f"{token}\t{token}  0.5".encode()) == (0, 1, 2 * len(token) + 6)
    assert kept.whole[:, 0].tolist() == [value, value]


@pytest.mark.parametrize("token", ["-1", "+1", "1.0", "2147483648", "9999999999", "00000000001", "a", "\xff", "1e3"])
def test_what_is_no_whole_number_ends_the_reading(token):
    kept = Columns(1, 1)
    assert kept.read(f"\n# 1 2 3\n{token} 1.0\n".encode("latin-1")) == (0, 2, 9)
    assert kept.used == 0


def test_blank_lines_comments_and_ends_of_lines():
    kept = Columns(4, 1)
    raw = b"\r\n  # no numbers \n#\n1 2\r\n\t3\t4 \n\n 5 6"
    assert kept.read(raw) == (0, 7, len(raw))
    assert (kept.whole[0, :3].tolist(), kept.real[:3].tolist()) == ([1, 3, 5], [2.0, 4.0, 6.0])
    assert kept.read(b"") == (0, 0, 0)
    # a comment only begins a line, a line has no more numbers than that, and no fewer
    for wrong in (b"1 2 # x", b"1 2 3", b"1"):
        assert kept.read(wrong)[2] == 0
    # room for one more
    assert kept.read(b"7 8\n9 9\n") == (0, 1, 4)


def test_words_are_numbered_in_the_order_they_come():
    kept = Columns(6, 1, words=True)
    assert kept.read(b"1 1 b\n2 1\n3 1 a\n")[1] == 3
    assert kept.read(b"4 1 a\n5 1 \xff\xfe\n6 1 b\n")[1] == 3
    assert kept.word.tolist() == [0, -1, 1, 1, 2, 0]
    assert kept.words == [b"b", b"a", b"\xff\xfe"]
    assert kept.read(b"7 1 b c\n")[2] == 0


def test_more_words_than_there_is_room_for():
    kept = Columns(2 * kernels.MOST_WORDS, 0, words=True)
    kept.letters = np.empty(2**20, np.uint8)
    raw = b"".join(b"1 w%d\n" % (i // 2) for i in range(2 * kernels.MOST_WORDS - 2)) + b"1 more\n1 many\n"
    assert kept.read(raw)[2] == len(raw)
    assert kept.word.tolist() == [*(i // 2 for i in range(2 * kernels.MOST_WORDS - 2)), kernels.MOST_WORDS - 1, -2]
    short = Columns(3, 0, words=True)
    short.letters = np.empty(4, np.uint8)
    short.read(b"1 abc\n1 de\n1 f\n")
    assert short.word.tolist() == [0, -2, 1]


LINES = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.floats().map(lambda x: repr(x).encode()),
        st.integers(-10, 2**33).map(lambda i: str(i).encode()),
        st.sampled_from(
            [b" ", b"\t", b"\n", b"\n", b"\r\n", b"#", b"1", b"1 2\n", b"0.5", b"1e", b"-", b".", b"1" * 70]
        ),
    ),
    max_size=30,
).map(b"".join)


@settings(max_examples=100, deadline=None)
@given(raw=LINES, room=st.integers(0, 4), n_whole=st.integers(0, 2))
def test_any_bytes_are_read_as_python_would(raw, room, n_whole):
    kept = Columns(room, n_whole)
    entries, parsed = reference(raw, room, n_whole)
    assert kept.read(raw)[2] in (None, parsed)
    assert kept.used == len(entries)
    for i, (whole, real) in enumerate(entries):
        assert kept.whole[:, i].tolist() == whole
        assert same_bits(kept.real[i], real)


@settings(max_examples=100, deadline=None)
@given(raw=LINES, room=st.integers(0, 4), slow=st.integers(0, 2), n_whole=st.integers(0, 2), words=st.booleans())
def test_nothing_is_written_beyond_the_columns(raw, room, slow, n_whole, words):
    kept = Columns(room, n_whole, words=words, slow=slow)
    kept.letters = np.empty(8, np.uint8)
    n_slow, lines, parsed = kept.read(raw)
    assert 0 <= kept.used <= room
    assert 0 <= n_slow <= slow
    assert parsed is None or 0 <= parsed <= len(raw)
    assert lines <= raw.count(b"\n") + 1
    assert 0 <= kept.starts[kept.starts[-1]] <= 8
    assert parsed is None or (kept.whole[:, kept.used + 1 :] == -7).all()


def test_arrays_that_do_not_fit_are_refused():
    def call(**changed):
        kept = Columns(3, 2, words=True)
        given = {
            "text": np.frombuffer(b"1 2 3 a\n", np.uint8),
            **{name: getattr(kept, name) for name in ("whole", "real", "word", "used", "slow", "slow_line")},
            **{"starts": kept.starts, "letters": kept.letters},
        }
        return kernels.parse_lines(*{**given, **changed}.values())

    assert call() == (1, 0, 1, 8)
    count = np.zeros(kernels.MOST_WORDS + 2, np.int64)
    broken = []
    for place, value in ((-1, -1), (-1, kernels.MOST_WORDS + 1), (0, 1), (1, -1), (1, 2**13)):
        broken.append(count.copy())
        broken[-1][-1] = 1
        broken[-1][place] = value
    for changed in (
        {"whole": np.empty((2, 2), np.int32)},
        {"word": np.empty(1, np.int32)},
        {"used": -1},
        {"used": 4},
        {"slow": np.empty((3, 63), np.uint8)},
        {"slow_line": np.empty(2, np.int64)},
        {"starts": count[1:]},
        *({"starts": starts} for starts in broken),
    ):
        with pytest.raises(ValueError, match="parse_lines needs"):
            call(**changed)
    with pytest.raises(TypeError, match="`text` must be uint8"):
        call(text=np.zeros(3, np.int32))
    real = np.empty(3)
    real.flags.writeable = False
    with pytest.raises(TypeError, match="`real` must be writable"):
        call(real=real)
