"""The occupancy of a policy in fractions, for models with few states.

Where a limit is met with equality no enclosure can tell that it is kept. The work grows with the third power of the
states and the numbers grow with each of them, so that this is for small models only; and not for long-run averages.
"""

from fractions import Fraction

import numpy as np

from cautious.arrays import Array, Mask
from cautious.verification.claim import AVERAGE, Model
from cautious.verification.exact import Integers, bits_of, integers
from cautious.verification.flow import Rows, reachable
from cautious.verification.total import ended_states

# of states, and of states times steps
MAX_STATES, MAX_STATES_AND_STEPS = 40, 400


def exact_masses(model: Model, policy: Array, pairs: Mask) -> tuple[Rows, list[Fraction]] | None:
    """The ``pairs`` (S, A) that a policy uses and their exact masses; None where that is too much work."""
    rows, n = Rows(model, pairs), int(np.count_nonzero(pairs.any(axis=1)))
    start = _shares(integers(model.start, bits_of(model.start)))
    if isinstance(model.horizon, int):
        if n * model.horizon > MAX_STATES_AND_STEPS:
            return None
        return rows, _over_steps(rows, policy, start)
    if n > MAX_STATES or model.horizon == AVERAGE:
        return None
    shares = _choices(rows, policy)
    inside = reachable(model, policy > 0)
    if model.counts_visits:
        inside &= ~ended_states(model)
    entering = [share / model.length if not model.counts_visits else share for share in start]
    states = _solved(rows, shares, np.flatnonzero(inside).tolist(), entering)
    return rows, [states[s] * share for s, share in zip(rows.states.tolist(), shares, strict=True)]


def _shares(weights: Integers) -> list[Fraction]:
    total = int(weights.sum())
    return [Fraction(int(weight), total) for weight in weights]


def _choices(rows: Rows, policy: Array) -> list[Fraction]:
    """The chance of every pair in its state, by a policy (S, A)."""
    whole = integers(policy, bits_of(policy))
    totals = whole.sum(axis=1)
    return [Fraction(int(whole.ravel()[p]), int(totals[s])) for p, s in zip(rows.pairs, rows.states, strict=True)]


def _moved(rows: Rows, masses: list[Fraction]) -> dict[int, Fraction]:
    """Where masses of the pairs go, discounted."""
    gamma = Fraction(rows.model.discount)
    found: dict[int, Fraction] = {}
    for owner, state, chance in zip(rows.owner, rows.next_states.tolist(), rows.chances, strict=True):
        flow = gamma * masses[owner] * Fraction(int(chance), int(rows.totals[owner]))
        found[state] = found.get(state, Fraction(0)) + flow
    return found


def _over_steps(rows: Rows, policy: Array, start: list[Fraction]) -> list[Fraction]:
    x = {state: share / rows.model.length for state, share in enumerate(start)}
    total = [Fraction(0)] * rows.pairs.size
    for table in policy:
        choices = _choices(rows, table)
        now = [x.get(s, Fraction(0)) * share for s, share in zip(rows.states.tolist(), choices, strict=True)]
        total = [mass + more for mass, more in zip(total, now, strict=True)]
        x = _moved(rows, now)
    return total


def _solved(rows: Rows, shares: list[Fraction], states: list[int], entering: list[Fraction]) -> dict[int, Fraction]:
    """The solution of  x = entering + gamma P' x  on these states, by elimination; what leaves them is lost."""
    gamma = Fraction(rows.model.discount)
    place = {state: i for i, state in enumerate(states)}
    matrix = [[Fraction(int(i == j)) for j in range(len(states))] + [entering[s]] for i, s in enumerate(states)]
    tails = rows.states[rows.owner].tolist()
    for owner, tail, head, chance in zip(rows.owner, tails, rows.next_states.tolist(), rows.chances, strict=True):
        if head in place:
            flow = gamma * shares[owner] * Fraction(int(chance), int(rows.totals[owner]))
            matrix[place[head]][place[tail]] -= flow
    # columns are diagonally dominant, or their states lead to the end: pivots are positive
    for i, pivot in enumerate(matrix):
        for row in matrix[:i] + matrix[i + 1 :]:
            ratio = row[i] / pivot[i]
            if ratio:
                for j in range(i, len(row)):
                    row[j] -= ratio * pivot[j]
    return {state: matrix[i][-1] / matrix[i][i] for state, i in place.items()}
