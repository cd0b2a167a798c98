"""Improvement of policies without memory, (S, A) or (T, S, A), for a risk of the return.

The risks are minima over a number of means of losses, and so concave in the distribution of the return: with the best
number of one distribution fixed, what a return R counts is a ``payoff`` R - caution * slope(R), and a policy whose mean
payoff is larger has a larger objective as well. The mean payoff depends on the chances of actions as any mean does. Its
gradient, the mass of those who are in a state with something still to be earned times the mean payoff that the action
leads to from there, takes one pass forward and one backward:

    gradient(s, a) = sum over t and x of  mass_t(s, x) Q_t(s, x, a).

With a finite horizon every pair of a step and a state is visited once, so that going backward each may take its best
action at once: the mean payoff never falls. Discounted for ever, and until an end, one table counts at all steps, and a
change is kept if it is an improvement: of all states, of some, of one, whole or in part. The best such policies may mix
actions.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cautious._core import targets as kernels
from cautious.arrays import Array
from cautious.problem import Problem
from cautious.returns.forward import follow
from cautious.returns.plain import PlainPolicy
from cautious.risks.returns import ReturnRisk

# moves of cells in all steps while policies are compared, and what is negligible then
COMPARED_MOVES, NEGLIGIBLE_SHARE = 1e6, 1e-5
# changes of the policy, and an improvement that is worth one more, as a share of the objective's size
MOST_CHANGES, LEAST_IMPROVEMENT = 200, 1e-9
# policies times outcomes of the model that are compared at most, and states of models in which all policies are kept
MOST_COMPARED, MOST_STATES_KEPT = 1e6, 100
# shares of a change that are tried, and states that are changed alone
SHARES, STATES_ALONE = (1.0, 0.5, 0.25, 0.1, 0.03, 0.01), 6


@dataclass(frozen=True)
class Improved:
    """A policy, its objective as nearly as it is known while policies are compared, and how it is followed."""

    policy: Array
    objective: float
    played: PlainPolicy
    payoff: Callable[[Array], Array]


class PolicyImprovement:
    """Policies of one problem with one risk of the return, which counts ``weight`` times, compared and improved."""

    def __init__(self, problem: Problem, risk: ReturnRisk, weight: float, over: Callable[[], bool]) -> None:
        self.problem, self.risk, self.weight, self.asked_to_end = problem, risk, weight, over
        self.allowed = problem.mdp.allowed
        self._first: PlainPolicy | None = None
        self._known: dict[tuple[bytes, float], Improved] = {}
        self._left: set[tuple[bytes, float]] = set()
        self._policies = 0

    def over(self) -> bool:
        """Whether time is over, or the work."""
        return self._policies * self.problem.mdp.transitions.nnz > MOST_COMPARED or self.asked_to_end()

    def known(self, policy: Array, weight: float) -> Improved:
        """A policy and what it is about worth."""
        if self.problem.mdp.n_states > MOST_STATES_KEPT:
            return self._compared(policy, weight)
        key = policy.tobytes(), weight
        if key not in self._known:
            self._known[key] = self._compared(policy, weight)
        return self._known[key]

    def _compared(self, policy: Array, weight: float) -> Improved:
        if self._first is None:
            self._first = PlainPolicy(self.problem.mdp, policy, COMPARED_MOVES, NEGLIGIBLE_SHARE)
        played = self._first.playing(policy)
        low, risk, followed = self.risk.of(played.followed, self.asked_to_end)
        self._policies += 1
        returns = followed.returns
        # the two ends of the interval differ by what a cell of the grid does not tell
        risk = 0.5 * (risk + low) if np.isfinite(low) else risk
        slope = self.risk.slope(returns)
        return Improved(policy, played.mean - weight * risk, played, lambda earned: earned - weight * slope(earned))

    def improved(self, policy: Array, weight: float | None = None) -> Improved:
        """The last of policies each of which is better than the one before; it may have been found before."""
        weight = self.weight if weight is None else weight
        best = self.known(policy, weight)
        for _ in range(MOST_CHANGES):
            key = best.policy.tobytes(), weight
            if self.over() or key in self._left:
                break
            self._left.add(key)
            least = best.objective + LEAST_IMPROVEMENT * max(1.0, abs(best.objective))
            better = self._better(best, weight, least)
            if better is None:
                break
            best = better
        return best

    def _better(self, best: Improved, weight: float, least: float) -> Improved | None:
        """A policy of an objective above ``least``, if one is found among the changes that the gradient proposes."""
        gradient, changed = self._swept(best)
        if changed is not None:
            found = self.known(changed, weight)
            return found if found.objective > least else None
        policy = best.policy
        gain = np.where(self.allowed, gradient, -np.inf) - np.sum(policy * gradient, axis=1, keepdims=True)
        action, rise = np.argmax(gain, axis=1), gain.max(axis=1)
        states = np.argsort(-rise)[: int(np.count_nonzero(rise > 0))]
        if states.size == 0:
            return None
        groups = [states, states[: (states.size + 1) // 2]] if states.size > 1 else []
        groups += [states[[number]] for number in range(min(states.size, STATES_ALONE))]
        best_found: Improved | None = None
        for share in SHARES:
            for group in groups:
                if self.over():
                    return best_found
                moved = policy.copy()
                moved[group] *= 1 - share
                moved[group, action[group]] += share
                tried = self.known(moved, weight)
                if tried.objective > (least if best_found is None else best_found.objective):
                    best_found = tried
            if best_found is not None and share < 1:
                # smaller shares are for when none of this size helps
                break
        return best_found

    def _swept(self, best: Improved) -> tuple[Array, Array | None]:
        """The gradient (S, A); with a finite horizon the policy (T, S, A) that takes the best actions backward."""
        mdp, masses = self.problem.mdp, list[Array]()
        earnings, tracker = best.played.tracked()
        finite = isinstance(mdp.horizon, int)
        follow(earnings, tracker, instead=best.policy, masses=masses)
        gradient, policy = np.zeros(mdp.shape), best.policy.copy()
        after = earnings.moments_of(tracker.policy_after)[0] * earnings.scales[-1]
        values = best.payoff(tracker.target + earnings.offset - tracker.grids[-1].nodes[None, :] + after[:, None])
        none, infinite = np.zeros(mdp.n_states), np.full(mdp.n_states, np.inf)
        pairs = np.zeros(mdp.n_states * mdp.n_actions)
        for t in range(earnings.n_steps - 1, -1, -1):
            own, behind, rows = tracker.grids[t], tracker.grids[t + 1], policy[t] if finite else policy
            worth = np.full((mdp.n_actions, mdp.n_states, own.count), 0.0)
            chosen = np.empty((mdp.n_states, own.count), np.int32)
            for action in range(mdp.n_actions):
                only = np.zeros(mdp.shape, np.bool_)
                only[:, action] = self.allowed[:, action]
                kernels.plan_step(
                    *mdp.csr,
                    earnings.paid,
                    only.ravel(),
                    pairs,
                    pairs,
                    float(earnings.scales[t]),
                    values,
                    behind.nodes,
                    behind.step,
                    none,
                    none,
                    infinite,
                    kernels.CHORD,
                    0.0,
                    False,
                    tracker.snap,
                    own.nodes,
                    own.step,
                    worth[action],
                    chosen,
                    0,
                    mdp.n_states,
                )
            now = np.einsum("sj,asj->sa", masses[t], worth)
            gradient += now
            if finite:
                rows = self._best_actions(rows, now)
                policy[t] = rows
            values = np.einsum("sa,asj->sj", rows, worth)
        return gradient, policy if finite else None

    def _best_actions(self, rows: Array, worth: Array) -> Array:
        """The rows (S, A) of a policy, with the best action (S, A) where it is better by more than rounding."""
        worth = np.where(self.allowed, worth, -np.inf)
        own = np.sum(rows * np.where(self.allowed, worth, 0.0), axis=1)
        best = np.argmax(worth, axis=1)
        better = worth.max(axis=1) > own + 1e-12 * np.abs(own)
        return np.where(better[:, None], np.eye(rows.shape[1])[best], rows)
