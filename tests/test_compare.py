"""``ca.compare``: everyone's objective is the one we compute, and whatever goes wrong with a package is a row."""

import json
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import cautious as ca
from cautious.comparison import compare as comparing
from cautious.comparison import runs
from cautious.comparison.results import HEADERS
from cautious.peers import convex, planners, roster, workers


def masked(seed=0, n_states=7, n_actions=3):
    """A random model whose actions differ by state, and where two states cannot be reached."""
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    transitions[:5, :, 5:] = 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    allowed = rng.random((n_states, n_actions)) < 0.6
    allowed[:, 1] |= ~allowed.any(axis=1)
    start = np.append(np.full(5, 0.2), [0.0, 0.0])
    # the rewards of pairs that do not exist would tempt a solver that forgot the mask
    rewards = np.where(allowed, rng.normal(size=(n_states, n_actions)), 100.0)
    return ca.MDP(transitions, rewards, 0.9, start, allowed=allowed)


def convex_risks(mdp):
    """A risk of every kind that a cone solver can take, on pairs and on states."""
    rng = np.random.default_rng(1)
    states = rng.dirichlet(np.ones(mdp.n_states))
    policy = np.where(mdp.allowed, rng.random(mdp.shape), 0.0)
    policy /= policy.sum(axis=1, keepdims=True)
    line = np.abs(np.subtract.outer(np.arange(float(mdp.n_states)), np.arange(float(mdp.n_states))))
    return {
        "SafeSet": ca.SafeSet([0, 1, 2], 0.95),
        "PeakExposure": ca.PeakExposure([[0], [1, 2], [6]]),
        "KL": ca.KL(policy),
        "KL (states)": ca.KL(states),
        "TotalVariation": ca.TotalVariation(policy),
        "TotalVariation (states)": ca.TotalVariation(states),
        "Quadratic (states)": ca.Quadratic(states),
        "Wasserstein": ca.Wasserstein(states, line),
        "Entropy": ca.Entropy(),
        "sum": ca.Entropy() + 2.0 * ca.PeakExposure([[0], [1, 2]]) + ca.Quadratic(states),
    }


@pytest.mark.parametrize("name", convex_risks(masked()))
def test_cone_solvers_agree_where_actions_differ_by_state(name):
    pytest.importorskip("cvxpy")
    mdp = masked()
    problem = ca.Problem(mdp, convex_risks(mdp)[name], 0.7)
    wanted = ca.solve(problem, tolerance=1e-8).require()
    solver = "CLARABEL 1e-10"
    assert roster.refusal(problem, solver) is None
    stats, judgement = convex.attempt(problem, solver)
    found = judgement()
    assert stats["status"] == "optimal"
    assert found["objective"] == pytest.approx(wanted.objective, abs=1e-6)
    assert found["claimed"] == pytest.approx(wanted.objective, abs=1e-6)
    assert -1e-9 <= found["upper_bound"] - wanted.objective <= 1e-5


@pytest.mark.parametrize("solver", roster.PLANNERS)
def test_planners_agree_where_actions_differ_by_state(solver):
    if roster.missing(solver) is not None:
        pytest.skip(f"{solver} is not installed")
    problem = ca.Problem(masked())
    wanted = ca.solve(problem, tolerance=1e-9).require()
    found = planners.attempt(problem, planners.prepare(problem.mdp, solver))[1]()
    assert found["objective"] == pytest.approx(wanted.objective, abs=1e-7)
    assert 0 <= found["upper_bound"] - wanted.objective <= 1e-6


def test_every_method_of_ours_agrees_and_says_what_it_is():
    problem = ca.worlds.problem("drift")
    turns = []
    found = ca.compare(problem, methods=["cautious"], callback=turns.append)
    assert found.rows[0].method == "dual Newton"
    assert {row.whose for row in found.rows} == {"cautious"}
    assert {row.status for row in found.rows} == {"SOLVED"}
    assert [turn.method for turn in turns] == [row.method for row in found.rows]
    assert (turns[0].number, turns[-1].number, turns[0].total) == (1, len(turns), len(turns))
    wanted = ca.solve(problem).objective
    for row in found.rows:
        assert found.proved(row)
        assert row.objective == pytest.approx(wanted, rel=1e-6)
        assert row.gap == row.upper_bound - row.objective
        assert row.seconds > 0
    assert found.fastest.seconds == min(row.seconds for row in found.rows)
    assert found.best.objective == max(row.objective for row in found.rows)
    assert not found.interrupted
    assert json.loads(json.dumps(found.table()))[0]["method"] == "dual Newton"


def test_others_run_in_a_process_of_their_own():
    pytest.importorskip("cvxpy")
    found = ca.compare(ca.Problem(masked()), methods=["planning", "CLARABEL", "HIGHS"])
    assert [row.status for row in found.rows] == ["SOLVED", "optimal", "optimal"]
    assert [row.whose for row in found.rows] == ["cautious", "CVXPY", "CVXPY"]
    for row in found.rows:
        assert row.objective == pytest.approx(found.rows[0].objective, abs=1e-5)
        assert 0 < row.gap < 1e-4
    title, header, *lines = repr(found).splitlines()
    assert title.startswith("Comparison of 3 methods: Problem(MDP(7 states")
    assert header.split() == list(HEADERS)
    places = {line.index(f" {row.whose} ") for line, row in zip(lines, found.rows, strict=True)}
    assert places == {header.index(" whose ")}


