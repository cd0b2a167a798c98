"""A finite horizon: that many steps, and then nothing more. Policies and occupancies are (T, S, A), one table a step.

With T steps, rewards of step t count discount^t. Backward induction is one sweep a step,

    v_T = 0,    v_t = max over a of  r + gamma E[v_{t+1}],

and the occupancy is one pass forwards: with the normaliser k = 1 / sum_t gamma^t,

    x_0 = k xi,    d_t(s, a) = x_t(s) pi_t(a | s),    x_{t+1} = gamma P' d_t,    sum d = 1.

Transitions are never written out for every step: a table of a step is used with the one model.
"""

from functools import partial

import numpy as np

from cautious._core import planning as kernels
from cautious.arrays import Array, Mask
from cautious.horizons.plan import Plan
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.encodings import EPS, read_only_view
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, pieces, threads_for


def n_steps(mdp: MDP) -> int:
    """The number of steps of a model with a finite horizon."""
    assert isinstance(mdp.horizon, int)
    return mdp.horizon


def backward_induction(mdp: MDP, reward: Array, allowed: Mask) -> Plan:
    """Best policy for ``reward`` (S, A) among the ``allowed`` pairs (T, S, A); values (T, S), actions (T, S).

    ``allowed`` must be closed: from an allowed pair every successor has an allowed pair of the next step. States
    without one are worth zero, and no allowed pair leads there.
    """
    steps, n_states = n_steps(mdp), mdp.n_states
    # the same pairs at every step may be stored once
    every = bool((allowed[0] if allowed.strides[0] == 0 else allowed).all())
    values, actions = np.zeros((steps + 1, n_states)), np.zeros((steps, n_states), np.int64)
    scope, summaries = np.ones(n_states, np.bool_), np.empty((pieces(n_states), kernels.SUMMARY))
    threads, rounding = threads_for(max(1, mdp.transitions.nnz)), 0.0
    table = read_only_view(reward).ravel()
    largest_reward = float(np.abs(reward if every else reward[allowed.any(axis=0)]).max(initial=0.0))
    for t in range(steps - 1, -1, -1):
        own = table if every else np.where(allowed[t], reward, -np.inf).ravel()
        gamma = mdp.discount if t < steps - 1 else 0.0
        model = (*mdp.block, own, gamma, values[t + 1])
        swept = partial(kernels.bellman, *model, scope, mdp.start, actions[t], values[t], summaries)
        over_pieces(n_states, threads, swept)
        if not every:
            values[t, ~allowed[t].any(axis=1)] = 0.0
        # what one sweep rounds, at the largest numbers in it: the products and sums of a row, and chances that do not
        # quite sum to one. A reward twice as large as all values is a cost, so large that no policy pays it.
        later, now = (float(np.abs(values[step]).max(initial=0.0)) for step in (t + 1, t))
        size = min(largest_reward, 2 * (now + later)) + later
        rounding = 4 * EPS * (mdp.widest_row + 4) * size + mdp.discount * rounding
    if not every:
        # rows of states that are never visited name an action that may be taken
        first = np.argmax(allowed, axis=2)
        taken = np.take_along_axis(allowed, actions[:, :, None], axis=2)[:, :, 0]
        actions = np.where(taken, actions, first)
    worth = float(mdp.start @ values[0])
    rounding += EPS * (n_states + 4) * float(mdp.start @ np.abs(values[0]))
    return Plan(actions, values[:steps], worth - rounding, worth + rounding, steps)


def occupancy_over_time(mdp: MDP, policy: Array) -> PolicyOccupancy:
    """The occupancy (T, S, A) of a checked policy (T, S, A), as exact as rounding permits."""
    steps, states = n_steps(mdp), mdp.normaliser * mdp.start
    occupancy, reached = np.empty((steps, *mdp.shape)), np.zeros(mdp.n_states, np.bool_)
    for t in range(steps):
        reached |= states > 0
        np.multiply(states[:, None], policy[t], out=occupancy[t])
        if t < steps - 1:
            states = mdp.discount * mdp.flow_into(occupancy[t])
    # each step adds to what is off: the sum of as many products as pairs lead to one state, chances that do not sum to
    # one, and a row of the policy, which was divided by its sum; a later step carries what the earlier ones did
    indegree = int(np.bincount(mdp.transitions.indices, minlength=1).max())
    a_step = EPS * (indegree + 4) / 2 + mdp.row_sum_error + EPS * (1 + mdp.n_actions / 2)
    masses = occupancy.sum(axis=(1, 2))
    error = a_step * float(masses @ np.arange(1, steps + 1)) + EPS * (steps + 4)
    return PolicyOccupancy(occupancy, reached, error)


def kept_over_time(mdp: MDP, permitted: Mask) -> Mask:
    """The permitted pairs, (S, A) or (T, S, A), that lead to states with permitted pairs until the end; (T, S, A)."""
    steps = n_steps(mdp)
    every, permitted = bool(permitted.all()), np.broadcast_to(permitted, (steps, *mdp.shape))
    if every:
        return permitted
    kept = np.empty(permitted.shape, np.bool_)
    kept[-1] = permitted[-1]
    for t in range(steps - 2, -1, -1):
        stuck = ~kept[t + 1].any(axis=1)
        if not stuck.any() or mdp.discount == 0:
            kept[t] = permitted[t]
            continue
        kept[t] = permitted[t] & ~(_pattern_times(mdp, stuck) > 0)
    return kept


def active_over_time(mdp: MDP, kept: Mask) -> Mask:
    """Kept pairs (T, S, A) of the states that can be reached at each step with kept pairs."""
    visited, active = mdp.start > 0, np.empty(kept.shape, np.bool_)
    for t, pairs in enumerate(kept):
        active[t] = pairs & visited[:, None]
        if mdp.discount == 0:
            visited = np.zeros_like(visited)
        elif t < len(kept) - 1:
            visited = mdp.flow_into(active[t].astype(np.float64)) > 0
    return active


def _pattern_times(mdp: MDP, states: Mask) -> Array:
    """How likely each pair (S, A) leads to one of these states; zero only where it never does."""
    return mdp.expect_next(states.astype(np.float64))
