"""Targets of the solvers, judged by code from the rows of a run.

Every target is one line: what is required, what was measured, and whether it is met; None where the run has no rows for
it. Ratios are the best peer's time over ours, at the same certified gap. Where no peer proved its answer, ours being
proved is enough.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import Any

from _case import SHAPES
from _rows import PEERS, SUMS, Row, best_of_group, proved, ratio
from cautious.peers.roster import owner

LEVEL = 0.8
GROWTH = 1.2
ROUGH = 1e-4
FEATURES = ("SafeSet", "TaskFloors", "PeakExposure", "WorstTask")
SCALAR = ("Variance", "CVaR")
TIMES = {"KL": 25, "Entropy": 25, "SafeSet": 35, "TaskFloors": 20, "WorstTask": 20, "PeakExposure": 8}
TIMES |= {"KL (states)": 6, "TotalVariation": 12, "TotalVariation (states)": 12, "Wasserstein (graph)": 8}
TIMES |= {"Quadratic": 3, "Quadratic (states)": 3}
SWEEPS = {"none": 250, "KL": 1000, "Entropy": 1000}
EXACT_AT_SCALE = ("none", "KL", "Entropy", *FEATURES, *SCALAR, "Quadratic", "Quadratic (states)")
ROUGH_AT_SCALE = ("KL (states)", "TotalVariation", "TotalVariation (states)", "Wasserstein (graph)", *SUMS)
NEAR_ONE = ("none", "KL", "SafeSet", "PeakExposure")


@dataclass(frozen=True)
class Line:
    """One target; ``met`` is None when nothing was measured, or nothing is required."""

    what: str
    required: str
    measured: str
    met: bool | None


def pick(rows: Iterable[Row], **wanted: Any) -> list[Row]:
    """Rows whose fields have these values; a tuple is a choice."""

    def fits(row: Row) -> bool:
        return all(row[key] in (value if isinstance(value, tuple) else (value,)) for key, value in wanted.items())

    return [row for row in rows if fits(row)]


def growth(rows: Iterable[Row]) -> dict[tuple[str, float, str], list[tuple[int, float]]]:
    """Exponents of time in states between neighbouring sizes: (model, discount, risk) -> [(larger size, exponent)]."""
    series: dict[tuple[str, float, str], dict[int, float]] = {}
    for row in pick(rows, table=("compare", "scale")):
        if row["own"]["seconds"]:
            key = (row["model"], row["discount"], row["risk"])
            series.setdefault(key, {})[row["n_states"]] = row["own"]["seconds"]
    found = {}
    for key, times in series.items():
        sizes = sorted(times)
        found[key] = [(big, log(times[big] / times[small]) / log(big / small)) for small, big in pairwise(sizes)]
    return found


def lines(rows: Sequence[Row]) -> list[Line]:
    """Every target."""
    return [
        *_neutral(rows),
        *_against_peers(rows),
        *_at_scale(rows),
        *_everywhere(rows),
        *_near_one(rows),
        *_rest(rows),
    ]


def _all(what: str, required: str, rows: Sequence[Row], judged: Callable[[Row], tuple[float | None, bool]]) -> Line:
    """A target that every one of the rows has to meet; the worst of those that miss it is named, or the first row."""
    if not rows:
        return Line(what, required, "not measured", None)
    verdicts = [(row, *judged(row)) for row in rows]
    missed = [(row, value) for row, value, met in verdicts if not met]
    if not missed:
        values = [value for _, value, _ in verdicts if value is not None]
        return Line(
            what, required, f"{min(values):.3g} to {max(values):.3g}" if len(values) > 1 else _one(values), True
        )
    said = "; ".join(f"{name(row)}: {_one([value])}" for row, value in missed[:4])
    return Line(what, required, f"{len(missed)} of {len(rows)} miss it: {said}", False)


def name(row: Row) -> str:
    """What a row is called in a line."""
    return f"{row['risk']}, {row['model']} {row['n_states']:,} at {row['discount']:g}"


def _one(values: Sequence[float | None]) -> str:
    return "no proof" if not values or values[0] is None else f"{values[0]:.3g}"


def _contested(rows: Iterable[Row], group: str | None = None) -> list[Row]:
    """The rows in which a peer (of a group) took part."""
    return [row for row in rows if any(group in (None, owner(peer["solver"])) for peer in row["peers"])]


def _at_least(least: float, group: str | None = None) -> Callable[[Row], tuple[float | None, bool]]:
    """The ratio to the best peer (of a group); a peer whose answer is not proved does not count."""

    def judged(row: Row) -> tuple[float | None, bool]:
        best = row["best_peer"] if group is None else best_of_group(row, group)
        if not proved(row["own"]):
            return None, False
        times = ratio(row["own"], best)
        return times, not proved(best) or (times is not None and times >= least)

    return judged


def _at_most(key: str, most: float) -> Callable[[Row], tuple[float | None, bool]]:
    """A number of our own row, which has to be proved."""

    def judged(row: Row) -> tuple[float | None, bool]:
        value = row["own"].get(key)
        return value, proved(row["own"]) and value is not None and value <= most

    return judged


def _gap_within(most: float | None) -> Callable[[Row], tuple[float | None, bool]]:
    """Our certified gap; None asks only that some gap was proved."""
    return lambda row: (
        row["own"]["gap"],
        row["own"]["gap"] is not None and (most is None or row["own"]["gap"] <= most),
    )


def _neutral(rows: Sequence[Row]) -> list[Line]:
    large = pick(rows, model="grid", n_states=10_000, risk="none")
    compared, near = pick(large, table="compare"), pick(large, table="near one", discount=0.999)
    by_cvxpy = _contested(pick(compared, discount=0.95), "CVXPY")
    found = [_all("neutral against CVXPY", ">= 80 times", by_cvxpy, _at_least(80, "CVXPY"))]
    for group in ("QuantEcon", "Storm"):
        required = f"level at discounts .95 and .99 (>= {LEVEL:g} times)"
        what, there = f"neutral against {group}", _contested(near, group)
        found.append(_all(what, required, _contested(compared, group), _at_least(LEVEL, group)))
        found.append(_all(f"{what}, discount .999", ">= 5 times", there, _at_least(5, group)))
    rows = _contested(compared, "MDPSolver")
    found.append(_all("neutral against MDPSolver", ">= 5 times", rows, _at_least(5, "MDPSolver")))
    return found


def _against_peers(rows: Sequence[Row]) -> list[Line]:
    large = pick(rows, table="compare", model="grid", n_states=10_000, discount=0.95)
    found = [
        _all(f"{risk} against the best peer", f">= {least} times", _contested(pick(large, risk=risk)), _at_least(least))
        for risk, least in TIMES.items()
    ]
    for risk in SCALAR:
        judged = _at_most("planning_solves", 30)
        found.append(_all(f"{risk}, global", "<= 30 planning solves", pick(large, risk=risk), judged))
    return [*found, _all("sums", "certified to 1e-6", pick(large, risk=SUMS), _gap_within(1e-6))]


def _at_scale(rows: Sequence[Row]) -> list[Line]:
    scale = pick(rows, table="scale", model="grid", discount=0.95)
    million = pick(scale, n_states=1_000_000)
    exponents = growth(rows)

    def grows(row: Row) -> tuple[float | None, bool]:
        found = dict(exponents.get((row["model"], row["discount"], row["risk"]), ()))
        exponent = found.get(row["n_states"])
        return exponent, exponent is not None and exponent <= GROWTH

    found = []
    for risk in EXACT_AT_SCALE:
        at = (100_000,) if risk.startswith("Quadratic") else (100_000, 1_000_000)
        here = [row for row in pick(scale, risk=risk) if row["n_states"] in at]
        sizes = " and ".join(f"{size:,}" for size in at)
        found.append(_all(f"{risk} at {sizes} states", "certified to 1e-6", here, _gap_within(1e-6)))
        found.append(_all(f"{risk}, growth up to {at[-1]:,} states", f"exponent <= {GROWTH}", here, grows))
    for risk, most in SWEEPS.items():
        line = _all(
            f"{risk} at 1,000,000 states", f"<= {most} sweeps", pick(million, risk=risk), _at_most("sweeps", most)
        )
        found.append(line)
    rough = pick(scale, n_states=100_000, risk=ROUGH_AT_SCALE)
    found.append(
        _all("distances to a prior and sums at 100,000 states", "certified to 1e-4", rough, _gap_within(ROUGH))
    )
    rest = pick(million, risk=("Quadratic", "Quadratic (states)", *(r for r in ROUGH_AT_SCALE if r not in SUMS)))
    found.append(_all("distances to a prior at 1,000,000 states", "some gap is proved", rest, _gap_within(None)))
    memory = _at_most("times_model", 4.0)
    # those that have to be solved at this size
    exact = [row for row in pick(million, risk=EXACT_AT_SCALE) if not row["risk"].startswith("Quadratic")]
    return [*found, _all("memory at 1,000,000 states", "<= 4 times the model", exact, memory)]


def _everywhere(rows: Sequence[Row]) -> list[Line]:
    compared = pick(rows, table="compare")
    small, middle = pick(compared, n_states=100), _contested(pick(compared, n_states=1000))
    garnets = pick(compared, model="garnet", n_states=10_000)
    every = tuple(risk for risk in PEERS if risk != "Wasserstein (matrix)")
    shapes = pick(compared, model=tuple(SHAPES))
    variation = pick(garnets, risk=("TotalVariation", "TotalVariation (states)"))
    return [
        _all("every risk at 100 states", "< 0.03 s", small, _at_most("seconds", 0.03)),
        _all("every risk at 1,000 states", "at most 1.5 times the best peer's time", middle, _at_least(1 / 1.5)),
        _all("garnets of 10,000 states", "certified to 1e-6", pick(garnets, risk=every), _gap_within(1e-6)),
        _all("total variation on garnets of 10,000 states", "< 20 s", variation, _at_most("seconds", 20.0)),
        _all("other shapes of models", "certified to 1e-6", shapes, _gap_within(1e-6)),
        _all("other shapes of models, against the best peer", ">= 1 times", _contested(shapes), _at_least(1.0)),
    ]


def _near_one(rows: Sequence[Row]) -> list[Line]:
    near = pick(rows, table="near one")
    return [
        _all(f"{risk} at discounts .999 and .9999", "certified to 1e-6", pick(near, risk=risk), _gap_within(1e-6))
        for risk in NEAR_ONE
    ]


def _rest(rows: Sequence[Row]) -> list[Line]:
    solves = [row["own"]["single_solves"] for row in pick(rows, table="frontier")]
    told = f"{min(solves):.3g} to {max(solves):.3g} single solves" if solves else "not measured"
    threads = pick(rows, table="threads")
    together = {(row["n_states"], row["model"]): row for row in threads if row["threads"] is None}

    def faster(row: Row) -> tuple[float | None, bool]:
        other = together.get((row["n_states"], row["model"]))
        alone, all_cores = row["own"].get("wall_seconds"), other and other["own"].get("wall_seconds")
        gain = alone / all_cores if alone and all_cores else None
        # a twentieth is what the clock cannot tell apart
        return gain, gain is not None and gain >= 0.95

    pairs = [row for row in threads if row["threads"] == 1]
    frontiers = Line("30 points of a frontier", "told", told, None)
    return [frontiers, _all("all cores against one", "never slower", pairs, faster)]
