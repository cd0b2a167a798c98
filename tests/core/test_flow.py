"""The flow operator against plain NumPy."""

import numpy as np
import pytest
from sample_rows import GAMMA, KINDS, csr_of

from cautious._core import flow


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_flow_operator(seed, kind):
    """States have one to three pairs, or all of them three."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 4, size=8) if seed else np.full(8, 3)
    first = np.r_[0, np.cumsum(counts)]
    n = first[-1]
    dense = rng.random((n, 8)) * (rng.random((n, 8)) < 0.5)
    model, b = (first, *csr_of(dense, kind), GAMMA), GAMMA * dense - np.repeat(np.eye(8), counts, axis=0)
    x, y, rows, columns = rng.normal(size=8), rng.normal(size=n), np.empty(n), np.empty(8)
    flow.flow_rows(*model, x, rows)
    flow.flow_columns(*model, y, columns)
    np.testing.assert_allclose(rows, b @ x, atol=1e-13)
    np.testing.assert_allclose(columns, b.T @ y, atol=1e-13)
    for call, *wrong in (
        (flow.flow_rows, x[:7], rows),
        (flow.flow_rows, x, rows[1:]),
        (flow.flow_columns, y[1:], columns),
        (flow.flow_columns, y, columns[1:]),
    ):
        with pytest.raises(ValueError, match="needs pairs_fit"):
            call(*model, *wrong)
