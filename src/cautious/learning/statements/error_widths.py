"""How much the weighted error of many means can matter, without a union over them.

For fixed weights d_i summing to one and means of n_i independent values X <= m_i + R_i around guesses m_i made before,
with psi(z) = -log(1-z) - z, any rate lam > 0 and probability 1 - delta (proof in ``verification``):

    sum_i d_i (E - mean_i)  <=  log(1/delta) / lam + sum_i d_i w_i,
    w_i = psi(lam R_i / n_i) sum over samples of (X - m_i)^2 / (lam R_i^2),   or   lam R^2 / (8 n_i), R the whole range.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array

LARGEST_Z = 0.9
# ranges below this are taken for this: their squares would underflow
SMALLEST = 1e-60


@dataclass(frozen=True)
class ErrorPlan:
    """How errors will be bounded, fixed before the samples are looked at.

    ``rate`` lam; ``spread`` R; ``above`` R_i; ``n`` samples per mean; ``foreseen``: what the sums of squares should be,
    where that is known: it decides which w_i to use.
    """

    rate: float
    spread: float
    above: Array
    n: Array
    foreseen: Array | None = None

    def widths(self, squares: Array | None) -> Array:
        """w_i for these sums of squares; None where they are unknown."""
        simple = self.rate * self.spread**2 / (8 * self.n)
        if squares is None:
            return simple
        z = self.rate * self.above / self.n
        within = np.minimum(z, LARGEST_Z)
        factor = (-np.log1p(-within) - within) / (self.rate * self.above**2)
        better = z <= LARGEST_Z
        if self.foreseen is not None:
            better &= factor * self.foreseen < simple
        return np.where(better, factor * squares, simple)


def reach_above(top: float, bottom: float, guess: Array) -> Array:
    """R_i for values between ``bottom`` and ``top``; a guess below the top by nothing but rounding is no worse."""
    return np.maximum(top - guess, 1e-6 * (top - bottom) + SMALLEST)
