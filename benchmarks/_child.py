"""The work of one process of the benchmark; see ``cautious.peers.workers``.

A request has the fields of ``_rows.Case`` and three more: ``work`` is "solve" or "frontier"; ``solver`` is "cautious"
or a name of ``cautious.peers.roster``; ``limit_seconds`` is the time limit of ``ca.solve``.

On our own side ``ca.Problem`` and ``ca.solve`` are timed together. A short solve is repeated, every time on a freshly
made model, and the fastest run counts. Processor seconds count: on one thread and an idle machine they are the seconds
one waits for, and other work on the machine disturbs them least.
"""

import time
from collections.abc import Callable
from copy import copy
from functools import partial
from typing import Any

import numpy as np

import _case
import cautious as ca
from _memory import Watch, model_megabytes
from cautious.peers import child
from cautious.peers.timing import repeated
from cautious.peers.workers import Say, serve

WARM_STATES = (400, 3000, 22_500)
FRONTIER_POINTS = 30
IN_SWEEPS = ("none", "KL", "Entropy")
IN_PLANNING_SOLVES = ("Variance", "CVaR")


def solve_options(threads: int | None = 1, limit_seconds: float | None = None) -> dict[str, Any]:
    """Arguments of ``ca.solve`` or ``ca.frontier``; None is all cores."""
    return {"time_limit_seconds": limit_seconds, "threads": threads}


def timed(mdp: ca.MDP, risk: ca.Risk | None, caution: float, options: dict[str, Any]) -> dict[str, Any]:
    """One solve and what it proved."""
    wall, cpu = time.perf_counter(), time.process_time()
    solution = ca.solve(ca.Problem(mdp, risk, caution), **options)
    seconds, wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
    gap = solution.gap / max(1.0, abs(solution.objective))
    return {
        "status": solution.status.name,
        "method": solution.method,
        "kind": solution.certificate.kind,
        "seconds": seconds,
        "wall_seconds": wall_seconds,
        "gap": gap if np.isfinite(gap) else None,
        "objective": solution.objective if np.isfinite(solution.objective) else None,
        "risk_value": solution.risk if np.isfinite(solution.risk) else None,
    }


def memory_figures(watch: Watch, mdp: ca.MDP) -> dict[str, Any]:
    """Peak memory during the solve beyond what was in use before it, and the size of the model."""
    beyond, model = watch.beyond(), model_megabytes(mdp)
    # the model itself counts as one
    times_model = None if beyond is None else 1 + beyond / model
    return {"beyond_megabytes": beyond, "model_megabytes": model, "times_model": times_model}


def warm_up(request: dict[str, Any]) -> None:
    """Modules are loaded, and memory is asked for, by solving a small problem of the same kind."""
    # large models are solved by other methods, or in another precision, than small ones
    n_states = max(size for size in WARM_STATES if size <= max(request["n_states"], WARM_STATES[0]))
    # shapes have one size each, which may be large
    kind = "grid" if request["model"] in _case.SHAPES else request["model"]
    mdp = _case.model(kind, n_states, request["discount"])
    for name in ("none", request["risk"]):
        risk = _case.risk_of(name, kind, mdp)
        ca.solve(ca.Problem(mdp, risk, _case.CAUTIONS.get(name, 1.0)), **solve_options(limit_seconds=30.0))


