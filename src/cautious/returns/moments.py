"""Exact mean and variance of the return of a policy in a known model.

The return of an episode is G = sum_t gamma^t r_t. Its exact mean is <xi, v> with v the policy's values. Its exact
variance sums squared surprises: with  delta = r + gamma v(s') - v(s),

    Var G = Var_xi[ v(s_0) ] + <xi, w>,     w(s) = E[ delta^2 + gamma^2 w(s') | s ],

which equals <xi, M> - <xi, v>^2 for the second moment M of the return, without subtracting two large numbers. So w is
the value of the same policy in a model discounted by gamma^2 that pays delta^2. With a finite horizon v and w are
computed step by step from the end; until an end they are zero in the states that end an episode, and gamma is 1. A
variance that rounding alone can make is 0: that of the same return every time.
"""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from cautious.arrays import Array
from cautious.errors import InputError
from cautious.models.encodings import EPS, row_of_entries, weighted_rows
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy, policy_values

# values solve their equation within this much of their size, see ``models/chains.py``
RELATIVE_ROUNDING = 64 * EPS
# by how much a solution is raised, so that rounding does not hide that it is a bound
SPARE_SHARE = 1e-9


def return_moments(mdp: MDP, policy: Array) -> tuple[float, float | None]:
    """Exact mean and variance of the return of a checked policy, the random start included.

    As the horizon of the model says. With "average" the mean is that of a step in the long run, and there is no
    variance.
    """
    if mdp.horizon == AVERAGE:
        found = policy_occupancy(mdp, policy)
        return float(np.sum(found.occupancy * mdp.rewards)), None
    return return_variance(mdp, policy)


def return_variance(mdp: MDP, policy: Array) -> tuple[float, float]:
    """Exact mean and variance of the return where there is one: discounted, over some steps, or until the end."""
    if isinstance(mdp.horizon, int):
        return _over_steps(mdp, np.broadcast_to(policy, mdp.occupancy_shape), 1 / mdp.normaliser)
    if mdp.horizon == TOTAL:
        found = policy_occupancy(mdp, policy)
        if not np.isfinite(found.error):
            raise InputError(
                'with horizon="total" an episode must end: this policy may go on for ever, so that its total reward '
                "need not be finite"
            )
        # what happens in states that end an episode is worth nothing
        going_on = np.where(found.reached & ~mdp.ended, 1.0, 0.0)
        return _for_ever(mdp, policy * going_on[:, None], 1.0, float(found.occupancy.sum()) + 1)
    return _for_ever(mdp, policy, mdp.discount, 1 / (1 - mdp.discount))


def moments_by_state(mdp: MDP, policy: Array) -> tuple[Array, Array]:
    """Mean and variance (S,) of the return from each state, discounted for ever, or until the end."""
    if mdp.horizon == TOTAL:
        policy = policy * ~mdp.ended[:, None]
    gamma = 1.0 if mdp.horizon == TOTAL else mdp.discount
    values, squares, _ = _by_state(mdp, policy, gamma)
    return values, policy_values(mdp, policy, squares, gamma**2)


