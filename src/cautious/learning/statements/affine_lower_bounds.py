"""Lines below all risks at once, and the bound of the optimum that needs no samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from cautious.arrays import Array, Mask
from cautious.learning.task import Task
from cautious.risks.base import Risk
from cautious.risks.scalar import Variance
from cautious.risks.separable import EntropicRisk

Terms = Sequence[tuple[float, Risk | None]]
SLACK = 1e-9


@dataclass(frozen=True)
class Lines:
    """Lines below all convex terms: ``price`` (S, A), ``intercept``; entropies of pairs are kept whole.

    ``caution`` is the total weight of those entropies, ``log_prior`` (S, A) the mean of their log priors.
    """

    price: Array
    intercept: float
    caution: float
    log_prior: Array

    def bound(self, advantage: Array, domain: Mask, discount: float) -> float:
        """max over d on the domain of (<d, advantage - price> / (1-gamma) - caution * KL) - intercept."""
        gain = (advantage - self.price)[domain]
        if self.caution == 0:
            return float(gain.max()) / (1 - discount) - self.intercept
        heat = self.caution * (1 - discount)
        return self.caution * float(logsumexp(self.log_prior[domain] + gain / heat)) - self.intercept


def sure_bound(task: Task) -> float:
    """What no policy exceeds whatever the model: every step pays the most that can be paid, risks at simple lines."""
    terms = task.known_terms
    domain = task.allowed.copy()
    for _, risk in terms:
        permitted = None if risk is None else risk.permitted()
        domain &= True if permitted is None else permitted
    witnesses = [None if risk is None else risk.simple_witness(domain) for _, risk in terms]
    found = lines_below(task, terms, witnesses, domain)
    # ``lines_below`` takes a term it cannot bind for a distance; what a user's own ``bind`` makes may be negative
    if found is None or not domain.any() or task.bound_by_user:
        return np.inf
    high = task.padded_range[1]
    # a variance is at least 0, a CVaR at least the smallest loss
    scalars = sum(-weight * high for weight, risk in task.scalars if not isinstance(risk, Variance))
    bound = found.bound(np.full(task.shape, high), domain, task.discount) - scalars
    return bound + SLACK * abs(bound)


def lines_below(task: Task, terms: Terms, witnesses: Sequence[object], domain: Mask) -> Lines | None:
    """All lines together; None where a term has none. A distance whose prior is a policy is at least 0."""
    price, intercept, caution = np.zeros(task.shape), 0.0, 0.0
    log_prior = np.zeros(task.shape)
    for (weight, risk), witness in zip(terms, witnesses, strict=True):
        if risk is None:
            continue
        if isinstance(risk, EntropicRisk) and not risk.on_states:
            with np.errstate(divide="ignore"):
                log_prior = log_prior + weight * np.where(domain, np.log(risk.prior), 0.0)
            caution += weight
            continue
        if not risk.convex:
            return None
        line = risk.cut(witness, domain)
        price = price + (1 - task.discount) * weight * line.slope
        intercept += weight * line.intercept
    return Lines(price, intercept, caution, log_prior / caution if caution else log_prior)
