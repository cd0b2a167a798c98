"""Reading and writing models, whatever tool the file is for: the suffix says the format.

The modules of the formats are loaded when a file is read or written, not when a model is made.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cautious.arrays import Mask
from cautious.checks import as_flag
from cautious.errors import InputError
from cautious.models.formats.reader_options import ReaderOptions
from cautious.regular_files import as_path
from cautious.tables.arrow_files import ARROW, PARQUET

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

PACKED = (".gz", ".bz2", ".xz", ".zip", ".zst")


@dataclass(frozen=True)
class Format:
    """A format of model files.

    ``holds`` says what the file itself holds; what ``mdp.save`` puts into a companion beside it is in ``companion``.
    ``reader``, ``writer`` and ``labels`` are functions of the package ``formats``, as "module.function".
    """

    name: str
    suffixes: tuple[str, ...]
    holds: str
    companion: str
    reader: str
    writer: str
    labels: str | None = None


_TABLE = "transitions and rewards per outcome, labels"
_REST = "discount, start, names, scene"
_READ_TABLE, _WRITE_ARROW = "outcome_tables.read", "outcome_tables.write_arrow"

FORMATS = (
    Format("cautious", (".npz", ""), "everything", "", "own.read", "own.write"),
    Format("UMB (Storm, PRISM, Modest)", (".umb",), "everything", "", "umb.read", "umb.write", "umb.labels"),
    Format(
        "PRISM explicit, Storm explicit",
        (".tra",),
        "transitions, rewards, actions, one start state (.tra .lab .srew .trew)",
        "discount, names, scene",
        "prism.read",
        "prism.write",
        "prism.labels",
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


def read_model(
    path: str | os.PathLike[str],
    *,
    discount: float | None = None,
    start: Any = None,
    reward: str | float | None = None,
    outcome: Any = None,
    columns: Mapping[str, str] | None = None,
    normalise: bool = False,
) -> "MDP":
    """The model in a file; the suffix says the format.

    ``.npz`` ours, or arrays P (A, S, S) and R; ``.umb`` UMB; ``.tra`` explicit files of PRISM or Storm, with ``.lab``,
    ``.srew``, ``.trew`` and ``.sta`` of the same name beside it; ``.csv``, ``.parquet``, ``.arrow`` tables with one
    outcome per row; ``.mat`` arrays P and R of MATLAB.

    Parameters
    ----------
    path
        The file.
    discount
        Needed when the file does not hold it; when it does, both must agree.
    start
        The first state, by number or name, or a distribution (S,). Needed for ``.tra`` and ``.umb`` without exactly one
        initial state; tables and arrays start anywhere, uniformly, if nothing is said.
    reward
        Which reward structure, when a ``.tra`` or ``.umb`` has several; one without any pays nothing. A table without
        a column of rewards is refused, unless ``reward=0`` says that nothing is paid.
    outcome
        Which model, when a table holds many (column ``idoutcome`` or ``outcome``).
    columns
        What the columns state, action, next_state, probability and reward of a table are called in it.
    normalise
        Rescale rows of probabilities that do not sum to one instead of refusing them.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.river_swim().save("swim.csv")
    >>> ca.read_model("swim.csv").shape
    (6, 2)
    """
    source = as_path(path)
    options = ReaderOptions(discount, start, reward, outcome, columns, as_flag("normalise", normalise))
    mdp: MDP = _function(format_of(source).reader)(source, options)
    return mdp


def read_labels(path: str | os.PathLike[str]) -> dict[str, Mask]:
    """The states (S,) that carry each label of a ``.tra`` or ``.umb``: sets for ``ca.SafeSet`` and others.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.machine_replacement().save("machine.umb")
    >>> ca.read_labels("machine.umb")["init"].nonzero()[0].tolist()
    [0]
    """
    source = as_path(path)
    found = format_of(source)
    if found.labels is None:
        raise InputError(f"{source}: only .tra and .umb files have labels")
    labels: dict[str, Mask] = _function(found.labels)(source)
    return labels


def save(path: Any, mdp: "MDP") -> None:
    """Write a model in the format of the file's suffix."""
    target = as_path(path)
    _function(format_of(target, "cannot write ").writer)(target, mdp)


def _function(place: str) -> Any:
    module, name = place.split(".")
    return getattr(import_module(f"cautious.models.formats.{module}"), name)