def log_exponentials(mdp: MDP, policy: Array, rate: float) -> Array:
    """Upper bounds (S,) of log E exp(-rate R) until an end, from each state; infinite where none is found.

    Any M >= E[exp(-rate r) M'] that is 1 in ended states is one. It is found by a linear solve, and raised a little.
    """
    rows, going_on = mdp.transitions, ~mdp.ended
    pairs = row_of_entries(rows)
    paid = mdp.rewards.ravel()[pairs] if mdp.outcome_rewards is None else mdp.outcome_rewards
    with np.errstate(all="ignore"):
        weights = rows.data * np.exp(-rate * paid) * policy.ravel()[pairs]
        table = sp.csr_array((weights, (pairs // mdp.n_actions, rows.indices)), shape=(mdp.n_states, mdp.n_states))
        onward = sp.csr_array(table[going_on][:, going_on])
        ends = np.asarray(table[going_on][:, ~going_on].sum(axis=1)).ravel()
        found = np.full(mdp.n_states, np.inf)
        found[~going_on] = 1.0
        if not np.isfinite(onward.data).all() or not np.isfinite(ends).all() or not going_on.any():
            return np.asarray(np.log(found))
        system = sp.csc_array(sp.eye_array(ends.size) - onward)
        solved = np.atleast_1d(spsolve(system, ends))
        solved = np.atleast_1d(spsolve(system, ends + SPARE_SHARE * np.abs(solved)))
        proved = np.isfinite(solved).all() and (solved > 0).all() and (solved >= onward @ solved + ends).all()
        found[going_on] = solved if proved else np.inf
        return np.asarray(np.log(found))


def _by_state(mdp: MDP, policy: Array, gamma: float) -> tuple[Array, Array, float]:
    """Values (S,), and what ``_squared_surprises`` says of them; rows of the policy that are zero end an episode."""
    values = policy_values(mdp, policy, mdp.rewards, gamma)
    return values, *_squared_surprises(mdp, values, values, gamma)


def _for_ever(mdp: MDP, policy: Array, gamma: float, steps: float) -> tuple[float, float]:
    """Rows of the policy that are zero end an episode; ``steps`` are what it takes, discounted."""
    values, squares, largest = _by_state(mdp, policy, gamma)
    surprises = float(mdp.start @ policy_values(mdp, policy, squares, gamma**2))
    return _summed(mdp, values, surprises, largest, steps, 1 / (1 - gamma**2) if gamma < 1 else steps)


def _over_steps(mdp: MDP, policy: Array, steps: float) -> tuple[float, float]:
    """The policy is (T, S, A); ``steps`` is the sum of the weights of the steps."""
    gamma, values, spread, largest = mdp.discount, np.zeros(mdp.n_states), np.zeros(mdp.n_states), 0.0
    for table in policy[::-1]:
        before = np.einsum("sa,sa->s", table, mdp.rewards + gamma * mdp.expect_next(values))
        squares, size = _squared_surprises(mdp, before, values, gamma)
        spread = np.einsum("sa,sa->s", table, squares + gamma**2 * mdp.expect_next(spread))
        values, largest = before, max(largest, size)
    squared_weights = float(np.sum((gamma**2) ** np.arange(len(policy))))
    return _summed(mdp, values, float(mdp.start @ spread), largest, steps, squared_weights)


def _squared_surprises(mdp: MDP, before: Array, after: Array, gamma: float) -> tuple[Array, float]:
    """E[delta^2] of each pair (S, A), and the largest number that enters.

    Values (S,) are ``before`` a step and ``after`` it.
    """
    rows = mdp.transitions
    pairs = row_of_entries(rows)
    paid = mdp.rewards.ravel()[pairs] if mdp.outcome_rewards is None else mdp.outcome_rewards
    surprise = paid + gamma * after[rows.indices] - before[pairs // mdp.n_actions]
    squares = weighted_rows(rows, surprise**2).reshape(mdp.shape)
    if mdp.outcome_rewards is None:
        squares = squares + (mdp.reward_square - mdp.rewards**2)
    return squares, float(np.abs(paid).max(initial=0.0) + np.abs(before).max())


def _summed(
    mdp: MDP, values: Array, surprises: float, largest: float, steps: float, squared_steps: float
) -> tuple[float, float]:
    """Mean and variance from the start; a variance that rounding can make is left out."""
    mean = float(mdp.start @ values)
    spread = float(mdp.start @ (values - mean) ** 2)
    unsure = RELATIVE_ROUNDING * largest
    unsure_spread, unsure_surprises = (unsure * steps) ** 2, unsure**2 * squared_steps
    return mean, (spread if spread > unsure_spread else 0.0) + (surprises if surprises > unsure_surprises else 0.0)
