"""Reading models from files."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from cautious import _storage
from cautious._checks import as_count
from cautious.errors import FileError, InputError
from cautious.models.scene import Scene
from cautious.models.tabular import MDP


def read_model(path: str | os.PathLike[str]) -> MDP:
    """The model in a file written by ``mdp.save``."""
    header, arrays = _storage.read(path, "model")
    return model_from_storage(path, header, arrays)


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
            scene=None if scene is None else _scene(scene),
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


def _scene(stored: Mapping[str, Any]) -> Scene:
    lists: dict[str, Any] = {key: tuple(str(item) for item in stored[key]) for key in ("grid", "action_arrows")}
    words: dict[str, Any] = {key: str(stored[key]) for key in ("title", "story", "step", "reward_unit")}
    return Scene(**words, **lists)
