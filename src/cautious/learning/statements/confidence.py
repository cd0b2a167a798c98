"""What a trial proves: a number that the true objective of the policy exceeds, whatever the model, with confidence.

Everything linear in the occupancy is the mean of one number per path: the sum of the errors of the counted model's
values (``path_sums``), or without a counted model the payment of the last pair. What is convex but not linear is
bounded through the empirical occupancy: with x(s) the true share of state s and X(s) the share of paths that ended
there, x(s) pi(a|s) is the occupancy exactly, and E[risk(X pi)] >= risk(x pi) (Jensen). How far risk(X pi) can fall
below its mean is McDiarmid's inequality, except for entropies, where ``divergence_above`` is far better.
"""

import math
from typing import TypeGuard

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr, xlogy

from cautious.arrays import Array, Indices
from cautious.learning.method import Result
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.path_sums import PathSum, path_sum
from cautious.learning.statements.trial import OVERSHOOT_PROBABILITY, Trial
from cautious.learning.statements.worst_case import worst_case_of_counts
from cautious.learning.task import Task
from cautious.risks.base import Risk
from cautious.risks.epigraph import state_sums
from cautious.risks.features import PlannedFeatures
from cautious.risks.separable import EntropicRisk

# of being wrong, for what a policy is worth at least, and for what no policy exceeds
LOWER_DELTA, UPPER_DELTA = 0.025, 0.025
CONFIDENCE = 1 - (LOWER_DELTA + UPPER_DELTA)
# sums in double precision: a mean of numbers in [low, high] is known up to this share of their size
MAX_RELATIVE_ROUNDING = 1e-12
FLOOR_SHARE = 0.02
# of LOWER_DELTA, for the lower bounds of values that the counts prove before a trial
SET_DELTA = 0.2 * LOWER_DELTA
# of delta, for the mean of the guessed values under a start distribution that is known from draws
START_SHARE = 0.05
# numbers of one barrier or maximum whose path sums are kept
MAX_NUMBERS = 16
BISECTIONS = 60


def mean_above(mean: Array, variance: Array | None, count: Array, low: float, high: float, delta: float) -> Array:
    """An upper confidence bound of level 1 - ``delta`` for the expectation, for each mean of ``count`` iid values.

    The values lie in [low, high]; ``variance`` is their sample variance (divisor n - 1), None where unknown. Two
    bounds, the better one counts, delta is shared: Chernoff's, n kl(mean, p) <= log 1/delta, which holds for any values
    in [0, 1] (Hoeffding 1963), and the empirical Bernstein bound of Maurer and Pontil (2009, theorem 4).
    """
    width = high - low
    if width <= 0:
        return np.full(np.shape(mean), high)
    n = np.maximum(np.asarray(count, dtype=np.float64), 1e-9)
    share = np.clip((mean - low) / width, 0.0, 1.0)
    room = np.log((1 if variance is None else 2) / delta) / n
    inside, outside = share, np.ones_like(share)
    for _ in range(BISECTIONS):
        middle = (inside + outside) / 2
        far = rel_entr(share, middle) + rel_entr(1 - share, 1 - middle) > room
        inside, outside = np.where(far, inside, middle), np.where(far, middle, outside)
    best = low + width * outside
    if variance is not None:
        log = np.log(4 / delta)
        spread = np.sqrt(2 * variance * log / n) + 7 * width * log / (3 * np.maximum(n - 1, 1e-9))
        best = np.minimum(best, mean + np.where(n >= 2, spread, np.inf))
    return np.asarray(np.minimum(best + MAX_RELATIVE_ROUNDING * (abs(low) + abs(high)), high))


def mean_below(mean: Array, variance: Array | None, count: Array, low: float, high: float, delta: float) -> Array:
    """As ``mean_above``, from below."""
    return -mean_above(-np.asarray(mean), variance, count, -high, -low, delta)


def sample_mean_below(values: Array, low: float, high: float, delta: float) -> float:
    """``mean_below`` of a sample (n,)."""
    spread = None if values.size < 2 else np.asarray(values.var(ddof=1))
    return float(mean_below(np.asarray(values.mean()), spread, np.asarray(values.size), low, high, delta))


def sample_mean_above(values: Array, low: float, high: float, delta: float) -> float:
    """``mean_above`` of a sample (n,)."""
    return -sample_mean_below(-values, -high, -low, delta)


