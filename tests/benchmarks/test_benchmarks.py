import importlib.util
import json
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import cautious as ca

FOLDER = Path(__file__).parents[2] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def learning(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return load("learn")


def test_a_row_of_the_learning_table(learning):
    problem = learning.cases.grid("KL", 0.9)
    row = learning.row("plug-in", problem, "plug-in", 4000, 0.5, learning.Seeds(2))
    assert row["kept"]
    assert 0 <= row["off"] <= row["worst"] <= 0.5
    with ThreadPoolExecutor(2) as pool:
        spread = learning.row("plug-in", problem, "plug-in", 4000, 0.5, learning.Seeds(2, pool))
    assert [spread[name] for name in ("off", "worst")] == [row[name] for name in ("off", "worst")]
    assert json.loads(json.dumps(row)) == row


def test_the_problems_of_the_learning_table_are_solvable(learning):
    for risk in learning.FOUR:
        assert ca.solve(learning.cases.grid(risk, 0.9)).status is ca.Status.SOLVED
    assert len(learning.cases.other_worlds()) == 6
    assert learning.cases.large_grid(10, "KL").mdp.n_states == 100


def test_the_cost_of_a_sample(learning, monkeypatch):
    monkeypatch.setattr(learning.cases, "MEASURED_SAMPLES", 20_000)
    found = learning.costs([400])[0]
    assert found["pairs"] == 400
    assert found["against_the_smallest"] == 1.0
    assert found["against_numpy"] > 1


def test_the_cost_of_a_sample_of_the_printed_algorithm(monkeypatch):
    """Both loops are timed: the readable one takes a step of Python per sample."""
    monkeypatch.setattr("cautious.learning.printed.algorithm_1.PIECE_UPDATES", 100_000)
    rows = load("paper_algorithm").speed((5,))
    assert [(row["pairs"], row["risk"]) for row in rows] == [(20, "neutral"), (20, "KL")]
    assert all(0 < row["compiled_ns"] < row["readable_ns"] for row in rows)


def test_the_report_benchmark_reads_what_it_wrote(tmp_path):
    row = load("report").demonstrations(tmp_path, quick=True)
    assert row["what"] == "demonstrations, csv of 100,000 rows"
    assert 0 < row["limit"] < row["seconds"]
    found = ca.demonstrations(tmp_path / "demos.csv", ca.worlds.drift(), smoothing=0.0, at_end="cut")
    assert (found.n_episodes, found.n_steps) == (1000, 100_000)


def test_a_row_of_the_benchmark_of_verify(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    rows = load("verify").main(True, ["--states", "36", "--models", "grid", "--risks", "CVaR,PeakExposure"])
    assert [(row["risk"], row["status"], row["proved"]) for row in rows] == [
        ("CVaR", "SOLVED", True),
        ("PeakExposure", "SOLVED", True),
    ]
    assert capsys.readouterr().out.count("\n") == 4


def test_rows_of_the_benchmark_of_constraints(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    rows = load("constraints").main(True, ["--states", "36", "--models", "grid", "--risks", "none,Quadratic"])
    assert [row["status"] for row in rows] == ["SOLVED", "SOLVED"]
    assert all(row["ratio"] is None or row["ratio"] > 0 for row in rows)
    assert capsys.readouterr().out.count("\n") == 4


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="no C compiler on this machine")
def test_the_huge_grid_is_solved_by_passes():
    rows = load("huge").main(True, ["--side", "40", "--problems", "SafeSet,Exposure"])
    assert [row["problem"] for row in rows] == ["none", "SafeSet", "Exposure"]
    assert {row["status"] for row in rows} == {"SOLVED"}
    assert all(row["passes"] > 1 and row["relative_gap"] <= 1e-6 for row in rows)


def test_rows_of_the_benchmark_of_return_risks(monkeypatch, capsys):
    monkeypatch.syspath_prepend(str(FOLDER))
    rows = load("return_risk").main(True, ["--states", "10", "--limit", "60"])
    measured = [row for row in rows if "simulated" in row]
    assert len(measured) == 8
    assert len(rows) == 9
    assert {row["status"] for row in rows} == {"SOLVED"}
    assert all(row["memories"] >= 1 and row["gap_of_range"] <= 1e-3 for row in measured)
    assert [len(row["simulated"]) for row in measured] == [2, 3, 3, 3] * 2
    for row in measured:
        for told in row["simulated"].values():
            slack = 5 * told["standard_error"] + 10 * row["truncation_error"]
            least, most = told["exact"]
            assert least - slack < told["simulated"] < most + slack
    assert capsys.readouterr().out.count("\n") == 2 + 9 + 3 + 2 + 8
