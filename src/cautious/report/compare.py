"""A solution's policy next to the policy nobody is cautious about: the same simulation for both."""

import re
from dataclasses import dataclass

import numpy as np

from cautious._checks import Array
from cautious.evaluate import Evaluation, default_horizon, evaluate
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.report.words import is_neutral
from cautious.risks.base import Risk
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.separable import Entropy
from cautious.solution import Solution

EPISODES = 2000
# discounts near one have horizons nobody waits for; the page says where the episodes were cut
LONGEST = 5000


@dataclass(frozen=True)
class Comparison:
    """``chosen`` and ``neutral`` are the two policies' episodes; ``neutral_risk`` is None when it is not known."""

    solution: Solution
    chosen: Evaluation
    neutral: Evaluation
    neutral_policy: Array
    neutral_occupancy: Array
    neutral_risk: float | None

    @property
    def neutral_return(self) -> float:
        """Exact expected return of the risk-neutral policy."""
        return float(np.sum(self.neutral_occupancy * self.solution.mdp.rewards)) / (1 - self.solution.mdp.discount)


def compare(solution: Solution, problem: Problem | None = None, episodes: int = EPISODES, seed: int = 0) -> Comparison:
    """Simulate the solution's policy and the best risk-neutral one.

    ``problem`` lets the risk of the risk-neutral policy be computed; without it that works for the risks that carry no
    data of their own (Variance, CVaR, Entropy).
    """
    mdp = solution.mdp
    policy = solution.policy if is_neutral(solution) else plan(mdp, mdp.rewards).policy(mdp.n_actions)
    occupancy = policy_occupancy(mdp, policy).occupancy
    horizon = min(LONGEST, default_horizon(mdp.discount))
    chosen = evaluate(mdp, solution.policy, episodes=episodes, horizon=horizon, seed=seed)
    neutral = evaluate(mdp, policy, episodes=episodes, horizon=horizon, seed=seed)
    return Comparison(solution, chosen, neutral, policy, occupancy, _risk_of(solution, problem, occupancy))


def _risk_of(solution: Solution, problem: Problem | None, occupancy: Array) -> float | None:
    if is_neutral(solution):
        return 0.0
    if problem is None:
        risk = _from_label(solution.risk_label)
        if risk is None:
            return None
        problem = Problem(solution.mdp, risk, solution.caution)
    known = problem.risk_value(solution.occupancy)
    # a risk rebuilt from its label, or handed over for another run, must reproduce the solution's own figure
    if not np.isclose(known, solution.risk, rtol=1e-6, atol=1e-9):
        return None
    return problem.risk_value(occupancy)


def _from_label(label: str) -> Risk | None:
    level = re.fullmatch(r"CVaR\(([0-9.eE+-]+)\)", label)
    if level is not None:
        return CVaR(float(level.group(1)))
    plain: dict[str, Risk] = {"Variance": Variance(), "Entropy": Entropy()}
    return plain.get(label)
