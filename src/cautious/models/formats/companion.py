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

from cautious import storage as _storage
from cautious.arrays import Array
from cautious.checks import as_count, as_distribution
from cautious.errors import FileError, IncompatibleError, InputError
from cautious.models.encodings import row_of_entries
from cautious.models.names import model_names
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

FORMAT = "cautious companion"
VERSION = 1
LARGEST = 256 * 2**20


@dataclass(frozen=True)
class Companion:
    """What stands in a companion; ``labels`` are the words for the actions in the file itself."""

    n_states: int
    n_actions: int
    discount: float
    stored_start: Any
    state_names: tuple[str, ...] | None
    action_names: tuple[str, ...] | None
    labels: tuple[str, ...] | None
    scene: Scene | None
    per_outcome: bool

    def require_size(self, path: Path, n_states: int, n_actions: int) -> None:
        """Refuse a companion of another model; an action that no state has is only known here."""
        if n_states != self.n_states or n_actions > self.n_actions:
            raise FileError(
                f"{path}: has {n_states} states and {n_actions} actions, but {place(path).name} beside it is about "
                f"{self.n_states} and {self.n_actions}; delete the one that is out of date"
            )

    def start(self, path: Path) -> Array:
        """The distribution (S,) of the first state; the sizes must have been compared before."""
        try:
            return _start(self.stored_start, self.n_states)
        except InputError as error:
            raise FileError(f"{place(path)}: {error}") from None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise FileError(f"{place(path)}: start is damaged ({error!r})") from None


def place(path: Path) -> Path:
    """Where the companion of a file is."""
    return path.with_name(path.name + ".json")


def text_of(mdp: MDP, labels: Sequence[str] | None = None) -> bytes:
    """The companion of a model as JSON."""
    header = {"format": FORMAT, "version": VERSION, **facts_of(mdp)}
    header["start"] = _start_of(mdp)
    header["state_names"], header["labels"] = mdp.state_names, labels
    return (json.dumps(header, indent=1) + "\n").encode()


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


def _start_of(mdp: MDP) -> Any:
    if np.all(mdp.start == 1 / mdp.n_states):
        return "uniform"
    support = np.flatnonzero(mdp.start)
    return {"states": support.tolist(), "weights": mdp.start[support].tolist()}


@contextmanager
def replacing(path: Path, mdp: MDP, labels: Sequence[str] | None = None) -> Iterator[BinaryIO]:
    """A stream for a file, whose companion is written with it: neither takes its place before both are complete."""
    with _storage.replacing(place(path)) as beside, _storage.replacing(path) as stream:
        beside.write(text_of(mdp, labels))
        yield stream


def read(path: Path) -> Companion | None:
    """The companion of a file, if there is one."""
    source = place(path)
    try:
        if not source.exists():
            return None
        if source.stat().st_size > LARGEST:
            raise FileError(f"{source}: larger than {LARGEST} bytes")
        stored = json.loads(source.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{source}: not a readable companion of {path.name} ({error})") from None
    if not isinstance(stored, dict) or stored.get("format") != FORMAT:
        raise FileError(f"{source}: expected a {FORMAT!r}; move the file away if it is about something else")
    if stored.get("version") != VERSION:
        raise FileError(f"{source}: version {stored.get('version')!r}; this one reads {VERSION}")
    return parsed(source, stored)


def parsed(source: Path, stored: Mapping[str, Any]) -> Companion:
    """The content, checked."""
    try:
        n_states, n_actions = as_count("n_states", stored["n_states"]), as_count("n_actions", stored["n_actions"])
        if stored["rewards"] not in ("pairs", "outcomes"):
            raise InputError(f"rewards is {stored['rewards']!r}, expected 'pairs' or 'outcomes'")
        return Companion(
            n_states,
            n_actions,
            stored["discount"],
            stored["start"],
            _names("state_names", stored["state_names"], n_states),
            _names("action_names", stored["action_names"], n_actions),
            _names("labels", stored["labels"], n_actions),
            None if stored["scene"] is None else scene_from(stored["scene"]),
            stored["rewards"] == "outcomes",
        )
    except InputError as error:
        raise FileError(f"{source}: {error}") from None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise FileError(f"{source}: incomplete or damaged ({error!r})") from None


def _names(name: str, value: Any, count: int) -> tuple[str, ...] | None:
    return None if value is None else model_names(name, value, count)


def _start(stored: Any, n_states: int) -> Array:
    if stored == "uniform":
        return np.full(n_states, 1 / n_states)
    states = np.array([as_count("start", state, 0) for state in stored["states"]], dtype=np.int64)
    if states.size and states.max() >= n_states:
        raise InputError(f"start names the state {states.max()}; states are numbered 0 to {n_states - 1}")
    start = np.zeros(n_states)
    start[states] = stored["weights"]
    return as_distribution("start", start, (n_states,), "(S,)")


def scene_from(stored: Mapping[str, Any]) -> Scene:
    """A scene from its stored parts."""
    lists: dict[str, Any] = {key: tuple(str(item) for item in stored[key]) for key in ("grid", "action_arrows")}
    words: dict[str, Any] = {key: str(stored[key]) for key in ("title", "story", "step", "reward_unit")}
    return Scene(**words, **lists)


def refuse_spread(mdp: MDP, what: str) -> None:
    """Refuse rewards (S, A) with a spread that only ``reward_square`` tells, and models without transitions."""
    mdp.require_transitions(f"writing {what}")
    if tells_spread(mdp):
        excess = mdp.reward_square - mdp.rewards**2
        state, action = divmod(int(np.argmax(excess)), mdp.n_actions)
        raise IncompatibleError(
            f"{what} cannot hold reward_square, which at ({state}, {action}) is {excess[state, action]:g} above the "
            "squared mean; save as .umb or .npz"
        )


def tells_spread(mdp: MDP) -> bool:
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
