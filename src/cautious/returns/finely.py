"""What a policy with memory earns, told apart more finely than it remembers.

Memory is only as fine as decisions need it: of a shortfall, returns above the target are not told apart at all. To say
how the whole return is distributed, what was earned is kept in narrow bins beside the memory. The number of bins is
such that rounding leaves little next to the standard deviation, and that they can be afforded.
"""

from dataclasses import replace

import numpy as np

from cautious._core import earned as kernels
from cautious.arrays import Array, Indices
from cautious.returns.earnings import Earnings
from cautious.returns.forward import ReturnDistribution, distribution_of, later_returns
from cautious.returns.memory_policy import MemoryPolicy

# bins in a standard deviation; cells of one step, and moves of cells in all of them
BINS_IN_DEVIATION, MOST_CELLS, MOST_MOVES = 200.0, 3e6, 3e8
# widths that are tried; if all cost too much, the memory has too many nodes
MOST_TRIES = 3
# cells with less mass, at the ends of a row, are left out: together they are part of the stated error
LEAST_MASS = 1e-17
# numbers that a cell keeps, as in the compiled loop
KEPT = 5


def follow_finely(earnings: Earnings, policy: MemoryPolicy, deviation: float) -> ReturnDistribution | None:
    """The distribution of the return, whose standard deviation is known; the bins are as narrow as can be afforded.

    None where even wide bins cost too much.
    """
    width = max(deviation / BINS_IN_DEVIATION, 1e-12 * earnings.size, 1e-300)
    for _ in range(MOST_TRIES):
        found = _followed(earnings, policy, width)
        if isinstance(found, ReturnDistribution):
            return found
        width *= max(2.0, found)
    return None


def _followed(earnings: Earnings, policy: MemoryPolicy, width: float) -> ReturnDistribution | float:
    """With bins of this width; if that takes too much, about how many times as much as can be afforded."""
    mdp, first = earnings.mdp, policy.grids[0].count
    low, high = np.zeros(mdp.n_states * first, np.int64), np.full(mdp.n_states * first, -1, np.int64)
    starts = np.flatnonzero(mdp.start > 0)
    high[starts * first + policy.first()] = 0
    cells, place, moves, lost = _empty(starts.size), _places(low, high), 0.0, 0.0
    cells[:3, :], cells[3:, :], cells[0] = 0.0, 0.0, mdp.start[starts]
    outcomes = mdp.transitions.nnz / (mdp.n_states * mdp.n_actions)
    for t in range(policy.n_steps):
        own, behind = policy.grids[t], policy.grids[t + 1]
        asked = (
            *mdp.csr,
            earnings.paid,
            float(policy.scales[t]),
            policy.tables[t].whole(),
            own.nodes,
            own.step,
            behind.nodes,
            behind.step,
            policy.to_upper,
            float(policy.snap),
            width,
            low,
            high,
        )
        next_low = np.full(mdp.n_states * behind.count, np.iinfo(np.int64).max // 2)
        next_high = -next_low
        kernels.reach_bins(*asked, next_low, next_high)
        next_low[next_high < next_low] = 0
        next_high[next_high < next_low] = -1
        next_place = _places(next_low, next_high)
        n_cells = int(np.maximum(next_high - next_low + 1, 0).sum())
        moves += outcomes * cells.shape[1]
        if n_cells > MOST_CELLS or moves > MOST_MOVES:
            left = policy.n_steps - t - 1
            return float(max(n_cells / MOST_CELLS, (moves + left * outcomes * n_cells) / MOST_MOVES))
        moved = _empty(n_cells)
        kernels.move_cells(*asked, place, cells, next_low, next_high, next_place, moved)
        cells, (low, high, place, left_out) = moved, _trimmed(moved[0], next_low, next_high, next_place)
        lost += left_out
    found = _distribution(earnings, policy, width, cells, low, high, place)
    return replace(found, relative=found.relative + lost)


def _empty(n_cells: int) -> Array:
    """Cells (KEPT, n) without mass: mass, sums of deviations and of squares, least and most."""
    cells = np.zeros((KEPT, n_cells))
    cells[3], cells[4] = np.inf, -np.inf
    return cells


def _places(low: Indices, high: Indices) -> Indices:
    """Where the cells of each row begin."""
    counts = np.maximum(high - low + 1, 0)
    return np.asarray(np.cumsum(counts) - counts)


def _trimmed(mass: Array, low: Indices, high: Indices, place: Indices) -> tuple[Indices, Indices, Indices, float]:
    """The rows without cells of negligible mass at their ends; and that mass."""
    filled, used = np.flatnonzero(mass > LEAST_MASS), np.flatnonzero(high >= low)
    rows = used[np.searchsorted(place[used], filled, side="right") - 1]
    firsts = np.flatnonzero(np.diff(rows, prepend=-1))
    lasts = np.append(firsts[1:], rows.size) - 1
    own = rows[firsts]
    new_low, new_high, new_place = np.zeros_like(low), np.full_like(high, -1), np.zeros_like(place)
    new_low[own] = low[own] + filled[firsts] - place[own]
    new_high[own] = low[own] + filled[lasts] - place[own]
    new_place[own] = filled[firsts]
    ends = np.column_stack([filled[firsts], filled[lasts] + 1]).ravel()
    kept = float(np.add.reduceat(np.append(mass, 0.0), ends)[::2].sum())
    return new_low, new_high, new_place, max(0.0, float(mass.sum()) - kept)


def _distribution(
    earnings: Earnings, policy: MemoryPolicy, width: float, cells: Array, low: Indices, high: Indices, place: Indices
) -> ReturnDistribution:
    filled, used = np.flatnonzero(cells[0] > LEAST_MASS), np.flatnonzero(high >= low)
    rows = used[np.searchsorted(place[used], filled, side="right") - 1]
    mass, first, second, least, most = cells[:, filled]
    earned = earnings.offset + width * (low[rows] + filled - place[rows])
    return distribution_of(
        earnings,
        policy,
        later_returns(earnings, policy, rows // policy.grids[-1].count),
        mass,
        earned + first / mass,
        earned + least,
        earned + most,
        np.maximum(second / mass - (first / mass) ** 2, 0.0),
    )
