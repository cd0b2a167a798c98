"""The companion of a file: ``model.tra.json`` beside ``model.tra`` holds what the format has no place for.

Discount, start, names, the order of the actions, the scene, and whether rewards belong to outcomes. A file of another
tool has none, and needs none: ``ca.read_model`` then asks for what is missing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from cautious import regular_files
from cautious import storage as _storage
from cautious.arrays import Array
from cautious.checks import as_count, as_distribution
from cautious.errors import FileError, IncompatibleError, InputError
from cautious.models.encodings import row_of_entries
from cautious.models.scene import Scene, model_names
from cautious.models.tabular import MDP

FORMAT = "cautious companion"
VERSION = 1
LARGEST = 256 * 2**20
DAMAGE = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


@dataclass(frozen=True)
class Companion:
    """What stands in a companion; everything is None for a file that has none.

    ``labels`` are the words for the actions in the file itself.
    """

    n_states: int | None = None
    n_actions: int | None = None
    discount: float | None = None
    stored_start: Any = None
    state_names: tuple[str, ...] | None = None
    action_names: tuple[str, ...] | None = None
    labels: tuple[str, ...] | None = None
    scene: Scene | None = None
    per_outcome: bool = False

    def sizes(self, path: Path, n_states: int, n_actions: int) -> tuple[int, int]:
        """The sizes of the model; a companion of another model is refused. Only it knows actions that no state has."""
        if self.n_states is None or self.n_actions is None:
            return n_states, n_actions
        if n_states != self.n_states or n_actions > self.n_actions:
            raise FileError(
                f"{path}: has {n_states} states and {n_actions} actions, but {place(path).name} beside it is about "
                f"{self.n_states} and {self.n_actions}; delete the one that is out of date"
            )
        return n_states, self.n_actions

    def start(self, path: Path) -> Array | None:
        """The distribution (S,) of the first state; the sizes must have been compared before."""
        if self.n_states is None:
            return None
        with _storage.errors_of_file(place(path), *DAMAGE):
            if self.stored_start == "uniform":
                return np.full(self.n_states, 1 / self.n_states)
            states = np.array([as_count("start", state, 0) for state in self.stored_start["states"]], dtype=np.int64)
            if states.size and states.max() >= self.n_states:
                raise InputError(f"start names the state {states.max()}; states are numbered 0 to {self.n_states - 1}")
            start = np.zeros(self.n_states)
            start[states] = self.stored_start["weights"]
            return as_distribution("start", start, (self.n_states,), "(S,)")


def place(path: Path) -> Path:
    """Where the companion of a file is."""
    return path.with_name(path.name + ".json")


def facts_of(mdp: MDP) -> dict[str, Any]:
    """The small facts about a model."""
    return {
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "discount": mdp.discount,
        "action_names": mdp.action_names,
        "rewards": "pairs" if mdp.outcome_rewards is None else "outcomes",
        "scene": None if mdp.scene is None else asdict(mdp.scene),
    }


@contextmanager
def replacing(path: Path, mdp: MDP, labels: Sequence[str] | None = None) -> Iterator[BinaryIO]:
    """A stream for a file, whose companion is written with it: neither takes its place before both are complete."""
    support = np.flatnonzero(mdp.start)
    is_uniform = np.all(mdp.start == 1 / mdp.n_states)
    header = {"format": FORMAT, "version": VERSION, **facts_of(mdp)}
    header["start"] = "uniform" if is_uniform else {"states": support.tolist(), "weights": mdp.start[support].tolist()}
    header["state_names"], header["labels"] = mdp.state_names, labels
    with regular_files.replacing(place(path)) as beside, regular_files.replacing(path) as stream:
        beside.write((json.dumps(header, indent=1) + "\n").encode())
        yield stream


def read(path: Path) -> Companion:
    """The companion of a file, an empty one if there is none."""
    source = place(path)
    if not regular_files.exists(source):
        return Companion()
    raw = regular_files.content(source, LARGEST)
    try:
        stored = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{source}: not a readable companion of {path.name} ({error})") from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise FileError(f"{source}: expected a {FORMAT!r}; move the file away if it is about something else")
    if stored.get("version") != VERSION:
        raise FileError(f"{source}: version {stored.get('version')!r}; this one reads {VERSION}")

    def names(key: str, count: int) -> tuple[str, ...] | None:
        return None if stored[key] is None else model_names(key, stored[key], count)

    with _storage.errors_of_file(source, *DAMAGE):
        n_states, n_actions = as_count("n_states", stored["n_states"]), as_count("n_actions", stored["n_actions"])
        if stored["rewards"] not in ("pairs", "outcomes"):
            raise InputError(f"rewards is {stored['rewards']!r}, expected 'pairs' or 'outcomes'")
        return Companion(
            n_states,
            n_actions,
            stored["discount"],
            stored["start"],
            names("state_names", n_states),
            names("action_names", n_actions),
            names("labels", n_actions),
            None if stored["scene"] is None else scene_from(stored["scene"]),
            stored["rewards"] == "outcomes",
        )


def scene_from(stored: Mapping[str, Any]) -> Scene:
    """A scene from its stored parts."""
    lists: dict[str, Any] = {key: tuple(str(item) for item in stored[key]) for key in ("grid", "action_arrows")}
    words: dict[str, Any] = {key: str(stored[key]) for key in ("title", "story", "step", "reward_unit")}
    return Scene(**words, **lists)


def refuse_reward_square(mdp: MDP, what: str) -> None:
    """Refuse rewards (S, A) with a spread that only ``reward_square`` tells, and models without transitions."""
    mdp.require_transitions(f"writing {what}")
    if holds_reward_square(mdp):
        excess = mdp.reward_square - mdp.rewards**2
        state, action = divmod(int(np.argmax(excess)), mdp.n_actions)
        raise IncompatibleError(
            f"{what} cannot hold reward_square, which at ({state}, {action}) is {excess[state, action]:g} above the "
            "squared mean; save as .umb or .npz"
        )


def holds_reward_square(mdp: MDP) -> bool:
    """Whether ``reward_square`` says more than the rewards, be it by one digit: what is read back must be the same."""
    if mdp.outcome_rewards is not None:
        return False
    with np.errstate(over="ignore"):
        return not np.array_equal(mdp.reward_square, mdp.rewards**2)


def outcome_rewards(mdp: MDP) -> Array:
    """What each stored transition pays."""
    if mdp.outcome_rewards is not None:
        return mdp.outcome_rewards
    return np.asarray(mdp.rewards.ravel()[row_of_entries(mdp.transitions)])
