r"""
Quadratic: distribute the visits evenly
=======================================

The risk ``ca.Quadratic(prior)`` is

.. math::

    \frac{1}{2} \sum (d - \text{prior})^2

Half the squared distance to a prior, on pairs or, with a prior over states as here, on
the state marginal. It is smooth: small deviations cost almost nothing, and the largest
entry costs most.
"""

# %%
# Collecting experience in a dangerous world
# ------------------------------------------
# Before the world changes (the paper's experiment), dark cells D cost 5 points. The
# agent collects experience for later use, which is useful only for the part of the map
# that was visited. So the prior here is uniform: the same time in every cell.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

mdp = ca.worlds.drift_prior_world()
dark = ca.worlds.dark_cells(mdp)
even = np.full(mdp.n_states, 1 / mdp.n_states)

# %%
# Squares of small shares are very small, so cautions are large numbers.

frontier = ca.frontier(mdp, ca.Quadratic(even), cautions=[0, 50, 100, 200, 500, 2000])
figure = frontier.plot()

# %%
# What the agent does differently
# -------------------------------
# It no longer stays close to the goal, and it does not enter the dark cells more often.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", f"caution {cautious.caution:g}"]
)

# %%
# In numbers:

print("caution   busiest cell   in the dark   cells seen for 1/2 % or more   return")
for one in frontier:
    cells = 100 * one.occupancy.sum(axis=1)
    seen = np.count_nonzero(cells >= 0.5)
    print(
        f"{one.caution:7g} {cells.max():12.1f} % {cells[dark].sum():11.2f} %"
        f" {seen:22d} {one.expected_return:18.2f}"
    )
busiest = [one.occupancy.sum(axis=1).max() for one in frontier]
assert all(np.diff(busiest) < 0)
assert cautious.occupancy[dark].sum() < neutral.occupancy[dark].sum() + 1e-3

# %%
# When not to use it
# ------------------
# The cost of a deviation does not depend on how rare the cell is in the prior. A small
# share of time in a cell that the prior never visits costs almost nothing; if zeros of
# the prior mean "never", use :doc:`plot_kl_pairs`. The dark cells stay rare here
# because of their reward, not because of this risk.
