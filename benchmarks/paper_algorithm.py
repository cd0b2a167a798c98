"""How fast Algorithm 1 converges as printed, and what a sample costs.

``cautious bench paper_algorithm [--quick]``, or ``python benchmarks/paper_algorithm.py``. The measure is that of
Theorem 1, the duality gap  L(v_bar, lam*) - min over the box of L(v, lam_bar), computed exactly with the true model:
lam* balances the flow, so the first part is the optimum, and the minimum over a box is closed form,

    gap = optimum - objective(lam_bar) + (bound on v) * | flow violation of lam_bar |_1.

The full run draws docs/images/algorithm-1-convergence.png.
"""

import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cautious as ca
from cautious.certificate import deliver
from cautious.learning.algorithm_1 import AlgorithmOne, AlgorithmOneRun
from cautious.learning.draws import Draws
from cautious.learning.saddle import reward_scale
from cautious.learning.task import make_task
from cautious.occupancy import flow_residual

PICTURE = Path("docs/images/algorithm-1-convergence.png")
BOUND = "theorem bound on the expected duality gap, in units of return"


def begin(mdp: ca.MDP, risk: Any, caution: float, samples: int, seed: int) -> AlgorithmOneRun:
    task = make_task(mdp.simulator(), risk, caution, samples, seed)
    return AlgorithmOne().begin(task, Draws(task.simulator, samples, seed), samples)


def measure(mdp: ca.MDP, risk: Any, caution: float, samples: int, seeds: Iterable[int]) -> dict[str, Any]:
    """Mean over seeds of the duality gap and of the error of the policy read off the average."""
    problem = ca.Problem(mdp, risk, caution)
    best = ca.solve(problem).require().objective
    gaps, errors, bound = [], [], np.nan
    for seed in seeds:
        run = begin(mdp, risk, caution, samples, seed)
        while not run.done:
            run.advance()
        d, (_, width) = run.saddle.occupancy, reward_scale(run.task)
        violation = float(np.abs(flow_residual(mdp, d)).sum()) / (1 - mdp.discount)
        gaps.append(best - problem.objective(d) + width * run.saddle.constants.box * violation)
        result = run.result()
        errors.append((best - deliver(problem, result.policy).objective) / abs(best))
        bound = result.facts[BOUND]
    return {
        "pairs": int(mdp.allowed.sum()),
        "discount": mdp.discount,
        "samples": samples,
        "gap": float(np.mean(gaps)),
        "bound": bound,
        "policy_error": float(np.mean(errors)),
        "optimum": best,
    }


def convergence(quick: bool) -> dict[str, list[dict[str, Any]]]:
    """The gap against the number of samples."""
    top = 5 if quick else 7
    grid = [int(10**power) for power in np.arange(3, top + 0.1, 0.5)]
    prior = ca.worlds.drift_prior()
    drift, small = ca.worlds.drift(), ca.worlds.garnet(10, discount=0.9)
    cases = {
        "10x10 grid, neutral": (drift, None, 0.0, grid),
        "10x10 grid, KL": (drift, ca.KL(prior), 1.0, [n for n in grid if n <= 10**6]),
        "garnet of 10 states": (small, None, 0.0, grid),
    }
    return {
        name: [measure(mdp, risk, caution, n, range(3 if n < 10**6 else 1)) for n in sizes if n >= mdp.allowed.sum()]
        for name, (mdp, risk, caution, sizes) in cases.items()
    }


def growth(quick: bool) -> dict[str, list[dict[str, Any]]]:
    """The gap at one number of samples, against the number of pairs and against the horizon."""
    samples, seeds = (30_000, range(1)) if quick else (300_000, range(3))
    models = [ca.worlds.garnet(n, discount=0.9) for n in (5, 10, 20, 50, 100)]
    patient = [ca.worlds.garnet(20, discount=gamma) for gamma in (0.5, 0.7, 0.8, 0.9, 0.95, 0.98)]
    return {
        "pairs": [measure(mdp, None, 0.0, samples, seeds) for mdp in models],
        "horizon": [measure(mdp, None, 0.0, samples, seeds) for mdp in patient],
    }


def speed(quick: bool) -> list[dict[str, Any]]:
    """Nanoseconds per sample, compiled and readable, in the same process."""
    rows = []
    for n_states in (100,) if quick else (100, 2500):
        mdp = ca.worlds.garnet(n_states, discount=0.9)
        prior = np.random.default_rng(0).dirichlet(np.ones(mdp.allowed.size)).reshape(mdp.shape)
        for name, risk in (("neutral", None), ("KL", ca.KL(prior))):
            compiled = begin(mdp, risk, 1.0, 10**7, 0)
            compiled.advance()
            readable = begin(mdp, risk, 1.0, 10**7, 0)
            readable.saddle.compiled = None
            readable.advance()
            rows.append(
                {
                    "pairs": int(mdp.allowed.sum()),
                    "risk": name,
                    "compiled_ns": nanoseconds(compiled),
                    "readable_ns": nanoseconds(readable),
                }
            )
    return rows


