"""The loops of the proximal interior point against plain matrices."""

from dataclasses import dataclass

import numpy as np
import pytest
import scipy.sparse as sp

from cautious._core import proximal as kernels

GAMMA = 0.9
NONE, EMPTY = np.zeros(0, dtype=np.int64), np.zeros(0)


@dataclass
class Ragged:
    """States with one to three pairs: CSR arrays, B and E as plain matrices, and the arcs of a transport."""

    first: np.ndarray
    rows: tuple
    matrix: np.ndarray
    own: np.ndarray
    free: np.ndarray
    damp: np.ndarray
    ridge: np.ndarray
    arcs: tuple
    n_nodes: int

    @property
    def csr(self):
        return (self.first, *self.rows, GAMMA)

    @property
    def newton(self):
        return (*self.csr, self.free, self.damp, self.ridge, *self.arcs)

    def dense(self):
        """The Newton matrix from its definition."""
        answers = np.diag(self.free) - (self.free[:, None] * (self.own * self.damp) @ self.own.T) * self.free
        at, tail, head, ease = self.arcs
        on_nodes = np.zeros((self.free.size, self.n_nodes))
        if self.n_nodes:
            on_nodes[:, at] = self.own
        whole = np.hstack([self.matrix, -on_nodes])
        found = whole.T @ answers @ whole + np.diag(np.r_[self.ridge, np.zeros(self.n_nodes)])
        for one, other, each in zip(tail, head, ease, strict=True):
            edge = np.zeros(whole.shape[1])
            edge[self.damp.size + one], edge[self.damp.size + other] = 1.0, -1.0
            found += each * np.outer(edge, edge)
        return found


def made(index, n_nodes, n=9):
    rng = np.random.default_rng(3)
    counts = rng.integers(1, 4, size=n)
    first = np.r_[0, np.cumsum(counts)]
    dense = rng.dirichlet(np.ones(n), size=first[-1]) * (rng.random((first[-1], n)) < 0.6)
    rows = sp.csr_array(dense)
    own = np.repeat(np.eye(n), counts, axis=0)
    free = rng.exponential(size=first[-1])
    damp = rng.random(n) / (own.T @ free)
    arcs = (NONE, NONE, NONE, EMPTY)
    if n_nodes:
        tail = rng.integers(n_nodes, size=20)
        head = (tail + rng.integers(1, n_nodes, size=20)) % n_nodes
        arcs = (rng.permutation(n_nodes)[:n], tail, head, rng.exponential(size=20))
    csr = (rows.indptr.astype(index), rows.indices.astype(index), rows.data)
    return Ragged(first, csr, GAMMA * dense - own, own, free, damp, rng.random(n), arcs, n_nodes)


@pytest.fixture(params=[np.int32, np.int64])
def ragged(request):
    return made(request.param, 0)


@pytest.mark.parametrize("n_nodes", [0, 11])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_newton_matrix(index, n_nodes):
    ragged, rng = made(index, n_nodes), np.random.default_rng(1)
    x, f, out, on_nodes = rng.normal(size=9), rng.normal(size=n_nodes), np.empty(9), np.empty(n_nodes)
    kernels.apply_newton(*ragged.newton, x, f, out, on_nodes)
    assert np.r_[out, on_nodes] == pytest.approx(ragged.dense() @ np.r_[x, f], abs=1e-13)


def test_diagonals(ragged):
    """Without damping they are exact; with it the state's own entry is."""
    out, marginal = np.empty(9), np.empty(9)
    kernels.newton_diagonal(*ragged.csr, ragged.free, np.zeros(9), out, marginal)
    assert out == pytest.approx(ragged.free @ ragged.matrix**2)
    assert marginal == pytest.approx(ragged.own.T @ ragged.free)
    kernels.newton_diagonal(*ragged.csr, ragged.free, ragged.damp, out, marginal)
    total = ragged.own.T @ ragged.free
    assert marginal == pytest.approx(total - ragged.damp * total**2, abs=1e-14)
    left = ragged.free * (1 - ragged.own @ ragged.damp * ragged.free)
    others = left @ (ragged.matrix * (1 - ragged.own)) ** 2
    here = np.sum(ragged.matrix * ragged.own, axis=1)
    own = ragged.own.T @ (ragged.free * here**2) - ragged.damp * (ragged.own.T @ (ragged.free * here)) ** 2
    assert out == pytest.approx(others + own)


@pytest.mark.parametrize("n_nodes", [0, 11])
def test_conjugate_gradients(n_nodes):
    """The dense solution; and chunks give the same answer as one run, because the clock is asked in between."""
    ragged, rng = made(np.int32, n_nodes), np.random.default_rng(2)
    dense = ragged.dense()
    right, own, node = dense @ rng.normal(size=9 + n_nodes), np.diag(dense)[:9].copy(), np.diag(dense)[9:].copy()
    across = np.zeros(9)
    if n_nodes:
        total = ragged.own.T @ ragged.free
        across = 0.5 * (total - ragged.damp * total**2)
    found = []
    for chunk in (1, 7, 500):
        vectors, nodes, inner, taken = np.zeros((3, 9)), np.zeros((3, n_nodes)), 0.0, 0
        vectors[1], nodes[1] = right[:9], right[9:]
        for _ in range(500):
            inner, made_now = kernels.conjugate_gradients(
                *ragged.newton, own, node, across, 0.01, vectors, nodes, inner, 1e-11, chunk
            )
            taken += made_now
            if inner == 0.0:
                break
        assert 0 < taken < 200
        found.append(np.r_[vectors[0], nodes[0]])
    assert np.abs(dense @ found[0] - right).max() <= 1e-9
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


