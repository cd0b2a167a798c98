"""Timed attempts of a solver, and the judgement of its answer by our certificate."""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from cautious.certificate.policy_evaluation import EvaluatedPolicy

MAX_REPEATED_SECONDS = 0.5
MAX_RUNS = 5

# figures of a run, and a function that judges its answer: the time of the judgement is not the solver's
Attempt = tuple[dict[str, Any], Callable[[], dict[str, Any]]]


def repeated(
    run: Callable[[], dict[str, Any]], clock: str = "seconds", limit_seconds: float = math.inf
) -> dict[str, Any]:
    """The fastest of a few runs, while they are short; threads are judged by the "wall_seconds".

    ``limit_seconds`` is the time that all of them have: who answered once must not miss it by being asked again.
    """
    rows, enough = [run()], min(MAX_REPEATED_SECONDS, limit_seconds / 3)
    while len(rows) < MAX_RUNS and sum(row["seconds"] for row in rows) < enough:
        rows.append(run())
    return min(rows, key=lambda row: row[clock])


def timed(solve: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """The answer of a solver, its processor seconds and its wall-clock seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = solve()
    return answer, {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}


def judged(found: EvaluatedPolicy, bound: float, claimed: float | None = None) -> dict[str, Any]:
    """What a policy is worth, what no policy exceeds, and the relative gap; None for what is not finite."""
    gap = (bound + found.error - found.objective) / max(1.0, abs(found.objective))
    figures = {"objective": found.objective, "upper_bound": bound + found.error, "gap": gap}
    return {name: finite(value) for name, value in figures.items()} | {"claimed": claimed}


def finite(value: float) -> float | None:
    """The value, or None where it is not finite."""
    return float(value) if np.isfinite(value) else None


NO_ANSWER: dict[str, Any] = {"objective": None, "upper_bound": None, "gap": None, "claimed": None}
