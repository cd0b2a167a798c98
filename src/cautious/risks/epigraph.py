"""The conic form of a convex risk, in the words of a cone solver.

    risk(d) = constant + min over y of  <cost, y> + 1/2 sum quadratic y^2
              such that  rhs - on_pairs d - on_own y  lies in the product of ``cones``.

``cones`` lists (kind, rows): "zero", "nonnegative", or "exponential" (three rows (x, y, z) with y exp(x/y) <= z).
``linear`` is a cost on d itself. At the optimum the multipliers z of the rows give the slope of the risk,
linear + on_pairs' z; ``witness`` turns z into what the risk's own ``cut`` understands.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask


@dataclass(frozen=True)
class Epigraph:
    """See the module's text; ``on_pairs`` is (rows, S*A), ``on_own`` is (rows, size of y)."""

    cost: Array
    on_pairs: sp.csr_array
    on_own: sp.csr_array
    rhs: Array
    cones: tuple[tuple[str, int], ...]
    witness: Callable[[Array], Any]
    quadratic: Array | None = None
    linear: Array | None = None


def state_sums(active: Mask) -> sp.csr_array:
    """(S, S*A): sums the pairs of each state."""
    n_states, n_actions = active.shape
    pairs = np.arange(n_states * n_actions)
    return sp.csr_array((np.ones(pairs.size), (pairs // n_actions, pairs)), shape=(n_states, pairs.size))


def identity(size: int, scale: float = 1.0) -> sp.csr_array:
    """A scaled sparse identity."""
    return sp.csr_array(scale * sp.eye_array(size))
