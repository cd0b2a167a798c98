"""Whatever a simulator says or returns is checked before it is used; messages name the call."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.checks import as_count, as_number, check_finite, check_shape, first_bad
from cautious.errors import InputError
from cautious.models.simulator_parts import as_reward_range
from cautious.models.simulators import Simulator


def check_members(simulator: Simulator) -> None:
    """Refuse a simulator whose sizes, discount or reward range cannot be."""
    as_count("simulator.n_states", simulator.n_states)
    as_count("simulator.n_actions", simulator.n_actions)
    as_number("simulator.discount", simulator.discount, 0, 1, open_ends=")")
    as_reward_range(simulator.reward_range, "simulator.reward_range")


def checked_states(simulator: Simulator, member: str, found: Any, count: int, when: str) -> Indices:
    """``count`` states that exist; ``member`` and ``when`` say which call returned them."""
    states = np.asarray(found)
    check_shape(f"simulator.{member}{when}", states, (count,), "(n,)")
    if not np.issubdtype(states.dtype, np.integer):
        raise InputError(f"simulator.{member}{when} must hold whole numbers, found dtype {states.dtype}")
    bad = (states < 0) | (states >= simulator.n_states)
    if bad.any():
        where = first_bad(bad)
        raise InputError(
            f"simulator.{member}{list(where)} is {states[where]}{when}; "
            f"states are numbered 0 to {simulator.n_states - 1}"
        )
    return states.astype(np.int64)


def padded(reward_range: tuple[float, float]) -> tuple[float, float]:
    """The rewards that are let through: those promised, up to rounding."""
    low, high = float(reward_range[0]), float(reward_range[1])
    slack = 1e-9 * max(abs(low), abs(high))
    return low - slack, high + slack


def checked_rewards(simulator: Simulator, found: Any, count: int, when: str) -> Array:
    """``count`` finite rewards inside the promised range."""
    name = f"simulator.sample: rewards{when}"
    rewards = np.asarray(found)
    if not np.issubdtype(rewards.dtype, np.number) or np.iscomplexobj(rewards):
        raise InputError(f"{name} must hold real numbers, found dtype {rewards.dtype}")
    check_shape(name, rewards, (count,), "(n,)")
    rewards = rewards.astype(np.float64)
    check_finite(name, rewards)
    low, high = padded(simulator.reward_range)
    bad = (rewards < low) | (rewards > high)
    if bad.any():
        where = first_bad(bad)
        raise InputError(
            f"simulator.sample: rewards{list(where)} is {rewards[where]}{when}; "
            f"reward_range promises {simulator.reward_range}"
        )
    return rewards


def checked_sample(simulator: Simulator, drawn: Any, count: int, when: str) -> tuple[Indices, Array]:
    """What ``sample`` returned: next states and rewards."""
    if not isinstance(drawn, tuple | list) or len(drawn) != 2:
        found = f"{len(drawn)} items" if isinstance(drawn, tuple | list) else type(drawn).__name__
        raise InputError(f"simulator.sample{when} must return (next_states, rewards), found {found}")
    return (
        checked_states(simulator, "sample: next_states", drawn[0], count, when),
        checked_rewards(simulator, drawn[1], count, when),
    )
