"""How the return of an episode is distributed under a policy, as a page draws it."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.errors import InputError
from cautious.solution import Solution

# the share of episodes that is called the worst
WORST_SHARE = 0.05
# finer than any screen
MOST_CELLS = 4000
LARGEST_ROWS = 100_000


def return_arrays(solution: Solution) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Facts and arrays: ``mass`` and ``mean`` of the cells, from the lowest return."""
    if solution.mdp.transitions.nnz > LARGEST_ROWS:
        raise InputError(
            f"returns are drawn for models of at most {LARGEST_ROWS:,} transitions, and this one has "
            f"{solution.mdp.transitions.nnz:,}; solution.return_distribution() computes them in Python"
        )
    found = solution.return_distribution()
    low, high = found.cvar(1 - WORST_SHARE)
    facts = {
        "expected": found.expectation,
        "worst": -(low + high) / 2,
        "worst_error": (high - low) / 2,
        "share": WORST_SHARE,
        "resolution": found.resolution,
    }
    mass, mean = _coarser(found.mass, found.mean)
    return facts, {"mass": mass.astype("<f4"), "mean": mean.astype("<f4")}


def _coarser(mass: NDArray[Any], mean: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """At most so many cells, of equal width; chances and means are kept."""
    if mass.size <= MOST_CELLS:
        return mass, mean
    width = max(float(np.ptp(mean)), 1e-300) / MOST_CELLS
    place = np.minimum(((mean - mean.min()) / width).astype(np.int64), MOST_CELLS - 1)
    total = np.bincount(place, mass, MOST_CELLS)
    kept = total > 0
    return total[kept], (np.bincount(place, mass * mean, MOST_CELLS)[kept] / total[kept])
