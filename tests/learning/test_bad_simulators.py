"""Simulators that fail, hang or lie: one typed error that names the call, the seed and the datum."""

import os
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import cautious as ca
from cautious.learning.draws import BATCH, Draws

STATES, ACTIONS = np.resize(np.arange(3), 50), np.resize(np.arange(2), 50)


class Fine:
    """Three states, two actions; ``_change`` spoils what it returns from the second call on."""

    n_states, n_actions, discount, reward_range = 3, 2, 0.9, (0.0, 1.0)
    draws_per_seed = BATCH

    def __init__(self):
        self.count = -1

    def start_states(self, n, rng):
        return rng.integers(3, size=n)

    def sample(self, states, actions, rng):
        self.count += 1
        good = rng.integers(3, size=states.size), rng.random(states.size)
        return good if self.count == 0 else self._change(*good)

    def _change(self, next_states, rewards):
        return next_states, rewards


def spoiled(change):
    """A simulator whose second call returns ``change(next_states, rewards)``."""
    return type("Spoiled", (Fine,), {"_change": lambda self, *good: change(*good)})()


def put(array, index, value):
    array = np.array(array)
    array[index] = value
    return array


def message_of(simulator, **options):
    """What the user reads when the second call fails; the first one is fine."""
    draws = Draws(simulator, 1000, seed=42, **options)
    draws.sample(STATES, ACTIONS)
    with pytest.raises(ca.SimulatorError) as caught:
        draws.sample(STATES, ACTIONS)
    # nothing of a call that failed is counted
    assert (draws.used, draws.calls) == (50, 1)
    return str(caught.value)


def raises(error):
    def change(next_states, rewards):
        raise error

    return change


WHERE = " (call 1, seed 42)"
MESSAGES = {
    "raises": (raises(ValueError("no such valve")), f"the simulator raised ValueError: no such valve{WHERE}"),
    "times out by itself": (raises(TimeoutError("device")), f"the simulator raised TimeoutError: device{WHERE}"),
    "leaves": (raises(SystemExit(3)), f"the simulator raised SystemExit: 3{WHERE}"),
    "nan": (
        lambda s, r: (s, put(r, 7, np.nan)),
        "[7] is nan; every entry must be finite",
    ),
    "inf": (
        lambda s, r: (s, put(r, 7, -np.inf)),
        "[7] is -inf; every entry must be finite",
    ),
    "outside the range": (
        lambda s, r: (s, put(r, 7, 1.5)),
        f"simulator.sample: rewards[7] is 1.5{WHERE}; reward_range promises (0.0, 1.0)",
    ),
    "negative state": (
        lambda s, r: (put(s, 4, -1), r),
        f"simulator.sample: next_states[4] is -1{WHERE}; states are numbered 0 to 2",
    ),
    "state too large": (
        lambda s, r: (put(s, 4, 3), r),
        f"simulator.sample: next_states[4] is 3{WHERE}; states are numbered 0 to 2",
    ),
    "too few states": (
        lambda s, r: (s[:-1], r),
        f"simulator.sample: next_states{WHERE} has shape (49,); expected (50,) = (n,)",
    ),
    "too many rewards": (
        lambda s, r: (s, np.append(r, 0.5)),
        f"simulator.sample: rewards{WHERE} has shape (51,); expected (50,) = (n,)",
    ),
    "states as floats": (
        lambda s, r: (s.astype(float), r),
        f"simulator.sample: next_states{WHERE} must hold whole numbers, found dtype float64",
    ),
    "states as words": (
        lambda s, r: ([str(x) for x in s], r),
        f"simulator.sample: next_states{WHERE} must hold whole numbers, found dtype <U1",
    ),
    "rewards as words": (
        lambda s, r: (s, [str(round(x)) for x in r]),
        f"simulator.sample: rewards{WHERE} must hold real numbers, found dtype <U1",
    ),
    "complex rewards": (
        lambda s, r: (s, r + 1j),
        f"simulator.sample: rewards{WHERE} must hold real numbers, found dtype complex128",
    ),
    "ragged": (lambda s, r: ([[0], [0, 1]], r), "what the simulator returned is not an array: setting an array"),
    "nothing": (lambda s, r: None, f"simulator.sample{WHERE} must return (next_states, rewards), found NoneType"),
    "three things": (
        lambda s, r: (s, r, r),
        f"simulator.sample{WHERE} must return (next_states, rewards), found 3 items",
    ),
}


@pytest.mark.parametrize("case", MESSAGES)
def test_the_message_names_call_seed_and_datum(case):
    change, wanted = MESSAGES[case]
    found = message_of(spoiled(change))
    assert wanted in found
    assert WHERE in found


