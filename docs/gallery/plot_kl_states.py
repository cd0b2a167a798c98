r"""
KL on states: demonstrations without actions
============================================

The risk ``ca.KL(prior)`` is

.. math::

    \sum_s x(s) \log \frac{x(s)}{\text{prior}(s)}, \quad x(s) = \sum_a d(s, a)

Often only positions were recorded, not actions. Then the prior is a share of time per
state, and the risk compares states only. The agent is free in its actions.
"""

# %%
# A robot in a park
# -----------------
# A delivery robot drives from S to G. Its reward does not distinguish lawns (L) from
# paths. But there are tracks of forty walkers, who keep to the paths. The actions of
# the walkers do not apply to a robot on wheels: they never slip, the robot slips in one
# move out of ten.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

PARK = [
    "S.........",
    ".LLLL.LLL.",
    ".LLLL.LLL.",
    ".LLLL.LLL.",
    "..........",
    ".LLLL.LLL.",
    ".LLLL.LLL.",
    ".........G",
]
same = {".": -0.1, "S": -0.1, "G": 1.0}
mdp = ca.worlds.from_grid(PARK, pays=same | {"L": -0.1}, p=0.9, start="S", title="Park")
lawn = np.flatnonzero(np.array(list("".join(PARK))) == "L")

# %%
# A track is a list of states; here each walker takes one of three paths at random and
# stays at G.


def track(rng):
    """Cells of one walk: along row 0, row 4 or row 7, by the nearest paths."""
    turn, down = [(9, 7), (5, 4), (0, 7)][rng.integers(3)]
    cells = [(0, c) for c in range(turn + 1)] + [(r, turn) for r in range(1, down + 1)]
    cells += [(down, c) for c in range(turn + 1, 10)] + [
        (r, 9) for r in range(down + 1, 8)
    ]
    return [mdp.state_names.index(f"r{r}c{c}") for r, c in cells]


rng = np.random.default_rng(0)
tracks = [track(rng) for _ in range(40)]
prior = ca.demonstrations(tracks, mdp, smoothing=0.01, at_end="absorb")
print(prior.statement)
assert prior.occupancy.shape == (mdp.n_states,)

# %%
# The figure shows return against distance from the tracks:

frontier = ca.frontier(mdp, ca.KL(prior), cautions=[0, 0.1, 0.3, 1, 3, 10, 30])
figure = frontier.plot()

# %%
# What the robot does differently
# -------------------------------

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", f"caution {cautious.caution:g}"]
)

# %%
# In numbers:

print("caution   on the lawn   return")
for one in frontier:
    print(
        f"{one.caution:7g} {100 * one.occupancy[lawn].sum():11.1f} %"
        f" {one.expected_return:8.3f}"
    )
assert cautious.occupancy[lawn].sum() < 0.5 * neutral.occupancy[lawn].sum()
assert cautious.expected_return > 0.95 * neutral.expected_return

# %%
# The dependence on caution
# -------------------------
# With a small caution the time on the lawn falls by most of its amount at little cost,
# because there are equally short routes along the paths. With a large one the robot
# also imitates the walkers' choice among the paths, which costs return.

lawns = [one.occupancy[lawn].sum() for one in frontier]
assert lawns[0] - lawns[2] > lawns[2] - lawns[-1] > 0
assert frontier[-1].expected_return < cautious.expected_return < neutral.expected_return

# %%
# When not to use it
# ------------------
# Positions do not show actions. If the danger lies in the action, such as a dose or a
# speed, record it and use :doc:`plot_kl_pairs`. This risk treats all cells outside the
# tracks alike, at any distance; if cells close to the tracks should count less, use
# :doc:`plot_wasserstein`.
