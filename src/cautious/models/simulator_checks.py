"""What a simulator is given, says and returns is checked before it is used; messages name the call."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import (
    as_array,
    as_count,
    as_floats,
    as_number,
    check_finite,
    check_shape,
    first_bad,
)
from cautious.errors import InputError, shown

if TYPE_CHECKING:
    from cautious.models.simulators import Simulator


def checked_pairs(allowed: Mask, states: Any, actions: Any) -> tuple[Indices, Indices]:
    """States and actions of the same length, every pair one that exists; ``allowed`` (S, A)."""
    found = {"states": as_array("states", states), "actions": as_array("actions", actions)}
    if found["states"].shape != found["actions"].shape or found["states"].ndim != 1:
        shapes = " and ".join(f"{name} {values.shape}" for name, values in found.items())
        raise InputError(f"{shapes} must be one-dimensional, same length")
    for (name, values), count in zip(found.items(), allowed.shape, strict=True):
        if not np.issubdtype(values.dtype, np.integer):
            raise InputError(f"{name} must hold whole numbers, found dtype {values.dtype}")
        bad = (values < 0) | (values >= count)
        if bad.any():
            where = first_bad(bad)
            raise InputError(f"{name}[{where[0]}] is {values[where]}; expected 0 to {count - 1}")
    whole = found["states"].astype(np.int64), found["actions"].astype(np.int64)
    forbidden = ~allowed[whole]
    if forbidden.any():
        where = first_bad(forbidden)
        raise InputError(f"action {whole[1][where]} is not allowed in state {whole[0][where]}")
    return whole


def as_reward_range(value: Any, name: str = "reward_range") -> tuple[float, float]:
    """(low, high)."""
    bounds = as_floats(name, value)
    check_shape(name, bounds, (2,), "(low, high)")
    if bounds[0] > bounds[1]:
        raise InputError(f"{name} is {tuple(bounds.tolist())}; low must not exceed high")
    return float(bounds[0]), float(bounds[1])


def as_outcome(what: str, outcome: Any, n_states: int) -> tuple[int, float]:
    """One next state and its reward; ``what`` says which call returned them."""
    if not isinstance(outcome, Sequence) or len(outcome) != 2:
        raise InputError(f"{what} must return (next_state, reward), found {shown(outcome)}")
    state, reward = as_state(f"the next state of {what}", outcome[0], n_states), outcome[1]
    if isinstance(reward, bool) or not isinstance(reward, int | float | np.integer | np.floating):
        raise InputError(f"the reward of {what} must be a number, found {shown(reward)}")
    return state, float(reward)


def as_state(what: str, state: Any, n_states: int) -> int:
    """One state that exists."""
    if isinstance(state, bool) or not isinstance(state, int | np.integer):
        raise InputError(f"{what} must be a whole number, found {shown(state)}")
    if not 0 <= state < n_states:
        raise InputError(f"{what} is {shown(state)}; states are numbered 0 to {n_states - 1}")
    return int(state)


def check_members(simulator: "Simulator") -> None:
    """Refuse a simulator with impossible sizes, discount or reward range."""
    as_count("simulator.n_states", simulator.n_states)
    as_count("simulator.n_actions", simulator.n_actions)
    as_number("simulator.discount", simulator.discount, 0, 1)
    as_reward_range(simulator.reward_range, "simulator.reward_range")


def checked_states(simulator: "Simulator", member: str, found: Any, count: int, when: str) -> Indices:
    """``count`` states that exist; ``member`` and ``when`` say which call returned them."""
    states = np.asarray(found)
    check_shape(f"simulator.{member}{when}", states, (count,), "(n,)")
    if states.dtype.kind not in "iu":
        raise InputError(f"simulator.{member}{when} must hold whole numbers, found dtype {states.dtype}")
    # two extremes: a run makes thousands of such calls
    if count > 0 and not 0 <= states.min() <= states.max() < simulator.n_states:
        where = first_bad((states < 0) | (states >= simulator.n_states))
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


def checked_rewards(simulator: "Simulator", found: Any, count: int, when: str) -> Array:
    """``count`` finite rewards inside the promised range."""
    name = f"simulator.sample: rewards{when}"
    rewards = np.asarray(found)
    if rewards.dtype.kind not in "iuf":
        raise InputError(f"{name} must hold real numbers, found dtype {rewards.dtype}")
    check_shape(name, rewards, (count,), "(n,)")
    rewards = rewards.astype(np.float64)
    low, high = padded(simulator.reward_range)
    # not so where one of them is nan either
    if count > 0 and not low <= rewards.min() <= rewards.max() <= high:
        check_finite(name, rewards)
        where = first_bad((rewards < low) | (rewards > high))
        raise InputError(
            f"simulator.sample: rewards{list(where)} is {rewards[where]}{when}; "
            f"reward_range promises {simulator.reward_range}"
        )
    return rewards


def checked_sample(simulator: "Simulator", drawn: Any, count: int, when: str) -> tuple[Indices, Array]:
    """What ``sample`` returned: next states and rewards."""
    if not isinstance(drawn, tuple | list) or len(drawn) != 2:
        found = f"{len(drawn)} items" if isinstance(drawn, tuple | list) else type(drawn).__name__
        raise InputError(f"simulator.sample{when} must return (next_states, rewards), found {found}")
    return (
        checked_states(simulator, "sample: next_states", drawn[0], count, when),
        checked_rewards(simulator, drawn[1], count, when),
    )