@pytest.mark.parametrize("case", ["raises", "nan", "negative state", "nothing"])
def test_the_same_message_from_a_pool(case):
    change, wanted = MESSAGES[case]
    with ThreadPoolExecutor(2) as pool:
        assert message_of(spoiled(change), executor=pool).count(wanted) == 1


def test_a_hanging_call_is_given_up_and_named():
    released = threading.Event()
    started = time.monotonic()
    found = message_of(spoiled(lambda s, r: released.wait(30) and (s, r)), timeout_seconds=0.2)
    assert found == f"the simulator did not return within 0.2 seconds when asked for 50 draws{WHERE}"
    assert time.monotonic() - started < 5
    released.set()


def test_a_hanging_pool_is_given_up_and_the_rest_cancelled():
    released, begun = threading.Event(), []

    class Hangs(Fine):
        draws_per_seed = 1

        def sample(self, states, actions, rng):
            begun.append(states.size)
            released.wait(30)
            return super().sample(states, actions, rng)

    n = 60
    with ThreadPoolExecutor(1) as pool:
        draws = Draws(Hangs(), n, seed=1, executor=pool, timeout_seconds=0.2)
        with pytest.raises(ca.SimulatorError, match=r"1 draw of state 0, action 0 \(call 0, seed 1\)"):
            draws.sample(np.zeros(n, dtype=int), np.zeros(n, dtype=int))
        released.set()
    # tried again once, and the ones behind it were begun meanwhile
    assert len(begun) <= 10


def test_a_simulator_that_changes_its_sizes_is_caught():
    simulator = Fine()
    draws = Draws(simulator, 1000, seed=42)
    draws.sample(STATES, ACTIONS)
    for name, value, shown in (("n_states", 4, "3"), ("reward_range", (0.0, 9.0), "[0.0, 1.0]")):
        setattr(simulator, name, value)
        with pytest.raises(ca.SimulatorError) as caught:
            draws.sample(STATES, ACTIONS)
        now = list(value) if isinstance(value, tuple) else value
        assert str(caught.value) == f"simulator.{name} was {shown} when the run began and is {now} now{WHERE}"
        delattr(simulator, name)


@pytest.mark.parametrize(
    ("name", "noise"),
    [("next_states", lambda s, r: (1 - s % 2, r)), ("rewards", lambda s, r: (s, r / 2))],
)
def test_a_simulator_with_a_generator_of_its_own_is_caught(name, noise):
    draws = Draws(spoiled(noise), 1000, seed=42)
    with pytest.raises(ca.SimulatorError) as caught:
        draws.check_repeatable(STATES, ACTIONS)
    found = str(caught.value)
    assert found.startswith(f"simulator.sample (call 0, seed 42) returned {name}[")
    assert found.endswith("when called again with the same generator; draw only from the rng that is passed in")


@pytest.mark.parametrize(
    ("starts", "wanted"),
    [
        (lambda n, rng: np.full(n, 5), "simulator.start_states[0] is 5 (call 0, seed 42); states are numbered 0 to 2"),
        (lambda n, rng: np.zeros(n - 1, dtype=int), "simulator.start_states (call 0, seed 42) has shape (9,)"),
        (lambda n, rng: None, "simulator.start_states (call 0, seed 42) has shape ()"),
        (lambda n, rng: 1 / 0, "the simulator raised ZeroDivisionError: division by zero (call 0, seed 42)"),
    ],
)
def test_first_states_are_checked_too(starts, wanted):
    simulator = Fine()
    simulator.start_states = starts
    with pytest.raises(ca.SimulatorError) as caught:
        Draws(simulator, 1000, seed=42).start_states(10)
    assert str(caught.value).startswith(wanted)


class Dies(Fine):
    def sample(self, states, actions, rng):
        os._exit(3)


class Unpicklable(Fine):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


@pytest.mark.skipif(sys.platform == "win32", reason="processes are started another way")
@pytest.mark.parametrize(
    ("simulator", "wanted"),
    [(Dies, "refused task 0 with BrokenProcessPool"), (Unpicklable, "could not be sent: TypeError: cannot pickle")],
)
def test_a_process_that_dies_or_cannot_be_reached_is_named(simulator, wanted):
    with ProcessPoolExecutor(1, get_context("forkserver")) as pool, pytest.raises(ca.WorkerError, match=wanted):
        Draws(simulator(), 1000, seed=42, executor=pool).sample(STATES, ACTIONS)


def test_an_executor_that_was_shut_down_is_named():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(ca.WorkerError, match="the executor refused task 0 with RuntimeError"):
        Draws(Fine(), 1000, seed=42, executor=pool).sample(STATES, ACTIONS)