def test_heavy_pairs_are_those_that_count_somewhere(ragged):
    """Against the definition: some entry of free * b^2 above a share of the diagonal; then copied as they are."""
    free = 10.0 ** np.random.default_rng(4).uniform(-6, 0, size=ragged.free.size)
    diagonal = free @ ragged.matrix**2
    plain = np.maximum((ragged.matrix + ragged.own) ** 2, ragged.own)
    expected = (free[:, None] * plain / diagonal).max(axis=1) > 1e-3
    heavy = np.empty(free.size, np.bool_)
    n_rows, n_entries = kernels.mark_heavy(*ragged.csr, free, diagonal, 1e-3, heavy)
    assert np.array_equal(heavy, expected)
    assert 0 < n_rows == expected.sum() < free.size
    index = ragged.rows[0].dtype
    copied = np.empty(10, np.int64), np.empty(n_rows + 1, index), np.empty(n_entries, index)
    new_data, new_free = np.empty(n_entries), np.empty(n_rows)
    kernels.copy_heavy(ragged.first, *ragged.rows, free, heavy, *copied, new_data, new_free)
    rows = sp.csr_array((new_data, copied[2], copied[1]), shape=(n_rows, 9))
    assert GAMMA * rows.toarray() == pytest.approx((ragged.matrix + ragged.own)[expected], abs=1e-15)
    assert np.array_equal(new_free, free[expected])
    assert np.array_equal(np.diff(copied[0]), ragged.own[expected].sum(axis=0))


def test_no_pair_at_all():
    """States whose pairs were all left out: the ridge alone answers."""
    first, rows = np.zeros(4, np.int64), (np.zeros(1, np.int32), np.zeros(0, np.int32), EMPTY)
    ridge, out = np.array([1.0, 2.0, 4.0]), np.empty(3)
    newton = (first, *rows, GAMMA, EMPTY, np.zeros(3), ridge, NONE, NONE, NONE, EMPTY)
    kernels.apply_newton(*newton, np.ones(3), EMPTY, out, np.empty(0))
    assert np.array_equal(out, ridge)
    vectors = np.zeros((3, 3))
    vectors[1] = 1.0
    inner, taken = kernels.conjugate_gradients(
        *newton, ridge, EMPTY, np.zeros(3), 0.0, vectors, np.zeros((3, 0)), 0.0, 1e-12, 10
    )
    assert inner == 0.0
    assert taken <= 3
    assert vectors[0] == pytest.approx(1 / ridge)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (0, np.arange(9)),
        (0, np.arange(10)),
        (5, np.zeros(3)),
        (6, np.zeros(8)),
        (7, np.zeros(8)),
        (8, NONE),
        (9, NONE),
        (10, NONE),
        (11, EMPTY),
        (12, np.zeros(8)),
        (13, EMPTY),
        (14, np.zeros(8)),
        (15, EMPTY),
    ],
)
def test_newton_matrices_that_do_not_fit_are_refused(place, wrong):
    given = [*made(np.int64, 11).newton, np.zeros(9), np.zeros(11), np.zeros(9), np.zeros(11)]
    kernels.apply_newton(*given)
    given[place] = wrong
    with pytest.raises(ValueError, match="apply_newton needs"):
        kernels.apply_newton(*given)


@pytest.mark.parametrize(
    ("place", "wrong"),
    [
        (12, np.zeros(8)),
        (13, np.zeros(10)),
        (14, np.zeros(8)),
        (16, np.zeros((2, 9))),
        (17, np.zeros((3, 10))),
        (20, -1),
    ],
)
def test_linear_systems_that_do_not_fit_are_refused(place, wrong):
    given = [*made(np.int64, 11).newton, np.ones(9), np.ones(11), np.zeros(9), 0.0]
    given += [np.zeros((3, 9)), np.zeros((3, 11)), 0.0, 1e-9, 5]
    assert kernels.conjugate_gradients(*given) == (0.0, 0)
    given[place] = wrong
    with pytest.raises(ValueError, match="conjugate_gradients needs"):
        kernels.conjugate_gradients(*given)


def test_other_arrays_that_do_not_fit_are_refused(ragged):
    n, index = ragged.free.size, ragged.rows[0].dtype
    heavy, copied = np.ones(n, np.bool_), (np.empty(10, np.int64), np.empty(n + 1, index))
    entries = ragged.rows[2].size
    room = (np.empty(entries, index), np.empty(entries), np.empty(n))
    kernels.copy_heavy(ragged.first, *ragged.rows, ragged.free, heavy, *copied, *room)
    few = (np.empty(entries - 1, index), np.empty(entries - 1), np.empty(n))
    refused = [
        lambda: kernels.newton_diagonal(*ragged.csr, ragged.free, np.zeros(8), np.empty(9), np.empty(9)),
        lambda: kernels.mark_heavy(*ragged.csr, ragged.free, np.ones(9), 0.1, heavy[1:].copy()),
        lambda: kernels.copy_heavy(ragged.first, *ragged.rows, ragged.free, heavy, *copied, *few),
    ]
    for call in refused:
        with pytest.raises(ValueError, match="needs"):
            call()
