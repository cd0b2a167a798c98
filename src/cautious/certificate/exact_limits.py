"""Linear limits of small models in fractions: where floating point cannot tell whether they are kept.

A bound may be exactly what a policy reaches, or miss the best value by the last digit of a double. Distributions are
doubles whose sum misses one by rounding; start, rows of transitions and rows of the policy stand for the exact
multiples whose sum is one.

With the measure m of a policy, multiplied by -1 where the user wrote ``>=``, values are the solutions of

    discounted, "total"     v = g + gamma P_pi v               m = <start, v>
    T steps                 v_t = g + gamma P_pi v_{t+1}       m = <start, v_0>
    "average"               x = g + P' x,  n = 1 + P' n        m = x / n  at a state of the closed class,

where P' is P_pi without the way into that state. Over T steps fractions would grow with every step: the values are
enclosed between multiples of a small power of two instead, which are exact wherever such a multiple is.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.horizons.recurrence import closed_classes
from cautious.models.chains import chain_of
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.risks.limits import Limit
from cautious.risks.measures import LinearMeasure, parts_of

# states of a linear system: the work grows with the third power, and the numbers with the states
MAX_STATES = 40
# transitions of all steps, and the power of two of which values over T steps are multiples
MAX_STEPPED_TRANSITIONS, STEP_DIGITS = 100_000, 400
# of policy iteration, which starts from a policy that is best as far as doubles can tell
MAX_POLICIES = 20

# the positive entries of a distribution, (index, chance); and what a choice adds, with where it leads
Row = list[tuple[int, Fraction]]
Choice = tuple[Fraction, Row]


def exactly_kept(mdp: MDP, policy: Array, reached: Mask, limit: Limit) -> bool | None:
    """Whether a policy keeps the limit; None where the model is too large to tell."""
    exact = _exact(mdp, limit)
    if exact is None:
        return None
    if isinstance(mdp.horizon, int):
        mixed = [[[exact.mixed(s, row)] for s, row in enumerate(step)] for step in policy[::-1]]
        if exact.over_steps(mixed, upwards=True) <= exact.bound:
            return True
        return False if exact.over_steps(mixed, upwards=False) > exact.bound else None
    states = np.flatnonzero(reached & ~mdp.ended if mdp.horizon == TOTAL else reached)
    value = exact.value(policy, states)
    return None if value is None else value <= exact.bound


def exact_multipliers(mdp: MDP, active: Mask, limit: Limit, actions: Indices) -> tuple[Array, Array] | None:
    """Multipliers for minus the row of a limit that no policy on the active pairs keeps; None if one may keep it.

    They are the exact sum of both. None also where the model is too large to tell. ``actions`` (S,) are those of a
    policy that comes nearly as close to the limit as any; none are needed with a finite horizon.
    """
    exact = _exact(mdp, limit)
    if exact is None:
        return None
    if isinstance(mdp.horizon, int):
        pairs = ([np.flatnonzero(row) for row in step] for step in active[::-1])
        alone = ([[exact.pair(s, int(a)) for a in own] for s, own in enumerate(step)] for step in pairs)
        values: list[dict[int, Fraction]] = []
        least: Fraction | None = exact.over_steps(alone, upwards=False, values=values)
        tables = [[step.get(s, Fraction(0)) for s in range(mdp.n_states)] for step in values[::-1]]
    else:
        found = exact.least(active, actions)
        if found is None:
            return None
        least, own = found
        unit = 1 - exact.gamma if mdp.horizon is None else Fraction(1)
        tables = [[own.get(s, Fraction(0)) / unit for s in range(mdp.n_states)]]
    if least is None or not least > exact.bound:
        return None
    whole = np.array([[-float(value) for value in row] for row in tables])
    rest = np.array([[float(-value - Fraction(-float(value))) for value in row] for row in tables])
    return (whole, rest) if isinstance(mdp.horizon, int) else (whole[0], rest[0])


def _exact(mdp: MDP, limit: Limit) -> "_ExactLimit | None":
    if not mdp.written_down or not isinstance(limit.source, LinearMeasure):
        return None
    if isinstance(mdp.horizon, int) and mdp.horizon * mdp.n_entries > MAX_STEPPED_TRANSITIONS:
        return None
    return _ExactLimit(mdp, limit)


class _ExactLimit:
    """What every pair adds to the measure of a limit, which must be at most ``bound``."""

    def __init__(self, mdp: MDP, limit: Limit) -> None:
        self.mdp, self.limit, self.bound = mdp, limit, Fraction(limit.bound)
        self.gamma, self._pairs = Fraction(mdp.discount), dict[tuple[int, int], Choice]()
        # of T steps: what shares of time are divided by in the end, which keeps their values short numbers
        steps = mdp.horizon if isinstance(mdp.horizon, int) else 1
        self.all_steps = sum((self.gamma**t for t in range(steps)), Fraction(0))
        assert isinstance(limit.source, LinearMeasure)
        self._parts = [
            (Fraction(weight) * limit.sign * self._unit(measure), measure.table(mdp), measure.by_outcome(mdp))
            for weight, measure in parts_of(limit.source)
        ]

    def _unit(self, measure: LinearMeasure) -> Fraction:
        """What one unit that is counted at the first step adds to the measure, times ``all_steps``."""
        if measure.is_sum:
            return self.all_steps
        return 1 - self.gamma if self.mdp.horizon is None else Fraction(1)

    @cached_property
    def start(self) -> Row:
        return _shares(self.mdp.start)

    @cached_property
    def constant(self) -> Fraction:
        """What the start adds to the measure, whatever the policy."""
        total = Fraction(0)
        for weight, measure in parts_of(self.limit.source):  # type: ignore[arg-type]
            inside = measure.counted_at_start(self.mdp)
            total += Fraction(weight) * self.limit.sign * sum((p for s, p in self.start if inside[s]), Fraction(0))
        return total

    def pair(self, state: int, action: int) -> Choice:
        """What a pair adds, and its transitions."""
        known = self._pairs.get((state, action))
        if known is None:
            rows = self.mdp.transitions
            first, last = rows.indptr[state * self.mdp.n_actions + action : state * self.mdp.n_actions + action + 2]
            chances = _shares(rows.data[first:last])
            gain = Fraction(0)
            for unit, table, outcomes in self._parts:
                if outcomes is None:
                    gain += unit * Fraction(float(table[state, action]))
                else:
                    gain += unit * sum((p * Fraction(float(outcomes[first + k])) for k, p in chances), Fraction(0))
            known = gain, [(int(rows.indices[first + k]), p) for k, p in chances]
            self._pairs[state, action] = known
        return known

    def mixed(self, state: int, weights: Array) -> Choice:
        """The same for a row of a policy."""
        gain, chance = Fraction(0), dict[int, Fraction]()
        for action, share in _shares(weights):
            own, chances = self.pair(state, action)
            gain += share * own
            for j, p in chances:
                chance[j] = chance.get(j, Fraction(0)) + share * p
        return gain, list(chance.items())

    def value(self, policy: Array, states: Indices) -> Fraction | None:
        """The measure of a policy (S, A) that is never in other states; None where there are too many to tell."""
        values = self.values(policy, states)
        if values is None:
            return None
        found, gain = values
        if self.mdp.horizon == AVERAGE:
            return gain + self.constant
        return sum((p * found.get(s, Fraction(0)) for s, p in self.start), Fraction(0)) + self.constant

    def values(self, policy: Array, states: Indices) -> tuple[dict[int, Fraction], Fraction] | None:
        """The values of these states, and the mean of a step in the long run, to which they are relative."""
        if states.size > MAX_STATES:
            return None
        rows = {int(s): self.mixed(int(s), policy[s]) for s in states}
        if self.mdp.horizon != AVERAGE:
            try:
                (found,) = _solutions(rows, self.gamma, [[gain for gain, _ in rows.values()]])
            except ZeroDivisionError:
                # a policy that never ends
                return None
            return found, Fraction(0)
        label = closed_classes(chain_of(self.mdp, policy).matrix)[states]
        if np.unique(label[label >= 0]).size != 1:
            return None
        hub = int(states[np.argmax(label)])
        ways = {s: (gain, [(j, p) for j, p in row if j != hub]) for s, (gain, row) in rows.items()}
        paid, taken = _solutions(ways, self.gamma, [[gain for gain, _ in rows.values()], [Fraction(1)] * len(rows)])
        mean = paid[hub] / taken[hub]
        return {s: paid[s] - mean * taken[s] for s in paid}, mean

    def least(self, active: Mask, actions: Indices) -> tuple[Fraction, dict[int, Fraction]] | None:
        """The least measure of all policies on the active pairs (S, A), by policy iteration, and its values."""
        states, actions = np.flatnonzero(states_of(active)), actions.copy()
        for _ in range(MAX_POLICIES):
            found = self.values(np.eye(self.mdp.n_actions)[actions], states)
            if found is None:
                return None
            values, mean = found
            changed = False
            for s in values:
                best = values[s]
                for a in np.flatnonzero(active[s]):
                    gain, chances = self.pair(s, int(a))
                    ahead = sum((p * values.get(j, Fraction(0)) for j, p in chances), Fraction(0))
                    if gain - mean + self.gamma * ahead < best:
                        best, actions[s], changed = gain - mean + self.gamma * ahead, a, True
            if not changed:
                own = sum((p * values.get(s, Fraction(0)) for s, p in self.start), Fraction(0))
                return (mean if self.mdp.horizon == AVERAGE else own) + self.constant, values
        return None

    def over_steps(
        self, choices: Iterable[list[list[Choice]]], upwards: bool, values: list[dict[int, Fraction]] | None = None
    ) -> Fraction:
        """A bound of the measure over T steps from above or from below, with the least choice in every state.

        ``choices`` are those of every state, of the last step first; a state without choices is not visited. The values
        of every step are appended to ``values``.
        """
        unit, ahead = Fraction(1 << STEP_DIGITS), dict[int, Fraction]()
        for step in choices:
            now = dict[int, Fraction]()
            for state, own in enumerate(step):
                sums = [
                    gain + self.gamma * sum((p * ahead[j] for j, p in chances if ahead), Fraction(0))
                    for gain, chances in own
                ]
                if sums:
                    least = min(sums) * unit
                    now[state] = (-(-least // 1) if upwards else least // 1) / unit
            ahead = now
            if values is not None:
                values.append(now)
        return sum((p * ahead[s] for s, p in self.start), Fraction(0)) / self.all_steps + self.constant


def _shares(weights: Array) -> Row:
    """The positive entries as fractions that sum to one."""
    used = np.flatnonzero(weights)
    exact = [Fraction(float(weights[i])) for i in used]
    whole = sum(exact)
    return [(int(i), weight / whole) for i, weight in zip(used, exact, strict=True)]


def _solutions(rows: dict[int, Choice], gamma: Fraction, rights: Sequence[list[Fraction]]) -> list[dict[int, Fraction]]:
    """The solutions v of  v = right + gamma E[v],  zero in other states: Gaussian elimination."""
    place = {s: i for i, s in enumerate(rows)}
    system: list[dict[int, Fraction]] = []
    for i, (_, chances) in enumerate(rows.values()):
        row = {i: Fraction(1)}
        for s, p in chances if gamma else ():
            if s in place:
                row[place[s]] = row.get(place[s], Fraction(0)) - gamma * p
        system.append(row)
    columns = [list(right) for right in rights]
    # no row has more beside its diagonal than on it: no pivoting is needed
    for i, row in enumerate(system):
        for k in range(i + 1, len(system)):
            share = system[k].pop(i, Fraction(0)) / row[i]
            if share:
                for column in columns:
                    column[k] -= share * column[i]
                for j, entry in row.items():
                    if j > i:
                        system[k][j] = system[k].get(j, Fraction(0)) - share * entry
    for column in columns:
        for i in reversed(range(len(system))):
            later = sum((entry * column[j] for j, entry in system[i].items() if j > i), Fraction(0))
            column[i] = (column[i] - later) / system[i][i]
    return [dict(zip(rows, column, strict=True)) for column in columns]
