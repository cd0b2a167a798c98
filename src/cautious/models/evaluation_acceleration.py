"""Better values of deterministic policies, one policy after the other: passes over their chains, then corrections.

The same steps as in ``_core/evaluation_acceleration.hpp``, which does all of them in one call on one thread.
"""

from functools import cached_property, partial
from typing import Any

import numpy as np

from cautious._core import evaluation_acceleration as kernels
from cautious._core.likely_moves import add_up, change_moves, mean_largest_chance, order_moves
from cautious._core.planning import evaluate
from cautious._core.trailing_passes import KEPT, trailing_passes
from cautious.arrays import Array, Indices
from cautious.models.chains import Chain
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, pieces, threads_for

# a chain by rows, and how long the rows of each block of states are
Rows = tuple[Any, Any, Array, Indices]
STEPS, PATHS = kernels.STEP_CORRECTIONS, kernels.PATH_CORRECTIONS
# corrections along likely paths are of use where the likeliest outcome of a pair is this likely on average, and from
# this discount on: below it, passes converge as fast
MIN_LARGEST_CHANCE, SAMPLED_PAIRS = 0.6, 1000
MIN_DISCOUNT = 0.97
# trailing passes on one thread are as fast as plain passes on this many, if a chain has so many entries that it does
# not fit into the cache, and blocks lead on average to at most so many others
AS_FAST_AS, MANY_ENTRIES, NEAR_BLOCKS = 2, 1_500_000, 40


class EvaluationAcceleration:
    """Works in the same memory for one policy after the other: fresh memory takes as long as a pass or two."""

    def __init__(self, mdp: MDP) -> None:
        n = mdp.n_states
        indptr, _, data = mdp.csr
        self.mdp = mdp
        self.has_paths = mean_largest_chance(indptr, data, SAMPLED_PAIRS) >= MIN_LARGEST_CHANCE
        self.follows = self.has_paths and mdp.discount >= MIN_DISCOUNT
        size, index = n if self.follows else 0, np.int32 if n < 2**31 else np.int64
        # where each state likely leads and the discount until then, an order of the states, one state of each cycle
        self.paths: tuple[Any, Any, Any, Any] = (
            np.empty(size, index),
            np.empty(size),
            np.empty(size, index),
            np.empty(size, np.bool_),
        )
        # no action has this number: all paths are new at first
        self.held = np.full(size, -1, np.int64)

    @cached_property
    def workspace(self) -> tuple[Array, Array, Array]:
        """Four iterates (4, S), and the two tables of the corrections.

        Allocated late, so that earlier temporary arrays have been freed.
        """
        count, n = (STEPS + PATHS) * self.follows, self.mdp.n_states
        return np.empty((KEPT, n)), np.empty((count, n)), np.empty((count, n))

    @cached_property
    def _trails(self) -> bool:
        """Whether the chains of policies are too large for the cache, and trailing passes help."""
        ahead, _ = self.mdp.block_reach
        far = float(np.mean(ahead - np.arange(ahead.size)))
        return self.mdp.most_entries >= MANY_ENTRIES and far <= NEAR_BLOCKS

    def evaluate(self, chain: Chain, gain: Array, x: Array, passes: int, actions: Indices | None) -> Array:
        """Values (S,) nearer to those of a policy than x (S,), except for a constant.

        ``chain`` is the policy's and ``gain`` (S,) its reward; its likely paths are followed if its ``actions`` (S,)
        are given. The next call overwrites what it returns.
        """
        threads = threads_for(chain.chance.size)
        rows: Rows = (*chain.arrays, chain.block_lengths)
        iterates, gains, y = self.workspace
        if actions is None:
            gains, y = gains[:0], y[:0]
        elif self.follows:
            self._follow(actions)
        if threads > 1:
            return self._threaded(rows, gain, x, passes, threads, gains, y)
        gamma, reach = self.mdp.discount, self.mdp.block_reach
        kernels.accelerated_passes(*rows, gain, gamma, x, passes, *reach, *self.paths, iterates, gains, y)
        return np.asarray(iterates[(passes + 3) % KEPT])

    def _follow(self, actions: Indices) -> None:
        """The paths of these actions."""
        target, weight, order, closes = self.paths
        if change_moves(*self.mdp.csr, self.mdp.discount, actions, self.held, target, weight):
            order_moves(target, order, closes)

    def _threaded(self, rows: Rows, gain: Array, x: Array, passes: int, threads: int, gains: Array, y: Array) -> Array:
        iterates, gamma, n, m = self.workspace[0], self.mdp.discount, self.mdp.n_states, len(y)
        if threads <= AS_FAST_AS and self._trails:
            trailing_passes(*rows, gain, gamma, x, passes, *self.mdp.block_reach, iterates)
        else:
            for number in range(passes):
                old = x if number == 0 else iterates[(number - 1) % KEPT]
                over_pieces(n, threads, partial(evaluate, *rows, gain, gamma, old, iterates[number % KEPT]))
        v0, v1, v2, v3 = (np.asarray(iterates[(passes + i) % KEPT]) for i in range(KEPT))
        products = np.empty((pieces(n), STEPS + 1, STEPS + 2))
        over_pieces(n, threads, partial(kernels.step_products, v0, v1, v2, v3, products))
        if m == 0 or kernels.passes_suffice(products, n):
            weights = kernels.best_weights(products, STEPS, n)
            over_pieces(n, threads, partial(kernels.add_steps, v1, v2, v3, weights))
            return v3
        over_pieces(n, threads, partial(kernels.tabulate_steps, v0, v1, v2, v3, products, gains, y))
        for i in range(STEPS, m):
            add_up(*self.paths, gamma, v1 if i == STEPS else y[i - 1], v0)
            over_pieces(n, threads, partial(kernels.apply_correction, *rows, gamma, v0, gains[i], y[i]))
        products = np.empty((pieces(n), m + 1, m + 2))
        over_pieces(n, threads, partial(kernels.correction_products, y, v1, products))
        over_pieces(n, threads, partial(kernels.add_corrections, v3, gains, kernels.best_weights(products, m, n)))
        return v3