def nanoseconds(run: AlgorithmOneRun) -> float:
    """The best of three pieces of work, in processor time per sample."""
    best = np.inf
    for _ in range(3):
        before, started = run.saddle.count, time.process_time()
        run.advance()
        best = min(best, (time.process_time() - started) / (run.saddle.count - before))
    return 1e9 * best


def slope(x: list[float], y: list[float]) -> float:
    """The exponent of the power law through the points."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def picture(found: dict[str, list[dict[str, Any]]], grown: dict[str, list[dict[str, Any]]]) -> bytes:
    """Three panels on logarithmic axes: samples, pairs, horizon."""
    from cautious.report.canvas import LIGHT, dress, new_figure, png

    figure = new_figure(LIGHT, 13, 4.4)
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.35, 1, 1])
    colours = (LIGHT.chosen, LIGHT.neutral, "#00664a")
    for (name, rows), colour in zip(found.items(), colours, strict=True):
        samples = [row["samples"] for row in rows]
        left.loglog(samples, [row["gap"] for row in rows], "o-", color=colour, label=name, markersize=4)
        left.loglog(samples, [row["bound"] for row in rows], ":", color=colour, linewidth=1.2)
    first = found["10x10 grid, neutral"]
    ends = np.array([first[0]["samples"], first[-1]["samples"]], dtype=float)
    left.loglog(ends, first[-1]["gap"] * np.sqrt(ends[-1] / ends), "--", color=LIGHT.wall, label="slope -1/2")
    left.loglog([], [], ":", color=LIGHT.ink, label="bound of Theorem 1")
    left.set(xlabel="samples T", ylabel="duality gap, in units of return")
    left.set_title("gap against samples", loc="left", fontsize=10)
    left.legend(fontsize=8, frameon=False, loc="lower left")
    low, high = left.get_ylim()
    left.set_ylim(low / 30, high)
    panels = (
        (middle, "pairs", [float(row["pairs"]) for row in grown["pairs"]], "pairs |S||A|", 0.5),
        (right, "horizon", [1 / (1 - row["discount"]) for row in grown["horizon"]], "horizon 1/(1-gamma)", 2.0),
    )
    for axes, key, x, label, power in panels:
        gaps = [row["gap"] for row in grown[key]]
        axes.loglog(x, gaps, "o-", color=colours[0], markersize=4, label="measured, garnets")
        guide = gaps[0] * (np.array(x) / x[0]) ** power
        axes.loglog(x, guide, "--", color=LIGHT.wall, label=f"slope {power:g} (Theorem 1)")
        axes.set(xlabel=label)
        axes.set_title(f"gap against {key}, T = {grown[key][0]['samples']:,}", loc="left", fontsize=10)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
        low, high = axes.get_ylim()
        marks = [mark for power in range(-2, 4) for mark in (10.0**power, 3 * 10.0**power) if low < mark < high]
        axes.set_yticks(marks, [f"{mark:g}" for mark in marks], minor=False)
        axes.set_xticks(x, [f"{mark:.3g}" for mark in x], minor=False)
        axes.tick_params(which="minor", labelleft=False, labelbottom=False)
    for axes in (left, middle, right):
        dress(axes, LIGHT)
    return png(figure, dpi=110)


def main(quick: bool) -> dict[str, Any]:
    """Run everything, print two tables, and return all numbers."""
    # standard output belongs to --json
    console = Console(stderr=True, width=120)
    found, grown, speeds = convergence(quick), growth(quick), speed(quick)
    headings = ("case", "samples", "duality gap", "Theorem 1's bound", "error of the policy")
    table = Table(*headings, title="Algorithm 1 as printed, with the constants of Theorem 1")
    for name, rows in found.items():
        for row in rows:
            error = f"{100 * row['policy_error']:.2f} %"
            table.add_row(name, f"{row['samples']:,}", f"{row['gap']:.3g}", f"{row['bound']:.3g}", error)
    console.print(table)
    costs = Table("pairs", "risk", "compiled", "readable", "ratio", title="nanoseconds of processor time per sample")
    for row in speeds:
        ratio = row["readable_ns"] / row["compiled_ns"]
        numbers = (f"{row['compiled_ns']:,.0f}", f"{row['readable_ns']:,.0f}", f"{ratio:.0f}")
        costs.add_row(f"{row['pairs']:,}", row["risk"], *numbers)
    console.print(costs)
    exponents = {
        name: slope([row["samples"] for row in rows[-4:]], [row["gap"] for row in rows[-4:]])
        for name, rows in found.items()
    }
    exponents["pairs"] = slope([row["pairs"] for row in grown["pairs"]], [row["gap"] for row in grown["pairs"]])
    exponents["horizon"] = slope(
        [1 / (1 - row["discount"]) for row in grown["horizon"]], [row["gap"] for row in grown["horizon"]]
    )
    console.print({name: round(value, 2) for name, value in exponents.items()})
    if not quick:
        PICTURE.write_bytes(picture(found, grown))
    return {"convergence": found, "growth": grown, "speed": speeds, "exponents": exponents}


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
