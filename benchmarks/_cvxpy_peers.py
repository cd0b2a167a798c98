"""The occupancy program through CVXPY: what a user would write, and our judgement of the answer.

    maximise  <d, r> / (1-gamma) - caution risk(d)    such that    E d = (1-gamma) xi + gamma P' d,   d >= 0.

Variables are scaled to an average of one, which suits the absolute tolerances of these solvers best. The answer is read
as a policy; the multipliers and slopes are read off it in several ways, and whichever proves most counts for the peer.
"""

import time
from collections.abc import Callable
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.certificate import deliver, upper_bound
from cautious.occupancy import occupancy_policy
from cautious.risks.base import Risk
from cautious.risks.epigraph import state_sums
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.matrix_transport import MatrixTransport, matrix_transport
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares, SeparableRisk
from cautious.risks.transport import GraphTransport, Memory
from cautious.solvers.rounding import adjusted_reward, prove

PROOF = 1e-9
FLOORS = (1e-7, 0.0, 1e-9)
ONE_THREAD = {"threads": 1, "parallel": "off"}
OPTIONS: dict[str, dict[str, Any]] = {
    "CLARABEL": {"max_threads": 1},
    "CLARABEL 1e-10": dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-10) | {"max_threads": 1},
    "SCS": {"eps_abs": 1e-7, "eps_rel": 1e-7, "max_iters": 10**7},
    "HIGHS": {"highs_options": ONE_THREAD},
    "HIGHS IPM": {"highs_options": ONE_THREAD | {"solver": "ipm"}},
    "HIGHS PDLP": {"highs_options": ONE_THREAD | {"solver": "pdlp"}},
    "PIQP": {"compute_timings": True},
}
# a term in CVXPY's words: its cost, its constraints, and how to read a witness for its ``cut`` off the answer
Term = tuple[Any, list[Any], Callable[[Any], Any]]


class Translated:
    """A problem as a CVXPY program; ``y`` is the occupancy times its number of entries."""

    def __init__(self, problem: ca.Problem) -> None:
        mdp = problem.mdp
        self.problem, self.n = problem, mdp.n_states * mdp.n_actions
        self.y = cp.Variable(self.n, nonneg=True)
        self.leaving = state_sums(mdp.allowed)
        flow = (self.leaving - mdp.discount * mdp.transitions.T) @ self.y
        self.balance = flow == self.n * (1 - mdp.discount) * mdp.start
        gain = mdp.rewards.ravel() @ self.y / (self.n * (1 - mdp.discount))
        said = [(weight, *self._say(weight, risk)) for weight, risk in problem.terms]
        self.readers = [reader for _, _, _, reader in said]
        constraints = [self.balance, *(constraint for _, _, more, _ in said for constraint in more)]
        self.program = cp.Problem(cp.Maximize(gain - sum(weight * cost for weight, cost, _, _ in said)), constraints)

    def _say(self, weight: float, risk: Risk) -> Term:
        y, n = self.y, self.n
        if isinstance(risk, LogBarrier):
            slack = risk.features @ y / n - risk.floors
            return -cp.sum(cp.log(slack)), [], lambda d: 1 / np.maximum(risk.slack(d), 1e-12)
        if isinstance(risk, WorstOf):
            top = cp.Variable()
            below = risk.features @ y / n <= top
            return top, [below], lambda d: below.dual_value
        if isinstance(risk, GraphTransport | MatrixTransport):
            return self._say_transport(weight, with_every_arc(risk))
        assert isinstance(risk, SeparableRisk)
        entries, prior = self.leaving @ y if risk.on_states else y, n * risk.prior.ravel()
        if isinstance(risk, EntropicRisk):
            return cp.sum(cp.rel_entr(entries, prior)) / n, [], lambda d: slope(risk, d)
        if isinstance(risk, HalfSquares):
            return cp.sum_squares(entries - prior) / (2 * n * n), [], lambda d: slope(risk, d)
        assert isinstance(risk, HalfL1)
        excess = cp.Variable(entries.size, nonneg=True)
        above = entries - prior <= excess
        return cp.sum(excess) / n, [above], lambda d: above.dual_value * n / weight

    def _say_transport(self, weight: float, risk: GraphTransport | MatrixTransport) -> Term:
        n, leaving = self.n, self.leaving
        flow = cp.Variable(risk.tail.size, nonneg=True)
        supply = sp.csr_array(sp.vstack([leaving, sp.csr_array((risk.demand.size - leaving.shape[0], n))]))
        carried = risk.incidence @ flow == supply @ self.y - n * risk.demand
        return risk.cost @ flow / n, [carried], lambda d: -carried.dual_value[: risk.shape[0]] * n / weight

    def witnesses(self, d: Any) -> tuple[Any, ...]:
        """One for every term, read off an occupancy (S, A) and the multipliers of the program."""
        return tuple(reader(d) for reader in self.readers)


