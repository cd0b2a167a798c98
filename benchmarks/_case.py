"""One case of the benchmark in a process of its own, so that its memory is its own and it can be killed.

``python benchmarks/_case.py '{"model": "grid", "n_states": 400, "discount": 0.95, "risk": "KL", "solver": "SCS"}'``
prints "ready" when the clock starts, and then one JSON object. ``solver`` is "cautious", or one that CVXPY calls:
"HIGHS", "CLARABEL", "SCS", or one of ``OPTIONS``.
"""

import importlib
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.certificate import deliver, upper_bound
from cautious.occupancy import occupancy_policy, policy_occupancy
from cautious.risks.epigraph import state_sums
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.transport import GraphTransport, MatrixTransport, Memory, matrix_transport
from cautious.solvers.rounding import prove

SLIP = 0.2
CAUTIONS = {"PeakExposure": 10.0, "Variance": 10.0, "CVaR": 5.0, "TotalVariation": 5.0, "TotalVariation (states)": 5.0}
CAUTIONS |= {"Quadratic": 100.0, "Quadratic (states)": 100.0}
OPTIONS: dict[str, dict[str, float]] = {
    "CLARABEL 1e-10": dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10),
    "SCS": {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 10**7},
}


def grid(side: int, discount: float) -> ca.MDP:
    """A square grid; a move slips to either side with probability 0.1; the last corner pays 1, other cells less."""
    cells = np.arange(side * side)
    row, column = np.divmod(cells, side)
    compass = ((-1, 0), (0, 1), (1, 0), (0, -1))
    pairs, targets, chances = [], [], []
    for action in range(4):
        for turn, chance in ((0, 1 - SLIP), (1, SLIP / 2), (3, SLIP / 2)):
            down, right = compass[(action + turn) % 4]
            target = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
            pairs.append(cells * 4 + action)
            targets.append(target)
            chances.append(np.full(cells.size, chance))
    places = (np.concatenate(pairs), np.concatenate(targets))
    transitions = sp.csr_array(sp.coo_array((np.concatenate(chances), places), (cells.size * 4, cells.size)))
    pay = 0.3 * np.random.default_rng(0).random(cells.size)
    pay[-1] = 1.0
    return ca.MDP(transitions, np.repeat(pay[:, None], 4, axis=1), discount)


def model(name: str, n_states: int, discount: float) -> ca.MDP:
    """The grid, or a garnet whose pairs have five successors."""
    if name == "grid":
        return grid(round(n_states**0.5), discount)
    return ca.worlds.garnet(n_states, n_actions=4, n_successors=5, discount=discount)


def risk_of(name: str, kind: str, mdp: ca.MDP) -> ca.Risk | None:
    """The risks of the table; priors are a random policy's behaviour, a little blurred."""
    n, rng = mdp.n_states, np.random.default_rng(1)
    shown = policy_occupancy(mdp, rng.dirichlet(np.ones(mdp.n_actions), size=n)).occupancy
    prior = 0.95 * shown + 0.05 / shown.size
    tasks = rng.random((3, *mdp.shape))
    floors = 1.02 * np.sum(shown * tasks, axis=(1, 2)) / (1 - mdp.discount)
    side = round(n**0.5)
    places = np.stack(np.divmod(np.arange(n), side), axis=1).astype(float) if kind == "grid" else rng.random((n, 2))
    zones = _zones(n, side) if kind == "grid" else [np.arange(j, n, 5) for j in range(3)]
    risks = {
        "SafeSet": lambda: ca.SafeSet(np.setdiff1d(np.arange(n), zones[0]), slack=0.15),
        "TaskFloors": lambda: ca.TaskFloors(tasks, floors),
        "PeakExposure": lambda: ca.PeakExposure(zones),
        "WorstTask": lambda: ca.WorstTask(tasks),
        "Variance": ca.Variance,
        "CVaR": lambda: ca.CVaR(0.9),
        "KL": lambda: ca.KL(prior),
        "KL (states)": lambda: ca.KL(prior.sum(axis=1)),
        "TotalVariation": lambda: ca.TotalVariation(prior),
        "TotalVariation (states)": lambda: ca.TotalVariation(prior.sum(axis=1)),
        "Quadratic": lambda: ca.Quadratic(prior),
        "Quadratic (states)": lambda: ca.Quadratic(prior.sum(axis=1)),
        "Wasserstein (graph)": lambda: ca.Wasserstein(prior.sum(axis=1), _graph(n, side, kind)),
        "Wasserstein (matrix)": lambda: ca.Wasserstein(
            prior.sum(axis=1), np.linalg.norm(places[:, None] - places[None], axis=-1)
        ),
        "Entropy": ca.Entropy,
    }
    return None if name == "none" else risks[name]()


