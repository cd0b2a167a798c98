"""Tables of every kind give the same columns; anything wrong is a typed error that says where."""

import contextlib
import csv
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cautious as ca
from cautious.tables import csv_files, read_columns

KINDS = {"labels": {"from": "place", "to": "place", "who": "who"}, "numbers": ("cost",), "flags": ("late",)}
TABLE = {
    "from": ["b", "a", "b", "c"],
    "to": ["a", "b", "c", "b"],
    "who": [3, 1, 3, 2],
    "cost": [1.5, -2.0, 0.0, 1e9],
    "late": [True, False, False, True],
}
HEADER = "from,to,who,cost,late\n"


def read(table, **more):
    return read_columns(table, **(KINDS | {"order": ("from", "to", "who", "cost", "late")} | more))


def check(found):
    assert found.n_rows == 4
    assert found.labels == {"place": ("a", "b", "c"), "who": (1, 2, 3)}
    assert found.codes["from"].tolist() == [1, 0, 1, 2]
    assert found.codes["to"].tolist() == [0, 1, 2, 1]
    assert found.codes["who"].tolist() == [2, 0, 2, 1]
    assert found.numbers["cost"].tolist() == TABLE["cost"]
    assert found.flags["late"].tolist() == TABLE["late"]


def rows():
    return list(zip(*TABLE.values(), strict=True))


def structured():
    return pd.DataFrame(TABLE).astype({"from": "S1", "to": "S1"}).to_records(index=False, column_dtypes={"from": "U1"})


IN_MEMORY = {
    "lists": TABLE,
    "arrays": {name: np.array(column) for name, column in TABLE.items()},
    "objects": {name: np.array(column, dtype=object) for name, column in TABLE.items()},
    "pandas": pd.DataFrame(TABLE),
    "pandas, odd index": pd.DataFrame(TABLE, index=[0.5, 7, 7, 1]),
    "pandas, categories": pd.DataFrame(TABLE).astype({"from": "category", "who": "Int64", "late": "boolean"}),
    "polars": pl.DataFrame(TABLE),
    "polars, categories": pl.DataFrame(TABLE).with_columns(pl.col("from").cast(pl.Categorical)),
    "pyarrow": pa.table(TABLE),
    "pyarrow, chunks": pa.concat_tables([pa.table(TABLE).slice(0, 1), pa.table(TABLE).slice(1)]),
    "pyarrow, dictionary": pa.table(TABLE | {"from": pa.array(TABLE["from"]).dictionary_encode()}),
    "structured": np.array(rows(), dtype=[("from", "U1"), ("to", "U1"), ("who", "i4"), ("cost", "f8"), ("late", "?")]),
    "tuples": rows(),
    "tuple of arrays": tuple(np.array(column) for column in TABLE.values()),
    "array of rows": np.array(rows(), dtype=object),
    "mappings": [dict(zip(TABLE, row, strict=True)) for row in rows()],
}


@pytest.mark.parametrize("kind", IN_MEMORY)
def test_tables_in_memory(kind):
    found = read(IN_MEMORY[kind])
    check(found)
    assert found.where(2) == "table, row 2 (counted from 0)"


def test_whole_numbers_in_an_array_of_doubles_are_labels():
    table = np.array([[3.0, 1.0, 0.5], [2.0, 1.0, 2.0]])
    kinds = {"labels": {"from": "place", "to": "place"}, "numbers": ["cost"], "order": ("from", "to", "cost")}
    found = read_columns(table, **kinds)
    assert found.labels["place"] == (1, 2, 3)
    assert all(type(label) is int for label in found.labels["place"])
    assert found.numbers["cost"].tolist() == [0.5, 2.0]
    assert read_columns(table + 0.25, **kinds).labels["place"] == (1.25, 2.25, 3.25)
    with pytest.raises(ca.InputError, match="the table has 2 columns; expected 3: from, to, cost"):
        read_columns(table[:, :2], **kinds)