def path_sums_of(task: Task, result: Result) -> tuple[PathSum, ...]:
    """The sums that a trial of the result's policy should keep; none without a counted model.

    The first one is for what is linear in the occupancy and depends on rewards, or replaces an entropy by its line; the
    others are for the numbers of barriers and maxima, with the sign that makes the risk fall.
    """
    if result.problem is None or result.counts is None or any(risk is None for _, risk in task.known_terms):
        return ()
    mdp, counts, policy, gamma = result.problem.mdp, result.counts, result.policy, task.discount
    worst = worst_case_of_counts(task, counts, mdp.start, SET_DELTA)
    payoff = Payoff(task.scalars, worst.on_grid(result.scalars), gamma)
    penalty = (1 - gamma) * _entropy_penalty(task, result, policy)
    low, high = payoff.range(*task.padded_range)
    ends = low - float(penalty.max()), high - float(penalty.min())
    if not np.all(np.isfinite(ends)):
        return ()
    table = np.repeat(-penalty[:, None], task.shape[1], axis=1)
    below = worst.values_below(policy, worst.means(payoff) + table.ravel(), ends[0])
    found = [path_sum(mdp, counts, policy, payoff, table, ends, below)]
    for _, risk in task.known_terms:
        if _has_path_sums(risk):
            for number in -risk.sign * risk.features.toarray():
                ends = float(number.min()), float(number.max())
                below = worst.values_below(policy, number, ends[0])
                found.append(path_sum(mdp, counts, policy, None, number.reshape(task.shape), ends, below))
    return tuple(found)


def objective_at_least(task: Task, result: Result, trial: Trial) -> float:
    """The true objective of the tried policy is above this with probability at least 1 - LOWER_DELTA.

    ``result`` must not depend on the trial. Minus infinity where nothing can be said: no paths, a risk without a known
    bound, a requirement that the samples do not prove, or a policy that may use a pair which the prior forbids.
    """
    if trial.paths == 0 or not trial.done:
        return -np.inf
    entropies, others = _entropies_and_others(task)
    known = OVERSHOOT_PROBABILITY + (SET_DELTA if trial.path_sums else 0.0)
    delta = (LOWER_DELTA - known) / (1 + len(others) + (len(entropies) > 0))
    penalty, bound = _entropy_penalty(task, result, trial.policy), 0.0
    if not np.all(np.isfinite(penalty)):
        return -np.inf
    counts = np.bincount(trial.end_states, minlength=task.shape[0])
    if entropies:
        reference = _floored(result.occupancy.sum(axis=1))
        bound -= sum(weight for weight, _ in entropies) * divergence_above(counts, reference, delta)
    sums = iter(range(len(trial.path_sums)))
    gain = _gain_below(task, result, trial, penalty, next(sums, None), delta)
    for weight, other in others:
        if trial.path_sums and _has_path_sums(other):
            share = delta / len(other.names)
            found = [(1 - task.discount) * _value_below(task, trial, next(sums), share) for _ in other.names]
            bound -= weight * other.outer(-other.sign * np.array(found))
        else:
            bound -= weight * _risk_above(other, trial, counts, delta)
    return float(gain + bound)


def _has_path_sums(risk: Risk | None) -> TypeGuard[PlannedFeatures]:
    """Whether a trial keeps a path sum for every number of the risk."""
    return isinstance(risk, PlannedFeatures) and len(risk.names) <= MAX_NUMBERS


def _entropies_and_others(task: Task) -> tuple[list[tuple[float, EntropicRisk]], list[tuple[float, Risk | None]]]:
    entropies, others = list[tuple[float, EntropicRisk]](), list[tuple[float, Risk | None]]()
    for weight, risk in task.known_terms:
        if isinstance(risk, EntropicRisk):
            entropies.append((weight, risk))
        else:
            others.append((weight, risk))
    return entropies, others


def _gain_below(task: Task, result: Result, trial: Trial, penalty: Array, number: int | None, delta: float) -> float:
    """What is linear in the occupancy: from the path sum of this number, else from the last pairs of the paths."""
    if number is not None:
        tried = trial.path_sums[number].payoff
        return _value_below(task, trial, number, delta) - (0.0 if tried is None else tried.offset)
    payoff = Payoff(task.scalars, result.scalars, task.discount)
    horizon = 1 / (1 - task.discount)
    values = horizon * payoff(trial.end_rewards) - penalty[trial.end_states]
    low, high = (horizon * end for end in payoff.range(*task.padded_range))
    return sample_mean_below(values, low - float(penalty.max()), high - float(penalty.min()), delta) - payoff.offset


def _value_below(task: Task, trial: Trial, number: int, delta: float) -> float:
    """The value that the path sum of this number is about exceeds this with probability at least 1 - delta."""
    one, sums = trial.path_sums[number], trial.sums[number]
    guess, low, high = one.guess, float(one.guess.min()), float(one.guess.max())
    rounding = MAX_RELATIVE_ROUNDING * (abs(one.floor) + abs(low) + abs(high) + float(np.abs(sums).max()))
    if task.known.start is not None:
        return float(task.known.start @ guess) + one.mean_below(sums, delta) - rounding
    n, seen = np.asarray(trial.first_states.sum()), trial.first_states
    mean = seen @ guess / n
    variance = seen @ (guess - mean) ** 2 / (n - 1)
    start = float(mean_below(mean, variance, n, low, high, START_SHARE * delta))
    return start + one.mean_below(sums, (1 - START_SHARE) * delta) - rounding