def _zones(n: int, side: int) -> list[Any]:
    row, column = np.divmod(np.arange(n), side)
    bands = [(side // 3 * j <= row) & (row < side // 3 * j + side // 4) for j in range(3)]
    return [np.flatnonzero(band & (column > side // 4)) for band in bands]


def _graph(n: int, side: int, kind: str) -> sp.csr_array:
    """The grid's own edges; for a garnet a ring with as many random chords."""
    cells = np.arange(n)
    if kind == "grid":
        right, down = cells[cells % side < side - 1], cells[: n - side]
        tail, head = np.concatenate([right, down]), np.concatenate([right + 1, down + side])
    else:
        chords = np.random.default_rng(2).permutation(n)
        tail, head = np.concatenate([cells, cells]), np.concatenate([(cells + 1) % n, chords])
    low, high = np.minimum(tail, head), np.maximum(tail, head)
    edges = np.unique(np.stack([low, high])[:, low < high], axis=1)
    return sp.csr_array((np.ones(edges.shape[1]), (edges[0], edges[1])), shape=(n, n))


def ours(mdp: ca.MDP, risk: ca.Risk | None, caution: float) -> dict[str, Any]:
    """Problem and solution, timed together."""
    started = time.perf_counter()
    solution = ca.solve(ca.Problem(mdp, risk, caution))
    seconds = time.perf_counter() - started
    gap = solution.gap / max(1.0, abs(solution.objective))
    found = {"status": solution.status.name, "method": solution.method, "kind": solution.certificate.kind}
    return found | {"seconds": seconds, "gap": gap, "objective": solution.objective, "risk": solution.risk}


def peer(mdp: ca.MDP, risk: ca.Risk | None, caution: float, solver: str) -> dict[str, Any]:
    """The same problem through CVXPY; its answer is read as a policy and judged by our certificate.

    Variables are scaled to an average of one, which suits the absolute tolerances of these solvers best.
    """
    import cvxpy as cp

    problem = ca.Problem(mdp, risk, caution)
    started = time.perf_counter()
    n, gamma = mdp.n_states * mdp.n_actions, mdp.discount
    y = cp.Variable(n, nonneg=True)
    leaving = state_sums(mdp.allowed)
    balance = (leaving - gamma * mdp.transitions.T) @ y == n * (1 - gamma) * mdp.start
    gain = mdp.rewards.ravel() @ y / (n * (1 - gamma))
    cost, constraints, witness = (0, [], lambda d: ()) if risk is None else _say(cp, problem, y, leaving)
    program = cp.Problem(cp.Maximize(gain - caution * cost), [balance, *constraints])
    program.solve(solver=solver.split()[0], **OPTIONS.get(solver, {}))
    seconds = time.perf_counter() - started
    stats = {"status": program.status, "seconds": seconds, "solver_seconds": program.solver_stats.solve_time}
    if y.value is None:
        return stats | {"gap": None, "objective": None, "claimed": None}
    d = np.maximum(y.value, 0).reshape(mdp.shape) / n
    _, plan = prove(problem, witness(d), 1e-9)
    readings = [deliver(problem, occupancy_policy(d, plan.policy(mdp.n_actions), floor)) for floor in (1e-7, 0.0, 1e-9)]
    best = max(readings, key=lambda reading: reading.objective)
    # several readings of the answer's slopes: whichever proves most counts for the peer
    slopes = [witness(d), witness(best.occupancy.occupancy), *_dual_slopes(problem, balance.dual_value)]
    bounds = [upper_bound(problem, prove(problem, given, 1e-9)[0]) for given in slopes]
    objective = best.objective
    gap = (min(bounds) - objective) / max(1.0, abs(objective))
    return stats | {"gap": gap if np.isfinite(gap) else None, "objective": objective, "claimed": float(program.value)}


def _say(cp: Any, problem: ca.Problem, y: Any, leaving: Any) -> tuple[Any, list[Any], Any]:
    """The risk in CVXPY's words, its constraints, and how to read a witness for its ``cut`` off the answer."""
    n, ((caution, risk),) = y.size, problem.terms
    if isinstance(risk, LogBarrier):
        slack = risk.features @ y / n - risk.floors
        return -cp.sum(cp.log(slack)), [], lambda d: (1 / np.maximum(risk.slack(d), 1e-12),)
    if isinstance(risk, WorstOf):
        top = cp.Variable()
        below = risk.features @ y / n <= top
        return top, [below], lambda d: (below.dual_value,)
    if isinstance(risk, GraphTransport | MatrixTransport):
        risk = _with_every_arc(risk)
        flow = cp.Variable(risk.tail.size, nonneg=True)
        size = risk.demand.size
        supply = sp.csr_array(sp.vstack([leaving, sp.csr_array((size - leaving.shape[0], n))]))
        carried = risk.incidence @ flow == supply @ y - n * risk.demand
        return risk.cost @ flow / n, [carried], lambda d: (-carried.dual_value[: risk.shape[0]] * n / caution,)
    entries = leaving @ y if risk.on_states else y
    prior = n * risk.prior.ravel()
    if isinstance(risk, EntropicRisk):
        return cp.sum(cp.rel_entr(entries, prior)) / n, [], lambda d: (_slope(risk, d),)
    if isinstance(risk, HalfSquares):
        return cp.sum_squares(entries - prior) / (2 * n * n), [], lambda d: (_slope(risk, d),)
    assert isinstance(risk, HalfL1)
    excess = cp.Variable(entries.size, nonneg=True)
    above = entries - prior <= excess
    return cp.sum(excess) / n, [above], lambda d: (above.dual_value * n / caution,)


def _dual_slopes(problem: ca.Problem, dual: Any) -> list[tuple[Any]]:
    """For an entropy the multipliers of the balance give the slope: (r + gamma E[v] - v) / tau."""
    if problem.neutral or not isinstance(problem.terms[0][1], EntropicRisk):
        return []
    mdp, ((caution, risk),) = problem.mdp, problem.terms
    slopes = []
    for sign in (1.0, -1.0):
        v = sign * dual * mdp.n_states * mdp.n_actions * (1 - mdp.discount)
        table = (mdp.rewards + mdp.discount * mdp.expect_next(v) - v[:, None]) / (caution * (1 - mdp.discount))
        slopes.append((table.max(axis=1) if risk.on_states else table.ravel(),))
    return slopes


def _with_every_arc(risk: GraphTransport | MatrixTransport) -> GraphTransport | MatrixTransport:
    """A peer gets the whole plan: our own form starts from a few arcs and adds more."""
    if isinstance(risk, GraphTransport):
        return risk
    states = np.arange(risk.prior.size)
    every = np.repeat(states, states.size), np.tile(states, states.size)
    return matrix_transport(risk.prior, risk.shape, risk.distance, *every, Memory())


def _slope(risk: Any, d: Any) -> Any:
    return np.ravel(risk.gradient(d)[:, 0] if risk.on_states else risk.gradient(d))


def warm_up(solver: str) -> None:
    """What is paid once per process and not per problem: compiled kernels, or the import of CVXPY."""
    if solver != "cautious":
        importlib.import_module("cvxpy")
        return
    small = ca.worlds.garnet(400)
    ca.solve(ca.Problem(small))
    ca.solve(ca.Problem(small, ca.Entropy()))


def run(request: dict[str, Any], ready: Callable[[], object]) -> dict[str, Any]:
    """The row of one case and solver; calls ``ready`` before the part that is timed."""
    solver = request["solver"]
    warm_up(solver)
    mdp = model(request["model"], request["n_states"], request["discount"])
    risk = risk_of(request["risk"], request["model"], mdp)
    caution = CAUTIONS.get(request["risk"], 1.0)
    ready()
    row = ours(mdp, risk, caution) if solver == "cautious" else peer(mdp, risk, caution, solver)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"solver": solver, **row, "megabytes": kilobytes / 1000}


if __name__ == "__main__":
    answer = run(json.loads(sys.argv[1]), lambda: sys.stdout.write("ready\n") and sys.stdout.flush())
    sys.stdout.write(json.dumps(answer) + "\n")
