"""Every policy that may remember everything, in exact arithmetic: the distributions of the return it can have."""

import itertools
import math
from fractions import Fraction

import numpy as np

import cautious as ca


def all_distributions(transitions, rewards, discount, steps, start):
    """Sets of (return, chance) pairs, one for each deterministic policy on the tree of histories of a tiny model.

    ``transitions`` and ``rewards`` are (S, A, S) arrays of fractions; mixing can only be worse than the best of these
    for all the risks of the return at a fixed target, so that the best of them is the best of all.
    """
    n_states, n_actions, _ = transitions.shape

    def from_here(state, step):
        if step == steps:
            return {((Fraction(0), Fraction(1)),)}
        found = set()
        for action in range(n_actions):
            ways = [n for n in range(n_states) if transitions[state, action, n] > 0]
            for later in itertools.product(*(from_here(n, step + 1) for n in ways)):
                chances = {}
                for n, one in zip(ways, later, strict=True):
                    for earned, chance in one:
                        whole = earned + discount**step * rewards[state, action, n]
                        chances[whole] = chances.get(whole, 0) + chance * transitions[state, action, n]
                found.add(tuple(sorted(chances.items())))
        return found

    return from_here(start, 0)


def risk_of(risk, distribution):
    """The risk by its definition; exact but for exponentials."""
    mean = sum(chance * earned for earned, chance in distribution)
    match risk:
        case ca.ReturnVariance():
            return sum(chance * (earned - mean) ** 2 for earned, chance in distribution)
        case ca.ReturnCVaR():
            tail = 1 - Fraction(risk.level)
            return min(
                sum(chance * max(x - earned, Fraction(0)) for earned, chance in distribution) / tail - x
                for x, _ in distribution
            )
        case ca.ReturnEntropic():
            return entropic(distribution, risk.rate)
        case ca.ReturnEVaR():
            rates = np.exp(np.linspace(-8, 8, 400))
            # the limit of large rates is the worst return
            limit = -float(distribution[0][0])
            return min(limit, *(entropic(distribution, rate) - math.log(1 - risk.level) / rate for rate in rates))
        case ca.ReturnBelow():
            return sum(chance for earned, chance in distribution if earned < Fraction(risk.threshold))


def entropic(distribution, rate):
    """In floating point, from the worst return on."""
    worst = float(distribution[0][0])
    parts = (float(chance) * math.exp(-rate * (float(earned) - worst)) for earned, chance in distribution)
    return math.log(math.fsum(parts)) / rate - worst


def objective(distribution, risk, caution):
    """``E R - caution * risk``."""
    mean = sum(chance * earned for earned, chance in distribution)
    return float(mean - Fraction(caution) * Fraction(risk_of(risk, distribution)))


def random_tiny(rng):
    """(transitions, rewards, discount, steps): small enough for all histories; fractions that floats hold exactly."""
    n_states, n_actions = 2, 2
    eighths = rng.multinomial(8, np.full(n_states, 1 / n_states), size=(n_states, n_actions))
    transitions = np.array([Fraction(int(k), 8) for k in eighths.ravel()]).reshape(2, 2, 2)
    kind = rng.integers(3)
    if kind == 0:
        paid = rng.integers(-3, 4, (2, 2, 2)).astype(float)
    elif kind == 1:
        paid = np.round(rng.normal(size=(2, 2, 2)) * 2**20) / 2**20
    else:
        paid = rng.choice([0.0, 0.5, -2.25, 8.0], (2, 2, 2))
    rewards = np.array([Fraction(float(r)) for r in paid.ravel()]).reshape(2, 2, 2)
    return transitions, rewards, Fraction(float(rng.choice([1.0, 0.875, 0.5]))), int(rng.integers(1, 4))


def as_mdp(transitions, rewards, discount, start=0):
    """The same in floating point, without rounding."""
    first = np.zeros(len(transitions))
    first[start] = 1.0
    return ca.MDP(transitions.astype(float), rewards.astype(float), float(discount), first)
