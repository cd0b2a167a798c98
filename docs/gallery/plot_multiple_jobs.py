r"""
TaskFloors: meet several job requirements
=========================================

The risk ``ca.TaskFloors(task_rewards, floors)`` is

.. math::

    -\sum_j \log( \text{return of task } j - \text{floor}_j )

One task is the reward; the others have floors that must be reached: service levels,
budgets, fairness. Each has a barrier, so that any caution above zero keeps all floors
strictly. Floors are discounted returns: an average ``x`` per step is the return ``x /
(1 - discount)``.
"""

# %%
# A shop with a service level and a ramp
# --------------------------------------
# The shop earns most when it orders rarely and lets the shelf run empty from time to
# time. There are two further requirements. Goods must be left on the shelf at the end
# of 95 weeks in a hundred. The loading ramp is shared, so the shop may take a delivery
# in no more than 29 weeks in a hundred; an upper limit is a floor for the negative.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.inventory()
empty_shelf = np.eye(mdp.n_states)[0]
goods_left = np.where(mdp.allowed, 1 - mdp.expect_next(empty_shelf), 0.0)
delivery = np.where(mdp.allowed, np.arange(mdp.n_actions) > 0, 0.0)
tasks = np.stack([goods_left, -delivery])
floors = np.array([0.95, -0.29])

# %%
# The frontier starts at a small caution, because at caution zero the floors have no
# effect, and their risk is infinite.

risk = ca.TaskFloors(tasks, floors / (1 - mdp.discount))
frontier = ca.frontier(mdp, risk, cautions=[1, 3, 10, 30, 100])
figure = frontier.plot()

# %%
# What the shop does differently
# ------------------------------

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = ca.solve(ca.Problem(mdp)).require(), frontier[0].require()
promise = ca.solve(
    ca.Problem(
        mdp, ca.TaskFloors(tasks[:1], floors[:1] / (1 - mdp.discount)), caution=1
    )
).require()
both = [
    ("no floors", neutral),
    ("promise only", promise),
    ("promise and ramp", cautious),
]
figure = new_figure(LIGHT, 6.8, 3.8)
axes = figure.subplots()
for (name, one), colour, style in zip(
    both, (LIGHT.neutral, "#009E73", LIGHT.chosen), ("s--", "^:", "o-"), strict=True
):
    axes.plot(100 * one.occupancy.sum(axis=1), style, color=colour, label=name)
axes.set(
    xlabel="items on the shelf when orders are placed",
    ylabel="share of discounted time (%)",
    ylim=(0, None),
)
axes.set_xticks(range(0, mdp.n_states, 2))
axes.legend(frameon=False)
dress(axes, LIGHT)


# %%
# In numbers:


def habits(solution):
    """Weeks in a hundred with goods left, and with a delivery."""
    return 100 * np.sum(tasks[0] * solution.occupancy), 100 * np.sum(
        delivery * solution.occupancy
    )


def rule(solution):
    """The largest stock at which the shop usually orders, and up to which level."""
    order = solution.policy.argmax(axis=1)
    levels = {stock + order[stock] for stock in range(mdp.n_states) if order[stock] > 0}
    return int(np.flatnonzero(order).max()), int(max(levels))


print("                   goods left   deliveries   return   usual order")
for name, one in both:
    goods, trucks = habits(one)
    least, level = rule(one)
    print(
        f"{name:17s} {goods:9.1f} % {trucks:10.1f} % {one.expected_return:8.0f}"
        f"   at {least} or fewer, up to {level}"
    )
assert habits(neutral)[0] < 95
assert rule(neutral) < rule(promise) < rule(cautious)
assert rule(cautious)[1] == mdp.n_states - 1
assert habits(promise)[1] > 29
assert all(habits(one)[0] > 95 and habits(one)[1] < 29 for one in frontier)
assert neutral.expected_return > promise.expected_return > cautious.expected_return

# %%
# With the first requirement alone the shop orders earlier, and more. With the second
# one too it fills the shelf completely, to gain time between orders.
#
# When not to use it
# ------------------
# Floors that contradict each other end as ``INFEASIBLE``. The certificate names them
# and the values of the closest policy, as discounted returns:

strict = ca.TaskFloors(tasks, np.array([0.99, -0.2]) / (1 - mdp.discount))
solution = ca.solve(ca.Problem(mdp, strict, caution=1))
print(solution.certificate.statement)
assert solution.status is ca.Status.INFEASIBLE

# %%
# Floors hold on average, not in every run. If you do not know which floors are
# reasonable, start with :doc:`plot_worst_task`, which needs none.
