"""From a solver's nearly balanced occupancy and its witnesses to policies and multipliers worth certifying."""

from collections.abc import Iterator, Sequence
from typing import Any

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.occupancy import occupancy_policy
from cautious.planning import Plan, plan
from cautious.problem import Problem
from cautious.solvers.base import Candidate

# readings of an occupancy, one after the other: states with no more than this share of all mass take the planned action
MIN_STATE_SHARES = (1e-7, 0.0, 1e-9)


def adjusted_reward(problem: Problem, witnesses: Sequence[Any]) -> Array:
    """r - (1-gamma) sum of weight * slope: the reward under which a risk-neutral planner behaves like this."""
    reward = problem.reward
    for (weight, risk), given in zip(problem.terms, witnesses, strict=True):
        slope = risk.cut(given, problem.active).slope
        reward = reward - (1 - problem.mdp.discount) * weight * slope
    return reward


def prove(problem: Problem, witnesses: Sequence[Any], tolerance: float) -> tuple[Witness, Plan]:
    """The tightest multipliers for given lines: those of the best plan for the adjusted reward."""
    adjusted = adjusted_reward(problem, witnesses)
    found = plan(problem.mdp, adjusted, tolerance=tolerance, allowed=problem.kept)
    return Witness(found.values, tuple(witnesses)), found


def proposals(problem: Problem, occupancy: Array, witness: Witness, best: Plan) -> Iterator[Candidate]:
    """Readings of an occupancy: states with hardly any mass carry only noise, and take the plan's action instead."""
    greedy = problem.completed(best.policy(problem.mdp.n_actions))
    total = float(occupancy.sum())
    for number, floor in enumerate(MIN_STATE_SHARES):
        policy = occupancy_policy(occupancy, greedy, floor * total)
        yield Candidate(policy, witness if number == 0 else None)
