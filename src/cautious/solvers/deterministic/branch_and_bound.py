"""The best deterministic policy: branch and bound on the states where the best policy mixes actions.

A node is a set of state-action pairs. The best policy on these pairs, mixed or not, is at least as good as the best
deterministic one: its upper bound holds for both. Where it mixes actions in a state, one child keeps only the most
likely of them there, and the other child all but that one. A node is closed when its bound is no better than the best
deterministic policy found, when its best policy is deterministic, or when no policy on its pairs keeps the limits.

Every node proposes two deterministic policies: the likeliest actions of its best policy, and the best actions at the
prices of the risks and limits.

Over a number of steps a set of pairs is one for each step, and a place is a step and a state. Policies mix in few
places there, and deterministic ones come close: every choice at these places is tried before the search, which looks at
fewer nodes, because each takes as many times longer.
"""

import heapq
import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.certificate.bounds import Witness, linear_problem
from cautious.certificate.exact_limits import exactly_kept
from cautious.certificate.policy_evaluation import EvaluatedPolicy, evaluate_policy
from cautious.models.horizons import AVERAGE
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.base import Outcome, Progress, Target, Workspace
from cautious.solvers.choose import dispatch

Callback = Callable[[Progress], object]

MAX_NODES = 3000
# over a number of steps: places with a choice, so that all choices are at most a thousand of two actions
MAX_PLACES, MAX_CHOICES = 10, 1024
# of the allowed gap: the precision of nodes, and what a node must promise beyond the best policy found
NODE_GAP_SHARE, MIN_GAIN_SHARE = 0.3, 0.5
# an action with a larger share is the only one of its state
MAX_SHARE = 1 - 1e-9


@dataclass(order=True)
class _Node:
    """Ordered by what no policy on its pairs exceeds, the most promising first."""

    minus_upper: float
    number: int
    pairs: Mask = field(compare=False)
    policy: Array | None = field(compare=False)


def branch_and_bound(problem: Problem, target: Target, callback: Callback | None) -> Outcome:
    """Search until the gap is within the target's, every node is closed, or a limit is reached.

    Where no policy of any kind is known to have a finite objective, it is the outcome for all policies.
    """
    return _BranchAndBound(problem, target, callback).run()


