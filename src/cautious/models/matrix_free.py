"""``from_kernel``: models too large to write down, given by a function that says what follows from a block of states.

A matrix of all transitions has S A k entries, with k outcomes of each pair. Here none is ever made: loops over the
model go through its states piece by piece, ask the function for the outcomes of a piece, check them, and forget them.
What is kept are vectors (S,), tables (S, A) such as the mean rewards, and the chain of one policy (S, k), because its
linear systems are solved by many passes over it.
"""

import ctypes
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NoReturn

import numpy as np
import psutil
import scipy.sparse as sp

from cautious._core.certificate import add_inflow
from cautious._core.outcomes import store_outcomes
from cautious._core.planning import PIECE
from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_count, fitting_memory
from cautious.errors import IncompatibleError, InputError, MemoryLimitError, shown
from cautious.models.chains import chain_of
from cautious.models.encodings import EPS, check_returns, read_only_view
from cautious.models.horizons import Horizon
from cautious.models.simulator_checks import checked_pairs
from cautious.models.simulators import MOST_ACTIONS, MOST_STATES, Known, as_start
from cautious.models.tabular import MDP, RowBlock, as_discount
from cautious.runtime.threads import over_pieces, pieces, threads_for

Outcomes = Callable[[Indices, int], Any]

# tables (S, A) that a solve holds at least
LEAST_TABLES = 3
# by how much answers to the same question may differ: rounding, as where a sum is computed in another order
SAME_ANSWER = 1e-9
# successors, probabilities and rewards of the states, written row by row, n x k; returns n
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_FunctionPointer: Any = _PROTOTYPE.__mro__[1]


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
    if _is_compiled(outcomes):
        if n_outcomes is None:
            raise InputError("n_outcomes must say how many outcomes a compiled function writes for each state")
        function: Outcomes = _Compiled(outcomes, as_count("n_outcomes", n_outcomes))
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
        return MatrixFreeMDP(function, n_states, n_actions, discount, as_start(start, n_states))


def _is_compiled(outcomes: Any) -> bool:
    whole = isinstance(outcomes, int | np.integer) and not isinstance(outcomes, bool)
    return whole or isinstance(outcomes, _FunctionPointer)


class _Compiled:
    """A compiled function at an address, called as a Python function is."""

    def __init__(self, outcomes: Any, n_outcomes: int) -> None:
        # a function pointer made by ctypes lives as long as it is kept
        self.given, self.n_outcomes = outcomes, n_outcomes
        address = ctypes.cast(outcomes, ctypes.c_void_p).value if isinstance(outcomes, _FunctionPointer) else outcomes
        if not address or address < 0:
            raise InputError(f"outcomes is the address {address}; a compiled function has another one")
        self.call = _PROTOTYPE(int(address))

    def __call__(self, states: Indices, action: int) -> tuple[Indices, Array, Array]:
        shape = (states.size, self.n_outcomes)
        # what the function leaves out is then refused
        successors, probabilities, rewards = (
            np.full(shape, -1, np.int64),
            np.full(shape, np.nan),
            np.full(shape, np.nan),
        )
        arrays = (array.ctypes.data for array in (successors, probabilities, rewards))
        count = self.call(states.ctypes.data, states.size, action, *arrays)
        if count != states.size:
            raise InputError(f"it returned {count} for {states.size} states, which it returns when all is well")
        return successors, probabilities, rewards


