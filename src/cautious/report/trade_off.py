"""The trade-off between return and risk: a policy beside the risk-neutral one and those of neighbouring cautions.

Of two cautions a < b with best policies, the return given up per unit of risk removed lies between a and b: at a the
step did not pay, at b it does. To first order one more unit of caution lowers the best objective by the risk.

The risk-neutral policy and the neighbours of a solution are the only problems a report solves, and it gives each of the
neighbours only seconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from cautious.arrays import Array
from cautious.evaluation.evaluate import Evaluation, default_horizon, evaluate
from cautious.models.horizons import AVERAGE
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.report.accuracy import rounding_of_risk, settled, shown_return, shown_risk
from cautious.report.barriers import RiskFigure
from cautious.report.over_steps import as_one_table, policy_of_all_steps
from cautious.report.words import is_learned, is_neutral, number
from cautious.solution import Solution
from cautious.solvers.solve import Request, answer
from cautious.status import Status

EPISODES = 2000
# for discounts near one the episodes are cut here, and the page says so
MAX_HORIZON = 5000
# of a long-run average, so many steps show how much it varies
STEPS_OF_AVERAGE = 1000
# time limit of a neighbour, and the time of the solution itself beyond which none is tried
NEIGHBOUR_SECONDS, MAX_OWN_SECONDS = 4.0, 20.0
NEIGHBOUR_FACTORS = (0.5, 2.0)
# smaller relative changes may be none: solutions are known up to their tolerance, and this is the usual one
MIN_RELATIVE_CHANGE = 1e-6


@dataclass(frozen=True)
class TradeOffPoint:
    """Return and risk of a caution; relative changes up to ``unsure`` may be an effect of the tolerance."""

    caution: float
    expected_return: float
    risk: float
    unsure: float = MIN_RELATIVE_CHANGE


@dataclass(frozen=True)
class Step:
    """The step from one caution to a larger one."""

    before: TradeOffPoint
    after: TradeOffPoint

    @property
    def given_up(self) -> float:
        """The return that the step gives up."""
        return self._change(self.before.expected_return, self.after.expected_return)

    @property
    def removed(self) -> float:
        """The risk that the step removes."""
        return self._change(self.before.risk, self.after.risk)

    @property
    def price(self) -> float | None:
        """Return per unit of risk; None where too little of either changes to divide by."""
        return self.given_up / self.removed if self.removed > 0 and self.given_up > 0 else None

    def _change(self, before: float, after: float) -> float:
        """The difference, or 0 where it is no more than what solving up to a tolerance leaves open."""
        unsure = max(self.before.unsure, self.after.unsure) * max(abs(before), abs(after))
        return settled(before - after, unsure)


def point(solution: Solution, figure: RiskFigure | None = None) -> TradeOffPoint | None:
    """Return and risk of a solution, or the ``figure`` shown in its place; None when that is unknown or infinite."""
    risk = shown_risk(solution)
    if risk is None or not np.isfinite(risk) or not np.isfinite(solution.expected_return):
        return None
    if figure is not None and (shown := figure.point(solution)) is not None:
        risk = shown
    return TradeOffPoint(solution.caution, shown_return(solution), risk, certain_change(solution))


def certain_change(solution: Solution) -> float:
    """Larger relative changes are real, not an effect of the tolerance."""
    return float(np.fmin(MIN_RELATIVE_CHANGE, solution.tolerance))


def steps(points: Sequence[TradeOffPoint | None]) -> list[Step]:
    """The steps between neighbouring points; unknown points are left out."""
    known = [one for one in points if one is not None]
    return [Step(before, after) for before, after in pairwise(known)]


def steady(points: Sequence[TradeOffPoint]) -> list[TradeOffPoint]:
    """The points, without changes below the tolerance, which a drawing would enlarge."""
    found = list(points[:1])
    for here in points[1:]:
        step = Step(found[-1], here)
        earned = here.expected_return if step.given_up else found[-1].expected_return
        risk = here.risk if step.removed else found[-1].risk
        found.append(replace(here, expected_return=earned, risk=risk))
    return found


def refusal(solution: Solution) -> str | None:
    """Why the neighbours of a solution are not solved, or None."""
    if solution.problem is None:
        return "The neighbouring cautions were not solved: a solution from a file does not keep its risk's data."
    if is_learned(solution):
        return "The neighbouring cautions were not tried: that would take samples."
    if solution.status is not Status.SOLVED:
        return "The neighbouring cautions were not solved: this one is not proved best itself."
    if solution.seconds > MAX_OWN_SECONDS:
        return f"The neighbouring cautions were not solved: this one took {number(solution.seconds, 2)} s."
    return None


def neighbours(solution: Solution) -> list[TradeOffPoint]:
    """The best policies at half and at twice the caution, solved from this one, up to the first that takes too long.

    Only for solutions with a risk and without a ``refusal``.
    """
    assert solution.problem is not None
    found = []
    for factor in NEIGHBOUR_FACTORS:
        problem = solution.problem.with_caution(factor * solution.caution)
        request = Request(solution.tolerance, NEIGHBOUR_SECONDS)
        one = answer(problem, request, solution)
        here = point(one) if one.status is Status.SOLVED else None
        if here is None:
            break
        found.append(here)
    return found


@dataclass(frozen=True)
class NeutralComparison:
    """A solution's policy and the risk-neutral one without limits: episodes of both, return and risk exact.

    Policies and occupancies are (S, A), those of a finite horizon over all steps.

    ``neutral_risk`` is None when the solution does not know its problem.
    """

    solution: Solution
    chosen: Evaluation
    neutral: Evaluation
    neutral_policy: Array
    neutral_return: float
    neutral_risk: float | None
    neutral_occupancy: Array

    @property
    def is_other(self) -> bool:
        """Whether the risk-neutral policy without limits is another question than the one that was asked."""
        return bool(self.solution.constraints) or not is_neutral(self.solution)

    @property
    def name(self) -> str:
        """What to call the policy without risk and limits."""
        if not self.solution.constraints:
            return "risk-neutral policy"
        return "policy without limits" if is_neutral(self.solution) else "risk-neutral policy without limits"

    @property
    def neutral_point(self) -> TradeOffPoint | None:
        """The risk-neutral policy as a point of caution 0, where its risk is known and finite."""
        if self.neutral_risk is None or not np.isfinite(self.neutral_risk):
            return None
        return TradeOffPoint(0.0, self.neutral_return, self.neutral_risk, certain_change(self.solution))


def compare_with_neutral(solution: Solution, episodes: int = EPISODES) -> NeutralComparison:
    """Simulate the solution's policy and the best risk-neutral one, in the solution's model."""
    mdp = solution.mdp
    mdp.require_transitions("a comparison")
    horizon, shown = _episode_steps(mdp), as_one_table(solution)
    played = solution.policy if solution.memory_policy is None else solution
    chosen = evaluate(mdp, played, episodes=episodes, horizon=horizon)
    if is_neutral(solution) and not solution.constraints:
        own = (shown.policy, solution.expected_return, shown_risk(solution), shown.occupancy)
        return NeutralComparison(shown, chosen, chosen, *own)
    policy = _neutral_policy(mdp)
    found = policy_occupancy(mdp, policy)
    neutral = evaluate(mdp, policy, episodes=episodes, horizon=horizon)
    earned = float(np.sum(found.pairs * mdp.rewards)) / mdp.normaliser
    risk = None
    if solution.problem is not None:
        rounding = rounding_of_risk(solution.problem, found.pairs, found.error)
        of_return = solution.problem.risk_of_policy(policy)
        risk = settled(solution.problem.risk_value(found.pairs) if of_return is None else of_return, rounding)
    table = policy_of_all_steps(mdp, policy, found.pairs)
    return NeutralComparison(shown, chosen, neutral, table, earned, risk, found.pairs)


def _episode_steps(mdp: MDP) -> int | None:
    """Steps of a simulated episode; None where the horizon says it."""
    if mdp.horizon is None:
        return min(MAX_HORIZON, default_horizon(mdp.discount))
    return STEPS_OF_AVERAGE if mdp.horizon == AVERAGE else None


def _neutral_policy(mdp: MDP) -> Array:
    """The best policy without a risk, in the problem's own horizon."""
    if mdp.horizon is None:
        return plan(mdp, mdp.rewards).policy(mdp.n_actions)
    return answer(Problem(mdp, horizon=mdp.horizon), Request()).policy
