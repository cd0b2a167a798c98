"""Other packages: they agree with us, and whatever goes wrong with one is a row."""

import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from masked_model import masked

import cautious as ca
from cautious.comparison import compare as comparing
from cautious.peers import convex, planners, roster, storm_limits, timing, workers


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
    wanted, found = both_answers(ca.Problem(mdp, convex_risks(mdp)[name], 0.7))
    assert found["objective"] == pytest.approx(wanted.objective, abs=1e-6)
    assert found["claimed"] == pytest.approx(wanted.objective, abs=1e-6)
    assert -1e-9 <= found["upper_bound"] - wanted.objective <= 1e-5


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("risk", [None, ca.Entropy()])
def test_cone_solvers_agree_in_the_long_run(risk, limited):
    pytest.importorskip("cvxpy")
    rng = np.random.default_rng(3)
    mdp = ca.MDP(rng.dirichlet(np.ones(5), (5, 3)), rng.normal(size=(5, 3)), 1.0)
    agrees(ca.Problem(mdp, risk, 0.3, [ca.Exposure([0]) <= 0.15] if limited else [], "average"))


@pytest.mark.parametrize("limited", [False, True])
def test_cone_solvers_agree_until_the_end(limited):
    pytest.importorskip("cvxpy")
    rng = np.random.default_rng(4)
    moves = rng.dirichlet(np.ones(6), (6, 3))
    moves[5] = np.eye(6)[5]
    rewards = rng.normal(size=(6, 3)) - 2
    rewards[5] = 0
    mdp = ca.MDP(moves, rewards, 1.0, start=np.eye(6)[0])
    loosest = ca.solve(ca.Problem(mdp, horizon="total")).occupancy[1].sum()
    agrees(ca.Problem(mdp, constraints=[ca.Exposure([1]) <= 0.8 * loosest] if limited else [], horizon="total"))


@pytest.mark.parametrize("discount", [0.0, 0.9, 1.0])
@pytest.mark.parametrize("name", [None, *convex_risks(masked())])
def test_cone_solvers_agree_over_some_steps(name, discount):
    pytest.importorskip("cvxpy")
    given = masked()
    mdp = ca.MDP(given.transitions, given.rewards, discount, given.start, allowed=given.allowed)
    risk = None if name is None else {**convex_risks(mdp), "KL": ca.KL(mdp.allowed / mdp.allowed.sum())}[name]
    loosest = ca.solve(ca.Problem(mdp, risk, 0.7, horizon=5)).occupancy[:, 3].sum()
    for limits in ([], [ca.Exposure([3]) <= 0.05 + 0.9 * loosest], [ca.Quadratic(np.full(7, 1 / 7)) <= 0.2]):
        agrees(ca.Problem(mdp, risk, 0.7, limits, 5))


def test_cone_solvers_agree_on_ever_entering_states():
    pytest.importorskip("cvxpy")
    given = masked()
    mdp = ca.MDP(given.transitions, given.rewards, 1.0, given.start, allowed=given.allowed)
    agrees(ca.Problem(mdp, constraints=[ca.Reach([1]) >= 0.7], horizon=4))


def both_answers(problem):
    """Ours, and what is judged of Clarabel's."""
    wanted = ca.solve(problem, tolerance=1e-8).require()
    solver = "CLARABEL 1e-10"
    assert roster.refusal(problem, solver) is None
    stats, judgement = convex.attempt(problem, solver)
    found = judgement()
    assert stats["status"] == "optimal"
    return wanted, found


def agrees(problem):
    wanted, found = both_answers(problem)
    assert found["claimed"] == pytest.approx(wanted.objective, abs=1e-5)
    # its policy may miss a limit by rounding, and then has no value
    if not problem.constraints or found["objective"] is not None:
        assert found["objective"] == pytest.approx(wanted.objective, abs=1e-5)
    assert -1e-9 <= found["upper_bound"] - wanted.objective <= 1e-4


def test_horizons_that_others_are_not_asked_about():
    mdp = ca.MDP(np.full((2, 1, 2), 0.5), np.ones((2, 1)), 1.0)
    assert "discounted returns only" in roster.refusal(ca.Problem(mdp, horizon="average"), "Storm")


@pytest.mark.parametrize("solver", roster.PLANNERS)
def test_planners_agree_where_actions_differ_by_state(solver, require_package):
    require_package(solver)
    problem = ca.Problem(masked())
    wanted = ca.solve(problem, tolerance=1e-9).require()
    found = planners.attempt(problem, planners.prepare(problem.mdp, solver))[1]()
    assert found["objective"] == pytest.approx(wanted.objective, abs=1e-7)
    assert 0 <= found["upper_bound"] - wanted.objective <= 1e-6