def judge(translated: Translated) -> dict[str, Any]:
    """The objective of the policy that the answer describes, and the gap our certificate proves for it."""
    problem, mdp = translated.problem, translated.problem.mdp
    if translated.y.value is None:
        return {"gap": None, "objective": None, "claimed": None}
    d = np.maximum(translated.y.value, 0).reshape(mdp.shape) / translated.n
    _, plan = prove(problem, translated.witnesses(d), PROOF)
    greedy = plan.policy(mdp.n_actions)
    best = max(
        (deliver(problem, occupancy_policy(d, greedy, floor)) for floor in FLOORS), key=lambda found: found.objective
    )
    readings = [translated.witnesses(d), translated.witnesses(best.occupancy.occupancy)]
    readings += entropic_readings(problem, readings[0], translated.balance.dual_value)
    bound = min(upper_bound(problem, prove(problem, given, PROOF)[0]) for given in readings)
    gap = (bound - best.objective) / max(1.0, abs(best.objective))
    claimed = float(translated.program.value)
    return {"gap": gap if np.isfinite(gap) else None, "objective": best.objective, "claimed": claimed}


def entropic_readings(problem: ca.Problem, given: tuple[Any, ...], dual: Any) -> list[tuple[Any, ...]]:
    """For an entropy the multipliers of the balance give the slope: (r~ + gamma E[v] - v) / (c (1-gamma)).

    r~ is the reward adjusted by the slopes of all other terms. Which sign a solver's multipliers have is tried out.
    """
    places = [k for k, (_, risk) in enumerate(problem.terms) if isinstance(risk, EntropicRisk)]
    if len(places) != 1 or dual is None:
        return []
    (place,), mdp, readings = places, problem.mdp, []
    weight, risk = problem.terms[place]
    assert isinstance(risk, EntropicRisk)
    others = [term for k, term in enumerate(problem.terms) if k != place]
    rest = problem.part(problem.reward, others)
    reward = adjusted_reward(rest, [one for k, one in enumerate(given) if k != place])
    for sign in (1.0, -1.0):
        v = sign * dual * mdp.n_states * mdp.n_actions * (1 - mdp.discount)
        table = (reward + mdp.discount * mdp.expect_next(v) - v[:, None]) / (weight * (1 - mdp.discount))
        found = table.max(axis=1) if risk.on_states else table.ravel()
        readings.append((*given[:place], found, *given[place + 1 :]))
    return readings


def with_every_arc(risk: GraphTransport | MatrixTransport) -> GraphTransport | MatrixTransport:
    """A peer gets the whole plan: our own form starts from a few arcs and adds more."""
    if isinstance(risk, GraphTransport):
        return risk
    states = np.arange(risk.prior.size)
    every = np.repeat(states, states.size), np.tile(states, states.size)
    return matrix_transport(risk.prior, risk.shape, risk.distance, *every, Memory())


def slope(risk: Any, d: Any) -> Any:
    """The gradient of a separable risk, per entry."""
    return np.ravel(risk.gradient(d)[:, 0] if risk.on_states else risk.gradient(d))


def warm_up(solver: str) -> None:
    """CVXPY finds its solvers and compiles its atoms at the first call of a process."""
    x = cp.Variable(2, nonneg=True)
    cp.Problem(cp.Minimize(cp.sum(x)), [x[0] + x[1] == 1]).solve(solver=solver.split()[0])


def attempt(problem: ca.Problem, solver: str) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Translate and solve, timed; the judgement comes as a function, since its time is not the peer's."""
    wall, cpu = time.perf_counter(), time.process_time()
    translated = Translated(problem)
    translated.program.solve(solver=solver.split()[0], **OPTIONS.get(solver, {}))
    stats = {"seconds": time.process_time() - cpu, "wall_seconds": time.perf_counter() - wall}
    program = translated.program
    stats |= {"status": program.status, "solver_seconds": program.solver_stats.solve_time}
    return stats, lambda: judge(translated)
