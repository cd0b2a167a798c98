r"""
Variance: steady rewards
========================

The risk ``ca.Variance()`` is

.. math::

    \langle d, \mathbb{E}[r^2]\rangle - {\langle d, r\rangle}^2

The variance of the reward of one step drawn from the occupancy, outcomes included: the
canonical risk of finance. It is concave in the occupancy, so local methods can miss the
best policy; the search used here proves the global optimum.
"""

# %%
# Selling a large holding
# -----------------------
# A desk has ten blocks of shares to sell. Selling fast lowers the price; the value of
# unsold blocks changes with the market. Rewards are the gains and losses of each day,
# in thousand euros.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.liquidation()
frontier = ca.frontier(mdp, ca.Variance(), cautions=[0, 0.05, 0.1, 0.15, 0.2, 0.5])
figure = frontier.plot()

# %%
# What the desk does differently
# ------------------------------
# It sells sooner. The figure shows the mean number of blocks still held on each day:

# sphinx_gallery_thumbnail_number = 2
DAYS = 15
neutral, cautious = frontier[0].require(), frontier[4].require()
blocks = np.array([int(name.split()[0]) for name in mdp.state_names])


def holding(solution):
    """Mean number of blocks at the start of each day."""
    law, means = mdp.start, []
    for _ in range(DAYS):
        means.append(law @ blocks)
        law = mdp.under(solution.policy).T @ law
    return np.array(means)


figure = new_figure(LIGHT, 6.2, 4.0)
axes = figure.subplots()
for one, name, colour, style in [
    (neutral, "risk-neutral", LIGHT.neutral, "s--"),
    (cautious, f"caution {cautious.caution:g}", LIGHT.chosen, "o-"),
]:
    axes.plot(holding(one), style, color=colour, label=name)
axes.set(xlabel="day", ylabel="blocks held (mean)", ylim=(0, None))
axes.legend(frameon=False)
dress(axes, LIGHT)

# %%
# In numbers:

print("caution   st. dev. of a day   return   blocks held on day 3")
for row, one in zip(frontier.table(), frontier, strict=True):
    print(
        f"{one.caution:7g} {np.sqrt(row['risk']):19.2f} {one.expected_return:8.2f}"
        f" {holding(one)[3]:22.1f}"
    )
assert all(holding(cautious) <= holding(neutral) + 1e-9)
assert frontier.table()[4]["risk"] < frontier.table()[0]["risk"]
assert cautious.certificate.kind == "global"

# %%
# When not to use it
# ------------------
# Variance penalises rewards above the mean as well as rewards below it. In river swim,
# the source gives a large reward rarely, the bank a small reward with certainty. With
# enough caution nearly all of the return is lost to avoid variation:

river = ca.frontier(ca.worlds.river_swim(), ca.Variance(), cautions=[0, 20, 40])
for one in river:
    print(
        f"caution {one.caution:2g}: at the bank"
        f" {100 * one.occupancy[0].sum():5.1f} % of the time, "
        f"return {one.expected_return:.2f}"
    )
assert river[2].occupancy[0].sum() > 0.99
assert river[2].expected_return < 0.05 * river[0].expected_return

# %%
# If only bad steps count, use :doc:`plot_cvar`. This is the variance of one step, not
# of the return of an episode; ``ca.evaluate`` computes the latter.
