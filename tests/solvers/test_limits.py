"""Threads, memory limits and what a solve reports about them."""

import itertools
import json
import os
import threading
import time

import numpy as np
import pytest

import cautious as ca
from cautious.planning import plan
from cautious.runtime.clock import Clock
from cautious.runtime.memory import MemoryWatch
from cautious.solvers.interior_point.sparse_cholesky import OutOfTime
from cautious.solvers.proximal import proximal_newton
from cautious.solvers.proximal.proximal_newton import ProximalNewton

MAZE = ca.worlds.maze()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"threads": 0}, "threads must be a whole number of at least 1, found 0"),
        ({"threads": 1.5}, "threads must be a whole number of at least 1, found 1.5"),
        ({"memory_limit": 0}, "memory_limit is 0.0; it must be a finite number above 0"),
        ({"memory_limit": "2GB"}, "memory_limit must be a number, found '2GB'"),
        ({"memory_limit": np.nan}, "memory_limit is nan; it must be a finite number above 0"),
    ],
)
def test_bad_limits_are_refused(given, message):
    for call in (lambda: ca.solve(ca.Problem(MAZE), **given), lambda: ca.frontier(MAZE, ca.Variance(), [1.0], **given)):
        with pytest.raises(ca.InputError, match=message):
            call()


def test_too_small_a_limit_is_refused_before_any_work():
    called = []
    with pytest.raises(ca.MemoryLimitError, match=r"planning needs about .* MB beyond the model") as caught:
        ca.solve(ca.Problem(MAZE), memory_limit=10, callback=called.append)
    assert isinstance(caught.value, MemoryError)
    assert not called


def test_a_run_that_grows_too_much_ends_with_its_best_policy(monkeypatch):
    monkeypatch.setattr(MemoryWatch, "exceeded", property(lambda watch: True))
    problem = ca.Problem(MAZE, ca.PeakExposure([[1, 2, 3], [40, 41], [60, 61, 62]]), 5.0)
    solution = ca.solve(problem, tolerance=1e-14)
    assert solution.status is ca.Status.MEMORY_LIMIT
    assert np.isfinite(solution.objective)
    assert solution.gap > 0


def test_the_watch_sees_what_is_added():
    watch = MemoryWatch(limit=50e6)
    with watch:
        assert not watch.exceeded
        block = np.ones(16_000_000)
        time.sleep(0.2)
        assert watch.exceeded
        assert 100e6 < watch.most < 300e6
        assert block.sum() == block.size


def test_a_peak_that_is_gone_again_is_seen():
    # the record is set before, so that only the watching thread can see what comes
    block = np.ones(40_000_000)
    del block
    watch = MemoryWatch(limit=None)
    with watch:
        block = np.ones(20_000_000)
        time.sleep(0.1)
        del block
    assert 120e6 < watch.most < 250e6


def test_memory_is_reported_and_saved(tmp_path):
    solution = ca.solve(ca.Problem(MAZE))
    assert solution.memory_bytes >= 0
    solution.save(tmp_path / "s.npz")
    assert ca.load(tmp_path / "s.npz").memory_bytes == solution.memory_bytes


@pytest.mark.parametrize("risk", [None, ca.Entropy(), ca.Variance()])
def test_same_bytes_for_any_number_of_threads(risk):
    mdp = ca.worlds.garnet(3000, 3, 4, discount=0.9)
    found = [ca.solve(ca.Problem(mdp, risk), threads=count) for count in (1, 2, 8)]
    for other in found[1:]:
        assert other.policy.tobytes() == found[0].policy.tobytes()
        assert (other.objective, other.gap) == (found[0].objective, found[0].gap)


def test_command_line(run):
    code, out, _ = run("solve", "maze", "--threads", 1, "--memory-limit", "1.5 GB", "--json")
    assert code == 0
    assert "memory_bytes" in json.loads(out)
    code, _, errors = run("solve", "maze", "--memory-limit", "10")
    assert code == 2
    assert "beyond the model" in errors
    code, _, errors = run("frontier", "maze", "--memory-limit", "much")
    assert code == 2
    assert "expected a number of bytes, KB, MB or GB" in errors