@pytest.mark.parametrize("suffix", ["csv", "txt", "parquet", "arrow", "arr", "feather", "stream.arrow"])
def test_files(tmp_path, suffix):
    path = tmp_path / f"table.{suffix}"
    frame = pd.DataFrame(TABLE | {"not wanted": [[1]] * 4})
    if suffix in ("csv", "txt"):
        frame.to_csv(path, index=False)
    elif suffix == "parquet":
        frame.to_parquet(path, row_group_size=3)
    elif suffix == "feather":
        pyarrow.feather.write_feather(pa.table(TABLE), path)
    else:
        opening = pa.ipc.new_stream if "stream" in suffix else pa.ipc.new_file
        with opening(path, pa.table(TABLE).schema) as writer:
            writer.write_table(pa.table(TABLE), max_chunksize=3)
    check(read(path))
    check(read(str(path)))


def test_a_csv_file_with_everything_that_is_legal(tmp_path):
    path = tmp_path / "table.csv"
    text = (
        '\n from ,"to",who,cost,late\nb,a,03,1.5,1\n\n\n"a, ""b""", b ,1,-2,false\n"two\nlines",a,3,1e3,TRUE\nc,a,2,0,0'
    )
    path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    found = read(path)
    assert found.labels["place"] == ("a", 'a, "b"', "b", "c", "two\r\nlines")
    # one label with a leading zero makes all of them texts
    assert found.labels["who"] == ("03", "1", "2", "3")
    assert found.flags["late"].tolist() == [True, False, True, False]
    lines = [int(found.where(row).split("line ")[1]) for row in range(4)]
    assert lines == [3, 6, 8, 9]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_csv_lines_are_those_of_the_csv_module(data, tmp_path_factory):
    cell = st.text(st.sampled_from('ab ,"\n\r7é'), min_size=1, max_size=5).filter(lambda text: text.strip())
    cells = data.draw(st.lists(st.tuples(cell, st.integers(-5, 5), st.booleans()), min_size=1, max_size=12))
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        file.write("a,b\n")
        writer = csv.writer(file)
        lines, at = [], 1
        for text, number, blank in cells:
            if blank:
                file.write("\r\n")
                at += 1
            writer.writerow([text, number])
            at += 1 + len(csv_files.LINE_END.findall(text))
            lines.append(at)
    found = read_columns(path, labels={"a": "a"}, numbers=["b"])
    texts = [found.labels["a"][code] for code in found.codes["a"]]
    assert [str(text) for text in texts] == [text.strip() for text, _, _ in cells]
    assert found.numbers["b"].tolist() == [number for _, number, _ in cells]
    assert [found.where(row) for row in range(len(cells))] == [f"{path}, line {line}" for line in lines]


def test_many_rows_over_chunks(tmp_path):
    rng = np.random.default_rng(0)
    n = 3 * csv_files.CHUNK_ROWS + 7
    frame = pd.DataFrame({"state": rng.integers(-40, 40, n), "next": rng.integers(-40, 90, n), "x": rng.normal(size=n)})
    path = tmp_path / "t.csv"
    frame.to_csv(path, index=False)
    found = read_columns(path, labels={"state": "s", "next": "s"}, numbers=["x"])
    labels = np.array(found.labels["s"])
    assert np.array_equal(labels, np.unique(frame[["state", "next"]]))
    for column in ("state", "next"):
        assert np.array_equal(labels[found.codes[column]], frame[column])
    assert np.array_equal(found.numbers["x"], frame["x"])
    assert found.where(n - 1) == f"{path}, line {n + 1}"


def test_any_hashable_is_a_label():
    places = [(0, 1), "x", 2, None, 2.5]
    found = read_columns({"a": [*places[:3], 2.0]}, labels={"a": "a"})
    assert found.labels["a"] == ((0, 1), "x", 2)
    assert found.codes["a"].tolist() == [0, 1, 2, 2]
    dates = np.array(["2026-01-02", "2026-01-01"], dtype="M8[D]")
    assert read_columns({"a": dates}, labels={"a": "a"}).labels["a"] == ("2026-01-01", "2026-01-02")
    with pytest.raises(ca.InputError, match=r"row 3 .*'a' is missing"):
        read_columns({"a": places}, labels={"a": "a"})


