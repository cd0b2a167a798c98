"""Names and maps of Gymnasium's own tables, for reports: FrozenLake, CliffWalking, Taxi."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from cautious.models.added_states import END, free_name
from cautious.models.gym_checks import AtEnd, title_of
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

LAKE_MOVES = ("left", "down", "right", "up")
CLIFF_MOVES = ("up", "right", "down", "left")
TAXI_MOVES = ("south", "north", "east", "west", "pick up", "drop off")
TAXI_PLACES = ("red", "green", "yellow", "blue", "taxi")


@runtime_checkable
class ShowsModel(Protocol):
    """An environment made of one of our models, by ``to_gym``."""

    mdp: MDP


@dataclass(frozen=True)
class Naming:
    """What to call states and actions, and how to draw them."""

    scene: Scene
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None


def naming_of(env: Any, at_end: AtEnd, is_transformed: bool) -> Naming:
    """The naming of an environment; ``is_transformed``: wrappers number its states or actions anew."""
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    bare, title = env.unwrapped, title_of(env)
    end = (END,) if at_end == "absorb" else ()
    if is_transformed:
        return _numbered(env, title, end)
    if isinstance(bare, FrozenLakeEnv):
        rows = ["".join(mark.decode() for mark in row).replace("F", ".") for row in bare.desc]
        return _on_map(title, rows, LAKE_MOVES, end)
    if isinstance(bare, CliffWalkingEnv):
        height, width = bare.shape
        rows = ["." * width] * (height - 1) + ["S" + "C" * (width - 2) + "G"]
        return _on_map(title, rows, CLIFF_MOVES, end)
    if isinstance(bare, TaxiEnv):
        names = []
        for state in range(int(bare.observation_space.n)):
            row, column, passenger, goal = bare.decode(state)
            names.append(f"r{row}c{column}, passenger {TAXI_PLACES[passenger]}, to {TAXI_PLACES[goal]}")
        return Naming(Scene(title), (*names, *end), TAXI_MOVES)
    if isinstance(bare, ShowsModel) and isinstance(bare.mdp, MDP) and (bare.mdp.state_names is not None or not end):
        return _of_model(bare.mdp, title, bool(end))
    return _numbered(env, title, end)


def _of_model(mdp: MDP, title: str, has_end: bool) -> Naming:
    names = mdp.state_names
    if names is not None and has_end:
        # the model may have come from an environment itself
        names = (*names, free_name(END, names))
    return Naming(mdp.scene or Scene(title), names, mdp.action_names)


def _numbered(env: Any, title: str, end: tuple[str, ...]) -> Naming:
    """States go by the number that is observed, where that is not their number in the model anyway."""
    first, count = int(env.observation_space.start), int(env.observation_space.n)
    if first == 0 and not end:
        return Naming(Scene(title))
    return Naming(Scene(title), (*(str(first + state) for state in range(count)), *end))


def _on_map(title: str, rows: list[str], moves: tuple[str, ...], end: tuple[str, ...]) -> Naming:
    names = [f"r{i}c{j}" for i, row in enumerate(rows) for j in range(len(row))]
    # the state after the end is a cell below the map, behind a wall
    below = ["#" * len(rows[0]), "E".ljust(len(rows[0]), "#")] if end else []
    scene = Scene(title, "", "move", "reward", tuple(rows + below), moves)
    return Naming(scene, (*names, *end), moves)
