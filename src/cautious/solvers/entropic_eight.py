"""The entropic dual at eight cautions side by side: one pass over the transitions serves all of them.

The formulas are those of ``entropic_dual`` and ``entropic_start``, with a number for each caution where these have one.
Nothing here is careful or proved: what comes out is a start, and the certificate judges it like any other.
"""

from collections.abc import Sequence

import numpy as np

from cautious.arrays import Array, Singles
from cautious.kernels import eight_entropic as kernels
from cautious.kernels.vectors import EIGHT_LANES, aligned
from cautious.solvers.entropic_dual import FALL, FLOOR, Dual

FEW_SWEEPS = 4


class EightDuals:
    """Up to eight duals that differ in their caution only; the same memory serves eight after eight.

    Tables (n, 8) are flat: multipliers ``u``, log mass, mass and ``wanted`` mass of ``states``, and the downhill slope
    ``right`` have a row for each state, ``policy`` has one for each pair.
    """

    def __init__(self, dual: Dual, log_mu: Array) -> None:
        problem, n = dual.problem, dual.xi.size
        self.csr, self.gamma, self.xi, self.log_mu = problem.mdp.csr, dual.gamma, dual.xi, log_mu
        self.r = problem.reward.ravel() - dual.middle
        self.used, self.log_prior, self.mu = problem.active_states, dual.log_prior, np.exp(dual.log_prior)
        self.policy, self.nobody = aligned(log_mu.size), aligned(log_mu.size // n)
        self.u, self.log_states, self.states, self.wanted = (aligned(n) for _ in range(4))
        self.right, self.x, self.mean = aligned(n), aligned(n), aligned(n)
        self.log_sums, self.heat = np.empty(EIGHT_LANES), np.empty(EIGHT_LANES)

    def take(self, duals: Sequence[Dual], u: Array, wanted: Array | None = None) -> None:
        """Go on with these, from multipliers ``u`` (S, 8) and the mass states should have, by default their own."""
        tau = [dual.tau for dual in duals]
        # places that nobody needs repeat the last
        self.heat[:] = 1 / np.array(tau + tau[-1:] * (EIGHT_LANES - len(tau)))
        self.u[:] = u.ravel()
        self.at()
        self.wanted[:] = self.states if wanted is None else wanted.ravel()

    def at(self, *, masses_only: bool = False) -> None:
        """Everything about the present multipliers, or all but the policy."""
        policy = self.nobody if masses_only else self.policy
        kernels.soft_rows(*self.csr, self.gamma, self.log_mu, self.r, self.heat, self.u, policy, self.log_states)
        kernels.set_sums(self.log_states, self.states, self.log_sums)

    @property
    def values(self) -> Array:
        """phi, (8,)."""
        return np.asarray(self.xi @ self.u.reshape(-1, EIGHT_LANES) + self.log_sums)

    def sweep(self, most: int, even: float, enough: float) -> Array:
        """Soft sweeps towards the prior's mass until it is ``even``; how uneven they leave the residual, (8,).

        A dual that would not come to ``enough`` rests after a few: it begins in another way.
        """
        live, uneven = np.ones(EIGHT_LANES, np.bool_), np.full(EIGHT_LANES, np.inf)
        for number in range(most + 1):
            # the last one only looks
            live &= number < most
            before = uneven
            uneven = np.asarray(kernels.soft_sweep(self.log_states, self.log_prior, self.used, even, live, self.u))
            if number == FEW_SWEEPS:
                live &= uneven * (uneven / before) ** (most - number) <= enough
            if not live.any():
                break
            self.at(masses_only=True)
        self.at()
        return uneven

    def slope(self) -> Array:
        """Find the way downhill, ``right``; how steep the step ``x`` is, (8,)."""
        kernels.downhill(*self.csr, self.gamma, self.policy, self.states, self.xi, self.right)
        return -np.asarray(kernels.products(self.x, self.right))

    def step(self, x: Singles, first: int, unit: Array) -> None:
        """Take the step ``x`` from the places from ``first`` on of a table (S, 16), in units (8,), and aim with it."""
        kernels.lengthen(x, first, unit, self.x)
        kernels.aimed_mass(*self.csr, self.gamma, self.policy, self.mean, self.states, self.x, self.wanted)

    def move(self, start: Array, length: Array) -> None:
        """Go along the step from a ``start`` (8 S,), for so long (8,)."""
        kernels.move(start, self.x, length, self.u)
        self.at()

    def weights(self, first: int, w: Singles) -> None:
        """The weights of pairs in Newton's matrix, into the places from ``first`` on of w (S*A, 16)."""
        kernels.spread_weights(
            self.policy, self.log_states, self.states, self.wanted, self.mu, FALL, FLOOR, self.mean, first, w
        )

    def find_excess(self) -> None:
        """What leaves each state beyond what arrives, if the marginals of the policies were ``wanted``: ``right``."""
        kernels.downhill(*self.csr, self.gamma, self.policy, self.wanted, self.xi, self.right)
