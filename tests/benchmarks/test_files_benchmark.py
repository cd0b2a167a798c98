"""The benchmark of model files reads every format in a process of its own, also when it is started from the root."""

import runpy
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_format_is_read_in_a_child(monkeypatch):
    monkeypatch.chdir(ROOT)
    # a relative path, as the command line gives it
    benchmark = runpy.run_path("benchmarks/files.py", run_name="cautious_benchmark")
    found = benchmark["rows"](200)
    assert {row["format"] for row in found} == set(benchmark["SUFFIXES"])
    assert all(row["seconds"] > 0 for row in found if row["reader"] == "cautious")
