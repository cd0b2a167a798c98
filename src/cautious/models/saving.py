"""Writing models: the suffix of a file says in which format."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cautious import _storage
from cautious.errors import InputError
from cautious.models.formats import outcome_tables_writer, prism_writer, toolbox_writer, umb_writer
from cautious.tables.arrow_files import ARROW, PARQUET

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

Writer = Callable[[Path, "MDP"], None]


def write_own(path: Path, mdp: "MDP") -> None:
    """Write our own format, which holds everything."""
    header, arrays = mdp.to_storage()
    _storage.write(path, "model", header, arrays)


WRITERS: dict[str, Writer] = {
    "": write_own,
    ".npz": write_own,
    ".umb": umb_writer.write,
    ".tra": prism_writer.write,
    ".csv": outcome_tables_writer.write_csv,
    ".mat": toolbox_writer.write_mat,
    **dict.fromkeys((*PARQUET, *ARROW), outcome_tables_writer.write_arrow),
}


def save(path: Any, mdp: "MDP") -> None:
    """Write a model in the format of the file's suffix."""
    target = _storage.as_path(path)
    if target.suffix.lower() not in WRITERS:
        known = ", ".join(suffix for suffix in WRITERS if suffix)
        raise InputError(f"cannot write {target}: the suffix says the format, one of {known}")
    WRITERS[target.suffix.lower()](target, mdp)