def solve_row(request: dict[str, Any], ready: Callable[[], object]) -> dict[str, Any]:
    """One risk on one model; with the time of a Bellman sweep or of a risk-neutral solve where that is the measure."""
    name, kind = request["risk"], request["model"]
    warm_up(request)

    # copies of a model that was never solved keep nothing; building it again between runs would empty processor caches,
    # which solvers of others find filled when they are repeated
    fresh = partial(copy, _case.model(kind, request["n_states"], request["discount"]))
    # a model of its own, so that nothing the risk's data left behind helps or weighs
    risk, caution = _case.risk_of(name, kind, fresh()), _case.CAUTIONS.get(name, 1.0)
    options = solve_options(request["threads"], request["limit_seconds"])
    ready()
    clock = "wall_seconds" if request["table"] == "threads" else "seconds"
    memory: dict[str, Any] = {}

    def run() -> dict[str, Any]:
        mdp = fresh()
        if memory:
            return timed(mdp, risk, caution, options)
        # as with peers, memory is watched in the first run only: giving it back beforehand costs time
        watch = Watch()
        figures = timed(mdp, risk, caution, options)
        memory.update(memory_figures(watch, mdp))
        return figures

    row = repeated(run, clock) | memory
    if name in IN_SWEEPS:
        row["sweep_seconds"] = sweep_seconds(fresh())
        row["sweeps"] = row["seconds"] / row["sweep_seconds"]
    if name in IN_PLANNING_SOLVES:
        row["neutral_seconds"] = repeated(lambda: timed(fresh(), None, 1.0, options))["seconds"]
        row["planning_solves"] = row["seconds"] / row["neutral_seconds"]
    return row


def frontier_row(request: dict[str, Any], ready: Callable[[], object]) -> dict[str, Any]:
    """Thirty points along caution, from a tenth of the table's caution to ten times it, against one solve."""
    name, kind = request["risk"], request["model"]
    warm_up(request)
    mdp = _case.model(kind, request["n_states"], request["discount"])
    risk, caution = _case.risk_of(name, kind, mdp), _case.CAUTIONS.get(name, 1.0)
    assert risk is not None
    small = _case.model(kind, WARM_STATES[0], request["discount"])
    # frontiers have kernels of their own
    ca.frontier(small, _case.risk_of(name, kind, small), caution * np.geomspace(0.5, 2.0, 4), **solve_options())
    ready()
    single = repeated(lambda: timed(mdp, risk, caution, solve_options()))
    cautions = caution * np.geomspace(0.1, 10.0, FRONTIER_POINTS)

    def run() -> dict[str, Any]:
        cpu = time.process_time()
        points = ca.frontier(mdp, risk, cautions, **solve_options())
        return {"seconds": time.process_time() - cpu, "points": points}

    fastest = repeated(run)
    points, seconds = fastest["points"], fastest["seconds"]
    gaps = [point.gap / max(1.0, abs(point.objective)) for point in points]
    return {
        "status": "SOLVED" if all(point.status is ca.Status.SOLVED for point in points) else "not all solved",
        "seconds": seconds,
        "single_seconds": single["seconds"],
        "single_solves": seconds / single["seconds"],
        "gap": max(gaps) if np.isfinite(gaps).all() else None,
    }


def sweep_seconds(mdp: ca.MDP) -> float:
    """The yardstick: one Bellman sweep by SciPy's sparse product, one thread; the fastest of at least ten."""
    reward, v = mdp.rewards, np.zeros(mdp.n_states)
    times: list[float] = []
    while len(times) < 10 or (sum(times) < 0.2 and len(times) < 1000):
        started = time.perf_counter()
        v = (reward + mdp.discount * (mdp.transitions @ v).reshape(reward.shape)).max(axis=1)
        times.append(time.perf_counter() - started)
    return min(times)


def measure(request: dict[str, Any], payload: bytes, say: Say) -> dict[str, Any]:
    """The row of one request."""
    if request["solver"] != "cautious":
        return peer_row(request, say)
    measured = {"solve": solve_row, "frontier": frontier_row}[request["work"]]
    row = measured(request, lambda: say("ready"))
    say("answered")
    return row


def peer_row(request: dict[str, Any], say: Say) -> dict[str, Any]:
    """The row of another solver."""
    name = request["risk"]
    mdp = _case.model(request["model"], request["n_states"], request["discount"])
    problem = ca.Problem(mdp, _case.risk_of(name, request["model"], mdp), _case.CAUTIONS.get(name, 1.0))
    attempt = child.attempt_of(problem, request["solver"])
    watch, beyond = Watch(), {}

    def tell(line: str) -> None:
        if line == "answered":
            # the judgement is ours, and so is its memory
            beyond["beyond_megabytes"] = watch.beyond()
        say(line)

    return child.row(attempt, tell, request["limit_seconds"]) | beyond


if __name__ == "__main__":
    serve(measure)
