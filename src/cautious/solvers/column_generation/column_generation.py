"""Risks of a few numbers (barriers, worst cases, sums of them): column generation.

Each planning call, for the reward corrected by the present prices of the features, adds one deterministic behaviour;
the small problem ``mix`` finds the best mixture of all behaviours so far and the next prices. What the planner could
earn at those prices bounds what any policy is worth. While that gap is large, everything is rough in proportion to
it: plans, occupancies of columns, and how far prices may move (``levels.py``).
"""

from collections.abc import Iterator

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.occupancy import occupancy_policy
from cautious.planning import Plan
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.column_generation.column_pool import ColumnPool, ColumnPools
from cautious.solvers.column_generation.level_method import Level
from cautious.solvers.column_generation.phase_one import meet_floors
from cautious.solvers.column_generation.restricted_master import Mixture, Rows, SmallProblem, few
from cautious.solvers.shape import Shape

CALLS = 1000
PLANS_PER_FEATURE = 3.0
SHOWN = 25
PATIENCE = 15
COLUMN_SHARE, EARLY_SHARE = 0.15, 0.5
FIRST_ROUGHNESS = 1e-2
ANSWERS = 4
# how much stiffer than the curvature prices are held where columns are missing
AROUND = 3.0
# what two plans must leave of the gap for the model of the prices to go on
WORTHWHILE = 0.3
# worst cases of smaller models have too few policies for it
SMOOTH_STATES = 3000
# without a solved caution it is not asked before the gap is this small, in units of the objective; the first prices of
# barriers are far too high, and plans there say little
NEAR, NEAR_BARRIERS = 1e-2, 1e-3
# with more features the plans of one solve are too few for it
FEW_FEATURES = 8


