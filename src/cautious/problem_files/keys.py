"""Tables of a problem file: which keys they may have, and words to say what is wrong."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from cautious.errors import InputError

# words of other tools and papers, and the keys or kinds they may mean here, likeliest first
SYNONYMS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("names", "rename", "mapping"), ("columns",)),
    **dict.fromkeys(("gamma", "discounting"), ("discount",)),
    **dict.fromkeys(("lambda", "lam", "risk_aversion", "aversion", "penalty"), ("caution", "weight")),
    **dict.fromkeys(("steps", "n_steps", "periods", "epochs", "months", "time_horizon", "criterion"), ("horizon",)),
    **dict.fromkeys(("model", "example"), ("world",)),
    **dict.fromkeys(("path", "csv", "mdp"), ("file",)),
    **dict.fromkeys(("env", "environment", "gymnasium"), ("gym",)),
    **dict.fromkeys(("log", "logs", "data", "history"), ("transitions",)),
    **dict.fromkeys(("initial", "initial_state", "init", "s0", "first"), ("start",)),
    **dict.fromkeys(("options", "kwargs", "arguments"), ("parameters",)),
    **dict.fromkeys(("unit", "units", "currency"), ("reward_unit",)),
    **dict.fromkeys(("period", "time_unit", "step_unit"), ("step",)),
    **dict.fromkeys(("description", "about"), ("story",)),
    **dict.fromkeys(("risks", "objective"), ("risk",)),
    **dict.fromkeys(("type", "name", "measure", "risk"), ("kind",)),
    **dict.fromkeys(("safe", "safe_states", "safe_set"), ("states", "SafeSet")),
    **dict.fromkeys(("danger", "dangers", "exposure"), ("sets", "PeakExposure")),
    **dict.fromkeys(("limit", "epsilon", "delta", "share"), ("slack",)),
    **dict.fromkeys(("alpha", "confidence", "quantile"), ("level",)),
    **dict.fromkeys(("minimum", "minima", "targets"), ("floors",)),
    **dict.fromkeys(("tasks", "rewards"), ("task_rewards",)),
    **dict.fromkeys(("reference", "target", "habit"), ("prior",)),
    **dict.fromkeys(("distance", "distances", "cost"), ("metric",)),
    **dict.fromkeys(("tv", "l1"), ("TotalVariation",)),
    **dict.fromkeys(("w1", "transport"), ("Wasserstein",)),
    **dict.fromkeys(("expected_shortfall", "shortfall", "avar"), ("CVaR",)),
    **dict.fromkeys(("std", "standard_deviation", "volatility"), ("Variance",)),
    **dict.fromkeys(("l2", "euclidean"), ("Quadratic",)),
}
# the table of each key, for errors about keys that were written in the wrong table
TOP = "at the top of the file, above [model]"
PLACES: Mapping[str, str] = {
    "caution": TOP,
    "horizon": TOP,
    "deterministic": TOP,
    "memory": TOP,
    **dict.fromkeys(("world", "file", "gym", "transitions", "discount", "start", "at_end", "columns"), "in [model]"),
    **dict.fromkeys(("title", "story", "step", "reward_unit"), "in [model]"),
    **dict.fromkeys(("kind", "weight", "states", "slack", "sets", "prior", "metric", "level", "floors"), "in [risk]"),
}
NOWHERE: Mapping[str, str] = MappingProxyType({})


def allow(table: Any, where: str, keys: Iterable[str], places: Mapping[str, str] = NOWHERE) -> None:
    """Refuse what is not a table, and the first unknown key; ``places`` says where keys of other tables belong."""
    if not isinstance(table, Mapping):
        raise InputError(f"{where} must be a table, found {table!r}")
    known = list(keys)
    for key in table:
        if key not in known:
            hint = f"it belongs {places[key]}; " if key in places else _nearest(key, known)
            raise InputError(f"{where} has an unknown key {key!r}; {hint}allowed: {', '.join(known)}")


def require(table: Mapping[str, Any], where: str, keys: Iterable[str], hint: str = "") -> None:
    """Refuse a table without one of these keys."""
    for key in keys:
        if key not in table:
            raise InputError(f"{where} needs {key}{hint}")


def one_of(where: str, value: Any, choices: Iterable[str]) -> str:
    """One of some words."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{where} is {value!r}; {_nearest(str(value), known)}it can be {', '.join(known)}")
    return value


def text(where: str, value: Any, what: str = "a name") -> str:
    """A name or another text that is not empty."""
    if not isinstance(value, str) or not value:
        raise InputError(f"{where} must be {what}, found {value!r}")
    return value


def refuse_percent(where: str, value: Any) -> None:
    """Refuse 95 where 0.95 is meant; other numbers are checked where they are used."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 2 <= value <= 100:
        raise InputError(f"{where} is {value:g}; it lies between 0 and 1: {value:g} % is written {value / 100:g}")


def _nearest(word: str, known: list[str]) -> str:
    """A question that names the key that was probably meant: a synonym, one with this beginning, or a similar one."""
    lower, said = {one.lower(): one for one in known}, word.lower()
    meant = [one for one in SYNONYMS.get(said, ()) if one in known]
    begun = [one for key, one in lower.items() if len(said) > 2 and key.startswith(said)]
    close = [lower[key] for key in get_close_matches(said, lower, 1)]
    found = [*meant, *(begun if len(begun) == 1 else []), *close]
    return f"did you mean {found[0]!r}? " if found else ""
