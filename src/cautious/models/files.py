"""Reading models from files, whatever tool wrote them: the suffix says the format."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cautious import storage as _storage
from cautious.arrays import Mask
from cautious.errors import InputError
from cautious.models.formats import prism, umb
from cautious.models.formats.reader_options import Given
from cautious.models.formats.registry import format_of
from cautious.models.tabular import MDP


def read_model(
    path: str | os.PathLike[str],
    *,
    discount: float | None = None,
    start: Any = None,
    reward: str | float | None = None,
    outcome: Any = None,
    columns: Mapping[str, str] | None = None,
    normalise: bool = False,
) -> MDP:
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
    source = _storage.as_path(path)
    given = Given(discount, start, reward, outcome, columns, normalise)
    return format_of(source).read(source, given)


def read_labels(path: str | os.PathLike[str]) -> dict[str, Mask]:
    """The states (S,) that carry each label of a ``.tra`` or ``.umb``: sets for ``ca.SafeSet`` and others.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.machine_replacement().save("machine.umb")
    >>> ca.read_labels("machine.umb")["init"].nonzero()[0].tolist()
    [0]
    """
    source = _storage.as_path(path)
    readers: dict[str, Callable[[Path], dict[str, Mask]]] = {".tra": prism.labels, ".umb": umb.labels}
    if source.suffix.lower() not in readers:
        raise InputError(f"{source}: only .tra and .umb files have labels")
    return readers[source.suffix.lower()](source)
