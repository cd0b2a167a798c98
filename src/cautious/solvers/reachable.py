"""The part of a problem that can be reached from the start: what solvers are given where the rest would cost time."""

from dataclasses import dataclass, replace

import numpy as np

from cautious.arrays import Array, Indices
from cautious.certificate.bounds import Box, Cover, Witness
from cautious.problem import Problem

# with more active states than this share a smaller model takes about as long to make as it saves
LARGEST_SHARE = 0.75


@dataclass(frozen=True)
class ReachablePart:
    """``problem`` is the ``whole`` one on its active ``states``; the methods bring answers back to all states."""

    whole: Problem
    problem: Problem
    states: Indices

    def lift(self, x: Array) -> Array:
        """Numbers of the active states, zero elsewhere; (S,)."""
        full = np.zeros(self.whole.mdp.n_states)
        full[self.states] = x
        return full

    def lift_policy(self, policy: Array) -> Array:
        """Rows of the active states, the documented ones elsewhere; (S, A)."""
        full = self.whole.default_rows.copy()
        full[self.states] = policy
        return full

    def lift_witness(self, witness: Witness | Cover) -> Witness | Cover:
        """The same proof in the whole problem: slopes are given per active entry, and those are the same."""
        if isinstance(witness, Cover):
            return Cover(tuple(self._lift_box(box) for box in witness.boxes))
        return self._lift_multipliers(witness)

    def _lift_multipliers(self, witness: Witness) -> Witness:
        rest = None if witness.rest is None else self.lift(witness.rest)
        return Witness(self.lift(witness.multipliers), witness.cuts, rest)

    def _lift_box(self, box: Box) -> Box:
        return replace(box, witness=self._lift_multipliers(box.witness))


def reachable_part(problem: Problem) -> ReachablePart | None:
    """The problem on its active states; None if most states are active, or if a risk depends on other states too."""
    if problem.mdp.horizon is not None or not problem.mdp.written_down:
        return None
    active = problem.active_states
    if np.count_nonzero(active) > LARGEST_SHARE * active.size:
        return None
    # made once for all cautions and inner problems, so that what solvers keep for each other fits
    states, support, risks = problem.support.restricted
    terms = []
    for weight, risk in problem.terms:
        smaller = risks.get(id(risk))
        if smaller is None:
            return None
        terms.append((weight, smaller))
    if support.trapped is not None:
        # a limit that cannot be kept forbids every pair of the states that are left: the whole problem says why
        return None
    return ReachablePart(problem, problem.in_model(support.mdp, problem.reward[states], terms, support), states)
