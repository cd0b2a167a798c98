"""How much the weighted error of many means can matter, without a union bound over them.

Let d_i be fixed weights that sum to one, and X_i values in [low, high] with n_i independent samples and a guess m_i of
their mean that was made before. With R_i = high - m_i, psi(z) = -log(1-z) - z and 0 <= z < 1, any value Y <= m + R has
E exp( z (EY - Y)/R - psi(z) (Y - m)^2/R^2 ) <= 1 (Fan, Grama, Liu 2015). With psi(d z) <= d psi(z), Chernoff's method
gives for any rate lam > 0 chosen before, with probability 1 - delta,

    sum_i d_i (E X_i - mean_i)  <=  log(1/delta) / lam + sum_i d_i w_i,
    w_i = psi(lam R_i / n_i) sum over samples of (X - m_i)^2 / (lam R_i^2),   or   lam (high - low)^2 / (8 n_i),

the second by Hoeffding's lemma, for means with too few samples for the first. Rate and guesses must be fixed before the
samples are looked at.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array

LARGEST_Z = 0.9
# ranges below this are taken for this: their squares would underflow
MIN_RANGE = 1e-60


@dataclass(frozen=True)
class ErrorPlan:
    """How the errors of means will be bounded, fixed before their samples are looked at; see the module's text.

    ``rate`` lam; the values lie in [``low``, ``high``]; ``guess`` m_i; ``n`` samples per mean.
    """

    rate: float
    low: float
    high: float
    guess: Array
    n: Array

    @property
    def spread(self) -> float:
        """The width of the range."""
        return max(self.high - self.low, MIN_RANGE)

    def widths(self, squares: Array) -> Array:
        """w_i for these sums of squares around the guesses."""
        simple = self.rate * self.spread**2 / (8 * self.n)
        # R_i; a guess below the top by nothing but rounding is no worse than one at the top
        above = np.maximum(self.high - self.guess, 1e-6 * (self.high - self.low) + MIN_RANGE)
        z = self.rate * above / self.n
        within = np.minimum(z, LARGEST_Z)
        factor = (-np.log1p(-within) - within) / (self.rate * above**2)
        return np.where(z <= LARGEST_Z, factor * squares, simple)

    def spent(self, delta: float) -> float:
        """What the weighted error may be beyond its widths."""
        return float(np.log(1 / delta)) / self.rate


def hoeffding_rate(delta: float, n: float, spread: float) -> float:
    """The best rate for ``n`` samples of values that are as spread as can be."""
    return float(np.sqrt(8 * np.log(1 / delta) * n) / spread)
