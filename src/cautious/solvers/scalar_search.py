"""Variance and CVaR, alone or in sums: a search over their scalars with a proof over all values.

Each such risk is min over t of <d, table(t)> + offset(t): the problem is a maximum over t of ordinary inner problems.
On a box of t the tables and offsets are kept above a line in t; the inner optimum is then convex in t, and its largest
corner bounds the box. Boxes that cannot beat the best policy are done; the others are cut in two, best bound first.
All final boxes together are the witness (``Cover``) that the certificate recomputes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, product

import numpy as np

from cautious.arrays import Array
from cautious.certificate import Box, Cover, Witness, deliver
from cautious.problem import Problem
from cautious.risks.base import Risk, ScalarRisk
from cautious.solution import Status
from cautious.solvers.base import Candidate, Outcome, Solver, Target, run

INNER_SHARE = 0.1
LARGEST_SEARCH = 2000


@dataclass(frozen=True)
class ScalarSearch(Solver):
    """``choose`` gives the solvers of the inner problems."""

    choose: Callable[[Problem], list[Solver]]
    name = "scalar search"

    def refusal(self, problem: Problem) -> str | None:
        """Needs a risk over a scalar; every other term must be convex for the bound to hold."""
        if not any(isinstance(risk, ScalarRisk) for _, risk in problem.terms):
            return "has no scalar to search"
        rest = [risk.label for _, risk in problem.terms if not (isinstance(risk, ScalarRisk) or risk.convex)]
        return f"cannot bound {rest[0]}, which is not convex" if rest else None

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Policies as they are found, and the cover whenever its size has doubled."""
        search = _Search(problem, target, self.choose)
        yield from search.run()


