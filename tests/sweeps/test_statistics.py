"""Summaries against brute force, closed forms and SciPy."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from cautious.sweeps.statistics import band, interquartile_mean, interval, stratified_bootstrap


@pytest.mark.parametrize("n", range(1, 14))
def test_the_interquartile_mean_is_the_trimmed_mean(n):
    values = np.random.default_rng(n).normal(size=(3, n))
    expected = stats.trim_mean(values, 0.25, axis=1)
    assert np.allclose(interquartile_mean(values), expected, rtol=0, atol=1e-15)


def every_resample(strata):
    """Interquartile means of all equally likely resamples."""
    drawn = [[np.array(one)[list(places)] for places in product(range(len(one)), repeat=len(one))] for one in strata]
    return np.array([float(stats.trim_mean(np.concatenate(parts), 0.25)) for parts in product(*drawn)])


@pytest.mark.parametrize("strata", [[[0.0, 1.0, 5.0, 2.0]], [[0.0, 1.0, 4.0], [10.0, 20.0, 15.0]], [[3.0], [1.0, 2.0]]])
def test_the_bootstrap_is_that_of_all_resamples(strata):
    means = every_resample(strata)
    low, high = stratified_bootstrap([np.array(one) for one in strata], np.random.default_rng(0))
    # the ends are quantiles of the right distribution: as many resamples lie below as should, up to chance
    slack = 6 * np.sqrt(0.025 * 0.975 / 2000)
    assert (means < low - 1e-12).mean() <= 0.025 + slack
    assert (means <= low + 1e-12).mean() >= 0.025 - slack
    assert (means > high + 1e-12).mean() <= 0.025 + slack
    assert (means >= high - 1e-12).mean() >= 0.025 - slack


def test_strata_are_kept_apart():
    # each problem has one value: nothing to resample, however far the problems are from each other
    assert stratified_bootstrap([np.array([1.0, 1.0]), np.array([9.0, 9.0])], np.random.default_rng(0)) == (5.0, 5.0)


def test_the_bootstrap_covers_the_mean_of_a_normal_law():
    rng = np.random.default_rng(1)
    found = [stratified_bootstrap([rng.normal(size=20)], rng) for _ in range(200)]
    # percentile intervals of 20 numbers are a little short; 90 % is what they keep
    assert np.mean([low <= 0 <= high for low, high in found]) >= 0.86


def test_intervals_are_student_s():
    values = np.random.default_rng(2).normal(size=(7, 3))
    for column, (mean, low, high) in zip(values.T, band(values).T, strict=True):
        expected = stats.t.interval(0.95, 6, column.mean(), stats.sem(column))
        assert (low, high) == pytest.approx(expected, rel=1e-12)
        assert mean == pytest.approx(column.mean())
        assert interval(column).n == 7
