"""The exact form of each horizon: its model, and where a policy spends its time."""

from cautious.arrays import Array, Mask
from cautious.verification.average import Average, long_run_occupancy
from cautious.verification.claim import AVERAGE, TOTAL, Model
from cautious.verification.finite_horizon import FiniteHorizon, occupancy_over_time
from cautious.verification.flow import Discounted, ExactModel
from cautious.verification.occupancy import Occupancy, occupancy
from cautious.verification.total import Total, visits_until_end


def exact_model(model: Model, permitted: Mask) -> ExactModel:
    """The model with the pairs ``permitted`` (S, A)."""
    if model.horizon == AVERAGE:
        return Average(model, permitted)
    if model.horizon == TOTAL:
        return Total(model, permitted)
    return Discounted(model, permitted) if model.horizon is None else FiniteHorizon(model, permitted)


def occupancy_of(model: Model, policy: Array) -> Occupancy | None:
    """The occupancy of a policy (S, A), or (T, S, A) summed over the steps; None if it could not be enclosed."""
    if model.horizon == AVERAGE:
        return long_run_occupancy(model, policy)
    if model.horizon == TOTAL:
        return visits_until_end(model, policy)
    return occupancy(model, policy) if model.horizon is None else occupancy_over_time(model, policy)
