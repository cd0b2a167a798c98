"""Tables of every kind give the same columns."""

import csv
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from table_samples import TABLE, read, rows

import cautious as ca
from cautious.tables import csv_files, read_columns
from cautious.tables.hints import guesses


def check(found):
    assert found.n_rows == 4
    assert found.labels == {"place": ("a", "b", "c"), "who": (1, 2, 3)}
    assert found.codes["from"].tolist() == [1, 0, 1, 2]
    assert found.codes["to"].tolist() == [0, 1, 2, 1]
    assert found.codes["who"].tolist() == [2, 0, 2, 1]
    assert found.numbers["cost"].tolist() == TABLE["cost"]
    assert found.flags["late"].tolist() == TABLE["late"]


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
            at += 1 + len(re.findall(r"\r\n|\r|\n", text))
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


def test_a_row_of_a_file_that_is_gone_goes_by_its_number(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a\nx\n\ny\n")
    found = read_columns(path, labels={"a": "a"})
    assert found.where(1) == f"{path}, line 4"
    path.unlink()
    assert found.where(1) == f"{path}, row 1 (counted from 0)"


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
    with pytest.raises(ca.InputError, match=r"'ward'; say which is which, as in names=\{'state': 'ward'\}, or in a"):
        read_columns({"ward": ["x"]}, labels={"state": "s"})


def test_no_column_is_suggested_that_is_in_use():
    columns = {"labels": {"state": "s", "action": "a", "next_state": "s"}, "numbers": ("reward",)}
    table = {"ward": ["x"], "then": ["x"], "gain": [1], "bed": ["x"], ("odd", 1): [1]}
    with pytest.raises(ca.InputError) as caught:
        read_columns(table, **columns, names={"state": "ward"})
    assert "names={'action': '?', 'next_state': '?', 'reward': 'gain'}, or in a" in str(caught.value)
    assert '{ state = "ward", action = "?", next_state = "?", reward = "gain" }' in str(caught.value)
    with pytest.raises(ca.InputError, match=r"no column 'beds'; .*; did you mean 'bed'\?$"):
        read_columns(table, **columns, names={"state": "ward", "action": "beds"})
    with pytest.raises(ca.InputError, match=r"names\['rewards'\]: there is no such column; .*did you mean 'reward'\?"):
        read_columns(table, **columns, names={"rewards": "gain"})
    with pytest.raises(ca.InputError, match="no column"):
        read_columns(table, **columns, names={"state": ["ward"]})
    # another word for it counts before its letters, and what is left goes to what is left
    assert guesses(["next_state", "state", "action"], ["Next-State ", "to", "bed"]) == {"next_state": "to"}
    assert guesses(["reward", "probability"], ["prob", "euros"]) == {"probability": "prob", "reward": "euros"}


def test_blanks_around_labels_count_in_memory_and_not_in_text_files(tmp_path):
    table = {"state": [" a", "a", "a\n"]}
    found = read_columns(table, labels={"state": "state"})
    assert (found.labels["state"], found.codes["state"].tolist()) == ((" a", "a", "a\n"), [0, 1, 2])
    assert read_columns(pa.table(table), labels={"state": "state"}).labels["state"] == (" a", "a", "a\n")
    (tmp_path / "table.csv").write_text("state\n a\na\na \n")
    assert read_columns(tmp_path / "table.csv", labels={"state": "state"}).labels["state"] == ("a",)
    with pytest.raises(ca.InputError, match="'state' is empty"):
        read_columns({"state": ["a", " "]}, labels={"state": "state"})


SEMICOLONS = "from;to;who;cost;late\nb;a;3;1,5;1\na;b;1;-2;0\nb;c;3;0,25;1\nc;b;2;1e3;0\n"


@pytest.mark.parametrize("separator", [";", "\t", "|"])
@pytest.mark.parametrize("by_arrow", [False, True])
def test_other_separators_and_decimal_commas(tmp_path, monkeypatch, separator, by_arrow):
    monkeypatch.setattr(csv_files, "ARROW_BYTES", 0 if by_arrow else 2**40)
    path = tmp_path / "table.csv"
    path.write_text("\ufeff" + SEMICOLONS.replace(";", separator), encoding="utf-8")
    found = read(path)
    assert found.numbers["cost"].tolist() == [1.5, -2.0, 0.25, 1000.0]
    assert found.labels["place"] == ("a", "b", "c")
    assert found.where(1).endswith("line 3")


def test_separators_within_quotation_marks_do_not_count(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text('"from;;;;;;",to\na,b\n')
    found = read_columns(path, labels={"from": "place", "to": "place"}, names={"from": "from;;;;;;"})
    assert found.labels["place"] == ("a", "b")


MISSING = {"from": ["a", None, "b", "b"], "to": ["b", "b", "a", ""], "cost": [1.0, 2.0, np.nan, 4.0]}
IN_TEXT = "from,to,cost\na,b,1\nN/A,b,2\nb,a,nan\nb, ,4\n"


@pytest.mark.parametrize("kind", ["lists", "pandas", "polars", "pyarrow", "csv", "csv by pyarrow"])
def test_rows_with_missing_cells_are_left_out_and_counted(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(csv_files, "ARROW_BYTES", 0 if "pyarrow" in kind else 2**40)
    path = tmp_path / "table.csv"
    path.write_text(IN_TEXT)
    table = {"lists": MISSING, "pandas": pd.DataFrame(MISSING), "polars": pl.DataFrame(MISSING, strict=False)}
    table = {**table, "pyarrow": pa.table(MISSING), "csv": path, "csv by pyarrow": path}[kind]
    wanted = {"labels": {"from": "place", "to": "place"}, "numbers": ["cost"]}
    found = read_columns(table, **wanted, missing="drop")
    assert found.n_rows == 1
    assert found.numbers["cost"].tolist() == [1.0]
    assert found.missing == {"from": 1, "to": 1, "cost": 1}
    with pytest.raises(
        ca.InputError, match='missing in all: from 1, to 1, cost 1; missing="drop" leaves these rows out'
    ):
        read_columns(table, **wanted, missing="refuse")


def test_rows_are_named_as_they_stand_in_the_table(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("from,cost\n,1\na,2\na,x\n")
    with pytest.raises(ca.FileError, match="line 4: 'cost' is 'x'"):
        read_columns(path, labels={"from": "place"}, numbers=["cost"], missing="drop")
    path.write_text("from,cost\n,1\na,2\nb,3\n")
    found = read_columns(path, labels={"from": "place"}, numbers=["cost"], missing="drop")
    assert found.where(1).endswith("line 4")
    path.write_text("from,cost\n,1\n")
    with pytest.raises(ca.FileError, match=r"no rows without missing cells \(from 1\)"):
        read_columns(path, labels={"from": "place"}, numbers=["cost"], missing="drop")
