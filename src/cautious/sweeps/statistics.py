"""Numbers about repetitions: the mean with Student's interval, and the interquartile mean with bootstrap intervals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from cautious.arrays import Array
from cautious.errors import InputError

CONFIDENCE = 0.95
RESAMPLES = 2000
# resamples are drawn some at a time, so that no table of them has more numbers than this
MOST_DRAWN = 2**22


@dataclass(frozen=True)
class Interval:
    """The mean of ``n`` independent numbers and the 95 % interval of Student's t around it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def percent(self) -> str:
        """A share as per cent, without the sign."""
        return f"{100 * self.mean:.1f} [{100 * self.low:.1f}, {100 * self.high:.1f}]"

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def interval(values: Iterable[float]) -> Interval:
    """The mean over seeds and its 95 % interval; a difference or a ratio is taken per seed first.

    Examples
    --------
    >>> str(interval([1.0, 2.0, 3.0]))
    '2 [-0.484, 4.48]'
    """
    sample = np.asarray(list(values), dtype=np.float64)
    if sample.size < 2 or not np.isfinite(sample).all():
        raise InputError(f"an interval needs at least two finite numbers, found {sample.tolist()}")
    mean, error = float(sample.mean()), float(sample.std(ddof=1)) / np.sqrt(sample.size)
    reach = float(stdtrit(sample.size - 1, 0.5 + CONFIDENCE / 2) * error)
    return Interval(mean, mean - reach, mean + reach, sample.size)


def band(values: Array) -> Array:
    """Mean, low and high end of the interval (3, k) of every column of a table (seeds, k)."""
    found = [interval(column) for column in values.T]
    return np.array([(one.mean, one.low, one.high) for one in found]).T


def interquartile_mean(values: Array) -> Array:
    """The mean of the middle half along the last axis: a quarter of the numbers, rounded down, is left out at each end.

    Examples
    --------
    >>> float(interquartile_mean(np.array([0.0, 1.0, 2.0, 100.0])))
    1.5
    """
    ordered = np.sort(values, axis=-1)
    left_out = ordered.shape[-1] // 4
    return np.asarray(ordered[..., left_out : ordered.shape[-1] - left_out].mean(axis=-1))


def stratified_bootstrap(strata: Sequence[Array], rng: np.random.Generator) -> tuple[float, float]:
    """The 95 % percentile interval of the interquartile mean of all numbers.

    Repetitions are drawn with replacement within each of the ``strata`` (n,), such as the seeds of one problem.
    """
    total, means = sum(one.size for one in strata), np.empty(RESAMPLES)
    step = max(1, MOST_DRAWN // max(total, 1))
    for first in range(0, RESAMPLES, step):
        count = min(step, RESAMPLES - first)
        drawn = [one[rng.integers(one.size, size=(count, one.size))] for one in strata]
        means[first : first + count] = interquartile_mean(np.concatenate(drawn, axis=1))
    low, high = np.percentile(means, [50 - 50 * CONFIDENCE, 50 + 50 * CONFIDENCE])
    return float(low), float(high)
