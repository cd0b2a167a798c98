"""A problem with advantages for rewards: for models whose rewards are much larger than what a risk is about.

With the optimal values v of the model without risk, <d, r> / (1-gamma) = <xi, v> + <d, a> / (1-gamma) for every
occupancy d, where a = r + gamma E[v] - v is at most zero. These advantages are given to the solvers instead of the
rewards, and none below a bound that lies far beyond the slopes of the risk: a pair that costs so much is hardly used,
and its exact cost would only worsen the scaling of the solvers' equations. Rewards are raised by this, never lowered,
so that a witness proves as much in the original problem; policies are evaluated there.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Cover, Witness
from cautious.certificate.twofold import twofold_sum
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.refinement import exact_optimum

# policies leave out pairs below the bound, unless a row would lose more than this much of its mass
MAX_LOST_SHARE = 1e-3


@dataclass(frozen=True)
class AdvantageForm:
    """``problem`` has the advantages under ``values`` (S,) as rewards, where they are not ``cut`` off (S, A).

    ``rest`` (S,) is what rounding left out of the values.
    """

    problem: Problem
    values: Array
    rest: Array
    cut: Mask

    def lift(self, x: Array) -> Array:
        """The same numbers."""
        return x

    def lift_policy(self, policy: Array) -> Array:
        """Without the pairs that were cut off, where hardly anything would be left out."""
        kept = np.where(self.cut, 0.0, policy)
        share = kept.sum(axis=1, keepdims=True)
        return np.where(share > 1 - MAX_LOST_SHARE, kept / np.maximum(share, MAX_LOST_SHARE), policy)

    def lift_witness(self, witness: Witness | Cover) -> Witness | Cover:
        """The multipliers come on top of the values."""
        assert isinstance(witness, Witness)
        multipliers = np.where(self.problem.active_states, witness.multipliers, 0.0)
        total, rest = twofold_sum(self.values, self.rest, multipliers)
        return Witness(total, witness.cuts, rest)


def advantage_form(problem: Problem, slopes: float) -> AdvantageForm:
    """The form in which no advantage is below ``slopes`` times the slope of the risk."""
    planned = plan(problem.mdp, problem.reward, allowed=problem.kept)
    best, table = exact_optimum(problem, problem.reward, planned.values)
    assert best.rest is not None
    slope = (1 - problem.mdp.discount) * sum(weight * risk.typical_slope for weight, risk in problem.terms)
    cut = table < -slopes * slope
    reward = np.maximum(table, -slopes * slope)
    return AdvantageForm(problem.part(reward, problem.terms), best.multipliers, best.rest, cut)
