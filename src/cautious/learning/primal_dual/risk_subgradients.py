"""The subgradient of each risk, a table (S, A) that a sweep subtracts from its advantages.

Smooth risks give their gradient. So do barriers, with every slack kept above a small floor, so that the gradient stays
bounded. A worst case has one multiplier per case: the integral of how bad the case has been, and a term in proportion
to how bad it is now, which damps oscillations. Any other nonsmooth risk gives a subgradient half way between the
present occupancy and the average one; that of a transport risk costs a linear program, so it is kept for several
sweeps.
"""

from typing import Any

import numpy as np
from scipy.special import softmax

from cautious.arrays import Array, Mask
from cautious.risks.base import Risk
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.transport import TransportRisk

PROPORTIONAL_GAIN = 100.0
MIN_RELATIVE_SLACK = 0.01
MOST_TRANSPORT_PROGRAMS = 500


class Subgradient:
    """That of one term, here a smooth one; ``weight`` is its (1-gamma) c in the learner's units.

    ``memory`` is what it keeps between sweeps.
    """

    def __init__(self, weight: float, risk: Any) -> None:
        self.weight, self.risk = weight, risk
        self.memory = np.empty(0)

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The subgradient (S, A) at an occupancy with entries above zero."""
        return np.asarray(self.risk.gradient(d), dtype=np.float64)

    def witness(self, d: Array, active: Mask) -> Any:
        """The witness of a line below the risk that touches it at an occupancy, or nearly."""
        return self.risk.witness_at(d, active)


class BarrierSubgradient(Subgradient):
    """- sum f_j / slack_j, no slack below its floor."""

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The gradient with slacks of at least their floors."""
        least = min(MIN_RELATIVE_SLACK, self.weight) * self.risk.scales
        return np.asarray(self.risk.saturated_gradient(d, least))


class WorstOfSubgradient(Subgradient):
    """The cases, weighted by their multipliers; the memory is one multiplier per case."""

    def __init__(self, weight: float, risk: WorstOf) -> None:
        super().__init__(weight, risk)
        self.memory = np.zeros(len(risk.names))

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """One step of the multipliers, and the cases weighted by them."""
        change = rate * self.weight * self.risk.numbers(d)
        self.memory = self.memory + change
        return np.asarray(self.risk.weighted(softmax(self.memory + PROPORTIONAL_GAIN * change)))

    def witness(self, d: Array, active: Mask) -> Array:
        """The weights that the multipliers stand for, without the damping."""
        return np.asarray(softmax(self.memory))


class NonsmoothSubgradient(Subgradient):
    """Other risks with a discontinuous gradient; a subgradient is kept for ``every`` sweeps."""

    def __init__(self, weight: float, risk: Risk, every: int) -> None:
        super().__init__(weight, risk)
        self.every = every

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The subgradient half way to the average."""
        if self.memory.size == 0 or sweep % self.every == 0:
            self.memory = np.asarray(self.risk.gradient((d + average) / 2), dtype=np.float64)
        return self.memory


def subgradient_of(weight: float, risk: Risk, sweeps: int) -> Subgradient:
    """The subgradient that fits the structure of a risk."""
    if isinstance(risk, WorstOf):
        return WorstOfSubgradient(weight, risk)
    if isinstance(risk, LogBarrier):
        return BarrierSubgradient(weight, risk)
    if risk.smooth:
        return Subgradient(weight, risk)
    every = max(1, sweeps // MOST_TRANSPORT_PROGRAMS) if isinstance(risk, TransportRisk) else 1
    return NonsmoothSubgradient(weight, risk, every)
