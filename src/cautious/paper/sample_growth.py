"""How the samples that Algorithm 1 needs grow with the model, and how its duality gap grows with the horizon.

Models are garnets of one kind: ``ACTIONS`` actions, ``SUCCESSORS`` successors per pair, rewards uniform in [0, 1]. Each
seed has its own models and its own samples, so an interval speaks about the kind and not about one model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.paper.duality_gap import Instance, measure, with_optimum
from cautious.paper.evidence import Interval, interval
from cautious.problem import Problem
from cautious.worlds.random_models import garnet

FIRST_SAMPLES = 2**12
ACTIONS, SUCCESSORS = 4, 5


@dataclass(frozen=True)
class Growth:
    """Numbers ``y`` (one interval each) against ``x``, and the exponent of the power law through them."""

    x: tuple[float, ...]
    y: tuple[Interval, ...]
    exponent: Interval


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent of the power law through the points.

    Examples
    --------
    >>> round(slope([1, 2, 4], [3, 24, 192]), 12)
    3.0
    """
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def crossing(samples: Sequence[int], gaps: Array, accuracy: float) -> float:
    """The number of samples at which gaps (K,) first fall below the accuracy, between two marks on logarithmic scales.

    Outside the marks the gap is continued like T^-1/2; this happens when a seed is left out, and then by little.
    """
    below = np.flatnonzero(gaps <= accuracy)
    k = int(below[0]) if below.size else len(samples) - 1
    if k == 0 or not below.size:
        return float(samples[k] * (gaps[k] / accuracy) ** 2)
    share = np.log(gaps[k - 1] / accuracy) / np.log(gaps[k - 1] / gaps[k])
    return float(samples[k - 1] * (samples[k] / samples[k - 1]) ** share)


def jackknife(estimate: Callable[[Array], float], seeds: int) -> Interval:
    """The 95 % interval of an estimate from all seeds: Student's t on its pseudo-values.

    ``estimate`` takes weights (seeds,) that sum to one: all equal, or with one seed left out.
    """
    whole = estimate(np.full(seeds, 1 / seeds))
    without = (np.ones((seeds, seeds)) - np.eye(seeds)) / (seeds - 1)
    return interval(seeds * whole - (seeds - 1) * estimate(weights) for weights in without)


def samples_needed(sizes: Sequence[int], accuracy: float, discount: float, seeds: int) -> tuple[Growth, Interval]:
    """The samples after which the mean gap over seeds is below ``accuracy``, against the number of pairs.

    The interval is that of the exponent after division by the logarithm of the pairs.
    """
    pairs = tuple(float(ACTIONS * n) for n in sizes)
    tables = [_gaps(n, accuracy, discount, seeds) for n in sizes]

    def needed(weights: Array) -> Array:
        return np.array([crossing(samples, weights @ gaps, accuracy) for samples, gaps in tables])

    def point(k: int) -> Interval:
        log = jackknife(lambda weights: float(np.log(needed(weights)[k])), seeds)
        return Interval(float(np.exp(log.mean)), float(np.exp(log.low)), float(np.exp(log.high)), log.n)

    growth = Growth(
        x=pairs,
        y=tuple(point(k) for k in range(len(sizes))),
        exponent=jackknife(lambda weights: slope(pairs, needed(weights).tolist()), seeds),
    )
    return growth, jackknife(lambda weights: slope(pairs, (needed(weights) / np.log(pairs)).tolist()), seeds)


def _garnet(n_states: int, discount: float, seed: int) -> Instance:
    model = garnet(n_states, ACTIONS, SUCCESSORS, discount, seed)
    return with_optimum(f"garnet of {n_states} states", Problem(model))


def _gaps(n_states: int, accuracy: float, discount: float, seeds: int) -> tuple[list[int], Array]:
    """Doubled numbers of samples until the mean gap is below the accuracy, and the gaps (seeds, K)."""
    instances = [_garnet(n_states, discount, seed) for seed in range(seeds)]
    samples: list[int] = []
    columns: list[list[float]] = []
    while len(columns) < 2 or np.mean(columns[-1]) > accuracy:
        samples.append(2 * samples[-1] if samples else FIRST_SAMPLES)
        columns.append([measure(one, samples[-1], seed).gap for seed, one in enumerate(instances)])
    return samples, np.array(columns).T


def gap_against_horizon(discounts: Sequence[float], n_states: int, samples: int, seeds: int) -> Growth:
    """The gap after a fixed number of samples, against 1/(1 - discount); the models differ in the discount only."""
    horizons = tuple(1 / (1 - discount) for discount in discounts)
    table = np.array(
        [[measure(_garnet(n_states, gamma, seed), samples, seed).gap for gamma in discounts] for seed in range(seeds)]
    )
    return Growth(
        x=horizons,
        y=tuple(interval(column) for column in table.T),
        exponent=interval(slope(horizons, row) for row in table),
    )
