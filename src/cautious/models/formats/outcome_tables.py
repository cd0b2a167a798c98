"""Tables with one outcome per row: csv, Parquet, Arrow; those of Petrik's libraries among them.

Columns: state, action, next_state, probability, reward; or idstatefrom, idaction, idstateto, probability, reward, and
perhaps idoutcome, when a table holds many models. Labels are anything; whole numbers 0 to n-1 are numbers, not names.
Models are written with the columns of Petrik's libraries, and a companion for the rest.
"""

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from cautious.arrays import Array, Codes, Mask
from cautious.errors import FileError, InputError, MissingExtraError, shown
from cautious.models.encodings import row_of_entries
from cautious.models.formats import companion
from cautious.models.formats.building import ModelFacts, build_model, pair_rows, require_probabilities
from cautious.models.formats.companion import outcome_rewards, refuse_reward_square
from cautious.models.formats.reader_options import ReaderOptions, settled_discount, settled_start
from cautious.models.outcome_lists import OutcomeList
from cautious.models.tabular import MDP
from cautious.tables import Columns, read_columns
from cautious.tables.arrow_files import PARQUET
from cautious.tables.columns import find_columns, open_source
from cautious.tables.hints import cost_note, guesses, listed, unused

NAME = "tables of outcomes"
FAMILIES = {"state": "states", "action": "actions", "next_state": "states", "outcome": "outcomes"}
NUMBERS = ("probability", "reward")
PETRIK = {"state": "idstatefrom", "action": "idaction", "next_state": "idstateto", "outcome": "idoutcome"}
OPTIONAL = ("outcome", "reward")
NEEDED = ("state", "action", "next_state", "probability", "reward")
COLUMNS = ("idstatefrom", "idaction", "idstateto", "probability", "reward")
ROWS_PER_BLOCK = 100_000


def read(path: Path, given: ReaderOptions) -> MDP:
    """The model of a table."""
    given.refuse_others(path, NAME, "reward", "outcome", "columns", "normalise")
    beside = companion.read(path)
    discount = settled_discount(path, given, beside.discount)
    names = called_in(path, given.columns)
    table = read_columns(path, labels=FAMILIES, numbers=NUMBERS, optional=OPTIONAL, names=names)
    _require_rewards(path, table, given.reward, names)
    require_probabilities(table.numbers["probability"], table.refusal)
    keep = _chosen(path, table, given.outcome)
    codes, numbers = _taken(table, keep)
    state_names, state_at = _numbered(path, table.labels["states"], beside.n_states)
    action_names, action_at = _numbered(path, table.labels["actions"], beside.n_actions)
    shape = beside.sizes(path, len(table.labels["states"]), len(table.labels["actions"]))
    if beside.n_states is not None:
        state_names, action_names = beside.state_names, beside.action_names
    start = settled_start(path, given, beside.start(path), shape[0], state_names)
    outcomes = OutcomeList(
        pair_rows(path, _at(codes.pop("state"), state_at), _at(codes.pop("action"), action_at), shape),
        _at(codes.pop("next_state"), state_at),
        numbers.pop("probability"),
        numbers.pop("reward", None),
    )
    about = ModelFacts(
        shape,
        discount,
        start,
        state_names,
        action_names,
        scene=beside.scene,
        per_outcome=beside.per_outcome,
        normalise=given.normalise,
    )
    return build_model(path, outcomes, None, about)


def called_in(path: Path, columns: Mapping[str, str] | None) -> dict[str, Any]:
    """What each column is called in the file; it must be there."""
    source = open_source(path)
    there = source.columns
    petrik = {column: called for column, called in PETRIK.items() if called in there and column not in there}
    if columns is not None and not isinstance(columns, Mapping):
        raise InputError(f"columns must map columns to their names in the table, found {shown(columns)}")
    names = {**petrik, **(columns or {})}
    find_columns(source, [*FAMILIES, *NUMBERS], OPTIONAL, names, "columns", NEEDED)
    return names


