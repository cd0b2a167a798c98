"""The inner problems of a scalar search: the same model and convex terms with another reward table.

Without convex terms an inner problem is one planning call; otherwise it is a problem of its own, with its own solvers.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Conflict, Witness
from cautious.horizons.plan import Plan
from cautious.models.chains import DeterministicChains
from cautious.models.encodings import read_only_view
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.solvers.base import Dispatch, Outcome, Start, Target

# of a behaviour that is not yet delivered, in the 1-norm
OCCUPANCY_ACCURACY = 1e-7
# the first gap in units of the finest one, and what it is divided by when that decides nothing
FIRST_GAP_FACTOR, GAP_REDUCTION = 5e3, 30.0


@dataclass(frozen=True)
class InnerAnswer:
    """No policy gets more than ``upper`` from an inner problem, as ``witness`` proves, and some policy gets ``lower``.

    ``plan`` or ``outcome`` is what it was read from: the policy, and where a neighbour starts.
    """

    upper: float
    lower: float
    witness: Witness
    plan: Plan | None = None
    outcome: Outcome | None = None

    @property
    def conflict(self) -> Conflict | None:
        """Proof that the convex terms cannot be met by any policy."""
        return None if self.outcome is None else self.outcome.conflict


class InnerProblems(ABC):
    """Solves inner problems one after another."""

    @abstractmethod
    def solve(self, reward: Array, tolerance: float, near: InnerAnswer | None) -> InnerAnswer:
        """The inner problem of a reward table (S, A) up to an absolute gap, starting from a neighbour's answer."""

    @abstractmethod
    def decide(self, reward: Array, limit: float, finest: float, near: InnerAnswer | None) -> InnerAnswer:
        """As ``solve``, only until it is clear on which side of ``limit`` the optimum is, or to a gap of ``finest``."""

    @abstractmethod
    def shifted(self, near: InnerAnswer, apart: Array) -> InnerAnswer:
        """Where to start if the multipliers are about so far apart (S,) from those of a neighbour's answer."""

    @abstractmethod
    def behaviour(self, answer: InnerAnswer, guess: Array | None) -> tuple[Array, Array] | None:
        """The policy of an answer, and its occupancy (S, A) as risks see it, if it has one.

        ``guess`` (S,) is one of the state marginal.
        """


class PlannedProblems(InnerProblems):
    """One planning call each."""

    def __init__(self, problem: Problem, target: Target) -> None:
        self.problem, self.chains = problem, DeterministicChains(problem.mdp, read_only_view(problem.reward).ravel())
        self.over, start = target.over, target.start
        self.start = (
            None if start is None else Plan(np.argmax(start.policy, axis=-1), start.multipliers, -np.inf, np.inf)
        )

    def solve(self, reward: Array, tolerance: float, near: InnerAnswer | None) -> InnerAnswer:
        """The plan's values are the witness."""
        return self._planned(reward, tolerance, -np.inf, near)

    def decide(self, reward: Array, limit: float, finest: float, near: InnerAnswer | None) -> InnerAnswer:
        """One planning call that knows what it is compared with."""
        return self._planned(reward, finest, limit - finest, near)

    def shifted(self, near: InnerAnswer, apart: Array) -> InnerAnswer:
        """A plan with such values."""
        assert near.plan is not None
        values = near.plan.values + apart
        return InnerAnswer(np.inf, -np.inf, Witness(values), plan=Plan(near.plan.actions, values, -np.inf, np.inf))

    def _planned(self, reward: Array, tolerance: float, known: float, near: InnerAnswer | None) -> InnerAnswer:
        warm = self.start if near is None else near.plan
        found = plan(
            self.problem.mdp,
            reward,
            tolerance=tolerance,
            allowed=self.problem.kept,
            warm=warm,
            known=known,
            over=self.over,
        )
        return InnerAnswer(found.upper, found.lower, Witness(found.values), plan=found)

    def behaviour(self, answer: InnerAnswer, guess: Array | None) -> tuple[Array, Array] | None:
        """The plan's actions."""
        assert answer.plan is not None
        mdp, policy = self.problem.mdp, answer.plan.policy(self.problem.mdp.n_actions)
        if mdp.horizon is not None:
            return policy, policy_occupancy(mdp, policy, OCCUPANCY_ACCURACY).pairs
        chain, _ = self.chains.chain(answer.plan.actions)
        # neither careful nor proved: what looks better is delivered before it counts
        aim = (1 - mdp.discount) * OCCUPANCY_ACCURACY
        states, _ = chain.flow(mdp.discount, (1 - mdp.discount) * mdp.start, guess, aim)
        return policy, policy * (states / max(float(states.sum()), 1e-300))[:, None]


class ConvexProblems(InnerProblems):
    """Problems with convex terms, solved by ``dispatch``."""

    def __init__(
        self,
        problem: Problem,
        target: Target,
        terms: list[tuple[float, Risk]],
        dispatch: Dispatch,
    ) -> None:
        self.problem, self.target, self.terms, self.dispatch = problem, target, terms, dispatch

    def solve(self, reward: Array, tolerance: float, near: InnerAnswer | None) -> InnerAnswer:
        """The best of all solvers until one is done."""
        part = self.problem.part(reward, self.terms)
        asked = self.target
        start = asked.start if near is None else self._start(near)
        target = Target(asked.tolerance, asked.clock, tolerance, start, asked.workspace)
        outcome = self.dispatch(part, target)
        lower = -np.inf if outcome.evaluated is None else outcome.evaluated.objective
        known = isinstance(outcome.witness, Witness)
        witness = (
            outcome.witness
            if isinstance(outcome.witness, Witness)
            else Witness(np.zeros(part.mdp.occupancy_shape[:-1]))
        )
        return InnerAnswer(outcome.upper if known else np.inf, lower, witness, outcome=outcome)

    def decide(self, reward: Array, limit: float, finest: float, near: InnerAnswer | None) -> InnerAnswer:
        """Finer and finer."""
        tolerance = FIRST_GAP_FACTOR * finest
        while True:
            near = self.solve(reward, tolerance, near)
            clear = near.upper <= limit or near.lower > limit
            if clear or tolerance <= finest or self.target.clock.over:
                return near
            tolerance = max(tolerance / GAP_REDUCTION, finest)

    def shifted(self, near: InnerAnswer, apart: Array) -> InnerAnswer:
        """The neighbour's: what these solvers keep for each other is worth more than multipliers."""
        return near

    def _start(self, near: InnerAnswer) -> Start | None:
        delivered = None if near.outcome is None else near.outcome.evaluated
        return None if delivered is None else Start(delivered.policy, near.witness.multipliers)

    def behaviour(self, answer: InnerAnswer, guess: Array | None) -> tuple[Array, Array] | None:
        """What the solvers delivered."""
        assert answer.outcome is not None
        delivered = answer.outcome.evaluated
        return None if delivered is None else (delivered.policy, delivered.occupancy.pairs)
