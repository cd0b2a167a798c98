"""
Risk: your own, and sums
========================

.. code-block:: text

    class Mine(ca.Risk): value(d), gradient(d)        risk = 2.0 * Mine() + ca.Entropy()

A risk that is missing is a class with a value and a gradient. Risks can be added with
weights. If all of them are convex, the best policy is proved optimal.
"""

# %%
# Old trees for owls
# ------------------
# A forest is cut when that earns most. Owls need old stands: at least 15 % of the area
# should have trees of seventy years or more. A small shortfall is bad, a large one is
# much worse, and more than the target gains nothing. Half the squared shortfall is a
# risk that the package does not have.

from dataclasses import dataclass

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure
from cautious.testing import check_risk

mdp = ca.worlds.forest()
OLD = np.arange(7, mdp.n_states)
WANTED = 0.15


@dataclass(frozen=True)
class Shortfall(ca.Risk):
    """Half the squared shortfall of the share of old stands, in percent."""

    def value(self, d):
        """The risk of an occupancy (S, A)."""
        return 0.5 * max(0.0, 100 * (WANTED - d[OLD].sum())) ** 2

    def gradient(self, d):
        """Its slope: the more is missing, the steeper."""
        slope = np.zeros_like(d)
        slope[OLD] = -100 * max(0.0, 100 * (WANTED - d[OLD].sum()))
        return slope


check_risk(Shortfall(), mdp)

# %%
# ``check_risk`` compares the gradient with differences and tests convexity. The
# frontier is in euros per hectare:

frontier = ca.frontier(mdp, Shortfall(), cautions=[0, 3, 10, 30, 100, 300])
figure = frontier.plot()

# %%
# What the forester does differently
# ----------------------------------
# First, stands that have already passed the age of cutting are not cut. With more
# caution, some of those that reach it are not cut either. They are chosen at random:
# the policy is a mixture of two rotations.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[4].require()
figure = new_figure(LIGHT, 6.8, 3.8)
axes = figure.subplots()
for shift, one, name, colour in [
    (-0.2, neutral, "risk-neutral", LIGHT.neutral),
    (0.2, cautious, f"caution {cautious.caution:g}", LIGHT.chosen),
]:
    axes.bar(
        np.arange(mdp.n_states) + shift,
        100 * one.occupancy.sum(axis=1),
        0.4,
        color=colour,
        label=name,
    )
axes.set_xticks(range(mdp.n_states), [name.split()[0] for name in mdp.state_names])
axes.set(
    xlabel="age class of a stand (years; the last one: or more)",
    ylabel="share of discounted time (%)",
)
axes.legend(frameon=False)
dress(axes, LIGHT)
axes.tick_params(axis="x", labelsize=8)


# %%
# In numbers:


def old(solution):
    """Share of old stands, in percent."""
    return 100 * solution.occupancy[OLD].sum()


print("                                            chance to be cut at the age of")
print("caution   old stands   return, euros/ha     50-59   60-69   70-79   80-89")
for one in frontier:
    cut = "".join(f"{chance:8.2f}" for chance in one.policy[5:9, 1])
    print(f"{one.caution:7g} {old(one):10.1f} % {one.expected_return:18,.0f}  {cut}")
assert all(np.diff([old(one) for one in frontier]) > -1e-6)
assert old(neutral) < 100 * WANTED
assert (
    cautious.policy[6, 1] < 0.01 < cautious.policy[5, 1] < 0.99 < neutral.policy[5, 1]
)
assert cautious.certificate.kind == "optimal"

# %%
# Sums
# ----
# A second aim is age classes of equal size, for steady work. Its risk is added with a
# weight.

even = ca.Quadratic(np.full(mdp.n_states, 1 / mdp.n_states))
both = ca.solve(ca.Problem(mdp, Shortfall() + 1000.0 * even, caution=100.0)).require()
for name, one in [("owls only", cautious), ("owls and steady work", both)]:
    print(
        f"{name:21s} old stands {old(one):.1f} %, largest class"
        f" {100 * one.occupancy.sum(axis=1).max():.1f} %"
    )
assert both.occupancy.sum(axis=1).max() < cautious.occupancy.sum(axis=1).max()

# %%
# When not to write your own
# --------------------------
# The package has limits, maxima, distances and tails, and their solvers use the
# structure of these risks. ``Shortfall`` is known by value and gradient only, which
# takes more work on large models. :doc:`Contributing </auto_root/CONTRIBUTING>` shows
# how to declare more structure.
