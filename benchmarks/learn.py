"""Learning from samples: true suboptimality of the delivered policy, samples and time needed, against the printed one.

``cautious bench learn [--quick] [--workers N | --cluster ADDRESS]``, or ``python benchmarks/learn.py [--quick] [--out
rows.json]``. Runs are spread over the workers; figures of speed are measured here, alone. The learners see
samples only; the model behind the simulator is used afterwards, to judge the policy exactly. "off" is
(best objective - objective of the policy) / |best objective|, the mean over seeds.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import _learning_cases as cases
import cautious as ca
from _seeds import Seeds
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.report.canvas import LIGHT, dress, new_figure, png

SEEDS = 5
FOUR = ("neutral", "KL", "peak", "barrier")
PICTURE = Path("docs/images/learning-curves.png")
COLOURS = {"plug-in": LIGHT.chosen, "primal-dual": "#00664a", "paper": LIGHT.neutral}


def one_run(content: tuple[ca.Problem, float, Any, int], seed: int) -> tuple[float, float]:
    """Relative suboptimality and seconds."""
    problem, best, method, samples = content
    caution = problem.caution if problem.unbound_risk else 0.0
    started = time.perf_counter()
    learned = ca.learn(problem.mdp.simulator(), problem.unbound_risk, caution, samples, method, seed)
    seconds = time.perf_counter() - started
    return (best - evaluate_policy(problem, learned.policy).objective) / abs(best), seconds


def off(problem: ca.Problem, best: float, method: Any, samples: int, seeds: Seeds) -> dict[str, float]:
    """Mean and largest relative suboptimality over seeds, and seconds per run."""
    found, seconds = zip(*seeds.run(one_run, (problem, best, method, samples)), strict=True)
    return {"off": float(np.mean(found)), "worst": float(np.max(found)), "seconds": float(np.median(seconds))}


def row(what: str, problem: ca.Problem, method: Any, samples: int, limit: float | None, seeds: Seeds) -> dict[str, Any]:
    """One row of the table: ``limit`` is what it must not exceed."""
    best = ca.solve(problem).objective
    measured = off(problem, best, method, samples, seeds)
    kept = None if limit is None else bool(measured["off"] <= limit)
    return {"what": what, "samples": samples, "limit": limit, "kept": kept, **measured}


def plug_in_rows(seeds: Seeds) -> Iterable[dict[str, Any]]:
    """Counting and solving, on the drifted grid."""
    for risk in FOUR:
        for samples, limit in ((10_000, 0.02), (100_000, 0.005)):
            yield row(f"plug-in, {risk}, discount .9", cases.grid(risk, 0.9), "plug-in", samples, limit, seeds)


def hard_rows(seeds: Seeds, largest: int) -> Iterable[dict[str, Any]]:
    """Where the worst set is one that good policies cannot avoid; no limit is set."""
    for method in ("plug-in", "primal-dual"):
        for samples in (10**4, 10**5, 10**6, 10**7):
            if samples <= largest:
                what = f"{method}, peak by the goal, discount .9"
                yield row(what, cases.grid("peak by the goal", 0.9), method, samples, None, seeds)


def primal_dual_rows(seeds: Seeds, largest: int) -> Iterable[dict[str, Any]]:
    """Sweeps, on the drifted grid at three discounts."""
    limits = {0.9: {10**6: 0.015, 10**7: 0.003}, 0.95: {10**6: 0.015, 10**7: 0.003}, 0.99: {10**7: 0.001}}
    for discount, wanted in limits.items():
        for risk in FOUR:
            for samples in (10**5, 10**6, 10**7):
                if samples <= largest:
                    what = f"primal-dual, {risk}, discount {discount:g}".replace("0.", ".")
                    yield row(what, cases.grid(risk, discount), "primal-dual", samples, wanted.get(samples), seeds)


def other_worlds(seeds: Seeds, samples: int) -> Iterable[dict[str, Any]]:
    """The same defaults elsewhere."""
    for name, problem in cases.other_worlds():
        yield row(f"primal-dual, {name}", problem, "primal-dual", samples, 0.02, seeds)


def large_grid(seeds: Seeds, side: int, sweeps: int) -> Iterable[dict[str, Any]]:
    """A grid of side x side cells, ``sweeps`` draws per pair."""
    for risk, limit in (("neutral", 0.015), ("KL", 0.001)):
        problem = cases.large_grid(side, risk)
        samples = sweeps * problem.mdp.n_states * problem.mdp.n_actions
        yield row(
            f"primal-dual, {side}x{side} grid, {risk}, discount .95", problem, "primal-dual", samples, limit, seeds
        )


def against_the_theorem(seeds: Seeds, printed_samples: int) -> dict[str, Any]:
    """How many samples our methods need for the error that the printed parameters leave."""
    problem = cases.grid("neutral", 0.9)
    best = ca.solve(problem).objective
    printed = off(problem, best, "paper", printed_samples, replace(seeds, count=1))
    answer: dict[str, Any] = {"printed_samples": printed_samples, "printed_off": printed["off"]}
    for method in ("plug-in", "primal-dual"):
        for samples in (500, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000):
            measured = off(problem, best, method, samples, seeds)
            if measured["off"] <= printed["off"]:
                fewer = printed_samples / samples
                answer[method] = {"samples": samples, "off": measured["off"], "times_fewer": fewer}
                break
    return answer


def costs(sizes: Iterable[int]) -> list[dict[str, Any]]:
    """Nanoseconds per sample of the sweeps and of a NumPy loop of the printed algorithm, by number of pairs."""
    rows = []
    for pairs in sizes:
        problem = cases.plain_grid(pairs)
        rows.append({"pairs": problem.mdp.allowed.size, **cases.cost_per_sample(problem)})
    for one in rows:
        one["against_the_smallest"] = one["sweep_ns"] / rows[0]["sweep_ns"]
        one["against_numpy"] = one["numpy_ns"] / one["whole_ns"]
    return rows


def curves(seeds: Seeds) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Error against samples for the picture; the printed algorithm is slow and gets one seed."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    one = replace(seeds, count=1)
    for risk in ("neutral", "KL"):
        problem = cases.grid(risk, 0.9)
        best = ca.solve(problem).objective
        largest = {"plug-in": 10**6, "primal-dual": 10**7, "paper": 10**7 if risk == "neutral" else 10**6}
        found[risk] = {
            method: [
                {
                    "samples": samples,
                    **off(problem, best, method, samples, one if method == "paper" else seeds),
                }
                for samples in (1000, 3000, 10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7)
                if samples <= most
            ]
            for method, most in largest.items()
        }
    return found


def save_picture(curves: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """One panel per risk; methods by colour and by name at the end of their line."""
    figure = new_figure(LIGHT, 10, 4.2)
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (risk, methods) in zip(panels, curves.items(), strict=True):
        for method, rows in methods.items():
            samples = [row["samples"] for row in rows]
            axes.loglog(samples, [100 * row["off"] for row in rows], "o-", color=COLOURS[method], markersize=4)
            last = rows[-1]
            label = "as printed" if method == "paper" else method
            place = (last["samples"], 100 * last["off"])
            away = (-42, -10) if method == "plug-in" else (8, -3)
            axes.annotate(label, place, xytext=away, textcoords="offset points", color=COLOURS[method], fontsize=9)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * 14)
        axes.set(xlabel="samples")
        axes.set_title(f"{risk}, 10x10 grid, discount .9", loc="left", fontsize=10)
        dress(axes, LIGHT)
    panels[0].set_ylabel("true suboptimality of the policy, %")
    PICTURE.write_bytes(png(figure, dpi=110))


def show(console: Console, rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Print rows as they come."""
    kept = []
    table = Table("what", "samples", "off", "worst seed", "limit", "kept", "seconds")
    for one in rows:
        kept.append(one)
        limit = "" if one["limit"] is None else f"{100 * one['limit']:g} %"
        verdict = {None: "", True: "yes", False: "NO"}[one["kept"]]
        cells = (f"{one['samples']:.0e}", f"{100 * one['off']:.3g} %", f"{100 * one['worst']:.3g} %")
        table.add_row(one["what"], *cells, limit, verdict, f"{one['seconds']:.2f}")
    console.print(table)
    return kept


