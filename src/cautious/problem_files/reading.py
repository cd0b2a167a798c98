"""``ca.read_problem``: a problem file to a ``ca.Problem``."""

import os
import re
import tomllib
from pathlib import Path
from typing import Any

from cautious.checks import as_flag, as_number
from cautious.errors import FileError, IncompatibleError, InputError
from cautious.problem import Problem
from cautious.problem_files.keys import PLACES, allow
from cautious.problem_files.model_entries import SOURCES, model_of
from cautious.problem_files.risk_entries import Place, constraints_of, risk_of
from cautious.regular_files import as_path, content

LARGEST_FILE = 4 * 2**20


def read_problem(path: str | os.PathLike[str]) -> Problem:
    """The problem in a TOML file.

    ``[model]`` names a world, a model file, a Gymnasium environment or a table of logged transitions; ``[[risk]]`` the
    terms of the risk; ``caution`` is 1 by default; ``horizon`` a number of steps, "average" or "total", without it
    returns are discounted for ever; ``[[constraints]]`` are limits, ``at_most`` or ``at_least``; ``deterministic =
    true`` asks ``ca.solve`` for one action in every state, ``memory = false`` for a policy that does not remember what
    was earned. Files named in it are relative to its folder. Reports use
    the words ``title``, ``story``, ``step`` and ``reward_unit`` of ``[model]``; without a title, the name of the
    model's file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import cautious as ca
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "problem.toml"
    >>> _ = file.write_text('caution = 2.0\\n[model]\\nworld = "river_swim"\\n[risk]\\nkind = "Variance"\\n')
    >>> ca.read_problem(file).caution
    2.0
    """
    source = as_path(path)
    tables = parse(source)
    try:
        allow(
            tables,
            "the problem file",
            ("model", "risk", "caution", "horizon", "deterministic", "memory", "constraints"),
            {**PLACES, "problems": "in a study, for cautious sweep"},
        )
        if "model" not in tables:
            raise InputError(f"[model] is missing; it needs one of {', '.join(SOURCES)}")
        mdp = model_of(tables["model"], source.parent)
        caution = as_number("caution", tables.get("caution", 1.0), 0.0)
        place = Place(source.parent, mdp, tables["model"])
        constraints = constraints_of(tables.get("constraints", []), place)
        risk = risk_of(tables.get("risk"), place)
        problem = Problem(mdp, risk, caution, constraints, tables.get("horizon"))
        problem.deterministic = as_flag("deterministic", tables.get("deterministic", False))
        problem.memory = as_flag("memory", tables.get("memory", True))
        return problem
    except (InputError, IncompatibleError) as error:
        raise FileError(f"{source}: {error}") from None


def parse(source: Path) -> dict[str, Any]:
    """The tables of a TOML file."""
    try:
        text = content(source, LARGEST_FILE).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(f"{source}: not valid TOML: {error}") from None
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise FileError(f"{source}: not valid TOML: {error}{_hint(str(error), text)}") from None
    except RecursionError:
        raise FileError(f"{source}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        # a whole number of thousands of digits
        raise FileError(f"{source}: not readable TOML: {error}") from None


def _hint(problem: str, text: str) -> str:
    """What was probably meant where the text is not valid TOML."""
    if "'risk'" in problem and "twice" in problem:
        return "; for a sum of risks write [[risk]] above each of them"
    place = re.search(r"at line (\d+)", problem)
    line = text.splitlines()[int(place[1]) - 1] if place is not None else ""
    comma = re.search(r"=\s*([+-]?\d+),(\d+)\s*(#|$)", line)
    return f"; decimals have a point: {comma[1]}.{comma[2]}" if comma is not None else ""
