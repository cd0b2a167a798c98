"""Writing UMB, the unified Markov binary files that Storm, PRISM and Modest read.

Rewards of pairs sit on the choices, rewards of outcomes on the branches. The start distribution, names of states and
second moments are annotations of a group of their own, which other tools pass over; the discount is in the parameters.
Equal models give equal bytes.
"""

import gzip
import io
import json
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cautious import storage as _storage
from cautious.models.formats import companion
from cautious.models.formats.prism_writer import tells_spread

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

DOUBLE = {"type": "double", "size": 64}
LEVEL = 4


def write(path: Path, mdp: "MDP") -> None:
    """Write a model as one UMB file."""
    mdp.require_transitions("writing a UMB file")
    index, members = _index(mdp), _members(mdp)
    if tells_spread(mdp):
        _annotate(index, members, "reward-square", "choices", mdp.reward_square[mdp.allowed])
    if np.count_nonzero(mdp.start) != 1:
        _annotate(index, members, "start", "states", mdp.start)
    if mdp.state_names is not None:
        # not an annotation: Storm 2 refuses files with annotations that are strings
        members |= _strings("cautious/state-names", mdp.state_names)
    text = json.dumps(index, indent=1).encode()
    with (
        _storage.replacing(path) as stream,
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


def _index(mdp: "MDP") -> dict[str, Any]:
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


def _members(mdp: "MDP") -> dict[str, Any]:
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
    _ours(index)[name] = {"applies-to": [on], "type": DOUBLE}
    members[f"annotations/cautious/{name}/{on}/values.bin"] = values


def _ours(index: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = index["annotations"].setdefault("cautious", {})
    return found


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
