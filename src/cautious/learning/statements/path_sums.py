"""Values of a policy from the errors that a guess of its value function makes along fresh paths.

Let f be what a step pays, V the unknown values of the policy, h any guess of them that was made before the paths. A
path from s_0 ends after every step with probability 1 - gamma. With the errors e = f + gamma h(s') - h(s) of its steps,

    E[ sum of e ]  =  E[ V(s_0) - h(s_0) ],     so that     value  =  <xi, h> + E[ sum of e ].

The sum varies far less than the payments of a path, because h explains most of them: h is a control variate. It has no
useful bounds, as a path can be long. So a path whose sum falls below a *barrier* is closed: what was to come, gamma
(V(s') - h(s')), is replaced by gamma (L(s') - h(s')) with lower bounds L of V that were proved before (``worst_case``).
That can only lower the expectation, and no sum is then below -barrier + min f + gamma min L - max h.

For independent numbers W >= floor with mean m and a rate 0 <= lam < 1 / (m - floor), the product of 1 + lam (W - m) has
expectation 1, and exceeds 1/delta with probability at most delta (Markov). All m for which it does are excluded: a test
by betting (Waudby-Smith and Ramdas 2024), here at a rate that is fixed beforehand.
"""

from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array, Indices, Mask
from cautious.learning.plug_in.transition_counts import Counts, next_moments
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy, policy_values

# in standard deviations of a sum
BARRIER_DEVIATIONS = 6.0
# of 1 / (m - floor); at one, a single number at the floor would end the test
LARGEST_BET_SHARE = 0.95
BISECTIONS = 60
# of the largest possible value: guesses without any error would put the barrier at zero
MIN_SPREAD_SHARE = 1e-3


@dataclass(frozen=True)
class PathSum:
    """What a step pays is ``payoff`` of its reward plus ``table`` (S, A), and at least ``least``.

    ``guess`` (S,): h, and ``below`` (S,): L. ``spread``: what the standard deviation of a path's sum should be.
    """

    payoff: Payoff | None
    table: Array
    discount: float
    least: float
    guess: Array
    below: Array
    spread: float

    @property
    def floor(self) -> float:
        """No sum is below this."""
        worst_end = self.least + self.discount * float(self.below.min()) - float(self.guess.max())
        return -BARRIER_DEVIATIONS * self.spread + min(worst_end, 0.0)

    def add_step(
        self, sums: Array, closed: Mask, pairs: tuple[Indices, Indices], rewards: Array, next_states: Indices
    ) -> None:
        """Add a step to the sums (n,) that are not ``closed`` (n,), and close those that fall below the barrier."""
        paid = self.table[pairs] + (0.0 if self.payoff is None else self.payoff(rewards))
        error = paid + self.discount * self.guess[next_states] - self.guess[pairs[0]]
        sums += np.where(closed, 0.0, error)
        falls = ~closed & (sums < -BARRIER_DEVIATIONS * self.spread)
        sums[falls] += self.discount * (self.below - self.guess)[next_states[falls]]
        closed |= falls

    def mean_below(self, sums: Array, delta: float) -> float:
        """A number that the expectation of the sums (n,) is below with probability at most ``delta``."""
        # the best rate for many numbers of the foreseen variance
        rate = np.sqrt(2 * np.log(1 / delta) / sums.size) / self.spread
        low, high = self.floor, max(float(sums.mean()), self.floor)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            bet = min(rate, LARGEST_BET_SHARE / max(middle - self.floor, 1e-300))
            if np.log1p(bet * (sums - middle)).sum() >= np.log(1 / delta):
                low = middle
            else:
                high = middle
        return low


def path_sum(
    mdp: MDP,
    counts: Counts,
    policy: Array,
    payoff: Payoff | None,
    table: Array,
    ends: tuple[float, float],
    below: Array,
) -> PathSum:
    """With the values of the policy in the counted model as the guess; ``ends``: the least and the most a step pays."""
    gamma = mdp.discount
    nothing = np.zeros(mdp.n_states)
    mean = table if payoff is None else table + next_moments(counts, payoff, nothing)[0].reshape(mdp.shape)
    least, most = (end / (1 - gamma) for end in ends)
    guess = np.clip(policy_values(mdp, policy, mean), below, most)
    expected = mdp.expect_next(guess)
    around = (mean + gamma * expected - guess[:, None]) ** 2
    moments = None if payoff is None else next_moments(counts, payoff, guess)[1]
    if moments is None:
        moments = gamma**2 * np.maximum(mdp.expect_next(guess**2) - expected**2, 0.0)
    square = float(np.sum(policy_occupancy(mdp, policy).occupancy * (moments.reshape(mdp.shape) + around)))
    spread = max(np.sqrt(square / (1 - gamma)), MIN_SPREAD_SHARE * (most - least), 1e-300)
    return PathSum(payoff, table, gamma, ends[0], guess, below, float(spread))
