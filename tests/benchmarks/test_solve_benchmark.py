import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import cautious as ca
from cautious.cli import app
from cautious.peers import convex, planners, roster
from cautious.testing import check_model

FOLDER = Path(__file__).parents[2] / "benchmarks"
sys.path.append(str(FOLDER))
case, rows, solve, tables, targets = (
    importlib.import_module(name) for name in ("_case", "_rows", "solve", "_solve_tables", "_targets")
)


def peer(solver, seconds, gap, **more):
    return {"solver": solver, "status": "optimal", "seconds": seconds, "gap": gap, "objective": 1.0, **more}


def row(risk="KL", table="compare", n_states=10_000, own=1.0, gap=1e-8, peers=(), model="grid", discount=0.95, **more):
    mine = {"solver": "cautious", "status": "SOLVED", "seconds": own, "wall_seconds": own, "gap": gap, **more}
    best = rows.best_of(peers)
    known = {"own": mine, "peers": list(peers), "best_peer": best, "ratio": rows.ratio(mine, best), "note": ""}
    problem = {"table": table, "model": model, "n_states": n_states, "discount": discount, "risk": risk, "threads": 1}
    return problem | known


def target(found, what):
    (line,) = [line for line in targets.lines(found) if line.what == what]
    return line


def test_the_best_peer_is_the_fastest_that_proved_its_answer():
    quick, exact, slow = peer("CLARABEL", 1.0, 1e-3), peer("CLARABEL 1e-10", 2.0, 1e-9), peer("SCS", 3.0, 1e-12)
    failed = {"solver": "HIGHS", "status": "failed: x", "seconds": None, "gap": None, "objective": None}
    assert rows.best_of([quick, slow, exact, failed])["solver"] == "CLARABEL 1e-10"
    assert rows.best_of([quick, peer("SCS", 9.0, 1e-4), failed])["solver"] == "SCS"
    assert rows.best_of([failed]) is None


def test_groups_of_peers():
    found = row("none", peers=[peer("CLARABEL", 9.0, 1e-9), peer("Storm PI", 3.0, 1e-9), peer("Storm", 2.0, 1e-9)])
    assert rows.best_of_group(found, "Storm")["solver"] == "Storm"
    assert rows.best_of_group(found, "CVXPY")["solver"] == "CLARABEL"
    assert rows.best_of_group(found, "QuantEcon") is None
    assert {roster.owner(name) for name in rows.PLANNERS} == {"QuantEcon", "Storm", "MDPSolver"}


def test_a_target_is_met_missed_or_not_measured():
    what = "KL against the best peer"
    assert target([], what).met is None
    assert target([row(peers=[peer("CLARABEL", 30.0, 1e-9)])], what).met is True
    late = target([row(peers=[peer("CLARABEL", 20.0, 1e-9)])], what)
    assert (late.met, late.measured) == (False, "1 of 1 miss it: KL, grid 10,000 at 0.95: 20")
    # a peer without a proof is no competition, and we without a proof have nothing to show
    assert target([row(peers=[peer("CLARABEL", 20.0, 1e-3)])], what).met is True
    assert target([row(gap=1e-5, peers=[peer("CLARABEL", 30.0, 1e-9)])], what).met is False


def test_risk_neutral_targets_look_at_one_group_each():
    peers = [peer("CLARABEL", 90.0, 1e-9), peer("QuantEcon MPI", 0.9, 1e-9), peer("Storm", 0.5, 1e-9)]
    found = [row("none", peers=peers), row("none", "near one", discount=0.999, peers=peers)]
    assert target(found, "neutral against CVXPY").met is True
    assert target(found, "neutral against QuantEcon").met is True
    assert target(found, "neutral against Storm").met is False
    assert target(found, "neutral against QuantEcon, discount .999").met is False
    # who took no part was not beaten
    assert target(found, "neutral against MDPSolver").met is None


def test_growth_and_scale():
    sizes = [("compare", 10_000, 1.0), ("scale", 100_000, 10.0), ("scale", 1_000_000, 200.0)]
    found = [row("KL", table, size, own=seconds, sweeps=900, times_model=3.0) for table, size, seconds in sizes]
    exponents = targets.growth(found)[("grid", 0.95, "KL")]
    assert [size for size, _ in exponents] == [100_000, 1_000_000]
    assert [exponent for _, exponent in exponents] == pytest.approx([1.0, np.log10(20)])
    assert target(found, "KL, growth up to 1,000,000 states").met is False
    assert target(found[:2], "KL, growth up to 1,000,000 states").met is True
    assert target(found, "KL at 1,000,000 states").met is True
    assert target(found, "memory at 1,000,000 states").met is True
    heavy = [row("KL", "scale", 1_000_000, times_model=4.1)]
    assert target(heavy, "memory at 1,000,000 states").met is False


