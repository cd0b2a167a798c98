import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

import cautious as ca

FOLDER = Path(__file__).parents[1] / "benchmarks"


def load(name):
    spec = importlib.util.spec_from_file_location(f"benchmarks_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bench():
    return load("solve")


@pytest.fixture(scope="module")
def case():
    return load("_case")


def test_one_case_in_a_child_process(bench, monkeypatch):
    pytest.importorskip("cvxpy")
    monkeypatch.setitem(bench.PEERS, "KL", ("CLARABEL",))
    row = bench.compare(bench.Case("grid", 16, 0.9, "KL"))
    assert row["own"]["status"] == "SOLVED"
    assert row["best_peer"]["solver"] == "CLARABEL"
    assert row["best_peer"]["objective"] == pytest.approx(row["own"]["objective"], rel=1e-5)
    assert json.loads(json.dumps(row)) == row
    assert bench.markdown([row]).count("\n") == 3


def test_a_solver_that_fails_or_hangs_is_a_row_and_not_an_error(bench, monkeypatch):
    failed = bench.one(bench.Case("grid", 16, 0.9, "KL"), "HIGHS", 60.0)
    assert failed["status"].startswith("failed: ")
    monkeypatch.setattr(bench, "GRACE_SECONDS", 0.0)
    late = bench.one(bench.Case("grid", 16, 0.9, "KL"), "SCS", 0.001)
    assert (late["status"], late["gap"]) == ("over 0 s", None)
    assert bench.best_of([failed, late]) is None


@pytest.mark.parametrize("kind", ["grid", "garnet"])
def test_every_risk_of_the_table_binds_and_is_solved(bench, case, kind):
    mdp = case.model(kind, 25, 0.9)
    for name in bench.PEERS:
        problem = ca.Problem(mdp, case.risk_of(name, kind, mdp), case.CAUTIONS.get(name, 1.0))
        assert ca.solve(problem).status is ca.Status.SOLVED, name


@pytest.mark.parametrize(
    "risk", ["none", "TotalVariation", "Wasserstein (graph)", "Wasserstein (matrix)", "PeakExposure"]
)
def test_a_peers_answer_is_certified(case, risk):
    pytest.importorskip("cvxpy")
    mdp = case.model("grid", 25, 0.9)
    found = case.peer(mdp, case.risk_of(risk, "grid", mdp), case.CAUTIONS.get(risk, 1.0), "HIGHS")
    assert -1e-12 <= found["gap"] <= 1e-8
    assert found["claimed"] == pytest.approx(found["objective"], rel=1e-6)


def test_cases_and_why_a_peer_is_missing(bench):
    full = bench.cases(False, list(bench.PEERS))
    assert {(one.model, one.n_states, one.discount) for one in full} == {
        ("grid", 2500, 0.95),
        ("grid", 2500, 0.99),
        ("garnet", 2500, 0.95),
    }
    assert bench.Case("grid", 2500, 0.95, "Wasserstein (matrix)").no_peer == "skipped: a plan of 6,250,000 entries"
    assert bench.Case("grid", 2500, 0.95, "Variance").no_peer == "not convex"


def test_the_grid_slips(case):
    mdp = case.grid(4, 0.9)
    row = mdp.transitions[[5 * 4 + 1]].toarray().ravel()
    assert row[6] == pytest.approx(0.8)
    assert row[1] == pytest.approx(0.1)
    assert np.isclose(row.sum(), 1)


@pytest.fixture
def learning(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return load("learn")


def test_a_row_of_the_learning_table(learning):
    problem = learning.cases.grid("KL", 0.9)
    row = learning.row("plug-in", problem, "plug-in", 4000, 0.5, seeds=2)
    assert row["kept"]
    assert 0 <= row["off"] <= row["worst"] <= 0.5
    assert json.loads(json.dumps(row)) == row


def test_the_problems_of_the_learning_table_are_solvable(learning):
    for risk in learning.FOUR:
        assert ca.solve(learning.cases.grid(risk, 0.9)).status is ca.Status.SOLVED
    assert len(learning.cases.other_worlds()) == 6
    assert learning.cases.large_grid(10, "KL").mdp.n_states == 100


def test_the_cost_of_a_sample(learning, monkeypatch):
    monkeypatch.setattr(learning.cases, "MANY", 20_000)
    found = learning.costs([400])[0]
    assert found["pairs"] == 400
    assert found["against_the_smallest"] == 1.0
    assert found["against_numpy"] > 1


def test_the_cost_of_a_sample_of_the_printed_algorithm(monkeypatch):
    """Both loops are timed: the readable one takes a step of Python per sample."""
    monkeypatch.setattr("cautious.learning.saddle.WORK", 100_000)
    rows = load("paper_algorithm").speed((5,))
    assert [(row["pairs"], row["risk"]) for row in rows] == [(20, "neutral"), (20, "KL")]
    assert all(0 < row["compiled_ns"] < row["readable_ns"] for row in rows)


def test_the_report_benchmark_reads_what_it_wrote(tmp_path):
    row = load("report").demonstrations(tmp_path, quick=True)
    assert row["what"] == "demonstrations, csv of 100,000 rows"
    assert 0 < row["limit"] < row["seconds"]
    found = ca.demonstrations(tmp_path / "demos.csv", ca.worlds.drift(), smoothing=0.0, at_end="cut")
    assert (found.n_episodes, found.n_steps) == (1000, 100_000)
