"""Random rows and chains for tests of compiled loops, with their dense tables."""

import numpy as np
import scipy.sparse as sp

GAMMA = 0.9
KINDS = (np.int32, np.int64)


def csr_of(dense, kind=np.int32):
    """Row pointers, column indices and data of a table, with indices of a kind."""
    rows = sp.csr_array(dense)
    return rows.indptr.astype(kind), rows.indices.astype(kind), rows.data


def dense_of(pointer, successor, chance):
    """A chain as a table; there may be more room than entries."""
    n = int(pointer[-1])
    shape = (pointer.size - 1, pointer.size - 1)
    return sp.csr_array((chance[:n], successor[:n].astype(int), pointer.astype(int)), shape=shape).toarray()


def random_rows(rng, n=9, m=3, density=0.4):
    """A table (S*A, S) of distributions with zeros."""
    dense = rng.random((n * m, n)) * (rng.random((n * m, n)) < density)
    dense[np.arange(n * m), rng.integers(n, size=n * m)] += 0.1
    return dense / dense.sum(axis=1, keepdims=True)


def random_chain(rng, n=12):
    """A table (S, S) of distributions; one state only stays where it is."""
    dense = rng.random((n, n)) * (rng.random((n, n)) < 0.3) + 0.2 * np.eye(n)
    dense[n // 4] = np.eye(n)[n // 4]
    return dense / dense.sum(axis=1, keepdims=True)
