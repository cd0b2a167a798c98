"""Column generation for risks of a few linear features: barriers, worst cases and sums of them.

Each planning call maximises the reward corrected by the present prices of the features, and adds one deterministic
policy as a column. The restricted master problem (``restricted_master.py``) finds the best mixture of all columns and
the next prices. The optimum of the planning problem at these prices is an upper bound for every policy. Plans and
occupancies are computed only as accurately as the present gap requires.
"""

from collections.abc import Iterator

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.checks import state_sums_of
from cautious.horizons.plan import Plan
from cautious.occupancy import occupancy_policy
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.column_generation.column_pool import ColumnPool, ColumnPoolCache
from cautious.solvers.column_generation.level_method import LevelMethod
from cautious.solvers.column_generation.phase_one import meet_floors
from cautious.solvers.column_generation.restricted_master import Mixture, RestrictedMaster, reduce_support
from cautious.solvers.feature_rows import Rows, all_features, feature_rows
from cautious.solvers.shape import Shape

MAX_PLANNING_CALLS = 1000
# planning calls of a solve, for the estimate of its work
PLANS_PER_FEATURE = 3.0
# a candidate is shown after so many planning calls without one
CALLS_BETWEEN_CANDIDATES = 25
# the search ends if the gap fell by less than a tenth within so many planning calls
STALL_CALLS = 15
MAX_CANDIDATES = 4
# the error of a column's occupancy, as a share of the gap that is aimed at, and of the present gap
FINAL_ERROR_SHARE, EARLY_ERROR_SHARE = 0.15, 0.5
MAX_OCCUPANCY_ERROR = 1e-2


class ColumnGeneration(Solver):
    """See the module's text."""

    name = "column generation"
    every_horizon = True
    every_model = True
    margin = 0.8

    accepts = frozenset({Structure.FEATURES})

    def work(self, problem: Problem, shape: Shape) -> float:
        """Every plan adds a column, and a few per feature are needed."""
        return PLANS_PER_FEATURE * (1 + problem.parts.n_features) * shape.plan_work

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Candidates when the gap looks closed, and after every ``CALLS_BETWEEN_CANDIDATES`` planning calls."""
        rows = feature_rows(problem)
        blocks = [term.risk.features for term in problem.parts.features]
        pool = target.workspace.of(self.name, ColumnPoolCache).of(problem, blocks, all_features)
        search = _ColumnGenerationRun(problem, target, pool, rows, self.margin)
        if not pool.columns:
            search.begin()
        if rows.barrier.any() and not pool.cleared:
            yield from meet_floors(pool, rows.barrier, rows.floor, target)
        yield from search.run()


class _ColumnGenerationRun:
    """One run: the columns, and the best upper bound so far with its witness."""

    def __init__(self, problem: Problem, target: Target, pool: ColumnPool, rows: Rows, margin: float) -> None:
        self.problem, self.target, self.pool, self.rows, self.margin = problem, target, pool, rows, margin
        self.upper, self.witness = np.inf, Witness(np.zeros(problem.mdp.occupancy_shape[:-1]))
        self.gaps: list[float] = []
        self.level = LevelMethod()
        # the last master solution's prices; at first those of the last solved caution, in proportion, if there is one
        self.last_prices = pool.proportional_prices(problem.caution)

    def begin(self) -> None:
        """The first column, at prices that are equal within every worst case."""
        prices = self.rows.even()
        tolerance = MAX_OCCUPANCY_ERROR * self.pool.sensitivity(prices)
        found = self.pool.price_out(self.problem.reward, self.rows.sign * prices, tolerance, MAX_OCCUPANCY_ERROR)
        # the price of a barrier is never zero
        if not self.rows.barrier.any():
            self._prove(found, prices)

    def run(self) -> Iterator[Candidate]:
        candidates = 0
        while candidates < MAX_CANDIDATES:
            master = RestrictedMaster(self.pool.returns, self.pool.numbers, self.rows, self.last_prices)
            best = master.best()
            if best is None or best.value == -np.inf:
                return
            self.last_prices = best.prices
            gap, goal = self.upper - best.value, self._goal(best.value, candidates)
            if self.pool.costs_much(best.prices, goal):
                self.pool.separate()
                continue
            # a gap that is infinite still has not fallen either
            stalled = len(self.gaps) > STALL_CALLS and not gap < 0.9 * self.gaps[-STALL_CALLS]
            ended = stalled or len(self.gaps) >= MAX_PLANNING_CALLS or self.target.clock.over
            if gap <= goal or ended:
                weights = reduce_support(self.pool.returns, self.pool.numbers, best.weights)
                # a column that had to be made more accurate may not be in the best mixture any more
                if self.pool.sharpen(weights, self._accuracy(best, goal)):
                    continue
                if self.level.centre is not None:
                    self.pool.solved = (self.problem.caution, self.level.centre)
                yield self._candidate(best, weights, goal)
                candidates += 1
                if ended:
                    return
                continue
            if len(self.gaps) % CALLS_BETWEEN_CANDIDATES == CALLS_BETWEEN_CANDIDATES - 1:
                weights = reduce_support(self.pool.returns, self.pool.numbers, best.weights)
                yield self._candidate(best, weights, gap)
            self._price_out(master, best, gap, goal)
            self.gaps.append(gap)

    def _goal(self, value: float, candidates: int) -> float:
        """The gap at which to deliver a candidate; smaller after each one that the certificate rejected."""
        return 0.8 * self.margin * self.target.allowance(value) * 0.3**candidates

    def _price_out(self, master: RestrictedMaster, best: Mixture, gap: float, goal: float) -> None:
        """Add one column, at the prices of the level method."""
        solved = self.pool.proportional_prices(self.problem.caution)
        if self.level.centre is None and solved is not None:
            prices = self.rows.normalised(solved)
        else:
            prices = self.level.prices(master, best, gap)
        sensitivity = self.pool.sensitivity(prices)
        known = best.value + self.rows.intercept(prices)

        def rough(found: Plan) -> float:
            # a plan that gains nothing closes the gap, and its column is not needed
            gain = max(found.upper - known, goal)
            return EARLY_ERROR_SHARE * min(gap, gain, MAX_OCCUPANCY_ERROR * sensitivity) / sensitivity

        found = self.pool.price_out(self.problem.reward, self.rows.sign * prices, goal, rough, known, self.target.over)
        self._prove(found, prices)
        self.pool.forget(best.weights)

    def _prove(self, found: Plan, prices: Array) -> None:
        """Keep the bound of a plan at these prices if it is the best."""
        bound = found.upper - self.rows.intercept(prices)
        if bound < self.upper:
            self.upper, self.level.centre = bound, prices
            self.witness = Witness(found.values, _cuts(self.problem, prices))

    def _accuracy(self, best: Mixture, gap: float) -> float:
        return FINAL_ERROR_SHARE * gap / self.pool.sensitivity(best.prices)

    def _candidate(self, best: Mixture, weights: Array, gap: float) -> Candidate:
        d = self.pool.mixture(weights, self._accuracy(best, gap))
        return Candidate(occupancy_policy(d, self.pool.default_policy()), self.witness, states=state_sums_of(d))


def _cuts(problem: Problem, prices: Array) -> tuple[Array, ...]:
    """Prices, term by term, in the form each risk's ``cut`` takes."""
    cuts, place = [], 0
    for term in problem.parts.features:
        size = len(term.risk.names)
        cuts.append(prices[place : place + size] / term.weight)
        place += size
    return tuple(cuts)
