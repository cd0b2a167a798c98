r"""
ReturnVariance: a season of a shop
==================================

The risk ``ca.ReturnVariance()`` is the variance of what an episode earns in all,

.. math::

    \text{Var} R = \mathbb{E} (R - \mathbb{E} R)^2

Deviations of single weeks that cancel do not count.
"""

# %%
# Eight weeks
# -----------
# A shop orders once a week and has to account for the profit of a season of eight
# weeks. One run of planning serves all cautions:

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.inventory(capacity=12, demand=4.0)
WEEKS = 8
points = ca.frontier(
    mdp,
    ca.ReturnVariance(),
    cautions=[0, 0.005, 0.01, 0.02, 0.04],
    horizon=WEEKS,
    tolerance=1e-3,
)
neutral, cautious = points[0], points[-1]

# %%
# What a season earns
# -------------------
# The distribution is computed, and not simulated. The mean, the quantiles and the mean
# of the worst seasons are marked:

# sphinx_gallery_thumbnail_number = 1
figure = cautious.plot_return()

# %%
# In numbers:

print("caution   mean   st. dev.   5 % quantile   worst 5 %")
for one in points:
    returns = one.return_distribution()
    quantile, worst = np.mean(returns.quantile(0.05)), -np.mean(returns.cvar(0.95))
    print(
        f"{one.caution:7g} {one.expected_return:6.0f} {np.sqrt(returns.variance):10.1f}"
        f" {quantile:14.0f} {worst:11.0f}"
    )
assert cautious.return_distribution().variance < neutral.return_distribution().variance
assert cautious.certificate.kind == "global"

# %%
# The variance of the week
# ------------------------
# ``ca.Variance()`` looks at the weeks one by one: a week in which the shop orders for
# two is a deviation, although the next week makes up for it. At the same mean, the
# policy for the season has the steadier season:

weekly = ca.frontier(
    mdp, ca.Variance(), cautions=[0, 0.05, 0.1, 0.2, 0.4], horizon=WEEKS
)
figure = new_figure(LIGHT, 6.2, 4.0)
axes = figure.subplots()
for name, colour, some in [
    ("ReturnVariance", LIGHT.chosen, points),
    ("Variance, of the week", LIGHT.neutral, weekly),
]:
    spread = [np.sqrt(one.return_distribution().variance) for one in some]
    axes.plot(
        spread,
        [one.expected_return for one in some],
        "o-",
        color=colour,
        label=name,
    )
axes.set(xlabel="standard deviation of the season (euros)", ylabel="mean (euros)")
axes.legend(frameon=False)
dress(axes, LIGHT)

# %%
# When not to use it
# ------------------
# Where each week is felt by itself, as by a supplier who has to follow the orders: then
# :doc:`plot_variance` is the risk to take. And a variance punishes good seasons like
# bad ones; :doc:`plot_return` does not.
