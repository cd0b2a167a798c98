"""Agents of others: anything with ``predict(observation)``, and plain functions of the observation.

``predict`` is called as Stable-Baselines3 does, and returns the action, or the action and a memory, which it is given
back at the next step of the same episode. Where it takes ``deterministic``, that is True: the same question then has
the same answer. A function must not remember, because episodes are simulated beside each other.
"""

import inspect
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.errors import InputError, shown
from cautious.models.interface import Interface, Numbered
from cautious.models.simulators import Simulator, known_of
from cautious.models.tabular import MDP

# an agent that may answer at random is asked at least so often before it counts as a table
LEAST_ASKED = 1000


@runtime_checkable
class Predicts(Protocol):
    """An agent with the call of Stable-Baselines3."""

    predict: Callable[..., Any]


class Agent:
    """An agent in the states of a model; every answer is checked, and errors name the observation."""

    def __init__(self, agent: Any, model: MDP | Simulator) -> None:
        memory = model.memory if isinstance(model, MDP) else None
        # with memory a state is observed as the one it was without
        self.origin = None if memory is None else memory.origin
        base = model if memory is None else memory.base
        interface = base.interface if isinstance(base, MDP) else known_of(base).interface
        self.interface: Interface = Numbered(model.n_actions) if interface is None else interface
        self.allowed: Mask | None = model.allowed if isinstance(model, MDP) else known_of(model).allowed
        self.ask, self.name, takes = agent, "policy", set[str]()
        if isinstance(agent, Predicts):
            self.ask, self.name, takes = agent.predict, "policy.predict", _parameters(agent.predict)
        self.remembers, self.is_sure = "state" in takes, "deterministic" in takes

    def act(self, state: int, memory: Any = None) -> tuple[int, Any]:
        """The number of the action in a state, and the memory for the next step."""
        observation = self.interface.observation(state if self.origin is None else int(self.origin[state]))
        if observation is None:
            # after an end the agent is not asked, and every action stays
            return (0 if self.allowed is None else int(np.argmax(self.allowed[state]))), memory
        call = f"{self.name}({shown(observation)})"
        try:
            known: dict[str, Any] = {"state": memory} if self.remembers else {}
            answer = self.ask(observation, **known, **({"deterministic": True} if self.is_sure else {}))
        except Exception as error:
            raise InputError(f"{call} raised {type(error).__name__}: {error}") from error
        action, memory = self.interface.action_number(answer), None
        if action is None and self.name != "policy" and isinstance(answer, tuple) and len(answer) == 2:
            action, memory = self.interface.action_number(answer[0]), answer[1]
        if action is None:
            raise InputError(f"{call} returned {shown(answer)}; expected {self.interface.actions_in_words}")
        if self.allowed is not None and not self.allowed[state, action]:
            can = np.flatnonzero(self.allowed[state]).tolist()
            raise InputError(
                f"{call} returned {shown(answer)}, action {action}, which is not allowed there; allowed: {can}"
            )
        return action, memory


def _parameters(function: Callable[..., Any]) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        # functions of compiled code need not say
        return set()


def is_agent(policy: Any) -> bool:
    """Whether a policy is something to ask."""
    return isinstance(policy, Predicts) or callable(policy)


def agent_table(agent: Agent, mdp: MDP) -> Array | None:
    """The policy (S, A) of an agent in a known model; None if it remembers, or answers differently when asked again.

    Only states that it can reach are asked about; elsewhere it takes the first action that is allowed.
    """
    actions = np.argmax(mdp.allowed, axis=1)
    waiting = np.flatnonzero(mdp.start).tolist()
    reached = dict.fromkeys(waiting)
    indptr, indices, _ = mdp.csr
    while waiting:
        state = waiting.pop()
        actions[state], memory = agent.act(state)
        if memory is not None:
            return None
        row = state * mdp.n_actions + int(actions[state])
        news = [after for after in indices[indptr[row] : indptr[row + 1]].tolist() if after not in reached]
        reached.update(dict.fromkeys(news))
        waiting += news
    again = 0 if agent.is_sure else max(1, -(-LEAST_ASKED // len(reached)))
    for _ in range(again):
        for state in reversed(reached):
            if agent.act(state)[0] != actions[state]:
                return None
    return np.asarray(np.eye(mdp.n_actions)[actions])


class Play:
    """One agent in many episodes at once, each with a memory of its own."""

    def __init__(self, agent: Agent, episodes: int) -> None:
        self.agent = agent
        self.memories: list[Any] = [None] * episodes
        self.sure: dict[int, int] = {}

    def actions(self, states: Indices) -> Indices:
        """What it does in the state of each episode."""
        found = np.empty(states.size, dtype=np.int64)
        for episode, state in enumerate(states.tolist()):
            known = self.sure.get(state)
            if known is None:
                known, self.memories[episode] = self.agent.act(state, self.memories[episode])
                if self.agent.is_sure and self.memories[episode] is None:
                    self.sure[state] = known
            found[episode] = known
        return found
