"""Episodes of a policy, all at once; whatever a simulator returns is checked before it is used."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.evaluation.agents import Agent, Play
from cautious.models.simulator_checks import checked_sample, checked_states
from cautious.models.simulators import Simulator
from cautious.returns.memory_policy import MemoryPolicy


@dataclass(frozen=True)
class Played:
    """Simulated episodes: their returns (episodes,), and the time in each set, as ``roll_out`` says."""

    returns: Array
    exposure: dict[str, float]
    all_ended: bool


def roll_out(
    simulator: Simulator,
    policy: Array | Agent,
    masks: dict[str, Mask],
    seed: int,
    episodes: int,
    horizon: int,
    ended: Mask | None = None,
    block: int = 0,
    memory: MemoryPolicy | None = None,
) -> Played:
    """Episodes of ``horizon`` steps, with the share of discounted time in each set.

    With a mask ``ended`` (S,) of the states that end an episode, they take as long as that takes, at most ``horizon``
    steps, and visits are counted instead of shares. A policy with ``memory`` is played instead of ``policy``. Errors
    name the call, the step and the seed. Each ``block`` of episodes has draws of its own.
    """
    returns, time, weight, total, all_ended = np.zeros(episodes), dict.fromkeys(masks, 0.0), 1.0, 0.0, False
    for states, rewards in steps(simulator, policy, seed, episodes, horizon, block, memory):
        if ended is not None and ended[states].all():
            all_ended = True
            break
        for name, mask in masks.items():
            counted = mask[states] if ended is None else mask[states] & ~ended[states]
            time[name] += weight * float(np.count_nonzero(counted)) / episodes
        returns += weight * rewards
        total += weight
        weight *= float(simulator.discount)
        if weight == 0:
            # discounting has left nothing of later rewards
            break
    if ended is None:
        time = {name: value / total for name, value in time.items()}
    return Played(returns, time, all_ended)


def steps(
    simulator: Simulator,
    policy: Array | Agent,
    seed: int,
    episodes: int,
    horizon: int,
    block: int = 0,
    memory: MemoryPolicy | None = None,
) -> Iterator[tuple[Indices, Array]]:
    """For each step the states (episodes,) before it and the rewards (episodes,) that it pays.

    A policy (T, S, A) has a table for each step. A policy with ``memory`` is played instead of it.
    """
    rng, seeded = np.random.default_rng(seed), f"seed {seed}"
    if block > 0:
        rng, seeded = np.random.default_rng([seed, block]), f"seed {seed}, block {block}"
    when = f" ({seeded})"
    play = Play(policy, episodes) if isinstance(policy, Agent) else None
    tables = np.empty((0, 0)) if isinstance(policy, Agent) else policy
    if memory is not None and memory.policy_after is not None:
        tables = memory.policy_after
    cumulative = cumulative_rows(tables) if play is None and tables.ndim == 2 else np.empty(0)
    nodes = np.full(episodes, 0 if memory is None else memory.first())
    with _noted("start_states", when):
        found: Any = simulator.start_states(episodes, rng)
    states = checked_states(simulator, "start_states", found, episodes, when)
    for step in range(horizon):
        remembered = memory if memory is not None and step < memory.n_steps else None
        if remembered is not None:
            actions = remembered.tables[step].at(states, nodes)
        elif play is None:
            actions = drawn_actions(cumulative_rows(tables[step]) if tables.ndim == 3 else cumulative, states, rng)
        else:
            actions = play.actions(states)
        when = f" (step {step}, {seeded})"
        with _noted("sample", when):
            found = simulator.sample(states, actions, rng)
        next_states, rewards = checked_sample(simulator, found, episodes, when)
        if remembered is not None:
            nodes = remembered.moved(step, nodes, rewards)
        yield states, rewards
        states = next_states


@contextmanager
def _noted(call: str, when: str) -> Iterator[None]:
    """An exception of the simulator says which call raised it, and when."""
    try:
        yield
    except Exception as error:
        error.add_note(f"raised by simulator.{call}{when}")
        raise


def cumulative_rows(policy: Array) -> Array:
    """Running sums of a policy's rows; the last action with a chance takes what rounding leaves over."""
    cumulative: Array = np.cumsum(policy, axis=1)
    last = policy.shape[1] - 1 - np.argmax(policy[:, ::-1] > 0, axis=1)
    cumulative[np.arange(policy.shape[1]) >= last[:, None]] = np.inf
    return cumulative


def drawn_actions(cumulative: Array, states: Indices, rng: np.random.Generator) -> Indices:
    """One action for each state, by ``cumulative_rows`` of the policy."""
    draws = rng.random(states.size)
    return np.asarray(np.count_nonzero(draws[:, None] >= cumulative[states], axis=1), dtype=np.int64)
