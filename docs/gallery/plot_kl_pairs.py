r"""
KL: stay close to demonstrations
================================

The risk ``ca.KL(prior)`` is

.. math::

    \sum_{s, a} d(s, a) \log \frac{d(s, a)}{\text{prior}(s, a)}

Demonstrations say which action was used in which state. Their share of time per state
and action is the prior, and the relative entropy to it is the risk. Actions that were
hardly ever demonstrated are expensive.
"""

# %%
# The world has changed
# ---------------------
# This is the paper's experiment. In the past, dark cells D cost 5 points and moves
# slipped more often. Today dark cells have reward 0, while light cells have 0.3 and G
# has 1. A hundred walks were recorded in the past, with states and actions.

import numpy as np

import cautious as ca
from cautious.report.plots import plot_side_by_side

mdp, past = ca.worlds.drift(), ca.worlds.drift_prior_world()
dark = ca.worlds.dark_cells(mdp)


def record(policy, walks, steps):
    """What a policy did in the past: per walk, a table (steps, 2) of pairs."""
    simulator, rng = past.simulator(), np.random.default_rng(0)
    states, seen = simulator.start_states(walks, rng), []
    for _ in range(steps):
        actions = np.array(
            [rng.choice(past.n_actions, p=policy[state]) for state in states]
        )
        seen.append(np.stack([states, actions], axis=1))
        states, _ = simulator.sample(states, actions, rng)
    return list(np.stack(seen, axis=1))


walks = record(ca.solve(ca.Problem(past)).require().policy, walks=100, steps=60)
prior = ca.demonstrations(walks, mdp, smoothing=0.05, at_end="cut")
print(prior.statement)

# %%
# A small smoothing keeps pairs possible that were not recorded by chance. The figure
# shows return against distance from the walks:

frontier = ca.frontier(mdp, ca.KL(prior), cautions=[0, 0.1, 0.3, 1, 3, 10])
figure = frontier.plot()

# %%
# What the agent does differently
# -------------------------------
# It avoids the dark cells, although today's rewards do not forbid them, and goes round
# them on the left as the walkers did.

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = plot_side_by_side(
    [neutral, cautious], ["risk-neutral", f"caution {cautious.caution:g}"]
)

# %%
# In numbers:

print("caution   in the dark   return   share of the neutral return")
for one in frontier:
    share = one.expected_return / neutral.expected_return
    print(
        f"{one.caution:7g} {100 * one.occupancy[dark].sum():11.1f} %"
        f" {one.expected_return:8.3f} {100 * share:25.1f} %"
    )
assert cautious.occupancy[dark].sum() < 0.6 * neutral.occupancy[dark].sum()
assert cautious.expected_return > 0.95 * neutral.expected_return

# %%
# In the row above the dark cells the usual move has changed:

above = [s for s in range(mdp.n_states) if mdp.state_names[s].startswith("r3")]
for name, one in [("risk-neutral", neutral), ("cautious", cautious)]:
    print(
        f"{name:13s}",
        " ".join(f"{mdp.action_names[one.policy[s].argmax()]:5s}" for s in above),
    )

# %%
# The dependence on caution
# -------------------------
# With a small caution the policy follows the walks where that costs little. With a
# large one it copies the walks, including their slips: the return falls, and the time
# in the dark cells does not.

assert frontier[5].expected_return < frontier[4].expected_return
assert frontier[5].occupancy[dark].sum() > frontier[4].occupancy[dark].sum() - 1e-3

# %%
# When not to use it
# ------------------
# A zero in the prior forbids a pair, exactly. Without smoothing, pairs that were not
# recorded by chance are excluded for ever:

strict = ca.demonstrations(walks, mdp, smoothing=0.0, at_end="cut")
print(
    f"{np.count_nonzero(strict.occupancy == 0)} of {strict.occupancy.size} pairs"
    " are forbidden"
)
assert (strict.occupancy == 0).any()

# %%
# If actions were not recorded, use :doc:`plot_kl_states`. If small deviations should
# cost nothing, use :doc:`plot_quadratic`; if nothing should be forbidden,
# :doc:`plot_total_variation`.