class _Search:
    def __init__(self, problem: Problem, target: Target, choose: Callable[[Problem], list[Solver]]) -> None:
        self.problem, self.target, self.choose = problem, target, choose
        self.scalars = [(w, risk) for w, risk in problem.terms if isinstance(risk, ScalarRisk)]
        self.convex: list[tuple[float, Risk]] = [(w, r) for w, r in problem.terms if not isinstance(r, ScalarRisk)]
        self.solved: dict[bytes, Outcome] = {}
        self.best = -np.inf
        self.fresh: list[Array] = []
        self.heap: list[tuple[float, int, Box]] = []
        self.done: list[Box] = []
        self.number = count()
        self.stuck = 0

    def run(self) -> Iterator[Candidate]:
        intervals = [risk.interval() for _, risk in self.scalars]
        self._push(tuple(low for low, _ in intervals), tuple(high for _, high in intervals))
        self._climb(tuple(low + (high - low) / 2 for low, high in intervals))
        yield from self._found()
        announced = 1
        while self.heap and not self.target.clock.over and len(self.solved) < LARGEST_SEARCH and self.stuck < 3:
            bound, box = -self.heap[0][0], self.heap[0][2]
            if bound <= self.best + self._room(0.5):
                break
            heappop(self.heap)
            halves = self._halves(box)
            if halves is None:
                self.done.append(box)
                continue
            for lows, highs in halves:
                self._push(lows, highs)
            yield from self._found()
            if len(self.heap) >= 2 * announced:
                announced = len(self.heap)
                yield Candidate(witness=self._cover())
        yield Candidate(witness=self._cover())

    def _room(self, share: float) -> float:
        return share * self.target.allowance(self.best)

    def _cover(self) -> Cover:
        return Cover(tuple(self.done) + tuple(box for _, _, box in self.heap))

    def _found(self) -> Iterator[Candidate]:
        while self.fresh:
            yield Candidate(policy=self.fresh.pop())

    def _inner(self, reward: Array) -> Outcome:
        """The inner problem of a reward table; solved once."""
        key = reward.tobytes()
        if key not in self.solved:
            part = self.problem.part(reward, self.convex)
            target = Target(self.target.tolerance, self.target.clock, INNER_SHARE * self.target.allowance(self.best))
            outcome = Outcome(Status.STALLED)
            for solver in self.choose(part):
                outcome = run(solver, part, target, None, outcome)
                if outcome.status is Status.SOLVED:
                    break
            self.solved[key] = outcome
            # bounds of inner problems that do not close would keep every box open for ever
            self.stuck += outcome.gap > 100 * self._room(1.0)
            if outcome.delivered is not None:
                found = deliver(self.problem, outcome.delivered.policy)
                if found.objective > self.best:
                    self.best = found.objective
                    self.fresh.append(found.policy)
        return self.solved[key]

    def _reward(self, tables: list[Array]) -> Array:
        reward = self.problem.reward
        for (weight, _), table in zip(self.scalars, tables, strict=True):
            reward = reward - (1 - self.problem.mdp.discount) * weight * table
        return reward

    def _climb(self, t: tuple[float, ...]) -> None:
        """Alternate between the best policy for t and the best t of that policy: a good start, no proof."""
        for _ in range(50):
            outcome = self._inner(self._reward([risk.table(x) for (_, risk), x in zip(self.scalars, t, strict=True)]))
            if outcome.delivered is None or self.target.clock.over:
                return
            better = tuple(risk.best(outcome.delivered.occupancy.occupancy) for _, risk in self.scalars)
            if better == t:
                return
            t = better

    def _push(self, lows: tuple[float, ...], highs: tuple[float, ...]) -> None:
        at = tuple(risk.tangent_point(a, b, 0.0) for (_, risk), a, b in zip(self.scalars, lows, highs, strict=True))
        bound, box = self._bounded(lows, highs, at)
        if len(self.scalars) == 1:
            (weight, risk), low, high = self.scalars[0], lows[0], highs[0]
            ends = [self._inner(self._reward([line[0]])).upper for line in risk.minorant(low, high, at[0])]
            better_at = risk.tangent_point(low, high, (ends[1] - ends[0]) / weight)
            better = self._bounded(lows, highs, (better_at,)) if np.isfinite(better_at) else (np.inf, box)
            bound, box = min((bound, box), better, key=lambda pair: pair[0])
        heappush(self.heap, (-bound, next(self.number), box))

    def _bounded(self, lows: tuple[float, ...], highs: tuple[float, ...], at: tuple[float, ...]) -> tuple[float, Box]:
        lines = [risk.minorant(a, b, x) for (_, risk), a, b, x in zip(self.scalars, lows, highs, at, strict=True)]
        bound, witnesses = -np.inf, []
        for ends in product((0, 1), repeat=len(lines)):
            outcome = self._inner(self._reward([line[end][0] for line, end in zip(lines, ends, strict=True)]))
            offset = sum(w * line[end][1] for (w, _), line, end in zip(self.scalars, lines, ends, strict=True))
            bound = max(bound, outcome.upper - offset)
            nothing = Witness(np.zeros(self.problem.mdp.n_states))
            witnesses.append(outcome.witness if isinstance(outcome.witness, Witness) else nothing)
        return bound, Box(lows, highs, at, tuple(witnesses))

    def _halves(self, box: Box) -> list[tuple[tuple[float, ...], tuple[float, ...]]] | None:
        """Cut the scalar whose interval is widest, relative to where it started."""
        widths = []
        for (_, risk), low, high in zip(self.scalars, box.lows, box.highs, strict=True):
            start, end = risk.interval()
            widths.append((high - low) / (end - start) if end > start else 0.0)
        for k in np.argsort(widths)[::-1]:
            cut = self.scalars[k][1].split(box.lows[k], box.highs[k])
            if cut is not None:
                left = tuple(cut if i == k else high for i, high in enumerate(box.highs))
                right = tuple(cut if i == k else low for i, low in enumerate(box.lows))
                return [(box.lows, left), (right, box.highs)]
        return None
