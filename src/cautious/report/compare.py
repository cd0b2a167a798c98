"""A solution's policy next to the policy nobody is cautious about: the same simulation for both."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cautious._checks import Array
from cautious.evaluation import Evaluation, default_horizon, evaluate
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
    mdp.require_transitions('a report (learn with method="plug-in" to have one)')
    policy = solution.policy if is_neutral(solution) else plan(mdp, mdp.rewards).policy(mdp.n_actions)
    occupancy = policy_occupancy(mdp, policy).occupancy
    horizon = min(LONGEST, default_horizon(mdp.discount))
    chosen = evaluate(mdp, solution.policy, episodes=episodes, horizon=horizon, seed=seed)
    neutral = evaluate(mdp, policy, episodes=episodes, horizon=horizon, seed=seed)
    return Comparison(solution, chosen, neutral, policy, occupancy, _risk_of(solution, problem, occupancy))


def known_risks(solutions: Sequence[Solution], problem: Problem | None = None) -> list[float | None]:
    """The risk of each solution of a frontier; those of caution 0 carry none, so it is computed here where possible."""
    cautious = [one for one in solutions if not is_neutral(one)]
    return [
        one.risk if not is_neutral(one) else (_risk_of(cautious[0], problem, one.occupancy) if cautious else None)
        for one in solutions
    ]


def _risk_of(solution: Solution, problem: Problem | None, occupancy: Array) -> float | None:
    """The solution's risk at another occupancy, or None when the risk is not known well enough."""
    if is_neutral(solution):
        return 0.0
    risk = problem.risk if problem is not None else _from_label(solution)
    if risk is None:
        return None
    # a risk rebuilt from its label, or handed over for another run, must reproduce the solution's own figure
    known = float(risk.value(solution.occupancy)) if np.isfinite(solution.risk) else np.inf
    if not np.isclose(known, solution.risk, rtol=1e-6, atol=1e-9):
        return None
    return float(risk.value(occupancy))


def _from_label(solution: Solution) -> Risk | None:
    level = re.fullmatch(r"CVaR\(([0-9.eE+-]+)\)", solution.risk_label)
    plain: dict[str, Risk] = {"Variance": Variance(), "Entropy": Entropy()}
    recipe = plain.get(solution.risk_label) if level is None else CVaR(float(level.group(1)))
    return None if recipe is None else recipe.bind(solution.mdp)
