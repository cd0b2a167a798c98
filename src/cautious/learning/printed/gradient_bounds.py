"""Risks as Algorithm 1 needs them: convex, with subgradients that stay below a known bound (Assumption 1).

Bounds are on the entries of the subgradient in the occupancy d; the paper's sigma is (1-gamma) times that, because it
differentiates in lam = d/(1-gamma).

    LogBarrier            sum_j |f_j| / kappa_j: below the slack kappa_j = barrier_floor * (size of number j) the
                          logarithm goes on as a straight line; the barrier itself has no bound
    WorstOf               max |f_j|
    KL, Entropy           max |1 + log(x/p)| for x in [delta0, 1]: below delta0 = occupancy_floor the divergence goes on
                          as a straight line; the paper assumes x >= delta0, and its algorithm does not see to it
    TotalVariation        1/2
    Quadratic             max |x - p| over x in [0, 1]
    Wasserstein           half the diameter: potentials are shifted to be centred, which changes no update
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from cautious._core import algorithm_1 as kernel
from cautious.arrays import Array, Indices, Mask
from cautious.learning.printed.variance_surrogate import HalfSquareOf
from cautious.risks.base import Risk, Structure
from cautious.risks.parts import Parts
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares, SeparableRisk
from cautious.risks.transport import TransportRisk

# kinds, on_states, weights, first, rows, numbers and floor of ``_core/algorithm_1.hpp``
PackedTerms = tuple[Indices, Mask, Array, Indices, Array, Array, float]


@dataclass(frozen=True)
class GradientLimits:
    """What makes a risk's gradient bounded; see the module's text. ``gradient_bound`` is for a user's own risk."""

    occupancy_floor: float
    barrier_floor: float
    prior_mixing: float
    gradient_bound: float | None


@dataclass(frozen=True)
class CompiledTerm:
    """A term as ``_core/algorithm_1.hpp`` takes it: ``rows`` (m, S*A), ``numbers`` (m, 2)."""

    kind: int
    on_states: bool
    rows: Array
    numbers: Array


@dataclass(frozen=True)
class BoundedTerm:
    """``gradient`` (S, A) -> (S, A), entries at most ``bound`` on pairs that exist; ``compiled`` None where unknown."""

    weight: float
    risk: Risk
    bound: float
    gradient: Callable[[Array], Array]
    compiled: CompiledTerm | None


def refusal(risk: Risk, allowed: Mask, limits: GradientLimits) -> str | None:
    """Why Algorithm 1 cannot take a term; None when it can."""
    if not risk.convex:
        return f"Algorithm 1 needs a convex risk, and {risk.label} is not"
    for term in Parts([(1.0, risk)]).entropies:
        zeros = term.risk.active_entries(allowed) & (term.risk.prior == 0)
        if zeros.any() and limits.prior_mixing == 0:
            return (
                f"the prior of {risk.label} is zero at {int(zeros.sum())} entries, so its gradient has no bound; mix "
                "the prior with the uniform law: ca.AlgorithmOne(prior_mixing=0.05)"
            )
    if risk.structure not in _BOUNDED and limits.gradient_bound is None:
        return (
            f"Algorithm 1 needs a bound on the gradient of {risk.label}; give one, on the entries of "
            f"{risk.label}.gradient(d): ca.AlgorithmOne(gradient_bound=...)"
        )
    return None


