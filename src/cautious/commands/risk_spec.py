"""Risks and limits in a few characters: ``variance``, ``2*variance+kl:prior.npy``, ``time:broken<=2%``."""

import re
from pathlib import Path

import numpy as np

from cautious import (
    KL,
    MDP,
    CVaR,
    Entropy,
    Exposure,
    InputError,
    PeakExposure,
    Quadratic,
    Reach,
    Return,
    ReturnBelow,
    ReturnCVaR,
    ReturnEntropic,
    ReturnEVaR,
    ReturnVariance,
    Risk,
    SafeSet,
    TotalVariation,
    Variance,
)
from cautious.commands.shared import LIMIT_FORMS, RISK_FORMS
from cautious.problem_files.risk_entries import array_from_file, matching_states, refuse_bare_demonstrations
from cautious.risks.base import Constraint

# of the name of a limit, which is what was typed
LONGEST_NAME = 60
PRIORS: dict[str, type[KL] | type[TotalVariation] | type[Quadratic]] = {
    "kl": KL,
    "tv": TotalVariation,
    "quadratic": Quadratic,
}
RETURN_RISKS: dict[str, type[ReturnCVaR] | type[ReturnEVaR] | type[ReturnEntropic] | type[ReturnBelow]] = {
    "return-cvar": ReturnCVaR,
    "return-evar": ReturnEVaR,
    "return-entropic": ReturnEntropic,
    "return-below": ReturnBelow,
}


def parse_risk(text: str) -> Risk | None:
    """The risk a text stands for; None for ``none``."""
    if text.strip().lower() == "none":
        return None
    total: Risk | None = None
    # the plus of 1e+3 is part of a number
    for part in re.split(r"\+(?![0-9])|(?<![0-9.][eE])\+", text):
        weight, star, body = part.strip().rpartition("*")
        term = _term(body.strip(), text)
        if star:
            term = _number(weight, text) * term
        total = term if total is None else total + term
    return total


def parse_limit(text: str, mdp: MDP) -> Constraint:
    """The constraint a text stands for: ``time:broken<=2%``, ``ever:3,4<=0.1``, ``return:served.npy>=40``."""
    found = re.fullmatch(r"(.*?)(<=|>=)([^<>=]*)", text.strip())
    if found is None:
        raise InputError(f"--limit {text!r}: expected a measure, <= or >=, and a number, such as {LIMIT_FORMS}")
    measure = _measure(found[1].strip(), text, mdp)
    number, is_percent = found[3].strip().removesuffix("%"), found[3].strip().endswith("%")
    try:
        bound = float(number) / (100 if is_percent else 1)
    except ValueError:
        raise InputError(f"--limit {text!r}: {found[3].strip()!r} is not a number") from None
    return measure <= bound if found[2] == "<=" else measure >= bound


def _measure(body: str, text: str, mdp: MDP) -> Risk:
    name, _, rest = body.partition(":")
    if name in ("time", "ever") and rest:
        states = matching_states(f"--limit {text!r}", _states(rest, text, "--limit"), mdp)
        few = rest if any(isinstance(one, str) for one in states) else f"states {rest}"
        chosen: Risk = (
            Exposure(states, name=few[:LONGEST_NAME]) if name == "time" else Reach(states, name=few[:LONGEST_NAME])
        )
        return chosen
    if name == "return" and rest:
        table: Risk = Return(array_from_file(f"--limit {text!r}", rest, Path(), solutions=False))
        return table
    try:
        risk = parse_risk(body)
    except InputError:
        risk = None
    if risk is None:
        raise InputError(f"--limit {text!r}: cannot read {body!r}; the forms are {LIMIT_FORMS}")
    return risk


def _term(body: str, text: str) -> Risk:
    name, _, rest = body.partition(":")
    name = name.strip().lower()
    if name == "variance" and not rest:
        return Variance()
    if name == "entropy" and not rest:
        return Entropy()
    if name == "cvar" and rest:
        return CVaR(_number(rest, text))
    if name == "return-variance" and not rest:
        return ReturnVariance()
    if name in RETURN_RISKS and rest:
        return RETURN_RISKS[name](_number(rest, text))
    if name == "safe" and ":" in rest:
        slack, _, states = rest.partition(":")
        return SafeSet(_states(states, text), _number(slack, text))
    if name == "peak" and rest:
        return PeakExposure([_states(group, text) for group in rest.split("/")])
    if name in PRIORS and rest:
        refuse_bare_demonstrations(f"--risk {name}", rest)
        return PRIORS[name](array_from_file(f"--risk {name}", rest, Path(), solutions=True))
    raise InputError(
        f"--risk {text!r}: cannot read {body!r}; the forms are {RISK_FORMS} "
        "(STATES such as 3,4,7-9 or names), joined by + and weighted by NUMBER*"
    )


def _number(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"--risk {whole!r}: {text!r} is not a number") from None


def _states(text: str, whole: str, option: str = "--risk") -> list[int] | list[str]:
    """``3,4,7-9`` to a list of states; a list with any other word is a list of names."""
    parts = [part.strip() for part in text.split(",")]
    ranges = [re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", part) for part in parts]
    if "" in parts:
        raise InputError(f"{option} {whole!r}: expected states such as 3,4,7-9 or names, found {text!r}")
    if None in ranges:
        return parts
    states: list[int] = []
    for part, found in zip(parts, ranges, strict=True):
        assert found is not None
        first = int(found.group(1))
        last = first if found.group(2) is None else int(found.group(2))
        if not 0 <= last - first < 10**7:
            raise InputError(f"{option} {whole!r}: {part!r} is not a range of states from low to high")
        states += np.arange(first, last + 1).tolist()
    return states
