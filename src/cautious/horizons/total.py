"""The best policy for any reward table until the end, undiscounted: a stochastic shortest path.

Only policies that end with certainty count (``models.ends``). For values v that are zero in ended states, and raised
rewards r + e with e > 0,

    r + e + E[v] - v  <=  e  for all pairs   proves   best total  <=  <start, v>,

so that the values of the raised problem, found up to less than e, are multipliers with room for rounding. They exceed
the best total by e times the number of steps until the end. From below, values of a policy whose residuals are at most
delta are wrong by at most delta times its number of steps w,  which any w >= 1 + P_pi w bounds. Such a w also proves
that the policy ends.

End components. Where staying costs something, the policies that end are better anyhow, if the raise is small enough:
it is reduced until it is. Where the pairs that stay pay nothing, or cost no more than the raise, staying is free: the
states of such a component are given the same value, and one exit serves them all; every other state of it heads for
that exit. A component that pays more than it costs has no best policy: ``endless_gain`` finds it, and no bound is
claimed for its table.

The method: sweeps in place, and linear systems of whole policies where these converge slowly or never.
"""

from collections.abc import Callable

import numpy as np
import scipy.sparse as sp

from cautious._core import planning as kernels
from cautious._core.rows import ending_actions
from cautious.arrays import Array, Indices, Mask
from cautious.errors import InputError
from cautious.horizons.plan import Plan
from cautious.horizons.policy_iteration import PolicyIteration, Stopping
from cautious.models.chains import DeterministicChains, OrderedChain, factors_of, ordered
from cautious.models.encodings import EPS, read_only_view
from cautious.models.ends import Ending, components_of
from cautious.models.tabular import MDP

# sweeps in place between two looks at the policy; if they reduce the change by less, a system is solved
IN_PLACE_SWEEPS = 8
SUFFICIENT_REDUCTION = 0.1
MAX_ROUNDS, MAX_POLICY_ROUNDS, MAX_RAISES = 60, 200, 8
# of the allowed gap: what raised rewards may add, and what the values of the raised problem may be off, as a share of
# the raise; the latter of what the first values may be off
RAISE_SHARE, RESIDUAL_SHARE, FIRST_SHARE = 0.25, 0.25, 0.1
# steps of value iteration until the sign of a component's gain is known; steps between two looks at the clock
MAX_GAIN_STEPS, STEPS_BETWEEN_LOOKS = 20_000, 100
# after so many, gains close to zero are found by policies instead, if the component has at most so many states: by the
# best one of this discount, whose values also say what is best without it
FIRST_GAIN_STEPS, MAX_POLICY_STATES, GAIN_DISCOUNT = 500, 2_000, 1 - 1e-10
MAX_GAIN_POLICIES = 50
# states of a component that an error names
NAMED_STATES = 3
# what a step of a linear solve costs, in passes
PASSES_PER_STEP = 16


def plan_total(mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping, warm: Plan | None) -> Plan:
    """As ``planning.plan``; without an upper bound where the table has none."""
    return _TotalIteration(mdp, reward, allowed, stopping).run(warm)


def refuse_endless(mdp: MDP) -> None:
    """Refuse a start from which no policy ends with certainty, and rewards that pay for never ending."""
    end = mdp.ending(mdp.allowed)
    stuck = (mdp.start > 0) & ~end.open & ~mdp.ended
    if stuck.any():
        raise InputError(
            f'horizon="total": from {mdp.state_label(int(np.argmax(stuck)))} no policy comes to an end with certainty; '
            "an end is a state that is never left and pays nothing"
        )
    states = endless_gain(mdp, mdp.rewards, mdp.allowed)
    if states is None:
        return
    some = ", ".join(mdp.state_label(int(state)) for state in states[:NAMED_STATES])
    more = f" and {states.size - NAMED_STATES} more" if states.size > NAMED_STATES else ""
    raise InputError(
        f'horizon="total": one can go on for ever in {some}{more}, and the rewards there do not make that cost '
        "something: their total has no largest value"
    )


def endless_gain(mdp: MDP, reward: Array, allowed: Mask, over: Callable[[], bool] | None = None) -> Indices | None:
    """The states of an end component whose policies may gain for ever, or None if there is none.

    That is so if the largest mean reward per step inside it is positive, or if it cannot be told from zero before time
    is ``over``.
    """
    end = mdp.ending(allowed)
    number, inside = end.components.number, end.components.inside
    paying = _numbers_with(number, inside & (reward > 0))
    if paying.size == 0:
        return None
    costly = _numbers_with(number, inside & (reward < 0))
    for one in paying:
        states = np.flatnonzero(number == one)
        if one not in costly or not _loses(mdp, reward, inside, states, over):
            return states
    return None


