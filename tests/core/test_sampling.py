"""Draws, counts and the loops of a sweep against plain NumPy references, and against the equations they estimate."""

import numpy as np
import pytest
import scipy.sparse as sp

from cautious._core import sampling

S, A, GAMMA = 7, 3, 0.9
N = S * A
INDEX_TYPES = [np.int32, np.int64]
MOST = np.iinfo(np.int64).max


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
    return sampling.plan_samples(d, allowed, delta, batch, offset, w, n), w, n


def sums_of(rows, kind=np.int64):
    """What is drawn from: row pointers, next states and the running sums of every row."""
    indptr, indices, cumulative = rows.indptr.astype(kind), rows.indices.astype(kind), np.empty(rows.nnz)
    sampling.running_sums(indptr, indices, rows.data, cumulative)
    return indptr, indices, cumulative


def drawn(rows, pay, per_outcome, n, seed, counter, kind=np.int64):
    s_next, r_hat = np.empty(n.sum(), dtype=np.int64), np.empty(n.sum())
    sampling.draw_samples(*sums_of(rows, kind), pay, per_outcome, n, seed, counter, s_next, r_hat)
    return s_next, r_hat


def splitmix(seed, counter):
    """The stream in Python's integers."""
    mask = 2**64 - 1
    z = (seed + (counter + 1) * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return ((z ^ (z >> 31)) >> 11) / 2**53


def test_streams():
    for seed, counter in [(0, 0), (1, 2), (2**64 - 1, 2**64 - 1), (12345678901234567, 2**40 + 5), (2**63, 77)]:
        assert sampling.uniform(seed, counter) == splitmix(seed, counter)
    numbers = np.empty((4, 3))
    sampling.uniforms(99, numbers)
    assert numbers.ravel().tolist() == [splitmix(99, i) for i in range(12)]
    # published for the first draw from seed 0: 0xE220A8397B1DCDAF
    assert sampling.uniform(0, 0) == (0xE220A8397B1DCDAF >> 11) / 2**53


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_running_sums_restart(kind):
    _, rows, _, _, _ = table(0)
    _, _, cumulative = sums_of(rows, kind)
    for first, last in zip(rows.indptr[:-1], rows.indptr[1:], strict=True):
        np.testing.assert_array_equal(cumulative[first:last], np.cumsum(rows.data[first:last]))


@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("seed", range(10))
def test_draw_successors(seed, kind):
    rng, rows, _, _, _ = table(seed)
    sums = sums_of(rows, kind)
    pairs, uniforms = rng.integers(N, size=500), rng.random(500)
    found = sampling.draw_successors(*sums, pairs, uniforms)
    for row, uniform, position in zip(pairs, uniforms, found, strict=True):
        first, last = rows.indptr[row], rows.indptr[row + 1]
        assert position == min(first + np.sum(sums[2][first:last] <= uniform), last - 1)


@pytest.mark.parametrize("length", range(1, 20))
def test_every_place_of_a_row_is_found(length):
    sums = (np.array([0, length]), np.zeros(length, dtype=np.int64), np.arange(1.0, length + 1) / length)
    edges = np.concatenate([[0.0], sums[2], np.nextafter(sums[2], 0), np.nextafter(sums[2], 2)])
    found = sampling.draw_successors(*sums, np.zeros(edges.size, dtype=np.int64), edges)
    assert np.array_equal(found, np.minimum(np.searchsorted(sums[2], edges, side="right"), length - 1))


def test_draw_successors_stays_in_its_row_when_sums_fall_short():
    """Rounding may leave the last sum below one; a uniform number above it takes the last successor."""
    sums = (np.array([0, 2, 4]), np.array([0, 1, 0, 1]), np.array([0.5, 1 - 1e-12, 0.25, 1 - 1e-12]))
    found = sampling.draw_successors(*sums, np.array([0, 1]), np.array([1 - 1e-16, 1 - 1e-16]))
    assert found.tolist() == [1, 3]


@pytest.mark.parametrize("kind", INDEX_TYPES)
def test_draw_hits(kind):
    rng, rows, _, _, _ = table(4)
    sums, n = sums_of(rows, kind), rng.integers(6, size=N)
    pairs = np.repeat(np.arange(N), n)
    chances = np.array([splitmix(5, i) for i in range(pairs.size)])
    hits = np.ones(rows.nnz, dtype=np.int64)
    sampling.draw_hits(*sums, n, 5, hits)
    places = sampling.draw_successors(*sums, pairs, chances)
    np.testing.assert_array_equal(hits, 1 + np.bincount(places, minlength=rows.nnz))


def group_tables(room, slots):
    """An empty hash table and the arrays that it leads to."""
    return [np.zeros(slots, dtype=np.int64), *np.zeros((2, room), dtype=np.int64), *np.zeros((3, room))]


def test_groups_against_a_dictionary():
    rng = np.random.default_rng(0)
    tables, used, reference = group_tables(512, 1024), 0, {}
    for _ in range(4):
        keys, rewards = rng.integers(-60, 60, size=100) * 2**50, rng.normal(size=100)
        count, spread = rng.integers(1, 9, size=100), rng.random((2, 100))
        used = sampling.add_groups(*tables, used, keys, count, rewards, *spread)
        for key, n, r, shift, square in zip(keys.tolist(), count, rewards, *spread, strict=True):
            entry = reference.setdefault(key, [0, r, 0.0, 0.0])
            move = r - entry[1]
            entry[0] += n
            entry[2] += shift + n * move
            entry[3] += square + 2 * move * shift + n * move**2
    slots, keys = tables[:2]
    assert used == len(reference)
    assert keys[:used].tolist() == list(reference)
    np.testing.assert_allclose(np.array(tables[2:])[:, :used].T, list(reference.values()), rtol=1e-12, atol=1e-12)
    again = np.zeros_like(slots)
    sampling.fill_slots(again, keys, used)
    assert np.count_nonzero(again) == used
    empty, numbers = np.zeros(0, dtype=np.int64), np.zeros(0)
    assert sampling.add_groups(again, *tables[1:], used, empty, empty, numbers, numbers, numbers) == used
    known = [column[:used].copy() for column in tables[1:]]
    assert sampling.add_groups(again, *tables[1:], used, *known) == used
    np.testing.assert_array_equal(tables[2][:used], 2 * known[1])


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


@pytest.mark.parametrize("kind", INDEX_TYPES)
@pytest.mark.parametrize("per_outcome", [True, False])
@pytest.mark.parametrize("seed", range(5))
def test_draw(seed, per_outcome, kind):
    rng, rows, allowed, d, _ = table(seed)
    pay = rng.random(rows.data.size if per_outcome else N)
    _, _, n = planned(d, allowed, 200, rng.random())
    s_next, r_hat = drawn(rows, pay, per_outcome, n, seed, 17, kind)
    pairs = np.repeat(np.arange(N), n)
    chances = np.array([splitmix(seed, 17 + i) for i in range(pairs.size)])
    place = sampling.draw_successors(*sums_of(rows), pairs, chances)
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
    sampling.gather_samples(n, w, s_next, r_hat, d, v, GAMMA, 0.3, q, inflow)
    np.testing.assert_allclose(q, expected_q, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(inflow, expected_inflow, rtol=1e-12)


def test_gather_estimates_the_model():
    rng, rows, allowed, d, v = table(3)
    pay = rng.random(N)
    _, w, n = planned(d, allowed, 400_000, 0.5)
    s_next, r_hat = drawn(rows, pay, False, n, 1, 0)
    q, inflow = np.zeros(N), np.empty(S)
    sampling.gather_samples(n, w, s_next, r_hat, d, v, GAMMA, 1.0, q, inflow)
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
    sampling.move_marginal(inflow, xi, GAMMA, 0.25, 0.1, x, average)
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
    sampling.add_rewards(n, payoffs, paid, drawn)
    np.testing.assert_allclose(paid, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(drawn, total)


@pytest.mark.parametrize("seed", range(5))
def test_spread_and_log_marginal(seed):
    rng, _, allowed, d, _ = table(seed)
    u = rng.normal(size=N)
    w = planned(d, allowed, N, 0.0)[1]
    mean = np.average(u, weights=w)
    assert sampling.weighted_deviation(u, w) == pytest.approx(
        np.sqrt(np.average((u - mean) ** 2, weights=w)), rel=1e-12
    )
    x = np.append(rng.random(S - 1), 0.0)
    expected = u + np.repeat(2.5 * np.log(np.maximum(x, 1e-6)), A)
    sampling.add_log_marginal(x, 2.5, 1e-6, u)
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
    sampling.improve_policy(q, u, allowed, 1.7, tau, log_mu, big_q, log_pi, v)
    for found, reference in zip((big_q, log_pi, v), expected, strict=True):
        np.testing.assert_allclose(found, reference, rtol=1e-11, atol=1e-12)


def test_improve_survives_huge_steps():
    _, _, allowed, _, v = table(0)
    q = np.linspace(-1e5, 1e5, N)
    log_pi = np.where(allowed, 0.0, -np.inf)
    sampling.improve_policy(q, np.zeros(N), allowed, 10.0, 0.0, np.zeros(1), np.zeros(N), log_pi, v)
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
    sampling.update_occupancy(allowed, log_pi, x, 0.3, 10.0, v, d, d_bar)
    np.testing.assert_allclose(v, expected_v, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(d, expected_d, rtol=1e-12)
    np.testing.assert_allclose(d_bar, expected_bar, rtol=1e-12)


def test_averages_keep_their_mass():
    rng, _, _, d, _ = table(1)
    allowed, d_bar, v = np.ones(N, dtype=np.bool_), d.copy(), np.zeros(S)
    log_pi, d = np.full(N, -np.log(A)), d.copy()
    for t in range(1, 2000):
        weight = 5 / (t + 4)
        sampling.update_occupancy(allowed, log_pi, rng.dirichlet(np.ones(S)), weight, 10.0, v, d, d_bar)
    assert d_bar.sum() == pytest.approx(1, abs=1e-12)


def test_one_state_and_one_pair():
    sums = (np.array([0, 1]), np.array([0]), np.ones(1))
    w, n = np.empty(1), np.empty(1, dtype=np.int64)
    assert sampling.plan_samples(np.ones(1), np.ones(1, dtype=bool), 0.5, 3, 0.5, w, n) == 3
    s_next, r_hat, q, inflow, v = np.empty(3, dtype=np.int64), np.empty(3), np.zeros(1), np.empty(1), np.zeros(1)
    sampling.draw_samples(*sums, np.array([2.0]), False, n, 0, 0, s_next, r_hat)
    sampling.gather_samples(n, w, s_next, r_hat, np.ones(1), v, GAMMA, 1.0, q, inflow)
    assert (s_next.tolist(), q.tolist(), inflow.tolist()) == ([0, 0, 0], [2.0], [1.0])


@pytest.mark.parametrize("count", [1, 7, 2**16, 2**16 + 1, 10**6])
def test_many_samples_of_a_pair_are_many_steps(count):
    n, w = np.array([count]), np.array([float(count)])
    q, rate = np.ones(1), 1e-6
    sampling.gather_samples(
        n, w, np.zeros(count, int), np.zeros(count), np.ones(1), np.zeros(1), 0.5, rate, q, np.empty(1)
    )
    assert q[0] == pytest.approx((1 - rate) ** count, rel=1e-9)


class TestBadArguments:
    """Wrong lengths, counts and numbers get an error; nothing beyond an array is read or written."""

    def setup_method(self):
        _, rows, self.allowed, self.d, self.v = table(0)
        self.sums = sums_of(rows)
        self.total, self.w, self.n = planned(self.d, self.allowed, 50, 0.5)

    @pytest.mark.parametrize("d", [np.nan, np.inf, -0.5, 1e-320])
    def test_occupancies(self, d):
        given = np.full(N, d)
        with pytest.raises(ValueError, match="plan_samples needs"):
            planned(given, self.allowed, 50, 0.5)

    @pytest.mark.parametrize(
        ("delta", "batch", "offset"),
        [(np.nan, 1, 0.5), (2.0, 1, 0.5), (0.5, -1, 0.5), (0.5, MOST, 0.5), (0.5, 1, np.nan), (0.5, 1, 1.0)],
    )
    def test_plans(self, delta, batch, offset):
        with pytest.raises(ValueError, match="plan_samples needs"):
            planned(self.d, self.allowed, batch, offset, delta)
        with pytest.raises(ValueError, match="count > 0"):
            planned(self.d, np.zeros(N, dtype=bool), 5, 0.5)

    @pytest.mark.parametrize("wrong", [-1, 1, MOST, -MOST - 1])
    def test_numbers_of_samples(self, wrong):
        n, total = self.n.copy(), self.total
        n[4] += wrong if abs(wrong) == 1 else 0
        n[4] = n[4] if abs(wrong) == 1 else wrong
        s_next, r_hat = np.zeros(total, dtype=np.int64), np.zeros(total)
        calls = [
            lambda: sampling.draw_samples(*self.sums, self.d, False, n, 0, 0, s_next, r_hat),
            lambda: sampling.gather_samples(n, self.w, s_next, r_hat, self.d, self.v, 0.9, 0.1, self.d, np.empty(S)),
            lambda: sampling.add_rewards(n, r_hat, np.zeros(N), np.zeros(N, dtype=np.int64)),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="needs"):
                call()

    def test_hits(self):
        hits = np.zeros(self.sums[2].size, dtype=np.int64)
        for wrong in (-1, 2**26 + 1, MOST):
            self.n[3] = wrong
            with pytest.raises(ValueError, match="draw_hits needs"):
                sampling.draw_hits(*self.sums, self.n, 0, hits)

    def test_rows_without_entries(self):
        empty = (np.array([0, 1, 1]), np.array([0]), np.ones(1))
        one = np.array([0, 1])
        with pytest.raises(ValueError, match="draw_hits needs"):
            sampling.draw_hits(*empty, one, 0, np.zeros(1, dtype=np.int64))
        with pytest.raises(ValueError, match="draw_samples needs"):
            sampling.draw_samples(*empty, np.ones(2), False, one, 0, 0, np.zeros(1, dtype=np.int64), np.zeros(1))
        for row in (1, 2, -1, MOST):
            with pytest.raises(ValueError, match="draw_successors needs"):
                sampling.draw_successors(*empty, np.array([row]), np.array([0.5]))

    def test_states(self):
        for state in (-1, S, MOST):
            s_next, r_hat = np.full(self.total, state), np.zeros(self.total)
            with pytest.raises(ValueError, match="gather_samples needs"):
                sampling.gather_samples(self.n, self.w, s_next, r_hat, self.d, self.v, 0.9, 0.1, self.d, np.empty(S))

    def test_hash_tables(self):
        keys, ones, numbers = np.arange(8), np.ones(8, dtype=np.int64), np.zeros(8)
        new = (keys, ones, numbers, numbers, numbers)
        for slots, fill, used in [
            (12, 0, 0),
            (8, 0, 0),
            (32, 3, 0),
            (32, -1, 0),
            (32, 0, 9),
            (32, 0, -1),
            (32, 0, MOST),
        ]:
            tables = group_tables(16, slots)
            tables[0][:] = fill
            with pytest.raises(ValueError, match="add_groups needs"):
                sampling.add_groups(*tables, used, *new)
        # a table full of other keys has no place for one more
        tables = group_tables(16, 32)
        tables[0][:], tables[1][:] = 1, 99
        with pytest.raises(ValueError, match="add_groups needs at >= 0"):
            sampling.add_groups(*tables, 8, *new)
        for size, used in [(8, 8), (12, 4), (16, 9), (16, -1)]:
            with pytest.raises(ValueError, match="fill_slots needs"):
                sampling.fill_slots(np.zeros(size, dtype=np.int64), keys, used)

    def test_lengths_and_types(self):
        with pytest.raises(ValueError, match="running_sums needs out"):
            sampling.running_sums(*self.sums, np.empty(3))
        with pytest.raises(ValueError, match="improve_policy needs"):
            sampling.improve_policy(self.d, self.d, self.allowed, 1.0, 0.5, np.zeros(1), self.d, self.d, self.v)
        with pytest.raises(ValueError, match="update_occupancy needs"):
            sampling.update_occupancy(self.allowed, self.d, self.v, 0.5, 1.0, self.v[:3].copy(), self.d, self.d)
        with pytest.raises(ValueError, match="add_log_marginal needs"):
            sampling.add_log_marginal(np.zeros(0), 1.0, 1.0, self.d)
        with pytest.raises(TypeError, match="`seed` must be a non-negative integer"):
            sampling.uniform(-1, 0)
        with pytest.raises(TypeError, match="`n` must be int64"):
            sampling.draw_hits(*self.sums, self.n.astype(np.int32), 0, self.n)
