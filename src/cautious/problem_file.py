"""Problem files: a model, its risks and the caution, in TOML.

    caution = 10.0

    [model]
    world = "maze"                        # a built-in world, or: file = "model.npz", written by mdp.save
    parameters = { p = 0.9 }              # of the world; optional

    [[risk]]                              # [risk] for a single one
    kind = "SafeSet"
    states = [0, 1, 2]
    slack = 0.1
    weight = 2.0                          # optional

Arrays are lists, or the name of a file: ``"prior.npy"``, ``"data.npz:prior"``, or for a prior ``"solution.npz"`` (its
policy). A prior may also be demonstrations, ``{ episodes = "x.csv", smoothing = 0.05, at_end = "absorb" }``. Names of
files are relative to the problem file. Whatever is not understood is refused by name.
"""

import inspect
import os
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious import _storage, worlds
from cautious._checks import as_number
from cautious.episodes.demonstrations import Demonstrations, demonstrations
from cautious.errors import FileError, InputError
from cautious.models.files import read_model
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk, Sum, terms_of
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.separable import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.wasserstein import Wasserstein
from cautious.solution import load

LARGEST_FILE = 4 * 2**20
DEMONSTRATIONS_FORM = 'prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" } in a problem file'

# kind -> the fields it needs, and how each is read
FIELDS: dict[str, dict[str, str]] = {
    "SafeSet": {"states": "states", "slack": "number"},
    "TaskFloors": {"task_rewards": "array", "floors": "array"},
    "PeakExposure": {"sets": "sets"},
    "WorstTask": {"task_rewards": "array"},
    "Variance": {},
    "KL": {"prior": "prior"},
    "TotalVariation": {"prior": "prior"},
    "Quadratic": {"prior": "prior"},
    "Wasserstein": {"prior": "prior", "metric": "metric"},
    "CVaR": {"level": "number"},
    "Entropy": {},
}
CLASSES: dict[str, Any] = {
    one.__name__: one
    for one in (SafeSet, TaskFloors, PeakExposure, WorstTask, Variance, KL, TotalVariation, Quadratic, Wasserstein)
} | {"CVaR": CVaR, "Entropy": Entropy}


def read_problem(path: str | os.PathLike[str]) -> Problem:
    """The problem in a TOML file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from cautious.problem_file import read_problem
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "problem.toml"
    >>> _ = file.write_text('caution = 2.0\\n[model]\\nworld = "river_swim"\\n[risk]\\nkind = "Variance"\\n')
    >>> read_problem(file).caution
    2.0
    """
    source = Path(path)
    content = _parse(source)
    try:
        _allow(content, "the problem file", ("model", "risk", "caution"))
        if "model" not in content:
            raise InputError("[model] is missing; it needs world = ... or file = ...")
        mdp = _model(content["model"], source.parent)
        caution = as_number("caution", content.get("caution", 1.0), 0.0)
        return Problem(mdp, _risk(content.get("risk"), source.parent, mdp), caution)
    except FileError:
        raise
    except InputError as error:
        raise FileError(f"{source}: {error}") from None


