"""Whether a policy of a small model keeps a linear limit, in fractions: where floating point cannot tell.

A bound may be exactly what a policy reaches. Distributions are doubles whose sum misses one by rounding; start, rows of
transitions and rows of the policy stand for the exact multiples whose sum is one.
"""

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from cautious.arrays import Array, Mask
from cautious.models.tabular import MDP
from cautious.risks.limits import Limit
from cautious.risks.measures import LinearMeasure, parts_of

# states that are reached; the work grows with the third power, and the numbers with the states
MAX_STATES = 40


def exactly_kept(mdp: MDP, policy: Array, reached: Mask, limit: Limit) -> bool:
    """Whether the policy of a discounted problem keeps the limit; False also where the model is too large to tell."""
    states = np.flatnonzero(reached)
    if (
        not mdp.written_down
        or mdp.horizon is not None
        or not isinstance(limit.source, LinearMeasure)
        or states.size > MAX_STATES
    ):
        return False
    gain, gamma = [Fraction(0)] * states.size, Fraction(mdp.discount)
    rows = [_shares(policy[s]) for s in states]
    for weight, measure in parts_of(limit.source):
        # normalised, so that a return has the factor 1 / (1 - gamma)
        factor, table = Fraction(weight) / ((1 - gamma) if measure.is_return else 1), measure.table(mdp)
        for i, s in enumerate(states):
            gain[i] += factor * sum((p * Fraction(float(table[s, a])) for a, p in rows[i]), Fraction(0))
    values = _values(mdp, states.tolist(), rows, gain)
    start = dict(_shares(mdp.start[states]))
    value = (1 - gamma) * sum((p * values[i] for i, p in start.items()), Fraction(0))
    return limit.sign * value <= Fraction(limit.bound)


def _shares(weights: Array) -> list[tuple[int, Fraction]]:
    """The positive entries as fractions that sum to one."""
    used = np.flatnonzero(weights)
    exact = [Fraction(float(weights[i])) for i in used]
    return [(int(i), weight / sum(exact)) for i, weight in zip(used, exact, strict=True)]


def _values(
    mdp: MDP, states: list[int], rows: Sequence[list[tuple[int, Fraction]]], gain: list[Fraction]
) -> list[Fraction]:
    """The solution v of  v = gain + gamma E[v]  on these states, which are not left: Gaussian elimination."""
    gamma, place = Fraction(mdp.discount), {s: i for i, s in enumerate(states)}
    system: list[dict[int, Fraction]] = []
    for i, s in enumerate(states):
        row = {i: Fraction(1)}
        for a, p in rows[i] if gamma else ():
            first, last = mdp.transitions.indptr[s * mdp.n_actions + a : s * mdp.n_actions + a + 2]
            for k, chance in _shares(mdp.transitions.data[first:last]):
                j = place[int(mdp.transitions.indices[first + k])]
                row[j] = row.get(j, Fraction(0)) - gamma * p * chance
        system.append(row)
    # rows are diagonally dominant: no pivoting is needed
    for i, row in enumerate(system):
        for k in range(i + 1, len(system)):
            share = system[k].pop(i, Fraction(0)) / row[i]
            if share:
                gain[k] -= share * gain[i]
                for j, entry in row.items():
                    if j > i:
                        system[k][j] = system[k].get(j, Fraction(0)) - share * entry
    values = [Fraction(0)] * len(states)
    for i in reversed(range(len(states))):
        later = sum((entry * values[j] for j, entry in system[i].items() if j > i), Fraction(0))
        values[i] = (gain[i] - later) / system[i][i]
    return values