class MatrixFreeMDP(MDP):
    """What ``from_kernel`` returns: rows are made when they are asked for, and checked each time."""

    written_down = False

    def __init__(self, outcomes: Outcomes, n_states: int, n_actions: int, discount: float, start: Array) -> None:
        self.outcomes, self.n_states, self.n_actions = outcomes, n_states, n_actions
        self.discount, self.start = discount, start
        self.state_names = self.action_names = self.scene = None
        self.normalised, self.known_transitions = False, True
        self.n_outcomes = self._first_answer()
        self.index_type = np.int32 if n_states < 2**31 else np.int64
        self.allowed: Mask = np.ones((n_states, n_actions), np.bool_)
        self.rewards: Array = np.empty((n_states, n_actions))
        self._look()
        check_returns(self.rewards, None, discount)
        for array in (self.allowed, self.rewards, self.start):
            array.setflags(write=False)

    def _first_answer(self) -> int:
        """How many outcomes there are, by the first answer."""
        successors = np.asarray(self._ask(np.zeros(1, np.int64), 0)[0])
        if successors.ndim != 2 or 0 in successors.shape:
            raise InputError(
                f"outcomes(states, 0) gave successors of shape {successors.shape} for 1 state; expected (n, k), k > 0"
            )
        return int(successors.shape[1])

    def _look(self) -> None:
        """Ask for everything once: rewards, their range, and what later answers are compared with."""
        shape = (pieces(self.n_states), self.n_actions)
        self._fingerprints = np.empty((*shape, 2))
        least, largest = np.empty(shape), np.empty(shape)

        def look(first: int, last: int) -> None:
            for piece, states, action, answer, mean, fingerprint in self._pieces(first, last):
                self.rewards[states[0] : states[0] + states.size, action] = mean
                self._fingerprints[piece, action] = fingerprint
                least[piece, action], largest[piece, action] = answer[2].min(), answer[2].max()

        over_pieces(self.n_states, threads_for(self.n_entries), look)
        self._range = float(least.min()), float(largest.max())

    def _ask(self, states: Indices, action: int) -> Any:
        """The three arrays of an answer, as they are given."""
        where = f"outcomes for {_words(states)}, action {action}"
        try:
            answer = self.outcomes(read_only_view(states), action)
        except Exception as error:
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        if not isinstance(answer, tuple | list) or len(answer) != 3:
            raise InputError(f"{where}: expected (successors, probabilities, rewards), found {shown(answer)}")
        return answer

    def _answer(self, states: Indices, action: int) -> tuple[Indices, Array, Array]:
        """An answer as three arrays (n, k) of the types that compiled loops take."""
        kinds, names = ("iu", "iuf", "iuf"), ("successors", "probabilities", "rewards")
        arrays = [np.asarray(part) for part in self._ask(states, action)]
        for array, kind, name in zip(arrays, kinds, names, strict=True):
            if array.shape != (states.size, self.n_outcomes):
                raise InputError(
                    f"outcomes for {_words(states)}, action {action}: {name} have the shape {array.shape}; expected "
                    f"(n, k) = {(states.size, self.n_outcomes)}"
                )
            if array.dtype.kind not in kind:
                wanted = "integers" if kind == "iu" else "numbers"
                raise InputError(f"outcomes: {name} must be {wanted}, found an array of {array.dtype}")
        return (
            np.ascontiguousarray(arrays[0], np.int64),
            np.ascontiguousarray(arrays[1], np.float64),
            np.ascontiguousarray(arrays[2], np.float64),
        )

    def _store(
        self, states: Indices, action: int, at: Indices, indices: Any, data: Array, mean: Array
    ) -> tuple[int, tuple[float, float], tuple[Indices, Array, Array]]:
        """Outcomes of states, as rows ``at`` of ``indices`` and ``data``; the first refused state or -1, and more."""
        answer = self._answer(states, action)
        bad, moves, pay = store_outcomes(*answer, self.n_states, at, indices, data, mean)
        return bad, (moves, pay), answer

    def _pieces(
        self, first: int, last: int, backwards: bool = False, into: tuple[Any, Array] | None = None
    ) -> Iterator[tuple[int, Indices, int, tuple[Indices, Array, Array], Array, tuple[float, float]]]:
        """All outcomes of pieces of the states, action by action, stored as rows; refused if they are no outcomes."""
        k, n_actions = self.n_outcomes, self.n_actions
        indices, data = self._room() if into is None else into
        mean = np.empty(PIECE)
        for piece in range(first, last)[:: -1 if backwards else 1]:
            states = np.arange(piece * PIECE, min((piece + 1) * PIECE, self.n_states))
            n, refused = states.size, []
            for action in range(n_actions):
                rows = indices[: n * n_actions * k], data[: n * n_actions * k]
                bad, fingerprint, answer = self._store(states, action, self._places[action, :n], *rows, mean[:n])
                if bad >= 0:
                    refused.append((bad, action, tuple(part[bad].copy() for part in answer)))
                elif not refused:
                    yield piece, states, action, answer, mean[:n], fingerprint
            if refused:
                bad, action, outcome = min(refused, key=lambda found: found[:2])
                _refuse(int(states[bad]), action, self.n_states, *outcome)

    def _room(self) -> tuple[Any, Array]:
        """Memory for the rows of one piece."""
        size = min(PIECE, self.n_states) * self.n_actions * self.n_outcomes
        return np.empty(size, self.index_type), np.empty(size)

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
        (indices, data), n_actions = self._room(), self.n_actions
        for piece, states, action, _, mean, fingerprint in self._pieces(first, end, backwards, (indices, data)):
            if not self._is_known(piece, action, fingerprint):
                self._report_change(states, action, mean)
            if action == n_actions - 1:
                n_rows = states.size * n_actions
                size = n_rows * self.n_outcomes
                rows = (int(states[0]), self._pointer[: n_rows + 1], indices[:size], data[:size])
                yield RowBlock((piece, piece + 1), rows)

    def _is_known(self, piece: int, action: int, fingerprint: tuple[float, float]) -> bool:
        moves, pay = self._fingerprints[piece, action]
        largest = max(-self._range[0], self._range[1])
        return bool(abs(fingerprint[0] - moves) <= SAME_ANSWER and abs(fingerprint[1] - pay) <= SAME_ANSWER * largest)

    def _report_change(self, states: Indices, action: int, mean: Array) -> NoReturn:
        known = self.rewards[states, action]
        off = np.abs(mean - known) > SAME_ANSWER * np.maximum(1.0, np.abs(known))
        which = f"{_words(states)}, action {action}: probabilities or successors have changed"
        if off.any():
            i = int(np.argmax(off))
            which = f"state {states[i]}, action {action}: the mean reward was {known[i]:.12g} and is {mean[i]:.12g}"
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

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward of an outcome, also of those with probability 0."""
        return self._range

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
        return float(np.mean([self._answer(states, a)[1].max(axis=1).mean() for a in range(self.n_actions)]))

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
                    bad, _, answer = self._store(states, int(action), states, successor, chance, mean[: states.size])
                    if bad >= 0:
                        _refuse(int(states[bad]), int(action), self.n_states, *(part[bad] for part in answer))
                    gain[states] = reward[states * self.n_actions + action]
                if held is not None:
                    held[begin:end] = own

        over_pieces(self.n_states, threads_for(self.most_entries), write)

    def expect_next(self, values: Array) -> Array:
        """As in ``MDP``."""
        out = np.empty(self.shape)
        for block in self.row_blocks():
            base, indptr, indices, data = block.rows
            rows = sp.csr_array((data, indices, indptr), shape=(indptr.size - 1, self.n_states))
            mean = np.asarray(rows @ values).reshape(-1, self.n_actions)
            out[base : base + len(mean)] = mean
        return out

    def flow_into(self, occupancy: Array) -> Array:
        """As in ``MDP``."""
        mass, inflow = read_only_view(np.ascontiguousarray(occupancy, np.float64)), np.zeros((self.n_states, 2))
        for block in self.row_blocks():
            add_inflow(*block.rows, mass.ravel(), np.ones(self.n_states), inflow)
        return np.asarray(inflow.sum(axis=1))

    def under(self, policy: Array) -> sp.csr_array:
        """As in ``MDP``."""
        return chain_of(self, policy).matrix

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
                    successors, probabilities, _ = self._answer(used, action)
                    if successors.min() < 0 or successors.max() >= self.n_states:
                        self._report_change(used, action, self.rewards[used, action])
                    next_states = successors[probabilities > 0]
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
            successors, probabilities, paid = self.model._answer(whole[own], int(action))
            sums = np.cumsum(probabilities, axis=1)
            # the first outcome whose running sum is above the draw: none of probability 0
            place = np.argmax(sums > (draws[own] * sums[:, -1])[:, None], axis=1)
            next_states[own], rewards[own] = successors[np.arange(own.size), place], paid[np.arange(own.size), place]
        return next_states, rewards


def _words(states: Indices) -> str:
    """States in a message."""
    if states.size == 1:
        return f"state {states[0]}"
    return f"the {states.size} states {states[0]} to {states[-1]}"


def _refuse(
    state: int, action: int, n_states: int, successors: Indices, probabilities: Array, rewards: Array
) -> NoReturn:
    """Say what is wrong with the outcomes (k,) of a pair."""
    pair = f"(state {state}, action {action})"
    outside = (successors < 0) | (successors >= n_states)
    if outside.any():
        successor = successors[np.argmax(outside)]
        raise InputError(f"outcomes {pair} has the successor {successor}; states are numbered 0 to {n_states - 1}")
    below = ~((probabilities >= 0) & (probabilities <= 1 + SAME_ANSWER))
    if below.any():
        raise InputError(f"outcomes {pair} has the probability {probabilities[np.argmax(below)]}; it must be in [0, 1]")
    if not np.isfinite(rewards).all():
        raise InputError(
            f"outcomes {pair} has the reward {rewards[np.argmax(~np.isfinite(rewards))]}; it must be finite"
        )
    raise InputError(
        f"outcomes {pair} has probabilities that sum to {probabilities.sum():.12g}; they must sum to 1 within 1e-09"
    )
