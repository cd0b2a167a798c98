"""What to call the states and actions of an environment: FrozenLake, CliffWalking and Taxi have names and maps."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.models.gym_checks import title_of, wrappers_of
from cautious.models.gym_spaces import Spaces
from cautious.models.scene import END, Scene, free_name
from cautious.models.tabular import MDP

LAKE_MOVES = ("left", "down", "right", "up")
CLIFF_MOVES = ("up", "right", "down", "left")
TAXI_MOVES = ("south", "north", "east", "west", "pick up", "drop off")
TAXI_PLACES = ("red", "green", "yellow", "blue", "taxi")
# what to call states and actions, and how to draw them: arguments of ``MDP`` and of ``Known``
Naming = dict[str, Any]
ENDS = (END,)


@runtime_checkable
class ShowsModel(Protocol):
    """An environment made of one of our models, by ``to_gym``."""

    mdp: MDP


def naming_of(env: Any, spaces: Spaces, ends: tuple[str, ...]) -> Naming:
    """The naming of an environment; ``ends`` are the names of states that are not observed, after an end."""
    from gymnasium import ActionWrapper, ObservationWrapper
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    bare, title = env.unwrapped, title_of(env)
    if any(isinstance(wrapper, ObservationWrapper | ActionWrapper) for wrapper in wrappers_of(env)):
        # states or actions are numbered anew
        return _numbered(spaces, title, ends)
    if isinstance(bare, FrozenLakeEnv):
        rows = ["".join(mark.decode() for mark in row).replace("F", ".") for row in bare.desc]
        return _on_map(title, rows, LAKE_MOVES, ends)
    if isinstance(bare, CliffWalkingEnv):
        height, width = bare.shape
        rows = ["." * width] * (height - 1) + ["S" + "C" * (width - 2) + "G"]
        return _on_map(title, rows, CLIFF_MOVES, ends)
    if isinstance(bare, TaxiEnv):
        names = []
        for state in range(int(bare.observation_space.n)):
            row, column, passenger, goal = bare.decode(state)
            names.append(f"r{row}c{column}, passenger {TAXI_PLACES[passenger]}, to {TAXI_PLACES[goal]}")
        return {"scene": Scene(title), "state_names": (*names, *ends), "action_names": TAXI_MOVES}
    if isinstance(bare, ShowsModel) and isinstance(bare.mdp, MDP) and (bare.mdp.state_names is not None or not ends):
        return _of_model(bare.mdp, title, ends)
    return _numbered(spaces, title, ends)


def _of_model(mdp: MDP, title: str, ends: tuple[str, ...]) -> Naming:
    names = mdp.state_names
    if names is not None:
        # the model may have come from an environment itself
        names = (*names, *(free_name(end, names) for end in ends))
    return {"scene": mdp.scene or Scene(title), "state_names": names, "action_names": mdp.action_names}


def _numbered(spaces: Spaces, title: str, ends: tuple[str, ...]) -> Naming:
    """States go by what is observed, where that is not their number in the model anyway."""
    naming: Naming = {"scene": Scene(title)}
    if ends or _plain(spaces.element(0)) != 0:
        elements = (spaces.element(state) for state in range(spaces.n_states))
        naming["state_names"] = (*(str(_plain(element)) for element in elements), *ends)
    if _plain(spaces.action(0)) != 0:
        naming["action_names"] = tuple(str(_plain(spaces.action(action))) for action in range(spaces.n_actions))
    return naming


def _plain(element: Any) -> Any:
    """Without arrays, which are written as tuples."""
    if isinstance(element, np.ndarray):
        return tuple(element.tolist())
    return tuple(map(_plain, element)) if isinstance(element, tuple) else element


def _on_map(title: str, rows: list[str], moves: tuple[str, ...], ends: tuple[str, ...]) -> Naming:
    names = [f"r{i}c{j}" for i, row in enumerate(rows) for j in range(len(row))]
    # the states after an end are cells below the map, behind a wall
    width = len(rows[0])
    below = ["E" * min(width, len(ends) - done) for done in range(0, len(ends), width)]
    rows = rows + ["#" * width for _ in below[:1]] + [row.ljust(width, "#") for row in below]
    return {
        "scene": Scene(title, "", "move", "reward", tuple(rows), moves),
        "state_names": (*names, *ends),
        "action_names": moves,
    }
