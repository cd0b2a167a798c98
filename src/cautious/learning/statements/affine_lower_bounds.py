"""An affine function below all convex risks together, and the bound of the optimum that needs no samples."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from cautious.arrays import Array, Mask
from cautious.learning.task import Task
from cautious.risks.base import Risk
from cautious.risks.separable import EntropicRisk

Terms = Sequence[tuple[float, Risk | None]]
RELATIVE_SLACK = 1e-9


@dataclass(frozen=True)
class AffineLowerBound:
    """<``slope``, d> / (1-gamma) + ``intercept`` below the sum of all convex terms, without entropies on pairs.

    Those are kept as they are: ``caution`` is their total weight, ``log_prior`` (S, A) the mean of their log priors.
    """

    slope: Array
    intercept: float
    caution: float
    log_prior: Array

    def bound(self, advantage: Array, domain: Mask, discount: float) -> float:
        """max over d on the domain of (<d, advantage - slope> / (1-gamma) - caution * KL) - intercept."""
        gain = (advantage - self.slope)[domain]
        if self.caution == 0:
            return float(gain.max()) / (1 - discount) - self.intercept
        exponents = self.log_prior[domain] + gain / (self.caution * (1 - discount))
        return self.caution * float(logsumexp(exponents)) - self.intercept


def sure_bound(task: Task) -> float:
    """What no policy exceeds whatever the model: every step pays the largest reward, and risks are at simple lines."""
    terms = task.known_terms
    domain = task.allowed.copy()
    for _, risk in terms:
        permitted = None if risk is None else risk.permitted()
        domain &= True if permitted is None else permitted
    witnesses = [None if risk is None else risk.simple_witness(domain) for _, risk in terms]
    found = affine_lower_bound(task, terms, witnesses, domain)
    # a term that cannot be bound is taken for a distance there; what a user's own ``bind`` makes may be negative
    if found is None or not domain.any() or task.bound_by_user:
        return np.inf
    high = task.padded_range[1]
    # a variance is at least 0, a CVaR at least the smallest loss
    scalars = sum((weight * risk.offset(-high) for weight, risk in task.scalars), 0.0)
    bound = found.bound(np.full(task.shape, high), domain, task.discount) - scalars
    return bound + RELATIVE_SLACK * abs(bound)


def affine_lower_bound(task: Task, terms: Terms, witnesses: Sequence[object], domain: Mask) -> AffineLowerBound | None:
    """The lines of all terms together; None where a term has none. A distance whose prior is a policy is at least 0."""
    slope, intercept, caution = np.zeros(task.shape), 0.0, 0.0
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
        slope = slope + (1 - task.discount) * weight * line.slope
        intercept += weight * line.intercept
    return AffineLowerBound(slope, intercept, caution, log_prior / caution if caution else log_prior)
