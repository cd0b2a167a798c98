"""PROBLEM on the command line: a world, a model file, logged transitions, gym:NAME, or a problem file."""

import inspect
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cautious.commands import completion

if TYPE_CHECKING:
    from cautious import MDP, Problem, Risk

GYM = "gym:"
# advice of the library is Python, such as discount=0.95
PYTHON_ADVICE = re.compile(r"\b(discount|at_end|start|untried|reward_range|horizon)=")
KINDS = {
    "world": "a world",
    "file": "a model file",
    "gym": "a Gymnasium environment",
    "transitions": "a table of logged transitions",
}

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A world's name, a problem file (.toml), a model file of any format, a table of logged transitions (csv, "
        "Parquet), or gym:NAME, a Gymnasium environment.",
        autocompletion=completion.problems,
    ),
]
MODEL_OPTIONS: dict[str, Any] = {
    "discount": Annotated[
        float | None, typer.Option(help="Of a gym: environment, of logged transitions, or of a model file without one.")
    ],
    "at_end": Annotated[
        str | None,
        typer.Option(help="What follows the end of an episode, of an environment or a log: absorb or restart."),
    ],
    "start": Annotated[
        str | None,
        typer.Option(
            help="The first state, by number or name. Default: the model's start distribution, otherwise uniform."
        ),
    ],
    "untried": Annotated[
        str | None,
        typer.Option(help="What to think of pairs that a log never tried: forbid, pessimistic or optimistic."),
    ],
}


# the options that were given, under their keys in a problem file
ModelOptions = Mapping[str, Any]
NO_OPTIONS: ModelOptions = MappingProxyType({})


def with_model_options(command: Callable[..., None]) -> Callable[..., None]:
    """Declare --discount, --at-end, --start and --untried for a command that takes them together as ``options``."""
    signature, kind = inspect.signature(command), inspect.Parameter.POSITIONAL_OR_KEYWORD
    declared = [inspect.Parameter(name, kind, default=None, annotation=one) for name, one in MODEL_OPTIONS.items()]

    @wraps(command)
    def call(**given: Any) -> None:
        options = {name: given.pop(name) for name in MODEL_OPTIONS}
        command(**given, options={name: value for name, value in options.items() if value is not None})

    # typer reads the options of a command off its signature
    parameters = [declared if one.name == "options" else [one] for one in signature.parameters.values()]
    vars(call)["__signature__"] = signature.replace(parameters=list(chain.from_iterable(parameters)))
    return call


def read_problem(
    name: str,
    options: ModelOptions = NO_OPTIONS,
    risk: str | None = None,
    caution: float | None = None,
    horizon: Any = None,
    limits: Sequence[str] = (),
) -> "Problem":
    """A problem by its name on the command line, with another risk, caution or horizon and more limits where given."""
    from cautious import Problem
    from cautious.commands.risk_spec import parse_limit, parse_risk

    found = _own_problem(name, options, horizon)
    if risk is None and caution is None and horizon in (None, found.mdp.horizon) and not limits:
        return found
    chosen: Risk | None = found.unbound_risk if risk is None else parse_risk(risk)
    price, ahead = found.caution if caution is None else caution, found.mdp.horizon if horizon is None else horizon
    mdp = found.mdp.without_memory
    constraints = [*found.constraints, *(parse_limit(limit, mdp) for limit in limits)]
    asked = _in_options(lambda: Problem(mdp, chosen, price, constraints, ahead))
    asked.deterministic, asked.memory = found.deterministic, found.memory
    return asked


def warn_of_deterministic(problem: "Problem", name: str) -> None:
    """Say that a key of the problem file plays no part in this command."""
    if problem.deterministic:
        text = f"cautious: warning: {name} has deterministic = true, which counts for cautious solve only"
        typer.echo(text, err=True)


def read_any(name: str, options: ModelOptions = NO_OPTIONS) -> "tuple[MDP, Problem | None]":
    """A model and the problem it is part of; None where the name is that of a model, which says nothing of horizons."""
    from cautious import worlds

    if name in worlds.names() or Path(name).suffix.lower() == ".toml":
        found = read_problem(name, options)
        return found.mdp, found
    return _model(name, options), None


def _in_options(make: "Callable[[], Problem]") -> "Problem":
    """What the library advises in Python is said in options."""
    from cautious import InputError

    try:
        return make()
    except InputError as error:
        raise type(error)(PYTHON_ADVICE.sub(lambda word: option(word[1]) + " ", str(error))) from None


