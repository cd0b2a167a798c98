r"""
Exposure, Return, Reach: limits that are kept
=============================================

Three measures are linear in the occupancy :math:`d`, and can be limited from either
side, as in ``constraints=[ca.Exposure(states) <= 0.05]``:

.. math::

    \text{Exposure} = d(\text{states}), \qquad
    \text{Return} = \langle d, \text{rewards}\rangle / (1 - \gamma), \qquad
    \text{Reach} = P(\text{states are ever entered})

``ca.Exposure(states)`` is a share of time, ``ca.Return(rewards)`` the return of another
reward table, and ``ca.Reach(states)`` a probability, for problems that come to an end.
"""

# %%
# A cart and a lane of fork-lifts, once more
# ------------------------------------------
# A cart carries goods from S to G across a lane L of fork-lifts. Each limit has a
# price: what one more unit of room would add to the return.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

FLOOR = [
    "....LLL....",
    "....LLL....",
    "S...LLL...G",
    "....LLL....",
    "....LLL....",
    ".....L.....",
]
PAYS = {".": -0.1, "S": -0.1, "L": -0.1, "G": 1.0}
mdp = ca.worlds.from_grid(FLOOR, pays=PAYS, p=0.8, start="S")
lane = np.flatnonzero(np.array(list("".join(FLOOR))) == "L")

frontier = ca.frontier(
    mdp,
    constraints=[ca.Exposure(lane) <= 0],
    limits=[0.035, 0.04, 0.05, 0.06, 0.08, 0.1],
)
figure = frontier.plot()

# %%
# At most 5 % of the time in the lane
# -----------------------------------

# sphinx_gallery_thumbnail_number = 2
neutral = ca.solve(ca.Problem(mdp)).require()
limited = frontier[2].require()
figure = plot_side_by_side([neutral, limited], ["no limit", "at most 5 % in the lane"])

# %%
# In numbers:

print("at most    in the lane   return   worth of one more point")
for one in frontier:
    (row,) = one.require().constraints
    print(
        f"{row.bound:7.1%} {row.value:14.2%} {one.expected_return:8.3f}"
        f" {row.price / 100:12.4f}"
    )
assert all(one.constraints[0].slack >= 0 for one in frontier)
prices = [one.constraints[0].price for one in frontier]
assert prices[0] > prices[1] > prices[2]

# %%
# The other way round
# -------------------
# How little time in the lane is possible if the return must be at least 90 % of the
# best? Exposure is the risk now, and Return the limit. A large caution leaves nothing
# of the return but its floor.

floor = 0.9 * neutral.expected_return
careful = ca.solve(
    ca.Problem(
        mdp,
        ca.Exposure(lane),
        caution=1e3,
        constraints=[ca.Return(mdp.rewards) >= floor],
    )
).require()
print(f"return {careful.expected_return:.3f}, at least {floor:.3f}")
before = neutral.occupancy[lane].sum()
print(f"in the lane {careful.risk:.2%}, without a limit {before:.2%}")
assert careful.expected_return >= floor
assert careful.risk < before

# %%
# The chance that it ever happens
# -------------------------------
# A share of time says nothing about a single trip. For a trip that ends at G, Reach
# limits the probability that the cart enters the upper part of the lane at all.

rows = mdp.transitions.toarray()
upper, goal = lane[:9], np.flatnonzero(np.array(list("".join(FLOOR))) == "G")
for state in goal:
    for action in range(mdp.n_actions):
        rows[state * mdp.n_actions + action] = np.eye(mdp.n_states)[state]
steps = np.where(np.isin(np.arange(mdp.n_states), goal), 0.0, -1.0)
trip = ca.MDP(
    rows.reshape(mdp.n_states, mdp.n_actions, mdp.n_states),
    np.repeat(steps[:, None], mdp.n_actions, axis=1),
    discount=1,
    start=mdp.start,
)
for bound in (1.0, 0.5, 0.1):
    one = ca.solve(
        ca.Problem(trip, constraints=[ca.Reach(upper) <= bound], horizon="total")
    ).require()
    (row,) = one.constraints
    print(f"at most {bound:4.0%}: {row.value:5.1%}, {-one.expected_return:6.2f} steps")
    assert row.value <= bound

# %%
# When not to use it
# ------------------
# A limit does not bend: a little more than allowed is as forbidden as a lot. If every
# bit less is worth something, take the measure as a risk with a caution, as above, or a
# barrier that keeps a distance (:doc:`plot_safe_set`).
