"""The page: well-formed, self-contained, escaped, and with the numbers in it."""

import builtins
import dataclasses
import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.report import trade_off
from cautious.report.pieces import STYLE
from cautious.report.reproduction_code import reproduction
from cautious.report.solution_page import write_report
from cautious.report.words import number
from cautious.solvers.solve import answer
from page_reader import read


def test_a_page_is_self_contained_and_holds_the_numbers(maze_solution, tmp_path):
    path = tmp_path / "maze.html"
    write_report(maze_solution, path, command="cautious solve maze")
    text, page = read(path)
    words = page.words
    for value in (maze_solution.expected_return, maze_solution.risk, maze_solution.caution):
        assert number(value) in words
    assert number(maze_solution.upper_bound, 10) in words
    assert maze_solution.certificate.statement in words
    assert maze_solution.status.value in words
    # the world's docstring states these two figures of the risk-neutral policy: mean -0.807, deviation sqrt(0.1605)
    assert "-0.8074" in words
    assert "0.40056" in words
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    # a map, the returns and the map of the risk, each for light and for dark screens
    assert len(page.references) == 6
    assert path.stat().st_size < 1_500_000
    assert "n/a" not in words.split("What one unit of caution buys")[0]
    assert page.sections == [
        "The problem",
        "Next to the risk-neutral policy",
        "What the policy does",
        "What it does differently",
        "Which states carry the risk",
        "What one unit of caution buys",
        "How sure is this",
        "How to reproduce it",
    ]
    assert "prefers-color-scheme: dark" in text
    assert [one.name for one in tmp_path.iterdir()] == ["maze.html"]


def test_the_same_solution_gives_the_same_bytes(chain_solution, tmp_path):
    for name in ("one.html", "two.html"):
        write_report(chain_solution, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_every_text_of_the_user_is_escaped(chain_solution, tmp_path):
    path = tmp_path / "chain.html"
    write_report(chain_solution, path, command="cautious solve '<img src=x>'")
    text, page = read(path)
    assert "<script>" not in text
    assert "<b>North" not in text
    assert page.tags.count("img") == 3
    words = "".join(page.text)
    assert "<script>alert(1)</script>" in words
    assert "Depot <b>North</b>" in words
    assert "Trucks & 'vans'." in words


def test_a_loaded_solution_wants_its_own_model(tmp_path):
    swim, prior = ca.worlds.river_swim(), np.full((6, 2), 1 / 12)
    ca.solve(ca.Problem(swim, ca.KL(prior), 1.0)).save(tmp_path / "s.npz")
    other = ca.MDP(swim.transitions, -100 * swim.rewards, swim.discount, swim.start)
    with pytest.raises(ca.InputError, match="another model"):
        ca.load(tmp_path / "s.npz").report(tmp_path / "p.html", problem=ca.Problem(other, ca.KL(prior), 1.0))
    assert not (tmp_path / "p.html").exists()


@pytest.mark.usefixtures("quick_pictures")
def test_ctrl_c_ends_a_report(maze_solution, tmp_path, monkeypatch):
    def pressed(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return answer(*arguments)

    monkeypatch.setattr(trade_off, "answer", pressed)
    with pytest.raises(KeyboardInterrupt):
        maze_solution.report(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_settings_of_a_method_are_in_the_recipe():
    simulator = ca.worlds.river_swim().simulator()
    chosen = ca.learn(simulator, samples=2000, method=ca.PlugIn(prove=False))
    assert "method=ca.PlugIn(prove=False), seed=0" in reproduction(chosen)
    assert 'method="plug-in", seed=0' in reproduction(ca.learn(simulator, samples=2000))


def test_what_was_learned_from_a_log_is_learned_from_it_again():
    rows = [("well", "wait", 1.0, "well"), ("well", "wait", 1.0, "ill"), ("ill", "treat", -2.0, "well")]
    logged = ca.from_transitions(rows, 0.9, untried="forbid", reward_range=(-2, 1))
    code = reproduction(ca.learn(logged, ca.Variance(), 2.0, seed=3))
    compile(code, "page", "exec")
    assert "logged = ca.from_transitions(..., discount=0.9)" in code
    assert "learned = ca.learn(logged, ca.Variance(), caution=2.0, seed=3)" in code
    assert "simulator" not in code
    counted = reproduction(ca.learn(logged, seed=3, robust=False))
    assert "learned = ca.learn(logged, seed=3, robust=False)" in counted


def test_long_lines_of_code_are_not_cut_off():
    (rule,) = [line for line in STYLE.replace("\n  ", " ").splitlines() if line.startswith("pre {")]
    assert "white-space: pre-wrap" in rule


@pytest.mark.parametrize("path", ["", ".", "a\0b"])
def test_what_is_no_file_name_is_refused(chain_solution, path):
    with pytest.raises(ca.FileError, match="not the name of a file"):
        chain_solution.save(path)


@pytest.mark.usefixtures("quick_pictures")
def test_a_loaded_solution_needs_its_problem_for_the_risk_of_others(chain_solution, chain_problem, tmp_path):
    chain_solution.save(tmp_path / "s.npz")
    loaded = ca.load(tmp_path / "s.npz")
    loaded.report(tmp_path / "without.html")
    loaded.report(tmp_path / "with.html", problem=chain_problem)
    without, filled = read(tmp_path / "without.html")[1].words, read(tmp_path / "with.html")[1].words
    assert "does not keep the data of its risk" in without
    assert "neighbouring cautions were not solved" in without
    neutral = ca.solve(ca.Problem(chain_problem.mdp))
    risk = number(max(neutral.occupancy[0].sum(), neutral.occupancy[1].sum()))
    assert risk in filled.split("Next to the risk-neutral policy")[1].split("Exact figures")[0]
    # here the most rewarding policy is also the least risky
    assert f"at a risk of {risk}, the same policy as without caution; no policy" in filled
    assert "without caution" not in without
    chain_solution.report(tmp_path / "fresh.html")
    assert (tmp_path / "fresh.html").read_bytes() == (tmp_path / "with.html").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda problem: problem.with_caution(4.0), "caution 4.0; this solution is of a problem with 3.0"),
        (lambda problem: ca.Problem(problem.mdp, ca.PeakExposure([[2]]), 3.0), "gives this policy the risk"),
        (lambda problem: ca.Problem(ca.worlds.river_swim(), ca.Variance(), 3.0), r"shape \(S, A\) \(6, 2\)"),
        (lambda problem: "maze", "must be a ca.Problem, found str"),
    ],
)
@pytest.mark.usefixtures("quick_pictures")
def test_another_problem_is_refused(chain_solution, chain_problem, tmp_path, change, message):
    with pytest.raises(ca.InputError, match=message):
        chain_solution.report(tmp_path / "page.html", problem=change(chain_problem))
    assert not (tmp_path / "page.html").exists()


