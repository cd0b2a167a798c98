"""The problems of ``benchmarks/learn.py``, and how a sample's cost is measured."""

import time
from typing import Any

import numpy as np

import cautious as ca
from cautious.learning.draws import Draws
from cautious.learning.primal_dual.sweeps import Sweeps
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.task import make_task
from cautious.occupancy import policy_occupancy

MEASURED_SAMPLES = 10_000_000
CAUTION = {"neutral": 0.0, "KL": 5.0, "peak": 30.0, "peak by the goal": 30.0, "barrier": 1.0}


def grid(risk: str, discount: float) -> ca.Problem:
    """The drifted 10x10 grid with one of four risks."""
    mdp = ca.worlds.drift(discount=discount)
    dark = ca.worlds.dark_cells(mdp)
    risks: dict[str, Any] = {
        "neutral": lambda: None,
        "KL": lambda: ca.KL(ca.worlds.drift_prior()),
        "peak": lambda: ca.PeakExposure(thirds()),
        "peak by the goal": lambda: ca.PeakExposure(by_the_goal()),
        "barrier": lambda: ca.SafeSet(np.setdiff1d(np.arange(mdp.n_states), dark), slack=0.12),
    }
    return ca.Problem(mdp, risks[risk](), CAUTION[risk])


def thirds() -> list[Any]:
    """Three danger sets: the dark band from left to right."""
    return np.array_split(np.array([10 * row + column for column in range(3, 10) for row in (4, 5)]), 3)


def by_the_goal() -> list[Any]:
    """Three danger sets: the two halves of the dark band, and light cells that an agent near the goal slips into."""
    cell = np.arange(100)
    row, column = np.divmod(cell, 10)
    dark = (row >= 4) & (row <= 5) & (column >= 3)
    return [cell[dark & (column < 6)], cell[dark & (column >= 6)], cell[(row >= 8) & (column <= 6) & (column >= 3)]]


def plain_grid(pairs: int, discount: float = 0.95) -> ca.Problem:
    """A square grid with about this many pairs, and a relative entropy: the dense risk of the printed algorithm."""
    side = round((pairs / 4) ** 0.5)
    rows = ["." * side] * (side - 1) + ["." * (side - 1) + "G"]
    mdp = ca.worlds.from_grid(rows, {".": 0.3, "G": 1.0}, p=0.6, discount=discount)
    return ca.Problem(mdp, ca.KL(np.full(mdp.shape, 1 / mdp.allowed.size)), 1.0)


def large_grid(side: int, risk: str) -> ca.Problem:
    """The drifted world drawn larger; the prior of the KL is what an optimal agent did where dark cells cost 5."""
    band = range(2 * side // 5, 3 * side // 5)
    rows = ["".join("D" if i in band and j >= 3 * side // 10 else "." for j in range(side)) for i in range(side)]
    rows[-1] = rows[-1][:-1] + "G"
    now = ca.worlds.from_grid(rows, {".": 0.3, "D": 0.0, "G": 1.0}, p=0.6, discount=0.95)
    if risk == "neutral":
        return ca.Problem(now, None)
    before = ca.worlds.from_grid(rows, {".": 0.3, "D": -5.0, "G": 1.0}, p=0.4, discount=0.95)
    learned = ca.solve(ca.Problem(before)).occupancy
    return ca.Problem(now, ca.KL(0.95 * learned + 0.05 / learned.size), CAUTION["KL"])


def other_worlds() -> list[tuple[str, ca.Problem]]:
    """A chain, an inventory and a random model, without and with a risk."""
    river, stock, random = ca.worlds.river_swim(), ca.worlds.inventory(), ca.worlds.garnet(200, n_actions=4)
    shown = policy_occupancy(random, np.random.default_rng(0).dirichlet(np.ones(4), size=200)).occupancy
    return [
        ("river swim", ca.Problem(river, None)),
        ("river swim, Variance", ca.worlds.problem("river_swim")),
        ("inventory", ca.Problem(stock, None)),
        ("inventory, TaskFloors", ca.worlds.problem("inventory")),
        ("garnet 200x4", ca.Problem(random, None)),
        ("garnet 200x4, KL", ca.Problem(random, ca.KL(shown), 2.0)),
    ]


def cost_per_sample(problem: ca.Problem) -> dict[str, float]:
    """Nanoseconds per sample after compilation: sweeps of one sample per pair, a whole run, the NumPy loop."""
    simulator, pairs = problem.mdp.simulator(), problem.mdp.allowed.size
    ca.learn(simulator, problem.unbound_risk, problem.caution, 2 * pairs, "primal-dual")
    samples = max(MEASURED_SAMPLES, 60 * pairs)
    started = time.perf_counter()
    ca.learn(simulator, problem.unbound_risk, problem.caution, samples, "primal-dual")
    whole = (time.perf_counter() - started) / samples
    found = {"sweep_ns": 1e9 * _sweep(problem), "whole_ns": 1e9 * whole}
    return found | {"numpy_ns": 1e9 * _readable(problem, 2000 if pairs < 10**5 else 20)}


def _sweep(problem: ca.Problem) -> float:
    """Seconds per sample of sweeps that draw as many samples as there are pairs."""
    pairs = problem.mdp.allowed.size
    samples = max(20, min(2500, MEASURED_SAMPLES // pairs)) * pairs
    task = make_task(problem.mdp.simulator(), problem.unbound_risk, problem.caution, samples, 0)
    payoff = Payoff((), (), task.discount)
    sweeps = Sweeps(task, Draws(task.simulator, samples, 0), problem.mdp.start, payoff, samples)
    started = time.perf_counter()
    while not sweeps.done:
        sweeps.advance()
    return (time.perf_counter() - started) / samples


def _readable(problem: ca.Problem, steps: int) -> float:
    """Seconds per step of the NumPy loop of Algorithm 1."""
    task = make_task(problem.mdp.simulator(), problem.unbound_risk, problem.caution, 10**7, 0)
    run = ca.AlgorithmOne().begin(task, Draws(task.simulator, 10**7, 0), 10**7)
    run.compiled = None
    done, started = 0, time.perf_counter()
    while done < steps:
        run.advance()
        done = run.draws.used
    return (time.perf_counter() - started) / done
