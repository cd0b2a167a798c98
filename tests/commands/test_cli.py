"""The command line: outputs, files, exit codes, and errors in one line."""

import csv
import json
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest

import cautious as ca
from cautious.commands import built_in
from cautious.commands.risk_spec import parse_risk
from cautious.commands.shared import exit_code


def test_solve_prints_saves_and_reports(run, tmp_path):
    code, out, err = run("solve", "river_swim", "--out", tmp_path / "s.npz", "--report", tmp_path / "s.html")
    assert code == 0
    assert err == ""
    assert "SOLVED" in out
    saved = ca.load(tmp_path / "s.npz")
    assert saved.risk_label == "Variance"
    assert "cautious solve river_swim" in (tmp_path / "s.html").read_text("utf-8")


def test_json_is_one_object_with_the_library_s_numbers(run):
    code, out, err = run("solve", "river_swim", "--caution", "3", "--risk", "cvar:0.9", "--json")
    found = json.loads(out)
    mdp = ca.worlds.river_swim()
    wanted = ca.solve(ca.Problem(mdp, ca.CVaR(0.9), 3.0))
    assert (code, err) == (0, "")
    assert found["objective"] == pytest.approx(wanted.objective, abs=1e-9)
    assert found["risk_label"] == "CVaR(0.9)"
    assert found["certificate"]["kind"] == "global"


def test_models_and_problem_files_can_be_solved(run, tmp_path):
    ca.worlds.river_swim().save(tmp_path / "m.npz")
    code, out, _ = run("solve", tmp_path / "m.npz", "--json")
    assert code == 0
    assert json.loads(out)["risk_label"] == "none"
    file = tmp_path / "p.toml"
    file.write_text('caution = 4.0\n[model]\nfile = "m.npz"\n[risk]\nkind = "Entropy"\n')
    code, out, _ = run("solve", file, "--json")
    assert code == 0
    assert json.loads(out)["caution"] == 4.0


def test_exit_code_three_when_infeasible_and_null_for_infinities(run):
    code, out, _ = run("solve", "river_swim", "--risk", "safe:0.01:5", "--json")
    found = json.loads(out)
    assert code == 3
    assert found["status"] == "INFEASIBLE"
    assert found["objective"] is None


def test_exit_code_four_at_a_limit(run):
    code, out, _ = run("solve", "drift", "--time-limit", "1e-9", "--json")
    assert code == 4
    assert json.loads(out)["status"] in ("TIME_LIMIT", "UNDECIDED")


def test_every_status_has_an_exit_code(maze_like):
    codes = {status.name: exit_code(maze_like(status)) for status in ca.Status}
    assert codes["SOLVED"] == codes["ESTIMATED"] == 0
    assert codes["INFEASIBLE"] == 3
    assert codes["STOPPED"] == 130
    assert {code for name, code in codes.items() if name not in ("SOLVED", "ESTIMATED", "INFEASIBLE", "STOPPED")} == {4}


@pytest.fixture
def maze_like():
    import dataclasses

    base = ca.solve(ca.Problem(ca.worlds.river_swim()))
    return lambda status: dataclasses.replace(base, status=status)