def test_the_problem_of_a_log_goes_to_another_process(monkeypatch):
    rows = [("a", "go", 1.0, "b"), ("b", "go", 0.0, "a"), ("a", "stay", 0.5, "a"), ("b", "stay", 0.0, "b")]
    problem = ca.Problem(ca.from_transitions(rows, discount=0.9), ca.Entropy(), 0.5)
    received = pickle.loads(runs.Peers(problem, 1e-6, 1.0)._pickled())
    d = np.full((2, 2), 0.25)
    assert received.objective(d) == problem.objective(d)
    assert type(received.mdp) is ca.MDP


def test_learners_take_part_when_they_may_draw_samples():
    problem = ca.worlds.problem("river_swim", 2.0)
    assert "plug-in" not in [row.method for row in ca.compare(problem, ["cautious"]).rows]
    found = ca.compare(problem, ["cautious", "plug-in"], samples=20_000)
    row = {row.method: row for row in found.rows}["plug-in"]
    learned = ca.learn(problem.mdp.simulator(), ca.Variance(), 2.0, 20_000, "plug-in")
    wanted = problem.objective(_occupancy(problem, learned.policy))
    assert row.objective == pytest.approx(wanted, abs=1e-9)
    assert (row.upper_bound, row.status, row.note) == (None, "ESTIMATED", "at most 20,000 samples")


def _occupancy(problem, policy):
    """d = x(s) pi(a|s) with x = (1-gamma) (I - gamma P_pi')^-1 xi."""
    mdp = problem.mdp
    table = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    chain = np.einsum("sa,sat->st", policy, table)
    x = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * chain.T, (1 - mdp.discount) * mdp.start)
    return policy * x[:, None]


def test_what_does_not_apply_says_why():
    problem = ca.Problem(masked(), ca.Variance())
    found = ca.compare(problem, ["dual Newton", "CLARABEL", "QuantEcon", "SCS"])
    assert [row.status for row in found.rows] == ["not applicable"] * 4
    assert "not Variance" in found.rows[1].note
    assert found.rows[2].note == "plans without a risk only"
    assert (found.best, found.fastest) == (None, None)
    barrier = ca.Problem(masked(), ca.SafeSet([0, 1], 0.9))
    assert roster.refusal(barrier, "HIGHS") == "takes linear costs only"
    assert roster.refusal(barrier, "PIQP") == "takes linear and quadratic costs only"
    assert roster.refusal(ca.Problem(masked(), ca.Quadratic(np.full(7, 1 / 7))), "PIQP") is None


def test_by_default_only_what_applies_takes_part(monkeypatch):
    asked = []
    monkeypatch.setattr(
        runs.Peers, "row", lambda self, name: asked.append(name) or comparing.ComparisonRow(name, "", "")
    )
    ca.compare(ca.Problem(masked(), ca.Variance()))
    assert asked == []
    ca.compare(ca.Problem(masked(), ca.Entropy()))
    assert asked == ["CLARABEL", "SCS"]
    asked.clear()
    ca.compare(ca.Problem(masked()))
    assert tuple(asked) == roster.USUAL


def test_what_is_not_installed_is_a_row(monkeypatch):
    monkeypatch.setitem(roster.MODULES, "SCS", "no_such_module")
    monkeypatch.setitem(roster.MODULES, "QuantEcon", "no_such_planner")
    problem = ca.Problem(masked())
    first, second = ca.compare(problem, ["QuantEcon PI", "SCS"]).rows
    assert (first.status, first.note) == ("not installed", "pip install no_such_planner")
    assert second.status == "not installed"
    monkeypatch.setattr(roster, "find_spec", lambda module: None)
    assert roster.missing("HIGHS") == "cautious[solvers]"
    assert roster.missing("PIQP") == "cautious[solvers] piqp"
    assert roster.missing("Storm PI") == "stormpy"


CRASHES = """
import os, sys, time
from cautious.peers.workers import serve

def answer(request, payload, say):
    if request["solver"] == "dies":
        os._exit(7)
    say("ready")
    if request["solver"] == "hangs":
        time.sleep(60)
    if request["solver"] == "exits":
        sys.exit("license expired")
    print("noise on standard output")
    say("answered")
    return {"status": "optimal", "objective": len(payload), "upper_bound": None, "claimed": None, "wall_seconds": 0.1}

serve(answer)
"""


@pytest.fixture
def bad_peers(monkeypatch):
    """Peers whose child misbehaves by name."""
    monkeypatch.setattr(runs, "CHILD", ("-c", CRASHES))
    monkeypatch.setattr(roster, "missing", lambda name: None)
    monkeypatch.setattr(roster, "owner", lambda name: "bad")
    with runs.Peers(ca.Problem(masked()), 1e-6, 0.5) as peers:
        yield peers


