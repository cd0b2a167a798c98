"""Arrays of a problem file: lists, or the names of files.

``"prior.npy"``, ``"data.npz:prior"``, or for a prior ``"solution.npz"`` (its policy). Files are read without pickle,
and what they claim is checked before memory is taken.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious import storage as _storage
from cautious.checks import as_number
from cautious.errors import FileError, InputError
from cautious.problem_files.keys import allow
from cautious.solution import load


def array_from_file(name: str, text: str, folder: Path, *, solutions: bool) -> Any:
    """An array named ``x.npy`` or ``x.npz:member``, or a Solution named ``x.npz`` where ``solutions`` are welcome."""
    file, _, member = text.partition(":")
    path = folder / file
    try:
        if path.suffix == ".npy" and not member:
            # a memory map refuses a header that claims more than the file holds, before anything is allocated
            return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        if path.suffix == ".npz" and member:
            return _storage.take(path, _storage.read_arrays(path, [member]), member)
    except (OSError, ValueError, EOFError, SyntaxError, TypeError) as error:
        raise FileError(f"{name}: cannot read {text}: {error}") from None
    if path.suffix == ".npz" and solutions:
        return load(path)
    hint = ", or a solution .npz" if solutions else ""
    raise InputError(
        f"{name} is {text!r}; expected the name of a .npy file or of an array in a .npz file (x.npz:name){hint}"
    )


def graph(name: str, table: Mapping[str, Any]) -> sp.csr_array:
    """``metric = { edges = [[0, 1, 2.5], ...], n_states = 3 }``: a sparse weighted graph."""
    allow(table, name, ("edges", "n_states"))
    edges, count = table.get("edges"), table.get("n_states")
    if not isinstance(edges, list) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{name} needs edges = [[state, state, distance], ...] and n_states = a whole number")
    for j, edge in enumerate(edges):
        whole = (
            isinstance(edge, list) and len(edge) == 3 and all(type(end) is int and 0 <= end < count for end in edge[:2])
        )
        if not whole:
            raise InputError(
                f"{name}.edges[{j}] is {edge!r}; expected [state, state, distance], states 0 to {count - 1}"
            )
    distances = [as_number(f"{name}.edges[{j}][2]", edge[2], 0.0, open_ends="(") for j, edge in enumerate(edges)]
    ends = ([edge[0] for edge in edges], [edge[1] for edge in edges])
    return sp.csr_array(sp.coo_array((distances, ends), shape=(count, count)))
