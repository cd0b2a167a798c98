"""A model that remembers which sets of states have been entered: one bit of memory for each set.

A state of it is a state of the model with the sets entered so far, its own included, as far as that can be reached. To
have entered a set is then a set of states that is never left.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cautious._core.rows import reach
from cautious.arrays import Array, Indices
from cautious.models.encodings import read_only_view
from cautious.models.tabular import MDP, Memory


def is_entered_again(mdp: MDP, states: Indices) -> bool:
    """Whether an agent can leave these states and enter them again."""
    inside = np.zeros(mdp.n_states, np.bool_)
    inside[states] = True
    indptr, indices, _ = mdp.csr
    lengths = np.diff(indptr).reshape(mdp.shape).sum(axis=1)
    after = np.zeros(mdp.n_states, np.bool_)
    after[indices[np.repeat(inside, lengths)]] = True
    return bool((reach(indptr, indices, read_only_view(mdp.allowed).ravel(), after & ~inside) & inside).any())


def with_memory(mdp: MDP, sets: Sequence[tuple[str, Indices]]) -> MDP:
    """The model with a bit of memory for each of the sets of states, which have names."""
    n, n_layers = mdp.n_states, 2 ** len(sets)
    # the bits that are set in a state whatever was before
    own = np.zeros(n, np.int64)
    for number, (_, states) in enumerate(sets):
        own[states] |= 1 << number
    rows = mdp.transitions
    columns = [rows.indices + n * (layer | own[rows.indices]) for layer in range(n_layers)]
    pointer = np.append(0, np.cumsum(np.tile(np.diff(rows.indptr), n_layers)))
    size = (n_layers * n * mdp.n_actions, n_layers * n)
    transitions = sp.csr_array((np.tile(rows.data, n_layers), np.concatenate(columns), pointer), size)
    transitions.sort_indices()
    start = np.zeros(n_layers * n)
    start[own * n + np.arange(n)] = mdp.start
    allowed = np.tile(mdp.allowed, (n_layers, 1))
    entered = reach(
        read_only_view(np.asarray(transitions.indptr, transitions.indices.dtype)),
        read_only_view(transitions.indices),
        read_only_view(allowed).ravel(),
        start > 0,
    )
    states = np.flatnonzero(entered)
    origin, bits = states % mdp.n_states, states // mdp.n_states
    pairs = (states[:, None] * mdp.n_actions + np.arange(mdp.n_actions)).ravel()
    own = (origin[:, None] * mdp.n_actions + np.arange(mdp.n_actions)).ravel()
    part = transitions[pairs][:, states]
    rewards: object = mdp.rewards[origin]
    if mdp.outcome_rewards is not None:
        rewards = _outcomes(mdp, part, origin, own)
    names = [str(state) for state in range(mdp.n_states)] if mdp.state_names is None else mdp.state_names
    known = MDP(
        part,
        rewards,
        mdp.discount,
        start[states],
        allowed=allowed[states],
        reward_square=mdp.reward_square[origin] if mdp.has_reward_spread else None,
        state_names=[names[state] + _after(sets, int(entered)) for state, entered in zip(origin, bits, strict=True)],
        action_names=mdp.action_names,
    )
    found = known.with_horizon(mdp.horizon)
    found.memory = Memory(mdp, origin, bits, tuple(states for _, states in sets))
    return found


def _outcomes(mdp: MDP, part: sp.csr_array, origin: Indices, own: Indices) -> sp.csr_array:
    """The reward of each outcome, looked up in the model by pair and next state."""
    assert mdp.outcome_rewards is not None
    paid = _looked_up(mdp, mdp.outcome_rewards, part, origin, own)
    return sp.csr_array((paid, part.indices, part.indptr), part.shape)


def lifted_outcomes(mdp: MDP, outcomes: Array) -> Array:
    """Numbers of the stored transitions of the model without memory (nnz,), for those of the model with memory."""
    assert mdp.memory is not None
    own = lifted_pairs(mdp.memory, mdp.n_actions)
    return _looked_up(mdp.memory.base, outcomes, mdp.transitions, mdp.memory.origin, own)


def _looked_up(mdp: MDP, outcomes: Array, part: sp.csr_array, origin: Indices, own: Indices) -> Array:
    table = sp.csr_array((outcomes, mdp.transitions.indices, mdp.transitions.indptr), mdp.transitions.shape)
    row = np.repeat(own, np.diff(part.indptr))
    return np.asarray(table[row, origin[part.indices]]).ravel()


def _after(sets: Sequence[tuple[str, Indices]], bits: int) -> str:
    entered = [name for number, (name, _) in enumerate(sets) if bits >> number & 1]
    return f" (after {', '.join(entered)})" if entered else ""


def lifted_pairs(memory: Memory, n_actions: int) -> Indices:
    """The pair of the model (S*A,) that each pair of the model with memory is."""
    return np.asarray((memory.origin[:, None] * n_actions + np.arange(n_actions)).ravel())