def limits_on(mdp, horizon):
    """Linear limits between what is possible and what the best policy has, and one that cannot be kept."""
    table = np.random.default_rng(6).normal(size=mdp.shape) * (~mdp.ended[:, None] if horizon else 1)
    best = ca.solve(ca.Problem(mdp, horizon=horizon)).occupancy
    least = ca.solve(ca.Problem(mdp, ca.Exposure([3]), 1e4, horizon=horizon)).occupancy[3].sum()
    share = ca.Exposure([3]) <= float(least + best[3].sum()) / 2
    other = ca.solve(ca.Problem(mdp, -1.0 * ca.Return(table), 1e4, horizon=horizon)).risk
    yield [share]
    yield [share, ca.Return(table) >= -other - 0.5 * abs(other)]
    yield [ca.PeakExposure([[3], [1, 2]]) <= 3 * least + float(best[1:3].sum())]
    yield [ca.Exposure([3]) <= 0.9 * least]


@pytest.mark.parametrize("horizon", [None, "total"])
def test_storm_agrees_on_linear_limits(horizon, require_package):
    require_package("Storm")
    mdp = masked()
    if horizon:
        moves = mdp.transitions.toarray().reshape(7, 3, 7)
        moves[:6] *= 0.8
        moves[:6, :, 6] += 0.2
        moves[6] = np.eye(7)[6]
        rewards = np.where(np.arange(7)[:, None] < 6, mdp.rewards, 0.0)
        mdp = ca.MDP(np.where(mdp.allowed[..., None], moves, 0), rewards, 1.0, mdp.start, allowed=mdp.allowed)
    verdicts = []
    for constraints in limits_on(mdp, horizon):
        problem = ca.Problem(mdp, constraints=constraints, horizon=horizon)
        wanted = ca.solve(problem, tolerance=1e-8)
        verdicts.append(wanted.status)
        assert roster.refusal(problem, "Storm") is None
        stats, judgement = storm_limits.attempt(problem, storm_limits.LimitedModel(problem))
        if wanted.status is ca.Status.INFEASIBLE:
            assert stats["status"] == "infeasible"
        else:
            assert judgement()["claimed"] == pytest.approx(wanted.objective, abs=1e-5)
            assert judgement()["objective"] is None
    assert verdicts.count(ca.Status.SOLVED) == 3
    assert verdicts.count(ca.Status.INFEASIBLE) == 1


def test_what_storm_says_of_limits_is_a_row_without_a_policy(require_package):
    require_package("Storm")
    problem = ca.Problem(masked(), constraints=next(limits_on(masked(), None)))
    (row,) = ca.compare(problem, ["Storm"]).rows
    assert (row.status, row.objective) == ("value only", None)
    assert row.note.endswith("; with limits it gives no policy")
    assert float(row.note.split()[1].rstrip(";")) == pytest.approx(ca.solve(problem).objective, abs=1e-5)
    convex_limit = ca.Problem(masked(), constraints=[ca.Entropy() <= -1])
    assert roster.refusal(convex_limit, "Storm") == "takes linear limits only, and no risk beside them"
    assert roster.refusal(problem, "Storm PI") == "plans without a risk or limit only"


def test_the_problem_of_a_log_goes_to_another_process_without_its_rows():
    rows = [("a", "go", 1.0, "b"), ("b", "go", 0.0, "a"), ("a", "stay", 0.5, "a"), ("b", "stay", 0.0, "b")]
    problem = ca.Problem(ca.from_transitions(rows, discount=0.9), ca.Entropy(), 0.5)
    received = pickle.loads(comparing.Peers(problem, 1e-6, 1.0)._pickled())
    d = np.full((2, 2), 0.25)
    assert received.objective(d) == problem.objective(d)
    with pytest.raises(ca.IncompatibleError, match="needs the rows of the log"):
        _ = received.mdp.log


def test_a_risk_that_does_not_count_is_not_sent():
    class Own(ca.Risk):
        convex = smooth = True

        def value(self, d):
            return float(np.sum(d**2))

        def gradient(self, d):
            return 2 * d

    problem = ca.Problem(masked(), Own(), 0.0)
    received = pickle.loads(comparing.Peers(problem, 1e-6, 1.0)._pickled())
    d = np.full(problem.mdp.shape, 1 / 21)
    assert received.neutral
    assert received.objective(d) == problem.objective(d)


def test_a_short_limit_is_not_used_up_by_repetitions():
    calls = []

    def run():
        calls.append(1)
        return {"seconds": 0.3}

    assert timing.repeated(run, limit_seconds=0.5) == {"seconds": 0.3}
    assert len(calls) == 1
    timing.repeated(run, limit_seconds=60.0)
    assert len(calls) == 3


