"""Anything wrong with a table is a typed error that says where."""

import contextlib
import gzip
import random

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet
import pytest
import scipy.sparse as sp
from table_samples import HEADER, TABLE, read, rows

import cautious as ca

BAD_CSV = {
    "": "the file is empty",
    "\n\n": "the file is empty",
    HEADER: "no rows",
    "from;to;who;cost;late\na;b;c;1,5;1\na;b;c;1.5;1\n": "line 3: 'cost' is '1.5'; the decimal sign of this column",
    "from;to;who;cost;late\na;b;c;1.000,5;1\n": "line 2: 'cost' is '1.000,5'; the decimal sign",
    "from;to;who;cost;late\na;b;c;1,5\n": "line 2: 4 cells; the header has 5",
    "PK\x03\x04 and more": "this is a workbook of Excel; save the sheet as csv",
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


@pytest.mark.parametrize(
    ("bad", "problem"),
    [
        ("a,b,c,1", "4 cells; the header has 5"),
        ("a,b,c,x,1", "'cost' is 'x'; expected a number"),
        ("a,,c,1,1", "'to' is empty"),
        ("a,b,c,1,2", "'late' is '2'; expected true or false, 1 or 0"),
        ("a,\0,c,1,1", r"'to' is '\\x00'; expected a label"),
    ],
)
def test_a_bad_row_far_down_is_named_by_its_line(tmp_path, bad, problem):
    path, good = tmp_path / "long.csv", "a,b,c, 1.5,1\n"
    path.write_text(HEADER + 700 * good + "\n" + 700 * good + bad + "\n" + 700 * good)
    with pytest.raises(ca.FileError, match=f"long.csv, line 1403: {problem}"):
        read(path)


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
    (TABLE | {"cost": np.ma.array([1.0, 2, 3, 4], mask=[0, 1, 0, 0])}, "row 1 .*'cost' is missing"),
    (TABLE | {"who": np.ma.array([1, 2, 3, 4], mask=[0, 1, 0, 0])}, "row 1 .*'who' is missing"),
    (TABLE | {"cost": np.ones(4, dtype="m8[s]")}, "row 0 .*'cost' is .*; expected a number"),
    (TABLE | {"cost": [1, 10**400, 3, 4]}, "row 1 .*expected a number of double precision"),
    (TABLE | {"cost": np.array([1, 2, np.inf, 4])}, "row 2 .*'cost' is inf; expected a finite number"),
    (TABLE | {"late": [0, 1, 2, 0]}, "row 2 .*'late' is 2; expected true or false, 1 or 0"),
    (pd.DataFrame(TABLE).astype({"who": "Int64"}).replace({"who": {1: pd.NA}}), "row 1 .*'who' is missing"),
    (pd.DataFrame([[1, 2]], columns=["from", "from"]), "column 'from' is there 2 times"),
    (pl.DataFrame(TABLE | {"who": [1, None, 2, 3]}), "row 1 .*'who' is missing"),
    (pa.table(TABLE | {"who": [1, 2, None, 3]}), "row 2 .*'who' is missing"),
    (pa.table(TABLE | {"cost": [1.0, 2, None, 3]}), "row 2 .*'cost' is missing"),
    (pa.table(TABLE | {"who": [[1], [2], [3], [4]]}), "must be hashable, found list"),
    (sp.dok_array(np.eye(2)), "the table is a sparse matrix"),
    (sp.csr_array(np.eye(5)), "the table is a sparse matrix"),
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
    with pytest.raises(ca.FileError, match="a folder; expected a regular file"):
        read(tmp_path)
    with pytest.raises(ca.FileError, match="null character"):
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


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (gzip.compress(b"state,action,reward,next_state\na,b,1,a\n", mtime=0), "packed by gzip: unpack it first"),
        ("state,action,reward,next_state\na,b,1,a\n".encode("utf-16"), "UTF-16: save it as UTF-8"),
    ],
)
def test_other_files_called_csv_are_recognised(tmp_path, content, advice):
    (tmp_path / "log.csv").write_bytes(content)
    with pytest.raises(ca.FileError, match=advice):
        ca.from_transitions(tmp_path / "log.csv", 0.9)
    (tmp_path / "log.csv.gz").write_bytes(content)
    with pytest.raises(ca.InputError, match="unpack it first"):
        ca.read_model(tmp_path / "log.csv.gz", discount=0.9)
