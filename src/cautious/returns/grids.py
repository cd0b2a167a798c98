"""Grids of targets for every step.

A target after t steps is the first target less what was earned, so that grids cover what that can be, and not more. A
smooth loss (variance, entropic) leaves chords an error of the square of the step times gamma^t, and steps may grow; of
a shortfall or a threshold only targets matter that are neither certain nor impossible to be earned, and their range
shrinks like gamma^t, so that steps must fall. The exponents below balance errors and work. Steps change by factors of
two, and all grids have the first target among their nodes, or would if they were wider: a reward of zero then leads
from node to node.

Where only a few sums of rewards are possible, the grids hold just the targets that they leave, and values are exact.
"""

import math

import numpy as np

from cautious.arrays import Array
from cautious.models.encodings import EPS
from cautious.returns.backward import Grid
from cautious.returns.earnings import Earnings

# steps grow like gamma^(-t / 3), or fall like gamma^(t / 2)
SMOOTH_EXPONENT, SHARP_EXPONENT = -1 / 3, 1 / 2
# where targets are told apart, steps are no smaller than this share of the first one
LEAST_STEP = 1 / 64
# sums of rewards that differ by less than this share of the largest sum are one; no more of them are listed
SAME_SUM, MOST_SUMS = 1e-12, 20_000


def target_grids(
    earnings: Earnings,
    sharp: bool,
    low: float,
    high: float,
    step: float,
    reach: float = math.inf,
    told_apart: bool = False,
    centre: Array | None = None,
) -> list[Grid]:
    """Grids for first targets from ``low`` to ``high``; the first step has this size.

    What is more than ``reach`` away from all first targets, less the ``centre`` (n_steps + 1,) of what is earned before
    each step, is left to the bounds beyond the grids. Targets that are
    certain, or cannot be earned, are ``told_apart`` from the others by grids that are wider by what rounding to nodes
    may have moved them before.
    """
    earned_least, earned_most = earnings.earned
    exponent = SHARP_EXPONENT if sharp else SMOOTH_EXPONENT
    gamma, grids, moved = earnings.mdp.discount, [], 0.0
    for t in range(earnings.n_steps + 1):
        own = step
        if 0 < gamma < 1:
            own = step * 2.0 ** round(exponent * t * math.log2(gamma))
        if told_apart:
            own = max(own, LEAST_STEP * step)
            moved += own
        middle = 0.0 if centre is None else float(centre[t])
        first = low - min(float(earned_most[t]), middle + reach)
        last = high - max(float(earned_least[t]), middle - reach)
        if sharp and t > 0:
            # below every target is certain, above none can be earned
            least = float(earnings.at(earnings.least, t).min()) - moved
            most = float(earnings.at(earnings.most, t).max()) + moved
            first, last = min(max(first, least), most), max(min(last, most), least)
        begin = math.floor((first - low) / own * (1 + 4 * EPS)) - (t > 0)
        end = max(begin + (t > 0), math.ceil((last - low) / own * (1 - 4 * EPS)) + (t > 0))
        grids.append(Grid.even(low + begin * own, own, end - begin + 1))
    return grids


def possible_sums(earnings: Earnings) -> list[Array] | None:
    """What can have been earned before each step, ascending; None where that is too much to list."""
    sums, found = np.zeros(1), [np.zeros(1)]
    for t in range(earnings.n_steps):
        paid = earnings.scales[t] * earnings.paid_at(t)
        if sums.size * paid.size > 50 * MOST_SUMS:
            return None
        sums = distinct(np.add.outer(sums, paid), SAME_SUM * earnings.size)
        if sums.size > MOST_SUMS:
            return None
        found.append(sums)
    return found


def distinct(values: Array, least: float) -> Array:
    """The values in order, without those that are less than this above one that is kept."""
    ordered = np.unique(values)
    return np.asarray(ordered[np.concatenate([[True], np.diff(ordered) > least])])


def exact_grids(earnings: Earnings, sums: list[Array], targets: Array) -> list[Grid]:
    """Grids of all targets that can be left of the first ``targets``, which ascend."""
    return [Grid(distinct(np.subtract.outer(targets, before), SAME_SUM * earnings.size)) for before in sums]


def range_of_return(earnings: Earnings) -> tuple[float, float]:
    """What a return can be, from the start; infinite where nothing is known."""
    starts = earnings.mdp.start > 0
    least, most = earnings.at(earnings.least, 0)[starts].min(), earnings.at(earnings.most, 0)[starts].max()
    return float(least), float(most)


def nodes_in_all(grids: list[Grid]) -> int:
    """The number of targets of all steps together."""
    return sum(grid.count for grid in grids)
