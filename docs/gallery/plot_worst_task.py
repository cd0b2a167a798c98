r"""
WorstTask: the return of the worst task
=======================================

The risk ``ca.WorstTask(task_rewards)`` is

.. math::

    \max_j ( -\text{return of task } j )

Several tasks in one world, and the agent is judged by the task with the lowest return.
No floors are needed, only a price for that return.
"""

# %%
# A clinic with more patients than time
# -------------------------------------
# Urgent and routine patients wait; one of them can be treated per slot of twenty
# minutes. Total benefit favours the urgent class. The two tasks count the treated
# patients of each class.

import numpy as np

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.clinic()
tasks = ca.worlds.clinic_tasks(mdp)

# %%
# The risk is minus the discounted number of treated patients in the class with fewer of
# them.

frontier = ca.frontier(mdp, ca.WorstTask(tasks), cautions=[0, 3, 4, 4.5, 5, 10])
figure = frontier.plot()

# %%
# What the clinic does differently
# --------------------------------
# Under the risk-neutral policy urgent patients hardly wait, and routine patients fill
# their room. With caution the urgent room is full for part of the time; further urgent
# patients then go to another clinic, and routine patients are treated.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[4].require()
figure = new_figure(LIGHT, 8.6, 3.6)
waiting = np.array(
    [[int(word.split()[0]) for word in name.split(", ")] for name in mdp.state_names]
).T
for axes, here, kind in zip(
    figure.subplots(1, 2, sharey=True), waiting, ("urgent", "routine"), strict=True
):
    places = np.arange(here.max() + 1)
    for shift, one, name, colour in [
        (-0.2, neutral, "risk-neutral", LIGHT.neutral),
        (0.2, cautious, f"caution {cautious.caution:g}", LIGHT.chosen),
    ]:
        shares = 100 * np.bincount(here, weights=one.occupancy.sum(axis=1))
        axes.bar(places + shift, shares, 0.4, color=colour, label=name)
    axes.set(
        xlabel=f"{kind} patients waiting",
        ylabel="share of discounted time (%)" if kind == "urgent" else "",
    )
    axes.set_xticks(places)
    axes.legend(frameon=False, loc="upper center")
    dress(axes, LIGHT)


# %%
# In numbers:


def treated(solution):
    """Patients of each class treated in a hundred slots, discounted."""
    return 100 * (tasks * solution.occupancy).sum(axis=(1, 2))


print("caution   urgent   routine   return    (patients treated in 100 slots)")
for one in frontier:
    urgent, routine = treated(one)
    print(f"{one.caution:7g} {urgent:8.1f} {routine:9.1f} {one.expected_return:8.1f}")
before, after = treated(neutral), treated(cautious)
full = waiting.max(axis=1)[:, None] == waiting
assert neutral.occupancy[full[0]].sum() < 0.01 < 0.1 < cautious.occupancy[full[0]].sum()
assert cautious.occupancy[full[1]].sum() < neutral.occupancy[full[1]].sum()
assert after.min() > before.min()
assert abs(after[0] - after[1]) < 1e-3

# %%
# The states in which the usual decision changed, most visited first:

usual, now = neutral.policy.argmax(axis=1), cautious.policy.argmax(axis=1)
changed = np.flatnonzero(neutral.reached & cautious.reached & (usual != now))
by_visits = changed[np.argsort(-cautious.occupancy[changed].sum(axis=1))]
for state in by_visits[:5]:
    words = f"{mdp.action_names[usual[state]]} -> {mdp.action_names[now[state]]}"
    print(f"{mdp.state_names[state]:22s} {words}")
print(f"{changed.size} states in all")

# %%
# When not to use it
# ------------------
# Tasks must be in the same unit, because otherwise the maximum depends on the scaling:
# here both count patients. The policy changes completely within a short range of
# cautions. At 3 nothing has changed; at 5 the tasks are equal, whatever that costs in
# benefit, and more caution has no further effect:

assert abs(frontier[1].expected_return - neutral.expected_return) < 1e-6
assert abs(frontier[5].expected_return - cautious.expected_return) < 1e-3
kept = cautious.expected_return / neutral.expected_return
print(f"price of equality: {100 * (1 - kept):.0f} % of the benefit")

# %%
# For a compromise, use a floor: :doc:`plot_multiple_jobs`.
