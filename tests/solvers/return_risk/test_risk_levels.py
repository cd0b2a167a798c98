"""The decomposition of CVaR by risk levels is not a method for the best policy: a counterexample, and ours on it.

Chow et al. (2015) plan on pairs of a state and a risk level. The mean of the worst share ``level`` of the return is the
least of means in which nature moves weight to bad outcomes; nature's choice after one step is what share of each
successor's outcomes is among the worst, and that share is the successor's risk level. For one given policy this is
right (Pflug and Pichler). For the best policy it is not (Hau et al. 2023): the backward sweep takes the best action
of a successor for each risk level by itself, so that the agent answers to a level that nature has chosen. But nature is
only a way to write the mean of a tail down: the tail is made of the worst outcomes of the policy that is played, and
moves when the policy changes. The sweep therefore claims a mixture of actions that no policy has, and an agent who
believes the claim leaves something better for it. This is no matter of discretisation: the peer below has no grid.
"""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from all_histories import all_distributions, as_mdp, random_tiny, risk_of

import cautious as ca


def weight_of(segments, level):
    """A convex function of the level, from 0: the (length, slope) segments in the order of their slopes, added up."""
    total = Fraction(0)
    for length, slope in segments:
        part = min(length, level)
        total, level = total + part * slope, level - part
    return total


def larger(one, other):
    """The larger of two such functions, as segments."""
    ends = sorted({sum(length for length, _ in f[:k]) for f in (one, other) for k in range(len(f) + 1)})
    cuts = set(ends)
    for low, high in itertools.pairwise(ends):
        at_low, at_high = (weight_of(one, x) - weight_of(other, x) for x in (low, high))
        if at_low * at_high < 0:
            cuts.add(low + (high - low) * at_low / (at_low - at_high))
    points = [(x, max(weight_of(one, x), weight_of(other, x))) for x in sorted(cuts)]
    return [(b - a, (at_b - at_a) / (b - a)) for (a, at_a), (b, at_b) in itertools.pairwise(points)]


class RiskLevels:
    """The decomposition in exact arithmetic: level times value is piecewise linear and convex in the level."""

    def __init__(self, transitions, rewards, discount, steps):
        self.transitions, self.rewards, self.discount, self.steps = transitions, rewards, discount, steps
        end = [(Fraction(1), Fraction(0))]
        self.best = {(state, steps): end for state in range(len(transitions))}
        self.of_action = {}
        for step in reversed(range(steps)):
            for state in range(len(transitions)):
                found = [self.ways(state, action, step) for action in range(transitions.shape[1])]
                self.of_action[state, step] = [[(length, slope) for slope, length, _ in ways] for ways in found]
                best, *others = self.of_action[state, step]
                for other in others:
                    best = larger(best, other)
                self.best[state, step] = best

    def ways(self, state, action, step):
        """(slope, length, successor): nature gives weight to the smallest slopes first."""
        chances, paid = self.transitions[state, action], self.rewards[state, action]
        return sorted(
            (paid[n] + self.discount * slope, chances[n] * length, n)
            for n in range(len(chances))
            if chances[n] > 0
            for length, slope in self.best[n, step + 1]
        )

    def claim(self, state, level):
        """What it says is the best mean of the worst share ``level``."""
        return weight_of(self.best[state, 0], level) / level

    def played(self, state, level, first, step=0):
        """The distribution of the return of its greedy policy; of actions that are equally good, the first or last."""
        if step == self.steps:
            return {Fraction(0): Fraction(1)}
        actions = self.of_action[state, step]
        value = [weight_of(f, level) / level if level else f[0][1] for f in actions]
        equally_good = [action for action, v in enumerate(value) if v == max(value)]
        action = equally_good[0 if first else -1]
        # levels of the successors
        left, levels = level, {}
        for _, length, n in self.ways(state, action, step):
            part = min(length, left)
            left, levels[n] = left - part, levels.get(n, 0) + part / self.transitions[state, action, n]
        returns = {}
        for n, successor_level in levels.items():
            for earned, chance in self.played(n, successor_level, first, step + 1).items():
                whole = self.rewards[state, action, n] + self.discount * earned
                returns[whole] = returns.get(whole, 0) + chance * self.transitions[state, action, n]
        return returns


