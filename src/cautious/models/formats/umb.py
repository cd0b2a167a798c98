"""UMB, the unified Markov binary files of Storm, PRISM and Modest.

States lead to choices, choices to branches, branches to a target with a probability; rewards may sit on each of the
three. The names of members follow the published format, version 1. What UMB has no field for is in annotations of a
group of our own, which other tools pass over (start distribution, names of states, second moments), and in the
parameters (discount). ``mdp.save`` puts rewards of pairs on the choices and rewards of outcomes on the branches; equal
models give equal bytes.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious import storage as _storage
from cautious.arrays import Array, Mask
from cautious.errors import FileError
from cautious.models.formats import companion, umb_archive
from cautious.models.formats.building import ModelFacts, action_of_choices, build_model, initial_state, pair_rows
from cautious.models.formats.companion import holds_reward_square
from cautious.models.formats.reader_options import (
    ReaderOptions,
    settled_discount,
    settled_reward,
    settled_start,
)
from cautious.models.formats.umb_archive import Archive
from cautious.models.outcome_lists import OutcomeList, index_kind
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.regular_files import replacing

NAME = "UMB files"
OURS = "cautious"
SQUARE = f"annotations/{OURS}/reward-square/choices/values.bin"
# tables (S, A) are only made when the choices can justify their size
FREE_ACTIONS = 10**4
DOUBLE = {"type": "double", "size": 64}
LEVEL = 4


def read(path: Path, given: ReaderOptions) -> MDP:
    """The model of a UMB file."""
    given.refuse_others(path, NAME, "reward", "normalise")
    archive = umb_archive.read(path, lambda name: not name.startswith(("annotations/aps/", "valuations/")))
    system, ours = _system(archive), _ours(archive)
    counts = {key: _count(path, system, f"#{key}") for key in ("states", "choices", "branches", "choice-actions")}
    n_states = counts["states"]
    discount = settled_discount(path, given, ours.get("discount"))
    state_of, choice_of, target, probability = _graph(archive, system, counts)
    of_choices, reward = _rewards(archive, given, counts, state_of)
    word, words, named = _choice_actions(archive, counts)
    action, used = action_of_choices(path, state_of, _number_in_state(state_of), word, words, None)
    n_actions = int(action.max()) + 1 if used is None else len(words)
    shape = (n_states, n_actions)
    pairs = pair_rows(path, state_of, action, shape)
    names = archive.strings(f"{OURS}/state-names", n_states)
    stored, missing = _start(archive, n_states)
    about = ModelFacts(
        shape,
        discount,
        settled_start(path, given, stored, n_states, names, missing),
        names,
        words if used is not None and named else None,
        scene=_scene(archive, ours),
        per_outcome=ours.get("rewards") == "outcomes",
        normalise=given.normalise,
        reward_square=_table(archive.array(SQUARE, "<f8", counts["choices"]), state_of, action, n_states, n_actions),
    )
    pair_reward = _table(of_choices, state_of, action, n_states, n_actions)
    outcomes = OutcomeList(pairs[choice_of], target, probability, reward)
    del archive, state_of, choice_of, action, pairs, target, probability, reward, of_choices
    return build_model(path, outcomes, pair_reward, about)


def labels(path: Path) -> dict[str, Mask]:
    """The labels (atomic propositions) of a UMB file, and "init"."""
    archive = umb_archive.read(path, lambda name: name.startswith(("annotations/aps/", "state-")))
    n_states = _count(path, _system(archive), "#states")
    found: dict[str, Mask] = {}
    first = archive.bits("state-is-initial.bin", n_states)
    if first is not None:
        found["init"] = first
    for key, one in _annotations(archive, "aps").items():
        mask = archive.bits(f"annotations/aps/{key}/states/values.bin", n_states)
        if mask is not None:
            found[str(one.get("alias", key))] = mask
    return found


def _system(archive: Archive) -> Mapping[str, Any]:
    """The kind of the model, refused unless it is a Markov decision process or a chain."""
    path, system = archive.path, archive.index.get("transition-system")
    if not isinstance(system, dict):
        raise FileError(f"{path}: the index has no transition-system")
    for key, allowed in (("time", ("discrete",)), ("#players", (0, 1)), ("#observations", (0,))):
        if system.get(key) not in allowed:
            raise FileError(f"{path}: {key} is {system.get(key)!r}; a Markov decision process has {allowed[-1]!r}")
    kind = system.get("branch-probability-type", {"type": "double"})
    if not isinstance(kind, dict) or kind.get("type") != "double":
        raise FileError(f"{path}: the probabilities are of type {kind!r}; export the model with type double")
    return system


def _count(path: Path, system: Mapping[str, Any], key: str) -> int:
    value = system.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**40:
        raise FileError(f"{path}: {key} is {value!r}; expected a whole number")
    return value


def _graph(archive: Archive, system: Mapping[str, Any], counts: Mapping[str, int]) -> tuple[Any, ...]:
    """The state of each choice; the choice, target and probability of each branch."""
    path, n_states, n_choices, n_branches = archive.path, counts["states"], counts["choices"], counts["branches"]
    target = archive.array("branch-to-target.bin", "<u8", n_branches)
    if target is None or n_branches == 0 or n_states == 0 or n_choices == 0:
        raise FileError(f"{path}: has no branches")
    if int(target.max()) >= n_states:
        branch = int(np.argmax(target >= n_states))
        raise FileError(f"{path}: branch {branch} leads to state {target[branch]}; expected 0 to {n_states - 1}")
    probability = archive.array("branch-to-probability.bin", "<f8", n_branches)
    if probability is None:
        if "branch-probability-type" in system:
            raise FileError(f"{path}: branch-to-probability.bin is missing")
        probability = np.ones(n_branches)
    state_of = _owners(archive, "state-to-choices.bin", n_states, n_choices)
    choice_of = _owners(archive, "choice-to-branches.bin", n_choices, n_branches)
    return state_of, choice_of, target.astype(index_kind(n_states)), probability


def _owners(archive: Archive, name: str, count: int, total: int) -> NDArray[Any]:
    """The owner of each of ``total`` entries; without a member, entry i belongs to owner i."""
    pointer = archive.pointer(name, count, total)
    if pointer is None:
        if count != total:
            raise FileError(f"{archive.path}: {name} is missing")
        return np.arange(count, dtype=index_kind(count))
    return np.repeat(np.arange(count, dtype=index_kind(count)), np.diff(pointer))


def _number_in_state(state_of: NDArray[Any]) -> NDArray[np.int32]:
    """The number of each choice among those of its state."""
    new = np.ones(state_of.size, np.bool_)
    new[1:] = state_of[1:] != state_of[:-1]
    begins = np.flatnonzero(new)
    return np.asarray(np.arange(state_of.size) - begins[np.cumsum(new) - 1], dtype=np.int32)


def _annotations(archive: Archive, group: str) -> dict[str, dict[str, Any]]:
    groups = archive.index.get("annotations", {})
    found = groups.get(group, {}) if isinstance(groups, dict) else None
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise FileError(f"{archive.path}: the annotations {group!r} of the index are damaged")
    return found


def _rewards(
    archive: Archive, given: ReaderOptions, counts: Mapping[str, int], state_of: NDArray[Any]
) -> tuple[Array | None, Array | None]:
    """Rewards of choices, those of their states included, and of branches, of the structure that was asked for."""
    path, found = archive.path, _annotations(archive, "rewards")
    chosen = settled_reward(path, given, [str(one.get("alias", key)) for key, one in found.items()])
    if chosen is None:
        return None, None
    key = list(found)[chosen]
    kind = found[key].get("type")
    if not isinstance(kind, dict) or kind.get("type") != "double":
        raise FileError(f"{path}: the rewards {key!r} are of type {kind!r}; export them with type double")
    place = f"annotations/rewards/{key}"
    of_states = archive.array(f"{place}/states/values.bin", "<f8", counts["states"])
    of_choices = archive.array(f"{place}/choices/values.bin", "<f8", counts["choices"])
    of_branches = archive.array(f"{place}/branches/values.bin", "<f8", counts["branches"])
    if of_states is not None:
        of_choices = of_states[state_of] if of_choices is None else of_choices + of_states[state_of]
    return of_choices, of_branches


def _choice_actions(archive: Archive, counts: Mapping[str, int]) -> tuple[NDArray[Any], tuple[str, ...], bool]:
    """The action of each choice, the names of the actions (numbers if they have none), and whether they have."""
    count = counts["choice-actions"]
    if count == 0 or count > FREE_ACTIONS + counts["choices"]:
        return np.empty(0, np.int32), (), False
    raw = archive.array("actions/choices/values.bin", "<u4", counts["choices"])
    values = np.zeros(counts["choices"], np.int32) if raw is None else raw.astype(np.int64)
    if int(values.max()) >= count:
        raise FileError(f"{archive.path}: a choice has action {values.max()}; expected 0 to {count - 1}")
    strings = archive.strings("actions/choices", count)
    if strings is None or len(set(strings)) < count or "" in strings:
        return values, tuple(str(a) for a in range(count)), False
    return values, strings, True


def _start(archive: Archive, n_states: int) -> tuple[Array | None, str | None]:
    """The distribution of the first state; or None, and why there is none."""
    if "start" in _annotations(archive, OURS):
        weights = archive.array(f"annotations/{OURS}/start/states/values.bin", "<f8", n_states)
        if weights is not None:
            return np.array(weights), None
    return initial_state(archive.bits("state-is-initial.bin", n_states), "it")


def _table(
    values: Array | None, state_of: NDArray[Any], action: NDArray[Any], n_states: int, n_actions: int
) -> Array | None:
    """Values of choices as a table (S, A)."""
    if values is None:
        return None
    table = np.zeros((n_states, n_actions))
    table[state_of, action] = values
    return table


def _ours(archive: Archive) -> Mapping[str, Any]:
    """What ``mdp.save`` wrote into the parameters of the file."""
    data = archive.index.get("file-data")
    parameters = data.get("parameters") if isinstance(data, dict) else None
    found = parameters.get(OURS) if isinstance(parameters, dict) else None
    return found if isinstance(found, dict) else {}


def _scene(archive: Archive, ours: Mapping[str, Any]) -> Scene | None:
    with _storage.errors_of_file(archive.path, KeyError, TypeError):
        return None if ours.get("scene") is None else companion.scene_from(ours["scene"])


def write(path: Path, mdp: MDP) -> None:
    """Write a model as one UMB file."""
    mdp.require_transitions("writing a UMB file")
    index, members = _index(mdp), _members(mdp)
    if holds_reward_square(mdp):
        _annotate(index, members, "reward-square", "choices", mdp.reward_square[mdp.allowed])
    if np.count_nonzero(mdp.start) != 1:
        _annotate(index, members, "start", "states", mdp.start)
    if mdp.state_names is not None:
        # not an annotation: Storm 2 refuses files with annotations that are strings
        members |= _strings("cautious/state-names", mdp.state_names)
    text = json.dumps(index, indent=1).encode()
    with (
        replacing(path) as stream,
        gzip.GzipFile("", "wb", LEVEL, stream, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        _add(archive, "index.json", text)
        for name, array in members.items():
            _add(archive, name, np.ascontiguousarray(array).data)


def _add(archive: tarfile.TarFile, name: str, content: Any) -> None:
    member = tarfile.TarInfo(name)
    view = memoryview(content).cast("B")
    member.size = view.nbytes
    archive.addfile(member, io.BytesIO(view))


def _index(mdp: MDP) -> dict[str, Any]:
    facts = companion.facts_of(mdp)
    named = mdp.scene is not None
    on = "choices" if mdp.outcome_rewards is None else "branches"
    return {
        "format-version": 1,
        "format-revision": 0,
        "model-data": {"name": mdp.scene.title, "description": mdp.scene.story} if named and mdp.scene else {},
        "file-data": {"tool": "cautious", "parameters": {"cautious": facts}},
        "transition-system": {
            "time": "discrete",
            "#players": 1,
            "#states": mdp.n_states,
            "#initial-states": int(np.count_nonzero(mdp.start)),
            "#choices": int(mdp.allowed.sum()),
            "#choice-actions": mdp.n_actions,
            "#branches": int(mdp.transitions.nnz),
            "#branch-actions": 0,
            "#observations": 0,
            "branch-probability-type": DOUBLE,
        },
        "annotations": {"rewards": {"reward": {"alias": "reward", "applies-to": [on], "type": DOUBLE}}},
    }


def _members(mdp: MDP) -> dict[str, Any]:
    """The arrays of the model itself, by the name of their member."""
    rows, used = mdp.transitions, mdp.allowed.ravel()
    members: dict[str, Any] = {
        "state-to-choices.bin": _pointer(mdp.allowed.sum(axis=1)),
        "state-is-initial.bin": _bits(mdp.start > 0),
        "choice-to-branches.bin": _pointer(np.diff(rows.indptr)[used]),
        "branch-to-target.bin": rows.indices.astype("<u8"),
        "branch-to-probability.bin": rows.data.astype("<f8", copy=False),
        "actions/choices/values.bin": np.nonzero(mdp.allowed)[1].astype("<u4"),
    }
    if mdp.action_names is not None:
        members |= _strings("actions/choices", mdp.action_names)
    if mdp.outcome_rewards is None:
        members["annotations/rewards/reward/choices/values.bin"] = mdp.rewards[mdp.allowed]
    else:
        members["annotations/rewards/reward/branches/values.bin"] = mdp.outcome_rewards
    return members


def _annotate(index: dict[str, Any], members: dict[str, Any], name: str, on: str, values: Any) -> None:
    index["annotations"].setdefault(OURS, {})[name] = {"applies-to": [on], "type": DOUBLE}
    members[f"annotations/cautious/{name}/{on}/values.bin"] = values


def _pointer(counts: Any) -> Any:
    pointer = np.zeros(counts.size + 1, "<u8")
    np.cumsum(counts, out=pointer[1:])
    return pointer


def _bits(mask: Any) -> Any:
    padded = np.zeros(-(-mask.size // 64) * 64, np.uint8)
    padded[: mask.size] = mask
    return np.packbits(padded, bitorder="little")


def _strings(folder: str, names: Sequence[str]) -> dict[str, Any]:
    encoded = [name.encode("utf-8") for name in names]
    lengths = np.array([len(one) for one in encoded], np.int64)
    letters = np.frombuffer(b"".join(encoded), np.uint8)
    return {f"{folder}/string-mapping.bin": _pointer(lengths), f"{folder}/strings.bin": letters}
