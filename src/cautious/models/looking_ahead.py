"""Better values of deterministic policies, one after the other: passes over their chains, then a look ahead.

The same steps as in ``kernels/looking_ahead.py``, which does them at one go on one thread.
"""

from functools import cached_property, partial
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.kernels import looking_ahead as kernels
from cautious.kernels.likely_moves import add_up, change_moves, meant_share, order_moves
from cautious.kernels.planning import evaluate
from cautious.kernels.threads import over_pieces, pieces, threads_for
from cautious.kernels.trailing_passes import trailing_passes
from cautious.models.chains import Chain
from cautious.models.tabular import MDP

# likely paths are of use where moves do what they are meant to this often, and what is far away matters: below this
# discount, passes do as well
MEANT, SAMPLED_PAIRS = 0.6, 1000
FAR = 0.97
# passes that trail each other on one thread are as fast as passes side by side on this many, if a chain has so many
# entries that it leaves the cache, and blocks lead on average to at most so many others
AS_FAST_AS, MANY_ENTRIES, NEAR_BLOCKS = 2, 1_500_000, 40


class LookAhead:
    """Works in the same memory for one policy after the other: fresh memory takes as long as a pass or two."""

    def __init__(self, mdp: MDP) -> None:
        n = mdp.n_states
        indptr, _, data = mdp.csr
        self.mdp = mdp
        self.has_paths = bool(meant_share(indptr, data, SAMPLED_PAIRS) >= MEANT)
        self.follows = self.has_paths and mdp.discount >= FAR
        size, index = n if self.follows else 0, np.uint32 if n < 2**32 else np.uint64
        # where each state likely leads and the discount on the way, an order of the states, one state of each cycle
        self.paths = (np.empty(size, index), np.empty(size), np.empty(size, index), np.empty(size, np.bool_))
        # no action has this number: all paths are new at first
        self.held = np.full(size, np.iinfo(np.uint64).max)

    @cached_property
    def room(self) -> tuple[Array, Array, Array]:
        """Four iterates (4, S), and the two tables of the guesses. Made late: what came before may have left memory."""
        count, n = (kernels.STEPS + kernels.PATHS) * self.follows, self.mdp.n_states
        return np.empty((4, n)), np.empty((count, n)), np.empty((count, n))

    @cached_property
    def _trails(self) -> bool:
        """Whether the chains of policies are too large for the cache, and passes that trail each other are not."""
        ahead, _ = self.mdp.block_reach
        far = float(np.mean(ahead - np.arange(ahead.size)))
        return self.mdp.most_entries >= MANY_ENTRIES and far <= NEAR_BLOCKS

    def nearer(self, chain: Chain, gain: Array, x: Array, passes: int, actions: Indices | None) -> Array:
        """Values (S,) nearer to those of a policy than x (S,), but for a constant.

        ``chain`` is the policy's and ``gain`` (S,) what it is paid; its likely paths are followed if its ``actions``
        (S,) are given. The next call overwrites what it returns.
        """
        threads, rows = threads_for(chain.chance.size), (*chain.arrays, chain.widths)
        iterates, gains, y = self.room
        if actions is None:
            gains, y = gains[:0], y[:0]
        elif self.follows:
            self._follow(actions)
        if threads > 1:
            return self._threaded(rows, gain, x, passes, threads, gains, y)
        gamma, reach = self.mdp.discount, self.mdp.block_reach
        found = kernels.evaluate_ahead(*rows, gain, gamma, x, passes, *reach, *self.paths, iterates, gains, y)
        return np.asarray(found)

    def _follow(self, actions: Indices) -> None:
        """The paths of these actions."""
        target, weight, order, closes = self.paths
        if change_moves(*self.mdp.csr, self.mdp.discount, actions.view(np.uint64), self.held, target, weight):
            order_moves(target, order, closes)

    def _threaded(
        self, rows: tuple[Any, ...], gain: Array, x: Array, passes: int, threads: int, gains: Array, y: Array
    ) -> Array:
        iterates, gamma, n = self.room[0], self.mdp.discount, self.mdp.n_states
        if threads <= AS_FAST_AS and self._trails:
            trailing_passes(*rows, gain, gamma, x, passes, *self.mdp.block_reach, iterates)
        else:
            for number in range(passes):
                old = x if number == 0 else iterates[(number - 1) % 4]
                over_pieces(n, threads, partial(evaluate, *rows, gain, gamma, old, iterates[number % 4]))
        guess, r, nothing, x = (iterates[(passes + i) % 4] for i in range(4))
        products = np.empty((pieces(n), kernels.STEPS + 1, kernels.STEPS + 2))
        over_pieces(n, threads, partial(kernels.multiply_steps, guess, r, nothing, x, products))
        if len(y) == 0 or kernels.passes_do(products, n):
            over_pieces(n, threads, partial(kernels.move_by_steps, r, nothing, x, kernels.best_mixture(products, n)))
            return x
        kernels.list_steps(guess, r, nothing, x, gains, y)
        for i in range(kernels.STEPS, len(y)):
            add_up(*self.paths, gamma, r if i == kernels.STEPS else y[i - 1], guess)
            over_pieces(n, threads, partial(kernels.try_guess, *rows, nothing, gamma, guess, gains[i], y[i]))
        products = np.empty((pieces(n), len(y) + 1, len(y) + 2))
        over_pieces(n, threads, partial(kernels.multiply, y, r, products))
        over_pieces(n, threads, partial(kernels.move, x, gains, kernels.best_mixture(products, n)))
        return x
