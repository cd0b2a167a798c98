"""A solution's policy next to the risk-neutral one: the same simulation for both."""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.evaluation.evaluate import Evaluation, default_horizon, evaluate
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.report.accuracy import rounding_of_risk, settled, shown_risk
from cautious.report.trade import Point, certain_change
from cautious.report.words import is_neutral
from cautious.solution import Solution

EPISODES = 2000
# discounts near one have horizons nobody waits for; the page says where the episodes were cut
LONGEST = 5000


@dataclass(frozen=True)
class Comparison:
    """``chosen`` and ``neutral`` are the two policies' episodes; the neutral return and risk are those of the model.

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
    def neutral_point(self) -> Point | None:
        """The risk-neutral policy as a point of caution 0, where its risk is known and finite."""
        if self.neutral_risk is None or not np.isfinite(self.neutral_risk):
            return None
        return Point(0.0, self.neutral_return, self.neutral_risk, certain_change(self.solution))


def compare(solution: Solution, episodes: int = EPISODES, seed: int = 0) -> Comparison:
    """Simulate the solution's policy and the best risk-neutral one, in the solution's model."""
    mdp = solution.mdp
    mdp.require_transitions("a comparison")
    horizon = min(LONGEST, default_horizon(mdp.discount))
    chosen = evaluate(mdp, solution.policy, episodes=episodes, horizon=horizon, seed=seed)
    if is_neutral(solution):
        own = (solution.policy, solution.expected_return, shown_risk(solution), solution.occupancy)
        return Comparison(solution, chosen, chosen, *own)
    policy = plan(mdp, mdp.rewards).policy(mdp.n_actions)
    found = policy_occupancy(mdp, policy)
    neutral = evaluate(mdp, policy, episodes=episodes, horizon=horizon, seed=seed)
    earned = float(np.sum(found.occupancy * mdp.rewards)) / (1 - mdp.discount)
    risk = None
    if solution.problem is not None:
        rounding = rounding_of_risk(solution.problem, found.occupancy, found.error)
        risk = settled(solution.problem.risk_value(found.occupancy), rounding)
    return Comparison(solution, chosen, neutral, policy, earned, risk, found.occupancy)
