"""The occupancies of eight policies side by side: one pass over the transitions serves all of them.

Neither careful nor proved: guesses, which a certificate measures.
"""

from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.kernels import eight_chains as kernels
from cautious.models.tabular import MDP

STEPS = 100
REFINEMENTS = 4
FINEST = 1e-9


class EightChains:
    """The chains of eight policies; the next eight take the same memory. The discount must be positive."""

    def __init__(self, mdp: MDP) -> None:
        n, entries = mdp.n_states, mdp.transitions.nnz
        index = np.uint32 if max(entries, n) < 2**32 else np.uint64
        self.mdp = mdp
        self.arrays: tuple[Any, ...] = np.empty(n + 1, np.int64), np.empty(entries, index), kernels.aligned(entries)
        self._on, self._room = kernels.aligned(n), kernels.aligned(6 * n).reshape(6, -1)

    def take(self, weights: Array) -> None:
        """Go on with the policies of these ``weights`` (S*A, 8), flat and aligned."""
        kernels.mix_rows(*self.mdp.csr, weights, *self.arrays)
        kernels.onwards(*self.arrays, self.mdp.discount, self._on)

    def flow(self, aim: Array, guess: Array | None = None) -> tuple[Array, Array]:
        """State marginals (S, 8), at least 0, and the 1-norms (8,) of their residuals: mostly at most ``aim`` (8,)."""
        mdp, gamma, n = self.mdp, self.mdp.discount, self.mdp.n_states
        right = (1 - gamma) * mdp.start
        x, step, residual = kernels.aligned(n), kernels.aligned(n), kernels.aligned(n)
        x[:] = 0.0 if guess is None else np.maximum(guess.ravel(), 0.0)
        size = kernels.missing_flow(*self.arrays, gamma, right, x, residual)
        for _ in range(REFINEMENTS):
            if np.all(size <= aim):
                break
            # the iteration breaks down on small numbers: it is given right-hand sides of size one
            scale = np.maximum(size, 1e-300)
            residual.reshape(n, -1)[:] /= scale
            goal = np.where(size <= aim, 2.0, np.maximum(0.5 * aim / scale, FINEST))
            kernels.solve_flow(*self.arrays, self._on, gamma, residual, goal, STEPS, step, self._room)
            before, x = x, kernels.aligned(n)
            np.maximum(before.reshape(n, -1) + step.reshape(n, -1) * scale, 0.0, out=x.reshape(n, -1))
            last, size = size, kernels.missing_flow(*self.arrays, gamma, right, x, residual)
            worse = ~(size <= last)
            if worse.any():
                x.reshape(n, -1)[:, worse] = before.reshape(n, -1)[:, worse]
                size = np.where(worse, last, size)
                break
        return x.reshape(n, -1), size
