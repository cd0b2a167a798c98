"""Our own files: a zip of .npy arrays and a JSON header, which hold everything about a model.

Of a log the counts are kept, not the rows.
"""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious import storage as _storage
from cautious.checks import as_count
from cautious.errors import FileError
from cautious.models.formats.companion import scene_from
from cautious.models.formats.reader_options import ReaderOptions, settled_discount, settled_start
from cautious.models.formats.toolbox import read_npz
from cautious.models.logged import LoggedMDP
from cautious.models.simulator_checks import as_reward_range
from cautious.models.tabular import MDP

NAME = "files of cautious"


def read(path: Path, given: ReaderOptions) -> MDP:
    """The model in a file written by ``mdp.save``, or of P and R in one of ``np.savez``."""
    if not _storage.is_ours(path):
        return read_npz(path, given)
    given.refuse_others(path, NAME)
    header, arrays = _storage.read(path, "model")
    mdp = model_from_storage(path, header, arrays)
    settled_discount(path, given, mdp.discount)
    settled_start(path, given, mdp.start, mdp.n_states, mdp.state_names)
    return mdp


def write(path: Path, mdp: MDP) -> None:
    """Write a model."""
    _storage.write(path, "model", *model_to_storage(mdp))


def model_to_storage(mdp: MDP) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and arrays of a model."""
    mdp.require_unchanged()
    header: dict[str, Any] = {
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "discount": mdp.discount,
        "known_transitions": mdp.known_transitions,
        "state_names": mdp.state_names,
        "action_names": mdp.action_names,
        "scene": None if mdp.scene is None else asdict(mdp.scene),
    }
    rows = mdp.transitions
    arrays = {"indptr": rows.indptr, "indices": rows.indices, "probabilities": rows.data, "start": mdp.start}
    arrays |= {"allowed": mdp.allowed, "rewards": mdp.rewards, "reward_square": mdp.reward_square}
    if mdp.outcome_rewards is not None:
        arrays["outcome_rewards"] = mdp.outcome_rewards
    if isinstance(mdp, LoggedMDP):
        header["reward_range"], arrays["counts"] = mdp.reward_range, mdp.counts
    return header, arrays


def model_from_storage(path: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> MDP:
    """Rebuild a model from its stored parts, with every check a new model gets."""
    with _storage.errors_of_file(path, LookupError, TypeError, ValueError, AttributeError, OverflowError):
        n_states, n_actions = (as_count(key, header[key]) for key in ("n_states", "n_actions"))
        scene = header["scene"]
        rows = _rows(path, arrays, n_states, n_actions)
        outcome = arrays.get("outcome_rewards")
        rewards: Any = _storage.take(path, arrays, "rewards")
        square: Any = _storage.take(path, arrays, "reward_square")
        if outcome is not None:
            if outcome.shape != rows.data.shape:
                raise FileError(f"{path}: outcome_rewards has shape {outcome.shape}, expected {rows.data.shape}")
            rewards, square = sp.csr_array((outcome, rows.indices, rows.indptr), shape=rows.shape), None
        elif _follows_from(square, rewards):
            square = None
        parts: dict[str, Any] = {
            "transitions": rows,
            "rewards": rewards,
            "discount": header["discount"],
            "start": _storage.take(path, arrays, "start"),
            "allowed": _storage.take(path, arrays, "allowed"),
            "reward_square": square,
            "scene": None if scene is None else scene_from(scene),
            **{key: header[key] for key in ("state_names", "action_names")},
        }
        if "counts" in arrays:
            counts = _counts(path, arrays["counts"], (n_states, n_actions))
            mdp: MDP = LoggedMDP(counts, as_reward_range(header["reward_range"]), **parts)
        else:
            mdp = MDP(**parts)
        mdp.known_transitions = bool(header.get("known_transitions", True))
        return mdp


def _follows_from(square: NDArray[Any], rewards: NDArray[Any]) -> bool:
    """True if second moments follow from the rewards; the squares of the largest rewards are infinite."""
    with np.errstate(over="ignore"):
        return bool(np.array_equal(square, rewards**2))


def _counts(path: Any, counts: NDArray[Any], shape: tuple[int, int]) -> NDArray[np.int64]:
    if counts.shape != shape or not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0:
        raise FileError(f"{path}: counts must be whole numbers {shape}, found {counts.dtype} {counts.shape}")
    return counts.astype(np.int64)


def _rows(path: Any, arrays: Mapping[str, NDArray[Any]], n_states: int, n_actions: int) -> sp.csr_array:
    indptr, indices, data = (_storage.take(path, arrays, name) for name in ("indptr", "indices", "probabilities"))
    for name, array in (("indptr", indptr), ("indices", indices)):
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
            raise FileError(f"{path}: {name} must be a one-dimensional array of whole numbers")
    sound = (
        indptr.size == n_states * n_actions + 1
        and indptr[0] == 0
        and indptr[-1] == indices.size == data.size
        and not np.any(np.diff(indptr) < 0)
        and (indices.size == 0 or (indices.min() >= 0 and indices.max() < n_states))
    )
    if not sound:
        raise FileError(f"{path}: the transition arrays are inconsistent")
    return sp.csr_array((data.astype(np.float64), indices, indptr), shape=(n_states * n_actions, n_states))
