"""``ca.off_policy``: what the log's own behaviour earned, beside what a policy would earn, from the log alone.

Two ways, with different weaknesses. The *model* of the log: every policy has a value in it, biased where rows are few.
The *episodes* of the log: their returns G_e = sum_t gamma^t r_t are what the behaviour earned, without a model. For
another policy pi each step has its weights w_et = prod over k <= t of pi(a_k | s_k) / mu(a_k | s_k), with mu the shares
of actions in the log (weighted importance sampling per decision):

    estimate = sum_t gamma^t (sum_e w_et r_et) / (sum_e w_et),    effective episodes = (sum_e w_et)^2 / sum_e w_et^2.

Long episodes and a policy unlike the behaviour leave few effective episodes; below ten the estimate means little.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.errors import IncompatibleError
from cautious.models.horizons import require_discounting
from cautious.models.logged import LoggedMDP
from cautious.occupancy import check_policy, policy_values
from cautious.risks.priors import HasPolicy

# steps that weigh less than this are left out; with fewer effective episodes there is no error to speak of
NEGLIGIBLE_WEIGHT, LEAST_EFFECTIVE_EPISODES = 1e-8, 1.5
Row = tuple[str, float | None, float | None]


@dataclass(frozen=True)
class OffPolicy:
    """Returns of the log's behaviour and of a policy; discounted sums of rewards.

    Attributes
    ----------
    logged_model, policy_model
        Values in the model of the log, from its start distribution.
    logged_mean, logged_error
        Mean return of the episodes and its standard error; None without episodes, or when their ends restart them.
    policy_mean, policy_error
        The same for the policy, by weighted importance sampling; None also where no episode could be the policy's.
    effective_episodes
        How many episodes the weights are worth, on average over discounted time.
    episodes, cut_short
        How many there are; how many of them stop without an end, so that what would have followed is missing.

    Examples
    --------
    >>> import cautious as ca
    >>> rows = [("well", "wait", 1.0, "well"), ("well", "play", 2.0, "well")]
    >>> logged = ca.from_transitions(rows, discount=0.5)
    >>> both = ca.off_policy(logged, ca.solve(ca.Problem(logged)))
    >>> both.logged_model, both.policy_model, both.episodes
    (3.0, 4.0, 0)
    """

    logged_model: float
    policy_model: float
    logged_mean: float | None = None
    logged_error: float | None = None
    policy_mean: float | None = None
    policy_error: float | None = None
    effective_episodes: float | None = None
    episodes: int = 0
    cut_short: int = 0

    def table(self) -> list[Row]:
        """Rows (what, the log, the policy) for printing."""
        rows: list[Row] = [("value in the model", self.logged_model, self.policy_model)]
        if self.logged_mean is not None:
            whole = float(self.episodes)
            rows += [
                ("mean return of episodes", self.logged_mean, self.policy_mean),
                ("standard error", self.logged_error, self.policy_error),
                ("effective episodes", whole, self.effective_episodes),
            ]
        return rows


def off_policy(logged: LoggedMDP, policy: Any) -> OffPolicy:
    """Compare what the log did with what a policy would do, from the log alone.

    Parameters
    ----------
    logged
        From ``ca.from_transitions``.
    policy
        (S, A) with rows that sum to one, or a Solution.

    Examples
    --------
    >>> import cautious as ca
    >>> rows = {
    ...     "episode": [0, 0, 1, 1], "state": ["a", "b", "a", "b"], "action": ["x", "x", "y", "x"],
    ...     "reward": [0.0, 1.0, 0.5, 0.0], "next_state": ["b", "a", "b", "a"],
    ... }
    >>> logged = ca.from_transitions(rows, discount=0.5, untried="forbid")
    >>> found = ca.off_policy(logged, ca.solve(ca.Problem(logged)))
    >>> [(what, round(log, 3), round(ours, 3)) for what, log, ours in found.table()[:2]]
    [('value in the model', 0.667, 1.0), ('mean return of episodes', 0.5, 0.5)]
    """
    if not isinstance(logged, LoggedMDP):
        raise IncompatibleError(f"ca.off_policy needs a log, ca.from_transitions(...), found {type(logged).__name__}")
    require_discounting("ca.off_policy", logged.discount)
    table = check_policy(logged, policy.policy if isinstance(policy, HasPolicy) else policy)
    logged_model, policy_model = (
        float(logged.start @ policy_values(logged, each, logged.rewards)) for each in (logged.logging_policy, table)
    )
    if logged.log.first is None or logged.layout.restart:
        return OffPolicy(logged_model, policy_model)
    first = logged.log.first
    step = np.arange(logged.log.n_rows) - np.repeat(first, np.diff(np.append(first, logged.log.n_rows)))
    returns = np.add.reduceat(logged.discount**step * logged.log.rewards, first)
    error = float(returns.std(ddof=1)) / math.sqrt(returns.size) if returns.size > 1 else None
    last = np.append(first[1:], logged.log.n_rows) - 1
    mean, spread, effective = _weighted(logged, table, first)
    return OffPolicy(
        logged_model,
        policy_model,
        float(returns.mean()),
        error,
        mean,
        spread,
        effective,
        int(first.size),
        int(np.count_nonzero(~logged.log.ended[last])),
    )


def _weighted(logged: LoggedMDP, policy: Array, first: Indices) -> tuple[float | None, float | None, float]:
    """Estimate, its standard error (delta method) and the effective number of episodes.

    An episode that is over keeps its weight and is paid nothing.
    """
    log, gamma = logged.log, logged.discount
    with np.errstate(divide="ignore"):
        # pairs of the log have mu > 0
        ratio = np.log(policy) - np.log(np.where(logged.counts > 0, logged.logging_policy, 1.0))
    length = np.diff(np.append(first, log.n_rows))
    weight = np.zeros(first.size)
    mean, effective, total, influence = 0.0, 0.0, 0.0, np.zeros(first.size)
    for step in range(int(length.max())):
        if gamma**step < NEGLIGIBLE_WEIGHT:
            break
        here = np.flatnonzero(length > step)
        rows = first[here] + step
        weight[here] += ratio[log.states[rows], log.actions[rows]]
        if not np.isfinite(weight.max()):
            return None, None, 0.0
        share = np.exp(weight - weight.max())
        share /= share.sum()
        paid = np.zeros(first.size)
        paid[here] = log.rewards[rows]
        now = float(share @ paid)
        mean += gamma**step * now
        influence += gamma**step * share * (paid - now)
        effective += gamma**step / float(share @ share)
        total += gamma**step
    effective /= total
    return mean, math.sqrt(float(influence @ influence)) if effective > LEAST_EFFECTIVE_EPISODES else None, effective