def main(quick: bool, *, executor: Executor | None = None) -> dict[str, Any]:
    """The whole table; quick leaves out what takes long."""
    # standard output belongs to --json
    console, seeds = Console(stderr=True, width=120), Seeds(2 if quick else SEEDS, executor)
    parts: list[Callable[[], Iterable[dict[str, Any]]]] = [
        lambda: plug_in_rows(seeds),
        lambda: primal_dual_rows(seeds, 10**6 if quick else 10**7),
        lambda: hard_rows(seeds, 10**5 if quick else 10**6),
        lambda: other_worlds(seeds, 10**6 if quick else 10**7),
        lambda: large_grid(seeds, 20 if quick else 50, 2500),
    ]
    rows = [one for part in parts for one in show(console, part())]
    theorem = against_the_theorem(seeds, 10**6 if quick else 10**8)
    console.print(theorem)
    speed = costs((400, 10_000) if quick else (400, 10_000, 1_000_000))
    for one in speed:
        console.print(one)
    if quick:
        return {"rows": rows, "theorem": theorem, "speed": speed}
    lines = curves(seeds)
    save_picture(lines)
    return {"rows": rows, "theorem": theorem, "speed": speed, "curves": lines}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    result = main(given.quick)
    if given.out is not None:
        given.out.write_text(json.dumps(result, indent=1))
