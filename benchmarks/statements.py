"""What statements of ``ca.learn`` are worth: how often they hold, and how far they are from the truth.

``cautious bench statements [--quick] [--workers N | --cluster ADDRESS]``, or ``python benchmarks/statements.py
[--quick] [--out rows.json]``. The runs of simulators are spread over the workers. The worlds are those of
``_statement_worlds``. A statement holds if the true objective of the policy is at least what was claimed,
and the best policy is no better than what was claimed about all. *Distance* is the true objective minus the claimed
one, *error* the distance of the estimated objective from the true one; both are medians. For logs, *proved* is the
share of the true value above the lowest reward for ever that the claim reaches.
"""

import argparse
import json
import time
from collections.abc import Iterable
from concurrent.futures import Executor
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cautious as ca
from _seeds import Seeds
from _statement_worlds import EvaluationWorld, Promised, drawn_log, evaluation_worlds, log_model, logger
from cautious.certificate.policy_evaluation import evaluate_policy

SAMPLES, ROWS = 20_000, 3000
RUNS, LOGS = 200, 50
SHAPES = ((8, 3), (15, 4))
# the limits that the issue of these statements set
LARGEST_RATIO, SMALLEST_PROVED, SHARE_OF_LOGS, SMALLEST_COVERAGE = 10.0, 0.1, 0.9, 0.95


def one_run(content: tuple[ca.Problem, Any, float], seed: int) -> tuple[bool, float, float, float, float]:
    """Whether a statement holds, how far it is from the truth, and processor seconds."""
    problem, simulator, best = content
    started = time.process_time()
    caution = problem.caution if problem.unbound_risk else 0.0
    learned = ca.learn(simulator, problem.unbound_risk, caution, SAMPLES, seed=seed)
    true = evaluate_policy(problem, learned.policy).objective
    claimed, above = (learned.certificate.facts[name] for name in ("objective_at_least", "optimum_below"))
    held = claimed <= true + 1e-9 and best <= above + 1e-9
    seconds = time.process_time() - started
    return held, true - claimed, abs(learned.objective - true), above - best, seconds


def simulator_row(world: EvaluationWorld, risk: ca.Risk | None, caution: float, runs: Seeds) -> dict[str, Any]:
    """One world with or without its risk, over seeds."""
    problem = ca.Problem(world.mdp, risk, caution)
    best = ca.solve(problem).objective
    found = runs.run(one_run, (problem, Promised(world.mdp, world.reward_range), best))
    held, distance, error, above, seconds = (np.array(column) for column in zip(*found, strict=True))
    return {
        "world": world.name,
        "risk": "none" if risk is None else risk.label,
        "runs": runs.count,
        "best": best,
        "coverage": float(held.mean()),
        "distance": float(np.median(distance)),
        "error": float(np.median(error)),
        "ratio": float(np.median(distance) / np.median(error)),
        "above the best": float(np.median(above)),
        "seconds": float(seconds.mean()),
    }


def simulator_rows(runs: Seeds) -> Iterable[dict[str, Any]]:
    """The five worlds."""
    for world in evaluation_worlds():
        yield simulator_row(world, None, 0.0, runs)
        yield simulator_row(world, world.risk, world.caution, runs)


def log_row(shape: tuple[int, int], branching: int | None, skewed: bool, logs: int) -> dict[str, Any]:
    """Random models of one shape, one log of each; rewards are at least 0, so that is the lowest value there is."""
    found = []
    for seed in range(logs):
        rng = np.random.default_rng([seed, *shape, branching or 0, skewed])
        mdp = log_model(shape, branching, rng)
        table = drawn_log(mdp, logger(shape, skewed, rng), ROWS, rng)
        # the states of the model are those of the log: all of them are visited in so many rows
        logged = ca.from_transitions(table, mdp.discount, untried="forbid", reward_range=(0, 1), start="uniform")
        problem = ca.Problem(mdp)
        row = [ca.solve(problem).objective]
        for robust in (True, False):
            learned = ca.learn(logged, robust=robust)
            true = evaluate_policy(problem, learned.policy).objective
            row += [true, learned.certificate.facts["objective_at_least"]]
        found.append(row)
    best, true, claimed, counted_true, counted_claimed = np.array(found).T
    return {
        "shape": f"{shape[0]}x{shape[1]}",
        "successors": branching or shape[0],
        "logger": "skewed" if skewed else "uniform",
        "logs": logs,
        "coverage": float(np.mean((claimed <= true) & (counted_claimed <= counted_true))),
        "a tenth proved": float(np.mean(claimed >= SMALLEST_PROVED * true)),
        "proved": float(np.median(claimed / true)),
        "worth": float(np.median(true / best)),
        "a tenth proved, counted": float(np.mean(counted_claimed >= SMALLEST_PROVED * counted_true)),
        "proved, counted": float(np.median(counted_claimed / counted_true)),
        "worth, counted": float(np.median(counted_true / best)),
    }


def log_rows(logs: int) -> Iterable[dict[str, Any]]:
    """All shapes and behaviours."""
    for shape in SHAPES:
        for branching in (None, 3):
            for skewed in (False, True):
                yield log_row(shape, branching, skewed, logs)


def show(console: Console, title: str, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print a table of rows."""
    kept = list(rows)
    table = Table(*kept[0], title=title)
    for row in kept:
        table.add_row(*(f"{value:.3g}" if isinstance(value, float) else str(value) for value in row.values()))
    console.print(table)
    return kept


def main(quick: bool, *, executor: Executor | None = None) -> dict[str, Any]:
    """Both tables, and whether the limits are kept."""
    # standard output belongs to --json
    console = Console(stderr=True, width=140)
    simulators = show(
        console, f"simulators, {SAMPLES:,} samples", simulator_rows(Seeds(10 if quick else RUNS, executor))
    )
    logs = show(console, f"logs of {ROWS:,} rows", log_rows(5 if quick else LOGS))
    runs = sum(row["runs"] for row in simulators)
    coverage = sum(row["coverage"] * row["runs"] for row in simulators) / runs
    found = {
        "runs": runs,
        "coverage": coverage,
        "median ratio": float(np.median([row["ratio"] for row in simulators])),
        "coverage kept": min(coverage, *(row["coverage"] for row in logs)) >= SMALLEST_COVERAGE,
        "ratios kept": [row["ratio"] <= LARGEST_RATIO for row in simulators],
        "logs kept": all(row["a tenth proved"] >= SHARE_OF_LOGS for row in logs),
    }
    console.print(found)
    return {"simulators": simulators, "logs": logs, **found}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = main(given.quick)
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1))
