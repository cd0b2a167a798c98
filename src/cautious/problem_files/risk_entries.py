"""The ``[risk]`` and ``[[risk]]`` tables of a problem file, read and written.

Arrays are lists, or the names of files: ``"prior.npy"``, ``"data.npz:prior"``, or for a prior ``"solution.npz"`` (its
policy). Files are read without pickle, and what they claim is checked before memory is taken.
"""

import fnmatch
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious import storage
from cautious.checks import as_number
from cautious.episodes.demonstrations import Demonstrations, demonstrations
from cautious.errors import FileError, InputError, shown
from cautious.models.tabular import MDP
from cautious.problem_files.keys import PLACES, allow, one_of, refuse_percent, require, text
from cautious.problem_files.model_entries import model_of
from cautious.risks.base import Constraint, Risk, Sum, terms_of
from cautious.risks.public import PUBLIC_RISKS
from cautious.solution import load


@dataclass(frozen=True)
class Place:
    """What a table of a problem file refers to: the folder of the file, the model, and the table of the model."""

    folder: Path
    mdp: MDP
    model: Mapping[str, Any]


DEMONSTRATIONS_FORM = 'prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" } in a problem file'


def risk_of(given: Any, place: Place) -> Risk | None:
    """The weighted sum of the tables; None without any."""
    if given is None:
        return None
    several = isinstance(given, list)
    terms: list[tuple[float, Risk]] = []
    for index, table in enumerate(given if several else [given]):
        where = f"[[risk]] number {index + 1}" if several else "[risk]"
        terms += terms_of(_one_risk(table, where, place))
    if not terms:
        return None
    return terms[0][1] if len(terms) == 1 and terms[0][0] == 1 else Sum(tuple(terms))


def constraints_of(given: Any, place: Place) -> list[Constraint]:
    """The constraints of the tables: a measure as in ``[risk]``, with ``at_most`` or ``at_least``."""
    if not isinstance(given, list):
        raise InputError("constraints are tables: write [[constraints]] above each of them")
    found = []
    for index, table in enumerate(given):
        where = f"[[constraints]] number {index + 1}"
        if not isinstance(table, Mapping):
            raise InputError(f"{where} must be a table with kind, and at_most or at_least")
        sides = [side for side in ("at_most", "at_least") if side in table]
        if len(sides) != 1:
            raise InputError(f"{where} needs either at_most = a number or at_least = a number")
        bound = as_number(f"{where} {sides[0]}", table[sides[0]])
        measure = _one_risk({key: value for key, value in table.items() if key != sides[0]}, where, place)
        found.append(measure <= bound if sides[0] == "at_most" else measure >= bound)
    return found


def _one_risk(table: Any, where: str, place: Place) -> Risk:
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table with kind = one of {', '.join(PUBLIC_RISKS)}")
    if "kind" not in table:
        fields = dict.fromkeys(name for kind in PUBLIC_RISKS.values() for name in kind.fields_in_files)
        allow(table, where, ("kind", "weight", *fields), PLACES)
        raise InputError(f"{where} needs kind = one of {', '.join(PUBLIC_RISKS)}")
    kind = one_of(f"{where} kind", table["kind"], PUBLIC_RISKS)
    forms = PUBLIC_RISKS[kind].fields_in_files
    strange = {key: place for key, place in PLACES.items() if place != "in [risk]"}
    allow(table, f"{where} of kind {kind}", ("kind", "weight", *forms), strange)
    require(table, f"{where} of kind {kind}", [name for name, form in forms.items() if form != "name"])
    given = {name: form for name, form in forms.items() if name in table}
    values = {name: _field(f"{kind}.{name}", form, table[name], place) for name, form in given.items()}
    risk: Risk = PUBLIC_RISKS[kind](**values)
    weight = as_number(f"{where} weight", table.get("weight", 1.0), 0.0)
    return risk if weight == 1 else weight * risk


def _field(name: str, form: str, value: Any, place: Place) -> Any:
    if form == "name":
        return value
    if form == "number":
        return as_number(name, value)
    if form == "share":
        refuse_percent(name, value)
        return as_number(name, value)
    if form == "sets":
        if not isinstance(value, list) or not all(isinstance(one, list | str) for one in value):
            raise InputError(f"{name} must be a list of sets, each a list of states or the name of a file")
        for one in value:
            if isinstance(one, str) and ".np" not in one:
                raise InputError(f'{name} must be a list of sets, such as [["a", "b"], ["c"]], found {shown(value)}')
        return [_field(f"{name}[{j}]", "states", one, place) for j, one in enumerate(value)]
    if form == "metric" and isinstance(value, Mapping):
        return _graph(name, value)
    if form == "prior" and isinstance(value, Mapping):
        return _demonstrations(name, value, place.folder, place.mdp)
    if form == "prior":
        refuse_bare_demonstrations(name, value)
    if form == "rewards" and isinstance(value, Mapping):
        return _sum_of_columns(name, value, place)
    if isinstance(value, str):
        return array_from_file(name, value, place.folder, solutions=form == "prior")
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, or the name of a .npy or .npz file, found {value!r}")
    if form == "states" and len({isinstance(one, str) for one in value}) > 1:
        raise InputError(f"{name} mixes numbers and names of states, found {shown(value)}")
    return matching_states(name, value, place.mdp) if form == "states" else value