def test_what_is_not_installed_is_a_row(monkeypatch):
    monkeypatch.setitem(roster.MODULES, "SCS", "no_such_module")
    monkeypatch.setitem(roster.MODULES, "QuantEcon", "no_such_planner")
    problem = ca.Problem(masked())
    first, second = ca.compare(problem, ["QuantEcon PI", "SCS"]).rows
    assert (first.status, first.note) == ("not installed", "pip install no_such_planner")
    assert second.status == "not installed"
    monkeypatch.setattr(roster, "find_spec", lambda module: None)
    assert roster.missing("HIGHS") == '"cautious[solvers]"'
    assert roster.missing("PIQP") == '"cautious[solvers]" piqp'
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
    monkeypatch.setattr(comparing, "CHILD_COMMAND", ("-c", CRASHES))
    monkeypatch.setattr(roster, "missing", lambda name: None)
    monkeypatch.setattr(roster, "owner", lambda name: "bad")
    with comparing.Peers(ca.Problem(masked()), 1e-6, 0.5) as peers:
        yield peers


def test_a_package_that_dies_hangs_or_exits_is_a_row_and_the_next_one_works(bad_peers):
    rows = {name: bad_peers.row(name) for name in ("dies", "fine", "hangs", "exits", "also fine")}
    assert (rows["dies"].status, rows["dies"].note) == ("failed", "exit code 7")
    assert (rows["hangs"].status, rows["hangs"].note) == ("time limit", "stopped after 0.5 s")
    assert (rows["exits"].status, rows["exits"].note) == ("failed", "SystemExit: license expired")
    assert rows["fine"].objective > 1000, "a new process is given the problem"
    assert rows["also fine"].objective == 0, "a process that has it is not"


SLOW = """
import cautious as ca
from cautious.comparison import compare as comparing
from cautious.peers import roster
comparing.CHILD_COMMAND = ("-c", {child!r})
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


def test_a_claim_that_the_policy_does_not_keep_is_noted():
    peers = comparing.Peers(ca.Problem(masked()), 1e-6, 1.0)

    class Boasting:
        alive = True

        def ask(self, request, limit, payload):
            return {"status": "optimal", "objective": 1.0, "upper_bound": 1.5, "claimed": 3.0, "wall_seconds": 0.1}

    peers.workers["CVXPY"] = Boasting()
    row = peers.row("SCS")
    assert (row.objective, row.gap, row.note) == (1.0, 0.5, "claims 3")


def test_statuses_of_workers_as_words():
    assert comparing.status_and_note("over 60 s") == ("time limit", "stopped after 60 s")
    assert comparing.status_and_note("judgement over 300 s") == ("time limit", "judgement stopped after 300 s")
    assert comparing.status_and_note("failed: exit code -9") == ("failed", "exit code -9")
    assert comparing.status_and_note("optimal_inaccurate") == ("optimal_inaccurate", "")


def test_what_is_not_the_solvers_time_is_bounded_by_its_limit():
    assert workers.stage_limits(60.0, False) == {"": 600.0, "ready": 60.0, "answered": 300.0}
    assert workers.stage_limits(0.1, False) == {"": 60.0, "ready": 0.1, "answered": 30.0}
    assert workers.stage_limits(20.0, False) == {"": 200.0, "ready": 20.0, "answered": 100.0}
    assert workers.stage_limits(0.1, True) == {"": 600.0, "ready": 0.1, "answered": 300.0}
    assert workers.stage_limits(1e6, False) == {"": 600.0, "ready": 1e6, "answered": 300.0}


@pytest.mark.parametrize("stage", ["", "ready", "answered"])
def test_a_package_that_hangs_is_ended_at_the_limit_of_its_stage(stage, monkeypatch):
    monkeypatch.setattr(workers, "SET_UP_SECONDS", (0.5, 0.5) if stage == "" else (60.0, 60.0))
    monkeypatch.setattr(workers, "JUDGEMENT_SECONDS", (0.5, 0.5))
    said = f"print({stage!r}, flush=True); " if stage else ""
    worker = workers.Worker(["-c", f"import time; {said}time.sleep(60)"], patient=False)
    said = worker.ask({"solver": "x"}, 0.5)["status"]
    assert said == {"": "preparation ", "ready": "", "answered": "judgement "}[stage] + "over 0.5 s"
    assert not worker.alive


def test_workers_run_pinned_to_one_thread():
    code = "import os; from cautious.peers.workers import serve\n"
    code += "serve(lambda request, payload, say: {'threads': os.environ['OMP_NUM_THREADS']})"
    worker = workers.Worker(["-c", code])
    try:
        assert worker.ask({"solver": "x"}, 10.0)["threads"] == "1"
    finally:
        worker.close()
