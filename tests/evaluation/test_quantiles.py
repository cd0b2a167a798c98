"""Streams of numbers against all of them at once, and against known laws."""

import numpy as np
import pytest
from scipy import stats

import cautious as ca
from cautious.evaluation import evaluate as module
from cautious.evaluation.quantiles import Stream, order_statistics
from cautious.runtime.processes import process_pool

PERCENTS = (5, 25, 50, 75, 95)


@pytest.mark.parametrize("n", [2, 10, 60, 100, 1000, 10**8])
@pytest.mark.parametrize("share", [0.05, 0.25, 0.5, 0.95])
def test_ranks_are_the_narrowest_that_a_binomial_allows(n, share):
    low, high = order_statistics(n, share)
    assert 0 <= low < high <= n + 1
    law = stats.binom(n, share)
    assert low == 0 or law.cdf(low - 1) <= 0.025
    assert law.cdf(low) > 0.025
    assert law.cdf(high - 1) >= 0.975
    assert high == 1 or law.cdf(high - 2) < 0.975


LAWS = {
    "normal": lambda rng, n: rng.normal(3.0, 2.0, n),
    "few values": lambda rng, n: rng.integers(4, size=n).astype(float),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "rising": lambda rng, n: np.arange(n, dtype=float),
    "falling": lambda rng, n: -np.arange(n, dtype=float),
    "constant": lambda rng, n: np.full(n, 0.1),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("seed", range(3))
def test_a_sketch_knows_its_error(law, seed):
    rng = np.random.default_rng(seed)
    numbers = LAWS[law](rng, int(rng.integers(5_000, 20_000)))
    stream, at = Stream(most_kept=100, buffer=64), 0
    while at < numbers.size:
        size = int(rng.integers(1, 300))
        stream.add(numbers[at : at + size])
        at += size
    assert stream.over + stream.under > 0
    assert np.array_equal(stream.kept, numbers[:100])
    assert stream.mean == pytest.approx(numbers.mean(), rel=1e-9, abs=1e-9)
    assert stream.variance == pytest.approx(numbers.var(ddof=1), rel=1e-9, abs=1e-9)
    # every rank that the sketch says is right within the errors that it says
    values, ranks = stream._sketch()
    ordered = np.sort(numbers)
    true = np.searchsorted(ordered, values, side="right")
    last = np.append(values[1:] != values[:-1], True)
    assert (ranks - true <= stream.over)[last].all()
    assert (true - ranks <= stream.under)[last].all()
    # the interval holds that of all numbers
    _, intervals = stream.quantiles(PERCENTS)
    for percent, (bottom, top) in intervals.items():
        low, high = order_statistics(numbers.size, percent / 100)
        assert bottom <= ordered[low - 1]
        assert top >= ordered[high - 1]
    assert stream.over + stream.under <= numbers.size * 10 / 64


def test_a_few_numbers_have_exact_quantiles_and_no_bound_where_there_is_none():
    numbers = np.random.default_rng(0).normal(size=30)
    stream = Stream()
    stream.add(numbers)
    points, intervals = stream.quantiles(PERCENTS)
    assert list(points.values()) == np.percentile(numbers, PERCENTS).tolist()
    assert intervals[5][0] == -np.inf
    assert intervals[95][1] == np.inf
    assert intervals[50] == (np.sort(numbers)[9], np.sort(numbers)[20])


@pytest.mark.parametrize("size", [60, 400])
def test_intervals_hold_the_quantile_as_often_as_they_say(size):
    rng, tries = np.random.default_rng(size), 400
    held = dict.fromkeys(PERCENTS, 0)
    for _ in range(tries):
        stream = Stream(most_kept=50, buffer=32)
        stream.add(rng.exponential(size=size))
        for percent, (low, high) in stream.quantiles(PERCENTS)[1].items():
            held[percent] += low <= -np.log(1 - percent / 100) <= high
    assert min(held.values()) >= tries * (0.95 - 4 * np.sqrt(0.05 * 0.95 / tries))


def coins():
    """Ten throws of a coin that pays 1: the return is binomial."""
    return ca.MDP(np.full((2, 1, 2), 0.5), np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), discount=1.0)


@pytest.fixture(scope="module")
def pools():
    with process_pool(1) as one, process_pool(2) as two:
        yield {"1": one, "2": two}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_episodes_on_workers_are_the_same_bytes(pools, workers, monkeypatch):
    arguments = {"episodes": 3 * module.EPISODES_PER_BLOCK + 7, "horizon": 10, "seed": 3, "sets": {"tails": [0]}}
    serial = ca.evaluate(coins(), np.ones((2, 1)), **arguments)
    spread = ca.evaluate(coins(), np.ones((2, 1)), **arguments, executor=pools[workers])
    assert serial.returns.tobytes() == spread.returns.tobytes()
    assert repr(serial.table()) == repr(spread.table())
    assert serial.quantile_intervals == spread.quantile_intervals
    # blocks have draws of their own
    assert not np.array_equal(
        serial.returns[: module.EPISODES_PER_BLOCK],
        serial.returns[module.EPISODES_PER_BLOCK : 2 * module.EPISODES_PER_BLOCK],
    )


def test_many_episodes_have_the_moments_and_quantiles_of_the_law(monkeypatch):
    monkeypatch.setattr("cautious.evaluation.quantiles.MOST_KEPT", 1000)
    monkeypatch.setattr(module, "Stream", lambda: Stream(most_kept=1000, buffer=4096))
    n, law = 200_000, stats.binom(10, 0.5)
    found = ca.evaluate(coins(), np.ones((2, 1)), episodes=n, horizon=10, sets={"tails": [0]})
    assert found.returns.shape == (1000,)
    assert (found.exact_mean, found.exact_variance) == pytest.approx((5.0, 2.5))
    assert abs(found.mean - 5.0) <= 6 * found.standard_error
    fourth = law.moment(4) - 4 * 5 * law.moment(3) + 6 * 25 * law.moment(2) - 3 * 5**4
    assert abs(found.variance - 2.5) <= 6 * np.sqrt((fourth - 2.5**2) / n)
    for percent in PERCENTS:
        low, high = found.quantile_intervals[percent]
        assert low <= law.ppf(percent / 100) <= high
        assert high - low <= 1
    assert found.exposure["tails"] == pytest.approx(found.exact_exposure["tails"], abs=0.01)


def test_a_wrong_executor_is_refused():
    with pytest.raises(ca.IncompatibleError, match="executor must be a concurrent"):
        ca.evaluate(coins(), np.ones((2, 1)), horizon=10, executor=3)


def test_squares_beyond_double_precision_do_not_raise():
    """The first block is told from nothing; the spread of the second is infinite, as its squares are."""
    stream = Stream()
    stream.add(np.full(3, 1e235))
    assert (stream.mean, stream.squares) == (1e235, 0.0)
    stream.add(np.full(3, -1e235))
    assert stream.mean == 0.0
    assert stream.squares == np.inf
