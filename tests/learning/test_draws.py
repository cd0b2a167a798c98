"""Draws: batches, seeds, the budget, and the same bytes whoever draws."""

import sqlite3
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import cautious as ca
from cautious.learning import draws as draws_module
from cautious.learning.draws import BATCH, Draws, generator
from cautious.models.simulators import TableSimulator, draws_per_seed
from cautious.runtime.executors import StopRequested

MDP = ca.worlds.river_swim()
N = 2 * BATCH + 100
STATES, ACTIONS = np.resize(np.arange(6), N), np.resize(np.array([0, 1, 1, 0]), N)


class Plain:
    """A simulator without a known table, so that nothing is drawn by a short cut."""

    n_states, n_actions, discount, reward_range = 6, 2, MDP.discount, MDP.reward_range
    draws_per_seed = BATCH

    def __init__(self):
        self.table = MDP.simulator()

    def start_states(self, n, rng):
        return self.table.start_states(n, rng)

    def sample(self, states, actions, rng):
        return self.table.sample(states, actions, rng)


class Recording(Plain):
    def __init__(self):
        super().__init__()
        self.sizes = []

    def sample(self, states, actions, rng):
        self.sizes.append(states.size)
        return super().sample(states, actions, rng)


def drawn(simulator=None, seed=0, executor=None):
    return Draws(simulator or Plain(), 10 * N, seed, executor=executor).sample(STATES, ACTIONS)


def same(one, two):
    return all(a.tobytes() == b.tobytes() for a, b in zip(one, two, strict=True))


def test_a_request_is_split_into_batches_with_a_generator_each():
    simulator = Recording()
    draws = Draws(simulator, 10 * N, seed=7)
    found = draws.sample(STATES, ACTIONS)
    assert simulator.sizes == [BATCH, BATCH, 100]
    assert (draws.used, draws.calls) == (N, 3)
    assert draws.left == 9 * N
    for call in range(3):
        part = slice(call * BATCH, (call + 1) * BATCH)
        wanted = MDP.simulator().sample(STATES[part], ACTIONS[part], generator(7, call))
        assert same((found[0][part], found[1][part]), wanted)


def test_nothing_is_drawn_for_nothing():
    draws = Draws(Plain(), 10, seed=0)
    next_states, rewards = draws.sample(STATES[:0], ACTIONS[:0])
    assert (next_states.size, rewards.size, draws.used, draws.calls) == (0, 0, 0, 0)


def test_seeds_and_calls_decide_everything():
    assert same(drawn(seed=1), drawn(seed=1))
    assert not same(drawn(seed=1), drawn(seed=2))
    first, resumed = Draws(Plain(), 10 * N, 3), Draws(Plain(), 10 * N, 3)
    first.start_states(5)
    first.sample(STATES[:50], ACTIONS[:50])
    resumed.used, resumed.calls = first.used, first.calls
    assert first.calls == 2
    assert same(first.sample(STATES, ACTIONS), resumed.sample(STATES, ACTIONS))


def test_a_known_table_draws_the_same_as_a_stranger():
    assert isinstance(Draws(MDP.simulator(), N, 0).table, TableSimulator)
    assert Draws(Plain(), N, 0).table is None
    assert same(drawn(MDP.simulator(), seed=4), drawn(Plain(), seed=4))


def test_the_budget_is_never_exceeded():
    draws = Draws(Plain(), 100, seed=0)
    draws.sample(STATES[:60], ACTIONS[:60])
    with pytest.raises(AssertionError, match="41 draws asked for, 40 left"):
        draws.sample(STATES[:41], ACTIONS[:41])
    with pytest.raises(AssertionError, match="41 draws asked for, 40 left"):
        draws.count(41)
    draws.start_states(1000)
    assert draws.left == 40


def test_streams_of_kernels_and_of_the_learner_are_numbered_too():
    one, two = (Draws(MDP.simulator(), 100, seed=5) for _ in range(2))
    one.count(20)
    first = one.kernel_seed()
    assert two.kernel_seed() == first
    assert one.kernel_seed() == two.kernel_seed() != first
    assert one.calls == two.calls == 2
    assert (one.used, two.used) == (20, 0)
    assert one.rng().random() == two.rng().random()


