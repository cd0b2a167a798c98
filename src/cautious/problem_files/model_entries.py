"""Where a model comes from: a world, a file, a Gymnasium environment or logged transitions.

The same tables serve ``[model]`` of a problem file and the command line, which writes them from its arguments.
"""

import inspect
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from cautious import worlds
from cautious.checks import did_you_mean
from cautious.errors import FileError, InputError, MissingExtraError
from cautious.models.files import read_model
from cautious.models.formats.outcome_tables import NEEDED, called_in
from cautious.models.gym_models import from_gym
from cautious.models.logged import from_transitions
from cautious.models.logs import ENDS, FAMILIES, ORDER
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.problem_files.keys import PLACES, allow, one_of, refuse_percent, text
from cautious.regular_files import exists
from cautious.tables.arrow_files import ARROW, PARQUET
from cautious.tables.columns import open_source
from cautious.tables.hints import advice, cost_note, filled_in, listed, said

# source -> the keys that may stand beside it
SOURCES: dict[str, tuple[str, ...]] = {
    "world": ("parameters",),
    "file": ("discount", "start", "reward", "outcome", "columns", "normalise"),
    "gym": ("discount", "at_end", "start", "parameters"),
    "transitions": (
        "discount",
        "untried",
        "at_end",
        "start",
        "reward_range",
        "columns",
        "independent_rows",
        "missing",
        "gaps",
    ),
}
# what people call the model, a step and what is earned; for reports only, beside any source
WORDS = ("title", "story", "step", "reward_unit")
TABLE_SUFFIXES = (".csv", *PARQUET, *ARROW)


def source_of(table: Any) -> str:
    """Which of the sources a ``[model]`` table names; its keys are checked."""
    every = dict.fromkeys([*SOURCES, *(key for keys in SOURCES.values() for key in keys), *WORDS])
    allow(table, "[model]", every, {**PLACES, "risk": "in a table of its own, [risk]"})
    named = [key for key in SOURCES if key in table]
    if len(named) != 1:
        found = f", found {' and '.join(named)}" if named else ""
        raise InputError(f"[model] needs exactly one of {', '.join(SOURCES)}{found}")
    allow(table, f"[model] with {named[0]}", (named[0], *SOURCES[named[0]], *WORDS))
    return named[0]


def model_of(table: Any, folder: Path) -> MDP:
    """The model that a ``[model]`` table describes; files are relative to ``folder``.

    One that has no title gets the table's, or the name of its file.
    """
    source = source_of(table)
    name = text(f"[model] {source}", table[source])
    words: dict[str, Any] = {key: text(f"[model] {key}", table[key], "text") for key in WORDS if key in table}
    mdp = _named_model(source, name, table, folder)
    mdp.scene = replace(Scene(Path(name).stem) if mdp.scene is None else mdp.scene, **words)
    return mdp


def _named_model(source: str, name: str, table: Mapping[str, Any], folder: Path) -> MDP:
    if source == "world":
        return _world(name, table.get("parameters", {}))
    rest = {key: table[key] for key in SOURCES[source] if key in table and key != "parameters"}
    refuse_percent("discount", rest.get("discount"))
    if source != "gym":
        _check_columns(rest)
        path = folder / name
        if not exists(path):
            # glob finds nothing where the folder is missing or may not be read
            beside = [one.name for one in path.parent.glob("*") if one.is_file()]
            raise FileError(f"{path}: no such file{did_you_mean(path.name, beside)}")
        if source == "transitions":
            return logged_model(path, rest)
        if "discount" not in rest and path.suffix.lower() in TABLE_SUFFIXES:
            # what is wrong with the columns comes before what else is missing
            called_in(path, rest.get("columns"))
        return read_model(path, **rest)
    if ":" in name:
        raise InputError(f"[model] gym is {name!r}; a problem file names a registered environment, and imports no code")
    return gym_model(name, table.get("parameters", {}), rest)


def _world(name: str, parameters: Any) -> MDP:
    build = vars(worlds)[one_of("[model] world", name, worlds.names())]
    allow(parameters, f"[model] parameters of {name}", inspect.signature(build).parameters)
    try:
        mdp = build(**parameters)
    except (TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"[model] parameters of {name}: {error}") from None
    assert isinstance(mdp, MDP)
    return mdp


def _check_columns(given: Mapping[str, Any]) -> None:
    columns = given.get("columns", {})
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in columns.values()):
        raise InputError(f'[model] columns must be a table such as {{ state = "ward" }}, found {columns!r}')


def holds_transitions(path: Path) -> bool:
    """Whether a table (csv, Parquet, Arrow) is a log of transitions: the outcomes of a model have a probability."""
    there = open_source(path).columns
    if "probability" in there:
        return False
    if any(column not in there for column in ORDER):
        raise FileError(f"{path}: {_neither(path, there)}")
    return True


def _neither(path: Path, there: list[Any]) -> str:
    """What to do with a table whose columns have other names."""
    of_model = filled_in(NEEDED, {}, there)
    is_model = of_model["probability"] != "?"
    names = of_model if is_model else filled_in(ORDER, {}, there)
    key, rest = ("file", "") if is_model else ("transitions", '; of a model: file, and probability = "?" beside them')
    return (
        f"neither a model (needs {', '.join(NEEDED)}) nor a log ({', '.join(ORDER)}); the columns are {listed(there)}; "
        f'say which is which in a problem file, under [model]: {key} = "{path.name}", {said(names)}{rest}'
        f"{cost_note(names.get('reward'))}"
    )


def logged_model(path: Path, given: Mapping[str, Any]) -> MDP:
    """The counted model of a log."""
    options = dict(given)
    if "columns" in options:
        allow(options["columns"], "[model] columns", (*FAMILIES, "reward", *ENDS))
        options["names"] = options.pop("columns")
    if "discount" not in options:
        _require_log(path, options.get("names", {}))
        raise InputError(f"{path}: logged transitions need a discount, as in discount=0.95")
    if isinstance(options.get("reward_range"), list):
        options["reward_range"] = tuple(options["reward_range"])
    return from_transitions(path, **options)


def _require_log(path: Path, names: Mapping[str, str]) -> None:
    """Refuse a table that is no log before anything else is asked about it."""
    there = open_source(path).columns
    for column in ORDER:
        if names.get(column, column) not in there:
            hint = advice("names", ORDER, names, there)
            raise FileError(f"{path}: no column {names.get(column, column)!r}; the columns are {listed(there)}; {hint}")


def gym_model(name: str, parameters: Any, given: Mapping[str, Any]) -> MDP:
    """A Gymnasium environment with a table, as a model."""
    for key, example in (("discount", "0.99"), ("at_end", '"absorb" or "restart"')):
        if key not in given:
            raise InputError(f"gym:{name} needs {key}, such as {example}")
    return from_gym(gym_environment(name, parameters), **given)


def gym_environment(name: str, parameters: Any = None) -> Any:
    """A Gymnasium environment by its registered name."""
    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError('gym: problems need gymnasium; install it with: pip install "cautious[gym]"') from None
    if not isinstance(parameters or {}, Mapping):
        raise InputError(f"[model] parameters of gym:{name} must be a table, found {parameters!r}")
    try:
        return gymnasium.make(name, **(parameters or {}))
    except (gymnasium.error.Error, ImportError, TypeError, ValueError) as error:
        raise InputError(f"gym:{name} cannot be made: {error}") from None