def test_one_thread_watches_all_solves_and_rests_between_them():
    problem = ca.Problem(MAZE)
    for _ in range(3):
        ca.solve(problem)
    watchers = [thread for thread in threading.enumerate() if thread.name == "cautious memory"]
    assert len(watchers) == 1
    time.sleep(0.1)
    # after a rest it is there again, for several at a time
    outer, inner = MemoryWatch(limit=50e6), MemoryWatch(limit=None)
    with outer, inner:
        block = np.ones(16_000_000)
        time.sleep(0.2)
        assert outer.exceeded
        assert not inner.exceeded
        assert block.sum() == block.size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_a_watcher_of_its_own():
    ca.solve(ca.Problem(MAZE))
    child = os.fork()
    if child == 0:
        watch = MemoryWatch(limit=50e6)
        with watch:
            block = np.ones(16_000_000)
            time.sleep(0.2)
        os._exit(0 if watch.exceeded and block.size else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_a_plan_that_is_cut_short_has_valid_bounds():
    whole, cut = plan(MAZE, MAZE.rewards), plan(MAZE, MAZE.rewards, over=lambda: True)
    assert cut.sweeps == 1 < whole.sweeps
    assert cut.lower <= whole.lower <= whole.upper <= cut.upper


def test_part_of_a_time_limit_is_reserved_for_the_evaluation(monkeypatch):
    now = 0.0
    monkeypatch.setattr("cautious.runtime.clock.time.perf_counter", lambda: now)
    clock = Clock(10.0)
    clock.reserve(3.0)
    answers = []
    for now in (6.9, 7.0, 10.0):  # noqa: B007
        answers.append((clock.over, clock.limit_reached))
    assert answers == [(False, False), (True, False), (True, True)]
    clock.reserve(100.0)
    assert clock.reserved == 5.0


@pytest.mark.parametrize("asked", [1, 2, 5, 20, 100])
@pytest.mark.parametrize("kind", ["neutral", "KL", "TotalVariation", "SafeSet", "Quadratic", "Wasserstein", "Variance"])
@pytest.mark.parametrize("horizon", [None, 6])
def test_a_time_limit_may_come_at_any_time(kind, asked, horizon, monkeypatch):
    """The clock jumps to the limit after it was asked so many times; policy and bound are valid whenever that is."""
    prior, calls = np.full(MAZE.shape, 1 / np.prod(MAZE.shape)), iter(range(10**9))
    steps = np.abs(np.subtract.outer(np.arange(MAZE.n_states), np.arange(MAZE.n_states))).astype(float)
    risk = {
        "neutral": None,
        "KL": ca.KL(prior),
        "TotalVariation": ca.TotalVariation(prior),
        "SafeSet": ca.SafeSet(range(1, MAZE.n_states), 0.9),
        "Quadratic": 100.0 * ca.Quadratic(prior),
        "Wasserstein": ca.Wasserstein(prior.sum(axis=1), steps),
        "Variance": ca.Variance(),
    }[kind]
    problem = ca.Problem(MAZE, risk, horizon=horizon)
    best = ca.solve(problem)
    monkeypatch.setattr("cautious.runtime.clock.time.perf_counter", lambda: 0.0 if next(calls) < asked else 10.0)
    solution = ca.solve(problem, time_limit_seconds=5.0)
    assert solution.status in (ca.Status.TIME_LIMIT, ca.Status.SOLVED)
    assert solution.objective <= best.upper_bound
    assert solution.upper_bound >= best.objective


def before_the_first_step(monkeypatch, memory_limit=None):
    """How often the clock is asked before the first Newton step with a risk over several steps, and the search then."""
    searches, asked = [], itertools.count()
    monkeypatch.setattr("cautious.runtime.clock.time.perf_counter", lambda: 1e-9 * next(asked))

    def first(search, clock):
        if not searches:
            searches.append((next(asked), search))
        clock.stop_requested = True
        raise OutOfTime

    monkeypatch.setattr(ProximalNewton, "step", first)
    prior = np.full(MAZE.shape, 1 / np.prod(MAZE.shape))
    problem = ca.Problem(MAZE, ca.KL(prior), horizon=6)
    ca.solve(problem, time_limit_seconds=1.0, memory_limit=memory_limit)
    return searches[0]


def test_the_factors_of_many_steps_ask_for_the_time(monkeypatch):
    """They were analysed in one go: 17 s of a limit of 2, on a grid of 40,000 states over 60 steps."""
    asked, search = before_the_first_step(monkeypatch)
    assert search.factors is not None
    assert asked > 15


def test_the_factors_of_many_steps_keep_a_limit_on_memory(monkeypatch):
    monkeypatch.setattr(proximal_newton, "ANALYSIS_BYTES", 1e9)
    assert before_the_first_step(monkeypatch, 1e9)[1].factors is None


def test_constraints_that_can_be_gone_through_once_count():
    """They were looked at twice: a generator was empty the second time, and its limits were left out in silence."""
    mdp, limit = ca.worlds.river_swim(), ca.Exposure([0]) >= 0.9
    found = ca.solve(ca.Problem(mdp, constraints=(one for one in [limit])))
    assert found.constraints[0].value >= 0.9
    along = ca.frontier(mdp, constraints=(one for one in [limit]), limits=[0.9])
    assert along[0].objective == pytest.approx(found.objective, abs=1e-5)