def _entropy_penalty(task: Task, result: Result, policy: Array) -> Array:
    """The linear part of all entropies as a cost of states (S,); infinite if a prior forbids what the policy does."""
    penalty = np.zeros(task.shape[0])
    for weight, risk in _entropies_and_others(task)[0]:
        if np.any((policy > 0) & (risk.as_table(risk.prior) == 0)):
            return np.full(task.shape[0], np.inf)
        penalty += weight * (np.log(_floored(result.occupancy.sum(axis=1))) + _log_ratio(risk, policy))
    return penalty


def _floored(states: Array) -> Array:
    """A distribution over states without tiny entries: they would make logarithms of rare states unbounded."""
    share = np.maximum(states, 0.0) / max(float(np.maximum(states, 0.0).sum()), 1e-300)
    floored = (1 - FLOOR_SHARE) * share + FLOOR_SHARE / states.size
    return np.asarray(floored / floored.sum())


def _log_ratio(risk: EntropicRisk, policy: Array) -> Array:
    """What the risk adds to sum x log x, per state: log pi - log prior averaged over the policy, or -log prior."""
    with np.errstate(divide="ignore"):
        log_prior = np.log(risk.prior)
    if risk.on_states:
        return -log_prior
    return np.asarray((xlogy(policy, policy) - policy * np.where(policy > 0, log_prior, 0.0)).sum(axis=1))


def _risk_above(risk: Risk | None, trial: Trial, counts: Indices, delta: float) -> float:
    """A number that the true risk exceeds with probability at most delta."""
    if risk is None:
        return np.inf
    if isinstance(risk, PlannedFeatures):
        share, sign = delta / len(risk.names), risk.sign
        # each number as a mean over states: its feature averaged over the policy, (m, S)
        weighted = sp.csr_array(risk.features * trial.policy.ravel()[None, :])
        averages = sign * np.asarray((weighted @ state_sums(trial.policy > 0).T).toarray())
        found = [sample_mean_above(f[trial.end_states], f.min(), f.max(), share) for f in averages]
        return risk.outer(sign * np.array(found))
    n = trial.paths
    change = risk.largest_change(n)
    if not np.isfinite(change):
        return np.inf
    d = (counts / n)[:, None] * trial.policy
    return float(risk.value(d)) + change * float(np.sqrt(n * np.log(1 / delta) / 2))


def divergence_above(counts: Indices, reference: Array, delta: float) -> float:
    """A number that KL(x || reference) exceeds with probability at most delta; counts (S,) of iid draws from x.

    Proof. K = KL(counts/n || reference) has E[K] >= KL(x || reference) (Jensen). With m = n * reference and
    psi(N) = N log(N/m) - N + m >= 0 per state, n K = sum psi(N_s). Taking away one draw, of state s, changes n K by
    step(N_s) = psi(N_s) - psi(N_s - 1) = log(N/m) - e_N with 0 < e_N <= 1/N, and the squares of all these changes sum
    to sum N step(N)^2 <= A n K + b, where A = max over r in [1, 1/min reference] of r log^2 r / (r log r - r + 1), at
    least 2, and b = sum over states of max over N of (N step(N)^2 - A psi(N))_+; for N > e m the latter is zero, as
    then 0 <= step <= log(N/m). A function with these properties is weakly self-bounding, so its lower tail is

        P( K <= E[K] - t )  <=  exp( -t^2 / (2 (A E[K] / n + b / n^2)) )

    (Boucheron, Lugosi, Massart 2009, theorem 1; A is at least the largest step, which is their condition a >= 1/3).
    Solving for E[K] gives the answer. When the reference is close, all of it is of order (number of states) / n.
    """
    n = int(counts.sum())
    m = n * reference
    top = 1 / float(reference.min())
    steep = max(2.0, _curvature(top))
    candidates = np.minimum(np.ceil(np.e * m), n).astype(np.int64) + 1
    owner = np.repeat(np.arange(m.size), candidates)
    number = (np.arange(owner.size) - np.repeat(np.cumsum(candidates) - candidates, candidates) + 1).astype(np.float64)
    psi = _psi(number, m[owner])
    excess = number * (psi - _psi(number - 1, m[owner])) ** 2 - steep * psi
    spare = np.zeros(m.size)
    np.maximum.at(spare, owner, excess)
    value = float(_psi(counts.astype(np.float64), m).sum()) / n
    log = math.log(1 / delta)
    linear = steep * log / n
    room = 2 * log * (steep * value / n + float(spare.sum()) / n**2)
    return value + linear + math.sqrt(linear**2 + room)


def _psi(number: Array, m: Array) -> Array:
    return np.asarray(xlogy(number, np.maximum(number, 1e-300) / m) - number + m)


def _curvature(ratio: float) -> float:
    """r log^2 r / (r log r - r + 1), which grows with r >= 1."""
    if ratio < 1 + 1e-3:
        return 2.01
    log = math.log(ratio)
    # in terms of 1/r, because r itself may be too large to multiply
    return log**2 / (log - 1 + 1 / ratio)
