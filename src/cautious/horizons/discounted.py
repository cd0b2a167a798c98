"""The best policy for any reward table, discounted and for ever.

For any values v and T the optimality operator, with low and high the least and largest entry of Tv - v over the
states that can be reached,

    <xi, Tv> + gamma low / (1-gamma) <= value of the greedy policy <= optimum <= <xi, Tv> + gamma high / (1-gamma).

Stopping rests on these two numbers alone, widened by what rounding can do. The method is modified policy iteration: a
sweep over all pairs, a shift to the middle of the bounds, then passes over the chain of the greedy policy, which cost
less, and corrections that make them converge faster (``_core/evaluation_acceleration.hpp``). Where most pairs have one
likely outcome, it starts from the values of a simplified model (``_core/likely_moves.hpp``), in which values propagate
faster than one state per sweep. Where the policy no longer changes and passes converge slowly, its linear system is
solved instead; and policy iteration with such solves takes over where the rounds above do not suffice.
"""

from typing import Any, NamedTuple

import numpy as np

from cautious._core import planning as kernels
from cautious._core.likely_moves import follow_moves, likely_moves
from cautious.arrays import Array, Indices, Mask
from cautious.checks import states_of
from cautious.horizons.plan import Plan
from cautious.horizons.policy_iteration import PolicyIteration, Stopping
from cautious.models.chains import DeterministicChains
from cautious.models.encodings import EPS, read_only_view
from cautious.models.evaluation_acceleration import EvaluationAcceleration
from cautious.models.tabular import MDP

# evaluation passes over a chain between two sweeps; a sweep costs more of them where its rows must be made first
PASSES_PER_SWEEP, PASSES_WITHOUT_MATRIX = 10, 30
# corrections along likely paths are tried when a sweep changed at most this share of the actions
MAX_CHANGED_SHARE = 0.02
# sweeps over the simplified model end when values rise by less than this share of the first rise
MAX_SIMPLE_SWEEPS, MIN_RELATIVE_RISE = 100, 0.05
# rounds of sweep and passes before policy iteration takes over: without and with likely paths, and in small models
MAX_ROUNDS, MAX_ROUNDS_WITH_PATHS, MAX_SMALL_ROUNDS = 300, 60, 30
MAX_SMALL_STATES = 300
MAX_POLICY_ROUNDS = 100
IN_PLACE_SWEEPS = 10
# what a linear solve costs, in rounds of a sweep and passes; and a step of it, in passes
ROUNDS_PER_SOLVE = 12
PASSES_PER_STEP = 16


class _SweepResult(NamedTuple):
    """T v (S,) raised by ``middle`` to that of the bounds, their ``width``, how many actions changed."""

    values: Array
    middle: float
    width: float
    changed: float
    done: bool


def plan_discounted(mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping, warm: Plan | None = None) -> Plan:
    """As ``planning.plan``."""
    return _DiscountedIteration(mdp, reward, allowed, stopping).run(warm)


