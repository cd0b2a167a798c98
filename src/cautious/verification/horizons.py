"""The exact form of each horizon: its model, and where a policy spends its time."""

from cautious.arrays import Array, Mask
from cautious.verification.claim import Model
from cautious.verification.finite_horizon import FiniteHorizon, occupancy_over_time
from cautious.verification.flow import Discounted, ExactModel
from cautious.verification.occupancy import Occupancy, occupancy


def exact_model(model: Model, permitted: Mask) -> ExactModel:
    """The model with the pairs ``permitted`` (S, A)."""
    return Discounted(model, permitted) if model.horizon is None else FiniteHorizon(model, permitted)


def occupancy_of(model: Model, policy: Array) -> Occupancy:
    """The occupancy of a policy (S, A), or (T, S, A) summed over the steps."""
    return occupancy(model, policy) if model.horizon is None else occupancy_over_time(model, policy)
