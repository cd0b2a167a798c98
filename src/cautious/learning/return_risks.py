"""Learning with a risk of the return: count, solve the counted model, and play episodes that say what the policy does.

The counted model is solved over all policies with memory. What is claimed rests on fresh episodes alone, and holds for
any model. An episode is cut after L steps; what it would have earned later is taken as the worst that the range of
rewards allows, or, for a variance, as anything in that range. With values V_i in [low, high] of n episodes, and half of
the chance of error each for mean and risk:

- the mean is bounded as in ``confidence.mean_below``;
- for CVaR, entropic risk and EVaR the distribution function is at most that of the sample plus
  sqrt(log(1/delta) / (2n)) (Dvoretzky, Kiefer and Wolfowitz; Massart 1990), so that the risk is at most that of the
  sample with so much of its best part moved to ``low`` (Thomas and Learned-Miller 2019 do this for CVaR);
- a chance to be below a threshold is bounded by Clopper and Pearson;
- a standard deviation is at most that of the sample plus (high - low) sqrt(2 log(1/delta) / (n - 1)) (Maurer and Pontil
  2009, theorem 10).
"""

import math
import os
import time
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import beta

from cautious.arrays import Array
from cautious.certificate.bounds import Certificate
from cautious.checks import as_number
from cautious.errors import IncompatibleError
from cautious.evaluation.evaluate import evaluate
from cautious.horizons.visits import PolicyOccupancy
from cautious.learning.loop import LearningCallback, Loop
from cautious.learning.method import Method
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.learning.statements.confidence import CONFIDENCE, sample_mean_below
from cautious.learning.task import Task, make_task, refuse_hidden_spread
from cautious.models.simulators import Simulator
from cautious.problem import Problem
from cautious.risks.base import Risk, terms_of
from cautious.risks.returns import ReturnBelow, ReturnCVaR, ReturnEntropic, ReturnEVaR, ReturnRisk, ReturnVariance
from cautious.solution import Solution
from cautious.solvers.solve import Request, answer
from cautious.status import Status

# an episode of a trial is cut where so much of the range of the return is left
LEFT_SHARE = 1e-3
# what the counts leave open about the model is more than this
TOLERANCE = 1e-3
# rates among which the best one for a sample is looked for, in units of one over the range of the return
RATES = np.geomspace(1e-2, 1e3, 60)


@dataclass(frozen=True)
class Counting(PlugIn):
    """Plug-in without a trial of its own."""

    prove: bool = False

    def trial_samples(self, task: Task) -> int:
        """None: the episodes of the final policy are played afterwards."""
        return 0


def has_return_risk(risk: Any, caution: Any) -> bool:
    """Whether a risk of the return plays a part."""
    # an odd caution is refused by who uses it
    unused = isinstance(caution, int | float) and caution == 0
    return isinstance(risk, Risk) and not unused and any(isinstance(one, ReturnRisk) for _, one in terms_of(risk))


def learn_return_risk(
    simulator: Simulator,
    risk: Risk,
    caution: float,
    samples: int,
    method: str | Method,
    seed: int,
    checkpoint: str | os.PathLike[str] | None,
    callback: LearningCallback | None,
    executor: Executor | None,
    checkpoint_seconds: float,
    call_timeout_seconds: float | None,
) -> Solution:
    """As ``ca.learn``."""
    began, terms = time.monotonic(), terms_of(risk)
    label = risk.label
    if not (method in ("auto", "plug-in") if isinstance(method, str) else isinstance(method, PlugIn)):
        raise IncompatibleError(
            f"only plug-in learns {label}, a risk of the return: its policies remember what was earned, and are found "
            'in the counted model; leave out method, or give method="plug-in"'
        )
    weight, asked = terms[0]
    if len(terms) > 1 or not isinstance(asked, ReturnRisk):
        raise IncompatibleError(f"a risk of the return is learned alone, and not in a sum ({label})")
    refuse_hidden_spread(simulator, label)
    whole = make_task(simulator, None, 0.0, samples, seed)
    caution = as_number("caution", caution, 0.0)
    of_return = asked.checked()
    trial = PlugIn().trial_samples(whole)
    counted = make_task(simulator, None, 0.0, max(samples - trial, whole.pairs), seed)
    ending = Loop(
        counted,
        Counting(),
        checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        call_timeout_seconds=call_timeout_seconds,
        callback=callback,
        executor=executor,
    ).run()
    counts, model = ending.result.counts, ending.result.problem
    assert counts is not None
    assert model is not None
    if not counts.deterministic:
        raise IncompatibleError(
            f"{label} needs the distribution of rewards, and this simulator pays different rewards for the same "
            "(state, action, next state): make what decides the reward part of the state"
        )
    found = answer(Problem(model.mdp, risk, caution), Request(TOLERANCE))
    claim = None
    steps = _steps(whole)
    episodes = (samples - ending.used) // steps
    if not ending.stopped and episodes >= 2:
        played = evaluate(simulator, found, int(episodes), steps, seed + 1, executor=executor)
        claim = claimed(whole, of_return, caution, played.returns, steps, weight)
    at_least = -np.inf if claim is None else claim.objective
    facts: dict[str, Any] = {
        "confidence": CONFIDENCE,
        "objective_at_least": at_least,
        "optimum_below": np.inf,
        "samples": ending.used + (0 if claim is None else int(episodes) * steps),
        "seed": seed,
        "budget": samples,
        "trial_samples": 0 if claim is None else int(episodes) * steps,
        "method": f"plug-in, {'asked for' if method != 'auto' else 'the only one for a risk of the return'}",
        "settings": "",
        "triples": counts.used,
    }
    if claim is not None:
        facts |= {"expected_return_at_least": claim.mean, "risk_at_most": claim.risk, "trial_episodes": int(episodes)}
    visits = found.certificate.visits
    certificate = Certificate(
        kind="estimated",
        statement=_statement(claim, int(episodes), steps, ending.stopped),
        upper_bound=np.inf,
        gap=np.inf,
        visits=PolicyOccupancy(visits.occupancy, visits.reached, np.nan),
        objective_error=np.nan,
        facts=facts,
    )
    return replace(
        found,
        status=Status.STOPPED if ending.stopped else Status.ESTIMATED,
        upper_bound=np.inf,
        gap=np.inf,
        certificate=certificate,
        caution=caution,
        tolerance=np.nan,
        seconds=time.monotonic() - began,
        steps=int(facts["samples"]),
        method="plug-in",
        history=ending.history,
    )


