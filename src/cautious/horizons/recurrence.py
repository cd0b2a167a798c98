"""Which states matter in the long run: closed classes of chains, and the one component in which policies can stay.

An end component is a set of states with some of their pairs that never leads out of the set and in which every state
can be reached from every other one. In the long run a policy takes the pairs of end components only. If all of them
are parts of a single one, the best long-run average is the same from every start, and occupancies are the solutions of

    d >= 0,    outflow of d = inflow of d,    sum d = 1.

With two separate ones that is wrong: the equations allow any mixture of both, while the start decides what can be had.
"""

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cautious._core.rows import keep_safe
from cautious.arrays import Array, Indices, Mask
from cautious.errors import IncompatibleError
from cautious.models.encodings import read_only_view
from cautious.models.tabular import MDP

# so many states of a class are named in an error
MAX_NAMED_STATES = 3


def closed_classes(graph: sp.csr_array) -> Indices:
    """The number of the closed class of each node (n,), counted from 0; -1 for nodes of none.

    A closed class is a set of nodes that reach each other and nothing else.
    """
    count, label = connected_components(graph, directed=True, connection="strong")
    label = np.asarray(label, np.int64)
    tail = np.repeat(np.arange(graph.shape[0]), np.diff(graph.indptr))
    leaves = np.zeros(count, np.bool_)
    leaves[label[tail[label[tail] != label[graph.indices]]]] = True
    number = np.where(leaves, -1, np.cumsum(~leaves) - 1)
    return np.asarray(number[label])


def pair_graph(mdp: MDP, pairs: Mask) -> sp.csr_array:
    """Where these pairs (S, A) can lead, as a graph of the states."""
    chosen = np.flatnonzero(pairs)
    rows = mdp.transitions[chosen]
    state = np.repeat(chosen // mdp.n_actions, np.diff(rows.indptr))
    # entries that are stored twice do no harm to a graph; SciPy adds them up
    ones = np.ones(state.size)
    return sp.csr_array((ones, (state, rows.indices)), shape=(mdp.n_states, mdp.n_states))


def recurrent_part(mdp: MDP, permitted: Mask) -> Mask:
    """The pairs (S, A) of the only end component of permitted pairs that can be reached from the start.

    Pairs that are not permitted may be used on the way there. No pair at all if none can be permitted for ever.
    Two components, or states from which it cannot be reached, are refused.
    """
    every = mdp.visitable
    lasting = _lasting(mdp, permitted & every[:, None])
    if not lasting.any():
        return lasting
    graph = pair_graph(mdp, lasting)
    label = closed_classes(graph)
    label[~lasting.any(axis=1)] = -1
    # states without pairs are closed classes of their own in the graph; classes in the order of their first states
    numbers, first = np.unique(label, return_index=True)
    classes = numbers[np.argsort(first)]
    classes = classes[classes >= 0]
    inside = label == classes[0]
    if classes.size > 1:
        _refuse(mdp, inside, label == classes[1])
    pairs = lasting & inside[:, None]
    # pairs with which one can stay outside for ever
    outside = (mdp.expect_next(inside.astype(np.float64)) == 0) & lasting & ~inside[:, None]
    other = _lasting(mdp, outside)
    if other.any():
        label = closed_classes(pair_graph(mdp, other))
        label[~other.any(axis=1)] = -1
        _refuse(mdp, inside, label == label[label >= 0].min())
    _refuse_stray(mdp, inside, every)
    return np.asarray(pairs, np.bool_)


def _lasting(mdp: MDP, pairs: Mask) -> Mask:
    """The largest set of these pairs that always leads to states with pairs of the set."""
    indptr, indices, _ = mdp.csr
    kept = keep_safe(indptr, indices, read_only_view(pairs).ravel(), mdp.n_states)
    return np.array(kept, np.bool_).reshape(mdp.shape)


def _refuse_stray(mdp: MDP, inside: Mask, every: Mask) -> None:
    """States that are reached from the start, and that do not lead to the component, make the start matter too."""
    graph = pair_graph(mdp, mdp.allowed & every[:, None])
    label = closed_classes(graph)
    label[~every] = -1
    for number in np.unique(label[label >= 0]):
        if not inside[label == number].any():
            _refuse(mdp, inside, label == number)


def _refuse(mdp: MDP, one: Mask, other: Mask) -> None:
    raise IncompatibleError(
        f'horizon="average" needs a model in which what happens in the long run does not depend on chance events at '
        f"the beginning, and here policies can stay for ever in {_words(mdp, one)} or, apart from these, in "
        f"{_words(mdp, other)}; make one of them unreachable (start=, allowed=), let it lead back to the start, or use "
        "a discount below 1"
    )


def _words(mdp: MDP, states: Mask) -> str:
    """The first few states of a class."""
    numbers = np.flatnonzero(states)
    named = ", ".join(mdp.state_label(int(state)) for state in numbers[:MAX_NAMED_STATES])
    more = numbers.size - MAX_NAMED_STATES
    return named if more <= 0 else f"{named} and {more:,} more"


def uniform_on(pairs: Mask) -> Array:
    """A policy (S, A) that is uniform over the pairs of every state; rows without pairs are zero."""
    return np.asarray(pairs / np.maximum(pairs.sum(axis=1), 1)[:, None])
