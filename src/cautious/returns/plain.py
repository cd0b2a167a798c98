"""The return of a policy that remembers nothing of it, as a distribution: what was earned is only kept track of."""

import math

import numpy as np

from cautious.arrays import Array
from cautious.models.encodings import EPS
from cautious.models.tabular import MDP
from cautious.returns.backward import Grid
from cautious.returns.earnings import Earnings, earnings_of
from cautious.returns.forward import Followed, follow
from cautious.returns.grids import SAME_SUM, exact_grids, possible_sums, range_of_return, target_grids
from cautious.returns.memory_policy import MemoryPolicy
from cautious.returns.moments import return_variance

# nodes over the range of the return, at most, and pairs of a state and a node in all steps together
MOST_NODES, MOST_PAIRS = 8000, 3e7
# discounted for ever, steps are followed until no more than this share of a return is left
NEGLIGIBLE_SHARE, MOST_STEPS = 1e-7, 20_000
# of a return that is not bounded, so many standard deviations are told apart
DEVIATIONS = 12.0


class PlainPolicy:
    """A policy (S, A) or (T, S, A) in a model, ready to be followed with any rate."""

    def __init__(self, mdp: MDP, policy: Array) -> None:
        self.policy = policy
        self.mean, variance = return_variance(mdp, policy)
        self.earnings = self._long_enough(earnings_of(mdp), policy)
        self.tracker = self._tracker(math.sqrt(variance))

    def followed(self, rate: float = 0.0) -> Followed:
        """What it does and earns."""
        return follow(self.earnings, self.tracker, rate, instead=self.policy)

    def _long_enough(self, earnings: Earnings, policy: Array) -> Earnings:
        mdp = earnings.mdp
        if isinstance(mdp.horizon, int):
            return earnings
        if mdp.horizon is None:
            steps = 1 if mdp.discount == 0 else math.ceil(math.log(NEGLIGIBLE_SHARE) / math.log(mdp.discount))
            return earnings.with_steps(min(max(1, steps), MOST_STEPS))
        chain, mass, steps = mdp.under(policy).T.tocsr(), np.where(mdp.ended, 0.0, mdp.start), 1
        while steps < MOST_STEPS and mass.sum() > NEGLIGIBLE_SHARE:
            mass, steps = np.where(mdp.ended, 0.0, chain @ mass), steps + 1
        return earnings.with_steps(steps)

    def _tracker(self, deviation: float) -> MemoryPolicy:
        earnings = self.earnings
        mdp, mean = earnings.mdp, self.mean - earnings.offset
        sums = possible_sums(earnings) if isinstance(mdp.horizon, int) else None
        if sums is not None:
            grids: list[Grid] = exact_grids(earnings, sums, np.array([mean]))
        else:
            low, high = range_of_return(earnings)
            width = min(high - low, 2 * DEVIATIONS * deviation) if deviation > 0 else 0.0
            width = max(width, float(np.abs(earnings.paid).max(initial=0.0)), EPS * abs(mean), 1e-300)
            nodes = min(MOST_NODES, max(200.0, MOST_PAIRS / (mdp.n_states * earnings.n_steps)))
            grids = target_grids(earnings, False, mean, mean, width / nodes, reach=width)
        finite = isinstance(mdp.horizon, int)
        return MemoryPolicy(
            target=mean,
            grids=tuple(grids),
            tables=(),
            scales=earnings.scales,
            middle=earnings.middle,
            to_upper=False,
            snap=SAME_SUM * earnings.size,
            policy_after=None if finite else self.policy,
        )
