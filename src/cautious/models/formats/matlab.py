"""Files of MATLAB: P is (S, S, A) or a cell array of A sparse matrices (S, S); R likewise, or (S, A), or (S, 1)."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io as sio
import scipy.sparse as sp

from cautious import storage as _storage
from cautious.arrays import Array
from cautious.errors import FileError, IncompatibleError
from cautious.models.formats import companion
from cautious.models.formats.prism_writer import refuse_spread
from cautious.models.formats.reader_options import Given
from cautious.models.formats.text import opened
from cautious.models.formats.toolbox import WANTED, matrices_of, toolbox_model
from cautious.models.tabular import MDP

FREE_BYTES = 2**24
LARGEST_DENSE = 2**22


def read(path: Path, given: Given) -> MDP:
    """The model of P (S, S, A) and R in a file of MATLAB."""
    found = _load(path)
    p, r = (_actions_first(found.get(name)) for name in ("P", "R"))
    matrices = matrices_of(path, "P", p)
    return toolbox_model(path, given, matrices, r, found.get("discount"))


def _load(path: Path) -> dict[str, Any]:
    """The wanted variables; sizes are looked at before anything is unpacked."""
    with opened(path) as stream:
        limit = FREE_BYTES + _storage.LARGEST_RATIO * path.stat().st_size
        try:
            for name, shape, _ in sio.whosmat(stream):
                if name in WANTED and math.prod(shape) * 8 > limit:
                    raise FileError(f"{path}: {name} has shape {shape}, too large for a file of this size")
            stream.seek(0)
            return dict(sio.loadmat(stream, variable_names=WANTED, spmatrix=False))
        except FileError:
            raise
        except NotImplementedError:
            raise FileError(f"{path}: a MATLAB file of version 7.3; save it with -v7") from None
        # SciPy's reader has no error of its own: on damaged files it raises whatever its code meets
        except Exception as error:
            raise FileError(f"{path}: not a readable MATLAB file, or damaged ({error!r:.120})") from None


def _actions_first(value: Any) -> Any:
    """(S, S, A) to (A, S, S); a cell array to a list; MATLAB drops an axis of length one at the end."""
    if isinstance(value, np.ndarray) and value.dtype == object:
        return list(value.ravel())
    if isinstance(value, np.ndarray) and value.ndim == 3:
        return np.moveaxis(value, 2, 0)
    return value


def write(path: Path, mdp: MDP) -> None:
    """Write a model as a MATLAB file."""
    refuse_spread(mdp, "a MATLAB file")
    if not mdp.allowed.all():
        state, action = np.argwhere(~mdp.allowed)[0]
        raise IncompatibleError(
            f"a MATLAB file has every action in every state, this model forbids action {action} in state {state}; "
            "save as .umb, .csv or .npz"
        )
    rewards: Any = mdp.rewards
    if mdp.outcome_rewards is not None:
        rewards = _by_action(mdp, mdp.outcome_rewards)
    variables = {"P": _by_action(mdp, mdp.transitions.data), "R": rewards, "discount": mdp.discount}
    with companion.replacing(path, mdp) as stream:
        sio.savemat(stream, variables, do_compression=True)


def _by_action(mdp: MDP, values: Array) -> Any:
    """(S, S, A), or a cell array of A sparse matrices (S, S)."""
    rows = mdp.transitions
    table = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    if table.shape[0] * table.shape[1] <= LARGEST_DENSE:
        return np.moveaxis(table.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states), 1, 2)
    cells = np.empty(mdp.n_actions, dtype=object)
    for action in range(mdp.n_actions):
        cells[action] = sp.csc_array(table[action :: mdp.n_actions])
    return cells
