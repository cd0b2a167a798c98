"""What a log proves about a policy that was chosen without its second fold.

Let pi be the policy, d its true occupancy, and X_v = paid + gamma v(s') for any v. With M the means of the second fold,

    value of pi  =  <xi, v> + sum_i d_i ( E[X_v | i] - v(s_i) ) / (1-gamma).

As in ``fold_bound``, v = v0 + u with v0 from the first fold: the weighted error of M(X_v0) is one sum with fixed
weights d_i, so no union over pairs is paid, and the error of M(u) is of second order, gamma |P_i - M_i|_1 span(u) / 2.
With w_i and e_i for the two, and g(s) the average of M(X_v) - w - e over the actions of pi in s, less v(s),

    value of pi  >=  <xi, v> + min over s of g(s) / (1-gamma) - log(1/delta) / (lam (1-gamma)).

The states of the log are taken to be all there are. Where the first fold never was (a *lost* state) nothing was
decided, and the least is paid for ever. A row that is missing of those planned (``log_folds``) is one that paid the
least and led to the worst state: the last state of the models here stands for that. Rewards, a variance or CVaR at a
number fixed by the first fold, and the numbers of barriers and worst cases are all values of this kind. Other risks
are no functions of such values: nothing is claimed about them here.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.affine_lower_bounds import RELATIVE_SLACK
from cautious.learning.statements.confidence import mean_above
from cautious.learning.statements.error_widths import MIN_RANGE, ErrorPlan, hoeffding_rate
from cautious.learning.statements.log_folds import Fold, Folds
from cautious.learning.task import Task
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy, policy_values
from cautious.risks.base import Risk
from cautious.risks.features import FeatureRisk

# what the norms take of delta
NORM_SHARE = 0.2
# candidates for lam, around the best one for values as spread as can be
RATES = 2.0 ** np.arange(-6, 11)
# candidates for v: so often its values are found anew, and these parts of the way from v0 to them are tried
ROUNDS = 3
SHARES = (0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class Paid:
    """What the rows of both folds are paid (n,), what ends pay (S, A), and the range of it all."""

    first: Array
    second: Array
    at_ends: Array
    low: float
    high: float


class Evidence:
    """A policy (S, A) that does not depend on the second fold, and what the folds say about its values."""

    def __init__(self, folds: Folds, policy: Array) -> None:
        self.folds, self.logged = folds, folds.logged
        self.gamma, self.shape = self.logged.discount, self.logged.shape
        self.policy = np.vstack([policy, np.full(self.shape[1], 1 / self.shape[1])])
        self.planned = folds.planned
        self.ends = self.logged.layout.ends
        self.known = np.repeat(self.ends | folds.lost, self.shape[1])
        # the state that untried pairs lead to is an assumption of the model: no path of the true process visits it
        untried = self.logged.layout.untried_state
        self.real = np.arange(self.shape[0]) != (-1 if untried is None else untried)
        self.chosen = folds.model(folds.first, folds.first.count)
        self.proving = folds.model(folds.second, self.planned)
        self.share = policy_occupancy(self.chosen, self.policy).occupancy.ravel()[: self.planned.size]

    def value_below(self, paid: Paid, delta: float) -> float:
        """The discounted sum of what the policy is paid is above this with probability at least 1 - delta.

        With delta = 0 that is the least that is paid, for ever.
        """
        gamma, floor = self.gamma, paid.low / (1 - self.gamma)
        if delta == 0:
            return floor
        first, second, mean_delta = self.folds.first, self.folds.second, (1 - NORM_SHARE) * delta
        means1 = self._means(first, paid.first, first.count, paid)
        v0 = self._first_values(means1, paid)
        # the widths that are to be expected belong into v0: the rest, u, is then small
        plan = self._plan(v0, paid, mean_delta)
        v0 = self._first_values(means1 - self._widths(plan, plan.foreseen), paid)
        plan = self._plan(v0, paid, mean_delta)
        errors = paid.second + gamma * v0[second.targets] + plan.guess[second.pairs]
        widths = self._widths(plan, second.sums(errors**2))
        means = self._means(second, paid.second, self.planned, paid) - widths
        best = self._best_bound(means, v0, self._norms(NORM_SHARE * delta)) - plan.spent(mean_delta) / (1 - gamma)
        return max(floor, best - RELATIVE_SLACK * (abs(best) + float(np.abs(v0).max()) + abs(floor)))

    def _first_values(self, means: Array, paid: Paid) -> Array:
        """v0; the last state is worth as little as the least of the others, which is found from below."""
        least = paid.low / (1 - self.gamma)
        for _ in range(2):
            found = np.clip(self._values(self.chosen, means, least), least, paid.high / (1 - self.gamma))
            least = float(found[:-1][self.real].min())
        return self._with_unreal(found, least)

    def _with_unreal(self, v: Array, value: float) -> Array:
        """The values, with this one in the states that no path visits: any is valid there."""
        return np.append(np.where(self.real, v[:-1], value), value)

    def _best_bound(self, means: Array, v0: Array, norms: Array) -> float:
        """The largest of the bounds that several v give: all of them hold when the inequalities hold.

        Values of the second fold's model make all gains equal, and are the best where rows abound; they differ from v0,
        and where rows are few that costs more than it brings.
        """
        found = [self._bound(v0, means, v0, norms)]
        v = self._values(self.proving, means, float(v0[-1]))
        for _ in range(ROUNDS):
            u = (v - v0)[:-1][self.real]
            for share in SHARES:
                found.append(self._bound(v0 + share * (v - v0), means, v0, norms))
            room = float(u.max()) - float(u.min())
            v = self._values(self.proving, means - self.gamma * norms * room / 2, float(v0[-1] + np.median(u)))
        return max(found)

    def _bound(self, v: Array, means: Array, v0: Array, norms: Array) -> float:
        """<xi, v> plus the least gain of a state."""
        u = (v - v0)[:-1][self.real]
        v = self._with_unreal(v, float(v0[-1] + (u.max() + u.min()) / 2))
        reach = self.gamma * self.proving.expect_next(v).ravel()[: means.size]
        gain = means + reach - self.gamma * norms * float(u.max() - u.min()) / 2
        per_state = (self.policy[:-1] * gain.reshape(self.shape)).sum(axis=1) - v[:-1]
        return float(self.proving.start @ v) + float(per_state[self.real].min()) / (1 - self.gamma)

    def _values(self, model: MDP, means: Array, least: float) -> Array:
        """Values (S+1,) of the policy; the last state is worth ``least``."""
        reward = np.append(means, np.full(self.shape[1], (1 - self.gamma) * least)).reshape(-1, self.shape[1])
        return policy_values(model, self.policy, reward)

    def _widths(self, plan: ErrorPlan, squares: Array | None) -> Array:
        return np.where((self.planned > 0) & ~self.known, plan.widths(squares), 0.0)

    def _means(self, fold: Fold, values: Array, expected: Array, paid: Paid) -> Array:
        """Means per pair (S*A,) when what is missing of ``expected`` rows is paid the least."""
        total = fold.sums(values) + np.maximum(expected - fold.count, 0.0) * paid.low
        means = np.where(expected > 0, total / np.maximum(expected, 1.0), paid.low)
        at_ends = np.where(self.ends[:, None], paid.at_ends, paid.low)
        return np.where(self.known, at_ends.ravel(), means)

    def _plan(self, v0: Array, paid: Paid, delta: float) -> ErrorPlan:
        """How errors are bounded, all from the first fold; for a bound from below, so signs are turned."""
        first, count = self.folds.first, np.maximum(self.folds.first.count, 1)
        x1 = paid.first + self.gamma * v0[first.targets]
        mean = first.sums(x1) / count
        variance = first.sums((x1 - mean[first.pairs]) ** 2) / np.maximum(count - 1, 1)
        top, bottom = paid.high + self.gamma * float(v0.max()), paid.low + self.gamma * float(v0.min())
        n = np.maximum(self.planned, 1.0)
        typical_n = max(1.0, float(np.median(n[self.share > 0])))
        typical = hoeffding_rate(delta, typical_n, max(top - bottom, MIN_RANGE))
        plans = [ErrorPlan(float(typical * factor), -top, -bottom, -mean, n, n * variance) for factor in RATES]
        return min(plans, key=lambda plan: plan.spent(delta) + float(self.share @ self._widths(plan, plan.foreseen)))

    def _norms(self, delta: float) -> Array:
        """Bounds of |P_i - M_i|_1 for all pairs (S*A,) at once; 0 where P is known.

        On the K successors seen in the first fold the norm is sqrt(K/n) on average and changes by 2/n with one row
        (McDiarmid); elsewhere it is at most the true chance, bounded from the second fold, plus the share seen. A
        missing row may have gone anywhere: it counts as one that went elsewhere, and changes the norm by 2/n.
        """
        n_states, size = self.shape[0], self.planned.size
        first, second = self.folds.first, self.folds.second
        keys = np.unique(first.pairs * n_states + first.targets)
        seen = np.bincount(keys // n_states, minlength=size)
        strange = ~np.isin(second.pairs * n_states + second.targets, keys)
        n = np.maximum(self.planned, 1.0)
        used = (self.policy[:-1].ravel() > 0) & (self.planned > 0)
        share = delta / max(1, int(used.sum())) / 2
        missing = 1 - second.count / n
        elsewhere = np.minimum(second.sums(strange.astype(np.float64)) / n + missing, 1.0)
        far = mean_above(elsewhere, None, n, 0.0, 1.0, share) + elsewhere
        norms = np.sqrt(seen / n) + np.sqrt(2 * np.log(1 / share) / n) + far + 2 * missing
        return np.where(self.known, 0.0, np.minimum(norms, 2.0))


def objective_or_return_below(
    task: Task, evidence: Evidence, scalars: tuple[float, ...], delta: float
) -> tuple[float, float]:
    """The true objective and the true expected return are above these with probability at least 1 - delta.

    One of the two is minus infinity: the return is asked for only where nothing is known about the objective. With
    barriers that depends on the second fold, so that both need their part of delta. With delta = 0 these are the bounds
    that hold for every policy.
    """
    terms = task.known_terms
    neutral = _paid(task, evidence, Payoff((), (), task.discount))
    if not all(isinstance(risk, FeatureRisk) for _, risk in terms):
        return -np.inf, evidence.value_below(neutral, delta)
    share = delta / (1 + len(terms) + any(isinstance(risk, FeatureRisk) and risk.is_barrier for _, risk in terms))
    payoff = Payoff(task.scalars, scalars, task.discount)
    bound = evidence.value_below(_paid(task, evidence, payoff), share) - payoff.offset
    for weight, risk in terms:
        bound -= weight * _risk_above(risk, evidence, share)
    return float(bound), -np.inf if np.isfinite(bound) else evidence.value_below(neutral, share)


def _paid(task: Task, evidence: Evidence, payoff: Payoff) -> Paid:
    rewards, folds = evidence.logged.log.rewards, evidence.folds
    low, high = payoff.range(*task.padded_range)
    at_ends = np.full(evidence.shape, float(payoff(np.zeros(1))[0]))
    return Paid(payoff(rewards[folds.first.rows]), payoff(rewards[folds.second.rows]), at_ends, low, high)


def _risk_above(risk: Risk | None, evidence: Evidence, delta: float) -> float:
    """A number that the true risk exceeds with probability at most delta."""
    assert isinstance(risk, FeatureRisk)
    # bounds from below: numbers with which the risk rises are given with their sign turned
    numbers = -risk.sign * risk.features.toarray()
    first, second, share = evidence.folds.first.pairs, evidence.folds.second.pairs, delta / len(numbers)
    found = []
    for number in numbers:
        ends = float(number.min()), float(number.max())
        paid = Paid(number[first], number[second], number.reshape(evidence.shape), *ends)
        found.append((1 - evidence.gamma) * evidence.value_below(paid, share))
    return risk.outer(-risk.sign * np.array(found))