class _DiscountedIteration(PolicyIteration):
    def __init__(self, mdp: MDP, reward: Array, allowed: Mask, stopping: Stopping) -> None:
        self.allowed = allowed
        self.every = bool(allowed.all())
        usual = self.every or allowed is mdp.allowed
        scope = read_only_view(mdp.visitable if usual else mdp.reachable(allowed) & states_of(allowed))
        self.reward = read_only_view(reward if self.every else np.where(allowed, reward, -np.inf)).ravel()
        used = reward if self.every else reward[allowed]
        self.least_reward, most = (float(used.min()), float(used.max())) if used.size else (0.0, 0.0)
        super().__init__(mdp, scope, max(most, -self.least_reward), stopping)
        self.greedy = DeterministicChains(mdp, self.reward)
        self.acceleration = EvaluationAcceleration(mdp)
        self.passes = PASSES_PER_SWEEP if mdp.written_down else PASSES_WITHOUT_MATRIX
        self.target = 0.0

    def run(self, warm: Plan | None) -> Plan:
        """Sweeps, then whole policies; what it found."""
        if warm is None:
            values, actions = self.simpler_values(), np.zeros(self.mdp.n_states, np.int64)
        else:
            values, actions = np.array(warm.values, np.float64), np.array(warm.actions, np.int64)
        if not self.every:
            kept = self.allowed[np.arange(self.mdp.n_states), actions]
            actions = np.where(kept, actions, np.argmax(self.allowed, axis=1))
        self.best = Plan(actions.copy(), values, -np.inf, np.inf)
        values, done = self.by_sweeps(values, actions)
        if not done:
            self.by_policies(values, actions)
        return self.found()

    def simpler_values(self) -> Array:
        """Starting values: those of the model in which each pair leads to its likeliest outcome, or zero."""
        mdp = self.mdp
        if not self.acceleration.has_paths:
            return np.zeros(mdp.n_states)
        n_pairs = mdp.n_states * mdp.n_actions
        target: Any = np.empty(n_pairs, np.int32 if mdp.n_states < 2**31 else np.int64)
        weight = np.empty(n_pairs)
        for block in mdp.row_blocks():
            likely_moves(*block.rows, mdp.discount, mdp.n_states, target, weight)
        worth = np.full(mdp.n_states, self.least_reward)
        first = follow_moves(target, weight, self.reward, worth, True)
        for number in range(MAX_SIMPLE_SWEEPS):
            rise = follow_moves(target, weight, self.reward, worth, number % 2 == 1)
            if rise <= MIN_RELATIVE_RISE * first:
                break
        return worth / (1 - mdp.discount)

    def improve(self, values: Array, actions: Indices) -> _SweepResult:
        """One sweep, which overwrites ``actions``; records the bounds."""
        gamma = self.mdp.discount
        swept, (least, most, largest, mean, changed) = self.sweep(self.reward, gamma, values, actions)
        rounding = self.rounding(largest)
        low, high = (gamma * least - rounding) / (1 - gamma), (gamma * most + rounding) / (1 - gamma)
        noise = 4 * EPS * (min(kernels.PIECE, swept.size) + len(self.summaries)) * largest
        middle, width = (low + high) / 2, high - low
        swept += middle
        if width < self.best.upper - self.best.lower:
            self.best = Plan(actions.copy(), swept, mean + low - noise, mean + high + noise)
        upper, worth = self.best.upper, mean + middle
        self.target = max(self.stopping.width(upper, worth), 4 * rounding / (1 - gamma))
        done = width <= self.target or self.stopping.ends(upper, worth)
        return _SweepResult(swept, middle, width, changed, done)

    def by_sweeps(self, values: Array, actions: Indices) -> tuple[Array, bool]:
        """Modified policy iteration."""
        last_width, settled = np.inf, False
        rounds = MAX_ROUNDS_WITH_PATHS if self.acceleration.has_paths else MAX_ROUNDS
        for _ in range(MAX_SMALL_ROUNDS if self.mdp.n_states <= MAX_SMALL_STATES else rounds):
            swept = self.improve(values, actions)
            if swept.done:
                return swept.values, True
            unchanged = swept.changed == 0
            shrunk = min(max(swept.width / last_width, 1e-300), 1.0)
            slow = settled and unchanged and swept.width * shrunk**ROUNDS_PER_SOLVE > self.target
            values = self.solved(swept.values, actions) if slow else self.nearer(swept, actions)
            settled, last_width = unchanged and not slow, swept.width
        return values, False

    def nearer(self, swept: _SweepResult, actions: Indices) -> Array:
        """Values nearer to the policy's own: passes over its chain, and likely paths if few actions changed."""
        chain, gain = self.greedy.chain(actions)
        self.spent += self.passes * chain.chance.size / self.n_entries
        steady = swept.changed <= MAX_CHANGED_SHARE * self.mdp.n_states
        return self.acceleration.evaluate(chain, gain, swept.values, self.passes, actions if steady else None)

    def solved(self, values: Array, actions: Indices) -> Array:
        """The values of the policy, by solving its system."""
        self.acceleration.release()
        chain, gain = self.greedy.chain(actions)
        gamma = self.mdp.discount
        found, steps = chain.values(gamma, gain, values, 0.2 * (1 - gamma) * self.target)
        self.spent += PASSES_PER_STEP * steps * chain.chance.size / self.n_entries
        return found

    def by_policies(self, values: Array, actions: Indices) -> None:
        """Policy iteration with whole solves.

        Between two solves, sweeps in place propagate values farther than the one step that a change of policy does. The
        values of a policy are below their sweep, so these sweeps only raise them.
        """
        for _ in range(MAX_POLICY_ROUNDS):
            swept = self.improve(self.solved(values, actions), actions)
            if swept.done or swept.changed == 0:
                return
            values = swept.values - swept.middle
            for number in range(IN_PLACE_SWEEPS):
                for block in self.mdp.row_blocks(backwards=number % 2 == 1):
                    kernels.bellman_in_place(*block.rows, self.reward, self.mdp.discount, values, number % 2 == 1)
            self.spent += IN_PLACE_SWEEPS
            swept = self.improve(values, actions)
            if swept.done:
                return
            values = swept.values
