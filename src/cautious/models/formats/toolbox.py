"""Arrays as MDP toolboxes have them, one matrix (S, S) per action, under the names P and R.

    .npz (Python)  P is (A, S, S); R is (A, S, S), (S, A) or (S,)
    .mat (MATLAB)  P is (S, S, A) or a cell array of A sparse matrices (S, S); R likewise, or (S, A), or (S, 1)

A variable ``discount`` is used if it is there. Which axis is which follows from the file, never from the numbers.
"""

import math
from pathlib import Path
from typing import Any

import numpy as np
import scipy.io as sio
import scipy.sparse as sp

from cautious import storage as _storage
from cautious.arrays import Array
from cautious.errors import FileError, IncompatibleError, shown
from cautious.models.formats import companion
from cautious.models.formats.companion import refuse_reward_square
from cautious.models.formats.matlab import DamagedError, variables
from cautious.models.formats.reader_options import ReaderOptions, settled_discount, settled_start
from cautious.models.tabular import MDP
from cautious.regular_files import opened, size_of
from cautious.sparse_input import as_rows

NAME = "arrays of MDP toolboxes"
WANTED = ("P", "R", "discount")
FREE_BYTES = 2**24
LARGEST_DENSE = 2**22


def read_npz(path: Path, given: ReaderOptions) -> MDP:
    """The model of P (A, S, S) and R in a file of ``np.savez``."""
    arrays = _storage.read_arrays(path, WANTED)
    matrices = matrices_of(path, "P", arrays.get("P"))
    if matrices[0].shape[0] != matrices[0].shape[1]:
        shape = arrays["P"].shape
        like = "; (S, A, S) is for ca.MDP(P, R)" if len(shape) == 3 and shape[0] == shape[2] else ""
        raise FileError(f"{path}: P has shape {shape}; expected (A, S, S){like}")
    return toolbox_model(path, given, matrices, arrays.get("R"), arrays.get("discount"))


def matrices_of(path: Path, name: str, value: Any) -> list[Any]:
    """One matrix per action."""
    if value is None:
        raise FileError(f"{path}: the variable {name} is missing")
    matrices = [value] if sp.issparse(value) or (isinstance(value, np.ndarray) and value.ndim == 2) else value
    if isinstance(matrices, np.ndarray) and (matrices.ndim != 3 or matrices.dtype.kind not in "fiub"):
        raise FileError(
            f"{path}: {name} has shape {matrices.shape} and type {matrices.dtype}; expected numbers (A, S, S)"
        )
    for matrix in matrices:
        if not (sp.issparse(matrix) or (isinstance(matrix, np.ndarray) and matrix.dtype.kind in "fiub")):
            raise FileError(f"{path}: {name} holds {type(matrix).__name__}; expected matrices of numbers")
        if len(matrix.shape) != 2:
            raise FileError(f"{path}: {name} holds an array of shape {matrix.shape}; expected matrices (S, S)")
    if len(matrices) == 0:
        raise FileError(f"{path}: {name} holds no matrix")
    return list(matrices)


def toolbox_model(path: Path, given: ReaderOptions, matrices: list[Any], rewards: Any, discount: Any) -> MDP:
    """The model of one matrix per action, with what the caller and a companion say."""
    given.refuse_others(path, NAME, "normalise")
    beside = companion.read(path)
    n_states, n_actions = matrices[0].shape[0], len(matrices)
    beside.sizes(path, n_states, n_actions)
    held = None if discount is None else _one_number(path, "discount", discount)
    start = settled_start(path, given, beside.start(path), n_states, beside.state_names)
    rate = settled_discount(path, given, held if beside.discount is None else beside.discount)
    with _storage.errors_of_file(path):
        return MDP(
            matrices,
            _reward_form(path, rewards, n_states, n_actions),
            rate,
            start,
            state_names=beside.state_names,
            action_names=beside.action_names,
            normalise=given.normalise,
            scene=beside.scene,
        )


def _one_number(path: Path, name: str, value: Any) -> float:
    if not isinstance(value, np.ndarray) or value.size != 1 or value.dtype.kind not in "fiub":
        raise FileError(f"{path}: {name} is {shown(value)}; expected one number")
    return float(value.item())


def _reward_form(path: Path, value: Any, n_states: int, n_actions: int) -> Any:
    """Rewards (S,), (S, A) or one matrix per action, as ``MDP`` takes them."""
    if value is None:
        raise FileError(f"{path}: the variable R is missing")
    dense = as_rows("R", value).toarray() if sp.issparse(value) and value.shape != (n_states, n_states) else value
    if isinstance(dense, np.ndarray) and dense.dtype.kind in "fiub":
        if dense.shape in ((n_states,), (n_states, 1), (1, n_states)) and (n_states, n_actions) != dense.shape:
            return np.repeat(dense.reshape(-1, 1).astype(np.float64), n_actions, axis=1)
        if dense.shape == (n_states, n_actions):
            return dense
    matrices = matrices_of(path, "R", dense)
    if len(matrices) != n_actions or any(matrix.shape != (n_states, n_states) for matrix in matrices):
        shapes = sorted({matrix.shape for matrix in matrices})
        raise FileError(
            f"{path}: R has {len(matrices)} matrices {shapes}; expected {n_actions} of {n_states, n_states}"
        )
    return matrices


def read_matlab(path: Path, given: ReaderOptions) -> MDP:
    """The model of P (S, S, A) and R in a file of MATLAB."""
    found = _load_matlab(path)
    p, r = (_actions_first(found.get(name)) for name in ("P", "R"))
    matrices = matrices_of(path, "P", p)
    return toolbox_model(path, given, matrices, r, found.get("discount"))


def _load_matlab(path: Path) -> dict[str, Any]:
    """The wanted variables; sizes are looked at before anything is unpacked."""
    with opened(path) as stream:
        size = size_of(stream)
        limit = FREE_BYTES + _storage.LARGEST_RATIO * size
        try:
            # the text that a file of level 5 begins with has no zeros in it, and the one of level 4 begins with numbers
            level_4 = b"\0" in stream.read(4)
            stream.seek(0)
            if not level_4:
                return variables(stream, size, WANTED, limit)
            for name, shape, _ in sio.whosmat(stream):
                if name in WANTED and math.prod(shape) * 8 > limit:
                    raise FileError(f"{path}: {name} has shape {shape}, too large for a file of this size")
            stream.seek(0)
            return dict(sio.loadmat(stream, variable_names=WANTED, spmatrix=False))
        except FileError:
            raise
        except DamagedError as error:
            raise FileError(f"{path}: not a readable MATLAB file: {error}") from None
        # SciPy's reader has no error of its own: on damaged files it raises whatever its code meets
        except Exception as error:
            raise FileError(f"{path}: not a readable MATLAB file, or damaged ({shown(error, 120)})") from None


def _actions_first(value: Any) -> Any:
    """(S, S, A) to (A, S, S); MATLAB drops an axis of length one at the end."""
    if isinstance(value, np.ndarray) and value.ndim == 3:
        return np.moveaxis(value, 2, 0)
    return value


def write_matlab(path: Path, mdp: MDP) -> None:
    """Write a model as a MATLAB file."""
    refuse_reward_square(mdp, "a MATLAB file")
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
