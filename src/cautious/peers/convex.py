"""The occupancy program through CVXPY: what a user would write, and our judgement of the answer.

    maximise  <d, r> / (1-gamma) - caution risk(d)    such that    E d = (1-gamma) xi + gamma P' d,   d >= 0,

over the pairs that count (``problem.active``). In the long run (average) the program is over stationary occupancies
that sum to one, until an end (total) over expected visits, and over T steps over the pairs of every step, of which
risks see the sum. Variables are scaled to an average of one, which suits the absolute tolerances of these solvers best.
The answer is read as a policy; the multipliers and slopes are read off it in several ways, and whichever proves most
counts for the peer.
"""

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import upper_bound
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.horizons.visits import over_time
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.peers.timing import NO_ANSWER, Attempt, judged, timed
from cautious.problem import Problem
from cautious.risks.base import Risk, terms_of
from cautious.risks.epigraph import identity, state_sums
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.limits import Limit, LimitWitness
from cautious.risks.matrix_transport import MatrixTransport, matrix_transport
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares, SeparableRisk
from cautious.risks.transport import TransportRisk
from cautious.solvers.candidates import adjusted_reward, proposals, prove
from cautious.solvers.conic.cone_program import flow_rows

PROOF_TOLERANCE = 1e-9
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
Term = tuple[Any, list[Any], Callable[[Array], Any]]


class Translated:
    """A problem as a CVXPY program; ``y`` is the occupancy of the active pairs, times their number."""

    def __init__(self, problem: Problem) -> None:
        import cvxpy as cp

        mdp, active = problem.mdp, problem.active
        self.problem, self.cp = problem, cp
        self.pairs, self.states = np.flatnonzero(active.ravel()), np.flatnonzero(problem.active_states)
        self.n = self.pairs.size
        self.y = cp.Variable(self.n, nonneg=True)
        # of a finite horizon without their steps
        self.pairs_of_model = self.pairs % mdp.rewards.size
        self.leaving = self.columns(state_sums(problem.active_pairs))
        flow, inflow = flow_rows(mdp, active)
        self.balance = flow @ self.y == self.n * inflow
        gain = problem.reward.ravel()[self.pairs_of_model] @ self.y / (self.n * mdp.normaliser)
        terms = [(weight, *translate(risk, self, weight)) for weight, risk in problem.terms]
        self.readers = [reader for _, _, _, reader in terms]
        constraints = [self.balance, *(constraint for _, _, more, _ in terms for constraint in more)]
        self.program = cp.Problem(cp.Maximize(gain - sum(weight * cost for weight, cost, _, _ in terms)), constraints)

    def columns(self, matrix: sp.csr_array) -> sp.csr_array:
        """The columns of the active pairs, at every step of a finite horizon."""
        return matrix if self.n == matrix.shape[1] else sp.csr_array(matrix[:, self.pairs_of_model])

    def entries(self, risk: SeparableRisk) -> tuple[Any, Array, Mask]:
        """What a separable risk looks at and its prior, both scaled like ``y``, and the mask of its active entries."""
        mdp = self.problem.mdp
        here = risk.active_entries(self.problem.active_pairs)
        looked_at = self.y
        if risk.on_states:
            looked_at = self.leaving[np.flatnonzero(here)] @ self.y
        elif isinstance(mdp.horizon, int):
            looked_at = self.columns(identity(mdp.rewards.size))[np.flatnonzero(here)] @ self.y
        return looked_at, self.n * risk.prior[here], here

    def occupancy(self) -> Array:
        """The answer as a table (S, A), or (T, S, A) for a finite horizon."""
        d = np.zeros(self.problem.active.size)
        d[self.pairs] = np.maximum(self.y.value, 0) / self.n
        return d.reshape(self.problem.mdp.occupancy_shape)

    def multipliers(self) -> Array | None:
        """Those of the balance, per state (S,), or (T, S); None in the long run and until an end.

        Their sign is the solver's own.
        """
        mdp = self.problem.mdp
        if self.balance.dual_value is None or mdp.horizon in (AVERAGE, TOTAL):
            return None
        v = np.zeros(mdp.occupancy_shape[:-1])
        v.flat[self.states] = self.balance.dual_value
        return v * self.n * mdp.normaliser

    def witnesses(self, d: Array) -> tuple[Any, ...]:
        """One for every term, read off an occupancy and the multipliers of the program."""
        return tuple(reader(over_time(d)) for reader in self.readers)


@singledispatch
def translate(risk: Risk, program: Translated, weight: float) -> Term:
    """A term in CVXPY's words; ``roster.COSTS`` lists the kinds of risks that have one."""
    raise NotImplementedError(risk.label)


@translate.register
def _log_barrier(risk: LogBarrier, program: Translated, weight: float) -> Term:
    slack = program.columns(risk.features) @ program.y / program.n - risk.floors
    return -program.cp.sum(program.cp.log(slack)), [], lambda d: 1 / np.maximum(risk.slack(d), 1e-12)


@translate.register
def _worst_of(risk: WorstOf, program: Translated, weight: float) -> Term:
    top = program.cp.Variable()
    below = program.columns(risk.features) @ program.y / program.n <= top
    return top, [below], lambda d: below.dual_value


@translate.register
def _limit(risk: Limit, program: Translated, weight: float) -> Term:
    parts = [(share, *translate(one, program, share)) for share, one in terms_of(risk.measure)]
    kept = sum(share * cost for share, cost, _, _ in parts) <= risk.bound
    more = [constraint for _, _, constraints, _ in parts for constraint in constraints]

    def reader(d: Array) -> LimitWitness:
        return LimitWitness(float(np.max(kept.dual_value)), tuple(read(d) for _, _, _, read in parts))

    return 0.0, [kept, *more], reader