def _own_problem(name: str, options: ModelOptions, horizon: Any) -> "Problem":
    from cautious import InputError, Problem, worlds
    from cautious import read_problem as read_file

    if Path(name).suffix.lower() == ".toml":
        for key in options:
            raise InputError(f"{option(key)} is not for a problem file: give {key} in {name}, [model]")
        return read_file(name)
    if name in worlds.names():
        model_table(name, options)
        return worlds.problem(name)
    mdp = _model(name, options)
    return _in_options(lambda: Problem(mdp, None, horizon=horizon))


def model_table(name: str, options: ModelOptions) -> dict[str, Any]:
    """The ``[model]`` table of a problem file that means the same."""
    from cautious import InputError
    from cautious.problem_files.model_entries import SOURCES

    source = source_of(name)
    for key in options:
        if key not in SOURCES[source]:
            fitting = [KINDS[one] for one, keys in SOURCES.items() if key in keys]
            raise InputError(f"{option(key)} is for {' or '.join(fitting)}; {name} is {KINDS[source]}")
    table = {source: name.removeprefix(GYM), **options}
    if source == "gym" and options.get("start", "").isdecimal():
        # states of a file may have names such as 1, 2, 3; those of an environment are numbers
        table["start"] = int(options["start"])
    return table


def source_of(name: str) -> str:
    """What a name is, as a key of ``[model]``: world, file, gym or transitions."""
    from cautious import FileError, InputError, worlds
    from cautious.checks import did_you_mean
    from cautious.problem_files.model_entries import TABLE_SUFFIXES, holds_transitions
    from cautious.regular_files import exists

    if name in worlds.names():
        return "world"
    if name.startswith(GYM):
        return "gym"
    path = Path(name)
    if path.suffix and not exists(path):
        raise FileError(f"{name}: no such file")
    if path.suffix.lower() in TABLE_SUFFIXES:
        return "transitions" if holds_transitions(path) else "file"
    if exists(path):
        return "file"
    hint = did_you_mean(name, worlds.names()) or ";"
    raise InputError(
        f"{name!r} is neither a world nor a file nor gym:NAME{hint} the worlds are {', '.join(worlds.names())}"
    )


def gym_table(name: str, options: ModelOptions) -> dict[str, Any]:
    """The ``[model]`` table of a gym: problem; its discount and end of episodes are required."""
    from cautious import InputError

    table = model_table(name, options)
    for key in ("discount", "at_end"):
        if key not in table:
            raise InputError(f"{name} needs {option(key)}, such as --discount 0.99 --at-end absorb")
    return table


def _model(name: str, options: ModelOptions) -> "MDP":
    from cautious import InputError
    from cautious.problem_files.model_entries import gym_model, model_of

    try:
        if not name.startswith(GYM):
            return model_of(model_table(name, options), Path())
        # unlike a problem file, a name that was typed may import the module it names
        table = gym_table(name, options)
        return gym_model(table.pop("gym"), {}, table)
    except InputError as error:
        raise type(error)(PYTHON_ADVICE.sub(lambda word: option(word[1]) + " ", str(error))) from None


def start_note(name: str, options: ModelOptions, mdp: "MDP") -> str | None:
    """A note that the start is uniform by default; None where a start was chosen, or may have been.

    Worlds and environments have a start of their own, and the files of other formats may hold one: only a problem file
    and a plain table are known to have none.
    """
    from cautious.problem_files.model_entries import TABLE_SUFFIXES
    from cautious.problem_files.reading import LARGEST_FILE
    from cautious.regular_files import content, exists

    is_uniform = mdp.n_states > 1 and bool((mdp.start == mdp.start[0]).all())
    if not is_uniform or "start" in options:
        return None
    path, advice = Path(name), None
    if path.suffix.lower() == ".toml":
        tables = tomllib.loads(content(path, LARGEST_FILE).decode("utf-8"))
        advice = None if "start" in tables.get("model", {}) else "start in its [model] chooses one"
    elif path.suffix.lower() in TABLE_SUFFIXES and not exists(path.with_name(path.name + ".json")):
        advice = f"{option('start')} chooses one"
    return None if advice is None else f"any of the {mdp.n_states:,} states alike ({advice})"


def option(key: str) -> str:
    """The command-line option of a key of a problem file."""
    return "--" + key.replace("_", "-")
