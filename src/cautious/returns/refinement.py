"""Grids of targets that are refined where it matters: where an episode goes, and values bend.

Of a smooth loss (variance, entropic) the values between two nodes are bounded by chords. What that may be off by is
known of every interval, from the slopes next to it, and counts as much as the mass of the episodes that come there,
if a target between two nodes is taken for one of them at random, as chords do. The sum over all intervals is about
what the bound is off by. An interval that is cut into n pieces leaves 1 / n^2 of its part, so that the fewest nodes for
a sum that is asked for have n in proportion to the cube root of the part.
"""

import numpy as np

from cautious._core import targets as kernels
from cautious.arrays import Array
from cautious.returns.backward import TARGET_ROUNDING, Grid, Planned
from cautious.returns.earnings import Earnings

# pieces of one interval, at most; nodes of the first grid; masses that are left out
MOST_PIECES, FIRST_NODES, LEAST_MASS = 6, 129, 1e-13
# steps of bisection for the factor of the cube roots
BISECTIONS = 60


def chord_parts(earnings: Earnings, planned: Planned, node: int) -> list[Array]:
    """What every interval of the grids adds to the error of the value from the start at a node of the first grid.

    One array (n - 1,) for each step after the first.
    """
    mdp = earnings.mdp
    mass = np.zeros((mdp.n_states, planned.grids[0].count))
    mass[:, node] = mdp.start
    found: list[Array] = []
    for t, actions in enumerate(planned.actions):
        own, behind = planned.grids[t], planned.grids[t + 1]
        arrived = np.zeros((mdp.n_states, behind.count))
        scale = float(earnings.scales[t])
        kernels.split_step(
            *mdp.csr,
            earnings.paid,
            scale,
            actions.astype(np.int32),
            own.nodes,
            own.step,
            mass,
            LEAST_MASS,
            behind.nodes,
            behind.step,
            arrived,
        )
        mass = arrived
        errors = planned.chord_errors[t]
        found.append(np.einsum("sj,sj->j", np.maximum(mass[:, :-1], mass[:, 1:]), errors))
    return found


def refined(
    earnings: Earnings, planned: Planned, parts: list[Array], first: float, last: float, wanted: float
) -> list[Grid]:
    """Grids for first targets from ``first`` to ``last`` whose chords are off by about ``wanted`` in all."""
    factor = _factor(np.concatenate([np.zeros(1), *parts]), wanted)
    least, most = earnings.earned
    grids = [Grid.even(first, (last - first) / (FIRST_NODES - 1), FIRST_NODES) if last > first else _single(first)]
    for t, (grid, part) in enumerate(zip(planned.grids[1:], parts, strict=True), start=1):
        nodes = grid.nodes
        # what is left of the first targets, and one node more on both sides
        begin = max(0, int(np.searchsorted(nodes, first - most[t], side="left")) - 1)
        end = min(nodes.size, int(np.searchsorted(nodes, last - least[t], side="right")) + 1)
        nodes, part = nodes[begin:end], part[begin : end - 1]
        widths = np.diff(nodes)
        pieces = np.clip(np.ceil(np.cbrt(part / factor) - 0.5), 1, MOST_PIECES).astype(np.int64)
        pieces[widths <= 4 * MOST_PIECES * TARGET_ROUNDING * earnings.size] = 1
        inner = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        cut = np.repeat(nodes[:-1], pieces) + np.repeat(widths / pieces, pieces) * inner
        grids.append(Grid(np.append(cut, nodes[-1])))
    return grids


def _single(target: float) -> Grid:
    return Grid(np.array([target]))


def _factor(parts: Array, wanted: float) -> float:
    """The part that is left whole, where parts p are cut into (p / factor)^(1/3) pieces, so that ``wanted`` is left."""
    parts = parts[parts > 0]
    if parts.size == 0 or parts.sum() <= wanted:
        return float(parts.max(initial=0.0)) + 1e-300
    low, high = float(parts.max()) * 1e-30, float(parts.max())
    for _ in range(BISECTIONS):
        middle = float(np.sqrt(low * high))
        left = float(np.sum(parts / np.maximum(1.0, np.cbrt(parts / middle)) ** 2))
        low, high = (low, middle) if left > wanted else (middle, high)
    return low
