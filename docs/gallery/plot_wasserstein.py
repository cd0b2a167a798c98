r"""
Wasserstein: small distances count less than large ones
=======================================================

The risk ``ca.Wasserstein(prior, metric)`` is

.. math::

    \min_{T \ge 0} \sum_{i, j} T_{ij} \thinspace \text{metric}_{ij}

The lowest cost of transport from the state marginal of :math:`d` to the prior
(Wasserstein-1, earth mover's distance); :math:`T` is a transport plan. Use it when
states have a distance, such as cells of a map, stock levels or ages. Its unit is that
of the metric: here, blocks to drive.
"""

# %%
# An ambulance in town
# --------------------
# The ambulance has a reward while it is at the hospital H. Calls come from all of the
# town, but five times as often from the quarter in the upper right. The prior is the
# distribution of the calls; the metric is the distance along the streets. The risk is
# then the average number of blocks between the car and the calls, if cars and calls are
# matched as well as possible.

import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.report.plots import plot_side_by_side

TOWN = [
    "........",
    ".#.##.#.",
    "........",
    ".#.##.#.",
    "........",
    ".#.##.#.",
    "H.......",
]
mdp = ca.worlds.from_grid(TOWN, pays={".": 0.0, "H": 1.0}, p=0.9, title="Town")
row, column = np.array(mdp.scene.cells).T
streets = sp.csr_array(
    (abs(row[:, None] - row) + abs(column[:, None] - column) == 1).astype(float)
)
calls = np.where((row <= 2) & (column >= 5), 5.0, 1.0)
calls /= calls.sum()

# %%
# The figure shows return, which is time at the hospital, against the distance:

risk = ca.Wasserstein(calls, streets)
frontier = ca.frontier(mdp, risk, cautions=[0, 1, 2, 3, 4, 6, 10])
figure = frontier.plot()

# %%
# What the ambulance does differently
# -----------------------------------
# It leaves the hospital for most of the time and drives where the calls are.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", f"caution {cautious.caution:g}"]
)

# %%
# In numbers:

quarter, hospital = (row <= 2) & (column >= 5), mdp.state_names.index("r6c0")
print("caution   distance, blocks   at H   in the busy quarter")
for line, one in zip(frontier.table(), frontier, strict=True):
    share = 100 * one.occupancy.sum(axis=1)
    print(
        f"{one.caution:7g} {line['risk']:18.2f} "
        f"{share[hospital]:4.0f} % {share[quarter].sum():19.0f} %"
    )
distances = [line["risk"] for line in frontier.table()]
assert distances[3] < 0.2 * distances[0]
assert cautious.occupancy[hospital].sum() < 0.5 < cautious.occupancy[quarter].sum()

# %%
# Against total variation
# -----------------------
# Total variation compares cell by cell and ignores the distance between cells. An
# ambulance one street away from a call has the same risk as one at the other end of the
# town. Up to a large caution the car stays at the hospital. When the car leaves it, at
# caution 20, it is farther from the calls and has a smaller return than with the
# transport distance at caution 2.

distance = ca.Problem(mdp, risk).risk
blind = ca.frontier(mdp, ca.TotalVariation(calls), cautions=[0, 10, 15, 20, 30])
print("caution   total variation   distance, blocks   return")
for line, one in zip(blind.table(), blind, strict=True):
    print(
        f"{one.caution:7g} {line['risk']:17.2f} {distance.value(one.occupancy):18.2f}"
        f" {one.expected_return:8.2f}"
    )
assert distance.value(blind[3].occupancy) > frontier[2].risk
assert blind[3].expected_return < frontier[2].expected_return

# %%
# When not to use it
# ------------------
# If states have no meaningful distance, use :doc:`plot_total_variation` or
# :doc:`plot_kl_states`. This risk compares states only, not actions. Give the metric as
# a sparse graph if possible: with a full matrix of distances the solver is much slower
# on large models (:doc:`measured </benchmarks>`).
