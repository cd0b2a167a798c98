"""The ``[risk]`` and ``[[risk]]`` tables of a problem file."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cautious.checks import as_number
from cautious.episodes.demonstrations import Demonstrations, demonstrations
from cautious.errors import InputError
from cautious.models.tabular import MDP
from cautious.problem_files.array_values import array_from_file, graph
from cautious.problem_files.keys import PLACES, allow, one_of, refuse_percent, text
from cautious.risks.base import Risk, Sum, terms_of
from cautious.risks.divergence import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.wasserstein import Wasserstein

DEMONSTRATIONS_FORM = 'prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" } in a problem file'

# kind -> the fields it needs, and how each is read
FIELDS: dict[str, dict[str, str]] = {
    "SafeSet": {"states": "states", "slack": "share"},
    "TaskFloors": {"task_rewards": "array", "floors": "array"},
    "PeakExposure": {"sets": "sets"},
    "WorstTask": {"task_rewards": "array"},
    "Variance": {},
    "KL": {"prior": "prior"},
    "TotalVariation": {"prior": "prior"},
    "Quadratic": {"prior": "prior"},
    "Wasserstein": {"prior": "prior", "metric": "metric"},
    "CVaR": {"level": "share"},
    "Entropy": {},
}
CLASSES: dict[str, Any] = {
    one.__name__: one
    for one in (SafeSet, TaskFloors, PeakExposure, WorstTask, Variance, KL, TotalVariation, Quadratic, Wasserstein)
} | {"CVaR": CVaR, "Entropy": Entropy}


def risk_of(given: Any, folder: Path, mdp: MDP) -> Risk | None:
    """The weighted sum of the tables; None without any."""
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
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table with kind = one of {', '.join(FIELDS)}")
    if "kind" not in table:
        every = ("kind", "weight", *dict.fromkeys(name for fields in FIELDS.values() for name in fields))
        allow(table, where, every, PLACES)
        raise InputError(f"{where} needs kind = one of {', '.join(FIELDS)}")
    kind = one_of(f"{where} kind", table["kind"], FIELDS)
    fields = FIELDS[kind]
    strange = {key: place for key, place in PLACES.items() if place != "in [risk]"}
    allow(table, f"{where} of kind {kind}", ("kind", "weight", *fields), strange)
    for name in fields:
        if name not in table:
            raise InputError(f"{where} of kind {kind} needs {name}")
    values = [_field(f"{kind}.{name}", form, table[name], folder, mdp) for name, form in fields.items()]
    risk: Risk = CLASSES[kind](*values)
    weight = as_number(f"{where} weight", table.get("weight", 1.0), 0.0)
    return risk if weight == 1 else weight * risk


def _field(name: str, form: str, value: Any, folder: Path, mdp: MDP) -> Any:
    if form == "share":
        refuse_percent(name, value)
        return as_number(name, value)
    if form == "sets":
        if not isinstance(value, list) or not all(isinstance(one, list | str) for one in value):
            raise InputError(f"{name} must be a list of sets, each a list of states or the name of a file")
        for one in value:
            if isinstance(one, str) and ".np" not in one:
                raise InputError(f'{name} must be a list of sets, such as [["a", "b"], ["c"]], found {value!r:.80}')
        return [_field(f"{name}[{j}]", "states", one, folder, mdp) for j, one in enumerate(value)]
    if form == "metric" and isinstance(value, Mapping):
        return graph(name, value)
    if form == "prior" and isinstance(value, Mapping):
        return _demonstrations(name, value, folder, mdp)
    if form == "prior":
        refuse_bare_demonstrations(name, value)
    if isinstance(value, str):
        return array_from_file(name, value, folder, solutions=form == "prior")
    if not isinstance(value, list):
        raise InputError(f"{name} must be a list, or the name of a .npy or .npz file, found {value!r}")
    if form == "states" and len({isinstance(one, str) for one in value}) > 1:
        raise InputError(f"{name} mixes numbers and names of states, found {value!r:.80}")
    return value


def _demonstrations(name: str, table: Mapping[str, Any], folder: Path, mdp: MDP) -> Demonstrations:
    """``prior = { episodes = "demos.csv", smoothing = 0.05, at_end = "absorb" }``."""
    keys = ("episodes", "smoothing", "at_end")
    allow(table, name, keys)
    for key in keys:
        if key not in table:
            raise InputError(f"{name} needs {key}: {DEMONSTRATIONS_FORM}")
    file = folder / text(f"{name}.episodes", table["episodes"])
    return demonstrations(file, mdp, smoothing=table["smoothing"], at_end=table["at_end"])


def refuse_bare_demonstrations(name: str, value: Any) -> None:
    """Episodes are no array: how they end and how they are smoothed must be said."""
    if isinstance(value, str) and value.lower().endswith(".csv"):
        raise InputError(f"{name} is {value!r}; episodes need their smoothing and end: {DEMONSTRATIONS_FORM}")
