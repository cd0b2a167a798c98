"""``MDP``: a known model, as arrays in and three operators out."""

import os
import warnings
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious._core import chains
from cautious._core.certificate import largest_sum_error
from cautious._core.likely_moves import mean_largest_chance
from cautious._core.rows import reach, row_lengths
from cautious.arrays import Array, Indices, Mask
from cautious.checks import (
    as_allowed,
    as_distribution,
    as_flag,
    as_number,
    as_table,
)
from cautious.errors import CautiousWarning, IncompatibleError, InputError, shown
from cautious.models import files
from cautious.models.encodings import (
    RowBlock,
    are_probabilities,
    check_returns,
    check_rows,
    given_square,
    is_in_order,
    read_only_view,
    reward_moments,
    transition_rows,
    weighted_rows,
)
from cautious.models.ends import Ending, ended_states, find_ending
from cautious.models.horizons import AVERAGE, Horizon
from cautious.models.interface import Interface
from cautious.models.scene import Scene, model_names, state_indices
from cautious.models.simulators import Known, Simulator, TableSimulator
from cautious.runtime.threads import pieces

LARGEST_PLAIN_DISCOUNT = 1 - 1e-6


@dataclass(frozen=True)
class Memory:
    """What the states of a model with memory are (``models.memory``).

    ``base``: the model without; ``origin`` (S,): its states; ``bits`` (S,): bit k is set where the k-th of the ``sets``
    of states of ``base`` has been entered.
    """

    base: "MDP"
    origin: Indices
    bits: Indices
    sets: tuple[Indices, ...]


