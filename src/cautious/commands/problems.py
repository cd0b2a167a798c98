"""PROBLEM on the command line: a world, a model file, logged transitions, gym:NAME, or a problem file."""

import re
import tomllib
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cautious.commands import completion

if TYPE_CHECKING:
    from cautious import MDP, Problem, Risk

GYM = "gym:"
TABLES = (".csv", ".parquet", ".pq", ".arrow", ".arr", ".feather", ".ipc")
ADVICE = re.compile(r"\b(discount|at_end|start|untried|reward_range)=")
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
Discount = Annotated[
    float | None, typer.Option(help="Of a gym: environment, of logged transitions, or of a model file without one.")
]
AtEnd = Annotated[
    str | None, typer.Option(help="What follows the end of an episode, of an environment or a log: absorb or restart.")
]
Start = Annotated[
    str | None,
    typer.Option(help="The first state, by number or name. Default: what the source says, else any state alike."),
]
Untried = Annotated[
    str | None,
    typer.Option(help="What to think of pairs that a log never tried: forbid, pessimistic or optimistic."),
]


@dataclass(frozen=True)
class Said:
    """The options that say more about a model than PROBLEM does; None where nothing was said."""

    discount: float | None = None
    at_end: str | None = None
    start: str | None = None
    untried: str | None = None
    reward_range: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """Those that were, by the words of a problem file."""
        words = {key: value for key, value in asdict(self).items() if value is not None}
        if self.start is not None and self.start.isdecimal():
            words["start"] = int(self.start)
        if self.reward_range is not None:
            words["reward_range"] = _two_numbers(self.reward_range)
        return words


NOTHING = Said()


def _two_numbers(text: str) -> list[float]:
    from cautious import InputError

    try:
        low, high = (float(part) for part in text.split(","))
    except ValueError:
        raise InputError(f"--reward-range {text!r}: expected two numbers such as -10,5") from None
    return [low, high]


def read_problem(name: str, said: Said = NOTHING, risk: str | None = None, caution: float | None = None) -> "Problem":
    """A problem by its name on the command line, with another risk or caution where given."""
    from cautious import Problem
    from cautious.commands.risk_spec import parse_risk

    found = _own_problem(name, said)
    if risk is None and caution is None:
        return found
    chosen: Risk | None = found.unbound_risk if risk is None else parse_risk(risk)
    return Problem(found.mdp, chosen, found.caution if caution is None else caution)


def _own_problem(name: str, said: Said) -> "Problem":
    from cautious import InputError, Problem, worlds
    from cautious import read_problem as read_file

    if Path(name).suffix.lower() == ".toml":
        for key in said.given:
            raise InputError(f"{option(key)} is not for a problem file: give {key} in {name}, [model]")
        return read_file(name)
    if name in worlds.names():
        model_table(name, said)
        return worlds.problem(name)
    return Problem(_model(name, said), None)


def model_table(name: str, said: Said) -> dict[str, Any]:
    """What ``[model]`` of a problem file would say."""
    from cautious import InputError
    from cautious.problem_files.model_entries import SOURCES

    source = source_of(name)
    for key in said.given:
        if key not in SOURCES[source]:
            fitting = [KINDS[one] for one, keys in SOURCES.items() if key in keys]
            raise InputError(f"{option(key)} is for {' or '.join(fitting)}; {name} is {KINDS[source]}")
    table = {source: name.removeprefix(GYM) if source == "gym" else name} | said.given
    if source in ("file", "transitions") and said.start is not None:
        # states of a file may be called 1, 2, 3: the name counts before the number
        table["start"] = said.start
    return table


def source_of(name: str) -> str:
    """Which kind of thing a name is: a word of ``[model]``."""
    from cautious import FileError, InputError, worlds
    from cautious.problem_files.model_entries import holds_transitions
    from cautious.tables.arrow_files import ARROW, PARQUET

    if name in worlds.names():
        return "world"
    if name.startswith(GYM):
        return "gym"
    path = Path(name)
    if path.suffix and not path.exists():
        raise FileError(f"{name}: no such file")
    if path.suffix.lower() in (".csv", *PARQUET, *ARROW):
        return "transitions" if holds_transitions(path) else "file"
    if path.exists():
        return "file"
    close = get_close_matches(name, worlds.names(), 1)
    hint = f"did you mean {close[0]}? " if close else ""
    raise InputError(
        f"{name!r} is neither a world nor a file nor gym:NAME; {hint}the worlds are {', '.join(worlds.names())}"
    )


def gym_table(name: str, said: Said) -> dict[str, Any]:
    """The table of a gym: problem, complete."""
    from cautious import InputError

    table = model_table(name, said)
    for key in ("discount", "at_end"):
        if key not in table:
            raise InputError(f"{name} needs {option(key)}, such as --discount 0.99 --at-end absorb")
    return table


def _model(name: str, said: Said) -> "MDP":
    from cautious import InputError
    from cautious.problem_files.model_entries import gym_model, model_of

    try:
        if not name.startswith(GYM):
            return model_of(model_table(name, said), Path())
        # unlike a problem file, a name that was typed may import the module it names
        table = gym_table(name, said)
        return gym_model(table.pop("gym"), {}, table)
    except InputError as error:
        # the library's advice is Python, such as discount=0.95
        raise type(error)(ADVICE.sub(lambda word: option(word[1]) + " ", str(error))) from None


def start_note(name: str, said: Said, mdp: "MDP") -> str | None:
    """That every state is as likely to be the first, where nobody chose that; None where somebody chose, or may have.

    A world and an environment start where they start, and the files of other formats may hold a start: only a problem
    file and a plain table are known to leave it open.
    """
    even = mdp.n_states > 1 and bool((mdp.start == mdp.start[0]).all())
    if not even or said.start is not None:
        return None
    path, advice = Path(name), None
    if path.suffix.lower() == ".toml":
        with path.open("rb") as file:
            advice = None if "start" in tomllib.load(file).get("model", {}) else "start in its [model] chooses one"
    elif path.suffix.lower() in TABLES and not path.with_name(path.name + ".json").exists():
        advice = f"{option('start')} chooses one"
    return None if advice is None else f"any of the {mdp.n_states:,} states alike ({advice})"


def option(key: str) -> str:
    """A word of a problem file as an option."""
    return "--" + key.replace("_", "-")
