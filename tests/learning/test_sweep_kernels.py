"""The loops of a sweep against plain NumPy references, and a whole sweep against the equations it estimates."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious.kernels import sparse_rows, sweeps
from cautious.kernels.random import uniform

S, A, GAMMA = 7, 3, 0.9
N = S * A


def table(seed):
    """Random rows, a mask that leaves every state a pair, an occupancy on it, and multipliers."""
    rng = np.random.default_rng(seed)
    dense = rng.random((N, S)) * (rng.random((N, S)) < 0.6)
    dense[np.arange(N), rng.integers(S, size=N)] += 0.1
    dense /= dense.sum(axis=1, keepdims=True)
    allowed = rng.random((S, A)) < 0.7
    allowed[np.arange(S), rng.integers(A, size=S)] = True
    pi = rng.random((S, A)) * allowed
    pi /= pi.sum(axis=1, keepdims=True)
    x = rng.dirichlet(np.ones(S))
    return rng, sp.csr_array(dense), allowed.ravel(), (x[:, None] * pi).ravel(), rng.normal(size=S)


def planned(d, allowed, batch, offset, delta=0.5):
    w, n = np.empty(N), np.empty(N, dtype=np.int64)
    return sweeps.plan(d, allowed, delta, batch, offset, w, n), w, n


def drawn(rows, pay, per_outcome, n, seed, counter):
    s_next, r_hat = np.empty(n.sum(), dtype=np.int64), np.empty(n.sum())
    cumulative = sparse_rows.running_sums(rows.indptr, rows.data)
    seed, counter = np.uint64(seed), np.uint64(counter)
    sweeps.draw(rows.indptr, rows.indices, cumulative, pay, per_outcome, n, seed, counter, s_next, r_hat)
    return s_next, r_hat


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("batch", [1, 5, N, 1000])
def test_plan_rounds_expectations(seed, batch):
    rng, _, allowed, d, _ = table(seed)
    total, w, n = planned(d, allowed, batch, offset := rng.random())
    expected = batch * (0.5 * d + 0.5 * allowed / allowed.sum())
    np.testing.assert_allclose(w, expected, rtol=1e-13)
    upto = np.floor(offset + np.cumsum(expected))
    np.testing.assert_array_equal(n, np.diff(upto, prepend=0))
    assert abs(total - batch) <= 1
    assert total == n.sum()
    assert np.all(np.abs(n - w) < 1)
    assert np.all(n[~allowed] == 0)


def test_plan_is_unbiased():
    _, _, allowed, d, _ = table(0)
    counts = np.mean([planned(d, allowed, 5, (k + 0.5) / 4000)[2] for k in range(4000)], axis=0)
    np.testing.assert_allclose(counts, planned(d, allowed, 5, 0.0)[1], atol=1e-3)


def test_plan_scales_an_occupancy_that_lost_mass():
    _, _, allowed, d, _ = table(0)
    np.testing.assert_allclose(planned(0.7 * d, allowed, N, 0.0)[1], planned(d, allowed, N, 0.0)[1], rtol=1e-13)


@pytest.mark.parametrize("per_outcome", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_draw(seed, per_outcome):
    rng, rows, allowed, d, _ = table(seed)
    pay = rng.random(rows.data.size if per_outcome else N)
    _, _, n = planned(d, allowed, 200, rng.random())
    s_next, r_hat = drawn(rows, pay, per_outcome, n, seed, 17)
    pairs = np.empty(n.sum(), dtype=np.int64)
    sweeps.list_pairs(n, pairs)
    np.testing.assert_array_equal(pairs, np.repeat(np.arange(N), n))
    cumulative = sparse_rows.running_sums(rows.indptr, rows.data)
    chances = np.array([uniform(np.uint64(seed), np.uint64(17 + i)) for i in range(pairs.size)])
    place = sparse_rows.draw_successors(rows.indptr, cumulative, pairs, chances)
    np.testing.assert_array_equal(s_next, rows.indices[place])
    np.testing.assert_array_equal(r_hat, pay[place] if per_outcome else pay[pairs])


@pytest.mark.parametrize("batch", [4, N, 300])
@pytest.mark.parametrize("seed", range(5))
def test_gather(seed, batch):
    rng, rows, allowed, d, v = table(seed)
    _, w, n = planned(d, allowed, batch, rng.random())
    s_next, r_hat = drawn(rows, rng.random(N), False, n, seed, 0)
    q = rng.normal(size=N)
    pairs = np.repeat(np.arange(N), n)
    targets = np.bincount(pairs, r_hat + GAMMA * v[s_next], minlength=N) / np.maximum(n, 1)
    expected_q = np.where(n > 0, q + (1 - 0.7**n) * (targets - q), q)
    expected_inflow = np.bincount(s_next, d[pairs] / w[pairs], minlength=S)
    inflow = np.full(S, np.nan)
    sweeps.gather(n, w, s_next, r_hat, d, v, GAMMA, 0.3, q, inflow)
    np.testing.assert_allclose(q, expected_q, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inflow, expected_inflow, rtol=1e-12)


def test_gather_estimates_the_model():
    rng, rows, allowed, d, v = table(3)
    pay = rng.random(N)
    _, w, n = planned(d, allowed, 400_000, 0.5)
    s_next, r_hat = drawn(rows, pay, False, n, 1, 0)
    q, inflow = np.zeros(N), np.empty(S)
    sweeps.gather(n, w, s_next, r_hat, d, v, GAMMA, 1.0, q, inflow)
    np.testing.assert_allclose(q[allowed], (pay + GAMMA * (rows @ v))[allowed], atol=0.05)
    np.testing.assert_allclose(inflow, rows.T @ d, atol=0.005)


@pytest.mark.parametrize("seed", range(5))
def test_move(seed):
    rng, _, _, _, _ = table(seed)
    inflow, xi, x = rng.random(S), rng.dirichlet(np.ones(S)), rng.dirichlet(np.ones(S))
    target = (1 - GAMMA) * xi + GAMMA * inflow
    expected = x + 0.25 * (target / target.sum() - x)
    average = rng.dirichlet(np.ones(S))
    moved = average + 0.1 * (target / target.sum() - average)
    sweeps.move(inflow, xi, GAMMA, 0.25, 0.1, x, average)
    np.testing.assert_allclose(average, moved, rtol=1e-13)
    np.testing.assert_allclose(x, expected, rtol=1e-13)
    assert x.sum() == pytest.approx(1, abs=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_tally(seed):
    rng, _, allowed, d, _ = table(seed)
    n = planned(d, allowed, 3 * N, 0.5)[2]
    payoffs = rng.normal(size=n.sum())
    paid, drawn = rng.normal(size=N), rng.integers(5, size=N)
    rows = np.repeat(np.arange(N), n)
    expected, total = paid + np.bincount(rows, weights=payoffs, minlength=N), drawn + n
    sweeps.tally(n, payoffs, paid, drawn)
    np.testing.assert_allclose(paid, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(drawn, total)


@pytest.mark.parametrize("seed", range(5))
def test_spread_and_log_marginal(seed):
    rng, _, allowed, d, _ = table(seed)
    u = rng.normal(size=N)
    w = planned(d, allowed, N, 0.0)[1]
    mean = np.average(u, weights=w)
    assert sweeps.spread(u, w) == pytest.approx(np.sqrt(np.average((u - mean) ** 2, weights=w)), rel=1e-12)
    x = np.append(rng.random(S - 1), 0.0)
    expected = u + np.repeat(2.5 * np.log(np.maximum(x, 1e-6)), A)
    sweeps.add_log_marginal(x, 2.5, 1e-6, u)
    np.testing.assert_allclose(u, expected, rtol=1e-13)


def improve_reference(q, u, allowed, eta, tau, log_mu, big_q, log_pi):
    now = q - u
    logits = (log_pi + eta * (2 * now - big_q) + eta * tau * log_mu) / (1 + eta * tau)
    logits = np.where(allowed, logits, -np.inf).reshape(S, A)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    worth = np.where(allowed, now - tau * (logits.ravel() - log_mu), 0.0).reshape(S, A)
    return np.where(allowed, now, big_q), logits.ravel(), (np.exp(logits) * worth).sum(axis=1)


@pytest.mark.parametrize("tau", [0.0, 0.8])
@pytest.mark.parametrize("seed", range(5))
def test_improve(seed, tau):
    rng, _, allowed, d, v = table(seed)
    q, u, big_q, log_mu = rng.normal(size=(4, N))
    pi = (d.reshape(S, A) / d.reshape(S, A).sum(axis=1, keepdims=True)).ravel()
    log_pi = np.log(pi, out=np.full(N, -np.inf), where=allowed)
    with np.errstate(invalid="ignore"):
        expected = improve_reference(q, u, allowed, 1.7, tau, log_mu, big_q, log_pi)
    sweeps.improve(q, u, allowed, 1.7, tau, log_mu, big_q, log_pi, v)
    for found, reference in zip((big_q, log_pi, v), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-11, atol=1e-12)


def test_improve_survives_huge_steps():
    _, _, allowed, _, v = table(0)
    q = np.linspace(-1e5, 1e5, N)
    log_pi = np.where(allowed, 0.0, -np.inf)
    sweeps.improve(q, np.zeros(N), allowed, 10.0, 0.0, np.zeros(1), np.zeros(N), log_pi, v)
    np.testing.assert_allclose(np.exp(log_pi).reshape(S, A).sum(axis=1), 1, rtol=1e-12)
    assert np.isfinite(v).all()


@pytest.mark.parametrize("seed", range(5))
def test_settle(seed):
    rng, _, allowed, _, v = table(seed)
    allowed[:A] = False  # a forbidden state
    alive = allowed.reshape(S, A).any(axis=1)
    x, d_bar = rng.dirichlet(np.ones(S)), rng.random(N)
    pi = np.where(allowed, rng.random(N), 0.0)
    log_pi = np.log(pi, out=np.full(N, -np.inf), where=allowed)
    centre = np.average(v[alive], weights=x[alive])
    expected_v = np.where(alive, v, v[alive].min() - 10.0) - centre
    expected_d = np.repeat(x, A) * pi
    expected_bar = d_bar + 0.3 * (expected_d - d_bar)
    d = np.empty(N)
    sweeps.settle(allowed, log_pi, x, 0.3, 10.0, v, d, d_bar)
    np.testing.assert_allclose(v, expected_v, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(d, expected_d, rtol=1e-12)
    np.testing.assert_allclose(d_bar, expected_bar, rtol=1e-12)


def test_averages_keep_their_mass():
    rng, _, _, d, _ = table(1)
    allowed, d_bar, v = np.ones(N, dtype=np.bool_), d.copy(), np.zeros(S)
    log_pi, d = np.full(N, -np.log(A)), d.copy()
    for t in range(1, 2000):
        weight = 5 / (t + 4)
        sweeps.settle(allowed, log_pi, rng.dirichlet(np.ones(S)), weight, 10.0, v, d, d_bar)
    assert d_bar.sum() == pytest.approx(1, abs=1e-12)
