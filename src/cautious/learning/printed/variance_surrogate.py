"""The blockwise concave surrogate of the objective with a variance that Algorithm 2 maximises.

    Phi(d, mu) = <d, r>/(1-gamma) - c ( <d, r>^2 - 2 <mu, r> <d, r> + <mu, R> ) - M/2 |mu - d|^2

For a fixed mu, completing the square leaves two convex risks of d and a constant:

    Phi(d, mu) = <d, r>/(1-gamma) - 2c 1/2 ( <d, r> - <mu, r> )^2 - M 1/2 |d - mu|^2 + c <mu, r>^2 - c <mu, R>.

For a fixed d the best mu is the projection of  d + (c/M) (2 <d, r> r - R)  on the simplex. The appendix of the paper
prints 2/M where c/M belongs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import spsolve

from cautious.arrays import Array, Mask
from cautious.models.tabular import MDP
from cautious.risks.base import ConicRisk, Cut, Risk
from cautious.risks.epigraph import Epigraph, state_sums
from cautious.risks.separable import HalfSquares, project_on_simplex

MAX_RELATIVE_ZERO = 1e-7
RELATIVE_RIDGE = 1e-12
MAX_NEWTON_STEPS = 50
# of caution * (reward range)^2 * pairs; smaller returns the neutral policy, larger moves too slowly
COUPLING_SHARE = 1 / 32


@dataclass(frozen=True)
class HalfSquareOf(ConicRisk):
    """Half the squared distance of one number <feature, d> from its target; ``feature`` (S, A)."""

    feature: Array
    target: float

    @property
    def label(self) -> str:
        """What it is."""
        return "distance of the mean reward"

    def value(self, d: Array) -> float:
        """1/2 (<f, d> - b)^2."""
        return 0.5 * (float(np.sum(self.feature * d)) - self.target) ** 2

    def gradient(self, d: Array) -> Array:
        """(<f, d> - b) f."""
        return (float(np.sum(self.feature * d)) - self.target) * self.feature

    def cut(self, witness: Any, active: Mask) -> Cut:
        """The tangent at the number with slope w: 1/2 y^2 >= w y - w^2/2."""
        w = float(np.ravel(witness)[0])
        return Cut(w * self.feature, -w * self.target - 0.5 * w * w)

    def epigraph(self, active: Mask) -> Epigraph:
        """One number y = <f, d> - b and half its square."""
        row = sp.csr_array(np.where(active, self.feature, 0.0).reshape(1, -1))
        return Epigraph(
            cost=np.zeros(1),
            quadratic=np.ones(1),
            on_pairs=row,
            on_own=sp.csr_array(-np.ones((1, 1))),
            rhs=np.array([self.target]),
            cones=(("zero", 1),),
            witness=lambda z: np.asarray(z),
        )


@dataclass(frozen=True)
class Surrogate:
    """Phi: ``reward`` and ``square`` (S, A) the first two moments, ``allowed`` (S, A) where mu may have mass."""

    reward: Array
    square: Array
    allowed: Mask
    caution: float
    coupling: float
    discount: float

    def value(self, d: Array, mu: Array) -> float:
        """Phi(d, mu)."""
        mean, other = float(np.sum(d * self.reward)), float(np.sum(mu * self.reward))
        spread = mean * mean - 2 * other * mean + float(np.sum(mu * self.square))
        return mean / (1 - self.discount) - self.caution * spread - self.coupling / 2 * float(np.sum((mu - d) ** 2))

    def best_mu(self, d: Array) -> Array:
        """argmax over mu of Phi(d, mu), in closed form."""
        mu = np.zeros_like(d)
        mu[self.allowed] = project_on_simplex((d + self.caution / self.coupling * self._tilt(d))[self.allowed])
        return mu

    def terms(self, mu: Array) -> tuple[tuple[float, Risk], ...]:
        """What Phi(., mu) takes off the return, up to a constant: weighted convex risks."""
        target = float(np.sum(mu * self.reward))
        near = HalfSquares(mu, (mu.shape[0], mu.shape[1]), "distance of the behaviour")
        return ((2 * self.caution, HalfSquareOf(self.reward, target)), (self.coupling, near))

    def gradient_in_flux(self, d: Array, mu: Array) -> Array:
        """The gradient of Phi in lam = d/(1-gamma), as the paper writes it."""
        apart = float(np.sum((d - mu) * self.reward))
        slope = 2 * self.caution * apart * self.reward + self.coupling * (d - mu)
        return np.asarray(self.reward - (1 - self.discount) * slope)

    def gradient_in_mu(self, d: Array, mu: Array) -> Array:
        """The gradient of Phi in mu."""
        return np.asarray(self.caution * self._tilt(d) - self.coupling * (mu - d))

    def _tilt(self, d: Array) -> Array:
        return 2 * float(np.sum(d * self.reward)) * self.reward - self.square


def simplex_gradient(gradient: Array, mu: Array, allowed: Mask) -> Array:
    """The gradient projected on the directions that keep mu a distribution: sum zero, not negative where mu is zero."""
    g, free = gradient[allowed], mu[allowed] > 0
    # the level t with sum of g - t over the free entries plus (g - t)_+ over the others equal to zero
    others = np.sort(g[~free])[::-1]
    totals = np.sum(g[free]) + np.concatenate([[0.0], np.cumsum(others)])
    levels = totals / (np.count_nonzero(free) + np.arange(others.size + 1))
    fits = np.concatenate([others <= levels[:-1], [True]])
    level = levels[int(np.argmax(fits))]
    out = np.zeros_like(gradient)
    out[allowed] = np.where(free, g - level, np.maximum(g - level, 0.0))
    return out


def flow_gradient(gradient: Array, d: Array, mdp: MDP, active: Mask) -> Array:
    """The gradient projected on the directions that keep d an occupancy: in balance, not negative where d is zero.

    Its dual is a piecewise quadratic of v (S,), minimised by Newton steps: x = g - B'v, cut off at zero where d is
    zero, with B the balance of flows. Entries below ``MAX_RELATIVE_ZERO`` of the largest count as zero.
    """
    pairs = np.flatnonzero(active)
    balance = sp.csr_array((state_sums(active) - mdp.discount * mdp.transitions.T)[:, pairs])
    g, free = np.ravel(gradient)[pairs], np.ravel(d)[pairs] > MAX_RELATIVE_ZERO * d.max()
    v = np.zeros(mdp.n_states)
    ridge = RELATIVE_RIDGE * sp.eye_array(mdp.n_states)

    def direction(v: Array) -> Array:
        x = g - balance.T @ v
        return np.asarray(np.where(free, x, np.maximum(x, 0.0)))

    x = direction(v)
    for _ in range(MAX_NEWTON_STEPS):
        moving = balance[:, np.flatnonzero(free | (x > 0))]
        step = spsolve(sp.csc_array(moving @ moving.T + ridge), balance @ x)
        length = 1.0
        while length > RELATIVE_RIDGE and np.sum(direction(v + length * step) ** 2) > np.sum(x**2):
            length /= 2
        v = v + length * step
        before, x = x, direction(v)
        if np.sum(before**2) - np.sum(x**2) <= RELATIVE_RIDGE * np.sum(x**2):
            break
    out = np.zeros(d.size)
    out[pairs] = x
    return out.reshape(d.shape)
