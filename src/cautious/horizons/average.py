"""The best long-run average of a reward table, in a model with one end component (``recurrence.py``).

For any relative values h and T the optimality operator, with low and high the least and largest entry of Th - h,

    low  <=  gain of the greedy policy, from every start  <=  best gain  <=  high.

Stopping rests on these two numbers alone, widened by what rounding can do; they hold for periodic chains and for
policies with several closed classes. The method is modified policy iteration: a sweep over all pairs, then passes over
the chain of the greedy policy and the best combination of the last steps. Passes mix every transition with staying, so
that a period does not keep them from converging. Where passes converge slowly, the gain and the values of the policy
are solved for, and policy iteration takes over in the end (Haviv and Puterman, 1991): a policy with several closed
classes is led to its best one before it is evaluated.
"""

from copy import copy
from functools import partial

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from cautious._core import evaluation_acceleration as steps
from cautious._core import planning as kernels
from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.horizons.discounted import plan_discounted
from cautious.horizons.plan import Plan
from cautious.horizons.policy_iteration import PolicyIteration, Stopping
from cautious.horizons.recurrence import closed_classes, pair_graph, uniform_on
from cautious.models.chains import Chain, DeterministicChains, balance_factors, chain_of, factors_are_cheap
from cautious.models.encodings import EPS, read_only_view
from cautious.models.tabular import MDP
from cautious.runtime.threads import over_pieces, pieces, threads_for

PASSES_PER_SWEEP = 10
# the share of staying in a pass
STAYING_SHARE = 0.1
# a combination of steps may be so many times larger than the last values
MAX_GROWTH = 100.0
# rounds of sweep and passes before it is asked whether they will do, at most, and rounds of policy iteration
FIRST_ROUNDS, MAX_ROUNDS, MAX_POLICY_ROUNDS = 8, 300, 200
# what a start by discounted plans and solves costs, in such rounds
ROUNDS_PER_SOLVE = 40
# discounts of the plans that policy iteration starts from, and how precise these are, as a share of all values
START_DISCOUNTS, START_PRECISION = (0.999, 0.99999), 1e-3
# how precisely the soonest way to a reference state is found, as a share of what being there is worth
REACH_PRECISION = 1e-6
# how close bounds must be, as a share of the range of rewards: a rough plan may be as good, but where it has not found
# out what is best it may stay for so long that nobody can tell where it is in the long run
BOUND_PRECISION = 1e-9
# policy iteration is given up where a policy takes bounds so many times farther apart
MAX_WIDTH_GROWTH = 100.0


def plan_average(mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping, warm: Plan | None) -> Plan:
    """As ``planning.plan``; ``allowed`` are the pairs of one end component. Values are relative ones."""
    inside = states_of(allowed)
    if inside.all():
        return _AverageIteration(mdp, reward, allowed, stopping).run(warm)
    states = np.flatnonzero(inside)
    part = mdp.restricted(states, allowed[states])
    if warm is not None:
        warm = Plan(warm.actions[states], warm.values[states], warm.lower, warm.upper)
    found = _AverageIteration(part, reward[states], allowed[states], stopping).run(warm)
    actions, values = np.argmax(mdp.allowed, axis=1), np.zeros(mdp.n_states)
    actions[states], values[states] = found.actions, found.values
    return Plan(actions, values, found.lower, found.upper, found.sweeps)


