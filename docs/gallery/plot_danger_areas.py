r"""
PeakExposure: the largest of several exposures
==============================================

The risk ``ca.PeakExposure(sets)`` is

.. math::

    \max_j d(\text{set}_j)

The largest share of discounted time spent in one of several danger areas. There is a
price but no limit, and less time in one area must not lead to more time in another.
"""

# %%
# Two wet floors
# --------------
# In a hall with a wall in the middle, every path from S to G crosses one of two wet
# floors: X above, nine cells on the short path, or Y below, six cells on a longer path.
# Wet floors have no cost in the reward. Long exposure to one of them leads to
# accidents, so the larger exposure is the risk.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

HALL = [
    "S..XXX...",
    "...XXX...",
    "...XXX...",
    "...###...",
    "...###..G",
    "...YYY...",
    "...YYY...",
]
mdp = ca.worlds.from_grid(
    HALL, pays={".": -0.1, "S": -0.1, "X": -0.1, "Y": -0.1, "G": 1.0}, p=0.8, start="S"
)
marks = np.array([mark for mark in "".join(HALL) if mark != "#"])
areas = [np.flatnonzero(marks == "X"), np.flatnonzero(marks == "Y")]

# %%
# Return against the larger of the two exposures:

frontier = ca.frontier(mdp, ca.PeakExposure(areas), cautions=[0, 3, 9, 10, 30, 100])
figure = frontier.plot()

# %%
# What the agent does differently
# -------------------------------
# It uses both paths. At S it chooses at random, so that both floors have the same
# exposure.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", f"caution {cautious.caution:g}"]
)


# %%
# In numbers:


def exposures(solution):
    """Share of discounted time in X and in Y, in percent."""
    return [100 * solution.occupancy[area].sum() for area in areas]


print("caution      in X      in Y   return")
for one in frontier:
    x, y = exposures(one)
    print(f"{one.caution:7g} {x:7.2f} % {y:7.2f} % {one.expected_return:8.3f}")
x, y = exposures(cautious)
assert abs(x - y) < 1e-3
assert x < 0.5 * exposures(neutral)[0]
drawn = [
    f"{action} {chance:.2f}"
    for action, chance in zip(mdp.action_names, cautious.policy[0], strict=True)
    if chance
]
print("At S:", ", ".join(drawn))

# %%
# One area instead of two
# -----------------------
# If only X has a price, the exposure moves to Y. The maximum prevents this.

alone = ca.solve(
    ca.Problem(mdp, ca.PeakExposure(areas[:1]), caution=cautious.caution)
).require()
x, y = exposures(alone)
print(f"X alone priced: {x:.2f} % in X, {y:.2f} % in Y")
assert y > max(exposures(cautious))

# %%
# When not to use it
# ------------------
# Exposures below the maximum have no price. If all areas count, use their union as one
# set, or add risks with weights. If there is a limit that must hold, use
# :doc:`plot_safe_set`.
