"""Limits on convex risks: a search over their prices, with the solvers of the priced problems inside.

At prices lambda of the limits that are not linear, the problem with the risks lambda_j measure_j instead of them is one
that other solvers take. Its optimum plus <lambda, bounds> is an upper bound for every policy that keeps the limits. Its
occupancy is a column with an objective F and measures rho_j. By convexity a mixture of columns has an objective of at
least the mean of F, and measures of at most the mean of rho: the best mixture within the bounds is the policy, and the
prices of the bounds in this small problem are the next ones (Dantzig-Wolfe decomposition).

Phase I is the same without rewards. It minimises the largest scaled excess over the bounds; prices at which no policy
brings the weighted excess down to zero prove that the limits cannot be kept together.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Witness
from cautious.checks import state_sums_of
from cautious.occupancy import occupancy_policy
from cautious.problem import Problem
from cautious.risks.base import Risk, Structure, terms_of
from cautious.risks.limits import LimitWitness
from cautious.solvers.base import Candidate, Dispatch, Outcome, Solver, Start, Target, Workspace
from cautious.solvers.column_generation.restricted_master import Mixture, RestrictedMaster
from cautious.solvers.feature_rows import Rows
from cautious.solvers.shape import Shape

MAX_ROUNDS = 120
# shares of the allowed gap: what the barriers of the master problem may lose, and the precision of priced problems; and
# the share of the present gap to which a priced problem is solved while that is larger
MASTER_SHARE, INNER_GAP_SHARE, PRESENT_GAP_SHARE = 0.05, 0.3, 0.05
# a price below this share of the largest one is zero
MIN_RELATIVE_PRICE = 1e-12
# phase I ends with a slack of this share of the best possible one, or of the size of the bounds
SUFFICIENT_SHARE, SUFFICIENT_SLACK = 0.3, 1e-2
# phase I is solved to this gap at first, and to the last one where limits can hardly be kept, in units of the bounds
PHASE_ONE_GAPS = 1e-3, 1e-9


@dataclass(frozen=True)
class PriceSearch(Solver):
    """``dispatch`` solves the priced problems."""

    dispatch: Dispatch
    name = "price search"
    every_horizon = True

    accepts = frozenset(Structure) - {Structure.SCALAR, Structure.RETURN, Structure.RETURN_LIMIT}

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs a limit that is not linear."""
        if all(limit.linear for limit in problem.limits):
            return "has no limits beyond linear ones"
        return None

    def work(self, problem: Problem, shape: Shape) -> float:
        """Tried before what takes limits as they are: the problems without limits are estimated by themselves."""
        return 0.0

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """A mixture and a bound after every priced problem."""
        yield from _PriceSearchRun(problem, target, self.dispatch).run()


@dataclass
class _MeasuredPolicies:
    """Occupancies (S, A) with their objectives (K,) and the measures (K, m) of the limits."""

    occupancies: list[Array] = field(default_factory=list)
    objectives: list[float] = field(default_factory=list)
    measures: list[Array] = field(default_factory=list)

    def mixture(self, weights: Array) -> Array:
        """The weighted occupancy; (S, A)."""
        return np.asarray(sum(weight * d for weight, d in zip(weights, self.occupancies, strict=True) if weight > 0))