def test_small_models_frontiers_and_threads():
    assert target([row(n_states=100, own=0.029)], "every risk at 100 states").met is True
    assert target([row(n_states=100, own=0.031)], "every risk at 100 states").met is False
    assert target([row(n_states=1000, peers=[peer("SCS", 0.6, 1e-9)])], "every risk at 1,000 states").met is False
    points = [row(table="frontier", single_solves=5.5), row("CVaR", "frontier", 1000, single_solves=20.0)]
    assert target(points, "30 points of a frontier").measured == "5.5 to 20 single solves"
    assert target(points, "30 points of a frontier").met is None
    alone, together = row("none", "threads", own=2.0), row("none", "threads", own=1.0) | {"threads": None}
    assert target([alone, together], "all cores against one").measured == "2"
    assert (
        target([alone, together | {"own": alone["own"] | {"wall_seconds": 3.0}}], "all cores against one").met is False
    )


def test_the_command_passes_options_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "solve.py").write_text("def main(quick, arguments=()):\n    print(quick, arguments)\n")
    (tmp_path / "benchmarks" / "plain.py").write_text("def main(quick):\n    pass\n")
    told = CliRunner().invoke(app, ["bench", "solve", "--risks", "KL,CVaR", "--quick", "--resume"])
    assert told.stdout == "True ['--risks', 'KL,CVaR', '--resume']\n"
    refused = CliRunner().invoke(app, ["bench", "plain", "--risks", "KL"])
    assert isinstance(refused.exception, ca.InputError)
    assert "'plain' takes no further options, found --risks KL" in str(refused.exception)


def test_tables_as_markdown():
    found = [
        row(peers=[peer("SCS", 30.0, 1e-9, solver_seconds=20.0)]),
        row("none", "scale", sweeps=99.6, times_model=2.0),
    ]
    text = tables.markdown(found, targets.lines(found))
    assert "| grid 10,000, 0.95 | KL | SOLVED | 1.0e-08 | 1 | - | SCS | 1.0e-09 | 30 | 20 | - | 30.0 |" in text
    assert "| grid 10,000, 0.95 | none | SOLVED | 1.0e-08 | 1 | - | 2.0 | 100 sweeps |" in text
    assert "### Frontiers" not in text
    assert "| KL against the best peer | >= 25 times | 30 | yes |" in text


def test_tables_replace_those_of_a_page():
    page = f"above\n{tables.BEGIN}\nold\n{tables.END}\nbelow\n"
    assert tables.into_page(page, "new\n") == f"above\n{tables.BEGIN}\n\nnew\n\n{tables.END}\nbelow\n"
    assert tables.into_page("no marks", "new\n") == "new\n"
    page = (FOLDER.parent / "docs" / "benchmarks-full.md").read_text()
    assert page.count(tables.BEGIN) == page.count(tables.END) == 1
    assert tables.said(solve.machine()).startswith(solve.machine()["date"])


def test_no_peer_is_explained():
    assert rows.Case("compare", "grid", 2500, 0.95, "Wasserstein (matrix)").no_peer.startswith(
        "skipped: a plan of 6,250,"
    )
    assert rows.Case("compare", "grid", 2500, 0.95, "Variance").no_peer == "not convex"
    assert rows.Case("scale", "grid", 2500, 0.95, "KL").no_peer == ""
    ends = [{"solver": "SCS", "status": "over 60 s", "seconds": None, "gap": None}]
    assert "SCS over 60 s" in tables.compared_cells(row(peers=ends))


