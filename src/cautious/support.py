"""``Support``: which pairs and states the occupancies of a problem can use at all."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cautious._core.rows import keep_safe
from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.horizons.finite import active_over_time, kept_over_time
from cautious.horizons.recurrence import recurrent_part
from cautious.horizons.stationary import connecting_occupancy
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.risks.base import Risk

# the share of time of ``connecting``: it costs a small part of the allowed gap, and is large beside rounding errors
CONNECTING_SHARE = 2e-8


class Support:
    """What follows from a model and the risks that count in it, whatever their weights and the rewards are.

    With a finite horizon, ``kept``, ``active`` and ``default_rows`` are (T, S, A), and ``active_states`` is (T, S). For
    long-run averages, the pairs that count are those of the single end component, without those that lead to it.

    ``pairs`` are the only ones that may be used, if they are given: (S, A), or (T, S, A) with a finite horizon.
    """

    def __init__(self, mdp: MDP, risks: Sequence[Risk], pairs: Mask | None = None) -> None:
        self.mdp, self.risks, self.pairs = mdp, tuple(risks), pairs

    def is_of(self, risks: Sequence[Risk]) -> bool:
        """Whether these are the same risks."""
        return len(risks) == len(self.risks) and all(one is other for one, other in zip(risks, self.risks, strict=True))

    @cached_property
    def permitted(self) -> Mask:
        """Pairs (S, A) that exist and have finite risk."""
        masks = [mask for risk in self.risks if (mask := risk.permitted()) is not None]
        if self.pairs is not None:
            masks.append(np.asarray(self.pairs if self.pairs.ndim == 2 else self.pairs.any(axis=0)))
        if not masks:
            return self.mdp.allowed
        return np.asarray(np.logical_and.reduce([self.mdp.allowed, *masks]), dtype=np.bool_)

    @cached_property
    def kept(self) -> Mask:
        """The largest set of permitted pairs with which one can go on for ever, or until the horizon.

        With "total", those with which the end is certain, and all pairs of ended states, where nothing counts.
        """
        if isinstance(self.mdp.horizon, int):
            by_step = True if self.pairs is None or self.pairs.ndim == 2 else self.pairs
            return kept_over_time(self.mdp, self.permitted & by_step)
        if self.mdp.horizon == AVERAGE:
            return recurrent_part(self.mdp, self.permitted)
        if self.mdp.horizon == TOTAL:
            return self.mdp.ending_pairs(self.permitted)
        if self.permitted is self.mdp.allowed or np.array_equal(self.permitted, self.mdp.allowed):
            return self.mdp.allowed
        self.mdp.require_matrix("a risk or limit that forbids pairs of states and actions")
        if self.mdp.discount == 0:
            # nothing after the first step counts
            return self.permitted
        indptr, indices, _ = self.mdp.csr
        return keep_safe(indptr, indices, self.permitted.ravel(), self.mdp.n_states).reshape(self.mdp.shape)

    @cached_property
    def active(self) -> Mask:
        """Kept pairs of the states that can be reached with kept pairs."""
        if isinstance(self.mdp.horizon, int):
            return active_over_time(self.mdp, self.kept)
        if self.mdp.horizon == AVERAGE:
            return self.kept
        if self.mdp.horizon == TOTAL:
            return self.mdp.ending(self.kept).pairs & self.mdp.reachable(self.kept)[:, None]
        return self.kept if self._visited.all() else self.kept & self._visited[:, None]

    @cached_property
    def _visited(self) -> Mask:
        """States (S,) that are visited with kept pairs, of discounted problems."""
        if self.mdp.discount == 0:
            return np.asarray(self.mdp.start > 0)
        return self.mdp.visitable if self.kept is self.mdp.allowed else self.mdp.reachable(self.kept)

    @cached_property
    def kept_states(self) -> Mask:
        """States (S,) with kept pairs, (T, S) with a finite horizon; every state has an allowed pair."""
        return np.ones(self.mdp.n_states, np.bool_) if self.kept is self.mdp.allowed else states_of(self.kept)

    @cached_property
    def active_pairs(self) -> Mask:
        """Pairs (S, A) that are active, at any step."""
        return np.asarray(self.active.any(axis=0)) if self.active.ndim == 3 else self.active

    @cached_property
    def active_states(self) -> Mask:
        """States (S,) with active pairs."""
        if self.mdp.horizon is None:
            return self.kept_states & self._visited
        return states_of(self.active)

    @cached_property
    def connecting(self) -> Array | None:
        """For long-run averages, an occupancy (S, A) with mass on every active pair; see ``connected``."""
        return connecting_occupancy(self.mdp, self.active) if self.mdp.horizon == AVERAGE else None

    def connected(self, occupancy: Array, share: float = CONNECTING_SHARE) -> Array:
        """An occupancy that the policy which is read off it has.

        The best occupancy for a long-run average may live on several closed classes, each with its share, and no policy
        that is read off it goes from one to another. A small share of an occupancy with mass everywhere joins them.
        """
        if self.connecting is None:
            return occupancy
        return (1 - share) * occupancy + share * float(occupancy.sum()) * self.connecting

    @cached_property
    def trapped(self) -> int | None:
        """A start state from which a forbidden pair is unavoidable, or None."""
        if self.kept is self.mdp.allowed:
            # every state has an allowed pair
            return None
        if self.mdp.horizon == AVERAGE:
            return None if self.kept.any() else int(np.argmax(self.mdp.start > 0))
        first = self.kept_states[0] if self.kept_states.ndim == 2 else self.kept_states
        stuck = (self.mdp.start > 0) & ~first
        return int(np.argmax(stuck)) if stuck.any() else None

    @cached_property
    def restricted(self) -> "tuple[Indices, Support, dict[int, Risk]]":
        """The active states, the support on these alone, and its risks by the identity of the risks they come from."""
        states = np.flatnonzero(self.active_states)
        mdp = self.mdp.restricted(states, self.active[states])
        smaller = ((id(risk), risk.restricted(mdp, states)) for risk in self.risks)
        risks = {key: risk for key, risk in smaller if risk is not None}
        return states, Support(mdp, tuple(risks.values())), risks

    @cached_property
    def default_rows(self) -> Array:
        """Policy rows (S, A) of states that are never visited: uniform over kept, else over allowed actions."""
        usable = np.where(self.kept_states[..., None], self.kept, self.mdp.allowed)
        return uniform_policy(np.asarray(usable, dtype=np.bool_))