WRONG = {
    "unknown problem": (("solve", "nowhere"), "'nowhere' is neither a world"),
    "missing model": (("solve", "gone.npz"), "gone.npz: no such file"),
    "missing file": (("solve", "gone.toml"), "gone.toml"),
    "bad risk": (("solve", "maze", "--risk", "fear"), "cannot read 'fear'; the forms are variance"),
    "bad number": (("solve", "maze", "--risk", "cvar:high"), "'high' is not a number"),
    "bad states": (("solve", "maze", "--risk", "peak:1,,2"), "expected states such as 3,4,7-9 or names, found '1,,2'"),
    "unknown state": (
        ("solve", "maze", "--risk", "peak:1-x"),
        "names the state '1-x', which this model does not have; it has 'r0c0'",
    ),
    "backwards": (("solve", "maze", "--risk", "peak:9-3"), "'9-3' is not a range of states from low to high"),
    "negative caution": (("solve", "maze", "--caution", "-1"), "caution is -1"),
    "bad tolerance": (("solve", "maze", "--tolerance", "0"), "tolerance is 0"),
    "bad cautions": (("frontier", "maze", "--cautions", "a,b"), "expected numbers separated by commas"),
    "policy": (("evaluate", "maze", "--policy", "gone.npz"), "no such file"),
    "unwritable": (("solve", "river_swim", "--report", "no/such/folder/x.html"), "cannot write no/such/folder/x.html"),
    "unknown world": (("worlds", "nowhere"), "no world named 'nowhere'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_exit_code_two(run, tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    arguments, message = WRONG[case]
    code, _, err = run(*arguments)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1
    assert err.startswith("cautious: ")


def test_debug_shows_the_traceback_wherever_it_stands(run):
    for arguments in (("--debug", "solve", "nowhere"), ("solve", "nowhere", "--debug")):
        code, _, err = run(*arguments)
        assert code == 2
        assert "Traceback" in err


def test_a_fault_of_ours_is_one_line_and_exit_code_one(run, monkeypatch):
    monkeypatch.setattr(ca, "solve", lambda *a, **k: 1 / 0)
    code, _, err = run("solve", "river_swim")
    assert code == 1
    assert err == "cautious: unexpected ZeroDivisionError: division by zero (--debug shows where)\n"


def test_an_interrupt_leaves_with_130(run, monkeypatch):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(ca, "solve", interrupted)
    assert run("solve", "river_swim") == (130, "", "cautious: interrupted\n")
    code, out, _ = run("solve", "river_swim", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (130, "Interrupted")


def test_frontier_prints_and_plots(run, tmp_path):
    code, out, _ = run("frontier", "river_swim", "--cautions", "0,40", "--plot", tmp_path / "f.png")
    assert code == 0
    assert "SOLVED" in out
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = run("frontier", "queue", "--cautions", "0,50", "--json")
    first, second = json.loads(out)
    assert first["risk"] > second["risk"]


def test_a_frontier_needs_a_risk(run, tmp_path):
    ca.worlds.river_swim().save(tmp_path / "m.npz")
    code, _, err = run("frontier", tmp_path / "m.npz")
    assert code == 2
    assert "--risk" in err


def test_evaluate_a_saved_solution_and_a_plain_policy(run, tmp_path):
    solution = ca.solve(ca.worlds.problem("river_swim"))
    solution.save(tmp_path / "s.npz")
    np.save(tmp_path / "p.npy", solution.policy)
    for name in ("s.npz", "p.npy"):
        code, out, _ = run("evaluate", "river_swim", "--policy", tmp_path / name, "--episodes", "50", "--json")
        assert code == 0
        assert json.loads(out)["exact_mean"] == pytest.approx(solution.expected_return)
    code, out, _ = run("evaluate", "river_swim", "--policy", tmp_path / "s.npz", "--episodes", "20")
    assert "mean return" in out


def test_worlds_lists_all_and_shows_one(run):
    assert {row["name"] for row in json.loads(run("worlds", "--json")[1])} == set(ca.worlds.names())
    code, out, _ = run("worlds", "maze")
    assert code == 0
    assert "S........G" in out


def test_demo_writes_pages_that_link_each_other(run, tmp_path, monkeypatch, quick_pictures):
    monkeypatch.setattr(built_in, "DEMO_CAUTIONS", (0.0, 10.0))
    code, out, _ = run("demo", "--out", tmp_path / "new" / "demo")
    assert code == 0
    page = (tmp_path / "new" / "demo" / "report.html").read_text("utf-8")
    for name in ("caution-0.html", "caution-10.html"):
        assert f'href="{name}"' in page
        assert (tmp_path / "new" / "demo" / name).exists()
    assert "report.html" in out


def test_bench_runs_a_file_of_the_checkout_or_says_that_there_is_none(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = run("bench")
    assert code == 2
    assert "no benchmarks/ folder" in err
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "solve.py").write_text("def main(quick):\n    print('quick is', quick)\n")
    code, out, _ = run("bench", "solve", "--quick")
    assert (code, out) == (0, "quick is True\n")
    (tmp_path / "benchmarks" / "two_words.py").write_text("def main(quick):\n    print('two words')\n")
    assert run("bench", "two-words")[:2] == run("bench", "two_words")[:2] == (0, "two words\n")
    (tmp_path / "benchmarks" / "two_words.py").unlink()
    # a benchmark that can be spread has a parameter for it
    code, _, err = run("bench", "solve", "--workers", "2")
    assert code == 2
    assert "the benchmark 'solve' measures this process: it takes neither --workers nor --cluster" in err
    code, _, err = run("bench", "other")
    assert code == 2
    assert "benchmarks/ has solve" in err


def test_a_benchmark_is_spread_over_workers(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "benchmarks").mkdir()
    code = "def main(quick, *, executor=None):\n    print(executor and executor.submit(pow, 2, 5).result())\n"
    (tmp_path / "benchmarks" / "spread.py").write_text(code)
    assert run("bench", "spread")[:2] == (0, "None\n")
    pools = []

    @contextmanager
    def chosen(workers, cluster, quiet):
        with ThreadPoolExecutor(workers) as pool:
            pools.append(workers)
            yield pool

    monkeypatch.setattr("cautious.commands.built_in.chosen_executor", chosen)
    assert run("bench", "spread", "--workers", "2")[:2] == (0, "32\n")
    assert pools == [2]


def test_lines_of_a_benchmark_appear_as_they_are_measured(tmp_path):
    (tmp_path / "benchmarks").mkdir()
    code = "import sys\ndef main(quick):\n    print('measured')\n    sys.stdin.readline()\n"
    (tmp_path / "benchmarks" / "solve.py").write_text(code)
    command = [sys.executable, "-m", "cautious", "bench", "solve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as child:
        # the benchmark goes on only after its line was read
        threading.Timer(60.0, child.kill).start()
        assert child.stdout.readline() == "measured\n"
        assert child.poll() is None
        child.stdin.write("\n")


def test_the_risk_language(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mdp = ca.worlds.river_swim()
    prior = np.full(mdp.shape, 1 / 12)
    np.save("prior.npy", prior)
    d = ca.solve(ca.Problem(mdp)).occupancy
    same = {
        "variance": ca.Variance(),
        "2*variance+entropy": 2.0 * ca.Variance() + ca.Entropy(),
        "1e+1*cvar:0.5 + tv:prior.npy": 10.0 * ca.CVaR(0.5) + ca.TotalVariation(prior),
        "variance+2*entropy": ca.Variance() + 2.0 * ca.Entropy(),
        "peak:0,1/3-5": ca.PeakExposure([[0, 1], [3, 4, 5]]),
        "safe:1.0:0-5": ca.SafeSet(range(6), 1.0),
        "KL:prior.npy": ca.KL(prior),
        "quadratic:prior.npy": ca.Quadratic(prior),
    }
    for text, risk in same.items():
        assert ca.Problem(mdp, parse_risk(text)).risk_value(d) == pytest.approx(ca.Problem(mdp, risk).risk_value(d))
    assert parse_risk("none") is None


def test_the_package_can_be_run(capfd):
    assert subprocess.run([sys.executable, "-m", "cautious", "--version"], check=False).returncode == 0
    assert capfd.readouterr().out == f"cautious {ca.__version__}\n"


@pytest.mark.parametrize("arguments", [("solve", "machine_replacement"), ("learn", "river_swim", "--samples", "1e4")])
def test_the_policy_is_shown_and_written(run, tmp_path, arguments):
    file, saved = tmp_path / "policy.csv", tmp_path / "solution.npz"
    code, out, _ = run(*arguments, "--policy-csv", file, "--out", saved)
    assert code == 0
    assert "main action" in out
    assert f"policy: {file}" in out
    solution = ca.load(saved)
    with file.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    policy = np.zeros_like(solution.policy)
    for row in rows:
        place = solution.mdp.state_names.index(row["state"]), solution.mdp.action_names.index(row["action"])
        policy[place] = float(row["probability"])
        assert float(row["share_of_time"]) == solution.occupancy[place]
    assert np.array_equal(policy, solution.policy)