@pytest.mark.usefixtures("quick_pictures")
def test_a_model_of_a_hundred_thousand_states_gets_a_small_page(tmp_path):
    n = 100_000
    ahead = sp.csr_array((np.ones(n), (np.arange(n), np.minimum(np.arange(n) + 1, n - 1))), shape=(n, n))
    back = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, dtype=int))), shape=(n, n))
    mdp = ca.MDP([ahead, back], np.column_stack([np.zeros(n), np.ones(n)]), 0.5, np.eye(1, n)[0])
    path = tmp_path / "large.html"
    write_report(ca.solve(ca.Problem(mdp)), path)
    assert path.stat().st_size < 1_000_000
    assert "100,000 states" in "".join(read(path)[1].text)


@pytest.mark.usefixtures("quick_pictures")
def test_a_page_that_cannot_be_written_names_the_path(chain_solution, tmp_path):
    with pytest.raises(ca.FileError, match=r"cannot write .*missing"):
        write_report(chain_solution, tmp_path / "missing" / "page.html")


@pytest.mark.usefixtures("quick_pictures")
def test_without_matplotlib_the_extra_is_named(chain_solution, tmp_path, monkeypatch):
    real = builtins.__import__

    def fake(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(ca.MissingExtraError, match=r'pip install "cautious\[plot\]"'):
        write_report(chain_solution, tmp_path / "page.html")


def test_the_code_to_reproduce_is_python(maze_solution, chain_solution, chain):
    prior = ca.solve(ca.Problem(chain, 2.0 * ca.KL(np.full((3, 2), 1 / 6)) + ca.CVaR(0.9)))
    spread = ca.solve(ca.Problem(chain, ca.SafeSet([True, True, False], slack=0.9)))
    calls = {
        "ca.Variance(), caution=10.0": maze_solution,
        "ca.PeakExposure([[0], [1]]), caution=3.0": chain_solution,
        "ca.PeakExposure(...), caution=3.0": dataclasses.replace(chain_solution, problem=None),
        "2 * ca.KL(...) + ca.CVaR(0.9)": prior,
        "ca.SafeSet(...)": spread,
    }
    for call, solution in calls.items():
        code = reproduction(solution, "cautious solve maze")
        compile(code, "page", "exec")
        assert call in code
