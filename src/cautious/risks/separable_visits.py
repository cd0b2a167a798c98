"""The distances of ``separable`` for expected visits, which have no fixed sum: minima are over all x >= 0.

    KL:              sum x log(x/p) - x + p     min KL - <u, x>  = sum p (1 - e^u)
    Entropy:         sum x log x                min              = - sum e^(u-1)
    TotalVariation:  1/2 |x - p|_1              min              = - sum p u,   for slopes between -1/2 and 1/2
    Quadratic:       1/2 |x - p|^2              min              = - sum u^2/2 + p u,   for slopes u >= -p

The relative entropy has two more terms than between distributions, where they cancel: without them it would not be
least, and zero, at the prior.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import picked
from cautious.models.encodings import EPS
from cautious.risks.base import never
from cautious.risks.epigraph import Epigraph
from cautious.risks.separable import SMALLEST_POSITIVE, EntropicRisk, HalfL1, HalfSquares


@dataclass(frozen=True)
class EntropicVisits(EntropicRisk):
    """Relative entropy of visits to the prior; ``relative`` is 1 with the terms - x + p, and 0 without."""

    relative: int = 1

    def value(self, d: Array) -> float:
        """sum x log(x/p) - x + p; infinite where p = 0 < x."""
        return super().value(d) + self._rest(self.entries(d))

    def _rest(self, x: Array) -> float:
        return self.relative * (float(self.prior.sum()) - float(x.sum()))

    def gradient(self, d: Array) -> Array:
        """log(x/p)."""
        return super().gradient(d) - self.relative

    def value_and_gradient(
        self, d: Array, hint: Any = None, over: Callable[[], bool] = never
    ) -> tuple[float, Array | None]:
        """Both, from the same logarithms."""
        value, slope = super().value_and_gradient(d, hint, over)
        return (value, None) if slope is None else (value + self._rest(self.entries(d)), slope - self.relative)

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """To first order in the entries that are much larger than the distance; the others by themselves."""
        x = self.entries(d)
        logs = self._logarithms(x)
        small, large = (x > 0) & (x < 4 * distance), x >= max(4 * distance, SMALLEST_POSITIVE)
        error = distance * (2 + float(np.abs(logs[large]).max(initial=0.0)))
        if small.any():
            mass = distance + float(x[small].sum())
            steep = float(np.abs(self.log_prior[small]).max())
            count = float(np.log(np.count_nonzero(small)))
            error += 2 * mass * (count + abs(float(np.log(mass))) + 2 + steep)
        size = float(np.sum(x * np.abs(logs))) + float(x.sum() + self.prior.sum())
        return error + 32 * EPS * (abs(value) + size + 1)

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """Minus the sum of the minimising visits, and all of the prior."""
        log_prior = picked(self.log_prior, here)
        with np.errstate(over="ignore"):
            visits = np.exp(u + log_prior - (1 - self.relative))
        most = self.relative * float(self.prior.sum())
        size = 1 + most + float(np.sum(visits * (2 + np.abs(u) + np.abs(log_prior))))
        return u, most - float(visits.sum()), size

    def epigraph(self, active: Mask) -> Epigraph:
        """As between distributions, less what the term - x adds to every slope."""
        form, relative = super().epigraph(active), self.relative
        pick, witness = self.selector(active), form.witness
        ones = np.asarray(pick.T @ np.ones(pick.shape[0]))
        return replace(
            form,
            linear=-relative * ones if form.linear is None else form.linear - relative * ones,
            witness=lambda z: witness(z) - relative,
        )


@dataclass(frozen=True)
class HalfL1Visits(HalfL1):
    """Half the distance between visits and the prior."""

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """Least at the prior, for slopes that the distance has; others are moved to the nearest of them."""
        u = np.clip(u, -0.5, 0.5)
        elsewhere = self.of_nothing(self.prior[~here]) + self.outside
        worth = u * self.prior[here]
        return u, elsewhere - float(worth.sum()), elsewhere + float(np.abs(worth).sum())

    def epigraph(self, active: Mask) -> Epigraph:
        """The sum of (x - p)_+, less half of x - p."""
        form, pick = super().epigraph(active), self.selector(active)
        witness = form.witness
        return replace(
            form, linear=-0.5 * np.asarray(pick.T @ np.ones(pick.shape[0])), witness=lambda z: witness(z) - 0.5
        )


@dataclass(frozen=True)
class HalfSquaresVisits(HalfSquares):
    """Half the squared distance between visits and the prior."""

    def tightest_line(self, u: Array, here: Mask) -> tuple[Array, float, float]:
        """Least at p + u, or at zero, where a slope of -p is as good."""
        p = picked(self.prior, here)
        u = np.maximum(u, -p)
        elsewhere = self.of_nothing(self.prior[~here]) + self.outside
        parts = u * (0.5 * u + p)
        return u, elsewhere - float(parts.sum()), elsewhere + float(np.abs(u * (0.5 * np.abs(u) + p)).sum())
