"""Counted, checked and seeded calls of a simulator, here or on an executor.

Call number k uses the generator of ``SeedSequence(seed, spawn_key=(k,))`` and asks for a fixed number of draws, so the
samples depend on the number of the call alone. One task of a worker is as many calls as take about half a second.
Neither the size of tasks, nor the number of workers, nor lost workers change the samples.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from cautious._core import sampling
from cautious.arrays import Array, Indices
from cautious.errors import InputError, SimulatorError
from cautious.models.simulator_checks import checked_sample, checked_states
from cautious.models.simulators import Simulator, TableSimulator, draws_per_seed
from cautious.runtime.executors import TaskTimeout, Workers, expect

# what a simulator promises once and for all
MEMBERS = ("n_states", "n_actions", "discount", "reward_range")
# draws of one call of a table, and at most of one for first states
BATCH = 4096
# a request for first states is about so many calls, or fewer
CALLS_FOR_FIRST_STATES = 256
PROBE_SAMPLES = 32
# of one draw on an executor, unless another limit is given
REMOTE_TIMEOUT_SECONDS = 600.0
# a task of a worker: about so much work, and not less than the second number for the sake of a short wait at the end
TASK_SECONDS, SHORTEST_SECONDS = 0.5, 0.005
# what the learner needs to hand out a task and take its answer, as measured with Dask
HANDOUT_SECONDS = 0.004
# the time that a draw takes is known from the tasks before; the first may have been a bad example
LARGEST_GROWTH = 8
MOST_DRAWS_PER_TASK = 65_536
# A call of n draws may take the limit of one, and so many times what n draws took so far: one of them may hang.
SPEED_RESERVE = 10.0

# next states and rewards; of first states the states only
Part = tuple[Any, ...]
Task = TypeVar("Task")


def generator(seed: int, call: int) -> np.random.Generator:
    """The random numbers of one call."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(call,)))


@dataclass(frozen=True)
class DrawSource:
    """What a worker needs of a run; ``timeout_seconds`` is that of one draw."""

    simulator: Simulator
    seed: int
    timeout_seconds: float
    promised: dict[str, Any]


@dataclass(frozen=True)
class Order:
    """Some calls in a row, ``count`` draws; without ``states`` and ``actions`` they are first states.

    ``per_call`` draws share a call and its generator. ``seconds_per_draw`` is what it took so far, NaN when that is not
    known.
    """

    call: int
    per_call: int
    count: int
    states: Indices | None
    actions: Indices | None
    seconds_per_draw: float


def draw(source: DrawSource, order: Order) -> tuple[Part, float]:
    """The checked draws of an order, and the seconds they took; wherever it runs."""
    began = time.monotonic()
    parts = []
    for call, first in enumerate(range(0, order.count, order.per_call), order.call):
        last = min(first + order.per_call, order.count)
        states, actions = (None if asked is None else asked[first:last] for asked in (order.states, order.actions))
        parts.append(one_call(source, call, last - first, states, actions, order.seconds_per_draw))
    check_promises(source, order.call + len(parts) - 1)
    whole = parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return whole, time.monotonic() - began


def check_promises(source: DrawSource, call: int) -> None:
    """Refuse a simulator that has changed its sizes, discount or range of rewards by this call."""
    for name, now in promised_by(source.simulator).items():
        if now != source.promised[name]:
            raise SimulatorError(
                f"simulator.{name} was {source.promised[name]} when the run began and is {now} now "
                f"(call {call}, seed {source.seed})"
            )


def one_call(
    source: DrawSource,
    call: int,
    count: int,
    states: Indices | None,
    actions: Indices | None,
    seconds_per_draw: float,
    rng: np.random.Generator | None = None,
) -> Part:
    """The checked draws of one call; what a simulator does wrongly is its fault, not that of the caller's data."""
    simulator, when = source.simulator, f" (call {call}, seed {source.seed})"
    rng = generator(source.seed, call) if rng is None else rng
    limit = count * source.timeout_seconds
    if seconds_per_draw > 0:
        limit = min(limit, source.timeout_seconds + SPEED_RESERVE * count * seconds_per_draw)

    def waiting() -> str:
        asked = f"{count} draws" if count > 1 else "1 draw"
        if states is None or actions is None:
            asked = "first states"
        elif count == 1:
            asked += f" of state {states[0]}, action {actions[0]}"
        return f"the simulator did not return within {limit:.2g} seconds when asked for {asked}{when}"

    expect(limit, waiting)
    try:
        if states is None or actions is None:
            found: Any = simulator.start_states(count, rng)
        else:
            # copies: a simulator that works in place must not reach the learner's own arrays
            found = simulator.sample(states.copy(), actions.copy(), rng)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise SimulatorError(f"the simulator raised {type(error).__name__}: {error}{when}") from error
    try:
        if states is None:
            return (checked_states(simulator, "start_states", found, count, when),)
        return checked_sample(simulator, found, count, when)
    except InputError as error:
        raise SimulatorError(str(error)) from None
    except ValueError as error:
        # NumPy's own, for nested lists that are not rectangular
        raise SimulatorError(f"what the simulator returned is not an array: {error}{when}") from None


