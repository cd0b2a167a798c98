"""Local models of a function known only by value and gradient, as conic terms around a point.

diagonal:  tangent + 1/2 sum h (d - d0)^2                        h from two probes of half the pairs each
secant:    tangent + 1/2 |L'(d - d0)|^2 + 1/2 e |d - d0|^2       L L' = Y (S'Y)^-1 Y' from steps S, gradient changes Y
bundle:    largest of all tangents seen + 1/2 e |d - d0|^2       for functions with kinks
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.epigraph import Epigraph, identity


class OracleTerms:
    """The weighted sum of the terms that are known by value and gradient only (a first-order oracle)."""

    def __init__(self, problem: Problem, terms: Sequence[tuple[float, Risk]]) -> None:
        self.terms, self.active = terms, problem.active_pairs
        self.smooth = all(risk.smooth for _, risk in terms)

    def value(self, d: Array) -> float:
        """The weighted sum of values."""
        with np.errstate(all="ignore"):
            return float(sum(weight * risk.value(d) for weight, risk in self.terms))

    def gradient(self, d: Array) -> Array:
        """The weighted sum of gradients; zero outside the active pairs."""
        with np.errstate(all="ignore"):
            total = sum((weight * np.asarray(risk.gradient(d)) for weight, risk in self.terms), np.zeros_like(d))
        return np.where(self.active, total, 0.0)

    def usable(self, d: Array) -> bool:
        """Whether value and gradient are finite here."""
        return bool(np.isfinite(self.value(d)) and np.isfinite(self.gradient(d)).all())

    def diagonal(self, d: Array, rng: np.random.Generator) -> Array | None:
        """The curvature (S, A) when it is diagonal at d, else None.

        Two disjoint halves of the pairs are moved, one after the other; a diagonal curvature changes the gradient of
        the moved half only.
        """
        shift = np.where(self.active, 1e-5 * (d + 1e-8 / self.active.sum()), 0.0)
        half = rng.random(d.shape) < 0.5
        base, curvature = self.gradient(d), np.zeros_like(d)
        for moved in (half, ~half):
            change = self.gradient(d + np.where(moved, shift, 0.0)) - base
            if not np.isfinite(change).all():
                return None
            if np.abs(change[~moved]).max(initial=0.0) > 1e-9 * np.abs(change).max(initial=0.0) + 1e-300:
                return None
            curvature += np.divide(change, shift, out=np.zeros_like(d), where=moved & (shift > 0))
        return np.maximum(curvature, 0.0)


def diagonal_model(unknown: OracleTerms, d: Array, curvature: Array, extra: float) -> Epigraph:
    """The tangent and a diagonal quadratic."""
    h = np.ravel(curvature) + extra
    return _quadratic(np.ravel(unknown.gradient(d)) - h * np.ravel(d), h, sp.csr_array((0, d.size)))


def secant_model(
    unknown: OracleTerms, d: Array, steps: Sequence[Array], changes: Sequence[Array], extra: float
) -> Epigraph:
    """The tangent and a curvature from the changes of the gradient in past steps."""
    low_rank = _low_rank(steps, changes, d.size)
    linear = np.ravel(unknown.gradient(d)) - extra * np.ravel(d)
    linear = linear - low_rank.T @ (low_rank @ np.ravel(d))
    return _quadratic(linear, np.full(d.size, extra), sp.csr_array(low_rank))


def bundle_model(points: Sequence[Array], values: Sequence[float], slopes: Sequence[Array], extra: float) -> Epigraph:
    """The maximum of the tangents, with a quadratic term that keeps the step near the last point."""
    n, m = points[-1].size, len(points)
    rows = sp.csr_array(np.array([np.ravel(slope) for slope in slopes]))
    offsets = np.array([v - float(np.sum(g * x)) for v, g, x in zip(values, slopes, points, strict=True)])
    on_own = sp.block_array([[sp.csr_array(-np.ones((m, 1))), None], [None, identity(n, -1.0)]])
    return Epigraph(
        cost=np.concatenate([np.ones(1), -extra * np.ravel(points[-1])]),
        quadratic=np.concatenate([np.zeros(1), np.full(n, extra)]),
        on_pairs=sp.csr_array(sp.vstack([rows, identity(n)])),
        on_own=sp.csr_array(on_own),
        rhs=np.concatenate([-offsets, np.zeros(n)]),
        cones=(("nonnegative", m), ("zero", n)),
        witness=lambda z: z[:m],
    )


def _quadratic(linear: Array, diagonal: Array, low_rank: sp.csr_array) -> Epigraph:
    """<linear, d> + 1/2 sum diagonal d^2 + 1/2 |low_rank d|^2."""
    n, k = linear.size, low_rank.shape[0]
    root = np.sqrt(diagonal)
    return Epigraph(
        cost=np.zeros(n + k),
        quadratic=np.ones(n + k),
        on_pairs=sp.csr_array(sp.vstack([sp.diags_array(root), low_rank])),
        on_own=identity(n + k, -1.0),
        rhs=np.zeros(n + k),
        cones=(("zero", n + k),),
        linear=linear,
        witness=lambda z: z,
    )


def _low_rank(steps: Sequence[Array], changes: Sequence[Array], n: int) -> Array:
    """L' (k, n) with L L' = Y (S'Y)^+ Y', restricted to directions of clear positive curvature."""
    if not steps:
        return np.zeros((0, n))
    s, y = (np.array([np.ravel(x) for x in items]) for items in (steps, changes))
    scale = 1 / np.linalg.norm(s, axis=1)
    s, y = s * scale[:, None], y * scale[:, None]
    inner = s @ y.T
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    clear = values > 1e-10 * max(float(values.max()), 1e-300)
    return np.asarray((vectors[:, clear] / np.sqrt(values[clear])).T @ y)