class _PriceSearchRun:
    def __init__(self, problem: Problem, target: Target, dispatch: Dispatch) -> None:
        self.problem, self.target, self.dispatch = problem, target, dispatch
        self.priced = [term for term in problem.parts.limits if not term.risk.linear]
        self.bounds = np.array([term.risk.bound for term in self.priced])
        self.scales = np.maximum(np.abs(self.bounds), 1e-3)
        self.columns = _MeasuredPolicies()
        self.start = target.start
        # of the best mixture so far
        self.value: float | None = None
        self.workspace = Workspace()

    def run(self) -> Iterator[Candidate]:
        free = self._solve(self.problem.reward, np.zeros(self.bounds.size))
        if free.conflict is not None:
            yield self._candidate(None, np.zeros(self.bounds.size), free, conflict=True)
            return
        if not self._keep(free, np.zeros(self.bounds.size)):
            return
        yield self._candidate(self.columns.occupancies[0], np.zeros(self.bounds.size), free)
        if not self._within(self.columns.measures[0]).all():
            yield from self._phase_one()
        if self._best_mixture() is not None:
            yield from self._phase_two()

    def _phase_one(self) -> Iterator[Candidate]:
        """Add columns until a mixture keeps all limits, or offer a proof that none does."""
        m = self.bounds.size
        rows = Rows(np.zeros(m), np.zeros(m), np.zeros(m, dtype=np.int64), np.ones(1))
        nothing, reach, gap = np.zeros(self.problem.mdp.shape), np.inf, PHASE_ONE_GAPS[0]
        for _ in range(MAX_ROUNDS):
            excess = (np.array(self.columns.measures).T - self.bounds[:, None]) / self.scales[:, None]
            mixture = RestrictedMaster(np.zeros(excess.shape[1]), excess, rows).best()
            if mixture is None or self.target.clock.over:
                return
            worst = float((excess @ mixture.weights).max())
            if worst < 0 and -worst >= min(SUFFICIENT_SLACK, SUFFICIENT_SHARE * reach):
                return
            prices = rows.normalised(mixture.prices) / self.scales
            prices = np.where(prices > MIN_RELATIVE_PRICE * prices.max(), prices, 0.0)
            found = self._solve(nothing, prices, gap, rewarded=False)
            bound = found.upper + float(prices @ self.bounds)
            if bound < 0 or found.conflict is not None:
                yield self._candidate(self.columns.mixture(mixture.weights), prices, found, conflict=True)
            if not self._keep(found, prices, rewarded=False):
                return
            if bound >= reach * (1 - 1e-3) and gap <= PHASE_ONE_GAPS[1]:
                return
            gap = min(gap, max(0.1 * abs(bound + worst), PHASE_ONE_GAPS[1]))
            reach = min(reach, bound)

    def _phase_two(self) -> Iterator[Candidate]:
        upper, gaps = np.inf, [np.inf]
        for _ in range(MAX_ROUNDS):
            best = self._best_mixture()
            if best is None or self.target.clock.over:
                return
            gap, allowance = upper - best.value, self.target.allowance(best.value)
            prices = np.where(best.prices > MIN_RELATIVE_PRICE * best.prices.max(), best.prices, 0.0)
            # of this objective: that of the priced problem is larger by all that the measures cost
            inner = max(INNER_GAP_SHARE * allowance, PRESENT_GAP_SHARE * gap if np.isfinite(gap) else allowance)
            found = self._solve(self.problem.reward, prices, inner)
            upper = min(upper, found.upper + float(prices @ self.bounds))
            yield self._candidate(self.columns.mixture(best.weights), prices, found)
            if not self._keep(found, prices):
                return
            gaps.append(upper - best.value)
            # the precision of the priced problems is reached, and more columns bring nothing
            if len(gaps) > 10 and gaps[-1] > 0.9 * gaps[-10]:
                return

    def _best_mixture(self) -> Mixture | None:
        """The best mixture of the columns strictly within the bounds, with the prices of these; None if none is."""
        measures, objectives = np.array(self.columns.measures).T, np.array(self.columns.objectives)
        m, usable = self.bounds.size, np.isfinite(objectives)
        known = float(objectives[usable].max()) if self.value is None else self.value
        weight = MASTER_SHARE * self.target.allowance(known) / m
        # weights sum to one, so slacks mix as measures do, and small ones are known better
        slacks = self.bounds[:, None] - measures[:, usable]
        rows = Rows(np.full(m, weight), np.zeros(m), np.full(m, -1, dtype=np.int64), np.zeros(0))
        best = RestrictedMaster(objectives[usable], slacks, rows).best()
        if best is None or not np.isfinite(best.value):
            return None
        self.value = best.value
        every = np.zeros(objectives.size)
        every[usable] = best.weights
        return replace(best, weights=every)

    def _within(self, measures: Array) -> Array:
        return np.asarray(measures <= self.bounds)

    def _solve(self, reward: Array, prices: Array, allowed: float | None = None, rewarded: bool = True) -> Outcome:
        """The problem at these prices (m,), to an absolute gap, or to a share of what is allowed of its own."""
        target = self.target
        if allowed is None and target.absolute is not None:
            allowed = INNER_GAP_SHARE * target.absolute
        inner = replace(
            target,
            tolerance=INNER_GAP_SHARE * target.tolerance,
            absolute=allowed,
            start=self.start,
            workspace=self.workspace if prices.any() and rewarded else Workspace(),
        )
        outcome = self.dispatch(self.problem.part(reward, self._terms(prices, rewarded)), inner)
        if outcome.evaluated is not None and isinstance(outcome.witness, Witness):
            self.start = Start(outcome.evaluated.policy, outcome.witness.multipliers)
        return outcome

    def _terms(self, prices: Array, rewarded: bool) -> list[tuple[float, Risk]]:
        """Terms of a priced problem; without rewards only those that a policy must keep: barriers and linear limits."""
        barriers = {term.number for term in self.problem.parts.barriers}
        places = {term.number: place for place, term in enumerate(self.priced)}
        terms = []
        limits = self.problem.parts.limit_by_number
        for number, (weight, risk) in enumerate(self.problem.terms):
            if number in places:
                price = float(prices[places[number]])
                terms += [(price * part, one) for part, one in terms_of(limits[number].measure) if price * part > 0]
            elif rewarded or number in limits:
                terms.append((weight, risk))
            elif number in barriers:
                terms.append((PHASE_ONE_GAPS[1], risk))
        return terms

    def _keep(self, outcome: Outcome, prices: Array, rewarded: bool = True) -> bool:
        """Keep the occupancy of an outcome as a column; False if there is none."""
        found = outcome.evaluated
        if found is None or not np.isfinite(found.objective):
            return False
        d = found.occupancy.occupancy
        measures = np.array([term.risk.measure.value(found.occupancy.pairs) for term in self.priced])
        if not np.isfinite(measures).all():
            return False
        objective = found.objective + float(prices @ measures) if rewarded else self.problem.objective(d)
        self.columns.occupancies.append(d)
        self.columns.objectives.append(objective)
        self.columns.measures.append(measures)
        return True

    def _candidate(self, d: Array | None, prices: Array, outcome: Outcome, conflict: bool = False) -> Candidate:
        """A mixture d (S, A) as a policy, with the bound, or the conflict, that the outcome at the prices proves."""
        policy = None if d is None else occupancy_policy(d, self.problem.default_rows)
        states = None if d is None else state_sums_of(d)
        witness = self._witness(prices, outcome, rewarded=not conflict)
        if not conflict:
            return Candidate(policy, witness, states=states)
        if outcome.conflict is not None:
            return Candidate(policy, conflict=outcome.conflict, states=states)
        return Candidate(policy, conflict=self._conflict(witness), states=states)

    def _witness(self, prices: Array, outcome: Outcome, rewarded: bool) -> Witness | None:
        """The lines of the priced problem as lines of the terms of this problem."""
        if not isinstance(outcome.witness, Witness):
            return None
        terms = self._terms(prices, rewarded)
        if len(outcome.witness.cuts) != len(terms):
            return None
        given, places = iter(outcome.witness.cuts), {term.number: place for place, term in enumerate(self.priced)}
        kept = {id(risk) for _, risk in terms}
        cuts: list[object] = []
        for number, (_, risk) in enumerate(self.problem.terms):
            if number not in places:
                cuts.append(next(given) if id(risk) in kept else None)
                continue
            price = float(prices[places[number]])
            lines = tuple(
                next(given) if price * part > 0 else one.simple_witness(self.problem.active_pairs)
                for part, one in terms_of(self.problem.parts.limit_by_number[number].measure)
            )
            cuts.append(LimitWitness(price, lines))
        return Witness(outcome.witness.multipliers, tuple(cuts), outcome.witness.rest)

    def _conflict(self, witness: Witness | None) -> Conflict | None:
        """The prices of all limits as weights of requirements that cannot all be met."""
        if witness is None:
            return None
        weights = []
        barriers = {term.number for term in self.problem.parts.barriers}
        linear = {term.number for term in self.problem.parts.limits if term.risk.barrier is not None}
        for number, cut in enumerate(witness.cuts):
            if number in barriers:
                weights.append(PHASE_ONE_GAPS[1] * np.asarray(cut))
            elif number in linear:
                assert isinstance(cut, LimitWitness)
                weights.append(np.asarray(cut.lines[0]))
        limits = {term.number: witness.cuts[term.number] for term in self.priced}
        rows = np.concatenate([np.zeros(0), *weights])
        return Conflict(rows, witness.multipliers / self.problem.mdp.normaliser, limits)