@pytest.mark.parametrize("workers", [1, 2])
def test_threads_change_nothing(workers):
    with ThreadPoolExecutor(workers) as pool:
        assert same(drawn(executor=pool), drawn())


@pytest.mark.parametrize("workers", [1, 2])
def test_processes_change_nothing(workers):
    with ProcessPoolExecutor(workers, get_context("forkserver")) as pool:
        assert same(drawn(executor=pool), drawn())


def test_an_environment_with_one_state_is_shared_by_threads():
    gymnasium = pytest.importorskip("gymnasium", reason="extra gym")
    lake = ca.GymSimulator(gymnasium.make("FrozenLake-v1"), 0.9, "restart")
    states, actions = np.resize(np.arange(16), N), np.resize(np.arange(4), N)
    alone = Draws(lake, N, 0).sample(states, actions)
    with ThreadPoolExecutor(2) as pool:
        assert same(Draws(lake, N, 0, executor=pool).sample(states, actions), alone)


def test_the_learner_s_arrays_are_out_of_reach():
    class InPlace(Plain):
        def sample(self, states, actions, rng):
            states[:] = 0
            actions[:] = 0
            return super().sample(states, actions, rng)

    states, actions = STATES.copy(), ACTIONS.copy()
    Draws(InPlace(), N, 0).sample(states, actions)
    assert np.array_equal(states, STATES)
    assert np.array_equal(actions, ACTIONS)


def test_a_repeatable_simulator_passes_and_pays_for_the_check():
    draws = Draws(Plain(), N, 0)
    draws.check_repeatable(STATES[:30], ACTIONS[:30])
    assert (draws.used, draws.calls) == (60, 1)


def test_a_simulator_is_called_in_the_thread_of_the_caller():
    class Database(Plain):
        """SQLite refuses to be used in another thread than that of its connection."""

        def __init__(self):
            super().__init__()
            self.connection = sqlite3.connect(":memory:")

        def sample(self, states, actions, rng):
            ((one,),) = self.connection.execute("select 1")
            next_states, rewards = super().sample(states, actions, rng)
            return next_states, one * rewards

    simulator = Database()
    assert ca.learn(simulator, samples=500).policy.tobytes() == ca.learn(Plain(), samples=500).policy.tobytes()
    found = ca.sweep({"river": simulator}, ["primal-dual"], samples=500, seeds=1)
    assert found.rows[0]["error"] == ""
    with pytest.raises(ca.SimulatorError, match="same thread"):
        ca.learn(simulator, samples=500, call_timeout_seconds=60)
    simulator.connection.close()


def test_ctrl_c_is_heard_while_waiting():
    released = threading.Event()

    class Slow(Plain):
        def sample(self, states, actions, rng):
            released.wait(20)
            return super().sample(states, actions, rng)

    pressed = time.monotonic() + 0.2
    draws = Draws(Slow(), N, 0, timeout_seconds=60.0, stopping=lambda: time.monotonic() > pressed)
    started = time.monotonic()
    with pytest.raises(StopRequested):
        draws.sample(STATES, ACTIONS)
    assert time.monotonic() - started < 2
    assert (draws.used, draws.calls) == (0, 0)
    released.set()


def test_what_a_pool_raises_after_ctrl_c_is_not_the_simulator_s_fault():
    class Interrupted(Plain):
        def sample(self, states, actions, rng):
            raise KeyboardInterrupt

    with pytest.raises(StopRequested):
        Draws(Interrupted(), N, 0, stopping=lambda: True).sample(STATES, ACTIONS)


def small_calls(simulator=None, per_seed=4, executor=None, samples=10_000, **options):
    """Draws of a simulator that shares a generator among four draws."""
    simulator = simulator or Plain()
    simulator.draws_per_seed = per_seed
    return Draws(simulator, samples, 0, executor=executor, **options)


