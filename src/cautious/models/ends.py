"""How a model without discount comes to an end: states that end it, and pairs with which the end is certain.

A state is *ended* if it cannot be left and nothing is paid there any more; so are the states of a set that cannot be
left, if they all lead to each other and none of them pays anything.

A maximal end component is a largest set of states, with actions for each, that an agent can stay in for ever while
every state of it can reach every other. A policy that stays in one for ever never ends.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious._core.chains import MAX_BLOCK
from cautious._core.rows import end_components, ending_actions, forward_order, reach
from cautious.arrays import Indices, Mask
from cautious.models.encodings import read_only_view

Pattern = tuple[Any, Any]


@dataclass(frozen=True)
class Components:
    """``number`` (S,) of the end component of each state, -1 for none; ``inside`` (S, A), the pairs that stay in it."""

    number: Indices
    inside: Mask

    @property
    def count(self) -> int:
        """One more than the largest number, some of which may not occur."""
        return int(self.number.max(initial=-1)) + 1

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.count > 0


@dataclass(frozen=True)
class ForwardOrder:
    """The ``states`` (S,), each before those that it leads to, but for states that lead to each other.

    ``block`` (S,) is the number of the set of such states, ``largest`` the size of the largest set.
    """

    states: Indices
    block: Indices
    largest: int

    @property
    def has_short_cycles(self) -> bool:
        """Whether linear systems can be solved by substitution, block by block."""
        return self.largest <= MAX_BLOCK


@dataclass(frozen=True)
class Ending:
    """What can be done from the start if the end is to be certain.

    ``open`` (S,): states that can be reached, are not ended, and from which some policy ends with certainty;
    ``pairs`` (S, A): their pairs that lead to such states and to ended ones only; ``actions`` (S,) a policy that ends,
    0 elsewhere; ``components``: the end components of these pairs, in which a policy that never ends would stay;
    ``order``: an order of the states in which these pairs lead forward.
    """

    open: Mask
    pairs: Mask
    actions: Indices
    components: Components
    order: ForwardOrder


def forward_order_of(pattern: Pattern, pairs: Mask) -> ForwardOrder:
    """An order in which these pairs (S, A) lead forward; one action per state where ``pairs`` is (S,)."""
    states, block = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    largest = forward_order(*pattern, read_only_view(pairs).ravel(), states, block)
    return ForwardOrder(states, block, largest)


def components_of(pattern: Pattern, pairs: Mask) -> Components:
    """The maximal end components of these pairs (S, A)."""
    inside = np.empty(pairs.size, np.bool_)
    number = end_components(*pattern, read_only_view(pairs).ravel(), inside, len(pairs))
    return Components(number, inside.reshape(pairs.shape))


def ended_states(pattern: Pattern, allowed: Mask, paying: Mask) -> Mask:
    """The ended states (S,) of a model with these pairs (S, A), some of which are ``paying`` (S, A)."""
    found = components_of(pattern, allowed)
    counted = found.number >= 0
    # a component is an end if nothing leaves it, and nothing is paid in it
    goes_on = (allowed & (~found.inside | paying)).any(axis=1)
    unfinished = np.zeros(found.count, np.bool_)
    unfinished[found.number[counted & goes_on]] = True
    ended = counted.copy()
    ended[counted] = ~unfinished[found.number[counted]]
    return ended


def find_ending(pattern: Pattern, permitted: Mask, ended: Mask, start: Mask) -> Ending:
    """What the ``permitted`` pairs (S, A) leave of a model with these ``ended`` and ``start`` states (S,)."""
    indptr, indices = pattern
    pairs = permitted & ~ended[:, None]
    while True:
        actions = ending_actions(indptr, indices, read_only_view(pairs).ravel(), ended)
        lost = (actions < 0) & ~ended
        if not lost.any():
            break
        kept = pairs & ~lost[:, None] & ~_leads_to(pattern, lost).reshape(pairs.shape)
        if np.array_equal(kept, pairs):
            break
        pairs = kept
    is_open = actions >= 0
    is_open &= reach(*pattern, read_only_view(pairs).ravel(), start & (is_open | ended))
    pairs = pairs & is_open[:, None]
    actions, components = np.where(is_open, actions, 0), components_of(pattern, pairs)
    return Ending(is_open, pairs, actions, components, forward_order_of(pattern, pairs))


def _leads_to(pattern: Pattern, states: Mask) -> Mask:
    """Whether each pair (S*A,) can lead to one of these states (S,)."""
    indptr, indices = pattern
    hits = np.concatenate([[0], np.cumsum(states[indices])])
    return np.asarray(hits[indptr[1:]] > hits[indptr[:-1]], dtype=np.bool_)