def quickly_mixing(mdp: MDP, reward: Array, allowed: Mask, plan: Plan, slack: float) -> Plan:
    """A plan that is worth less by ``slack`` at most, and whose chain soon gets to one of few states.

    Where many actions are as good, a plan may lead to different parts of the model from different states, and the
    chain may take longer from one part to the other than any computation can follow. A policy whose actions all have an
    advantage of at least L has a gain of at least L: among these actions, those are taken that lead to a reference
    state soonest.
    """
    inside, values = states_of(allowed), plan.values
    advantage = np.where(allowed, reward + mdp.expect_next(values) - values[:, None], -np.inf)
    least = float(advantage.max(axis=1)[inside].min()) - slack
    near = np.asarray(advantage >= least)
    states = np.flatnonzero(inside)
    part = mdp.restricted(states, near[states])
    chain = chain_of(part, uniform_on(part.allowed))
    goal = np.zeros(part.shape)
    goal[references(closed_classes(chain.matrix), _mass(chain))] = 1.0
    part.discount, part.horizon = START_DISCOUNTS[0], None
    enough = REACH_PRECISION / (1 - part.discount)
    found = plan_discounted(part, goal, part.allowed, Stopping(enough))
    actions = plan.actions.copy()
    actions[states] = found.actions
    size = float(np.abs(values).max(initial=0.0)) + float(np.abs(reward[allowed]).max())
    rounding = 4 * EPS * (mdp.widest_row + 4) * size
    return Plan(actions, values, least - rounding, plan.upper, plan.sweeps + found.sweeps)