@pytest.mark.parametrize("seconds", [1e-9, 1e-3, 10.0])
@pytest.mark.parametrize("workers", [0, 1, 3])
def test_neither_the_size_of_tasks_nor_the_workers_change_the_draws(monkeypatch, seconds, workers):
    wanted = small_calls().sample(STATES[:1001], ACTIONS[:1001])
    monkeypatch.setattr(draws_module, "TASK_SECONDS", seconds)
    with ThreadPoolExecutor(max(1, workers)) as pool:
        draws = small_calls(executor=pool if workers else None)
        assert same(draws.sample(STATES[:1001], ACTIONS[:1001]), wanted)
        assert (draws.used, draws.calls) == (1001, 251)
        # the same again as a stream, in batches of whole calls
        streamed = small_calls(executor=pool if workers else None)
        cut = [(STATES[a:b], ACTIONS[a:b]) for a, b in ((0, 400), (400, 1000), (1000, 1001))]
        parts = list(streamed.stream(cut))
    states, actions, next_states, rewards = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    assert same((states, actions, next_states, rewards), (STATES[:1001], ACTIONS[:1001], *wanted))
    assert (streamed.used, streamed.calls) == (1001, 251)


def test_tasks_take_about_half_a_second():
    class Slow(Plain):
        def sample(self, states, actions, rng):
            time.sleep(0.004 * states.size)
            return super().sample(states, actions, rng)

    sizes, draws = [], small_calls(Slow(), per_seed=1)
    draws.after_part = lambda: sizes.append(sum(part[0].size for part in draws.kept.values()) - sum(sizes))
    draws.sample(STATES[:500], ACTIONS[:500])
    # the first one is a single draw; a loaded machine makes sleeps longer and so tasks smaller
    assert sizes[0] == 1
    assert sizes[1] <= draws_module.LARGEST_GROWTH
    assert 30 <= max(sizes) <= 125


def test_how_many_draws_share_a_generator():
    class Telling(Plain):
        draws_per_seed = 7

    class Silent(Plain):
        draws_per_seed = None

    rule = {1: 1, 1448: 1, 1449: 2, 5000: 4, 20_000: 16, 1_000_000: 1024, 10**9: 4096}
    assert {samples: draws_per_seed(Silent(), samples) for samples in rule} == rule
    assert draws_per_seed(Telling(), 10**9) == 7
    for bad in (0, 4097, 1.5, "many"):
        Telling.draws_per_seed = bad
        with pytest.raises(ca.InputError, match="draws_per_seed"):
            draws_per_seed(Telling(), 1000)


def test_what_was_drawn_is_kept_and_not_drawn_again(monkeypatch):
    monkeypatch.setattr(draws_module, "TASK_SECONDS", 1e-9)

    class Interrupted(Recording):
        def sample(self, states, actions, rng):
            if sum(self.sizes) >= 60:
                raise ConnectionError("the lab is closed")
            return super().sample(states, actions, rng)

    wanted = small_calls()
    wanted = wanted.start_states(30), *wanted.sample(STATES[:100], ACTIONS[:100])
    first = small_calls(Interrupted())
    first.start_states(30)
    with pytest.raises(ca.SimulatorError, match="closed"):
        first.sample(STATES[:100], ACTIONS[:100])
    header, arrays = first.storage()
    assert header["pending"] == first.pending > 0
    assert first.used == 0
    second = small_calls(Recording())
    second.restore(header, arrays)
    again = second.start_states(30), *second.sample(STATES[:100], ACTIONS[:100])
    assert same(again, wanted)
    assert sum(second.simulator.sizes) == 100 - header["pending"]
    second.forget()
    assert (second.kept, second.pending) == ({}, 0)


def test_the_time_limit_is_that_of_one_draw():
    """Ten draws of a fifth of a second in one call are fine, a draw of a minute is not, and is named."""

    class Slow(Plain):
        def sample(self, states, actions, rng):
            time.sleep(60 if 5 in states else 0.1 * states.size)
            return super().sample(states, actions, rng)

    fine = small_calls(Slow(), per_seed=10, timeout_seconds=0.5)
    assert fine.sample(np.zeros(10, dtype=int), np.ones(10, dtype=int))[0].size == 10
    hangs = small_calls(Slow(), per_seed=1, timeout_seconds=0.5)
    with pytest.raises(
        ca.SimulatorError, match=r"within \S+ seconds when asked for 1 draw of state 5, action 1 \(call 2,"
    ):
        hangs.sample(np.array([0, 0, 5]), np.ones(3, dtype=int))
