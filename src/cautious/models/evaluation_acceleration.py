"""Better values of deterministic policies, one policy after the other: passes over their chains, then corrections.

``_core/evaluation_acceleration.hpp`` explains the corrections.
"""

from functools import cached_property, partial
from typing import Any

import numpy as np

from cautious._core import evaluation_acceleration as kernels
from cautious._core.likely_moves import change_moves, order_moves, sum_along_paths
from cautious._core.planning import KEPT_ITERATES, evaluate, evaluate_repeatedly
from cautious.arrays import Array, Indices
from cautious.models.chains import Chain
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, pieces, threads_for

STEPS = kernels.STEP_CORRECTIONS
# corrections in all, when those along likely paths take part
ALL_CORRECTIONS = STEPS + 3
# corrections along likely paths are of use where the likeliest outcome of a pair is this likely on average, and from
# this discount on: below it, passes converge as fast
MIN_LARGEST_CHANCE, SAMPLED_PAIRS = 0.6, 1000
MIN_DISCOUNT = 0.97


class EvaluationAcceleration:
    """Works in the same memory for one policy after the other: fresh memory takes as long as a pass or two."""

    def __init__(self, mdp: MDP) -> None:
        n = mdp.n_states
        self.mdp = mdp
        self.has_paths = mdp.mean_largest_chance(SAMPLED_PAIRS) >= MIN_LARGEST_CHANCE
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
        self.step_products = np.empty((pieces(n), STEPS + 1, STEPS + 2))

    @cached_property
    def iterates(self) -> Array:
        """The last iterates (4, S). Allocated late, so that earlier temporary arrays have been freed."""
        return np.empty((KEPT_ITERATES, self.mdp.n_states))

    @cached_property
    def tables(self) -> tuple[Array, Array, Array]:
        """The two tables of the corrections, and their products piece by piece."""
        shape = (ALL_CORRECTIONS, self.mdp.n_states)
        return (
            np.empty(shape),
            np.empty(shape),
            np.empty((pieces(shape[1]), ALL_CORRECTIONS + 1, ALL_CORRECTIONS + 2)),
        )

    def release(self) -> None:
        """Give back the memory that is larger than the chain's; it is taken again when it is needed."""
        for name in ("iterates", "tables"):
            self.__dict__.pop(name, None)

    def evaluate(self, chain: Chain, gain: Array, x: Array, passes: int, actions: Indices | None) -> Array:
        """Values (S,) nearer to those of a policy than x (S,), except for a constant.

        ``chain`` is the policy's and ``gain`` (S,) its reward; its likely paths are followed if its ``actions`` (S,)
        are given. The next call overwrites what it returns.
        """
        n, threads, products = self.mdp.n_states, threads_for(chain.chance.size), self.step_products
        v0, v1, v2, v3 = self._passes(chain, gain, x, passes, threads)
        over_pieces(n, threads, partial(kernels.step_products, v0, v1, v2, v3, products))
        if actions is None or not self.follows or kernels.passes_suffice(products, n):
            weights = kernels.best_weights(products, STEPS, n)
            over_pieces(n, threads, partial(kernels.add_steps, v1, v2, v3, weights))
        else:
            self._follow(chain, actions)
            self._correct(chain, (v0, v1, v2, v3), threads)
        return v3

    def _passes(self, chain: Chain, gain: Array, x: Array, passes: int, threads: int) -> list[Array]:
        """The last four of at least four iterates of x <- gain + gamma P_pi x."""
        iterates, gamma = self.iterates, self.mdp.discount
        if threads == 1:
            evaluate_repeatedly(*chain.arrays, gain, gamma, x, passes, iterates)
        else:
            for number in range(passes):
                old = x if number == 0 else iterates[(number - 1) % KEPT_ITERATES]
                new = iterates[number % KEPT_ITERATES]
                over_pieces(x.size, threads, partial(evaluate, *chain.arrays, gain, gamma, old, new))
        return [iterates[(passes + i) % KEPT_ITERATES] for i in range(KEPT_ITERATES)]

    def _follow(self, chain: Chain, actions: Indices) -> None:
        """Bring the likely paths to those of these actions."""
        target, weight, order, closes = self.paths
        if change_moves(*chain.arrays, self.mdp.discount, actions, self.held, target, weight):
            order_moves(target, order, closes)

    def _correct(self, chain: Chain, iterates: tuple[Array, Array, Array, Array], threads: int) -> None:
        """Add the best combination of all corrections to the last of four iterates; the others are overwritten."""
        v0, v1, v2, v3 = iterates
        gamma, n, (gains, y, products) = self.mdp.discount, v0.size, self.tables
        over_pieces(n, threads, partial(kernels.tabulate_steps, v0, v1, v2, v3, self.step_products, gains, y))
        # v1 is now the residual
        for i in range(STEPS, ALL_CORRECTIONS):
            sum_along_paths(*self.paths, gamma, v1 if i == STEPS else y[i - 1], v0)
            over_pieces(n, threads, partial(kernels.apply_correction, *chain.arrays, gamma, v0, gains[i], y[i]))
        over_pieces(n, threads, partial(kernels.correction_products, y, v1, products))
        weights = kernels.best_weights(products, ALL_CORRECTIONS, n)
        over_pieces(n, threads, partial(kernels.add_corrections, v3, gains, weights))
