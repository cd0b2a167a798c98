"""One table for all steps of a solution with a finite horizon, for pages that show a policy (S, A)."""

from dataclasses import replace

from cautious.arrays import Array
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.tabular import MDP
from cautious.occupancy import occupancy_policy, uniform_policy
from cautious.solution import Solution


def policy_of_all_steps(mdp: MDP, policy: Array, pairs: Array) -> Array:
    """How often each action is taken in each state, (S, A), over all steps; pairs (S, A) are what they add up to."""
    return policy if policy.ndim == 2 else occupancy_policy(pairs, uniform_policy(mdp.allowed))


def as_one_table(solution: Solution) -> Solution:
    """The solution with a policy and an occupancy (S, A) that stand for all steps together; others as they are."""
    if solution.policy.ndim == 2:
        return solution
    visits = solution.certificate.visits
    summed = PolicyOccupancy(visits.pairs, visits.reached, visits.error)
    return replace(
        solution,
        policy=policy_of_all_steps(solution.mdp, solution.policy, summed.occupancy),
        certificate=replace(solution.certificate, visits=summed),
    )