def _numbers_with(number: Indices, pairs: Mask) -> Indices:
    """The numbers of the components that have one of the pairs (S, A)."""
    return np.unique(number[pairs.any(axis=1)])


def _loses(mdp: MDP, reward: Array, inside: Mask, states: Indices, over: Callable[[], bool] | None) -> bool:
    """Whether the largest mean reward of these states, a component, is negative: lazy value iteration with bounds.

    Where steps that cost nothing lead round and round, the states on the way count as one.
    """
    part = np.zeros(inside.shape, np.bool_)
    part[states] = inside[states]
    free = components_of(mdp.csr[:2], part & (reward == 0))
    group = np.where(free.number >= 0, free.number, free.count + np.arange(mdp.n_states))[states]
    group = np.unique(group, return_inverse=True)[1]
    pairs = np.flatnonzero(part & ~free.inside)
    own = group[np.searchsorted(states, pairs // mdp.n_actions)]
    order = np.argsort(own, kind="stable")
    pairs, own = pairs[order], own[order]
    first = np.flatnonzero(np.diff(own, prepend=-1))
    together = sp.csr_array((np.ones(states.size), (np.arange(states.size), group)))
    rows, paid = mdp.transitions[pairs][:, states] @ together, reward.ravel()[pairs]
    values, least = np.zeros(first.size), float(np.abs(paid[paid != 0]).min())
    for step in range(MAX_GAIN_STEPS):
        if over is not None and step % STEPS_BETWEEN_LOOKS == 0 and over():
            return False
        if step == FIRST_GAIN_STEPS and first.size <= MAX_POLICY_STATES:
            values = _values_of_policies(rows, paid, first, values, over)
        change = np.maximum.reduceat(paid + rows @ values, first) - values
        rounding = 8 * EPS * (mdp.widest_row + 4) * float(np.abs(values).max() + np.abs(paid).max())
        if change.max() + rounding < 0:
            return True
        if change.min() - rounding > 0 or float(np.ptp(change)) <= 1e-9 * least + rounding:
            return False
        values = values + 0.5 * change
        values -= values[0]
    return False


def _values_of_policies(
    rows: sp.csr_array, paid: Array, first: Indices, values: Array, over: Callable[[], bool] | None
) -> Array:
    """The values (S,) of the best policy with discount ``GAIN_DISCOUNT``, by policy iteration, about zero.

    ``rows`` (pairs, S) and ``paid`` (pairs,) go through the pairs state by state, from ``first`` (S,) on.
    """
    lengths = np.diff(np.append(first, paid.size))
    owner, chosen = np.repeat(np.arange(first.size), lengths), first
    # in a unit in which values that are 1 / (1 - discount) times as large do not overflow
    unit = float(np.abs(paid).max())
    paid, values = paid / unit, values / unit
    for number in range(MAX_GAIN_POLICIES):
        worth = paid + GAIN_DISCOUNT * (rows @ values)
        best = np.maximum.reduceat(worth, first)
        hits = np.flatnonzero(worth == best[owner])
        greedy = hits[np.flatnonzero(np.diff(owner[hits], prepend=-1))]
        # a pair is changed only for one that is better by more than rounding
        gained = best - worth[chosen]
        better = np.where((number == 0) | (gained > 64 * EPS * (1 + np.abs(best))), greedy, chosen)
        if (number > 0 and np.array_equal(better, chosen)) or (over is not None and over()):
            break
        chosen = better
        system = sp.eye_array(first.size, format="csc") - GAIN_DISCOUNT * sp.csc_array(rows[chosen])
        values = factors_of(sp.csc_array(system)).solve(paid[chosen])
    return np.asarray(unit * (values - values[0]))


class _OpenChains(DeterministicChains):
    """Chains that lose their mass where they leave the ``open`` states (S,)."""

    def __init__(self, mdp: MDP, reward: Array, end: Ending) -> None:
        super().__init__(mdp, reward)
        self.closed, self.order = np.flatnonzero(~end.open), end.order

    def ordered_chain(self, actions: Indices) -> tuple[OrderedChain, Array]:
        """The chain of actions (S,) and what they are paid (S,); nothing leaves the other states."""
        chain, gain = self.chain(actions)
        first = np.asarray(chain.pointer, np.int64)[self.closed]
        lengths = np.asarray(chain.pointer, np.int64)[self.closed + 1] - first
        ends = np.cumsum(lengths)
        self.room[2][np.repeat(first - ends + lengths, lengths) + np.arange(int(lengths.sum()))] = 0.0
        return ordered(self.mdp, chain, self.order), gain


class _Free:
    """The components in which staying is free: their states are worth the same."""

    def __init__(self, number: Indices, inside: Mask, table: Array) -> None:
        """``number`` (S,) and ``inside`` (S, A) as in ``Components``; ``table`` (S, A) as planned with."""
        states = np.flatnonzero(number >= 0)
        self.states = states[np.argsort(number[states], kind="stable")]
        own = number[self.states]
        self.starts = np.flatnonzero(np.diff(own, prepend=-1))
        self.sizes = np.diff(np.append(self.starts, own.size))
        self.inside = inside
        self.no_exit = ~(table[self.states] > -np.inf).any(axis=1)

    def level(self, values: Array) -> None:
        """Give every state the value of the best exit of its component."""
        own = np.where(self.no_exit, -np.inf, values[self.states])
        best = np.maximum.reduceat(own, self.starts)
        values[self.states] = np.repeat(best, self.sizes)

    def exits(self, values: Array) -> Indices:
        """One state for each component with the best exit, by values (S,) before they are level."""
        own = np.where(self.no_exit, -np.inf, values[self.states])
        best = np.repeat(np.maximum.reduceat(own, self.starts), self.sizes)
        places = np.flatnonzero(own == best)
        component = np.repeat(np.arange(self.starts.size), self.sizes)[places]
        return np.asarray(self.states[places[np.flatnonzero(np.diff(component, prepend=-1))]])


class _Raised:
    """The problem with rewards raised by ``raised``: its table, and the components where staying is free."""

    def __init__(self, mdp: MDP, reward: Array, allowed: Mask, raised: float) -> None:
        self.mdp, self.raised = mdp, raised
        self.end = mdp.ending(allowed)
        table = np.full(mdp.shape, -np.inf)
        np.add(reward, raised, out=table, where=self.end.pairs)
        self.free: _Free | None = None
        # the components in which staying is free, by number (S,); -1 elsewhere
        self.group = np.full(mdp.n_states, -1, np.int64)
        if self.end.components.any:
            table = self._without_free_steps(table, reward)
        self.table = read_only_view(table).ravel()

    def _without_free_steps(self, table: Array, reward: Array) -> Array:
        number, inside = self.end.components.number, self.end.components.inside
        paying = np.zeros(self.end.components.count + 1, np.bool_)
        paying[_numbers_with(number, inside & (reward > 0))] = True
        # where nothing is paid, steps that cost no more than the raise are free too: raised, they would pay
        cost = np.where(paying[number], 0.0, self.raised)[:, None]
        steps = inside & (reward <= 0) & (reward >= -cost)
        if steps.any():
            found = components_of(self.mdp.csr[:2], steps)
            if found.any:
                table = np.where(found.inside, -np.inf, table)
                self.free, self.group = _Free(found.number, found.inside, table), found.number
        return table

    def sweep_in_place(self, values: Array, aim: float) -> float:
        """values <- T values, state by state, until they change by at most ``aim``, or ``IN_PLACE_SWEEPS`` of them.

        States that lead to each other are gone through again and again before those that lead to them.
        """
        order = self.end.order
        places = order.states, order.block, self.group
        return kernels.bellman_in_order(*self.mdp.csr, self.table, *places, IN_PLACE_SWEEPS, aim, values)

    def policy(self, actions: Indices, values: Array) -> Indices:
        """The actions (S,), heading for the exits where staying is free; ``values`` before they are level."""
        if self.free is None:
            return actions
        exits = np.zeros(actions.size, np.bool_)
        exits[self.free.exits(values)] = True
        heading = ending_actions(*self.mdp.csr[:2], read_only_view(self.free.inside).ravel(), exits)
        return np.where(heading >= 0, heading, actions)


class _TotalIteration(PolicyIteration):
    def __init__(self, mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping) -> None:
        self.reward, self.allowed = reward, allowed
        self.end = mdp.ending(allowed)
        largest_reward = float(np.abs(reward[self.end.pairs]).max(initial=0.0))
        super().__init__(mdp, read_only_view(self.end.open), largest_reward, stopping)
        self.steps: Array | None = None
        table = np.where(self.end.pairs, reward, -np.inf)
        self.chains = _OpenChains(mdp, read_only_view(table).ravel(), self.end)
        self.best = Plan(self.end.actions, np.zeros(mdp.n_states), -np.inf, np.inf)

    def run(self, warm: Plan | None) -> Plan:
        """Values of the problem as it is, then of raised problems until the bounds are close enough."""
        values, actions = np.zeros(self.mdp.n_states), self.end.actions
        if self.largest_reward == 0:
            return Plan(actions, values, 0.0, 0.0)
        if warm is not None:
            values = np.where(self.end.open, warm.values, 0.0)
            usable = self.end.pairs[np.arange(actions.size), warm.actions]
            actions = np.where(usable, warm.actions, actions)
        if not self.end.components.any or self._has_best():
            self._bound(values, actions)
        if self.best.lower == -np.inf:
            self._evaluate(self.end.actions, values)
        return self.found()

    def _has_best(self) -> bool:
        return endless_gain(self.mdp, self.reward, self.allowed, self.stopping.over) is None

    def _bound(self, values: Array, actions: Indices) -> None:
        raised = _Raised(self.mdp, self.reward, self.allowed, 0.0)
        worth = float(self.mdp.start @ values)
        values, actions = self._solve(raised, values, actions, FIRST_SHARE * self._wanted(worth))
        duration = self._evaluate(actions, values)
        for _ in range(MAX_RAISES):
            if duration is None or self.stopping.out_of_time:
                return
            worth = float(self.mdp.start @ values)
            noise = self._noise(values)
            raise_by = max(RAISE_SHARE * self._wanted(worth) / max(duration, 1e-300), 8 * noise)
            if self.best.upper < np.inf and not raise_by < 0.5 * raised.raised:
                return
            raised = _Raised(self.mdp, self.reward, self.allowed, raise_by)
            start = values if self.steps is None else values + raise_by * self.steps
            found, actions = self._solve(raised, start, actions, RESIDUAL_SHARE * raise_by)
            self._prove(raised, found)
            # the policy before the raise is mostly good enough
            if self._is_close(worth):
                return
            longer = self._evaluate(actions, found)
            if self._is_close(worth):
                return
            values = found
            # a policy that takes longer is worth as much where rewards are raised: they were raised too much
            duration = max(longer or 0.0, 10 * duration)

    def _ends(self, actions: Indices) -> bool:
        """Whether a policy ends with certainty from every open state."""
        if not self.end.components.any:
            return True
        taken = np.zeros(self.mdp.shape, np.bool_)
        taken[np.arange(actions.size), actions] = True
        taken &= self.end.open[:, None]
        leading = ending_actions(*self.mdp.csr[:2], read_only_view(taken).ravel(), self.mdp.ended)
        return bool(np.all(leading[self.end.open] >= 0))

    def _is_close(self, worth: float) -> bool:
        """Whether the bounds are close enough together, or nothing more is asked for."""
        width = self.best.upper - self.best.lower
        return width <= self._wanted(worth) or self.stopping.ends(self.best.upper, worth)

    def _wanted(self, worth: float) -> float:
        """The width of bounds that is small enough."""
        return max(self.stopping.gap(worth), self.stopping.width(self.best.upper, worth))

    def _noise(self, values: Array) -> float:
        """What rounding does to a sweep over values (S,)."""
        return self.rounding(float(np.abs(values).max(initial=0.0)))

    def _improve(self, raised: _Raised, values: Array, actions: Indices) -> tuple[Array, Indices, float]:
        """One sweep: T values, the policy, and the largest change; ``actions`` are kept where they tie."""
        chosen = actions.copy()
        swept, (least, most, *_) = self.sweep(raised.table, 1.0, values, chosen)
        if raised.free is None:
            return swept, chosen, max(most, -least) if self.scope.any() else 0.0
        chosen = raised.policy(chosen, swept)
        raised.free.level(swept)
        change = np.abs(swept - values)[self.scope]
        return swept, chosen, float(change.max(initial=0.0))

    def _solve(self, raised: _Raised, values: Array, actions: Indices, aim: float) -> tuple[Array, Indices]:
        """Values that one sweep changes by at most ``aim``, or as little as rounding permits, and their policy."""
        values = values.copy()
        if raised.free is not None:
            raised.free.level(values)
            values = np.where(np.isfinite(values), values, 0.0)
        last, swept = np.inf, values
        for number in range(MAX_ROUNDS):
            self.spent += raised.sweep_in_place(values, max(aim, self._noise(values)))
            swept, actions, change = self._improve(raised, values, actions)
            aim = max(aim, 2 * self._noise(swept)) if number > 2 else aim
            if change <= aim or self.stopping.out_of_time:
                return swept, actions
            values = swept
            if change > SUFFICIENT_REDUCTION * last:
                if not self._ends(actions):
                    break
                values = self._values(raised, actions, swept, aim)
            last = change
        return self._by_policies(raised, aim)

    def _by_policies(self, raised: _Raised, aim: float) -> tuple[Array, Indices]:
        """Policy iteration from a policy that ends: better ones end too, because not to end is worth minus infinity."""
        actions, values = self.end.actions, np.zeros(self.mdp.n_states)
        for _ in range(MAX_POLICY_ROUNDS):
            values = self._values(raised, actions, values, 0.25 * aim)
            if raised.free is not None:
                raised.free.level(values)
            swept, better, change = self._improve(raised, values, actions)
            unchanged = np.array_equal(better, actions)
            if change <= aim or unchanged or self.stopping.out_of_time:
                return swept, better
            if not self._ends(better):
                return values, actions
            actions = better
        return values, actions

    def _values(self, raised: _Raised, actions: Indices, guess: Array, aim: float) -> Array:
        """The values of a policy that ends, by its linear system."""
        chain, _ = self.chains.ordered_chain(actions)
        gain = raised.table[np.arange(actions.size) * self.mdp.n_actions + actions]
        # steps that are free have no entry in the table
        gain = np.where(self.end.open & (gain > -np.inf), gain, 0.0)
        found, steps = chain.values(gain, guess, 0.2 * aim)
        self.spent += PASSES_PER_STEP * steps * chain.chain.chance.size / self.n_entries
        return np.where(self.end.open, found, 0.0)

    def _prove(self, raised: _Raised, values: Array) -> None:
        """The upper bound of values, if no pair of raised rewards gains more than the raise leaves room for."""
        mdp, noise = self.mdp, self._noise(values)
        _, (_, most, *_) = self.sweep(raised.table, 1.0, values, np.zeros(mdp.n_states, np.int64))
        most = most if self.scope.any() else 0.0
        if not most + noise <= raised.raised:
            return
        mean, size = float(mdp.start @ values), float(mdp.start @ np.abs(values))
        upper = mean + 4 * EPS * (mdp.n_states + 4) * size
        if upper < self.best.upper:
            self.best = Plan(self.best.actions, values, self.best.lower, upper)

    def _evaluate(self, actions: Indices, guess: Array) -> float | None:
        """Bound the best total by that of a policy from below; the mean number of its steps, None if it may not end."""
        mdp, is_open = self.mdp, self.end.open
        if not is_open.any():
            self.best = Plan(actions, np.zeros(mdp.n_states), 0.0, 0.0)
            return None
        if not self._ends(actions):
            return None
        chain, gain = self.chains.ordered_chain(actions)
        gain, ones = np.where(is_open, gain, 0.0), is_open.astype(np.float64)
        steps, count = chain.values(ones, self.steps, 0.01)
        steps = np.where(is_open, np.maximum(steps, 1.0), 0.0)
        rounding = 4 * EPS * (mdp.widest_row + 4)
        short = float(chain.missing(ones, steps)[is_open].max()) + rounding * float(steps.max())
        if not short < 0.5:
            return None
        steps /= 1 - short
        self.steps = steps
        duration = float(mdp.start @ steps)
        aim = 0.1 * self._wanted(float(mdp.start @ guess)) / max(duration, 1.0)
        values, more = chain.values(gain, guess, aim)
        values = np.where(is_open, values, 0.0)
        self.spent += PASSES_PER_STEP * (count + more) * chain.chain.chance.size / self.n_entries
        residual = float(np.abs(chain.missing(gain, values)[is_open]).max())
        residual += rounding * (float(np.abs(gain).max()) + 2 * float(np.abs(values).max()))
        lower = float(mdp.start @ values) - residual * duration * (1 + 1e-9)
        lower -= 4 * EPS * (mdp.n_states + 4) * float(mdp.start @ np.abs(values))
        if lower > self.best.lower:
            known = self.best
            self.best = Plan(actions, known.values if known.upper < np.inf else values, lower, known.upper)
        return duration