class ColumnGeneration(Solver):
    """See the module's text."""

    name = "column generation"
    margin = 0.8

    accepts = frozenset({Structure.FEATURES})

    def work(self, problem: Problem, shape: Shape) -> float:
        """Every plan adds a column, and a few per feature are needed."""
        return PLANS_PER_FEATURE * (1 + problem.parts.n_features) * shape.plan_work

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Candidates when the gap looks closed, and now and then before."""
        rows = feature_rows(problem)
        blocks = [term.risk.features for term in problem.parts.features]
        pool = target.workspace.of(self.name, ColumnPools).of(problem, blocks, all_features)
        search = _Search(problem, target, pool, rows, self.margin)
        if not pool.columns:
            search.begin()
        if rows.barrier.any() and not pool.cleared:
            yield from meet_floors(pool, rows.barrier, rows.floor, target)
        yield from search.run()


class _Search:
    """One run: the best bound so far with its witness, and how far apart bound and mixture are."""

    def __init__(self, problem: Problem, target: Target, pool: ColumnPool, rows: Rows, margin: float) -> None:
        self.problem, self.target, self.pool, self.rows, self.margin = problem, target, pool, rows, margin
        self.upper, self.witness = np.inf, Witness(np.zeros(problem.mdp.n_states))
        self.gaps: list[float] = []
        self.level = Level()
        self.about = pool.foreseen(problem.caution)
        large = problem.mdp.n_states >= SMOOTH_STATES
        smooth = rows.all_barriers or large
        # next to a solved caution most columns are used, and being accurate at once is cheaper than twice; not where
        # worst cases of large models take many columns
        self.exact = pool.solved is not None and (rows.all_barriers or not large)
        self.foreseen = self.about if smooth else None
        # whether the model of the prices is still to be tried, and how many gaps there were before it was
        self.untried, self.before = pool.solved is None and rows.group.size <= FEW_FEATURES, 0

    def begin(self) -> None:
        """The first column, at prices that spread every worst case evenly."""
        prices = self.rows.even()
        rough = FIRST_ROUGHNESS * self.pool.sensitivity(prices)
        found = self.pool.price_out(self.problem.reward, self.rows.sign * prices, rough, FIRST_ROUGHNESS)
        # the price of a barrier is never zero
        if not self.rows.barrier.any():
            self._prove(found, prices)

    def run(self) -> Iterator[Candidate]:
        answers = 0
        while answers < ANSWERS:
            small = SmallProblem(self.pool.returns, self.pool.numbers, self.rows, self.about)
            best = small.best()
            if best is None or best.value == -np.inf:
                return
            self.about = best.prices
            gap, goal = self.upper - best.value, self._goal(best.value, answers)
            stuck = len(self.gaps) > PATIENCE and gap > 0.9 * self.gaps[-PATIENCE]
            ended = stuck or len(self.gaps) >= CALLS or self.target.clock.over
            if gap <= goal or ended:
                weights = few(self.pool.returns, self.pool.numbers, best.weights)
                # a column that had to be made more accurate may not be in the best mixture any more
                if self.pool.sharpen(weights, self._accuracy(best, goal)):
                    continue
                if self.level.centre is not None:
                    self.pool.solved = (self.problem.caution, self.level.centre)
                yield self._answer(best, weights, goal)
                answers += 1
                if ended:
                    return
                continue
            if len(self.gaps) % SHOWN == SHOWN - 1:
                yield self._answer(best, few(self.pool.returns, self.pool.numbers, best.weights), gap)
            self._price_out(small, best, gap, goal)
            self.gaps.append(gap)

    def _goal(self, value: float, answers: int) -> float:
        """The gap at which to answer; smaller after each answer that did not convince."""
        return 0.8 * self.margin * self.target.allowance(value) * 0.3**answers

    def _price_out(self, small: SmallProblem, best: Mixture, gap: float, goal: float) -> None:
        """One more column, at prices that promise to close a good part of the gap."""
        prices = self._next_prices(small, best, gap)
        sensitivity = self.pool.sensitivity(prices)
        known = best.value + self.rows.intercept(prices)

        def rough(found: Plan) -> float:
            return EARLY_SHARE * min(gap, found.upper - known, FIRST_ROUGHNESS * sensitivity) / sensitivity

        accuracy = COLUMN_SHARE * goal / sensitivity if self.exact else rough
        found = self.pool.price_out(self.problem.reward, self.rows.sign * prices, goal, accuracy, known)
        self._prove(found, prices)
        self.pool.forget(best.weights)

    def _prove(self, found: Plan, prices: Array) -> None:
        """Keep the bound of a plan at these prices if it is the best."""
        bound = found.upper - self.rows.intercept(prices)
        if bound < self.upper:
            self.upper, self.level.centre = bound, prices
            self.witness = Witness(found.values, _cuts(self.problem, prices))

    def _next_prices(self, small: SmallProblem, best: Mixture, gap: float) -> Array:
        """By a model of the plans so far while that closes the gap; else by the columns alone."""
        rows = self.rows
        close = gap <= (NEAR_BARRIERS if rows.all_barriers else NEAR) * max(1.0, abs(best.value))
        if self.untried and close and len(self.pool.memory.prices) > rows.group.size:
            self.untried, self.foreseen, self.before = False, self.level.centre, len(self.gaps)
        if len(self.gaps) - self.before > 2 and gap > WORTHWHILE * self.gaps[-2]:
            # few policies matter here, and the bound has kinks that no smooth model sees
            self.foreseen = None
        if self.foreseen is not None:
            near = self.foreseen if self.level.centre is None else self.level.centre
            found = self.pool.memory.suggestion(rows, near)
            if found is not None:
                prices = rows.normalised(found.prices)
                if self.level.centre is None or rows.all_barriers:
                    return prices
                # a mixture needs columns on all sides of the best prices
                around = small.near(prices, AROUND * found.curvature * small.scale)
                return prices if around is None else rows.normalised(around.prices)
            if self.level.centre is None:
                return rows.normalised(near)
        return self.level.prices(small, best, gap)

    def _accuracy(self, best: Mixture, gap: float) -> float:
        return COLUMN_SHARE * gap / self.pool.sensitivity(best.prices)

    def _answer(self, best: Mixture, weights: Array, gap: float) -> Candidate:
        d = self.pool.mixture(weights, self._accuracy(best, gap))
        return Candidate(occupancy_policy(d, self.pool.default_policy()), self.witness, states=d.sum(axis=1))


def all_features(problem: Problem) -> sp.csr_array:
    """The features (m, S*A) of all terms that have any; there must be one."""
    blocks = [term.risk.features for term in problem.parts.features]
    return blocks[0] if len(blocks) == 1 else sp.csr_array(sp.vstack(blocks))


def feature_rows(problem: Problem) -> Rows:
    """What kind each of these features is, and how much it counts."""
    caution: list[float] = []
    floor: list[float] = []
    group: list[int] = []
    group_caution: list[float] = []
    for term in problem.parts.features:
        m = len(term.risk.names)
        if term.risk.is_barrier:
            caution, group = caution + [term.weight] * m, group + [-1] * m
        else:
            caution, group = caution + [0.0] * m, group + [len(group_caution)] * m
            group_caution.append(term.weight)
        floor += term.risk.floors.tolist()
    return Rows(np.array(caution), np.array(floor), np.array(group, dtype=np.int64), np.array(group_caution))


def _cuts(problem: Problem, prices: Array) -> tuple[Array, ...]:
    """Prices, term by term, in the form each risk's ``cut`` takes."""
    cuts, place = [], 0
    for term in problem.parts.features:
        size = len(term.risk.names)
        cuts.append(prices[place : place + size] / term.weight)
        place += size
    return tuple(cuts)
