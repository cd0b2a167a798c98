"""How large rewards may be: returns and second moments must be numbers of double precision."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import as_floats, check_shape, first_bad
from cautious.errors import InputError

# what adds up to it can still be summed, doubled and bounded without an overflow
LARGEST_RETURN = 1e305
LARGEST_SQUARED = 1e150


def check_returns(rewards: Array, outcome_rewards: Array | None, discount: float) -> None:
    """Refuse rewards, of pairs (S, A) or of outcomes, that add up to more than double precision holds."""
    largest, limit = float(np.abs(rewards).max(initial=0.0)), LARGEST_RETURN * (1 - discount)
    place = ""
    if largest > limit:
        place = f"[{', '.join(str(index) for index in first_bad(np.abs(rewards) > limit))}]"
    elif outcome_rewards is not None:
        largest = float(np.abs(outcome_rewards).max(initial=0.0))
    if largest > limit:
        raise InputError(
            f"rewards{place}: rewards up to {largest:g} at discount {discount:g} add up to more than "
            f"{LARGEST_RETURN:g}, beyond double precision; pay them in other units"
        )


def given_square(given: Any, rewards: Array, allowed: Mask) -> Array:
    """A second moment (S, A) that a caller gives, checked against the rewards."""
    largest = float(np.abs(rewards).max(initial=0.0))
    if largest > LARGEST_SQUARED:
        raise InputError(f"reward_square: rewards up to {largest:g} have no square in double precision")
    square = as_floats("reward_square", given)
    check_shape("reward_square", square, rewards.shape, "(S, A)")
    low = (square < rewards**2 * (1 - 1e-12)) & allowed
    if low.any():
        where = first_bad(low)
        raise InputError(
            f"reward_square{list(where)} is {square[where]}; it cannot be below the squared mean "
            f"{rewards[where] ** 2:.12g}"
        )
    square = np.where(allowed, np.maximum(square, rewards**2), 0.0)
    square.setflags(write=False)
    return square