@dataclass(frozen=True)
class ReturnClaim:
    """What holds with confidence: the mean is no less, the risk no more, and so the objective no less."""

    mean: float
    risk: float
    objective: float


def claimed(
    task: Task, risk: ReturnRisk, caution: float, returns: Array, steps: int, weight: float = 1.0
) -> ReturnClaim:
    """From the returns (n,) of episodes that were cut after so many steps; the risk counts with its ``weight``."""
    delta = 0.5 * (1 - CONFIDENCE)
    least, most = (end / (1 - task.discount) for end in task.padded_range)
    left = task.discount**steps
    values = np.clip(returns + left * least, least, most)
    mean = sample_mean_below(values, least, most, delta)
    bound = weight * _risk_above(risk, np.sort(values), least, most, left * (most - least), delta)
    return ReturnClaim(mean, bound, mean - caution * bound)


def _steps(task: Task) -> int:
    """Of an episode."""
    return 1 if task.discount <= LEFT_SHARE else math.ceil(math.log(LEFT_SHARE) / math.log(task.discount))


def _risk_above(risk: ReturnRisk, values: Array, least: float, most: float, late: float, delta: float) -> float:
    """The risk exceeds this with probability at most ``delta``; values (n,) ascend, and lack up to ``late``."""
    n = values.size
    match risk:
        case ReturnVariance():
            deviation = math.sqrt(values.var(ddof=1)) + (most - least) * math.sqrt(2 * math.log(1 / delta) / (n - 1))
            return (min(deviation, 0.5 * (most - least)) + 0.5 * late) ** 2
        case ReturnBelow(threshold):
            count = int(np.count_nonzero(values < threshold))
            return 1.0 if count == n else float(beta.ppf(1 - delta, count + 1, n - count))
    moved = min(1.0, math.sqrt(math.log(1 / delta) / (2 * n)))
    atoms, chances = _pessimistic(values, least, moved)
    match risk:
        case ReturnCVaR(level):
            taken = np.diff(np.minimum(np.cumsum(chances), 1 - level), prepend=0.0)
            return -float(taken @ atoms) / (1 - level)
        case ReturnEntropic(rate):
            return _entropic(atoms, chances, rate)
        case ReturnEVaR():
            rates = RATES / max(most - least, 1e-300)
            return float(min(_entropic(atoms, chances, rate) + risk.log_tail / rate for rate in rates))
    raise IncompatibleError(f"{risk.label} has no bound from samples")


def _pessimistic(values: Array, least: float, moved: float) -> tuple[Array, Array]:
    """The sample with so much of its best part at the least value: returns and chances, ascending."""
    chances = np.full(values.size, 1 / values.size)
    kept = np.diff(np.minimum(np.cumsum(chances), 1 - moved), prepend=0.0)
    return np.concatenate([[least], values]), np.concatenate([[moved], kept])


def _entropic(atoms: Array, chances: Array, rate: float) -> float:
    return float(logsumexp(-rate * atoms, b=chances)) / rate


def _statement(claim: ReturnClaim | None, episodes: int, steps: int, stopped: bool) -> str:
    if claim is None:
        why = "the run was stopped first" if stopped else "there were too few samples for that"
        return f"The policy was not tried in fresh episodes ({why}): nothing is claimed about it."
    return (
        f"With probability at least {100 * CONFIDENCE:g} %, the true objective of this policy is at least "
        f"{claim.objective:.6g}: its expected return is at least {claim.mean:.6g}, and its risk at most "
        f"{claim.risk:.6g}, by {episodes:,} fresh episodes of {steps:,} steps. Nothing is claimed about other policies."
    )
