"""From a solver's nearly balanced occupancy and its witnesses to policies and multipliers worth certifying."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.horizons.plan import Plan
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.occupancy import occupancy_policy, policy_occupancy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.limits import LimitWitness
from cautious.solvers.base import Candidate

# entries of a policy's row with no more than this carry only noise, which may lead from one closed class to another
MIN_CHANCE = 1e-6
# readings of an occupancy, one after the other: states with no more than this share of all mass take the planned action
MIN_STATE_SHARES = (1e-7, 0.0, 1e-9)
# by how much visits are raised and prices are lowered, one after the other
VISIT_GROWTHS = (1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1.0)


def adjusted_reward(problem: Problem, witnesses: Sequence[Any]) -> Array:
    """r - normaliser * sum of weight * slope: the reward under which a risk-neutral planner behaves like this."""
    reward = problem.reward
    for (weight, risk), given in zip(problem.terms, witnesses, strict=True):
        slope = risk.cut(given, problem.active_pairs).slope
        reward = reward - problem.mdp.normaliser * weight * slope
    return reward


def prove(
    problem: Problem, witnesses: Sequence[Any], tolerance: float, occupancy: Array | None = None
) -> tuple[Witness, Plan]:
    """The tightest multipliers for given lines: those of the best plan for the adjusted reward.

    Until an end, cycles of the best policy have the reduced cost 0, so that no finite bound follows. Lines
    that touch at slightly more visits than those of the ``occupancy``, and slightly smaller prices of limits, make it
    cost something.
    """
    adjusted = adjusted_reward(problem, witnesses)
    found = plan(problem.mdp, adjusted, tolerance=tolerance, allowed=problem.kept)
    if problem.mdp.horizon == TOTAL and occupancy is not None:
        for growth in VISIT_GROWTHS:
            if np.isfinite(found.upper):
                break
            more = np.where(problem.active, (1 + growth) * occupancy + growth * float(occupancy.mean()), 0.0)
            witnesses = [
                replace(given, price=(1 - growth) * given.price)
                if isinstance(given, LimitWitness)
                else risk.witness_at(more, problem.active)
                for (_, risk), given in zip(problem.terms, witnesses, strict=True)
            ]
            adjusted = adjusted_reward(problem, witnesses)
            found = plan(problem.mdp, adjusted, tolerance=tolerance, allowed=problem.kept)
    return Witness(found.values, tuple(witnesses)), found


def proposals(problem: Problem, occupancy: Array, witness: Witness, best: Plan) -> Iterator[Candidate]:
    """Readings of an occupancy: states with hardly any mass carry only noise, and take the plan's action instead."""
    greedy = problem.completed(best.policy(problem.mdp.n_actions))
    total = float(occupancy.sum())
    if not 0 < total < np.inf:
        # nothing to read: the solver's numbers overflowed, or left no mass anywhere
        yield Candidate(greedy, witness)
        return
    for number, floor in enumerate(MIN_STATE_SHARES):
        policy = occupancy_policy(occupancy, greedy, floor * total)
        given = witness if number == 0 else None
        if problem.mdp.horizon == AVERAGE:
            yield Candidate(joined(problem, policy, occupancy), given)
        # beside a limit that leaves hardly any room, joining may already break it
        yield Candidate(policy, given)


def joined(problem: Problem, policy: Array, occupancy: Array) -> Array:
    """A policy for the long run whose occupancy is near this one (S, A), however many closed classes that has.

    Noise would decide how often it goes from one class to another: it is left out, every class gets what the occupancy
    has in it, and a share of all pairs joins the classes.
    """
    clear = np.where(policy > MIN_CHANCE, policy, 0.0)
    clear = problem.completed(clear / np.maximum(clear.sum(axis=-1, keepdims=True), MIN_CHANCE))
    mass = np.maximum(occupancy, 0.0).sum(axis=-1)
    begun = policy_occupancy(problem.mdp.with_start(mass / mass.sum()), clear)
    return problem.completed(occupancy_policy(problem.support.connected(begun.occupancy), problem.default_rows))
