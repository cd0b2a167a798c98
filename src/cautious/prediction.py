"""``predict``: actions for what is observed, called like ``predict`` of Stable-Baselines3; memory is handed back.

What is handed back is a number (steps taken, and which states of ``ca.Reach`` have been entered), or with a risk of the
return an array (steps, node, state, action).
"""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_array, as_flag, first_bad
from cautious.errors import InputError, shown
from cautious.models.horizons import Horizon
from cautious.models.tabular import MDP
from cautious.returns.memory_policy import MemoryPolicy
from cautious.solution_agent import drawn, observed_states, with_entered


def predicted(
    mdp: MDP,
    policy: Array,
    memory_policy: MemoryPolicy | None,
    observation: Any,
    state: Any,
    episode_start: Any,
    deterministic: Any,
    rng: Any,
) -> tuple[Any, Any]:
    """The actions, a number or an array as the observation is one, and what to hand back; see ``Solution.predict``."""
    if rng is not None and not isinstance(rng, np.random.Generator):
        raise InputError(f"rng must be a numpy.random.Generator, found {shown(rng)}")
    likeliest, memory = as_flag("deterministic", deterministic), mdp.memory
    places = observed_states(mdp.without_memory, observation)
    if memory_policy is not None and memory is None:
        begins = _begins(episode_start, places.shape)
        actions, state = _with_memory(mdp, memory_policy, places, state, begins, rng)
        return (int(actions) if places.ndim == 0 else actions), state
    if memory is not None or isinstance(mdp.horizon, int):
        layers = 1 if memory is None else 2 ** len(memory.sets)
        code = _handed_back(state, _begins(episode_start, places.shape))
        taken, entered = _steps_taken(code // layers, mdp.horizon), code % layers
        if memory is not None:
            places, entered = with_entered(memory, places, entered)
        chances = policy[taken, places] if policy.ndim == 3 else policy[places]
        # without a horizon steps are not counted
        code = layers * (taken + (policy.ndim == 3)) + entered
        state = int(code) if places.ndim == 0 else code
    else:
        chances = policy[places]
    if likeliest:
        actions = np.argmax(chances, axis=-1)
    else:
        actions = drawn(np.cumsum(chances, axis=-1), np.random.default_rng() if rng is None else rng)
    return (int(actions) if places.ndim == 0 else actions), state


def _begins(episode_start: Any, shape: tuple[int, ...]) -> Mask:
    """Where an episode begins."""
    begins = as_array("episode_start", False if episode_start is None else episode_start)
    try:
        return np.broadcast_to(begins, shape).astype(np.bool_)
    except ValueError:
        raise InputError(f"episode_start has shape {begins.shape}; expected {shape}, as observation") from None


def _handed_back(state: Any, begins: Mask) -> Indices:
    """The state that the last call returned for these observations; 0 where an episode begins."""
    code = as_array("state", 0 if state is None else state)
    if not np.issubdtype(code.dtype, np.integer):
        raise InputError(f"state must be the number that predict returned, or None, found {shown(state)}")
    try:
        code = np.where(begins, 0, np.broadcast_to(code, begins.shape)).astype(np.int64)
    except ValueError:
        raise InputError(f"state has shape {code.shape}; expected {begins.shape}, as observation") from None
    if np.any(code < 0):
        raise InputError(f"state holds {code.min()}; it must be the number that predict returned, or None")
    return code


def _steps_taken(taken: Indices, horizon: Horizon) -> Indices:
    """How many steps of their episodes were taken; fewer than the policy has."""
    if not isinstance(horizon, int):
        return np.zeros_like(taken)
    _check_steps(taken, horizon)
    return taken


def _check_steps(taken: Indices, horizon: int) -> None:
    """Refuse steps beyond the last one that the policy has."""
    bad = taken >= horizon
    if bad.any():
        found = int(taken[first_bad(bad)])
        raise InputError(
            f"state says that {found} steps were taken, and the policy has {horizon}; begin an episode with "
            "state=None, or with episode_start=True"
        )


def _with_memory(
    mdp: MDP, memory: MemoryPolicy, places: Indices, handed_back: Any, begins: Any, rng: np.random.Generator | None
) -> tuple[Indices, Indices]:
    """Actions in these states (...), and what to hand back next time (..., 4): steps, node, state and action.

    What the last action paid is what the model says it pays on the way to the state that is observed.
    """
    code = np.zeros((*places.shape, 4), np.int64)
    if handed_back is not None:
        given = as_array("state", handed_back)
        if given.shape != code.shape or not np.issubdtype(given.dtype, np.integer):
            raise InputError(
                f"state must be what predict returned for the last observation, of shape {code.shape}, or None; found "
                f"{shown(handed_back)}"
            )
        code = np.where(np.asarray(begins, np.bool_)[..., None], 0, given.astype(np.int64))
    taken, node, last, action = (code[..., k].copy() for k in range(4))
    node[taken == 0] = memory.first()
    for place in np.ndindex(places.shape):
        step = int(taken[place]) - 1
        if step < 0:
            continue
        paid = _paid(mdp, int(last[place]), int(action[place]), int(places[place]))
        if step < memory.n_steps:
            if not 0 <= node[place] < memory.grids[step].count:
                raise InputError("state holds a memory that the policy does not have; hand back what predict returned")
            node[place] = memory.moved(step, node[place], np.asarray(paid))
    if isinstance(mdp.horizon, int):
        _check_steps(taken, mdp.horizon)
    actions = np.zeros(places.shape, np.int64)
    for step in np.unique(taken):
        here = taken == step
        if step < memory.n_steps:
            actions[here] = memory.tables[step].at(places[here], node[here])
            continue
        assert memory.policy_after is not None
        rng = np.random.default_rng() if rng is None else rng
        actions[here] = drawn(np.cumsum(memory.policy_after[places[here]], axis=1), rng)
    return actions, np.stack([taken + 1, node, places, actions], axis=-1)


def _paid(mdp: MDP, state: int, action: int, next_state: int) -> float:
    """The reward of an outcome, as the model says."""
    if not (0 <= state < mdp.n_states and 0 <= action < mdp.n_actions):
        raise InputError("state names a pair that the model does not have; hand back what predict returned")
    row, rows = state * mdp.n_actions + action, mdp.transitions
    first, last = int(rows.indptr[row]), int(rows.indptr[row + 1])
    found = np.flatnonzero((rows.indices[first:last] == next_state) & (rows.data[first:last] > 0))
    if found.size == 0:
        raise InputError(
            f"the model has no way from state {state} with action {action} to state {next_state}, so that it does not "
            "say what was paid; tell it by solution.agent(): act(state), observe(reward, next_state)"
        )
    return float(mdp.rewards[state, action] if mdp.outcome_rewards is None else mdp.outcome_rewards[first + found[0]])