def test_a_package_that_dies_hangs_or_exits_is_a_row_and_the_next_one_works(bad_peers):
    rows = {name: bad_peers.row(name) for name in ("dies", "fine", "hangs", "exits", "also fine")}
    assert (rows["dies"].status, rows["dies"].note) == ("failed", "exit code 7")
    assert (rows["hangs"].status, rows["hangs"].note) == ("time limit", "stopped after 0.5 s")
    assert (rows["exits"].status, rows["exits"].note) == ("failed", "SystemExit: license expired")
    assert rows["fine"].objective > 1000, "a new process is given the problem"
    assert rows["also fine"].objective == 0, "a process that has it is not"


def test_ctrl_c_keeps_what_was_finished(monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparing, "learner_row", interrupted)
    found = ca.compare(ca.Problem(masked()), ["planning", "plug-in", "paper"], samples=1000)
    assert [row.status for row in found.rows] == ["SOLVED", "interrupted", "interrupted"]
    assert found.interrupted


SLOW = """
import cautious as ca
from cautious.comparison import runs
from cautious.peers import roster
runs.CHILD = ("-c", {child!r})
roster.missing = lambda name: None
print("go", flush=True)
found = ca.compare(ca.Problem(ca.worlds.river_swim()), ["planning", "SCS", "HIGHS"])
print([row.status for row in found.rows], flush=True)
"""


def test_ctrl_c_ends_a_package_that_ignores_it():
    child = CRASHES.replace('"hangs"', '"SCS"')
    child = child.replace("import os", "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nimport os")
    code = SLOW.format(child=child)
    run = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert run.stdout.readline() == "go\n"
    time.sleep(4)
    started = time.monotonic()
    run.send_signal(signal.SIGINT)
    out, _ = run.communicate(timeout=20)
    assert time.monotonic() - started < 5
    assert out == "['SOLVED', 'interrupted', 'interrupted']\n"


def test_an_infeasible_problem_is_said_by_everyone():
    pytest.importorskip("cvxpy")
    problem = ca.Problem(ca.worlds.river_swim(), ca.SafeSet([5], 0.01))
    (row,) = ca.compare(problem, ["column generation"]).rows
    assert (row.status, row.objective, row.gap) == ("INFEASIBLE", None, None)
    stats, judgement = convex.attempt(problem, "CLARABEL")
    assert stats["status"] == "infeasible"
    assert judgement()["objective"] is None


def test_a_claim_that_the_policy_does_not_keep_is_noted():
    peers = runs.Peers(ca.Problem(masked()), 1e-6, 1.0)

    class Boasting:
        alive = True

        def ask(self, request, limit, payload):
            return {"status": "optimal", "objective": 1.0, "upper_bound": 1.5, "claimed": 3.0, "wall_seconds": 0.1}

    peers.workers["CVXPY"] = Boasting()
    row = peers.row("SCS")
    assert (row.objective, row.gap, row.note) == (1.0, 0.5, "claims 3")


WRONG = {
    "problem": (lambda: ca.compare(ca.worlds.river_swim()), ca.IncompatibleError, "needs a ca.Problem, found MDP"),
    "method": (
        lambda: ca.compare(ca.Problem(masked()), ["CLARABELL"]),
        ca.InputError,
        "there is no method 'CLARABELL'; did you mean 'clarabel'",
    ),
    "text": (lambda: ca.compare(ca.Problem(masked()), "SCS"), ca.InputError, "must be a sequence of names"),
    "limit": (lambda: ca.compare(ca.Problem(masked()), time_limit_seconds=0), ca.InputError, "time_limit_seconds is 0"),
    "samples": (lambda: ca.compare(ca.Problem(masked()), samples=0), ca.InputError, "samples must be a whole number"),
    "tolerance": (lambda: ca.compare(ca.Problem(masked()), tolerance=0), ca.InputError, "tolerance is 0"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input(case):
    call, kind, message = WRONG[case]
    with pytest.raises(kind, match=message):
        call()


def test_the_names_of_methods_are_different():
    names = comparing.method_names()
    assert len({name.lower() for name in names}) == len(names)
    assert set(roster.USUAL) <= set(roster.EVERY) <= set(names)


def test_statuses_of_workers_as_words():
    assert runs.said("over 60 s") == ("time limit", "stopped after 60 s")
    assert runs.said("judgement over 300 s") == ("time limit", "judgement stopped after 300 s")
    assert runs.said("failed: exit code -9") == ("failed", "exit code -9")
    assert runs.said("optimal_inaccurate") == ("optimal_inaccurate", "")


def test_workers_run_pinned_to_one_thread():
    code = "import os; from cautious.peers.workers import serve\n"
    code += "serve(lambda request, payload, say: {'threads': os.environ['OMP_NUM_THREADS']})"
    worker = workers.Worker(["-c", code])
    try:
        assert worker.ask({"solver": "x"}, 10.0)["threads"] == "1"
    finally:
        worker.close()
