"""Counted, checked and seeded calls of a simulator.

Call number k uses the generator of ``SeedSequence(seed, spawn_key=(k,))``: nothing is carried from call to call, so a
run can be resumed from its counters alone, and batches may be drawn by any number of workers with the same result.
"""

import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Executor, Future, wait
from functools import partial
from typing import Any, TypeVar

import numpy as np

from cautious._core import sampling
from cautious.arrays import Array, Indices
from cautious.errors import InputError, SimulatorError
from cautious.models.simulator_checks import checked_sample, checked_states
from cautious.models.simulators import Simulator, TableSimulator

T = TypeVar("T")
Requests = queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]] | None]

# what a simulator promises once and for all
MEMBERS = ("n_states", "n_actions", "discount", "reward_range")
BATCH = 4096
POLL_SECONDS = 0.05
PROBE_SAMPLES = 32


class StopRequested(Exception):
    """Ctrl-C while waiting for the simulator: the call is abandoned, nothing of it counts."""


def generator(seed: int, call: int) -> np.random.Generator:
    """The random numbers of one call."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(call,)))


def draw(simulator: Simulator, states: Indices, actions: Indices, seed: int, call: int) -> Any:
    """One call, wherever it runs."""
    return simulator.sample(states, actions, generator(seed, call))


class Draws:
    """The sample budget of a run. ``used`` transitions were drawn in ``calls`` calls; both are all a resume needs."""

    def __init__(
        self,
        simulator: Simulator,
        samples: int,
        seed: int,
        *,
        timeout_seconds: float = np.inf,
        executor: Executor | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.simulator, self.samples, self.seed = simulator, samples, seed
        self.timeout_seconds, self.executor, self.stopping = timeout_seconds, executor, stopping
        self.used = 0
        self.calls = 0
        self._worker: _Worker | None = None
        self._promised = _members(simulator)

    @property
    def left(self) -> int:
        """Transitions that may still be drawn."""
        return self.samples - self.used

    @property
    def table(self) -> TableSimulator | None:
        """The tables of a known model, for kernels that draw by themselves; None for anything else."""
        return self.simulator if isinstance(self.simulator, TableSimulator) else None

    def count(self, samples: int) -> None:
        """Transitions that a kernel is about to draw by itself."""
        self._check_budget(samples)
        self.used += samples

    def kernel_seed(self) -> int:
        """The seed of a stream for a kernel."""
        self.calls += 1
        words = np.random.SeedSequence(self.seed, spawn_key=(self.calls - 1,)).generate_state(1, np.uint64)
        return int(words[0])

    def rng(self) -> np.random.Generator:
        """Random numbers for the learner itself."""
        self.calls += 1
        return generator(self.seed, self.calls - 1)

    def start_states(self, count: int) -> Indices:
        """First states; these are not transitions and cost nothing."""
        check = partial(checked_states, self.simulator, "start_states")
        parts: list[Indices] = []
        for call, done in enumerate(range(0, count, BATCH), self.calls):
            size = min(BATCH, count - done)
            found = self._local(call, partial(self.simulator.start_states, size, generator(self.seed, call)))
            parts.append(self._checked(check, found, size, call))
        self.calls += len(parts)
        return np.concatenate(parts)

    def sample(self, states: Indices, actions: Indices) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair; in batches of at most ``BATCH`` per call.

        When a call fails, nothing of this is counted: a run is then as it was before.
        """
        if states.size == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        self._check_budget(states.size)
        # copies: a simulator that works in place must not reach the learner's own arrays
        batches = [(states[i : i + BATCH].copy(), actions[i : i + BATCH].copy()) for i in range(0, states.size, BATCH)]
        check = partial(checked_sample, self.simulator)
        drawn: list[tuple[Indices, Array]] = [
            self._checked(check, found, min(BATCH, states.size - k * BATCH), self.calls + k)
            for k, found in enumerate(self._drawn(batches))
        ]
        self.used, self.calls = self.used + states.size, self.calls + len(batches)
        return np.concatenate([part[0] for part in drawn]), np.concatenate([part[1] for part in drawn])

    def sample_pairs(
        self, number: Indices, stream: tuple[int, int] | None = None, pay: Array | None = None
    ) -> tuple[Indices, Array]:
        """``number`` (S*A,) samples of each pair, pair after pair; compiled where the tables of the model are known.

        For tables only: the ``stream`` to draw from, a seed and its first counter, by default a new one; and what is
        paid instead of the rewards, per outcome or per pair as in the table.
        """
        if self.table is None:
            rows = np.repeat(np.arange(number.size), number)
            return self.sample(rows // self.simulator.n_actions, rows % self.simulator.n_actions)
        table, total = self.table, int(number.sum())
        self.count(total)
        seed, counter = (self.kernel_seed(), 0) if stream is None else stream
        next_states, paid = np.empty(total, dtype=np.int64), np.empty(total)
        payments = (table.pay if pay is None else pay, table.pays_per_outcome)
        sampling.draw_samples(*table.sums, *payments, number, seed, counter, next_states, paid)
        return next_states, paid

    def check_repeatable(self, states: Indices, actions: Indices) -> None:
        """Refuse a simulator that does not repeat itself for the same generator: its runs could not be resumed."""
        before = self.calls
        first = self.sample(states, actions)
        self.calls = before
        second = self.sample(states, actions)
        for name, one, other in zip(("next_states", "rewards"), first, second, strict=True):
            if not np.array_equal(one, other):
                where = int(np.argmax(one != other))
                raise SimulatorError(
                    f"simulator.sample{self._when(before)} returned {name}[{where}] = {one[where]}, and {other[where]} "
                    "when called again with the same generator; draw only from the rng that is passed in"
                )

    def _check_budget(self, count: int) -> None:
        if count > self.left:
            raise AssertionError(f"{count} draws asked for, {self.left} left")

    def _drawn(self, batches: list[tuple[Indices, Indices]]) -> list[Any]:
        jobs = [
            (call, partial(draw, self.simulator, *batch, self.seed, call))
            for call, batch in enumerate(batches, self.calls)
        ]
        if self.executor is None or self.table is not None:
            return [self._local(call, job) for call, job in jobs]
        futures: list[Future[Any]] = []
        try:
            for call, job in jobs:
                try:
                    futures.append(self.executor.submit(job))
                except Exception as error:
                    refused = f"the executor refused with {type(error).__name__}: {error}{self._when(call)}"
                    raise SimulatorError(refused) from error
            return [self._answer(call, future) for (call, _), future in zip(jobs, futures, strict=True)]
        finally:
            # after a failure the others are not wanted; what is done cannot be cancelled
            for future in futures:
                future.cancel()

    def _local(self, call: int, job: Callable[[], Any]) -> Any:
        """The tables are trusted and called directly; anything else runs where it can be waited for."""
        if self.table is not None:
            return job()
        if self._worker is None:
            self._worker = _Worker()
        return self._answer(call, self._worker.submit(job))

    def _answer(self, call: int, future: "Future[Any]") -> Any:
        started, when = time.monotonic(), self._when(call)
        while not wait([future], timeout=POLL_SECONDS).done:
            if self.stopping():
                raise StopRequested
            if time.monotonic() - started > self.timeout_seconds:
                raise SimulatorError(f"the simulator did not return within {self.timeout_seconds:g} seconds{when}")
        try:
            return future.result()
        except BaseException as error:
            # Ctrl-C reaches the processes of a pool as well, and what they raise then is not the simulator's fault
            if self.stopping():
                raise StopRequested from None
            raise SimulatorError(f"the simulator raised {type(error).__name__}: {error}{when}") from error

    def _checked(self, check: Callable[[Any, int, str], T], found: Any, count: int, call: int) -> T:
        """What a simulator does wrongly is its fault, not that of the caller's data."""
        when = self._when(call)
        for name, now in _members(self.simulator).items():
            was = self._promised[name]
            if now != was:
                raise SimulatorError(f"simulator.{name} was {was} when the run began and is {now} now{when}")
        try:
            return check(found, count, when)
        except InputError as error:
            raise SimulatorError(str(error)) from None
        except ValueError as error:
            # NumPy's own, for nested lists that are not rectangular
            raise SimulatorError(f"what the simulator returned is not an array: {error}{when}") from None

    def _when(self, call: int) -> str:
        return f" (call {call}, seed {self.seed})"


def _members(simulator: Simulator) -> dict[str, Any]:
    """What the simulator promises, as plain numbers that can be compared and cannot be changed from outside."""
    return {name: np.asarray(getattr(simulator, name)).tolist() for name in MEMBERS}


class _Worker:
    """One daemon thread that makes the calls, so that a call that hangs can be given up."""

    def __init__(self) -> None:
        self.requests: Requests = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(self.requests,), daemon=True).start()
        # the thread knows the queue only, so it ends with its owner
        weakref.finalize(self, self.requests.put, None)

    def submit(self, call: Callable[[], Any]) -> "Future[Any]":
        future: Future[Any] = Future()
        self.requests.put((call, future))
        return future


def _serve(requests: Requests) -> None:
    while (request := requests.get()) is not None:
        call, future = request
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)
        # waiting for the next call must not keep the simulator of the last one alive
        del request, call, future
