r"""
SafeSet: limit the time outside a region
========================================

The risk ``ca.SafeSet(states, slack)`` is

.. math::

    -\log( d(\text{states}) - (1 - \text{slack}) )

A limit that must hold: the share of discounted time outside ``states`` stays below
``slack``. The risk is a barrier. It is infinite at the limit, so with any caution above
zero the limit holds strictly.
"""

# %%
# A cart and a lane of fork-lifts
# -------------------------------
# A cart carries goods from S to G. Between them is a lane L of fork-lifts, three cells
# wide and one cell wide at its lower end. The reward in the lane is the same as
# elsewhere, so a risk-neutral cart drives straight across.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

FLOOR = [
    "....LLL....",
    "....LLL....",
    "S...LLL...G",
    "....LLL....",
    "....LLL....",
    ".....L.....",
]
mdp = ca.worlds.from_grid(
    FLOOR, pays={".": -0.1, "S": -0.1, "L": -0.1, "G": 1.0}, p=0.8, start="S"
)
marks = np.array(list("".join(FLOOR)))
lane, outside = np.flatnonzero(marks == "L"), np.flatnonzero(marks != "L")

# %%
# The site allows at most 5 % of the time in the lane. The caution determines the
# distance to that limit.

risk = ca.SafeSet(outside, slack=0.05)
frontier = ca.frontier(mdp, risk, cautions=[0.01, 0.03, 0.1, 0.3, 1.0])
figure = frontier.plot()

# %%
# What the cart does differently
# ------------------------------
# It goes down to the narrow end and crosses there, or just above it.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = ca.solve(ca.Problem(mdp)).require(), frontier[2].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", "5 % allowed, caution 0.1"]
)


# %%
# In numbers:


def in_lane(solution):
    """Share of discounted time in the lane, in percent."""
    return 100 * solution.occupancy[lane].sum()


narrow = mdp.state_names.index("r5c5")
print("caution     in the lane   of it in the narrow end   return")
for name, one in [("none", neutral), *((f"{one.caution:g}", one) for one in frontier)]:
    share = one.occupancy[narrow].sum() / one.occupancy[lane].sum()
    print(
        f"{name:9s} {in_lane(one):11.2f} % {100 * share:23.0f} %"
        f" {one.expected_return:8.2f}"
    )
assert in_lane(neutral) > 5
assert cautious.occupancy[narrow].sum() > 0.5 * cautious.occupancy[lane].sum()
assert all(in_lane(one) < 5 for one in frontier)
assert in_lane(frontier[-1]) < in_lane(frontier[0])

# %%
# A limit that cannot be met
# --------------------------
# If the cart starts in the lane, no policy can avoid spending time there. The
# certificate proves this and gives the best reachable value.

hopeless = ca.worlds.from_grid(
    FLOOR, pays={".": -0.1, "S": -0.1, "L": -0.1, "G": 1.0}, p=0.8, start="L"
)
solution = ca.solve(ca.Problem(hopeless, ca.SafeSet(outside, slack=0.01), caution=0.1))
print(solution.status.name)
print(solution.certificate.statement)
assert solution.status is ca.Status.INFEASIBLE

# %%
# When not to use it
# ------------------
# The limit is on discounted time, on average over episodes. It does not guarantee the
# limit for every single run, and time far in the future hardly counts. If there is a
# price but no limit, use :doc:`plot_danger_areas`. For limits on other things than time
# in states, use :doc:`plot_multiple_jobs`.