@translate.register
def _transport(risk: TransportRisk, program: Translated, weight: float) -> Term:
    whole, n, leaving = with_every_arc(risk), program.n, program.leaving
    flow = program.cp.Variable(whole.tail.size, nonneg=True)
    supply = sp.csr_array(sp.vstack([leaving, sp.csr_array((whole.demand.size - leaving.shape[0], n))]))
    carried = whole.incidence @ flow == supply @ program.y - n * whole.demand
    return whole.cost @ flow / n, [carried], lambda d: -carried.dual_value[: risk.shape[0]] * n / weight


@translate.register
def _entropic(risk: EntropicRisk, program: Translated, weight: float) -> Term:
    entries, prior, here = program.entries(risk)
    cost = program.cp.sum(program.cp.rel_entr(entries, prior)) / program.n
    return cost, [], lambda d: gradient_entries(risk, d)[here.ravel()]


@translate.register
def _half_squares(risk: HalfSquares, program: Translated, weight: float) -> Term:
    entries, prior, here = program.entries(risk)
    constant = float(np.sum(risk.prior[~here] ** 2)) / 2
    cost = program.cp.sum_squares(entries - prior) / (2 * program.n**2) + constant
    return cost, [], lambda d: gradient_entries(risk, d)[here.ravel()]


@translate.register
def _half_l1(risk: HalfL1, program: Translated, weight: float) -> Term:
    entries, prior, _ = program.entries(risk)
    excess = program.cp.Variable(prior.size, nonneg=True)
    above = entries - prior <= excess
    return program.cp.sum(excess) / program.n, [above], lambda d: above.dual_value * program.n / weight


def with_every_arc(risk: TransportRisk) -> TransportRisk:
    """A peer gets the whole plan: our own form of a large matrix starts from a few arcs and adds more."""
    if not risk.partial:
        return risk
    assert isinstance(risk, MatrixTransport)
    states = np.arange(risk.prior.size)
    every = np.repeat(states, states.size), np.tile(states, states.size)
    return matrix_transport(risk.prior, risk.shape, risk.distance, *every)


def gradient_entries(risk: SeparableRisk, d: Array) -> Array:
    """The gradient of a separable risk, per entry."""
    return np.ravel(risk.gradient(d)[:, 0] if risk.on_states else risk.gradient(d))


def judge(translated: Translated) -> dict[str, Any]:
    """The objective of the policy that the answer describes, and the gap our certificate proves for it."""
    problem = translated.problem
    if translated.y.value is None:
        return NO_ANSWER
    d = translated.occupancy()
    witness, plan = prove(problem, translated.witnesses(d), PROOF_TOLERANCE, d)
    candidates = proposals(problem, d, witness, plan)
    policies = [one.policy for one in candidates if one.policy is not None]
    best = max((evaluate_policy(problem, one) for one in policies), key=lambda found: found.objective)
    readings = [translated.witnesses(d), translated.witnesses(best.occupancy.occupancy)]
    readings += entropic_readings(problem, readings[0], translated.multipliers())
    bound = min(upper_bound(problem, prove(problem, given, PROOF_TOLERANCE, d)[0]) for given in readings)
    return judged(best, bound, float(translated.program.value))


def entropic_readings(problem: Problem, given: tuple[Any, ...], dual: Array | None) -> list[tuple[Any, ...]]:
    """For an entropy the multipliers of the balance give the slope: (r~ + gamma E[v'] - v) / (c normaliser).

    r~ is the reward adjusted by the slopes of all other terms, v' are the multipliers of the next step, and over
    several steps the largest such slope counts. Which sign a solver's multipliers have is tried out.
    """
    found = [(term.number, term.weight, term.risk) for term in problem.parts.entropies]
    if len(found) != 1 or dual is None:
        return []
    ((place, weight, risk),), mdp, readings = found, problem.mdp, []
    others = [term for k, term in enumerate(problem.terms) if k != place]
    rest = problem.part(problem.reward, others)
    reward = adjusted_reward(rest, [one for k, one in enumerate(given) if k != place])
    for sign in (1.0, -1.0):
        v = sign * dual
        after = [mdp.expect_next(one) for one in (v[1:] if v.ndim == 2 else [v])]
        ahead = np.array([*after, np.zeros(mdp.shape)]) if v.ndim == 2 else after[0]
        table = (reward + mdp.discount * ahead - v[..., None]) / (weight * mdp.normaliser)
        table = np.where(problem.active, table, -np.inf).reshape(-1, *mdp.shape).max(axis=0)
        reading = table.max(axis=1) if risk.on_states else table
        readings.append((*given[:place], reading[risk.active_entries(problem.active_pairs)], *given[place + 1 :]))
    return readings


def warm_up(solver: str) -> None:
    """CVXPY finds its solvers and compiles its atoms at the first call of a process."""
    import cvxpy as cp

    x = cp.Variable(2, nonneg=True)
    cp.Problem(cp.Minimize(cp.sum(x)), [x[0] + x[1] == 1]).solve(solver=solver.split()[0])


def attempt(problem: Problem, solver: str) -> Attempt:
    """Translate and solve, timed; the judgement comes as a function, since its time is not the peer's."""

    def solve() -> Translated:
        translated = Translated(problem)
        translated.program.solve(solver=solver.split()[0], **OPTIONS.get(solver, {}))
        return translated

    translated, stats = timed(solve)
    program = translated.program
    stats |= {"status": program.status, "solver_seconds": program.solver_stats.solve_time}
    return stats, lambda: judge(translated)
