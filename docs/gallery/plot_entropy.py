r"""
Entropy: do not rely on few pairs
=================================

The risk ``ca.Entropy()`` is

.. math::

    \sum_{s, a} d(s, a) \log d(s, a)

The negative entropy of the occupancy. It is the KL distance to a uniform prior, up to a
constant. Caution distributes the behaviour over the pairs that are nearly as good.
"""

# %%
# A random model
# --------------
# The model has fifty states, four actions, and random rewards and successors. It has no
# danger of its own, but its numbers may be wrong.

import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.report.canvas import LIGHT, dress, new_figure

mdp = ca.worlds.garnet(seed=7)
frontier = ca.frontier(mdp, ca.Entropy(), cautions=[0, 0.3, 1, 2, 4, 10])
figure = frontier.plot()

# %%
# What the agent does differently
# -------------------------------
# It distributes its time over more pairs. The figure shows the pairs of a state and an
# action in descending order of their share:

# sphinx_gallery_thumbnail_number = 2
neutral, cautious = frontier[0].require(), frontier[3].require()
figure = new_figure(LIGHT, 6.8, 3.8)
axes = figure.subplots()
for one, name, colour, style in [
    (neutral, "risk-neutral", LIGHT.neutral, "s--"),
    (cautious, f"caution {cautious.caution:g}", LIGHT.chosen, "o-"),
]:
    used = np.sort(100 * one.occupancy.ravel())[::-1]
    axes.plot(
        np.arange(1, 101), used[:100], style, color=colour, label=name, markersize=4
    )
axes.set(
    xlabel="rank of the pair", ylabel="share of discounted time (%)", ylim=(0, None)
)
axes.legend(frameon=False)
dress(axes, LIGHT)

# %%
# In numbers:

print("caution   busiest pair   pairs in use   likeliest action   return")
for one in frontier:
    d = one.occupancy
    likeliest = np.sum(d.sum(axis=1) * one.policy.max(axis=1))
    used = np.count_nonzero(d > 1e-4)
    print(
        f"{one.caution:7g} {100 * d.max():12.1f} % {used:14d}"
        f" {100 * likeliest:16.0f} % {one.expected_return:8.2f}"
    )
busiest = [one.occupancy.max() for one in frontier]
assert all(np.diff(busiest) < 0)

# %%
# "Pairs in use" have more than a hundredth of a percent of the time; "likeliest action"
# is the share of time in which the agent takes the likeliest action of its state.
#
# Does it help against a wrong model?
# -----------------------------------
# This experiment tests it. The agent estimates the model from a few noisy samples of
# every pair, plans in the estimated model, and acts in the true one. There are eight
# repetitions:


def life(samples, caution, seed):
    """Return in the true model of a policy that was made in an estimated one."""
    rng = np.random.default_rng(seed)
    seen = rng.multinomial(samples, mdp.transitions.toarray()) / samples
    rewards = mdp.rewards + rng.normal(0, 0.5 / np.sqrt(samples), mdp.shape)
    estimate = ca.MDP(sp.csr_array(seen), rewards, mdp.discount)
    policy = ca.solve(ca.Problem(estimate, ca.Entropy(), caution)).require().policy
    return ca.evaluate(mdp, policy, episodes=2).exact_mean


print("samples of each pair   caution   mean return   worst of 8")
results = {}
for samples in (3, 20):
    for caution in (0.0, 1.0):
        lives = results[samples, caution] = np.array(
            [life(samples, caution, seed) for seed in range(8)]
        )
        print(f"{samples:20d} {caution:9g} {lives.mean():13.2f} {lives.min():13.2f}")
assert results[3, 1.0].mean() > results[3, 0.0].mean()
assert results[3, 1.0].min() > results[3, 0.0].min()
assert results[20, 1.0].mean() < results[20, 0.0].mean()

# %%
# When not to use it
# ------------------
# As the table shows, it helps only if the model is poor. With a good model it costs
# return and gains nothing. Every pair keeps some probability, also bad actions. If some
# actions must never be taken, remove them from the model with ``allowed``. If there is
# known behaviour, stay close to it: :doc:`plot_kl_pairs`.