def test_the_cases_of_a_run():
    every = list(solve.cases(solve.options(["--frontier", "--threads"])))
    assert len(set(every)) == len(every)
    assert {one.risk for one in every} == set(case.MAKERS) == set(rows.PEERS)
    assert not [one for one in every if one.risk == "Wasserstein (matrix)" and one.n_states > 1000]
    assert {one.discount for one in every if one.table == "near one"} == {0.999, 0.9999}
    assert {one.threads for one in every if one.table == "threads"} == {1, None}
    assert {one.risk for one in every if one.table == "frontier" and one.n_states > 1000} == set(solve.LARGE_FRONTIERS)
    only_100 = ["--risks", "KL,Wasserstein (matrix)", "--states", "100", "--scale", "", "--near-one", "", "--models"]
    few = list(solve.cases(solve.options([*only_100, "grid"])))
    assert [one.discount for one in few if one.risk == "KL"] == [0.95, 0.99]
    shapes = list(solve.cases(solve.options([*only_100, "shapes"])))
    assert {one.model for one in shapes} == set(case.SHAPES) == {one.model for one in every} - {"grid", "garnet"}
    assert {(one.model, one.n_states) for one in shapes} == {(k, shape.n_states) for k, shape in case.SHAPES.items()}
    assert {one.model for one in shapes if one.risk != "KL"} == set(case.SHAPES) - {"line", "unreachable"}
    assert {one.model for one in solve.cases(solve.options([*only_100, "grid,wide"]))} == {"grid", "wide"}
    assert {one.model for one in every if one.table != "compare"} == {"grid", "garnet"}
    assert max(one.n_states for one in solve.cases(solve.options(["--quick"]))) == 400


def test_a_stopped_run_goes_on_where_it_was(tmp_path, monkeypatch):
    asked = []

    def compare(workers, one, *rest):
        asked.append(one.risk)
        if one.risk == "CVaR" and len(asked) == 2:
            raise KeyboardInterrupt
        return row(one.risk, n_states=one.n_states)

    monkeypatch.setattr(solve, "compare", compare)
    out = tmp_path / "rows.json"
    arguments = ["--risks", "KL,CVaR", "--states", "100", "--scale", "", "--near-one", "", "--models", "grid"]
    given = solve.options([*arguments, "--discounts", "0.95", "--out", str(out), "--resume"])
    with pytest.raises(KeyboardInterrupt):
        solve.run(given)
    assert [one["risk"] for one in json.loads(out.read_text())["rows"]] == ["KL"]
    found = solve.run(given)
    assert asked == ["KL", "CVaR", "CVaR"]
    assert json.loads(out.read_text())["rows"] == found["rows"]
    assert found["machine"]["numpy"] == np.__version__


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    picture = importlib.import_module("_solve_picture")
    found = [row("KL", n_states=n, own=n / 1e5, peers=[peer("SCS", n / 1e3, 1e-9)]) for n in (100, 1000)]
    picture.draw([*found, row("KL", gap=1.0)], tmp_path / "times.png", "grid", 0.95)
    assert (tmp_path / "times.png").read_bytes().startswith(b"\x89PNG")
    assert picture.own_points([*found, row("KL", gap=1.0)], "KL") == [(100, 0.001), (1000, 0.01)]
    assert {risk for family in picture.FAMILIES.values() for risk in family} == set(rows.PEERS)


def test_one_case_in_child_processes():
    pytest.importorskip("cvxpy")
    one, limits = rows.Case("compare", "grid", 16, 0.9, "KL"), rows.Limits(60.0, 60.0)
    with rows.Workers(keep=False) as workers:
        found = rows.compare(workers, one, limits, ("CLARABEL",))
    assert found["own"]["status"] == "SOLVED"
    assert found["own"]["sweeps"] > 1
    assert found["best_peer"]["solver"] == "CLARABEL"
    assert found["best_peer"]["objective"] == pytest.approx(found["own"]["objective"], rel=1e-5)
    assert json.loads(json.dumps(found)) == found


def test_a_solver_that_fails_hangs_or_is_missing_is_a_row_and_not_an_error(monkeypatch):
    one = rows.Case("compare", "grid", 16, 0.9, "KL")
    with rows.Workers(keep=True) as workers:
        failed = rows.measure(workers, one, "HIGHS", 60.0)
        assert failed["status"].startswith("failed: SolverError: ")
        assert rows.measure(workers, one, "HIGHS", 60.0) == failed
        late = rows.measure(workers, one, "SCS", 0.001)
        assert (late["status"], late["gap"]) == ("over 0.001 s", None)
        monkeypatch.setitem(roster.MODULES, "SCS", "no_such_solver")
        assert rows.measure(workers, one, "SCS", 60.0)["status"] == "not installed"


