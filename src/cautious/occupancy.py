"""Policy to occupancy and back.

The occupancy d (S, A) of a policy pi is the discounted share of time spent in each pair:

    x = (1 - gamma) xi + gamma P_pi' x,     d(s, a) = x(s) pi(a | s),     sum d = 1.

A Krylov method gives x. The measured residual bounds the distance to the exact solution, because P_pi' does not
increase the 1-norm, and the system is solved again for the residual until that bound is small enough:

    ||x - x_true||_1 <= ||residual||_1 / (1 - gamma).
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious._core.certificate import add_inflow, flow_balance, pair_occupancy
from cautious.arrays import Array, Mask
from cautious.checks import as_policy, axes_of, first_bad, state_sums_of
from cautious.errors import InputError
from cautious.horizons.expected_visits import expected_visits
from cautious.horizons.finite import occupancy_over_time
from cautious.horizons.stationary import stationary_occupancy
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.chains import MAX_REFINEMENTS, MIN_RESIDUAL_RATIO, Chain, chain_of
from cautious.models.encodings import EPS, read_only_view
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP

MAX_ERROR = 0.5


class LaterOccupancy:
    """The same of a checked policy (S, A), solved for when it is first looked at, to ``accuracy``."""

    def __init__(self, mdp: MDP, policy: Array, accuracy: float) -> None:
        self._mdp, self._policy, self._accuracy = mdp, policy, accuracy

    @cached_property
    def _found(self) -> PolicyOccupancy:
        return policy_occupancy(self._mdp, self._policy, self._accuracy)

    @property
    def occupancy(self) -> Array:
        """See ``PolicyOccupancy``."""
        return self._found.occupancy

    @property
    def pairs(self) -> Array:
        """See ``PolicyOccupancy``."""
        return self._found.pairs

    @property
    def reached(self) -> Mask:
        """See ``PolicyOccupancy``."""
        return self._found.reached

    @property
    def error(self) -> float:
        """See ``PolicyOccupancy``."""
        return self._found.error


# what an answer holds: either way it has ``occupancy``, ``reached`` and ``error``
Visits = PolicyOccupancy | LaterOccupancy


def check_policy(mdp: MDP, policy: object) -> Array:
    """A policy (S, A): rows sum to one, nothing on forbidden pairs.

    With a finite horizon a table for every step, (T, S, A); a single one (S, A) is used at every step.
    """
    steps = axes_of(policy) == 3
    table = as_policy(policy, mdp.occupancy_shape if steps else mdp.shape)
    forbidden = (table > 0) & ~mdp.allowed
    if forbidden.any():
        where = first_bad(forbidden)
        raise InputError(_not_allowed(mdp, where, float(table[where])))
    return table


def _not_allowed(mdp: MDP, where: tuple[int, ...], chance: float) -> str:
    """A forbidden pair in words; by its numbers where the model has no names."""
    state, action = where[-2:]
    place = f"state {state}" if mdp.state_names is None else mdp.state_names[state]
    done = f"action {action}" if mdp.action_names is None else mdp.action_names[action]
    return f"the policy takes {done} in {place} with probability {chance:.6g}, which is not allowed there"


def policy_occupancy(mdp: MDP, policy: Array, accuracy: float = 0.0, guess: Array | None = None) -> PolicyOccupancy:
    """The occupancy of a checked policy (S, A) or (T, S, A), solved until its ``error`` is at most ``accuracy``.

    With accuracy 0 it is as exact as rounding permits. ``guess`` (S,) is an approximation of the state marginal to
    start from; it need not be good, because the residual is measured.
    """
    if isinstance(mdp.horizon, int):
        return occupancy_over_time(mdp, np.broadcast_to(policy, mdp.occupancy_shape))
    if mdp.horizon == AVERAGE:
        return stationary_occupancy(mdp, policy, accuracy, guess)
    if mdp.horizon == TOTAL:
        return expected_visits(mdp, policy, accuracy, guess)
    system = _FlowEquation(mdp, policy)
    # an error of one would accept the zero vector as an answer
    found = system.solved(min(accuracy, MAX_ERROR) * (1 - mdp.discount) / 2 - system.row_sum_error, guess)
    occupancy = np.empty(mdp.shape)
    pair_occupancy(system.policy, found.states, float(found.states.sum()), occupancy)
    # setting the sum to one at most doubles the distance
    error = 2 * (found.size + system.row_sum_error) / (1 - mdp.discount)
    return PolicyOccupancy(occupancy, system.reached, error)


@dataclass(frozen=True)
class _Measured:
    """``states`` (S,), the residual of their balance (S,) and its 1-norm."""

    states: Array
    residual: Array
    size: float


class _FlowEquation:
    """The equation x = (1 - gamma) xi + gamma P_pi' x of one policy."""

    def __init__(self, mdp: MDP, policy: Array) -> None:
        self.mdp, self.policy = mdp, read_only_view(policy).ravel()
        taken = policy > 0
        self.reached = mdp.visitable if np.array_equal(taken, mdp.allowed) else mdp.reachable(taken)
        # what the residual does not show: rows of the model, and those of a policy of A actions, which were divided by
        # their sums and add up to one within EPS (1 + A / 2)
        self.row_sum_error = mdp.row_sum_error + EPS * (1 + mdp.n_actions / 2)

    @cached_property
    def chain(self) -> Chain:
        """The chain of the policy; not needed if the guess is good enough."""
        return chain_of(self.mdp, self.policy.reshape(self.mdp.shape))

    def measured(self, states: Array) -> _Measured:
        """Made a non-negative measure on the reached states, then put into the equation."""
        states = np.where(self.reached, np.maximum(states, 0.0), 0.0)
        mdp, residual, inflow = self.mdp, np.empty(states.size), np.zeros((states.size, 2))
        for block in mdp.row_blocks():
            add_inflow(*block.rows, self.policy, states, inflow)
        size = flow_balance(inflow, states, mdp.start, mdp.discount, residual)
        return _Measured(states, residual, size)

    def solved(self, goal: float, guess: Array | None) -> _Measured:
        """States whose residual is at most ``goal`` in the 1-norm, or as small as it gets."""
        # the residual of the zero vector is the start distribution
        mdp, gamma = self.mdp, self.mdp.discount
        found = _Measured(np.zeros(mdp.n_states), (1 - gamma) * mdp.start, 1 - gamma)
        if guess is not None:
            near = self.measured(guess)
            found = near if near.size < found.size else found
        for _ in range(MAX_REFINEMENTS):
            if found.size <= goal:
                return found
            aim = max(0.8 * goal, MIN_RESIDUAL_RATIO * found.size)
            step, _ = self.chain.krylov(gamma, found.residual, aim, transposed=True)
            better = self.measured(found.states + step)
            slow = not better.size < 0.5 * found.size
            found = better if better.size < found.size else found
            if slow:
                break
        if found.size > max(goal, 64 * EPS):
            step = self.chain.direct(gamma, found.residual, transposed=True)
            better = self.measured(found.states + step)
            found = better if better.size < found.size else found
        return found


def occupancy_policy(occupancy: Array, default: Array, floor: float = 0.0) -> Array:
    """Rows of the occupancy, normalised; states with at most ``floor`` mass get their ``default`` row."""
    mass = state_sums_of(occupancy)[..., None]
    return np.asarray(np.where(mass > floor, occupancy / np.where(mass > 0, mass, 1.0), default))


def uniform_policy(allowed: Mask) -> Array:
    """Equal weight on every allowed action: the documented row of states that are never visited."""
    return np.asarray(allowed / state_sums_of(allowed.astype(np.int64))[..., None])


def flow_residual(mdp: MDP, occupancy: Array) -> Array:
    """How far a table (S, A) is from balancing: (1-gamma) start + gamma inflow - outflow; (S,)."""
    inflow = mdp.discount * mdp.flow_into(occupancy)
    return np.asarray((1 - mdp.discount) * mdp.start + inflow - state_sums_of(occupancy))


def policy_values(mdp: MDP, policy: Array, reward: Array, discount: float | None = None) -> Array:
    """Discounted values (S,) of a policy under a reward table (S, A); the model's discount by default."""
    gain = np.einsum("sa,sa->s", policy, reward)
    return chain_of(mdp, policy).values(mdp.discount if discount is None else discount, gain)[0]
