"""The cautions of a frontier sixteen at a time: first some that lie all over it, then those between, by interpolation.

In the logarithm of the caution the multipliers are smooth: a polynomial through several that are known is so near to
those between them that one Newton step, or none, is left.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from cautious.arrays import Array, Indices
from cautious.kernels.vectors import EIGHT_LANES, SIXTEEN_LANES
from cautious.solvers.base import Target
from cautious.solvers.entropic_dual import Dual
from cautious.solvers.entropic_eight import EightDuals
from cautious.solvers.entropic_flow import find_marginals
from cautious.solvers.entropic_sixteen import SURE, SixteenDuals
from cautious.solvers.entropic_start import EVEN, UNEVEN, Foreseen, Memory, blurred, planned
from cautious.worth import ROUGH as ACCURACY

FEWEST = 4
# tables of eight numbers a pair, and a state, that are held at the peak
PAIR_TABLES, STATE_TABLES, MOST_BYTES = 4, 30, 5e8
NODES = 8
FIRST_STEPS, STEPS = 20, 4
SWEEPS, FIRST_ACCURACY = 8, 1.0


def worthwhile(duals: Sequence[Dual]) -> bool:
    """Whether there are enough of them, and not too much of each."""
    if len(duals) < FEWEST:
        return False
    n_states, n_actions = duals[0].problem.mdp.shape
    tables = n_states * (PAIR_TABLES * n_actions + STATE_TABLES) * EIGHT_LANES + n_states * (n_actions + 4) * len(duals)
    return 8 * tables <= MOST_BYTES


def foresee(duals: Sequence[Dual], memory: Memory, target: Target, margin: float) -> None:
    """Leave in memory where each of these duals, in the order of their caution, has its minimum, if it was found."""
    sixteen = SixteenDuals(duals[0], memory.scenery(duals[0].problem).log_mu)
    logs, known = np.log([dual.caution for dual in duals]), Known()
    unsure = np.zeros(0, np.int64)
    for group in groups(logs):
        # free places go to duals that may need another step
        group = np.concatenate([group, unsure[: SIXTEEN_LANES - group.size]])
        chosen = [duals[i] for i in group]
        if known.multipliers:
            _continue(sixteen, chosen, known, logs[group])
        else:
            _begin(sixteen, chosen, target)
        allowed = margin * _allowances(sixteen, chosen, target)
        left = sixteen.newton(allowed, STEPS if known.multipliers else FIRST_STEPS, target.clock)
        if target.clock.over or not np.any(left <= allowed):
            return
        unsure = group[(left > SURE * allowed) & (left <= allowed)]
        find_marginals(sixteen, group.size, ACCURACY)
        for lane, (i, found) in enumerate(zip(group, _found(sixteen, chosen), strict=True)):
            if left[lane] <= allowed[lane] and np.isfinite(found.u).all():
                memory.foreseen[duals[i].caution] = found
                known.add(float(logs[i]), duals[i].tau * found.u)


def _continue(sixteen: SixteenDuals, duals: Sequence[Dual], known: "Known", logs: Array) -> None:
    """Go on with these duals from what is known at other cautions."""
    # places that nobody needs repeat the last
    lanes = np.minimum(np.arange(SIXTEEN_LANES), len(duals) - 1)
    u = known.at(logs[lanes]) / np.array([dual.tau for dual in duals])[lanes]
    for half, place in sixteen.used(len(duals)):
        half.take(duals[place], u[:, place])


def _allowances(sixteen: SixteenDuals, duals: Sequence[Dual], target: Target) -> Array:
    """The gap (n,) that counts as solved, in units of each caution."""
    values = np.concatenate([half.values for half, _ in sixteen.used(len(duals))])
    bounds = [dual.middle / (1 - dual.gamma) + dual.caution * float(values[k]) for k, dual in enumerate(duals)]
    return np.array([target.allowance(bound) / dual.caution for bound, dual in zip(bounds, duals, strict=True)])


def _found(sixteen: SixteenDuals, duals: Sequence[Dual]) -> Iterator[Foreseen]:
    """Where each of the duals is now, with the marginals that were found."""
    for half, place in sixteen.used(len(duals)):
        tables, values = (half.u, half.policy, half.log_states, half.wanted), half.values
        u, policy, log_states, states = (np.ascontiguousarray(table.reshape(-1, EIGHT_LANES).T) for table in tables)
        for lane, dual in enumerate(duals[place]):
            yield Foreseen(dual, u[lane], policy[lane], log_states[lane], states[lane], float(values[lane]))


def groups(logs: Array) -> Iterator[Indices]:
    """Sixteens of places in a rising list: first evenly over all of it, then always those farthest from the others.

    The second is among the first: interpolation is worst next to an end, and most so at the cold one.
    """
    n = logs.size
    evenly = np.round(np.linspace(0, n - 1, min(n, SIXTEEN_LANES - 1))).astype(np.int64)
    group = np.union1d(evenly, np.arange(min(n, 2)))
    apart = np.abs(logs[:, None] - logs[group]).min(axis=1)
    apart[group] = -1.0
    while True:
        yield group
        chosen: list[int] = []
        while len(chosen) < SIXTEEN_LANES and apart.max() >= 0:
            chosen.append(int(np.argmax(apart)))
            apart = np.minimum(apart, np.abs(logs - logs[chosen[-1]]))
            apart[chosen[-1]] = -1.0
        if not chosen:
            return
        group = np.sort(np.array(chosen, dtype=np.int64))


class Known:
    """Multipliers (S,) that were found, by the logarithm of their caution."""

    def __init__(self) -> None:
        self.multipliers: dict[float, Array] = {}

    def add(self, log: float, multipliers: Array) -> None:
        """One more, or a better one."""
        self.multipliers[log] = multipliers

    def at(self, logs: Array) -> Array:
        """What the polynomials through the nearest ones say at others; (S, n)."""
        nodes, weights = np.array(list(self.multipliers)), np.zeros((logs.size, len(self.multipliers)))
        for row, log in zip(weights, logs, strict=True):
            # as many on both sides as there are on the emptier one, and one more
            fewer = min(np.count_nonzero(nodes < log), np.count_nonzero(nodes > log))
            near = np.argsort(np.abs(nodes - log), kind="stable")[: min(NODES, 2 * int(fewer) + 2)]
            apart = nodes[near][:, None] - nodes[near]
            np.fill_diagonal(apart, 1.0)
            factors = (log - nodes[near]) / apart
            np.fill_diagonal(factors, 1.0)
            row[near] = factors.prod(axis=1)
        return np.asarray(np.array(list(self.multipliers.values())).T @ weights.T)


def _begin(sixteen: SixteenDuals, duals: Sequence[Dual], target: Target) -> None:
    """As ``entropic_start.begin`` without a neighbour."""
    n, slow = duals[0].xi.size, np.zeros(len(duals), np.bool_)
    parts = sixteen.used(len(duals))
    for half, place in parts:
        half.take(duals[place], np.zeros((n, EIGHT_LANES)))
        slow[place] = half.sweep(SWEEPS, EVEN, UNEVEN)[: len(duals[place])] > UNEVEN
    find_marginals(sixteen, len(duals), FIRST_ACCURACY)
    for half, _ in parts:
        wanted = half.wanted.reshape(n, -1)
        wanted[:] = blurred(duals[0], (wanted / wanted.sum(axis=0)).T).T
    if slow.any():
        _plan(parts, duals, np.flatnonzero(slow), target)


def _plan(parts: Sequence[tuple[EightDuals, slice]], duals: Sequence[Dual], slow: Indices, target: Target) -> None:
    """Where sweeps are slow, plan for the coldest and the warmest: what a plan is worth hardly bends between them."""
    low, high = duals[slow[0]], duals[slow[-1]]
    zero = np.zeros(low.xi.size)
    cold, warm = planned(low, low.at(zero), target), planned(high, high.at(zero), target)
    for half, place in parts:
        u, wanted = half.u.reshape(-1, EIGHT_LANES).copy(), half.wanted.reshape(-1, EIGHT_LANES).copy()
        for lane, dual in enumerate(duals[place]):
            if place.start + lane in slow:
                part = (dual.tau - low.tau) / (high.tau - low.tau) if high.tau > low.tau else 0.0
                u[:, lane] = ((1 - part) * low.tau * cold.point.u + part * high.tau * warm.point.u) / dual.tau
                wanted[:, lane] = cold.states ** (1 - part) * warm.states**part
        half.take(duals[place], u, wanted)