def matching_states(name: str, states: list[Any], mdp: MDP) -> list[Any]:
    """The states, with every name that matches a pattern such as ``failed*`` in its place."""
    known = mdp.state_names
    if known is None or not any(isinstance(one, str) and set(one) & set("*?") for one in states):
        return states
    found: list[str] = []
    for one in states:
        matching = [one] if one in known else fnmatch.filter(known, one)
        if not matching:
            raise InputError(f"{name}: no state matches {one!r}; the states are {shown(list(known))}")
        found += matching
    return list(dict.fromkeys(found))


def _sum_of_columns(name: str, weights: Mapping[str, Any], place: Place) -> Any:
    """``rewards = { served = 1, orders = -0.95 }``: columns of the table that the model came from, with weights."""
    source = next((key for key in ("transitions", "file") if key in place.model), None)
    if source is None:
        raise InputError(f"{name} names columns, and the model is not a table; give an array or the name of a file")
    if place.model.get("untried", "forbid") != "forbid":
        raise InputError(f'{name} names columns, which say nothing of pairs that were never tried: untried = "forbid"')
    if not weights:
        raise InputError(f"{name} needs at least one column with its weight, such as {{ served = 1 }}")
    total = np.zeros(place.mdp.shape)
    for column, given in weights.items():
        weight = as_number(f"{name}.{column}", given)
        columns = {**place.model.get("columns", {}), "reward": column}
        total += weight * model_of({**place.model, "columns": columns}, place.folder).rewards
    return total


def _demonstrations(name: str, table: Mapping[str, Any], folder: Path, mdp: MDP) -> Demonstrations:
    """``prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" }``."""
    keys = ("episodes", "smoothing", "at_end")
    allow(table, name, keys)
    require(table, name, keys, f": {DEMONSTRATIONS_FORM}")
    file = folder / text(f"{name}.episodes", table["episodes"])
    return demonstrations(file, mdp, smoothing=table["smoothing"], at_end=table["at_end"])


def refuse_bare_demonstrations(name: str, value: Any) -> None:
    """Refuse the bare name of a file of episodes: their end and their smoothing must be given too."""
    if isinstance(value, str) and value.lower().endswith(".csv"):
        raise InputError(f"{name} is {value!r}; episodes need their smoothing and end: {DEMONSTRATIONS_FORM}")


def array_from_file(name: str, text: str, folder: Path, *, solutions: bool) -> Any:
    """An array named ``x.npy`` or ``x.npz:member``, or a Solution named ``x.npz`` where ``solutions`` are allowed."""
    file, _, member = text.partition(":")
    path = folder / file
    try:
        if path.suffix == ".npy" and not member:
            return storage.read_npy(path)
        if path.suffix == ".npz" and member:
            return storage.take(path, storage.read_arrays(path, [member]), member)
    except FileError as error:
        raise FileError(f"{name}: cannot read {text:.200}: {error}") from None
    if path.suffix == ".npz" and solutions:
        return load(path)
    hint = ", or a solution .npz" if solutions else ""
    raise InputError(
        f"{name} is {text!r}; expected the name of a .npy file or of an array in a .npz file (x.npz:name){hint}"
    )


def _graph(name: str, table: Mapping[str, Any]) -> sp.csr_array:
    """``metric = { edges = [[0, 1, 2.5], ...], n_states = 3 }``: a sparse weighted graph."""
    allow(table, name, ("edges", "n_states"))
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


def written_constraint(constraint: Constraint, folder: Path) -> list[str]:
    """The lines of ``[[constraints]]`` that describe one."""
    side = "at_most" if constraint.sense == "<=" else "at_least"
    lines = written_risk(constraint.measure, folder, "[[constraints]]")
    return [*lines, f"{side} = {constraint.bound!r}"]


def written_risk(risk: Risk, folder: Path, header: str = "[risk]") -> list[str]:
    """The lines of ``[risk]`` that describe one of these kinds, without a weight; a prior is saved beside the file."""
    kind = type(risk).__name__
    lines = [header, f'kind = "{kind}"']
    for name, form in PUBLIC_RISKS[kind].fields_in_files.items():
        value = getattr(risk, name)
        if form == "name" and not value:
            continue
        if form == "prior":
            np.save(folder / "prior.npy", value)
            value = "prior.npy"
        lines.append(f"{name} = {json.dumps(value, default=np.ndarray.tolist)}")
    return lines
