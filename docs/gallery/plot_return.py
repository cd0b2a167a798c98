r"""
Risks of the return: what a sale brings in all
==============================================

The risks ``ca.ReturnVariance()``, ``ca.ReturnCVaR(level)``,
``ca.ReturnEntropic(rate)``, ``ca.ReturnEVaR(level)`` and ``ca.ReturnBelow(threshold)``
look at the return :math:`R` of a whole episode, and not at single steps:

.. math::

    \text{ReturnCVaR} = \min_x \left(
        \frac{\mathbb{E} (x - R)_+}{1 - \text{level}} - x
    \right)

The best policy remembers what was earned so far. It is found among all policies that
may remember, with a bound for all of them.
"""

# %%
# Selling a large holding
# -----------------------
# A desk has ten blocks of shares to sell in ten days. What counts is the money at the
# end. The mean of the worst twentieth of all sales can be raised by selling sooner:

import numpy as np

import cautious as ca

mdp = ca.worlds.liquidation()
DAYS = 10
points = ca.frontier(
    mdp, ca.ReturnCVaR(0.95), cautions=[0, 0.1, 1], horizon=DAYS, tolerance=1e-2
)
figure = points.plot()

# %%
# What is earned, computed
# ------------------------
# The distribution of what a sale earns follows from the model. The mean of the worst
# twentieth is marked:

# sphinx_gallery_thumbnail_number = 2
figure = points[-1].plot_return()

# %%
# ``ca.evaluate`` plays episodes. A solution is played by its agent, which is told what
# was paid:

EPISODES = 4000
played = [ca.evaluate(mdp, one, episodes=EPISODES) for one in points]

# %%
# In numbers; mean and standard deviation are exact, the worst twentieth is exact and
# simulated:

print("caution     mean   st. dev.   worst twentieth   simulated")
for one, found in zip(points, played, strict=True):
    worst = np.sort(found.returns)[: EPISODES // 20].mean()
    deviation = np.sqrt(found.exact_variance)
    print(
        f"{one.caution:7g} {found.exact_mean:8.1f} {deviation:10.1f}"
        f" {-one.policy_risk:17.1f} {worst:11.1f}"
    )
assert points[-1].policy_risk < points[0].policy_risk
assert points[-1].expected_return <= points[0].expected_return
assert points[-1].certificate.kind == "global"

# %%
# Step by step
# ------------
# The agent acts on what is left to be earned, so that one state can ask for different
# actions:

agent, simulator = points[-1].agent(), mdp.simulator()
rng, earned = np.random.default_rng(1), 0.0
agent.reset(seed=0)
(state,) = simulator.start_states(1, rng)
for day in range(4):
    action = agent.act(state)
    print(f"day {day}: {mdp.state_names[state]}, {mdp.action_names[action]}")
    (state,), (reward,) = simulator.sample(np.array([state]), np.array([action]), rng)
    agent.observe(reward, state)
    earned += mdp.discount**day * reward

# %%
# When not to use it
# ------------------
# Where every step is felt by itself: a ward that is overcrowded today is not helped by
# an empty one tomorrow. Then :doc:`plot_cvar` and :doc:`plot_variance` look at single
# steps. A policy with memory needs to be told its rewards while it is used.
