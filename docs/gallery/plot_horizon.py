r"""
Horizons: two years of maintenance
==================================

``ca.Problem(mdp, ..., horizon=24)`` asks for the best policy of 24 steps. It maximises

.. math::

    \mathbb{E} \sum_{t < 24} \gamma^t r_t

and :math:`\gamma` may be 1: a euro is a euro, whenever it is earned. The policy has a
table for each step, because what is worth doing depends on how much time is left.
"""

# %%
# A press until its contract ends
# -------------------------------
# A press wears. A worn press earns less and breaks more often, and a repair costs
# money. The contract ends after 24 months, and the press is scrapped then. The customer
# accepts that it is broken in at most 0.5 % of the months.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_over_steps

machine = ca.worlds.machine_replacement()
press = ca.MDP(
    machine.transitions,
    machine.rewards,
    discount=1,
    start=np.eye(machine.n_states)[0],
    allowed=machine.allowed,
    state_names=machine.state_names,
    action_names=machine.action_names,
    scene=ca.Scene("A press under contract", "", "month", "euros"),
)

# %%
# Without a limit the last repairs are saved, and the press is left to break.

free = ca.solve(ca.Problem(press, horizon=24)).require()
figure = plot_over_steps(free)

# %%
# With the limit
# --------------
# Repairs go on longer. In one month, chance decides whether a worn press is repaired:
# that is how the limit is used up exactly.

# sphinx_gallery_thumbnail_number = 2
limit = ca.Exposure("broken") <= 0.005
kept = ca.solve(ca.Problem(press, constraints=[limit], horizon=24)).require()
figure = plot_over_steps(kept)

# %%
# In numbers:

BROKEN = press.state_names.index("broken")


def broken(solution):
    """Share of the 24 months that the press is broken, in percent."""
    return 100 * solution.occupancy[:, BROKEN].sum()


print("             income   a month   broken")
for name, one in (("no limit", free), ("limit 0.5 %", kept)):
    earned = one.expected_return
    print(f"{name:12s} {earned:7.0f} {earned / 24:9.1f} {broken(one):6.2f} %")
(row,) = kept.constraints
print(f"one more percentage point is worth {row.price / 100:.0f} euros at the most")
assert broken(free) > 0.5 >= broken(kept)
assert free.expected_return > kept.expected_return

# %%
# Years, and for ever
# -------------------
# The longer the contract, the nearer is the income of a month to that of the long run.

average = ca.solve(ca.Problem(press, constraints=[limit], horizon="average")).require()
for months in (6, 24, 96):
    one = ca.solve(ca.Problem(press, constraints=[limit], horizon=months)).require()
    print(f"{months:3d} months: {one.expected_return / months:6.1f} euros a month")
print(f"for ever:   {average.expected_return:6.1f} euros a month")

# %%
# When not to use it
# ------------------
# If the end is far away or nobody knows when it comes, ask for the long run
# (``horizon="average"``) or discount: one table (S, A) is easier to follow than 24.
