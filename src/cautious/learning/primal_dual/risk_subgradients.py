"""How each risk pulls on the occupancy during a sweep: a table (S, A) that the learner subtracts from its advantages.

A smooth risk is its gradient. A barrier is its gradient too, with the slack kept above a small floor, so that its pull
saturates instead of growing without end. A worst case has one multiplier per case: the integral of how bad the case has
been, and a term in proportion to how bad it is now, which damps the swings. Anything else with kinks is followed half
way between the present occupancy and the average one; a transport plan costs a linear program, so its prices are kept
for several sweeps.
"""

from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.risks.base import Risk
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.transport import TransportRisk

PROPORTION = 100.0
BARRIER_FLOOR = 0.01
TRANSPORT_PLANS = 500


class Slope:
    """One term of the risk, here a smooth one; ``weight`` is its (1-gamma) c in the learner's units.

    ``memory`` is what it keeps between sweeps.
    """

    def __init__(self, weight: float, risk: Any) -> None:
        self.weight, self.risk = weight, risk
        self.memory = np.empty(0)

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The slope (S, A) at an occupancy, with entries above zero."""
        return np.asarray(self.risk.gradient(d), dtype=np.float64)

    def witness(self, d: Array, active: Mask) -> Any:
        """The witness of a line below the risk that touches it at an occupancy, or nearly."""
        return self.risk.witness_at(d, active)


class Saturated(Slope):
    """Barriers."""

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """- sum f_j / slack_j, no slack below its floor."""
        least = min(BARRIER_FLOOR, self.weight) * self.risk.scales
        return np.asarray(self.risk.saturated_gradient(d, least))


class Multiplied(Slope):
    """Worst cases; the memory is one multiplier per case."""

    def __init__(self, weight: float, risk: WorstOf) -> None:
        super().__init__(weight, risk)
        self.memory = np.zeros(len(risk.names))

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The cases, weighted by their multipliers."""
        push = rate * self.weight * self.risk.numbers(d)
        self.memory = self.memory + push
        level = self.memory + PROPORTION * push
        weights = np.exp(level - level.max())
        return np.asarray(self.risk.weighted(weights / weights.sum()))

    def witness(self, d: Array, active: Mask) -> Array:
        """What the multipliers have settled on, without the damping."""
        found = np.exp(self.memory - self.memory.max())
        return np.asarray(found / found.sum())


class Kinked(Slope):
    """Other risks whose gradient jumps; a gradient is kept for ``every`` sweeps."""

    def __init__(self, weight: float, risk: Risk, every: int) -> None:
        super().__init__(weight, risk)
        self.every = every

    def at(self, d: Array, average: Array, rate: float, sweep: int) -> Array:
        """The gradient half way to the average."""
        if self.memory.size == 0 or sweep % self.every == 0:
            self.memory = np.asarray(self.risk.gradient((d + average) / 2), dtype=np.float64)
        return self.memory


def slope_of(weight: float, risk: Risk, sweeps: int) -> Slope:
    """The way to follow a risk, by what it declares."""
    if isinstance(risk, WorstOf):
        return Multiplied(weight, risk)
    if isinstance(risk, LogBarrier):
        return Saturated(weight, risk)
    if risk.smooth:
        return Slope(weight, risk)
    return Kinked(weight, risk, max(1, sweeps // TRANSPORT_PLANS) if isinstance(risk, TransportRisk) else 1)