def bounded(weight: float, risk: Risk, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    """A term that ``refusal`` accepts, or the squared number of Algorithm 2."""
    if isinstance(risk, HalfSquareOf):
        return _half_square_of(weight, risk, allowed)
    make = _BOUNDED.get(risk.structure)
    if make is not None:
        return make(weight, risk, allowed, limits)
    assert limits.gradient_bound is not None
    return BoundedTerm(weight, risk, limits.gradient_bound, risk.gradient, None)


def packed(terms: Sequence[BoundedTerm], factor: float, size: int, floor: float) -> PackedTerms | None:
    """The terms as the kernel's arrays, weights times ``factor``; None when one of them has no compiled form."""
    forms = [term.compiled for term in terms if term.compiled is not None]
    if len(forms) < len(terms):
        return None
    rows = np.concatenate([form.rows for form in forms]) if forms else np.zeros((0, size))
    numbers = np.concatenate([form.numbers for form in forms]) if forms else np.zeros((0, 2))
    return (
        np.array([form.kind for form in forms], dtype=np.int64),
        np.array([form.on_states for form in forms], dtype=np.bool_),
        np.array([factor * term.weight for term in terms], dtype=np.float64),
        np.cumsum([0, *(len(form.rows) for form in forms)], dtype=np.int64),
        np.ascontiguousarray(rows),
        np.ascontiguousarray(numbers),
        floor,
    )


def _entropic(weight: float, risk: EntropicRisk, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    here, floor = risk.active_entries(allowed), limits.occupancy_floor
    # the negative entropy is a divergence from ones, which is no prior to be mixed
    if limits.prior_mixing > 0 and risk.title == "KL":
        mixed = (1 - limits.prior_mixing) * risk.prior + limits.prior_mixing * here / np.count_nonzero(here)
        risk = replace(risk, prior=np.where(here, mixed, 0.0))
    p = risk.prior[here]
    ends = [1 + np.log(x) - np.log(prior) for x in (floor, 1.0) for prior in (p.min(), p.max())]

    def gradient(d: Array, used: EntropicRisk = risk) -> Array:
        return used.as_table(1 + np.log(np.maximum(used.entries(d), floor)) - used.log_prior)

    form = _distance(kernel.ENTROPIC, risk, risk.log_prior)
    return BoundedTerm(weight, risk, float(np.abs(ends).max()), gradient, form)


def _half_l1(weight: float, risk: HalfL1, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    return BoundedTerm(weight, risk, 0.5, risk.gradient, _distance(kernel.HALF_L1, risk, risk.prior))


def _half_squares(weight: float, risk: HalfSquares, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    prior = risk.prior[risk.active_entries(allowed)]
    widest = max(float(prior.max()), 1 - float(prior.min()))
    return BoundedTerm(weight, risk, widest, risk.gradient, _distance(kernel.HALF_SQUARES, risk, risk.prior))


def _half_square_of(weight: float, risk: HalfSquareOf, allowed: Mask) -> BoundedTerm:
    f = risk.feature[allowed]
    bound = float(np.abs(f).max()) * max(float(f.max()) - risk.target, risk.target - float(f.min()))
    row = CompiledTerm(kernel.SQUARE_OF, False, np.reshape(risk.feature, (1, -1)), np.array([[risk.target, 0.0]]))
    return BoundedTerm(weight, risk, bound, risk.gradient, row)


def _features(weight: float, risk: Any, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    rows = risk.features.toarray()
    sizes = np.abs(rows[:, np.ravel(allowed)])
    if not risk.is_barrier:
        form = CompiledTerm(kernel.WORST, False, rows, np.zeros((len(rows), 2)))
        return BoundedTerm(weight, risk, float(sizes.max(initial=0.0)), risk.gradient, form)
    least = limits.barrier_floor * risk.scales
    form = CompiledTerm(kernel.BARRIER, False, rows, np.column_stack([risk.floors, least]))
    gradient = partial(risk.saturated_gradient, least=least)
    return BoundedTerm(weight, risk, float((sizes / least[:, None]).sum(axis=0).max()), gradient, form)


def _transport(weight: float, risk: TransportRisk, allowed: Mask, limits: GradientLimits) -> BoundedTerm:
    return BoundedTerm(weight, risk, risk.diameter / 2, _centred_potentials(risk), None)


def _centred_potentials(risk: TransportRisk) -> Callable[[Array], Array]:
    everywhere = np.ones(risk.shape, dtype=np.bool_)

    def gradient(d: Array) -> Array:
        # the program's own potentials are arbitrary where there is no mass; those of the cut are never too steep
        slope = risk.cut(risk.gradient(d)[:, 0], everywhere).slope
        return np.asarray(slope - (slope.max() + slope.min()) / 2)

    return gradient


def _distance(kind: int, risk: SeparableRisk, table: Array) -> CompiledTerm:
    row = np.zeros(risk.shape[0] * risk.shape[1])
    row[: table.size] = np.ravel(table)
    return CompiledTerm(kind, risk.on_states, row[None, :], np.zeros((1, 2)))


_BOUNDED: dict[Structure, Callable[[float, Any, Mask, GradientLimits], BoundedTerm]] = {
    Structure.FEATURES: _features,
    Structure.ENTROPY: _entropic,
    Structure.L1: _half_l1,
    Structure.SQUARE: _half_squares,
    Structure.TRANSPORT: _transport,
}