def _require_rewards(path: Path, table: Columns, reward: Any, names: Mapping[str, Any]) -> None:
    """Refuse a table that does not say what is paid, unless the caller does: nothing."""
    is_number = isinstance(reward, int | float) and not isinstance(reward, bool)
    if reward is not None and not (is_number and reward == 0):
        raise InputError(
            f"{path}: reward={shown(reward)} is not supported by {NAME}; only reward=0, where nothing is paid"
        )
    if reward is not None and "reward" in table.numbers:
        raise InputError(f"{path}: reward=0 was given, but the table has a column of rewards")
    if reward is None and "reward" not in table.numbers:
        there = table.source.columns
        meant = guesses(["reward"], unused(names, [*FAMILIES, *NUMBERS], there)).get("reward", "?")
        raise FileError(
            f"{path}: no column 'reward'; the columns are {listed(there)}; say which one it is, as in "
            f"columns={{'reward': {meant!r}}}{cost_note(meant)}, or that nothing is paid, reward=0 (a column of zeros "
            "says so as well)"
        )


def _chosen(path: Path, table: Columns, outcome: Any) -> Mask | None:
    """Which rows belong to the model that was asked for."""
    if "outcome" not in table.codes:
        if outcome is not None:
            raise InputError(f"{path}: outcome={shown(outcome)} was given, but no column tells outcomes apart")
        return None
    labels = table.labels["outcomes"]
    told = f"{labels[0]!r} to {labels[-1]!r}" if len(labels) > 5 else ", ".join(repr(one) for one in labels)
    if outcome is None:
        raise InputError(f"{path}: holds {len(labels)} models, {told}; choose one, as in outcome={labels[0]!r}")
    if not isinstance(outcome, Hashable) or outcome not in labels:
        raise InputError(f"{path}: outcome={shown(outcome)} is none of its {len(labels)} models: {told}")
    return np.asarray(table.codes["outcome"] == labels.index(outcome))


def _taken(table: Columns, keep: Mask | None) -> tuple[dict[str, Codes], dict[str, Array]]:
    """The wanted rows of every column, taken out of the table one by one: the columns are as large as the model."""
    rows = slice(None) if keep is None else keep
    codes = {name: table.codes.pop(name)[rows] for name in list(table.codes) if name != "outcome"}
    return codes, {name: table.numbers.pop(name)[rows] for name in list(table.numbers)}


def _numbered(path: Path, labels: tuple[Any, ...], count: int | None) -> tuple[tuple[str, ...] | None, Codes | None]:
    """Names for labels, and the number of each; None for names: the labels are numbers; for numbers: they are in order.

    With a companion the labels are the numbers it speaks of, and some may be unused.
    """
    whole = [isinstance(label, int) and not isinstance(label, bool) for label in labels]
    if all(whole) and labels == tuple(range(len(labels))):
        return None, None
    if count is None:
        return tuple(str(label) for label in labels), None
    for label, is_whole in zip(labels, whole, strict=True):
        if not is_whole or not 0 <= label < count:
            raise FileError(f"{path}: found the label {label!r}; its companion speaks of 0 to {count - 1}")
    return None, np.array(labels, dtype=np.int32)


def _at(codes: Codes, at: Codes | None) -> Codes:
    return codes if at is None else at[codes]


def write_csv(path: Path, mdp: MDP) -> None:
    """Write a model as a csv file; numbers have all their digits."""
    refuse_reward_square(mdp, "a csv file")
    with companion.replacing(path, mdp) as stream:
        stream.write((",".join(COLUMNS) + "\n").encode())
        for rows in _blocks(_columns(mdp)):
            stream.write("".join([f"{s},{a},{t},{p!r},{r!r}\n" for s, a, t, p, r in rows]).encode())


def _blocks(columns: dict[str, Any]) -> Iterator[Iterator[tuple[Any, ...]]]:
    for low in range(0, columns["reward"].size, ROWS_PER_BLOCK):
        yield zip(*(columns[name][low : low + ROWS_PER_BLOCK].tolist() for name in COLUMNS), strict=True)


def write_arrow(path: Path, mdp: MDP) -> None:
    """Write a model as a Parquet or Arrow file (extra ``data``)."""
    refuse_reward_square(mdp, "a Parquet or Arrow file")
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


def _columns(mdp: MDP) -> dict[str, Any]:
    row = row_of_entries(mdp.transitions)
    values = (
        row // mdp.n_actions,
        row % mdp.n_actions,
        mdp.transitions.indices.astype(np.int64),
        mdp.transitions.data,
        outcome_rewards(mdp),
    )
    return dict(zip(COLUMNS, values, strict=True))
