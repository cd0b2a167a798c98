"""Variance and CVaR, alone or in sums: a search over their scalars with a proof over all policies.

Each such risk is min over t of <d, table(t)> + offset(t). Alternating between the best policy for t and the best t of
that policy climbs to a good policy. The proof sorts all policies by their best t: boxes of t cover everything, and for
the policies of a box the risk stays above a line in d, which leaves one inner problem per box. A box whose inner
optimum does not beat the best policy is done; any other is cut in two, near the t of its own best policy.

How the boxes are laid out decides how many are needed. One small box holds the best t known, so small that its line
loses less than the tolerance. From there the objective falls about as fast as the lines lose, so boxes grow in
proportion to their distance; most of them are far from close, and a rough answer is enough to settle them. The next
caution starts from these boxes, moved along (``search_history``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Box, Cover
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.solvers.base import Candidate, Dispatch, Solver, Target
from cautious.solvers.scalar_search.inner_problems import (
    ConvexProblems,
    InnerAnswer,
    InnerProblems,
    PlannedProblems,
)
from cautious.solvers.scalar_search.search_history import Covered, Incumbent, SearchHistory

# shares of the allowed gap: what a box may use, what an inner problem is solved to where that matters, and what the
# line of the box around the best policy may lose; and how many allowed gaps the first climb is solved to
BOX_GAP_SHARE, INNER_GAP_SHARE, LINE_LOSS_SHARE, FIRST_CLIMB_GAPS = 0.7, 0.2, 0.2, 1e3
MAX_CLIMBS, MAX_INNER_PROBLEMS = 30, 2000
# of the largest return of a planned problem, a gap that rounding may leave
ROUNDING_SHARE = 1e-9
# a cover is reported when it has twice as many boxes as this, and then whenever their number has doubled
FIRST_REPORT_BOXES = 32


@dataclass(frozen=True)
class ScalarSearch(Solver):
    """``dispatch`` solves the inner problems that have convex terms."""

    dispatch: Dispatch
    name = "scalar search"
    every_horizon = True

    accepts = frozenset(Structure) - {Structure.RETURN, Structure.RETURN_LIMIT}

    def further_refusal(self, problem: Problem) -> str | None:
        """Needs a risk over a scalar; every other term must be convex for the bound to hold."""
        if not problem.parts.scalars:
            return "has no scalar to search"
        rest = [term.risk.label for term in problem.parts.without_scalars if not term.risk.convex]
        return f"cannot bound {rest[0]}, which is not convex" if rest else None

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """The policy it climbs to, better ones and the cover when that is complete or has doubled."""
        convex = [(term.weight, term.risk) for term in problem.parts.without_scalars]
        inner = ConvexProblems(problem, target, convex, self.dispatch) if convex else PlannedProblems(problem, target)
        yield from _ScalarSearchRun(problem, target, inner, target.workspace.of(self.name, SearchHistory)).run()


@dataclass(frozen=True)
class _OpenBox:
    """A box to be settled; ``parent`` is a box around it that proves ``bound``."""

    lows: tuple[float, ...]
    highs: tuple[float, ...]
    bound: float
    parent: Box
    near: InnerAnswer


class _ScalarSearchRun:
    def __init__(self, problem: Problem, target: Target, inner: InnerProblems, past: SearchHistory) -> None:
        self.problem, self.target, self.inner = problem, target, inner
        self.scalars = [(term.weight, term.risk) for term in problem.parts.scalars]
        self.intervals = [risk.interval() for _, risk in self.scalars]
        self.past = past.of(self.intervals)
        self.best: Incumbent | None = None
        self.heap: list[tuple[float, int, _OpenBox]] = []
        self.done: dict[int, Box] = {}
        self.number = count()
        self.solved = 0

    def run(self) -> Iterator[Candidate]:
        answer = self._climb()
        if answer.conflict is not None:
            found = self.inner.behaviour(answer, None)
            numbers = tuple(term.number for term in self.problem.parts.without_scalars)
            conflict = answer.conflict.in_whole(self.problem, numbers)
            yield Candidate(None if found is None else found[0], conflict=conflict)
            return
        if self.best is None:
            return
        lows, highs = tuple(low for low, _ in self.intervals), tuple(high for _, high in self.intervals)
        whole = Box(lows, highs, self.best.numbers, answer.witness)
        moved = self.past.moved(self.problem.caution, self.best)
        for box in moved or [Covered((lows, highs))]:
            near = answer if box.apart is None else self.inner.shifted(answer, box.apart)
            self._push(_OpenBox(*box.ends, np.inf, whole, near))
        if self.target.watched:
            yield self._report()
        announced = FIRST_REPORT_BOXES
        while self.heap and not self.target.clock.over and self.solved < MAX_INNER_PROBLEMS:
            self._settle(heappop(self.heap)[2])
            if len(self.done) + len(self.heap) >= 2 * announced:
                announced = len(self.done) + len(self.heap)
                yield self._report()
        # a search that was cut short covers nothing
        boxes = () if self.heap else tuple(self.done.values())
        self.past.add(self.problem.caution, self.best, boxes, not moved)
        yield self._report()

    def _report(self) -> Candidate:
        assert self.best is not None
        pending = {id(piece.parent): piece.parent for _, _, piece in self.heap}
        cover = Cover(tuple((self.done | pending).values()))
        return Candidate(self.best.policy, cover, states=self.best.states)

    def _keep(self, box: Box) -> None:
        """Both halves of a box may end up relying on the whole, which is then kept once."""
        self.done[id(box)] = box

    def _share(self, share: float) -> float:
        return share * self.target.allowance(self.past.objective if self.best is None else self.best.objective)

    @property
    def _limit(self) -> float:
        """What a box must not exceed."""
        assert self.best is not None
        return self.best.objective + self._share(BOX_GAP_SHARE)

    def _solve(self, reward: Array, tolerance: float, near: InnerAnswer | None) -> InnerAnswer:
        self.solved += 1
        return self.inner.solve(reward, tolerance, near)

    def _priced(self, lines: list[tuple[Array, float]]) -> tuple[Array, float]:
        """The reward after the tables of the scalar risks, and their offsets together."""
        reward, offset = self.problem.reward, 0.0
        for (weight, _), (table, constant) in zip(self.scalars, lines, strict=True):
            reward = reward - self.problem.mdp.normaliser * weight * table
            offset += weight * constant
        return reward, offset

    def _climb(self) -> InnerAnswer:
        """From the best policy without the scalar risks to one that no change of its numbers improves: no proof."""
        start, answer = self.target.start, None
        numbers = self.past.ahead(self.problem.caution)
        tolerance = self._share(FIRST_CLIMB_GAPS if numbers is None else INNER_GAP_SHARE)
        if numbers is None and start is not None and self.problem.usable(start.policy):
            self._consider(start.policy, None)
        if numbers is None and self.best is None:
            answer = self._solve(self.problem.reward, tolerance, None)
            self._meet(answer)
        for _ in range(MAX_CLIMBS):
            before = self.best
            if numbers is None and before is not None:
                numbers = before.numbers
            if numbers is None or (answer is not None and self.target.clock.over):
                break
            tables = [(risk.table(t), 0.0) for (_, risk), t in zip(self.scalars, numbers, strict=True)]
            answer = self._solve(self._priced(tables)[0], tolerance, answer)
            self._meet(answer)
            if self.best is None or self.target.clock.over:
                break
            gained = np.inf if before is None else self.best.objective - before.objective
            settled = all(low <= t <= high for t, (low, high) in zip(numbers, self.best.ranges, strict=True))
            if gained <= max(tolerance, self._share(BOX_GAP_SHARE)) or settled:
                if tolerance <= self._share(INNER_GAP_SHARE):
                    break
                tolerance = self._share(INNER_GAP_SHARE)
            numbers = None
        assert answer is not None
        return answer

    def _meet(self, answer: InnerAnswer) -> Array | None:
        """The occupancy of an answer's policy, which may be the best so far."""
        found = self.inner.behaviour(answer, None if self.best is None else self.best.states)
        if found is None:
            return None
        self._consider(*found)
        return found[1]

    def _consider(self, policy: Array, d: Array | None) -> None:
        if d is not None and self.best is not None and self.problem.objective(d) <= self.best.objective:
            return
        states = None if d is None else d.sum(axis=1)
        exact = evaluate_policy(self.problem, policy, states, self.target.allowance, over=self.target.over)
        if not np.isfinite(exact.objective) or (self.best is not None and exact.objective <= self.best.objective):
            return
        d = exact.occupancy.pairs
        room = LINE_LOSS_SHARE * self.target.allowance(exact.objective) / len(self.scalars)
        self.best = Incumbent(
            exact.objective,
            policy,
            d.sum(axis=1),
            tuple(risk.best(d) for _, risk in self.scalars),
            tuple(risk.around(d, room / weight) for weight, risk in self.scalars),
        )

    def _push(self, piece: _OpenBox) -> None:
        heappush(self.heap, (-piece.bound, next(self.number), piece))

    def _settle(self, piece: _OpenBox) -> None:
        if piece.bound <= self._limit:
            self._keep(piece.parent)
            return
        parts = self._parted(piece)
        if parts is None:
            self._bound(piece)
            return
        for part in parts:
            self._push(part)

    def _parted(self, piece: _OpenBox) -> list[_OpenBox] | None:
        """A box with the incumbent in it, cut so that only a small one still has it; None when it is that small."""
        assert self.best is not None
        lows, highs, boxes = piece.lows, piece.highs, []
        if not all(low <= t <= high for low, t, high in zip(lows, self.best.numbers, highs, strict=True)):
            return None
        for k, (low, high) in enumerate(self.best.ranges):
            if lows[k] < low < highs[k]:
                boxes.append((lows, _replaced(highs, k, low)))
                lows = _replaced(lows, k, low)
            if lows[k] < high < highs[k]:
                boxes.append((_replaced(lows, k, high), highs))
                highs = _replaced(highs, k, high)
        parts = [_OpenBox(*box, piece.bound, piece.parent, piece.near) for box in ((lows, highs), *boxes)]
        return parts if boxes else None

    def _bound(self, piece: _OpenBox) -> None:
        """Bound a box by its inner problem, as exactly as it takes; cut it when it may hold something better."""
        assert self.best is not None
        sides = list(zip(self.scalars, piece.lows, piece.highs, self.best.numbers, strict=True))
        at = tuple(risk.touch(low, high, t) for (_, risk), low, high, t in sides)
        lines = [risk.line(low, high, x) for ((_, risk), low, high, _), x in zip(sides, at, strict=True)]
        reward, offset = self._priced(lines)
        answer = piece.near
        while True:
            self.solved += 1
            # a better policy may allow less than the one before
            finest = self._share(INNER_GAP_SHARE)
            answer, cut, limit = self.inner.decide(reward, self._limit + offset, finest, answer), None, self._limit
            if answer.upper - offset > limit:
                d = self._meet(answer)
                cut = None if d is None else self._cut(piece, lines, d)
            # the policy just met may have raised the limit
            settled, beaten = answer.upper - offset <= self._limit, answer.lower - offset > self._limit
            apart = answer.upper - answer.lower
            if settled or beaten or apart <= finest or self._limit <= limit or self.target.clock.over:
                break
        bound, box = answer.upper - offset, Box(piece.lows, piece.highs, at, answer.witness)
        # an inner problem that does not close says nothing about smaller boxes; but a plan leaves open no more than
        # rounding, which is less there if rewards are far away from this box and enter with their distance
        closed = 10 * finest
        if not self.problem.parts.without_scalars:
            largest = float(np.abs(reward[self.problem.active_pairs]).max())
            closed = max(closed, ROUNDING_SHARE * largest / self.problem.mdp.normaliser)
        if settled or cut is None or not (beaten or apart <= closed):
            self._keep(box)
            return
        k, t = cut
        for lows, highs in (
            (box.lows, _replaced(box.highs, k, t)),
            (_replaced(box.lows, k, t), box.highs),
        ):
            self._push(_OpenBox(lows, highs, bound, box, answer))

    def _cut(self, box: _OpenBox, lines: list[tuple[Array, float]], d: Array) -> tuple[int, float] | None:
        """Which scalar to cut, and where: the one whose line is furthest below the risk of the box's own policy."""
        lost = [
            weight * (risk.value(d) - float(np.sum(d * table)) - offset)
            for (weight, risk), (table, offset) in zip(self.scalars, lines, strict=True)
        ]
        for k in np.argsort(lost, kind="stable")[::-1]:
            risk, low, high = self.scalars[k][1], box.lows[k], box.highs[k]
            wanted, margin = risk.best(d), 0.05 * (high - low)
            if not low < wanted < high:
                wanted = low + (high - low) / 2
            where = risk.cut_at(low, high, min(max(wanted, low + margin), high - margin))
            if where is not None:
                return int(k), where
        return None


def _replaced(values: tuple[float, ...], k: int, value: float) -> tuple[float, ...]:
    return (*values[:k], value, *values[k + 1 :])
