"""What a trial proves: a number that the true objective of the policy exceeds, whatever the model, with confidence.

Everything linear in the occupancy is the mean of one bounded number per path. What is convex and not linear is bounded
through the empirical occupancy: with x(s) the true share of state s and X(s) the share of paths that ended there,
x(s) pi(a|s) is the occupancy exactly, and E[risk(X pi)] >= risk(x pi) (Jensen). How far risk(X pi) can fall below its
mean is McDiarmid's inequality, except for entropies, where ``divergence_above`` is far better.
"""

import math

import numpy as np
import scipy.sparse as sp
from scipy.special import rel_entr, xlogy

from cautious.arrays import Array, Indices
from cautious.learning.method import Result
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.trial import OVERSHOOT_PROBABILITY, Trial
from cautious.learning.task import Task
from cautious.risks.base import Risk
from cautious.risks.epigraph import state_sums
from cautious.risks.features import FeatureRisk
from cautious.risks.separable import EntropicRisk

CONFIDENCE = 0.95
LOWER_DELTA = 0.025
UPPER_DELTA = 0.025
# sums in double precision: a mean of numbers in [low, high] is known up to this share of their size
ROUNDING = 1e-12
FLOOR_SHARE = 0.02
BISECTIONS = 60


def mean_above(mean: Array, variance: Array | None, count: Array, low: float, high: float, delta: float) -> Array:
    """A number that the expectation exceeds with probability at most ``delta``, for each mean of ``count`` iid values.

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
    return np.asarray(np.minimum(best + ROUNDING * (abs(low) + abs(high)), high))


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


def objective_at_least(task: Task, result: Result, trial: Trial) -> float:
    """The true objective of the tried policy is above this with probability at least 1 - LOWER_DELTA.

    ``result`` must not depend on the trial. Minus infinity where nothing can be said: no paths, a risk without a known
    bound, a requirement that the samples do not prove, or a policy that may use a pair which the prior forbids.
    """
    terms = task.known_terms
    if trial.paths == 0 or not trial.done:
        return -np.inf
    convex = [(weight, risk) for weight, risk in terms if not isinstance(risk, EntropicRisk)]
    entropies = [(weight, risk) for weight, risk in terms if isinstance(risk, EntropicRisk)]
    delta = (LOWER_DELTA - OVERSHOOT_PROBABILITY) / (1 + len(convex) + (len(entropies) > 0))
    penalty, bound = np.zeros(task.shape[0]), 0.0
    counts = np.bincount(trial.end_states, minlength=task.shape[0])
    if entropies:
        reference = _floored(result.occupancy.sum(axis=1))
        for weight, risk in entropies:
            if np.any((trial.policy > 0) & (risk.as_table(risk.prior) == 0)):
                return -np.inf
            penalty += weight * (np.log(reference) + _log_ratio(risk, trial.policy))
        bound -= sum(weight for weight, _ in entropies) * divergence_above(counts, reference, delta)
    for weight, other in convex:
        bound -= weight * _risk_above(other, trial, counts, delta)
    payoff = Payoff(task.scalars, result.scalars, task.discount)
    horizon = 1 / (1 - task.discount)
    values = horizon * payoff(trial.end_rewards) - penalty[trial.end_states]
    low, high = (horizon * end for end in payoff.range(*task.padded_range))
    gain = sample_mean_below(values, low - float(penalty.max()), high - float(penalty.min()), delta)
    return float(gain + bound - payoff.offset)


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
    if isinstance(risk, FeatureRisk):
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
