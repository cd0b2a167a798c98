"""The list of formats. Their modules are loaded when a file is read or written, not when a model is made."""

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cautious.errors import InputError
from cautious.storage import as_path
from cautious.tables.arrow_files import ARROW, PARQUET

if TYPE_CHECKING:
    from cautious.models.formats.reader_options import Given
    from cautious.models.tabular import MDP

PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")


@dataclass(frozen=True)
class Format:
    """A format of model files.

    ``holds`` says what the file itself holds; what ``mdp.save`` puts into a companion beside it is in ``companion``.
    ``reader`` and ``writer`` are functions of this package, as "module.function".
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    companion: str
    reader: str
    writer: str

    def read(self, path: Path, given: "Given") -> "MDP":
        """The model in a file."""
        mdp: MDP = _function(self.reader)(path, given)
        return mdp

    def write(self, path: Path, mdp: "MDP") -> None:
        """Write a model to a file."""
        _function(self.writer)(path, mdp)


_TABLE = "transitions and rewards per outcome, labels"
_REST = "discount, start, names, scene"
_READ_TABLE, _WRITE_ARROW = "outcome_tables.read", "outcome_tables.write_arrow"

FORMATS = (
    Format("cautious", (".npz", ""), "everything", "", "own.read", "own.write"),
    Format("UMB (Storm, PRISM, Modest)", (".umb",), "everything", "", "umb.read", "umb.write"),
    Format(
        "PRISM explicit, Storm explicit",
        (".tra",),
        "transitions, rewards, actions, one start state (.tra .lab .srew .trew)",
        "discount, names, scene",
        "prism.read",
        "prism.write",
    ),
    Format("table of outcomes, Petrik csv", (".csv",), _TABLE, _REST, _READ_TABLE, "outcome_tables.write_csv"),
    Format("table, Parquet", PARQUET, _TABLE, _REST, _READ_TABLE, _WRITE_ARROW),
    Format("table, Arrow", ARROW, _TABLE, _REST, _READ_TABLE, _WRITE_ARROW),
    Format(
        "MATLAB, P (S,S,A) and R",
        (".mat",),
        "transitions, rewards, discount",
        _REST,
        "toolbox.read_matlab",
        "toolbox.write_matlab",
    ),
)


def format_of(path: Path, what: str = "") -> Format:
    """The format that the suffix of a file says; ``what`` is tried, for the message."""
    for one in FORMATS:
        if path.suffix.lower() in one.suffixes:
            return one
    known = ", ".join(suffix for one in FORMATS for suffix in one.suffixes if suffix)
    packed = "; unpack it first" if path.suffix.lower() in PACKED else ""
    raise InputError(f"{what}{path}: the suffix says the format, one of {known}{packed}")


def save(path: Any, mdp: "MDP") -> None:
    """Write a model in the format of the file's suffix."""
    target = as_path(path)
    format_of(target, "cannot write ").write(target, mdp)


def _function(place: str) -> Any:
    module, name = place.split(".")
    return getattr(import_module(f"cautious.models.formats.{module}"), name)
