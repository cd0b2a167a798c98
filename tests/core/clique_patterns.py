"""Cliques of every kind, and matrices that are sums of dense blocks on them."""

import numpy as np

KINDS = ["diagonal", "dense", "star", "path", "islands", "grid", "random"]


def cliques(rng, kind, n):
    """Random cliques, as lists of unknowns."""
    if kind == "diagonal":
        return [[i] for i in range(n)]
    if kind == "dense":
        return [list(range(n))]
    if kind == "star":
        return [[0, i] for i in range(1, n)]
    if kind == "path":
        return [[i, i + 1] for i in range(n - 1)]
    if kind == "islands":
        return [sorted({*(10 * (c % (n // 10)) + rng.integers(10, size=3)).tolist()}) for c in range(n)]
    if kind == "grid":
        side = int(n**0.5)
        across = [[i, i + 1] if (i + 1) % side and i + 1 < n else [i] for i in range(n)]
        return [[*block, i + side] if i + side < n else block for i, block in enumerate(across)]
    return [sorted({*rng.integers(n, size=rng.integers(1, 6)).tolist()}) for _ in range(n)]


def packed(blocks, dtype=np.int64):
    """(start, members) of lists of unknowns."""
    start = np.concatenate([[0], np.cumsum([len(block) for block in blocks])]).astype(dtype)
    return start, np.concatenate(blocks).astype(dtype)


def adjacency(blocks, n):
    """Which unknowns share a clique, as a table without its diagonal."""
    table = np.zeros((n, n), dtype=bool)
    for block in blocks:
        table[np.ix_(block, block)] = True
    np.fill_diagonal(table, False)
    return table


def dense_factor(table, order):
    """L of a matrix with this pattern whose entries do not cancel, in this order."""
    matrix = -table.astype(float) + np.diag(1.0 + table.sum(axis=1))
    return np.linalg.cholesky(matrix[np.ix_(order, order)])