def test_names_and_optional_columns():
    found = read_columns(
        {"ward": ["x", "y"]}, labels={"state": "s"}, numbers=("r",), optional=("r",), names={"state": "ward"}
    )
    assert found.labels["s"] == ("x", "y")
    assert found.numbers == {}
    with pytest.raises(ca.InputError, match="no column 'pay'; the columns are 'ward'"):
        read_columns({"ward": ["x"]}, labels={"ward": "s"}, numbers=("r",), optional=("r",), names={"r": "pay"})
    with pytest.raises(ca.InputError, match=r"names\['stat'\]: there is no such column"):
        read_columns({"ward": ["x"]}, labels={"ward": "s"}, names={"stat": "ward"})


BAD_CSV = {
    "": "the file is empty",
    "\n\n": "the file is empty",
    HEADER: "no rows",
    "from;to;who;cost;late\na;b;c;1;1\n": "line 1: the cells are separated by ';'",
    "from,to\na,b\n": "no column 'who'; the columns are 'from', 'to'",
    HEADER.replace("to", "from") + "a,b,c,1,1\n": "column 'from' is there 2 times",
    HEADER + "a,b,c,1,1\na,b,c,1\n": "line 3: 4 cells; the header has 5",
    HEADER + "a,b,c,1,1,\n": "line 2: 6 cells; the header has 5",
    HEADER + "a,b,c,1,1\n\na,b,,1,1\n": "line 4: 'who' is empty",
    HEADER + "a,b, ,1,1\n": "line 2: 'who' is empty",
    HEADER + "a,b,c,,1\n": "line 2: 'cost' is empty; expected a number",
    HEADER + "a,b,c,1,1\na,b,c,x,1\n": "line 3: 'cost' is 'x'; expected a number",
    HEADER + "a,b,c,nan,1\n": "line 2: 'cost' is nan; expected a finite number",
    HEADER + "a,b,c,-inf,1\n": "line 2: 'cost' is -inf; expected a finite number",
    HEADER + "a,b,c,1e999,1\n": "line 2: 'cost' is 1e999; expected a finite number",
    HEADER + "a,b,c,1_000,1\n": "line 2: 'cost' is '1_000'; expected a number",
    HEADER + "a,b,c,٣,1\n": "line 2: 'cost' is '٣'; expected a number",
    HEADER + "a,b,c,1,maybe\n": "line 2: 'late' is 'maybe'; expected true or false, 1 or 0",
    HEADER + 'a,"b,c,1,1\n': "line 2: unexpected end of data",
    HEADER + 'a,"b"x,c,1,1\n': "line 2: ',' expected after '\"'",
    HEADER + "a,b\0,c,1,1\n": r"line 2: 'to' is 'b\\x00'; expected a label",
    HEADER + "a," + "b" * 200_000 + ",c,1,1\n": "line 2: field larger than field limit",
}


@pytest.mark.parametrize("text", BAD_CSV, ids=range(len(BAD_CSV)))
def test_wrong_csv_files(tmp_path, text):
    path = tmp_path / "bad.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(ca.FileError, match=BAD_CSV[text]) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))


