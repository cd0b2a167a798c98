"""The worlds on which ``benchmarks/statements.py`` judges statements.

All of it was written before the bounds that it judges. Constants were tuned on other worlds, not on the five here. The
random logs are a weaker test: bounds for logs were developed on models of the same kind with other seeds, and that
``robust=True`` is the default was decided there. Simulators promise a range of rewards that is mostly wider than what
the worlds pay, as it is in practice.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

import cautious as ca


@dataclass(frozen=True)
class EvaluationWorld:
    """A model, the range that its simulator promises, and the risk that fits it."""

    name: str
    mdp: ca.MDP
    reward_range: tuple[float, float]
    risk: ca.Risk
    caution: float


def evaluation_worlds() -> list[EvaluationWorld]:
    """The five worlds."""
    return [_wards(), _battery(), _ring(), _server(), _dense()]


def _wards() -> EvaluationWorld:
    """Seven degrees of illness; waiting is free, a treatment helps a little, an operation much, at a price."""
    n, helps, price = 7, (0.1, 0.35, 0.7), (0.0, 0.1, 0.35)
    transitions, rewards = np.zeros((n, 3, n)), np.zeros((n, 3))
    for s in range(n):
        for a in range(3):
            worse = 0.3 * (1 - helps[a])
            transitions[s, a, max(s - 1, 0)] += helps[a]
            transitions[s, a, min(s + 2, n - 1)] += worse
            transitions[s, a, s] += 1 - helps[a] - worse
            rewards[s, a] = 1 - s / (n - 1) - price[a]
    start = np.array([0, 0, 1, 1, 0, 0, 0]) / 2
    return EvaluationWorld(
        "wards", ca.MDP(transitions, rewards, 0.9, start), (-0.5, 1.0), ca.PeakExposure([[n - 2], [n - 1]]), 4.0
    )


def _battery() -> EvaluationWorld:
    """Six levels of charge in two kinds of weather; store, use, or sell at a price that varies."""
    levels, transitions, rewards = 6, np.zeros((12, 3, 12)), np.zeros((12, 3, 12))
    for level in range(levels):
        for sun in range(2):
            for a, (change, worth) in enumerate(((1 + sun, 0.0), (-1, 0.6), (-3, 0.9))):
                after = int(np.clip(level + change, 0, levels - 1))
                paid = worth if level + change >= 0 else 0.1
                for later in range(2):
                    chance = 0.75 if later == sun else 0.25
                    transitions[2 * level + sun, a, 2 * after + later] += chance
                    rewards[2 * level + sun, a, 2 * after + later] = paid * (1.0 if later else 0.7)
    return EvaluationWorld("battery", ca.MDP(transitions, rewards, 0.95), (0.0, 1.0), ca.Variance(), 2.0)


def _ring() -> EvaluationWorld:
    """A ring road of fifteen places: two ways round, or stay; one bridge slips, two places pay."""
    n, transitions, rewards = 15, np.zeros((15, 3, 15)), np.zeros((15, 3))
    for s in range(n):
        slip = 0.4 if s in (4, 5) else 0.1
        for a, move in enumerate((-1, 0, 1)):
            transitions[s, a, (s + move) % n] += 1 - slip
            transitions[s, a, (s + 5) % n] += slip
            rewards[s, a] = {0: 1.0, 7: 0.7}.get(s, 0.2) - 0.1 * abs(move)
    safe = ca.SafeSet([s for s in range(n) if s not in (4, 5)], slack=0.5)
    return EvaluationWorld("ring", ca.MDP(transitions, rewards, 0.9), (0.0, 1.0), safe, 0.5)


def _server() -> EvaluationWorld:
    """A line of at most nine requests, a machine that is cool or hot; off, slow, or fast."""
    n, transitions, rewards = 20, np.zeros((20, 3, 20)), np.zeros((20, 3))
    for length in range(10):
        for hot in range(2):
            for a, (served, heat) in enumerate(((0.0, 0.05), (0.5, 0.2), (0.9, 0.8))):
                done = served * (0.6 if hot else 1.0)
                for arrives, chance in ((0, 0.6), (1, 0.3), (2, 0.1)):
                    for leaves, share in ((1, done), (0, 1 - done)):
                        after = int(np.clip(length + arrives - leaves, 0, 9))
                        for later in range(2):
                            transitions[2 * length + hot, a, 2 * after + later] += (
                                chance * share * (heat if later else 1 - heat)
                            )
                rewards[2 * length + hot, a] = 1 - length / 9 - 0.15 * a
    start = np.eye(n)[0]
    return EvaluationWorld("server", ca.MDP(transitions, rewards, 0.95, start), (-0.5, 1.0), ca.CVaR(0.8), 1.0)


def _dense() -> EvaluationWorld:
    """Nine states that all lead everywhere, four actions, rewards that depend on the outcome."""
    rng = np.random.default_rng(1977)
    mdp = ca.MDP(rng.dirichlet(np.ones(9), size=(9, 4)), rng.random((9, 4, 9)), 0.8)
    return EvaluationWorld("dense", mdp, (0.0, 1.0), ca.KL(np.full((9, 4), 1 / 36)), 1.0)


class Promised(ca.Simulator):
    """The simulator of a model, with the range of rewards that it promises."""

    def __init__(self, mdp: ca.MDP, reward_range: tuple[float, float]) -> None:
        self._simulator = mdp.simulator()
        self.n_states, self.n_actions, self.discount = mdp.n_states, mdp.n_actions, mdp.discount
        self.reward_range = reward_range

    def start_states(self, n: int, rng: np.random.Generator) -> Any:
        """First states."""
        return self._simulator.start_states(n, rng)

    def sample(self, states: Any, actions: Any, rng: np.random.Generator) -> Any:
        """Next states and rewards."""
        return self._simulator.sample(states, actions, rng)


def log_model(shape: tuple[int, int], branching: int | None, rng: np.random.Generator) -> ca.MDP:
    """A random model, rewards in [0, 1], discount .9; ``branching`` successors of a pair, all states where None."""
    n_states, n_actions = shape
    transitions = np.zeros((*shape, n_states))
    for s in range(n_states):
        for a in range(n_actions):
            targets = rng.choice(n_states, n_states if branching is None else branching, replace=False)
            transitions[s, a, targets] = rng.dirichlet(np.ones(targets.size))
    return ca.MDP(transitions, rng.random(shape), 0.9)


def logger(shape: tuple[int, int], skewed: bool, rng: np.random.Generator) -> Any:
    """What made the log: all actions alike, or in every state one of them in three of four cases."""
    n_states, n_actions = shape
    policy = np.full(shape, 1 / n_actions)
    if skewed:
        policy = np.full(shape, 0.25 / (n_actions - 1))
        policy[np.arange(n_states), rng.integers(n_actions, size=n_states)] = 0.75
    return policy


def drawn_log(mdp: ca.MDP, policy: Any, rows: int, rng: np.random.Generator) -> dict[str, Any]:
    """One path of the behaviour ``policy`` (S, A), as a table."""
    simulator, running = mdp.simulator(), np.cumsum(policy, axis=1)
    table: dict[str, list[float]] = {name: [] for name in ("state", "action", "reward", "next_state")}
    state = int(rng.choice(mdp.n_states, p=mdp.start))
    for chance in rng.random(rows):
        action = min(int(np.searchsorted(running[state], chance)), mdp.n_actions - 1)
        next_states, rewards = simulator.sample(np.array([state]), np.array([action]), rng)
        for name, value in zip(table, (state, action, float(rewards[0]), int(next_states[0])), strict=True):
            table[name].append(value)
        state = int(next_states[0])
    return {name: np.array(column) for name, column in table.items()}
