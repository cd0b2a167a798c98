r"""
CVaR: only bad steps count
==========================

The risk ``ca.CVaR(level)`` is

.. math::

    \min_t \left(
        t + \frac{\langle d, \mathbb{E}[(-r - t)_+]\rangle}{1 - \text{level}}
    \right)

The conditional value at risk of a step's loss: the mean of the loss :math:`-r` over the
worst share :math:`1 - \text{level}` of the steps. Good steps do not count. The paper
has variance here; this risk is the one-sided alternative.
"""

# %%
# A machine that wears
# --------------------
# Every week a machine is operated, repaired or replaced. A worn machine earns less and
# may break down, which costs as much as five good weeks earn. The risk is the mean loss
# of the worst tenth of the weeks, in euros.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.machine_replacement()
frontier = ca.frontier(mdp, ca.CVaR(0.9), cautions=[0, 3, 5, 10, 20, 50])
figure = frontier.plot()

# %%
# What the plant does differently
# -------------------------------
# It repairs from wear 3 on instead of wear 5. A broken machine is repaired instead of
# replaced: two cheaper weeks instead of a very bad one.

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
axes.set_xticks(
    range(mdp.n_states), [name.removeprefix("wear ") for name in mdp.state_names]
)
axes.set(xlabel="wear at the start of the week", ylabel="share of discounted time (%)")
axes.legend(frameon=False)
dress(axes, LIGHT)

# %%
# In numbers:


def repaired(solution):
    """Levels of wear, among those that occur, at which the machine is repaired."""
    usual = solution.policy.argmax(axis=1) == mdp.action_names.index("repair")
    seen = solution.occupancy.sum(axis=1) > 1e-3
    return [wear for wear in range(mdp.n_states - 1) if usual[wear] and seen[wear]]


def after_breakdown(solution):
    """What is usually done to a broken machine."""
    return mdp.action_names[solution.policy[-1].argmax()]


print("caution   worst tenth loses      return   broken, then    repaired at wear")
for row, one in zip(frontier.table(), frontier, strict=True):
    broken = f"{100 * one.occupancy[-1].sum():.2f} % {after_breakdown(one)}"
    print(
        f"{one.caution:7g} {row['risk']:12,.0f} euros {one.expected_return:11,.0f}"
        f"   {broken:15s} {repaired(one)}"
    )
assert repaired(neutral)[0] == 5
assert repaired(cautious)[0] == 3
assert after_breakdown(neutral) == "replace"
assert after_breakdown(cautious) == "repair"
assert cautious.risk < 0.6 * frontier.table()[0]["risk"]
assert cautious.expected_return > 0.9 * neutral.expected_return
assert cautious.certificate.kind == "global"

# %%
# Against variance
# ----------------
# Rewards of river swim are never negative and mostly zero: under every policy the worst
# tenth of strokes earns about nothing. So CVaR does not change the policy, and the
# swimmer stays at the source. With :doc:`variance <plot_variance>` the swimmer leaves
# it, because the reward at the source varies.

river = ca.worlds.river_swim()
for risk in (ca.CVaR(0.9), ca.Variance()):
    one = ca.solve(ca.Problem(river, risk, caution=40.0)).require()
    print(
        f"{one.risk_label:9s} at the source"
        f" {100 * one.occupancy[-1].sum():4.1f} % of the time"
    )
    assert (one.occupancy[-1].sum() > 0.1) == isinstance(risk, ca.CVaR)

# %%
# When not to use it
# ------------------
# It is the tail of single steps, not of the return: many small losses in a row do not
# count as a bad tail. It needs the rewards of outcomes; mean rewards per pair do not
# show bad steps. With a level near one very few steps count.
