"""A problem with advantages for rewards: for models whose rewards are much larger than what a risk is about.

With the optimal values v of the model without risk, <d, r> / (1-gamma) = <xi, v> + <d, a> / (1-gamma) for every
occupancy d, where a = r + gamma E[v] - v is at most zero. These advantages are given to the solvers instead of the
rewards, and none below a bound that lies far beyond the slopes of the risk: a pair that costs so much is hardly used,
and its exact cost would only worsen the scaling of the solvers' equations. Rewards are raised by this, never lowered,
so that a witness proves as much in the original problem; policies are evaluated there.

With another horizon only these pairs are changed: over some steps advantages depend on the step, and rewards do not.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Cover, Witness
from cautious.certificate.twofold import twofold_sum
from cautious.checks import picked
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.planning import plan
from cautious.problem import Problem
from cautious.solvers.refinement import exact_optimum

# policies leave out pairs below the bound, unless a row would lose more than this much of its mass
MAX_LOST_SHARE = 1e-3


@dataclass(frozen=True)
class AdvantageForm:
    """``problem`` has advantages as rewards, or the rewards themselves, where they are not ``cut`` off (S, A).

    Advantages are those under ``values`` (S,), and ``rest`` (S,) is what rounding left out of them; both are None if
    the rewards were kept.
    """

    problem: Problem
    cut: Mask
    values: Array | None = None
    rest: Array | None = None

    def lift(self, x: Array) -> Array:
        """The same numbers."""
        return x

    def lift_policy(self, policy: Array) -> Array:
        """The policy without the pairs that were cut off, in states where these have hardly any probability."""
        kept = np.where(self.cut, 0.0, policy)
        share = kept.sum(axis=-1, keepdims=True)
        return np.where(share > 1 - MAX_LOST_SHARE, kept / np.maximum(share, MAX_LOST_SHARE), policy)

    def lift_witness(self, witness: Witness | Cover) -> Witness | Cover:
        """The multipliers come on top of the values."""
        if self.values is None or self.rest is None:
            return witness
        assert isinstance(witness, Witness)
        multipliers = np.where(self.problem.active_states, witness.multipliers, 0.0)
        total, rest = twofold_sum(self.values, self.rest, multipliers)
        return Witness(total, witness.cuts, rest)


def advantage_form(problem: Problem, slopes: float) -> AdvantageForm:
    """The form in which no advantage is below ``slopes`` times the slope of the risk."""
    planned = plan(problem.mdp, problem.reward, allowed=problem.kept)
    least = -slopes * problem.mdp.normaliser * sum(weight * risk.typical_slope for weight, risk in problem.terms)
    if problem.mdp.horizon is not None:
        table = _largest_advantages(problem, planned.values)
        reward = problem.reward + np.maximum(least - table, 0.0)
        return AdvantageForm(problem.part(reward, problem.terms), table < least)
    best, table = exact_optimum(problem, problem.reward, planned.values)
    assert best.rest is not None
    reward = np.maximum(table, least)
    return AdvantageForm(problem.part(reward, problem.terms), table < least, best.multipliers, best.rest)


def _largest_advantages(problem: Problem, values: Array) -> Array:
    """Advantages (S, A) under values (S,) of the long run or until the end; the largest of all steps under (T, S)."""
    mdp = problem.mdp
    if mdp.horizon == AVERAGE or mdp.horizon == TOTAL:
        table = problem.reward + mdp.expect_next(values) - values[:, None]
        # less the gain, which the best pairs earn
        return np.asarray(table - picked(table, problem.active).max(initial=-np.inf))
    table = np.full(mdp.shape, -np.inf)
    for t, value in enumerate(values):
        later = mdp.discount * mdp.expect_next(values[t + 1]) if t + 1 < len(values) else 0.0
        table = np.maximum(table, problem.reward + later - value[:, None])
    return table
