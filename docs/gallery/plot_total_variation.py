r"""
TotalVariation: the share of time spent differently
===================================================

The risk ``ca.TotalVariation(prior)`` is

.. math::

    \frac{1}{2} \sum \lvert d - \text{prior} \rvert

The share of time spent in other states or with other actions than in behaviour that is
known to be acceptable. It lies between zero and one, is easy to explain, and forbids
nothing.
"""

# %%
# A desk with a house rule
# ------------------------
# The staff of a service desk follow a known rule: serve slowly up to five customers,
# fast from six on, and reject arrivals from twelve on. In the model another rule earns
# more. How much of the gain remains if the desk should change its behaviour as little
# as possible? A policy can be given as the prior: its occupancy in this model is used.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.queue()
SLOW, FAST, REJECT_FAST = 0, 1, 3
rule = np.zeros(mdp.shape)
rule[:6, SLOW] = rule[6:12, FAST] = rule[12:, REJECT_FAST] = 1.0

# %%
# The figure shows return against the share of time that differs from the house rule:

frontier = ca.frontier(
    mdp, ca.TotalVariation(rule), cautions=[0, 1, 5, 8, 10, 12, 15, 20, 100]
)
figure = frontier.plot()

# %%
# What the desk does differently
# ------------------------------

# sphinx_gallery_thumbnail_number = 2
neutral, middle, house = (
    frontier[0].require(),
    frontier[4].require(),
    frontier[-1].require(),
)
figure = new_figure(LIGHT, 6.8, 3.8)
axes = figure.subplots()
for one, name, colour, style in [
    (neutral, "risk-neutral", LIGHT.neutral, "s--"),
    (middle, f"caution {middle.caution:g}", "#009E73", "^:"),
    (house, f"caution {house.caution:g}: the house rule", LIGHT.chosen, "o-"),
]:
    axes.plot(100 * one.occupancy.sum(axis=1), style, color=colour, label=name)
axes.set(
    xlabel="customers present", ylabel="share of discounted time (%)", ylim=(0, None)
)
axes.legend(frameon=False)
dress(axes, LIGHT)


# %%
# In numbers:


def fast(solution):
    """Numbers of customers at which the desk usually serves fast."""
    usual = solution.policy.argmax(axis=1) % 2 == 1
    seen = solution.occupancy.sum(axis=1) > 1e-5
    return [
        present
        for present in range(1, mdp.n_states)
        if usual[present] and seen[present]
    ]


print("caution   spent differently   return, euros   serves fast at")
for row, one in zip(frontier.table(), frontier, strict=True):
    print(
        f"{one.caution:7g} {100 * row['risk']:17.1f} %"
        f" {one.expected_return:15.2f}   {fast(one)}"
    )
assert house.risk < 1e-6
assert 8 in fast(middle)
assert 9 not in fast(middle)
assert fast(house) == list(range(6, 13))
assert neutral.expected_return > middle.expected_return > house.expected_return

# %%
# The dependence on caution
# -------------------------
# The distance is not differentiable everywhere, so the answer changes in jumps, one
# state after the other. With a large caution the desk follows the house rule exactly.
#
# When not to use it
# ------------------
# It ignores the distance between two states (:doc:`plot_wasserstein` uses it) and how
# unusual a new action is where the prior never takes it (:doc:`plot_kl_pairs` uses
# that). Irregular deviations cost no more than regular ones: a rule with gaps, fast at
# 8 and slow at 9 as in the table, can be the best one.
