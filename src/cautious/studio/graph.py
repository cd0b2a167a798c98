"""The picture of a model without a map: states in layers by distance from the start, and where the policy goes."""

from typing import Any

import numpy as np

from cautious.arrays import Array, Indices
from cautious.models.tabular import MDP
from cautious.report.words import state_name
from cautious.studio.scenario import Scenario

MAX_NODES = 40
# rarer transitions, and those from states that are hardly ever visited, are not drawn
LEAST_CHANCE = 0.01
LEAST_SHARE = 1e-9


def graph_of(policy: Array, d: Array, scenario: Scenario) -> dict[str, Any]:
    """Nodes and edges of the most visited states under a policy (S, A) with occupancy (S, A)."""
    mdp, share = scenario.mdp, d.sum(axis=1)
    shown = np.arange(mdp.n_states)
    if mdp.n_states > MAX_NODES:
        shown = np.sort(np.argsort(-share, kind="stable")[:MAX_NODES])
    dangerous = set(scenario.danger.tolist())
    layer = scenario.distances[shown]
    nodes = [
        {
            "state": state,
            "name": state_name(mdp, state),
            "share": float(share[state]),
            "danger": state in dangerous,
            "layer": int(far),
            "start": float(mdp.start[state]),
        }
        for state, far in zip(shown.tolist(), layer.tolist(), strict=True)
    ]
    return {"nodes": nodes, "edges": _edges(policy, share, mdp, shown), "hidden": mdp.n_states - len(nodes)}


def _edges(policy: Array, share: Array, mdp: MDP, shown: Indices) -> list[list[float]]:
    place = np.full(mdp.n_states, -1)
    place[shown] = np.arange(shown.size)
    edges = []
    pointer, following, chance = mdp.csr
    for k, state in enumerate(shown.tolist()):
        if share[state] < LEAST_SHARE:
            continue
        onward = np.zeros(shown.size)
        for action in np.flatnonzero(policy[state] > 0).tolist():
            row = slice(pointer[state * mdp.n_actions + action], pointer[state * mdp.n_actions + action + 1])
            to = place[following[row]]
            np.add.at(onward, to[to >= 0], policy[state, action] * chance[row][to >= 0])
        edges += [[k, int(to), float(onward[to])] for to in np.flatnonzero(onward >= LEAST_CHANCE) if to != k]
    return edges