def promised_by(simulator: Simulator) -> dict[str, Any]:
    """Sizes, discount and reward range of a simulator, copied so that nobody can change them later."""
    return {name: np.asarray(getattr(simulator, name)).tolist() for name in MEMBERS}


class Draws:
    """The sample budget of a run. ``used`` transitions were drawn in ``calls`` calls; both are all a resume needs.

    ``kept``: by the number of their first call the draws since the last ``forget``, so that what was interrupted can
    be done again without them; ``pending`` of them are transitions. ``after_part`` is called whenever some arrive.
    """

    def __init__(
        self,
        simulator: Simulator,
        samples: int,
        seed: int,
        *,
        timeout_seconds: float | None = None,
        executor: Executor | None = None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        if timeout_seconds is None:
            # what hangs in this process is seen by who waits for it
            timeout_seconds = np.inf if executor is None else REMOTE_TIMEOUT_SECONDS
        self.simulator, self.samples, self.seed = simulator, samples, seed
        self.stopping = stopping
        self.used, self.calls, self.pending = 0, 0, 0
        self.kept: dict[int, Part] = {}
        self.after_part: Callable[[], None] = lambda: None
        self.per_call = BATCH if self.table is not None else draws_per_seed(simulator, samples)
        self.source = DrawSource(simulator, seed, timeout_seconds, promised_by(simulator))
        self.workers = Workers(
            executor, timeout_seconds=self.per_call * timeout_seconds, stopping=lambda: self.stopping()
        )
        # of first states (True) and of transitions
        self._seconds_per_draw = {True: np.nan, False: np.nan}
        self._latest = {True: 1, False: 1}

    @property
    def left(self) -> int:
        """Transitions that may still be drawn."""
        return self.samples - self.used

    @property
    def table(self) -> TableSimulator | None:
        """The tables of a known model, for kernels that draw by themselves; None for anything else."""
        return self.simulator if isinstance(self.simulator, TableSimulator) else None

    def count(self, samples: int) -> None:
        """Transitions that were drawn apart from ``sample`` and ``stream``, or that a kernel is about to draw."""
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
        per_call = self._first_states_per_call(count)
        (states,) = self._all(count, None, None, per_call)
        self.calls += -(-count // per_call)
        return np.asarray(states)

    def sample(self, states: Indices, actions: Indices) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair.

        When a call fails, nothing of this is counted: a run is then as it was before.
        """
        if states.size == 0:
            return np.empty(0, dtype=np.int64), np.empty(0)
        self._check_budget(states.size)
        next_states, rewards = self._all(states.size, states, actions, self.per_call)
        self.used, self.calls = self.used + states.size, self.calls + -(-states.size // self.per_call)
        return next_states, rewards

    def stream(self, batches: Iterable[tuple[Indices, Indices]]) -> Iterator[tuple[Indices, Indices, Indices, Array]]:
        """States, actions, next states and rewards of all batches, in parts, each counted when it is handed over.

        The next ones are drawn meanwhile. Each batch but the last has a multiple of ``per_call`` draws; until the end
        nobody else may draw.
        """
        asked: dict[int, tuple[Indices, Indices]] = {}

        def orders() -> Iterator[Order]:
            call = self.calls
            for states, actions in batches:
                for order in self._orders(call, states.size, states, actions, self.per_call):
                    assert order.states is not None
                    assert order.actions is not None
                    asked[order.call] = order.states, order.actions
                    yield order
                call += -(-states.size // self.per_call)

        for _, (next_states, rewards) in self.answers(draw, self.source, orders()):
            states, actions = asked.pop(self.calls)
            self._check_budget(states.size)
            self.used, self.calls = self.used + states.size, self.calls + -(-states.size // self.per_call)
            yield states, actions, next_states, rewards

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
        self.forget()
        second = self.sample(states, actions)
        self.forget()
        for name, one, other in zip(("next_states", "rewards"), first, second, strict=True):
            if not np.array_equal(one, other):
                where = int(np.argmax(one != other))
                call = before + where // self.per_call
                raise SimulatorError(
                    f"simulator.sample (call {call}, seed {self.seed}) returned {name}[{where % self.per_call}] = "
                    f"{one[where]}, and {other[where]} when called again with the same generator; draw only from the "
                    "rng that is passed in"
                )

    def forget(self) -> None:
        """Drop the draws that were kept."""
        self.kept, self.pending = {}, 0

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """What was kept, in arrays; first states have no rewards."""
        parts = list(self.kept.values())
        header = {"calls": list(self.kept), "sizes": [part[0].size for part in parts], "pending": self.pending}
        rewards = [part[1] if len(part) == 2 else np.full(part[0].size, np.nan) for part in parts]
        nothing = np.empty(0)
        arrays = {
            "states": np.concatenate([nothing, *(part[0] for part in parts)]).astype(np.int64),
            "rewards": np.concatenate([nothing, *rewards]),
        }
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Keep the draws of a ``storage`` again."""
        ends = np.cumsum([0, *header["sizes"]])
        self.pending = int(header["pending"])
        for call, first, last in zip(header["calls"], ends, ends[1:], strict=False):
            states, rewards = arrays["states"][first:last].copy(), arrays["rewards"][first:last].copy()
            self.kept[int(call)] = (states,) if np.isnan(rewards).any() else (states, rewards)

    def _check_budget(self, count: int) -> None:
        if count > self.left:
            raise AssertionError(f"{count} draws asked for, {self.left} left")

    def _first_states_per_call(self, count: int) -> int:
        """How many first states one call draws: many are asked for at once, and they seldom take long."""
        return max(self.per_call, min(BATCH, count // CALLS_FOR_FIRST_STATES))

    def _all(self, count: int, states: Indices | None, actions: Indices | None, per_call: int) -> Part:
        """All draws of one request."""
        parts: list[Part] = []
        done = 0
        while done < count and (part := self.kept.get(self.calls + done // per_call)) is not None:
            parts.append(part)
            done += part[0].size
        states_left, actions_left = (None if asked is None else asked[done:] for asked in (states, actions))
        first = self.calls + done // per_call
        orders = self._orders(first, count - done, states_left, actions_left, per_call)
        for _, part in self.answers(draw, self.source, orders):
            if self.table is None:
                self.kept[self.calls + done // per_call] = part
                self.pending += 0 if states is None else part[0].size
            parts.append(part)
            done += part[0].size
            self.after_part()
        return parts[0] if len(parts) == 1 else tuple(np.concatenate(arrays) for arrays in zip(*parts, strict=True))

    def answers(
        self,
        function: Callable[[Any, Task], tuple[Part, float]],
        content: Any,
        tasks: Iterable[Task | None],
        ordered: bool = True,
    ) -> Iterator[tuple[int, Part]]:
        """As ``Workers.run``, of tasks that draw and say how long that took; tables are trusted and called directly."""
        if self.table is not None:
            for number, task in enumerate(tasks):
                assert task is not None
                yield number, function(content, task)[0]
            return
        try:
            for number, (part, seconds) in self.workers.run(function, content, tasks, ordered):
                self._learn_speed(len(part) == 1, seconds / part[0].size)
                yield number, part
        except TaskTimeout as error:
            raise SimulatorError(str(error)) from None

    def seconds_per_draw(self, first_states: bool = False) -> float:
        """What a draw took so far where it was made; NaN when that is not known."""
        return self._seconds_per_draw[first_states]

    def _learn_speed(self, first_states: bool, seconds_per_draw: float) -> None:
        """What the draws of one task took."""
        known = self._seconds_per_draw[first_states]
        mean = seconds_per_draw if np.isnan(known) else (known + seconds_per_draw) / 2
        self._seconds_per_draw[first_states] = mean

    def _orders(
        self, call: int, count: int, states: Indices | None, actions: Indices | None, per_call: int
    ) -> Iterator[Order]:
        """The tasks of one request, cut when they are wanted: by then more is known about the speed."""
        done = 0
        while done < count:
            calls = self.calls_per_task(states is None, count - done, per_call)
            part = slice(done, min(count, done + calls * per_call))
            yield Order(
                call + done // per_call,
                per_call,
                part.stop - done,
                None if states is None else states[part],
                None if actions is None else actions[part],
                self.seconds_per_draw(states is None),
            )
            done = part.stop

    def calls_per_task(self, first_states: bool, left: int, per_call: int) -> int:
        """About half a second of work, more for very many workers, which must not wait for the learner to hand it out.

        Less towards the end, so that all workers end at the same time.
        """
        known = self.seconds_per_draw(first_states)
        if self.table is not None:
            return 1
        if np.isnan(known):
            self._latest[first_states] = per_call
            return 1
        seconds = max(known * per_call, 1e-9)
        wanted = max(TASK_SECONDS, HANDOUT_SECONDS * self.workers.count) / seconds
        if self.workers.apart:
            wanted = min(wanted, max(SHORTEST_SECONDS / seconds, left / (2 * per_call * self.workers.count)))
        most = max(1, min(MOST_DRAWS_PER_TASK, LARGEST_GROWTH * self._latest[first_states]) // per_call)
        calls = int(np.clip(wanted, 1, most))
        self._latest[first_states] = calls * per_call
        return calls
