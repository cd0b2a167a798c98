"""Writing tables with one outcome per row, with the columns of Petrik's libraries, and a companion for the rest."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cautious.errors import MissingExtraError
from cautious.models.encodings import row_of_entries
from cautious.models.formats import companion
from cautious.models.formats.prism_writer import outcome_rewards, refuse_spread
from cautious.tables.arrow_files import PARQUET

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

COLUMNS = ("idstatefrom", "idaction", "idstateto", "probability", "reward")
BLOCK = 100_000


def write_csv(path: Path, mdp: "MDP") -> None:
    """Write a model as a csv file; numbers have all their digits."""
    refuse_spread(mdp, "a csv file")
    with companion.replacing(path, mdp) as stream:
        stream.write((",".join(COLUMNS) + "\n").encode())
        for rows in _blocks(_columns(mdp)):
            stream.write("".join([f"{s},{a},{t},{p!r},{r!r}\n" for s, a, t, p, r in rows]).encode())


def _blocks(columns: dict[str, Any]) -> Iterator[Iterator[tuple[Any, ...]]]:
    for low in range(0, columns["reward"].size, BLOCK):
        yield zip(*(columns[name][low : low + BLOCK].tolist() for name in COLUMNS), strict=True)


def write_arrow(path: Path, mdp: "MDP") -> None:
    """Write a model as a Parquet or Arrow file (extra ``data``)."""
    refuse_spread(mdp, "a Parquet or Arrow file")
    try:
        import pyarrow as pa
        import pyarrow.parquet as parquet
    except ImportError:
        raise MissingExtraError(
            f'{path}: Parquet and Arrow files need pyarrow; install it with: pip install "cautious[data]"'
        ) from None
    table = pa.table(_columns(mdp))
    with companion.replacing(path, mdp) as stream:
        if path.suffix.lower() in PARQUET:
            parquet.write_table(table, stream)
        else:
            with pa.ipc.new_file(stream, table.schema) as writer:
                writer.write_table(table)


def _columns(mdp: "MDP") -> dict[str, Any]:
    row = row_of_entries(mdp.transitions)
    values = (
        row // mdp.n_actions,
        row % mdp.n_actions,
        mdp.transitions.indices.astype(np.int64),
        mdp.transitions.data,
        outcome_rewards(mdp),
    )
    return dict(zip(COLUMNS, values, strict=True))
