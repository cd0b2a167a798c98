"""Reading our own files: a zip of .npy arrays and a JSON header, which hold everything about a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious import _storage
from cautious._checks import as_count
from cautious.errors import FileError, InputError
from cautious.models.formats.companion import scene_from
from cautious.models.formats.given import Given, settled_discount, settled_start
from cautious.models.tabular import MDP

NAME = "files of cautious"


def read(path: Path, given: Given) -> MDP:
    """The model in a file written by ``mdp.save``."""
    given.refuse_others(path, NAME)
    header, arrays = _storage.read(path, "model")
    mdp = model_from_storage(path, header, arrays)
    settled_discount(path, given, mdp.discount)
    settled_start(path, given, mdp.start, mdp.n_states, mdp.state_names)
    return mdp


def model_from_storage(path: Any, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> MDP:
    """Rebuild a model from its stored parts, with every check a new model gets."""
    try:
        n_states, n_actions = (as_count(key, header[key]) for key in ("n_states", "n_actions"))
        scene = header["scene"]
        names = {key: header[key] for key in ("state_names", "action_names")}
        rows = _rows(path, arrays, n_states, n_actions)
        outcome = arrays.get("outcome_rewards")
        rewards: Any = _storage.take(path, arrays, "rewards")
        square: Any = _storage.take(path, arrays, "reward_square")
        if outcome is not None:
            if outcome.shape != rows.data.shape:
                raise FileError(f"{path}: outcome_rewards has shape {outcome.shape}, expected {rows.data.shape}")
            rewards, square = sp.csr_array((outcome, rows.indices, rows.indptr), shape=rows.shape), None
        mdp = MDP(
            rows,
            rewards,
            header["discount"],
            _storage.take(path, arrays, "start"),
            allowed=_storage.take(path, arrays, "allowed"),
            reward_square=square,
            scene=None if scene is None else scene_from(scene),
            **names,
        )
        mdp.known_transitions = bool(header.get("known_transitions", True))
        return mdp
    except (KeyError, TypeError, ValueError) as error:
        if isinstance(error, FileError):
            raise
        if isinstance(error, InputError):
            raise FileError(f"{path}: {error}") from None
        raise FileError(f"{path}: the model's header is incomplete or damaged ({error!r})") from None


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
