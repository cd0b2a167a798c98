"""What learners earn, and how long they stay in dark cells, while they learn with and without a prior.

All numbers are exact values of policies in the true model: the policy one would take after so many samples is read off
the learner, and its occupancy is computed. Only the policy depends on the seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy
from cautious.paper.evidence import Interval, interval
from cautious.worlds.grids import dark_cells


@dataclass(frozen=True)
class Worth:
    """A policy's discounted return, and its share in [0, 1] of discounted time in dark cells."""

    earned: float
    dark: float


def worth(mdp: MDP, policy: Array) -> Worth:
    """Exact, for a policy (S, A) in a grid world."""
    occupancy = policy_occupancy(mdp, policy).occupancy
    earned = float(np.sum(occupancy * mdp.rewards)) / (1 - mdp.discount)
    return Worth(earned, float(occupancy[dark_cells(mdp)].sum()))


@dataclass(frozen=True)
class LearningCurve:
    """One learner, one seed: after ``samples`` (k,) the policy's ``earned`` (k,) and ``dark`` (k,), as in ``Worth``."""

    samples: Array
    earned: Array
    dark: Array

    def until(self, samples: float) -> "LearningCurve":
        """Only the first part."""
        kept = self.samples <= samples
        return LearningCurve(self.samples[kept], self.earned[kept], self.dark[kept])


def curve_of(samples: Sequence[int], worths: Sequence[Worth]) -> LearningCurve:
    """A curve from its points."""
    earned, dark = [one.earned for one in worths], [one.dark for one in worths]
    return LearningCurve(np.array(samples, dtype=np.float64), np.array(earned), np.array(dark))


def running_average(values: Array) -> Array:
    """Mean of each entry and all entries before it.

    Examples
    --------
    >>> running_average(np.array([4.0, 2.0, 0.0])).tolist()
    [4.0, 3.0, 2.0]
    """
    return np.asarray(np.cumsum(values) / np.arange(1, len(values) + 1))


def samples_to_level(curve: LearningCurve, level: float) -> tuple[float, bool]:
    """Samples at the first point whose return is at least ``level``, True; or all samples, False."""
    there = np.flatnonzero(curve.earned >= level)
    return (float(curve.samples[there[0]]), True) if there.size else (float(curve.samples[-1]), False)


@dataclass(frozen=True)
class Speed:
    """How much sooner the second of two learners reaches a return, seed by seed.

    ``first``, ``second``: samples it takes; ``saved`` their difference. A run that never gets there counts with all its
    samples; ``never`` says how many do not, of each learner.
    """

    first: Interval
    second: Interval
    saved: Interval
    never: tuple[int, int]


def compare_speed(first: Sequence[LearningCurve], second: Sequence[LearningCurve], level: float) -> Speed:
    """LearningCurves of the same seeds, in the same order."""
    times = [[samples_to_level(curve, level) for curve in curves] for curves in (first, second)]
    return Speed(
        first=interval(time for time, _ in times[0]),
        second=interval(time for time, _ in times[1]),
        saved=interval(a - b for (a, _), (b, _) in zip(*times, strict=True)),
        never=(sum(not reached for _, reached in times[0]), sum(not reached for _, reached in times[1])),
    )


def mean_gain(first: Sequence[LearningCurve], second: Sequence[LearningCurve], samples: float) -> Interval:
    """Mean return of the second learner minus that of the first over the points up to ``samples``, seed by seed."""
    pairs = zip(first, second, strict=True)
    return interval(float(b.until(samples).earned.mean() - a.until(samples).earned.mean()) for a, b in pairs)


def dark_avoided(first: Sequence[LearningCurve], second: Sequence[LearningCurve], samples: float) -> Interval:
    """Time in dark cells of the first learner minus that of the second, at the last point up to ``samples``."""
    pairs = zip(first, second, strict=True)
    return interval(float(a.until(samples).dark[-1] - b.until(samples).dark[-1]) for a, b in pairs)


def ends_higher(first: Sequence[LearningCurve], second: Sequence[LearningCurve]) -> Interval:
    """Return of the first learner minus that of the second, when all samples are used."""
    return interval(float(a.earned[-1] - b.earned[-1]) for a, b in zip(first, second, strict=True))


def overtaken_at(first: Sequence[LearningCurve], second: Sequence[LearningCurve]) -> float | None:
    """Samples from which on the first learner's mean return stays above the second's; None when it ends below."""
    gap = np.mean([a.earned - b.earned for a, b in zip(first, second, strict=True)], axis=0)
    below = np.flatnonzero(gap <= 0)
    if not below.size:
        return float(first[0].samples[0])
    return None if below[-1] == gap.size - 1 else float(first[0].samples[below[-1] + 1])