def _parse(source: Path) -> dict[str, Any]:
    try:
        if source.stat().st_size > LARGEST_FILE:
            raise FileError(
                f"{source}: a problem file of {source.stat().st_size} bytes; put large arrays in .npy files"
            )
        return tomllib.loads(source.read_text("utf-8"))
    except OSError as error:
        raise FileError(f"{source}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise FileError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise FileError(f"{source}: not valid TOML: nested too deeply") from None


def _allow(table: Any, where: str, keys: tuple[str, ...]) -> None:
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table, found {table!r}")
    for key in table:
        if key not in keys:
            raise InputError(f"{where} has an unknown key {key!r}; allowed: {', '.join(keys)}")


def _model(table: Any, folder: Path) -> MDP:
    _allow(table, "[model]", ("world", "file", "parameters"))
    if ("world" in table) == ("file" in table):
        raise InputError("[model] needs exactly one of world and file")
    if "file" in table:
        if "parameters" in table:
            raise InputError("[model] parameters belong to a world, not to a file")
        return read_model(folder / _text("[model] file", table["file"]))
    name = _text("[model] world", table["world"])
    if name not in worlds.names():
        raise InputError(f"[model] world is {name!r}; the worlds are {', '.join(worlds.names())}")
    build = vars(worlds)[name]
    parameters = table.get("parameters", {})
    _allow(parameters, f"[model] parameters of {name}", tuple(inspect.signature(build).parameters))
    try:
        mdp = build(**parameters)
    except (TypeError, OverflowError, MemoryError) as error:
        raise InputError(f"[model] parameters of {name}: {error}") from None
    assert isinstance(mdp, MDP)
    return mdp


def _risk(given: Any, folder: Path, mdp: MDP) -> Risk | None:
    if given is None:
        return None
    several = isinstance(given, list)
    terms: list[tuple[float, Risk]] = []
    for index, table in enumerate(given if several else [given]):
        where = f"[[risk]] number {index + 1}" if several else "[risk]"
        terms += terms_of(_one_risk(table, where, folder, mdp))
    if not terms:
        return None
    return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else Sum(tuple(terms))


def _one_risk(table: Any, where: str, folder: Path, mdp: MDP) -> Risk:
    if not isinstance(table, Mapping) or "kind" not in table:
        raise InputError(f"{where} needs kind = one of {', '.join(FIELDS)}")
    kind = table["kind"]
    if not isinstance(kind, str) or kind not in FIELDS:
        raise InputError(f"{where} kind is {kind!r}; the kinds are {', '.join(FIELDS)}")
    fields = FIELDS[kind]
    _allow(table, f"{where} of kind {kind}", ("kind", "weight", *fields))
    for name in fields:
        if name not in table:
            raise InputError(f"{where} of kind {kind} needs {name}")
    values = [_field(f"{kind}.{name}", form, table[name], folder, mdp) for name, form in fields.items()]
    risk: Risk = CLASSES[kind](*values)
    weight = as_number(f"{where} weight", table.get("weight", 1.0), 0.0)
    return risk if weight == 1 else weight * risk


def _field(name: str, form: str, value: Any, folder: Path, mdp: MDP) -> Any:
    if form == "number":
        return as_number(name, value)
    if form == "sets":
        if not isinstance(value, list) or not all(isinstance(one, list | str) for one in value):
            raise InputError(f"{name} must be a list of sets, each a list of states or the name of a file")
        return [_field(f"{name}[{j}]", "states", one, folder, mdp) for j, one in enumerate(value)]
    if form == "metric" and isinstance(value, Mapping):
        return _graph(name, value)
    if form == "prior" and isinstance(value, Mapping):
        return _demonstrations(name, value, folder, mdp)
    if form == "prior":
        refuse_bare_demonstrations(name, value)
    if isinstance(value, str):
        return array_from_file(name, value, folder, solutions=form == "prior")
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, or the name of a .npy or .npz file, found {value!r}")
    return value


def _demonstrations(name: str, table: Mapping[str, Any], folder: Path, mdp: MDP) -> Demonstrations:
    """``prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" }``."""
    keys = ("episodes", "smoothing", "at_end")
    _allow(table, name, keys)
    for key in keys:
        if key not in table:
            raise InputError(f"{name} needs {key}: {DEMONSTRATIONS_FORM}")
    file = folder / _text(f"{name}.episodes", table["episodes"])
    return demonstrations(file, mdp, smoothing=table["smoothing"], at_end=table["at_end"])


def refuse_bare_demonstrations(name: str, value: Any) -> None:
    """Episodes are no array: how they end and how they are smoothed must be said."""
    if isinstance(value, str) and value.lower().endswith(".csv"):
        raise InputError(f"{name} is {value!r}; episodes need their smoothing and end: {DEMONSTRATIONS_FORM}")


def _graph(name: str, table: Mapping[str, Any]) -> sp.csr_array:
    """``metric = { edges = [[0, 1, 2.5], ...], n_states = 3 }``: a sparse weighted graph."""
    _allow(table, name, ("edges", "n_states"))
    edges, count = table.get("edges"), table.get("n_states")
    if not isinstance(edges, list) or not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise InputError(f"{name} needs edges = [[state, state, distance], ...] and n_states = a whole number")
    for j, edge in enumerate(edges):
        whole = (
            isinstance(edge, list) and len(edge) == 3 and all(type(end) is int and 0 <= end < count for end in edge[:2])
        )
        if not whole:
            raise InputError(
                f"{name}.edges[{j}] is {edge!r}; expected [state, state, distance], states 0 to {count - 1}"
            )
    distances = [as_number(f"{name}.edges[{j}][2]", edge[2], 0.0, open_ends="(") for j, edge in enumerate(edges)]
    ends = ([edge[0] for edge in edges], [edge[1] for edge in edges])
    return sp.csr_array(sp.coo_array((distances, ends), shape=(count, count)))


def array_from_file(name: str, text: str, folder: Path, *, solutions: bool) -> Any:
    """An array named ``x.npy`` or ``x.npz:member``, or a Solution named ``x.npz`` where ``solutions`` are welcome."""
    file, _, member = text.partition(":")
    path = folder / file
    try:
        if path.suffix == ".npy" and not member:
            # a memory map refuses a header that claims more than the file holds, before anything is allocated
            return np.array(np.load(path, mmap_mode="r", allow_pickle=False))
        if path.suffix == ".npz" and member:
            return _member(path, member)
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, SyntaxError, TypeError) as error:
        raise FileError(f"{name}: cannot read {text}: {error}") from None
    if path.suffix == ".npz" and solutions:
        return load(path)
    hint = ", or a solution .npz" if solutions else ""
    raise InputError(
        f"{name} is {text!r}; expected the name of a .npy file or of an array in a .npz file (x.npz:name){hint}"
    )


def _member(path: Path, member: str) -> Any:
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{member}.npy")
        if info.file_size > _storage.LARGEST_RATIO * max(1, info.compress_size):
            raise ValueError(f"{member} would expand {info.compress_size} bytes to {info.file_size}; refused")
    with np.load(path, allow_pickle=False) as arrays:
        return arrays[member]


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{name} must be a name, found {value!r}")
    return value
