"""``from_kernel``: models too large to write down, given by a function that says what follows from a block of states.

A matrix of all transitions has S A k entries, with k outcomes of each pair. Here none is ever made: loops over the
model go through its states piece by piece, ask the function for the outcomes of a piece, check them, and forget them.
What is kept are vectors (S,), tables (S, A) such as the mean rewards, and the chain of one policy (S, k), because its
linear systems are solved by many passes over it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import psutil
import scipy.sparse as sp

from cautious._core.certificate import add_inflow
from cautious._core.planning import PIECE
from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_count, as_table, fitting_memory
from cautious.errors import IncompatibleError, InputError, MemoryLimitError, shown
from cautious.models.chains import chain_of
from cautious.models.encodings import EPS, RowBlock, check_returns, read_only_view
from cautious.models.horizons import Horizon
from cautious.models.outcome_function import (
    MAX_RELATIVE_ROUNDING,
    CompiledFunction,
    OutcomeError,
    OutcomeFunction,
    Outcomes,
    is_compiled,
    states_in_words,
)
from cautious.models.simulator_checks import checked_pairs
from cautious.models.simulators import MOST_ACTIONS, MOST_STATES, Known, as_start
from cautious.models.tabular import MDP, as_discount
from cautious.runtime.threads import over_pieces, pieces, threads_for

# tables (S, A) that a solve holds at least
LEAST_TABLES = 3


def from_kernel(
    n_states: int,
    n_actions: int,
    outcomes: Any,
    discount: float = 0.95,
    start: Any = None,
    *,
    n_outcomes: int | None = None,
) -> "MatrixFreeMDP":
    """A model that is never written down: ``outcomes`` says, block by block, what follows from states.

    Parameters
    ----------
    n_states, n_actions
        Sizes. Every action exists in every state.
    outcomes
        A function of an array of n states and one action that returns successors, probabilities and rewards, each an
        array (n, k) with the same k for all calls; what is left of a row has probability 0. It is called from several
        threads and must give the same answer to the same question. Or the address of a compiled function, as an integer
        or a ctypes function pointer::

            int64_t outcomes(const int64_t *states, int64_t n, int64_t action,
                             int64_t *successors, double *probabilities, double *rewards);

        It fills the three arrays row by row and returns n; anything else is reported as an error.
    discount
        In [0, 1).
    start
        A distribution (S,), or one state; uniform by default.
    n_outcomes
        The number k of outcomes of a pair; only for a compiled function.

    Notes
    -----
    Risk-neutral problems, ``ca.SafeSet``, ``ca.TaskFloors``, ``ca.PeakExposure``, ``ca.WorstTask`` and limits on
    ``ca.Exposure`` and ``ca.Return`` (S, A) are solved, with the certificates of other models. What needs the
    transitions as a matrix says so. All outcomes are checked here, and again whenever they are asked for.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> def ring(states, action):
    ...     there = (states + (1 if action else -1)) % 1000
    ...     successors = np.stack([there, states], axis=1)
    ...     probabilities = np.broadcast_to([0.9, 0.1], successors.shape)
    ...     return successors, probabilities, (successors == 0) * 1.0
    >>> model = ca.from_kernel(1000, 2, ring, discount=0.9)
    >>> solution = ca.solve(ca.Problem(model))
    >>> solution.status.name, bool(solution.gap < 1e-5)
    ('SOLVED', True)
    """
    n_states = as_count("n_states", n_states, high=MOST_STATES)
    n_actions = as_count("n_actions", n_actions, high=MOST_ACTIONS)
    discount = as_discount(discount, largest=False)
    if 8 * LEAST_TABLES * n_states * n_actions > psutil.virtual_memory().total:
        raise MemoryLimitError(
            f"{LEAST_TABLES} tables of {n_states} states and {n_actions} actions do not fit into the memory of this "
            "machine"
        )
    if is_compiled(outcomes):
        if n_outcomes is None:
            raise InputError("n_outcomes must say how many outcomes a compiled function writes for each state")
        function: Outcomes = CompiledFunction(outcomes, as_count("n_outcomes", n_outcomes))
    elif callable(outcomes):
        if n_outcomes is not None:
            raise InputError("n_outcomes is for compiled functions; the arrays of a Python function have a shape")
        function = outcomes
    else:
        raise InputError(
            "outcomes must be a function of (states, action), the address of a compiled function, or a ctypes function "
            f"pointer; found {shown(outcomes)}"
        )
    with fitting_memory(f"a model of {n_states} states and {n_actions} actions"):
        model = MatrixFreeMDP(function, n_states, n_actions, discount, as_start(start, n_states))
    if isinstance(function, CompiledFunction):
        # what it does not write from now on would show as another answer
        function.blank = False
    return model


@dataclass(frozen=True)
class _Piece:
    """All outcomes of the states from ``begin`` to ``end``, as sparse ``rows``.

    ``means`` (A, n) are the mean rewards; ``sums`` (A, 2) are checksums: equal answers have
    equal ones, up to rounding.
    """

    number: int
    begin: int
    end: int
    rows: tuple[Any, Any, Array]
    means: Array
    sums: Array


class MatrixFreeMDP(MDP):
    """What ``from_kernel`` returns: rows are made when they are asked for, and checked each time."""

    written_down = False

    def __init__(self, outcomes: Outcomes, n_states: int, n_actions: int, discount: float, start: Array) -> None:
        self.outcomes, self.n_states, self.n_actions = OutcomeFunction(outcomes, n_states), n_states, n_actions
        self.discount, self.start = discount, start
        self.state_names = self.action_names = self.scene = None
        self.normalised, self.known_transitions = False, True
        self.n_outcomes = self.outcomes.n_outcomes
        self.index_type = np.int32 if n_states < 2**31 else np.int64
        self.allowed: Mask = np.ones((n_states, n_actions), np.bool_)
        self.rewards: Array = np.empty((n_states, n_actions))
        self._look()
        check_returns(self.rewards, None, discount)
        for array in (self.allowed, self.rewards, self.start):
            array.setflags(write=False)

    def _look(self) -> None:
        """Ask for everything once: the mean rewards, and what later answers are compared with."""
        self._sums = np.empty((pieces(self.n_states), self.n_actions, 2))

        def look(first: int, last: int) -> None:
            for piece in self._pieces(first, last):
                self.rewards[piece.begin : piece.end] = piece.means.T
                self._sums[piece.number] = piece.sums

        over_pieces(self.n_states, threads_for(self.n_entries), look)
        self._largest = max(float(self.rewards.max()), -float(self.rewards.min()))

    def _pieces(self, first: int, last: int, backwards: bool = False) -> Iterator["_Piece"]:
        """Outcomes of pieces of the states, one after the other in the same memory."""
        most, k, n_actions = min(PIECE, self.n_states), self.n_outcomes, self.n_actions
        indices, data = np.empty(most * n_actions * k, self.index_type), np.empty(most * n_actions * k)
        means, sums = np.empty((n_actions, most)), np.empty((n_actions, 2))
        for number in range(first, last)[:: -1 if backwards else 1]:
            begin, end = number * PIECE, min((number + 1) * PIECE, self.n_states)
            n, states, refused = end - begin, np.arange(begin, end), []
            size = n * n_actions * k
            for action in range(n_actions):
                rows = self._places[action, :n], indices[:size], data[:size]
                try:
                    sums[action] = self.outcomes.store(states, action, *rows, means[action, :n])
                except OutcomeError as error:
                    refused.append(error)
            if refused:
                raise min(refused, key=lambda error: error.pair)
            pointer = self._pointer[: n * n_actions + 1]
            yield _Piece(number, begin, end, (pointer, indices[:size], data[:size]), means[:, :n], sums)

    @cached_property
    def _places(self) -> Indices:
        """The rows (A, n) of the pairs of a piece."""
        n = min(PIECE, self.n_states)
        return np.ascontiguousarray(np.arange(n * self.n_actions).reshape(n, self.n_actions).T)

    @cached_property
    def _pointer(self) -> Any:
        """Where the rows of a piece begin."""
        n_rows = min(PIECE, self.n_states) * self.n_actions
        return read_only_view(np.arange(0, n_rows * self.n_outcomes + 1, self.n_outcomes, dtype=self.index_type))

    def row_blocks(self, first: int = 0, last: int | None = None, *, backwards: bool = False) -> Iterator[RowBlock]:
        """As ``MDP.row_blocks``: a block is one piece."""
        end = pieces(self.n_states) if last is None else last
        size = np.array([1.0, self._largest])
        for piece in self._pieces(first, end, backwards):
            changed = np.abs(piece.sums - self._sums[piece.number]) > MAX_RELATIVE_ROUNDING * size
            if changed.any():
                self._report_change(piece, int(np.argmax(changed.any(axis=1))))
            yield RowBlock((piece.number, piece.number + 1), (piece.begin, *piece.rows))

    def _report_change(self, piece: "_Piece", action: int) -> NoReturn:
        known, now = self.rewards[piece.begin : piece.end, action], piece.means[action]
        off = np.abs(now - known) > MAX_RELATIVE_ROUNDING * np.maximum(1.0, np.abs(known))
        states = np.arange(piece.begin, piece.end)
        which = f"{states_in_words(states)}, action {action}: probabilities or successors have changed"
        if off.any():
            i = int(np.argmax(off))
            which = f"state {states[i]}, action {action}: the mean reward was {known[i]:.12g} and is {now[i]:.12g}"
        raise InputError(f"outcomes gave another answer to the same question, for {which}")

    def __getattr__(self, name: str) -> Any:
        # attributes of a model that is written down
        if name in ("transitions", "outcome_rewards"):
            self.require_matrix("what was asked for")
        raise AttributeError(name)

    def require_matrix(self, what: str) -> None:
        """There is no such matrix."""
        raise IncompatibleError(
            f"{what} needs the transitions written down, as in a ca.MDP; a model of ca.from_kernel gives them block by "
            "block only"
        )

    def require_unchanged(self) -> None:
        """Nothing that could be changed is shared with the caller; answers are compared whenever they are given."""

    def restricted(self, states: Indices, allowed: Mask) -> MDP:
        """See ``require_matrix``."""
        self.require_matrix("a part of a model")
        raise AssertionError

    def with_horizon(self, horizon: Horizon) -> MDP:
        """Only problems that are discounted for ever."""
        if horizon is not None:
            self.require_matrix(f"horizon={horizon!r}")
        return self

    @property
    def reward_square(self) -> Array:  # type: ignore[override]
        """See ``require_matrix``."""
        self.require_matrix("a second moment of the rewards")
        raise AssertionError

    @cached_property
    def reward_range(self) -> tuple[float, float]:  # type: ignore[override]
        """Smallest and largest reward of an outcome, also of those with probability 0."""
        ends = []
        for begin in range(0, self.n_states, PIECE):
            states = np.arange(begin, min(begin + PIECE, self.n_states))
            paid = [self.outcomes.answer(states, action)[2] for action in range(self.n_actions)]
            ends.append((min(map(np.min, paid)), max(map(np.max, paid))))
        return float(min(low for low, _ in ends)), float(max(high for _, high in ends))

    @property
    def row_sum_error(self) -> float:  # type: ignore[override]
        """As in ``MDP``, bounded: a row was divided by its sum, unless that was one to as much rounding."""
        return 2 * EPS * (self.n_outcomes + 1)

    @property
    def widest_row(self) -> int:
        """The outcomes of a pair."""
        return self.n_outcomes

    @property
    def most_entries(self) -> int:
        """Those of a chain."""
        return self.n_states * self.n_outcomes

    @property
    def n_entries(self) -> int:
        """As many as a matrix would have."""
        return self.n_states * self.n_actions * self.n_outcomes

    @property
    def n_bytes(self) -> int:
        """Of what is kept: rewards, and the chain of one policy."""
        return int(self.rewards.nbytes) + 12 * self.most_entries

    def entries_of(self, pairs: Mask) -> int:
        """How many transitions these pairs (S*A,) have together."""
        return self.n_outcomes * int(np.count_nonzero(pairs))

    def mean_largest_chance(self, sample: int) -> float:
        """As in ``MDP``."""
        states = np.unique(np.linspace(0, self.n_states - 1, max(sample // self.n_actions, 1), dtype=np.int64))
        return float(np.mean([self.outcomes.answer(states, a)[1].max(axis=1).mean() for a in range(self.n_actions)]))

    def choose_rows(self, reward: Array, actions: Indices, chain: tuple[Any, Any, Array], gain: Array) -> None:
        """As in ``MDP``; one row is as long as the other."""
        pointer, _, _ = chain
        pointer[:] = np.arange(0, self.most_entries + 1, self.n_outcomes, dtype=pointer.dtype)
        self._write_chain(reward, actions, None, chain, gain)

    def change_rows(
        self, reward: Array, actions: Indices, held: Indices, chain: tuple[Any, Any, Array], gain: Array
    ) -> bool:
        """As in ``MDP``; every row fits."""
        self._write_chain(reward, actions, held, chain, gain)
        return True

    def _write_chain(
        self, reward: Array, actions: Indices, held: Indices | None, chain: tuple[Any, Any, Array], gain: Array
    ) -> None:
        """Rows of the states whose actions are not the held ones."""
        _, successor, chance = chain

        def write(first: int, last: int) -> None:
            mean = np.empty(PIECE)
            for piece in range(first, last):
                begin, end = piece * PIECE, min((piece + 1) * PIECE, self.n_states)
                own = actions[begin:end]
                changed = np.arange(end - begin) if held is None else np.flatnonzero(own != held[begin:end])
                for action in np.flatnonzero(np.bincount(own[changed], minlength=1)):
                    states = begin + changed[own[changed] == action]
                    self.outcomes.store(states, int(action), states, successor, chance, mean[: states.size])
                    gain[states] = reward[states * self.n_actions + action]
                if held is not None:
                    held[begin:end] = own

        over_pieces(self.n_states, threads_for(self.most_entries), write)

    def expect_next(self, values: Array) -> Array:
        """As in ``MDP``."""
        out, values = np.empty(self.shape), as_table("values", values, (self.n_states,), "(S,)")
        for block in self.row_blocks():
            base, indptr, indices, data = block.rows
            rows = sp.csr_array((data, indices, indptr), shape=(indptr.size - 1, self.n_states))
            mean = np.asarray(rows @ values).reshape(-1, self.n_actions)
            out[base : base + len(mean)] = mean
        return out

    def flow_into(self, occupancy: Array) -> Array:
        """As in ``MDP``."""
        mass = read_only_view(np.ascontiguousarray(as_table("occupancy", occupancy, self.shape, "(S, A)")))
        inflow = np.zeros((self.n_states, 2))
        for block in self.row_blocks():
            add_inflow(*block.rows, mass.ravel(), np.ones(self.n_states), inflow)
        return np.asarray(inflow.sum(axis=1))

    def under(self, policy: Array) -> sp.csr_array:
        """As in ``MDP``."""
        return chain_of(self, np.ascontiguousarray(as_table("policy", policy, self.shape, "(S, A)"))).matrix

    def reachable(self, allowed: Mask) -> Mask:
        """As in ``MDP``; every state is asked for once."""
        seen = self.start > 0
        new = np.flatnonzero(seen)
        while 0 < new.size < self.n_states:
            found = []
            for begin in range(0, new.size, PIECE):
                states = new[begin : begin + PIECE]
                for action in range(self.n_actions):
                    used = states[allowed[states, action]]
                    if used.size == 0:
                        continue
                    next_states = self.outcomes.successors(used, action)
                    found.append(np.unique(next_states[~seen[next_states]]))
            new = np.unique(np.concatenate(found)) if found else new[:0]
            seen[new] = True
        return seen

    def simulator(self) -> "MatrixFreeSimulator":
        """This model as a simulator: the same calls a black-box simulator offers."""
        return MatrixFreeSimulator(self)

    def __repr__(self) -> str:
        outcomes = f"{self.n_outcomes} outcomes of a pair"
        return f"MDP({self.n_states} states, {self.n_actions} actions, {outcomes}, discount {self.discount:g})"


class MatrixFreeSimulator:
    """Draws from the outcomes of a function; ``model.simulator()`` makes one."""

    def __init__(self, model: MatrixFreeMDP) -> None:
        self.n_states, self.n_actions, self.discount = model.n_states, model.n_actions, model.discount
        self.reward_range, self.model = model.reward_range, model
        self.known = Known(model.allowed, model.start)
        self.running_start: Array = np.cumsum(model.start)

    def start_states(self, n: int, rng: np.random.Generator) -> Indices:
        """``n`` first states."""
        draws = np.searchsorted(self.running_start, rng.random(n) * self.running_start[-1], side="right")
        return np.asarray(draws, dtype=np.int64)

    def sample(self, states: Indices, actions: Indices, rng: np.random.Generator) -> tuple[Indices, Array]:
        """Next states and rewards, one of each per given pair."""
        whole, chosen = checked_pairs(self.model.allowed, states, actions)
        draws, next_states, rewards = rng.random(whole.size), np.empty(whole.size, np.int64), np.empty(whole.size)
        for action in np.unique(chosen):
            own = np.flatnonzero(chosen == action)
            successors, probabilities, paid = self.model.outcomes.answer(whole[own], int(action))
            sums = np.cumsum(probabilities, axis=1)
            # the first outcome whose running sum is above the draw: none of probability 0
            place = np.argmax(sums > (draws[own] * sums[:, -1])[:, None], axis=1)
            next_states[own], rewards[own] = successors[np.arange(own.size), place], paid[np.arange(own.size), place]
        return next_states, rewards
