"""Multipliers in twice the working precision, for proofs that rounding spoils.

The bound of a witness takes the largest advantage of its multipliers and divides it by 1 - gamma. Near a discount of
one, or beside rewards that are much larger than the objective, the rounding of the multipliers alone then exceeds the
tolerance. With the lines below the risks fixed, the best multipliers are the optimal values of a reward table: policy
iteration finds them, with advantages that are computed in twice the working precision.
"""

from dataclasses import replace

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Box, Cover, LinearProblem, Witness, box_line, exact_advantages, linear_problem
from cautious.certificate.twofold import twofold_sum
from cautious.models.chains import chain_of
from cautious.problem import Problem

MAX_ROUNDS = 50


def refined(problem: Problem, witness: Witness | Cover) -> Witness | Cover:
    """The same lines with better multipliers; unchanged if the witness has no line for some risk."""
    convex = [(term.weight, term.risk) for term in problem.parts.without_scalars]
    if isinstance(witness, Witness):
        if len(witness.cuts) != len(problem.terms):
            return witness
        return _refined(problem, linear_problem(problem, problem.reward, problem.terms, witness.cuts), witness)

    def of(box: Box) -> Box:
        if len(box.witness.cuts) != len(convex):
            return box
        line = box_line(problem, box)
        linear = linear_problem(problem, line.reward, convex, box.witness.cuts, line.size)
        return replace(box, witness=_refined(problem, linear, box.witness))

    return Cover(tuple(of(box) for box in witness.boxes))


def exact_optimum(problem: Problem, reward: Array, values: Array) -> tuple[Witness, Array]:
    """Optimal values of a reward table (S, A), from nearly optimal ones (S,), and the advantages (S, A) under them."""
    linear = LinearProblem(reward, 0.0, None)
    best = _refined(problem, linear, Witness(values))
    assert best.rest is not None
    return best, exact_advantages(problem, linear, best.multipliers, best.rest)[1]


def _refined(problem: Problem, linear: LinearProblem, witness: Witness) -> Witness:
    mdp, counted = problem.mdp, problem.active_states
    values = np.where(counted, witness.multipliers, 0.0), np.zeros(mdp.n_states)
    best, least, last_actions = values, np.inf, np.zeros(0, np.int64)
    for _ in range(MAX_ROUNDS):
        largest, advantage = exact_advantages(problem, linear, *values)
        if np.isnan(largest):
            break
        actions = np.argmax(advantage, axis=1)
        # values rise from policy to policy, and the largest advantage may rise on the way; once the policy stays, only
        # its linear solve is repeated
        if not largest < least and np.array_equal(actions, last_actions):
            break
        best, least = (values, largest) if largest < least else (best, least)
        last_actions = actions
        gain = np.where(counted, advantage[np.arange(mdp.n_states), actions], 0.0)
        step, _ = chain_of(mdp, np.eye(mdp.n_actions)[actions]).values(mdp.discount, gain)
        values = twofold_sum(*values, np.where(counted, step, 0.0))
    return Witness(best[0], witness.cuts, best[1])
