"""Writing P and R for MATLAB's MDP toolboxes: (S, S, A), or cells of sparse matrices when that would be large."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.io as sio
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.errors import IncompatibleError
from cautious.models.formats import companion
from cautious.models.formats.prism_writer import refuse_spread

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

LARGEST_DENSE = 2**22


def write_mat(path: Path, mdp: "MDP") -> None:
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


def _by_action(mdp: "MDP", values: Array) -> Any:
    """(S, S, A), or a cell array of A sparse matrices (S, S)."""
    rows = mdp.transitions
    table = sp.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    if table.shape[0] * table.shape[1] <= LARGEST_DENSE:
        return np.moveaxis(table.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states), 1, 2)
    cells = np.empty(mdp.n_actions, dtype=object)
    for action in range(mdp.n_actions):
        cells[action] = sp.csc_array(table[action :: mdp.n_actions])
    return cells