BAD_TABLES = [
    (3, "expected a mapping of columns"),
    (None, "expected a mapping of columns"),
    (np.zeros((3, 4)), "the table has 4 columns; expected 5: from, to, who, cost, late"),
    (np.zeros((3, 4, 5)), "expected a mapping of columns"),
    (iter([1]), "expected a mapping of columns"),
    (pl.DataFrame(TABLE).lazy(), "expected a mapping of columns"),
    (b"t.csv", "expected a mapping of columns"),
    ({}, "no column 'from'; the columns are none"),
    (TABLE | {"to": ["a"]}, "'from' has 4 rows, 'to' has 1"),
    (TABLE | {"to": "abcd"}, "'to' is 'abcd'; expected one value per row"),
    (TABLE | {"to": np.zeros((4, 2))}, "expected one value per row"),
    (TABLE | {"to": [["a"], "b", "c", "d"]}, r"row 0 .*'to' is \['a'\]; a label must be hashable, found list"),
    (TABLE | {"who": [1.0, float("nan"), 2.0, 3.0]}, "row 1 .*'who' is missing"),
    (TABLE | {"who": np.array([1.0, 2.0, np.nan, 3.0])}, "row 2 .*'who' is missing"),
    (TABLE | {"who": np.array(["2026-01-01", "NaT"] * 2, dtype="M8[D]")}, "row 1 .*'who' is missing"),
    (TABLE | {"cost": [1, "2", 3, 4]}, "row 1 .*'cost' is '2'; expected a number"),
    (TABLE | {"cost": [1, 2j, 3, 4]}, "row 1 .*'cost' is 2j; expected a number"),
    (TABLE | {"cost": [1, None, 3, 4]}, "row 1 .*'cost' is missing"),
    (TABLE | {"cost": [1, 10**400, 3, 4]}, "row 1 .*expected a number of double precision"),
    (TABLE | {"cost": np.array([1, 2, np.inf, 4])}, "row 2 .*'cost' is inf; expected a finite number"),
    (TABLE | {"late": [0, 1, 2, 0]}, "row 2 .*'late' is 2; expected true or false, 1 or 0"),
    (pd.DataFrame(TABLE).astype({"who": "Int64"}).replace({"who": {1: pd.NA}}), "row 1 .*'who' is missing"),
    (pd.DataFrame([[1, 2]], columns=["from", "from"]), "column 'from' is there 2 times"),
    (pl.DataFrame(TABLE | {"who": [1, None, 2, 3]}), "row 1 .*'who' is missing"),
    (pa.table(TABLE | {"who": [1, 2, None, 3]}), "row 2 .*'who' is missing"),
    (pa.table(TABLE | {"cost": [1.0, 2, None, 3]}), "row 2 .*'cost' is missing"),
    (pa.table(TABLE | {"who": [[1], [2], [3], [4]]}), "must be hashable, found list"),
    ([(1, 2)], "row 0 .* has 2 cells; expected 5 cells: from, to, who, cost, late"),
    ([*rows(), "abcde"], "row 4 .* is 'abcde'; expected 5 cells"),
    ([dict.fromkeys(TABLE, 1), {"from": 1}], r"row 1 .* has the cells \['from'\]; expected 5"),
]


@pytest.mark.parametrize(("table", "message"), BAD_TABLES, ids=range(len(BAD_TABLES)))
def test_wrong_tables(table, message):
    with pytest.raises(ca.CautiousError, match=message):
        read(table)


def test_files_that_cannot_be_read(tmp_path):
    for name in ("missing.csv", "missing.parquet", "missing.arrow"):
        with pytest.raises(ca.FileError, match=r"(?i)no such file"):
            read(tmp_path / name)
    with pytest.raises(ca.FileError, match="Is a directory"):
        read(tmp_path)
    with pytest.raises(ca.FileError, match="null byte"):
        read("a\0b")
    (tmp_path / "latin.csv").write_bytes(HEADER.encode() + b"a,\xe9,c,1,1\n")
    with pytest.raises(ca.FileError, match="not a csv file in UTF-8"):
        read(tmp_path / "latin.csv")


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow", "stream.arrow"])
def test_damaged_files_never_crash(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    if suffix == "csv":
        pd.DataFrame(TABLE).to_csv(path, index=False)
    elif suffix == "parquet":
        pyarrow.parquet.write_table(pa.table(TABLE), path)
    else:
        opening = pa.ipc.new_stream if "stream" in suffix else pa.ipc.new_file
        with opening(path, pa.table(TABLE).schema) as writer:
            writer.write_table(pa.table(TABLE))
    whole, rng = path.read_bytes(), random.Random(0)
    for attempt in range(300):
        data = bytearray(whole)
        for _ in range(rng.choice([1, 1, 3, 20])):
            data[rng.randrange(len(data))] = rng.randrange(256)
        if attempt % 3 == 0:
            del data[rng.randrange(len(data)) :]
        path.write_bytes(data)
        with contextlib.suppress(ca.InputError):
            read(path)


def test_parquet_without_pyarrow_names_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    with pytest.raises(ca.MissingExtraError, match=r"cautious\[data\]"):
        read(tmp_path / "t.parquet")