def tail_mean(distribution, level):
    return -risk_of(ca.ReturnCVaR(float(1 - level)), tuple(sorted(distribution)))


def counterexample():
    """A sure 3, or even chances of a steady job that pays 8 and of a choice: 0, or -16 once in four, else 16.

    The worst half of the second way: with 0 it is that 0; with the lottery, -16 with 1/8 and 8 with 3/8, so 2 on
    average. The decomposition gives the choice the level 1/2, where the lottery is worth 0 as well, and the job too: it
    claims 4, half 0 and half 8, and does not take the 3.
    """
    start, choice, job, end, well = range(5)
    transitions, rewards = np.full((2, 5, 2, 5), Fraction(0))
    transitions[start, 0, [choice, job]] = Fraction(1, 2)
    transitions[start, 1, end], rewards[start, 1, end] = Fraction(1), Fraction(3)
    transitions[choice, 0, end] = Fraction(1)
    transitions[choice, 1, [end, well]] = Fraction(1, 4), Fraction(3, 4)
    rewards[choice, 1, [end, well]] = Fraction(-16), Fraction(16)
    transitions[job, :, end], rewards[job, :, end] = Fraction(1), Fraction(8)
    transitions[end, :, end] = transitions[well, :, well] = Fraction(1)
    return transitions, rewards, Fraction(1), 2


def test_risk_levels_miss_the_best_policy():
    parts, level = counterexample(), Fraction(1, 2)
    best = max(tail_mean(one, level) for one in all_distributions(*parts, start=0))
    assert best == 3
    peer = RiskLevels(*parts)
    assert peer.claim(0, level) == 4
    # both actions of the choice are equally good at its level, and none gives what is claimed
    assert [tail_mean(peer.played(0, level, first).items(), level) for first in (True, False)] == [0, 2]
    # a caution at which one unit of the tail is worth more than any difference of means
    mdp = as_mdp(*parts[:3])
    solution = ca.solve(ca.Problem(mdp, ca.ReturnCVaR(0.5), caution=1000.0, horizon=2))
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    assert -solution.risk == pytest.approx(float(best), abs=1e-9)
    assert solution.upper_bound == pytest.approx(3.0 + 1000.0 * 3.0, rel=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_risk_levels_are_right_for_one_policy_and_claim_too_much_for_the_best(seed):
    """The peer is the published one: exact where there is nothing to choose, and never below the best."""
    rng = np.random.default_rng([seed, 11])
    transitions, rewards, discount, steps = random_tiny(rng)
    level = Fraction(int(rng.integers(1, 16)), 16)
    alone = transitions[:, :1], rewards[:, :1], discount, steps
    (only,) = all_distributions(*alone, start=0)
    assert RiskLevels(*alone).claim(0, level) == tail_mean(only, level)
    distributions = all_distributions(transitions, rewards, discount, steps, start=0)
    best = max(tail_mean(one, level) for one in distributions)
    peer = RiskLevels(transitions, rewards, discount, steps)
    assert peer.claim(0, level) >= best
    played = peer.played(0, level, first=True)
    assert tuple(sorted(played.items())) in distributions
    assert tail_mean(played.items(), level) <= best


def test_returns_of_1e300_have_rates_that_are_not_zero():
    """The best rate is the least that there is; zero has no logarithm of a mean, and failed an assertion."""
    mdp = ca.MDP(np.full((2, 2, 2), 0.5), [[0.0, 1e300], [2e300, -1e300]], discount=0.5)
    solution = ca.solve(ca.Problem(mdp, ca.ReturnEVaR(0.5), 1.0, horizon=3))
    assert np.isfinite(solution.objective)
    assert np.isfinite(solution.gap)