class MDP:
    """A Markov decision process with finitely many states and actions, discounted.

    Parameters
    ----------
    transitions
        (S, A, S) array, sparse (S*A, S) with row ``s*A + a``, or a sequence of A matrices (S, S). A float64 CSR matrix
        whose rows are sorted and sum to one, or a float64 array without zeros, is used without a copy and must not be
        changed.
    rewards
        (S, A), or per outcome: (S, A, S), sparse (S*A, S) where missing means zero, or A matrices (S, S).
    discount
        In [0, 1]. With discount 1 a ``ca.Problem`` needs a horizon.
    start
        (S,) distribution of the first state; uniform by default.
    allowed
        (S, A) mask of the actions that exist; all by default. What a forbidden pair would do or pay is ignored, and its
        transition row may be empty.
    reward_square
        (S, A) second moment of the reward, when rewards are (S, A) averages of something random.
    normalise
        Rescale rows that do not sum to one instead of refusing them; ``mdp.normalised`` records it.
    scene
        How to draw and describe the model (grid, units); worlds set it.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> stay_or_go = np.array([[[1.0, 0.0], [0.2, 0.8]], [[0.0, 1.0], [0.8, 0.2]]])
    >>> mdp = ca.MDP(stay_or_go, rewards=np.array([[0.0, 0.0], [1.0, 1.0]]), discount=0.9)
    >>> mdp.n_states, mdp.n_actions
    (2, 2)
    """

    # whether there is a matrix of transitions; loops over blocks of rows need none
    written_down = True
    # what a problem asks of the model: None (discounted, for ever), a number of steps, "average" or "total"
    horizon: Horizon = None
    memory: Memory | None = None
    # what agents of others see and say, where that is not the number of a state and of an action
    interface: Interface | None = None
    _last_ending: tuple[Mask, Ending] | None = None

    def __init__(
        self,
        transitions: Any,
        rewards: Any,
        discount: float = 0.95,
        start: Any = None,
        *,
        allowed: Any = None,
        reward_square: Any = None,
        state_names: Sequence[str] | None = None,
        action_names: Sequence[str] | None = None,
        normalise: bool = False,
        scene: Scene | None = None,
    ) -> None:
        self.discount = as_discount(discount)
        normalise = as_flag("normalise", normalise)
        rows, self.n_actions, tolerance = transition_rows(transitions)
        self.n_states = int(rows.shape[1])
        shape = (self.n_states, self.n_actions)
        self.allowed = as_allowed(allowed, shape)
        self.state_names = None if state_names is None else model_names("state_names", state_names, self.n_states)
        self.action_names = None if action_names is None else model_names("action_names", action_names, self.n_actions)
        self.transitions = check_rows(rows, self.allowed, tolerance, normalise, self._pair_words)
        self.normalised = normalise and bool(np.any(np.abs(rows.sum(axis=1)[self.allowed.ravel()] - 1) > tolerance))
        expected, self.outcome_rewards = reward_moments(rewards, self.transitions, self.n_states, self.n_actions)
        self.rewards: Array = np.where(self.allowed, expected, 0.0)
        check_returns(self.rewards, self.outcome_rewards, self.discount)
        if reward_square is not None:
            if self.outcome_rewards is not None:
                raise InputError("reward_square is computed from the outcome rewards; give one or the other")
            self.reward_square = given_square(reward_square, self.rewards, self.allowed)
        if start is None:
            self.start: Array = np.full(self.n_states, 1 / self.n_states)
        else:
            if np.isscalar(start):
                raise InputError(
                    f"start is {shown(start)}; it must hold the chance of each state to be the first (S,), such as "
                    "[1, 0, 0] to begin in the first of three"
                )
            self.start = as_distribution("start", start, (self.n_states,), "(S,)")
        self.scene = scene
        # a stand-in for a model that is only sampled says so: nothing may be computed from its transitions
        self.known_transitions = True
        self._as_given = self._looked_over()
        for array in (self.allowed, self.rewards, self.start, self.transitions.data):
            array.setflags(write=False)

    def restricted(self, states: Indices, allowed: Mask) -> "MDP":
        """This model on some of its states, which the ``allowed`` pairs (n, A) of these states never leave."""
        part = object.__new__(MDP)
        part.horizon = self.horizon
        part.discount, part.n_states, part.n_actions = self.discount, states.size, self.n_actions
        part.allowed, part.start, part.rewards = allowed, self.start[states], self.rewards[states]
        if self.horizon == AVERAGE:
            # it does not matter where these states are entered
            part.start = np.full(states.size, 1 / states.size)
        pairs = (states[:, None] * self.n_actions + np.arange(self.n_actions)).ravel()
        # rows of pairs that are not allowed become empty
        pointer = self.transitions.indptr
        lengths = np.diff(pointer)[pairs] * allowed.ravel()
        ends = np.concatenate([[0], np.cumsum(lengths)])
        entries = np.repeat(pointer[pairs] - ends[:-1], lengths) + np.arange(ends[-1])
        place = np.zeros(self.n_states, self.transitions.indices.dtype)
        place[states] = np.arange(states.size)
        indices = place[self.transitions.indices[entries]]
        shape = (pairs.size, states.size)
        part.transitions = sp.csr_array((self.transitions.data[entries], indices, ends.astype(indices.dtype)), shape)
        part.outcome_rewards = None if self.outcome_rewards is None else self.outcome_rewards[entries]
        part.reward_square = self.reward_square[states]
        part.state_names = None if self.state_names is None else tuple(self.state_names[state] for state in states)
        part.action_names, part.scene = self.action_names, None
        part.normalised, part.known_transitions = self.normalised, True
        part._as_given = part._looked_over()
        return part

    def with_horizon(self, horizon: Horizon) -> "MDP":
        """The same model, in the same memory, as a problem with this horizon sees it."""
        if horizon == self.horizon:
            return self
        seen = copy(self)
        seen.horizon = horizon
        return seen

    def with_start(self, start: Array) -> "MDP":
        """The same model, in the same memory, with another start distribution (S,)."""
        other = copy(self)
        other.start = start
        # what was found for the other start
        other.__dict__.pop("visitable", None)
        return other

    @property
    def normaliser(self) -> float:
        """What a return is multiplied by to give the mean of the reward under the occupancy.

        An occupancy sums to one, so that  <occupancy, reward> / normaliser  is the expected return; that of "total" is
        the expected number of visits.
        """
        if self.horizon is None:
            return 1 - self.discount
        if isinstance(self.horizon, str):
            return 1.0
        return float(1 / np.sum(self.discount ** np.arange(self.horizon)))

    @property
    def without_memory(self) -> "MDP":
        """The model as it was given, where a problem with ``ca.Reach`` made one with memory of it."""
        return self if self.memory is None else self.memory.base

    @property
    def occupancy_shape(self) -> tuple[int, ...]:
        """(S, A), or (T, S, A) with a finite horizon: of occupancies and policies."""
        return (self.horizon, *self.shape) if isinstance(self.horizon, int) else self.shape

    def _pair_words(self, row: int) -> str:
        """A pair as errors call it: by names where there are names."""
        state, action = divmod(row, self.n_actions)
        states, actions = self.state_names, self.action_names
        return (
            f"state {state if states is None else repr(states[state])}, "
            f"action {action if actions is None else repr(actions[action])}"
        )

    @cached_property
    def reward_square(self) -> Array:
        """Second moment (S, A) of the reward, over the outcomes if they are known, else of the average."""
        with np.errstate(over="ignore"):
            square = self.rewards**2
            if self.outcome_rewards is not None:
                over_outcomes = weighted_rows(self.transitions, self.outcome_rewards**2)
                square = np.maximum(over_outcomes.reshape(self.shape), square)
        square.setflags(write=False)
        return square

    @property
    def reward_spread(self) -> Array:
        """Variance (S, A) of the reward of each pair, over its outcomes."""
        if self.outcome_rewards is None:
            return np.maximum(self.reward_square - self.rewards**2, 0.0)
        mean = np.repeat(self.rewards.ravel(), np.diff(self.transitions.indptr))
        return weighted_rows(self.transitions, (self.outcome_rewards - mean) ** 2).reshape(self.shape)

    @property
    def shape(self) -> tuple[int, int]:
        """(S, A)."""
        return self.n_states, self.n_actions

    def require_transitions(self, what: str) -> None:
        """Refuse to compute from transitions that are a stand-in, or not written down."""
        self.require_matrix(what)
        self.require_known(what)

    def require_matrix(self, what: str) -> None:
        """Refuse what needs the transitions as a matrix where there is none (``ca.from_kernel``)."""

    def require_known(self, what: str) -> None:
        """Refuse to compute from a stand-in, or from changed arrays."""
        if not self.known_transitions:
            raise IncompatibleError(
                f"{what} needs the model's transitions, and this one is a stand-in for a simulator: only its sizes, "
                "names and discount are real"
            )
        self.require_unchanged()

    def require_unchanged(self) -> None:
        """Refuse arrays that were changed after the model was made."""
        if self._as_given != self._looked_over():
            raise InputError(
                "the transitions were changed after the model was made: it shares them with the matrix it was given; "
                "make a new model"
            )

    def _looked_over(self) -> tuple[bool, bool]:
        """What compiled loops rely on: indices within bounds, rows that sum to one."""
        in_order = is_in_order(self.transitions)
        # a broken index pointer would lead the second look out of the arrays
        return in_order, in_order and are_probabilities(self.transitions, self.allowed)

    def expect_next(self, values: Array) -> Array:
        """E[values(s') | s, a] for values (S,); (S, A), zero for forbidden pairs."""
        values = as_table("values", values, (self.n_states,), "(S,)")
        return np.asarray(self.transitions @ values).reshape(self.shape)

    def flow_into(self, occupancy: Array) -> Array:
        """The adjoint of ``expect_next``: where the mass (S, A) goes in one step; (S,)."""
        return np.asarray(self.transitions.T @ as_table("occupancy", occupancy, self.shape, "(S, A)").ravel())

    def under(self, policy: Array) -> sp.csr_array:
        """The Markov chain of a policy (S, A): sparse (S, S)."""
        chances, size = as_table("policy", policy, self.shape, "(S, A)").ravel(), self.n_states * self.n_actions
        pointer = np.arange(0, size + 1, self.n_actions)
        chooser = sp.csr_array((chances, np.arange(size), pointer), shape=(self.n_states, size))
        return sp.csr_array(chooser @ self.transitions)

    @cached_property
    def csr(self) -> tuple[Any, Any, Array]:
        """For compiled loops: indptr, indices and data, read-only, the first two of one type."""
        rows = self.transitions
        return (
            read_only_view(np.asarray(rows.indptr, rows.indices.dtype)),
            read_only_view(rows.indices),
            read_only_view(rows.data),
        )

    @property
    def block(self) -> tuple[int, Any, Any, Array]:
        """All rows, for compiled loops over blocks."""
        return 0, *self.csr

    def row_blocks(self, first: int = 0, last: int | None = None, *, backwards: bool = False) -> Iterator[RowBlock]:
        """The rows of all pairs in the pieces ``first`` to ``last`` of the states, block by block; all by default.

        A block is of use until the next one is asked for. A model that is written down is a single block, which may
        hold more than these pieces.
        """
        yield RowBlock((first, pieces(self.n_states) if last is None else last), self.block)

    @property
    def n_entries(self) -> int:
        """How many transitions have a probability."""
        return int(self.transitions.nnz)

    @property
    def n_bytes(self) -> int:
        """What the transitions take in memory."""
        rows = self.transitions
        return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)

    def entries_of(self, pairs: Mask) -> int:
        """How many transitions these pairs (S*A,) have together."""
        return int(np.diff(self.csr[0])[pairs].sum())

    def mean_largest_chance(self, sample: int) -> float:
        """The largest probability of a pair, on average over about so many pairs."""
        return mean_largest_chance(self.csr[0], self.csr[2], sample)

    def choose_rows(self, reward: Array, actions: Indices, chain: tuple[Any, Any, Array], gain: Array) -> None:
        """Write the chain of actions (S,) and what they are paid, by a reward (S*A,), into ``gain`` (S,)."""
        chains.choose_rows(*self.csr, reward, actions, *chain, gain)

    def change_rows(
        self, reward: Array, actions: Indices, held: Indices, chain: tuple[Any, Any, Array], gain: Array
    ) -> bool:
        """Bring the chain of the ``held`` actions (S,) to those of ``actions``; False if that needs a new one."""
        return chains.change_rows(*self.csr, reward, actions, held, *chain, gain)

    @cached_property
    def _lengths(self) -> tuple[int, int]:
        return row_lengths(self.csr[0], self.n_states)

    @cached_property
    def row_sum_error(self) -> float:
        """How far the probabilities of an allowed pair are from summing to one, at most; added up exactly."""
        return largest_sum_error(*self.csr, read_only_view(self.allowed).ravel())

    @property
    def widest_row(self) -> int:
        """The most successors a pair has."""
        return self._lengths[0]

    @property
    def most_entries(self) -> int:
        """The most stored transitions a deterministic policy can use."""
        return self._lengths[1]

    @cached_property
    def visitable(self) -> Mask:
        """States (S,) that some policy visits from the start."""
        return self.reachable(self.allowed)

    def reachable(self, allowed: Mask) -> Mask:
        """States (S,) that some policy visits from the start, using only these pairs (S, A)."""
        indptr, indices, _ = self.csr
        return reach(indptr, indices, read_only_view(allowed).ravel(), self.start > 0)

    @cached_property
    def ended(self) -> Mask:
        """States (S,) that are an end: they cannot be left, and nothing is paid there (``models.ends``)."""
        paying = (self.rewards != 0) | (self.outcome_expectation(np.abs) != 0)
        return ended_states(self.csr[:2], self.allowed, paying)

    def ending(self, permitted: Mask) -> Ending:
        """What one can do with these pairs (S, A) if the end is to be certain; the last answer is kept."""
        if self._last_ending is None or (
            permitted is not self._last_ending[0] and not np.array_equal(permitted, self._last_ending[0])
        ):
            self._last_ending = permitted, find_ending(self.csr[:2], permitted, self.ended, self.start > 0)
        return self._last_ending[1]

    def ending_pairs(self, permitted: Mask) -> Mask:
        """The pairs (S, A) with which the end is certain: those of ended states, and permitted ones elsewhere."""
        kept = self.ending(permitted).pairs | (self.allowed & self.ended[:, None])
        if np.array_equal(kept, permitted):
            return permitted
        # what is kept is an answer to the same question
        self._last_ending = kept, self.ending(permitted)
        return kept

    @property
    def reward_range(self) -> tuple[float, float]:
        """Smallest and largest reward that can be paid."""
        if self.outcome_rewards is not None and self.outcome_rewards.size:
            return float(self.outcome_rewards.min()), float(self.outcome_rewards.max())
        paid = self.rewards[self.allowed]
        return float(paid.min()), float(paid.max())

    @property
    def has_reward_spread(self) -> bool:
        """Whether rewards (S, A) hide a spread over outcomes that only ``reward_square`` shows."""
        if self.outcome_rewards is not None or not np.isfinite(self.reward_square).all():
            return False
        excess = self.reward_square - self.rewards**2
        return bool(np.any(excess > 1e-9 * np.maximum(1e-300, self.reward_square)))

    def require_outcome_rewards(self, what: str) -> None:
        """Refuse to compute the distribution of rewards where only their averages are known."""
        if self.has_reward_spread:
            raise IncompatibleError(
                f"{what} needs the rewards of the outcomes: this model has rewards (S, A) whose reward_square shows a "
                "spread; give rewards (S, A, S) or sparse (S*A, S). In a log, rows of the same state, action and next "
                "state must pay the same"
            )

    def outcome_expectation(self, function: Any) -> Array:
        """E[function(reward)] over the outcomes of each pair; (S, A). ``function`` works on arrays."""
        if self.outcome_rewards is None:
            return np.where(self.allowed, function(self.rewards), 0.0)
        return weighted_rows(self.transitions, function(self.outcome_rewards)).reshape(self.shape)

    def state_label(self, state: int) -> str:
        """What to call a state in messages."""
        return f"state {state}" if self.state_names is None else f"state {state} ({self.state_names[state]!r})"

    def state_indices(self, name: str, states: Any) -> Indices:
        """Indices, a mask (S,) or state names to sorted indices; duplicates are dropped.

        In a model with memory they are those of the model without, and mean its states whatever was before.
        """
        if self.memory is not None:
            return np.flatnonzero(np.isin(self.memory.origin, self.memory.base.state_indices(name, states)))
        return state_indices(name, states, self.n_states, self.state_names)

    def simulator(self) -> Simulator:
        """This model as a simulator: the same calls a black-box simulator offers."""
        self.require_unchanged()
        return TableSimulator(
            self.transitions,
            self.rewards,
            self.outcome_rewards,
            self.discount,
            self.reward_range,
            Known(self.allowed, self.start, self.state_names, self.action_names, self.scene, self.interface),
            self.has_reward_spread,
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to a file that ``ca.read_model`` reads; the suffix says the format, ``.npz`` is ours."""
        self.require_matrix("a model file")
        files.save(path, self)

    def __repr__(self) -> str:
        density = f"{self.transitions.nnz} transitions"
        return f"MDP({self.n_states} states, {self.n_actions} actions, {density}, discount {self.discount:g})"


def as_discount(discount: Any, largest: bool = True) -> float:
    """A discount in [0, 1], or below 1 if that is not the ``largest``; with a warning where rounding grows."""
    number = as_number("discount", discount, 0, 1, open_ends="" if largest else ")")
    if LARGEST_PLAIN_DISCOUNT < number < 1:
        warnings.warn(
            f"discount {number} is within 1e-6 of one: rounding grows by {1 / (1 - number):.1e}",
            CautiousWarning,
            stacklevel=3,
        )
    return number
