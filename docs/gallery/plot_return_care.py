r"""
ReturnBelow: a course of treatment
==================================

The risk ``ca.ReturnBelow(threshold)`` is

.. math::

    \mathbb{P}(R < \text{threshold})

the chance that an episode earns less than a threshold.
"""

# %%
# Twelve months
# -------------
# A patient is well, mildly ill or severely ill. Every month the patient is watched,
# gets a mild treatment or a strong one, which helps more but is a burden by itself. A
# month is worth its share of a healthy one. The numbers are illustrative.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

STATES, ACTIONS = ("well", "mild", "severe"), ("watch", "mild drug", "strong drug")
worth = np.array([1.0, 0.7, 0.2])[:, None] - np.array([0.0, 0.1, 0.3])
transitions = np.array(
    [
        [[0.80, 0.15, 0.05], [0.88, 0.10, 0.02], [0.95, 0.05, 0.00]],
        [[0.15, 0.55, 0.30], [0.35, 0.50, 0.15], [0.60, 0.35, 0.05]],
        [[0.00, 0.15, 0.85], [0.05, 0.30, 0.65], [0.25, 0.45, 0.30]],
    ]
)
start = np.array([0.0, 1.0, 0.0])
care = ca.MDP(
    transitions,
    np.round(worth, 10),
    1.0,
    start,
    state_names=STATES,
    action_names=ACTIONS,
)

# %%
# The best course on average, and the one with the smallest chance that the year is
# worth less than six healthy months:

MONTHS, THRESHOLD = 12, 6.0
neutral = ca.solve(ca.Problem(care, horizon=MONTHS)).require()
problem = ca.Problem(care, ca.ReturnBelow(THRESHOLD), caution=50.0, horizon=MONTHS)
careful = ca.solve(problem).require()
for name, one in [("best on average", neutral), ("careful", careful)]:
    returns = one.return_distribution()
    assert returns.is_exact
    print(f"{name}: {returns.expectation:.2f} healthy months on average")
    print(f"    chance of less than six: {returns.below(THRESHOLD)[1]:.1%}")
    print(f"    one year in twenty has at most {returns.quantile(0.05)[0]:.1f}")
assert careful.risk < neutral.return_distribution().below(THRESHOLD)[1]
assert careful.certificate.kind == "global"

# %%
# A year, exactly
# ---------------
# Few sums of months are possible, so that the chance of each is known:

figure = careful.plot_return()

# %%
# What is remembered
# ------------------
# The careful policy looks at what is still missing. In the ninth month, in the same
# state, it gives another drug where the threshold is in danger:

# sphinx_gallery_thumbnail_number = 2
memory = careful.memory_policy
month = 8
left = memory.grids[month].nodes + memory.middle * (MONTHS - month)
figure = new_figure(LIGHT, 6.2, 3.0)
axes = figure.subplots()
table = memory.tables[month].whole()
colours = np.array([LIGHT.faint, LIGHT.chosen, LIGHT.neutral])
for state in range(care.n_states):
    axes.scatter(left, np.full(left.size, state), c=colours[table[state]], s=16)
for action, colour in enumerate(colours):
    axes.scatter([], [], c=colour, label=ACTIONS[action])
axes.set(xlabel="healthy months that are still missing to six", yticks=range(3))
axes.set_yticklabels(STATES)
axes.invert_yaxis()
axes.legend(frameon=False, ncols=3, loc="lower left", bbox_to_anchor=(0, 1))
dress(axes, LIGHT)

# %%
# When not to use it
# ------------------
# Below the threshold nothing is worse than anything else: a policy that can no longer
# reach it takes the largest mean, and gambles where that helps. Where how far one falls
# matters, :doc:`plot_return` is the risk to take.