def test_unknown_models_and_risks_are_refused(capsys):
    for option, word in (("--models", "wyde"), ("--risks", "KLL")):
        with pytest.raises(SystemExit):
            solve.options([option, word])
        assert f"unknown {option[2:]} ['{word}']; there are " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "shape", "successors"),
    [
        ("wide", (500, 100), 5),
        ("successors", (800, 2), 400),
        ("dense", (600, 4), 600),
        ("line", (20_000, 3), 3),
        ("tandem", (900, 4), 4),
        ("repair", (729, 7), 64),
        ("taxi", (501, 6), 1),
        ("unreachable", (5000, 4), 5),
    ],
)
def test_shapes_are_sound_models_and_every_risk_binds(kind, shape, successors):
    if kind == "taxi":
        pytest.importorskip("gymnasium")
    # one test for all that is said of a shape: making it and checking it takes most of the time
    mdp = case.model(kind, 100, 0.95)
    assert (mdp.shape, mdp.discount) == (shape, 0.95)
    assert shape[0] == case.SHAPES[kind].n_states
    assert np.diff(mdp.transitions.indptr).max() == successors
    check_model(mdp)
    reached = sp.csgraph.breadth_first_order(mdp.under(np.full(shape, 1 / shape[1])), np.argmax(mdp.start))[0]
    assert (len(reached) == 300) == (kind == "unreachable")
    for name in solve.fitting(tuple(rows.PEERS), mdp.n_states):
        problem = ca.Problem(mdp, case.risk_of(name, kind, mdp), case.CAUTIONS.get(name, 1.0))
        assert problem.neutral == (name == "none")
        if name in ("none", "SafeSet", "TaskFloors"):
            assert ca.solve(problem).status is ca.Status.SOLVED, name


def test_targets_of_the_other_shapes():
    found = [row(model="wide", n_states=500, peers=[peer("CLARABEL", 0.9, 1e-9)])]
    assert target(found, "other shapes of models").met is True
    assert target(found, "other shapes of models, against the best peer").met is False


@pytest.mark.parametrize("kind", ["grid", "garnet"])
def test_every_risk_of_the_table_binds_and_is_solved(kind):
    mdp = case.model(kind, 25, 0.9)
    for name in rows.PEERS:
        problem = ca.Problem(mdp, case.risk_of(name, kind, mdp), case.CAUTIONS.get(name, 1.0))
        assert ca.solve(problem).status is ca.Status.SOLVED, name


@pytest.mark.parametrize(
    ("risk", "solver"),
    [
        ("none", "HIGHS"),
        ("TotalVariation", "HIGHS IPM"),
        ("Wasserstein (graph)", "HIGHS"),
        ("Wasserstein (matrix)", "HIGHS"),
        ("PeakExposure", "HIGHS"),
        ("KL + PeakExposure", "CLARABEL 1e-10"),
        ("SafeSet + Quadratic", "CLARABEL 1e-10"),
    ],
)
def test_a_peers_answer_is_certified(risk, solver):
    pytest.importorskip("cvxpy")
    mdp = case.model("grid", 25, 0.9)
    problem = ca.Problem(mdp, case.risk_of(risk, "grid", mdp), case.CAUTIONS.get(risk, 1.0))
    stats, judgement = convex.attempt(problem, solver)
    found = judgement()
    assert stats["seconds"] > 0
    assert -1e-12 <= found["gap"] <= 1e-7
    assert found["claimed"] == pytest.approx(found["objective"], rel=1e-6)


@pytest.mark.parametrize("solver", rows.PLANNERS)
def test_a_risk_neutral_package_agrees(solver, require_package):
    require_package(solver)
    mdp = case.model("grid", 25, 0.9)
    found = planners.attempt(ca.Problem(mdp), planners.prepare(mdp, solver))[1]()
    assert -1e-12 <= found["gap"] <= 1e-7


def test_the_grid_slips():
    mdp = case.grid(4, 0.9)
    found = mdp.transitions[[5 * 4 + 1]].toarray().ravel()
    assert found[6] == pytest.approx(0.8)
    assert found[1] == pytest.approx(0.1)
    assert np.isclose(found.sum(), 1)


def test_memory_of_a_piece_of_work():
    memory = importlib.import_module("_memory")
    watch = memory.Watch()
    if watch.base is None:
        pytest.skip("no /proc on this system")
    np.ones(10_000_000).sum()
    assert 70 < watch.beyond() < 200
    assert memory.model_megabytes(case.grid(10, 0.9)) == pytest.approx(0.03, rel=0.5)