class _BranchAndBound:
    def __init__(self, problem: Problem, target: Target, callback: Callback | None) -> None:
        self.problem, self.target, self.callback = problem, target, callback
        self.best: EvaluatedPolicy | None = None
        # the largest bound of the closed nodes
        self.closed, self.nodes = -np.inf, 0
        self.open: list[_Node] = []
        steps = problem.mdp.horizon if isinstance(problem.mdp.horizon, int) else 1
        self.max_nodes = max(1, MAX_NODES // steps)

    def run(self) -> Outcome:
        everything = np.array(np.broadcast_to(self.problem.permitted, self.problem.mdp.occupancy_shape))
        relaxed = self._outcome(everything)
        if not np.isfinite(relaxed.objective):
            return relaxed
        if isinstance(self.problem.mdp.horizon, int):
            self._try_choices(relaxed)
        node: _Node | None = self._node(everything, relaxed)
        while node is not None or self.open:
            if node is None:
                node = heapq.heappop(self.open)
            if self._over() or self._solved(-node.minus_upper):
                heapq.heappush(self.open, node)
                break
            node = self._branched(node)
        upper = max([self.closed, self._value, *(-node.minus_upper for node in self.open)])
        return self._ended(relaxed, upper, every_node_closed=not self.open)

    def _ended(self, relaxed: Outcome, upper: float, every_node_closed: bool) -> Outcome:
        assert relaxed.evaluated is not None
        found = Outcome(method="branch and bound", upper=upper, steps=self.nodes, relaxed=relaxed)
        found.excluded = self.best is None and every_node_closed
        found.out_of_steps = not every_node_closed
        # the policy that mixes actions is shown where no deterministic one is known, but is not worth what it earns
        found.evaluated = self.best or replace(relaxed.evaluated, risk=np.inf, objective=-np.inf)
        found.decide(self.problem, self.target)
        return found

    def _try_choices(self, relaxed: Outcome) -> None:
        """Every choice at the places, a step and a state each, where the best policy mixes actions most."""
        assert relaxed.evaluated is not None
        mixed, d = relaxed.evaluated.policy, relaxed.evaluated.occupancy.occupancy
        spread = np.where(mixed.max(axis=-1) <= MAX_SHARE, d.sum(axis=-1) - d.max(axis=-1), 0.0)
        order = np.argsort(-spread, axis=None)[: min(MAX_PLACES, np.count_nonzero(spread > 0))]
        places = [np.unravel_index(place, spread.shape) for place in order]
        every = np.eye(self.problem.mdp.n_actions)
        policy = every[np.argmax(mixed, axis=-1)]
        choices = [np.flatnonzero(mixed[place] > 1 - MAX_SHARE) for place in places]
        for chosen in itertools.islice(itertools.product(*choices), MAX_CHOICES):
            if self.target.clock.over:
                break
            for place, action in zip(places, chosen, strict=True):
                policy[place] = every[action]
            self._try(policy.copy(), relaxed.bound)

    @property
    def _value(self) -> float:
        return -np.inf if self.best is None else self.best.objective

    def _over(self) -> bool:
        return self.nodes >= self.max_nodes or self.target.clock.over

    def _solved(self, upper: float) -> bool:
        """Whether the most promising of all open nodes promises no more than the allowed gap."""
        highest = max([upper, self.closed, *(-node.minus_upper for node in self.open[:1])])
        return highest - self._value <= MIN_GAIN_SHARE * self.target.allowance(self._value)

    def _outcome(self, pairs: Mask, upper: float = np.inf) -> Outcome:
        """The best policy on these pairs; ``upper`` is known of more pairs."""
        self.nodes += 1
        narrowed = self.problem.on_pairs(pairs, self.problem.terms)
        # in the long run it also matters how one gets to the pairs that count
        single = narrowed.trapped is None and self.problem.mdp.horizon != AVERAGE
        if single and np.count_nonzero(narrowed.active, axis=-1).max() == 1:
            return self._only_policy(narrowed, upper)
        absolute = None if self.target.absolute is None else NODE_GAP_SHARE * self.target.absolute
        tolerance = NODE_GAP_SHARE * self.target.tolerance
        inner = replace(self.target, tolerance=tolerance, absolute=absolute, start=None, workspace=Workspace())
        found = dispatch(narrowed, inner)
        if found.conflict is not None or found.excluded:
            found.upper = -np.inf
        elif np.isfinite(found.objective):
            found.upper = found.bound
        found.upper = min(found.upper, upper)
        self._propose(narrowed, pairs, found)
        return found

    def _only_policy(self, narrowed: Problem, upper: float) -> Outcome:
        """The outcome where no choice is left."""
        actions = np.argmax(narrowed.active, axis=-1)
        self._take(actions)
        policy = np.eye(self.problem.mdp.n_actions)[actions]
        found = evaluate_policy(self.problem, narrowed.completed(policy))
        if np.isfinite(found.objective):
            upper = min(upper, found.objective + found.error)
        elif self._misses_a_limit(policy):
            upper = -np.inf
        return Outcome(evaluated=found, upper=upper)

    def _propose(self, narrowed: Problem, pairs: Mask, found: Outcome) -> None:
        """Two deterministic policies near the best one on some pairs."""
        if found.evaluated is None:
            return
        mixed = found.evaluated.policy
        self._take(np.argmax(np.where(pairs, mixed + 1e-12, -1.0), axis=-1))
        if isinstance(found.witness, Witness) and len(found.witness.cuts) == len(narrowed.terms) > 0:
            priced = linear_problem(narrowed, narrowed.reward, narrowed.terms, found.witness.cuts).reward
            room = self.target.allowance(found.objective)
            self._take(plan(narrowed.mdp, priced, tolerance=room, allowed=narrowed.kept, over=self.target.over).actions)

    def _take(self, actions: Indices) -> None:
        policy = np.eye(self.problem.mdp.n_actions)[actions]
        # states that are never visited may have no usable pair
        usable = np.any((policy > 0) & self.problem.mdp.allowed, axis=-1, keepdims=True)
        chosen = np.where(usable, policy, self._first_actions)
        self._try(chosen, max([-np.inf, *(-node.minus_upper for node in self.open)]))

    def _try(self, policy: Array, upper: float) -> None:
        """Keep a deterministic policy if it is the best so far; ``upper`` is what the rest promises."""
        if not self.problem.usable(policy):
            return
        found = evaluate_policy(self.problem, policy)
        if found.objective - found.error > self._value - (0.0 if self.best is None else self.best.error):
            self.best = found
        if self.callback is not None:
            upper = max(found.objective, upper)
            seconds = self.target.clock.seconds
            told = Progress(self.nodes, seconds, self._value, upper, upper - self._value, "branch and bound")
            self.target.clock.stop_requested |= self.callback(told) is True

    @property
    def _first_actions(self) -> Array:
        rows: Array = np.eye(self.problem.mdp.n_actions)[np.argmax(self.problem.default_rows, axis=-1)]
        return rows

    def _node(self, pairs: Mask, found: Outcome) -> _Node | None:
        """An open node, or None for one that is closed."""
        if not found.upper > self._value + MIN_GAIN_SHARE * self.target.allowance(self._value):
            self.closed = max(self.closed, found.upper)
            return None
        policy = None if found.evaluated is None else found.evaluated.policy
        return _Node(-found.upper, self.nodes, pairs, policy)

    def _branched(self, node: _Node) -> _Node | None:
        """The child with the likeliest action, to go on with; the other one is put aside."""
        if -node.minus_upper <= self._value + MIN_GAIN_SHARE * self.target.allowance(self._value):
            self.closed = max(self.closed, -node.minus_upper)
            return None
        mixed = self._mixed_place(node)
        if mixed is None:
            # one policy is left, and it was proposed
            missed = node.policy is not None and self._misses_a_limit(node.policy)
            self.closed = max(self.closed, self._value if missed else -node.minus_upper)
            return None
        place, action = mixed
        only, without = node.pairs.copy(), node.pairs.copy()
        only[place], without[*place, action] = False, False
        only[*place, action] = True
        other = self._node(without, self._outcome(without, -node.minus_upper))
        if other is not None:
            heapq.heappush(self.open, other)
        return self._node(only, self._outcome(only, -node.minus_upper))

    def _misses_a_limit(self, policy: Array) -> bool:
        """Whether a policy certainly misses a limit."""
        found = evaluate_policy(self.problem, policy).occupancy
        for limit in self.problem.limits:
            least, largest = limit.slack_range(found.pairs, found.error)
            if largest < 0:
                return True
            if least < 0 and exactly_kept(self.problem.mdp, policy, found.reached, limit) is False:
                return True
        return False

    def _mixed_place(self, node: _Node) -> tuple[tuple[int, ...], int] | None:
        """Where most time goes to other actions than the likeliest, and the latter; None without a choice.

        Where no policy is known, or the policy does not mix and is still no match for its bound, any choice.
        """
        narrowed = self.problem.on_pairs(node.pairs, self.problem.terms)
        choice = np.count_nonzero(narrowed.active, axis=-1) > 1
        if not choice.any():
            return None
        if node.policy is None:
            place = _largest(choice)
            return place, int(np.argmax(narrowed.active[place]))
        d = evaluate_policy(self.problem, node.policy).occupancy.occupancy
        mixes = choice & (node.policy.max(axis=-1) <= MAX_SHARE)
        spread = np.where(mixes, d.sum(axis=-1) - d.max(axis=-1), -1.0)
        place = _largest(spread if spread.max() > 0 else np.where(choice, d.sum(axis=-1), -1.0))
        return place, int(np.argmax(np.where(narrowed.active[place], node.policy[place], -1.0)))


def _largest(table: Array | Mask) -> tuple[int, ...]:
    """Where a table is largest."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(table)), table.shape))
