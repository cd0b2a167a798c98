"""Risks in a few characters, for the command line: ``variance``, ``cvar:0.9``, ``2*variance+kl:prior.npy``."""

import re
from pathlib import Path

import numpy as np

from cautious import KL, CVaR, Entropy, InputError, PeakExposure, Quadratic, Risk, SafeSet, TotalVariation, Variance
from cautious.commands.shared import RISK_FORMS
from cautious.problem_files.risk_entries import array_from_file, refuse_bare_demonstrations

PRIORS: dict[str, type[KL] | type[TotalVariation] | type[Quadratic]] = {
    "kl": KL,
    "tv": TotalVariation,
    "quadratic": Quadratic,
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


def _term(body: str, text: str) -> Risk:
    name, _, rest = body.partition(":")
    name = name.strip().lower()
    if name == "variance" and not rest:
        return Variance()
    if name == "entropy" and not rest:
        return Entropy()
    if name == "cvar" and rest:
        return CVaR(_number(rest, text))
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


def _states(text: str, whole: str) -> list[int] | list[str]:
    """``3,4,7-9`` to a list of states; a list with any other word is a list of names."""
    parts = [part.strip() for part in text.split(",")]
    ranges = [re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", part) for part in parts]
    if "" in parts:
        raise InputError(f"--risk {whole!r}: expected states such as 3,4,7-9 or names, found {text!r}")
    if None in ranges:
        return parts
    states: list[int] = []
    for part, found in zip(parts, ranges, strict=True):
        assert found is not None
        first = int(found.group(1))
        last = first if found.group(2) is None else int(found.group(2))
        if not 0 <= last - first < 10**7:
            raise InputError(f"--risk {whole!r}: {part!r} is not a range of states from low to high")
        states += np.arange(first, last + 1).tolist()
    return states
