"""From the start of Python to the answer: 100 states, every risk, CVXPY with Clarabel beside it in the same run.

``cautious bench startup [--quick]``. Processor seconds of a whole process: imports, model, problem, solve. "First" is
the first process after an installation, without any compiled file of ours; "later" is the fastest of five. CVXPY is
given the same arrays and its own imports only; its figures are of later processes. Variance and CVaR are not convex.
"""

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import cautious as ca

LATER_RUNS = 5
DATA = """
import numpy as np
rng = np.random.default_rng(0)
S, A, gamma = 100, 4, 0.95
P = np.zeros((S, A, S))
for pair in P.reshape(-1, S):
    pair[rng.choice(S, 5, replace=False)] = rng.dirichlet(np.ones(5))
r, prior, tasks = rng.random((S, A)), rng.dirichlet(np.ones(S * A)).reshape(S, A), rng.random((3, S, A))
metric = np.abs(np.subtract.outer(np.arange(S), np.arange(S))) / S
"""
OURS = """
import cautious as ca
solution = ca.solve(ca.Problem(ca.MDP(P, r, gamma), {risk}, 1.0)).require()
print(repr(solution.objective))
"""
CVXPY = """
import cvxpy as cp
d = cp.Variable((S, A), nonneg=True)
x = cp.sum(d, axis=1)
flow = gamma * (P.reshape(S * A, S).T @ cp.vec(d, order="C"))
constraints = [x == (1 - gamma) / S + flow]
{risk}
problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(d, r)) / (1 - gamma) - risk), constraints)
problem.solve(solver="CLARABEL")
print(repr(float(problem.value)))
"""
# each risk here and as a program of CVXPY; None where it is not convex
RISKS: dict[str, tuple[str, str | None]] = {
    "none": ("None", "risk = 0.0"),
    "SafeSet": ("ca.SafeSet(range(60), 0.5)", "risk = -cp.log(cp.sum(d[:60]) - 0.5)"),
    "TaskFloors": (
        "ca.TaskFloors(tasks, [9.0, 9.0, 9.0])",
        "risk = -sum(cp.log(cp.sum(cp.multiply(d, t)) / (1 - gamma) - 9.0) for t in tasks)",
    ),
    "PeakExposure": (
        "ca.PeakExposure([range(20), range(20, 50)])",
        "risk = cp.maximum(cp.sum(d[:20]), cp.sum(d[20:50]))",
    ),
    "WorstTask": (
        "ca.WorstTask(tasks)",
        "risk = cp.maximum(*[-cp.sum(cp.multiply(d, t)) / (1 - gamma) for t in tasks])",
    ),
    "Variance": ("ca.Variance()", None),
    "CVaR": ("ca.CVaR(0.9)", None),
    "KL": ("ca.KL(prior)", "risk = cp.sum(cp.rel_entr(d, prior))"),
    "TotalVariation": ("ca.TotalVariation(prior)", "risk = cp.sum(cp.abs(d - prior)) / 2"),
    "Quadratic": ("ca.Quadratic(prior)", "risk = cp.sum_squares(d - prior) / 2"),
    "Wasserstein": (
        "ca.Wasserstein(prior.sum(axis=1), metric)",
        "plan = cp.Variable((S, S), nonneg=True)\n"
        "constraints += [cp.sum(plan, axis=1) == x, cp.sum(plan, axis=0) == prior.sum(axis=1)]\n"
        "risk = cp.sum(cp.multiply(plan, metric))",
    ),
    "Entropy": ("ca.Entropy()", "risk = -cp.sum(cp.entr(d))"),
}


def measured(code: str, package: Path) -> tuple[float, float]:
    """Processor seconds of one process, and the objective that it printed."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPATH"] = str(package)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, float(done.stdout)


def fastest(code: str, package: Path, runs: int) -> tuple[float, float]:
    """The fastest of some processes, and the objective."""
    return min(measured(code, package) for _ in range(runs))


def row(name: str, package: Path, runs: int) -> dict[str, Any]:
    """One risk; both sides must agree."""
    ours, theirs = RISKS[name]
    for cache in package.rglob("__pycache__"):
        shutil.rmtree(cache)
    code = DATA + OURS.format(risk=ours)
    first, _ = measured(code, package)
    later, objective = fastest(code, package, runs)
    found = {"risk": name, "first_seconds": first, "later_seconds": later, "cvxpy_seconds": None}
    if theirs is not None:
        found["cvxpy_seconds"], value = fastest(DATA + CVXPY.format(risk=theirs), package, runs)
        if abs(value - objective) > 1e-4 * max(1.0, abs(objective)):
            raise AssertionError(f"{name}: ours is {objective}, CVXPY's {value}")
    return found


def main(quick: bool) -> dict[str, Any]:
    """Measure, print a table, and return all numbers."""
    table = Table("risk", "first", "later", "CVXPY", "ratio", title="processor seconds from process start to answer")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(Path(ca.__file__).parent, copy / "cautious", ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("none", "KL", "PeakExposure") if quick else RISKS:
            found = row(name, copy, 1 if quick else LATER_RUNS)
            rows.append(found)
            peer = found["cvxpy_seconds"]
            beside = ("", "") if peer is None else (f"{peer:.2f}", f"{peer / found['later_seconds']:.2f}")
            table.add_row(name, f"{found['first_seconds']:.2f}", f"{found['later_seconds']:.2f}", *beside)
    # standard output belongs to --json
    Console(stderr=True, width=120).print(table)
    return {"startup": rows}


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