class _AverageIteration(PolicyIteration):
    """All states of the model lie in the component."""

    def __init__(self, mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping) -> None:
        least, most = float(reward[allowed].min()), float(reward[allowed].max())
        super().__init__(mdp, np.ones(mdp.n_states, np.bool_), max(most, -least), stopping)
        self.allowed, self.spread = allowed, most - least
        self.reward = read_only_view(np.where(allowed, reward, -np.inf)).ravel()
        self.chains = DeterministicChains(mdp, self.reward)
        self.direct = factors_are_cheap(mdp)
        self.products = np.empty((pieces(mdp.n_states), steps.STEP_CORRECTIONS + 1, steps.STEP_CORRECTIONS + 2))
        self.iterates = np.empty((kernels.KEPT_ITERATES, mdp.n_states))
        self.target = 0.0

    def run(self, warm: Plan | None) -> Plan:
        """Sweeps and passes; if these converge slowly, whole policies, from the best ones of high discounts."""
        mdp = self.mdp
        values = np.zeros(mdp.n_states) if warm is None else np.array(warm.values, np.float64)
        actions = np.argmax(self.allowed, axis=1)
        if warm is not None:
            kept = self.allowed[np.arange(mdp.n_states), warm.actions]
            actions = np.where(kept, warm.actions, actions)
        self.best = Plan(actions.copy(), values, -np.inf, np.inf)
        if not (self.by_sweeps(values, actions, FIRST_ROUNDS) or self.by_discounts(warm)):
            # where solves did not help
            self.by_sweeps(self.best.values, self.best.actions.copy(), MAX_ROUNDS)
        return self.found()

    def by_discounts(self, warm: Plan | None) -> bool:
        """Policy iteration, from the plan so far if there was one to begin with, and then from discounted ones.

        Under a poor policy the chain can take so long from one part of the model to another that its equations cannot
        be solved in double precision. The best policy of a high discount is rarely poor, and found fast.
        """
        if warm is not None and self.by_policies(self.best.values, self.best.actions.copy()):
            return True
        plan: Plan | None = None
        for gamma in START_DISCOUNTS:
            near = copy(self.mdp)
            near.discount, near.horizon = gamma, None
            enough = START_PRECISION * self.spread / (1 - gamma)
            table = self.reward.reshape(self.mdp.shape)
            plan = plan_discounted(near, table, self.allowed, Stopping(enough, over=self.stopping.over), plan)
            self.spent += plan.sweeps
            values, _, _, done = self.improve(plan.values - plan.values.mean(), plan.actions.copy())
            if done or self.by_policies(values, plan.actions.copy()):
                return True
        return False

    def improve(self, values: Array, actions: Indices) -> tuple[Array, float, float, bool]:
        """T values, about zero; the width of the bounds; how many actions changed; whether that will do.

        Overwrites ``actions``, and keeps the best bounds.
        """
        swept, (least, most, largest, _, changed) = self.sweep(self.reward, 1.0, values, actions)
        rounding = self.rounding(largest)
        low, high = least - rounding, most + rounding
        width = high - low
        swept -= (swept.max() + swept.min()) / 2
        if width < self.best.upper - self.best.lower:
            self.best = Plan(actions.copy(), swept.copy(), low, high)
        worth = (low + high) / 2
        self.target = max(min(self.stopping.gap(worth), BOUND_PRECISION * self.spread), 4 * rounding)
        done = width <= self.target or self.stopping.ends(self.best.upper, worth)
        return swept, width, changed, done

    def by_sweeps(self, values: Array, actions: Indices, rounds: int) -> bool:
        """Modified policy iteration; False if after that many rounds the widths do not fall fast enough."""
        first = np.inf
        for number in range(MAX_ROUNDS):
            values, width, _, done = self.improve(values, actions)
            if done:
                return True
            first = width if number == 1 else first
            if number >= rounds:
                shrunk = max(width / first, 1e-300) ** (1 / max(number - 1, 1))
                if width * shrunk**ROUNDS_PER_SOLVE > self.target:
                    return False
            values = self.nearer(values, actions)
        return False

    def nearer(self, values: Array, actions: Indices) -> Array:
        """Values nearer to the policy's own: lazy passes over its chain, then the best mix of the last steps."""
        chain, gain = self.chains.chain(actions)
        n, threads, iterates = self.mdp.n_states, threads_for(chain.chance.size), self.iterates
        last = values
        for number in range(PASSES_PER_SWEEP):
            new = iterates[number % kernels.KEPT_ITERATES]
            over_pieces(n, threads, partial(kernels.evaluate, *chain.arrays, gain, 1.0, last, new))
            new *= 1 - STAYING_SHARE
            new += STAYING_SHARE * last
            last = new
        self.spent += PASSES_PER_SWEEP * chain.chance.size / self.n_entries
        v0, v1, v2, v3 = (iterates[(PASSES_PER_SWEEP + i) % kernels.KEPT_ITERATES] for i in range(4))
        over_pieces(n, threads, partial(steps.step_products, v0, v1, v2, v3, self.products))
        weights = steps.best_weights(self.products, steps.STEP_CORRECTIONS, n)
        plain = v3.copy()
        over_pieces(n, threads, partial(steps.add_steps, v1, v2, v3, weights))
        # steps that are all but constant leave weights of any size
        better = v3.copy() if _largest(v3) <= MAX_GROWTH * _largest(plain) else plain
        return np.asarray(better - (better.max() + better.min()) / 2)

    def by_policies(self, values: Array, actions: Indices) -> bool:
        """Policy iteration; False where the equations of a policy cannot be solved, or rounding ends the progress."""
        first, last_width = self.best.upper - self.best.lower, np.inf
        for _ in range(MAX_POLICY_ROUNDS):
            found = self.solved(values, actions)
            if found is None:
                return False
            values, width, changed, done = self.improve(found, actions)
            if done:
                return True
            if (changed == 0 and not width < 0.5 * last_width) or width > MAX_WIDTH_GROWTH * first:
                return False
            last_width = width
        return False

    def solved(self, values: Array, actions: Indices) -> Array | None:
        """The values of the policy, which is given one closed class first; None if its equations cannot be solved."""
        chain, gain = self.chains.chain(actions)
        label = closed_classes(chain.matrix)
        if label.max() > 0:
            gains = class_gains(chain, gain, label, self.direct)
            if not np.isfinite(gains).all():
                return None
            best = int(np.argmax(gains))
            actions[:] = self.led_to(label == best, actions, chain)
            chain, gain = self.chains.chain(actions)
            label = np.where(label == best, 0, -1)
        self.spent += PASSES_PER_SWEEP
        _, own = relative_values(chain, gain, label, values, self.direct)
        return np.ascontiguousarray(own) if np.isfinite(own).all() else None

    def led_to(self, goal: Mask, actions: Indices, chain: Chain) -> Indices:
        """The actions, changed in states from which they do not reach the goal: there they follow a shortest path."""
        there = _reaches(chain.matrix, goal)
        graph = sp.csr_array(pair_graph(self.mdp, self.allowed).T)
        parent = _parents(graph, there)
        lost = np.flatnonzero(~there)
        table = self.allowed[lost]
        pairs = (lost[:, None] * self.mdp.n_actions + np.arange(self.mdp.n_actions))[table]
        rows = self.mdp.transitions[pairs]
        owner = np.repeat(pairs, np.diff(rows.indptr))
        hits = owner[rows.indices == parent[owner // self.mdp.n_actions]]
        state, first = np.unique(hits // self.mdp.n_actions, return_index=True)
        changed = actions.copy()
        changed[state] = hits[first] % self.mdp.n_actions
        return changed


def _reaches(graph: sp.csr_array, goal: Mask) -> Mask:
    """Nodes from which the goal can be reached."""
    return _parents(sp.csr_array(graph.T), goal) >= 0


def _parents(backwards: sp.csr_array, goal: Mask) -> Indices:
    """The next node on a shortest path to the goal, by breadth-first search in the reversed graph; -1 where none is.

    Nodes of the goal are their own parents.
    """
    n = goal.size
    root = sp.csr_array((np.ones(int(goal.sum())), (np.zeros(int(goal.sum()), np.int64), np.flatnonzero(goal))), (1, n))
    wide = sp.vstack([sp.hstack([backwards, sp.csr_array((n, 1))]), sp.hstack([root, sp.csr_array((1, 1))])])
    _, parent = breadth_first_order(sp.csr_array(wide), n, directed=True)
    parent = np.asarray(parent[:n], np.int64)
    parent[goal] = np.flatnonzero(goal)
    return np.where(parent < 0, -1, parent)


def references(label: Indices, mass: Array) -> Indices:
    """One state of every closed class: the one with the most mass."""
    inside = np.flatnonzero(label >= 0)
    order = inside[np.lexsort((-mass[inside], label[inside]))]
    _, first = np.unique(label[order], return_index=True)
    return np.asarray(order[first])


def class_gains(chain: Chain, reward: Array, label: Indices, direct: bool) -> Array:
    """The mean reward of every closed class, by what a cycle from a reference state pays and how long it takes."""
    reference = references(label, _mass(chain))
    paid, taken = _cycles(chain, reference, reward, None, direct)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(paid[reference] / taken[reference])


def relative_values(chain: Chain, reward: Array, label: Indices, guess: Array, direct: bool) -> tuple[float, Array]:
    """Gain and relative values (S,) of a chain with one closed class, for rewards (S,)."""
    reference = references(label, _mass(chain))
    # a gain that is about right keeps the sums over cycles small
    first = guess - guess[reference[0]]
    about = reward + np.asarray(chain.matrix @ first) - first
    middle = float((about.max() + about.min()) / 2)
    paid, taken = _cycles(chain, reference, reward - middle, first, direct)
    with np.errstate(invalid="ignore", divide="ignore"):
        more = float(paid[reference[0]] / taken[reference[0]])
    return middle + more, paid - more * taken


def _cycles(chain: Chain, reference: Indices, reward: Array, guess: Array | None, direct: bool) -> tuple[Array, Array]:
    """What is paid, and how long it takes (S,), until a reference state is entered."""
    stays = np.ones(chain.n_states, np.bool_)
    stays[reference] = False
    ending = Chain(chain.pointer, chain.successor, read_only_view(chain.chance * stays[chain.successor]))
    one = np.ones(chain.n_states)
    if not direct:
        return ending.values(1.0, reward, guess)[0], ending.values(1.0, one)[0]
    factors = balance_factors(one, ending.matrix)
    found = []
    for right in (reward, one):
        x = np.asarray(factors.solve(right))
        # once more for what rounding left
        found.append(x + np.asarray(factors.solve(ending.missing(1.0, right, x))))
    return found[0], found[1]


def _mass(chain: Chain) -> Array:
    """An approximation of the distribution of the states after some steps."""
    mass, backwards = np.full(chain.n_states, 1 / chain.n_states), sp.csr_array(chain.matrix.T)
    for _ in range(PASSES_PER_SWEEP):
        mass = STAYING_SHARE * mass + (1 - STAYING_SHARE) * np.asarray(backwards @ mass)
    return mass


def _largest(x: Array) -> float:
    return max(float(x.max()), -float(x.min()))
