"""All models that agree with counted transitions, with confidence, and the worst of them for a policy.

Transitions. For a pair with successors counted n_j out of n, any prior over laws gives a mixture m of likelihoods, and
m / prod_j p_j^(n_j) is a martingale of mean 1 if p is the true law: it ever exceeds 1/delta with probability at most
delta (Ville), however the number of rows came about. So with q = n_j / n, at all times

    sum_j q_j log(q_j / p_j)  <=  ( log(1/delta) + sum_j n_j log q_j - log m ) / n  =:  radius.

Here the prior is an average of Dirichlet laws, dense and sparse ones, for which m has a closed form.

Payments. For values x >= 0 of mean mu, prod (1 - b + b x / mu) is such a martingale for each b in [0, 1], and so is an
average over several b. All mu for which that average exceeds 1/delta are excluded.

These sets hold for all pairs at once, whatever function of the next state is considered. So what the worst model within
them pays is a lower bound for every policy, also for one that was chosen by it. The worst law for values v is found by
bisection: with w = v - min v it is p_j = q_j / (w_j + tau), up to a factor, and what is left of the radius when tau = 0
goes to the worst state even if it was never seen (Filippi, Cappe, Garivier 2010).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp
from scipy.special import gammaln, xlogy

from cautious.arrays import Array, Indices, Mask
from cautious.models.tabular import MDP
from cautious.occupancy import policy_values

# concentrations of the Dirichlet laws, besides one over the number of states
CONCENTRATIONS = (1.0, 0.5, 0.1)
BET_SHARES = 2.0 ** -np.arange(0.1, 11)
# what rounding may do to a bound, relative to the values in it
RELATIVE_SLACK = 1e-9
# of a mean of numbers, relative to their size
RELATIVE_ROUNDING = 1e-12
TAU_RANGE = (1e-12, 1e8)
BISECTIONS = 36
MAX_ROUNDS = 30
# the largest relative change of values at which an iteration ends
CONVERGED_CHANGE = 1e-10


@dataclass(frozen=True)
class Transitions:
    """Counted transitions: of pair ``pairs[k]`` (a row s*A + a) to ``targets[k]``, ``count[k]`` times.

    The target S is a new start with the law ``start`` (S,). ``known`` (S,): states that stay where they are, which is
    no matter of counting; ``real`` (S,): states that a path can visit at all.
    """

    shape: tuple[int, int]
    discount: float
    start: Array
    pairs: Indices
    targets: Indices
    count: Array
    known: Mask
    real: Mask

    @cached_property
    def n(self) -> Array:
        """Rows of each pair, (S*A,)."""
        return _sums(self.pairs, self.count, self.shape[0] * self.shape[1])


@dataclass(frozen=True)
class ConfidenceSet:
    """The laws within the radius of what was counted, for all pairs at once with probability at least 1 - delta."""

    counted: Transitions
    delta: float

    @cached_property
    def radius(self) -> Array:
        """(S*A,); see the module's text."""
        one = self.counted
        # the states that can follow, and a new start
        width = int(np.count_nonzero(one.real)) + 1
        mixtures = []
        for alpha in (*CONCENTRATIONS, 1 / width):
            seen = gammaln(one.count + alpha) - gammaln(alpha)
            mixtures.append(gammaln(width * alpha) - gammaln(one.n + width * alpha) + self._sums(seen))
        mixture = np.logaddexp.reduce(mixtures) - np.log(len(mixtures))
        likelihood = self._sums(xlogy(one.count, one.count)) - xlogy(one.n, one.n)
        room = np.log(one.n.size / self.delta) + likelihood - mixture
        return np.asarray(room / np.maximum(one.n, 1))

    def used_by(self, policy: Array) -> "ConfidenceSet":
        """The same set for the pairs of a policy (S, A); of others it knows nothing, which spares their bisections."""
        one = self.counted
        used = policy.ravel()[one.pairs] > 0
        kept = replace(one, pairs=one.pairs[used], targets=one.targets[used], count=one.count[used])
        return ConfidenceSet(kept, self.delta)

    def _sums(self, values: Array) -> Array:
        """Sums over the successors of each pair, (S*A,)."""
        return _sums(self.counted.pairs, values, self.counted.n.size)

    def worst_rows(self, v: Array) -> tuple[Array, Array]:
        """The worst law for values v (S,): chances of the counted transitions (m,), and of the worst state (S*A,)."""
        one = self.counted
        least = float(v[one.real].min())
        w = np.append(v, one.start @ v)[one.targets] - least
        scale = max(float(w.max(initial=0.0)), 1e-300)
        w = np.maximum(w / scale, 0.0)
        q = one.count / one.n[one.pairs]
        low, high = (np.full(one.n.size, np.log(end)) for end in TAU_RANGE)
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            # at the lower end the law is further away than the radius: that end never overstates the worst value
            beyond = self._distance(q, w, np.exp(middle)) >= self.radius
            low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
        tau = np.exp(low)
        weights = q / (w + tau[one.pairs])
        total = np.maximum(self._sums(weights), 1e-300)
        rest = np.maximum(self.radius - self._distance(q, w, tau), 0.0)
        seen = np.where(one.n > 0, np.exp(-rest), 0.0)
        return weights * (seen / total)[one.pairs], 1 - seen

    def _distance(self, q: Array, w: Array, tau: Array) -> Array:
        """sum_j q_j log(q_j / p_j) of the law p_j ~ q_j / (w_j + tau), (S*A,)."""
        moved = w + tau[self.counted.pairs]
        return self._sums(q * np.log(moved)) + np.log(np.maximum(self._sums(q / moved), 1e-300))

    def worst_next(self, v: Array) -> Array:
        """The smallest expectation of v (S,) after each pair that the set admits, (S*A,); exact for known states."""
        one = self.counted
        chances, elsewhere = self.worst_rows(v)
        found = self._sums(chances * np.append(v, one.start @ v)[one.targets]) + elsewhere * float(v[one.real].min())
        return np.asarray(np.where(np.repeat(one.known, one.shape[1]), np.repeat(v, one.shape[1]), found))

    def worst_matrix(self, v: Array) -> sp.csr_array:
        """The worst law for v of every pair, as rows (S*A, S)."""
        one, (n_states, n_actions) = self.counted, self.counted.shape
        chances, elsewhere = self.worst_rows(v)
        known = np.repeat(one.known, n_actions)
        stays = np.flatnonzero(known)
        worst = int(np.flatnonzero(one.real)[np.argmin(v[one.real])])
        size = one.n.size
        rows = np.concatenate([one.pairs, np.arange(size), stays])
        columns = np.concatenate([one.targets, np.full(size, worst), stays // n_actions])
        data = np.concatenate([np.where(known[one.pairs], 0.0, chances), np.where(known, 0.0, elsewhere), known[stays]])
        found = sp.csr_array((data, (rows, columns)), shape=(size, n_states + 1))
        anew = sp.csr_array(found[:, [n_states]])
        return sp.csr_array(found[:, :n_states] + anew @ sp.csr_array(one.start[None, :]))

    def evaluate(self, policy: Array, paid: Array) -> Array:
        """Values (S,) of a policy that is paid the table ``paid`` (S*A,) in the worst model for it.

        Policy iteration of an opponent who chooses the law of every pair.
        """
        one = self.counted
        nothing = np.zeros(one.shape)
        v = (policy * paid.reshape(one.shape)).sum(axis=1) / (1 - one.discount)
        for _ in range(MAX_ROUNDS):
            worst = MDP(self.worst_matrix(v), nothing, one.discount, one.start)
            before, v = v, policy_values(worst, policy, paid.reshape(one.shape))
            if float(np.abs(v - before).max()) <= CONVERGED_CHANGE * float(np.abs(v).max()):
                break
        return np.asarray(v)

    def excess(self, policy: Array, paid: Array, v: Array) -> float:
        """Added to any v (S,), this makes lower bounds of the policy's values in all models of the set.

        It is the least amount by which a step's payment and worst next value exceed v, for ever.
        """
        one = self.counted
        gain = ((paid + one.discount * self.worst_next(v)).reshape(one.shape) * policy).sum(axis=1) - v
        size = float(np.abs(v).max()) + float(np.abs(paid).max()) / (1 - one.discount)
        return float(gain[one.real].min()) / (1 - one.discount) - RELATIVE_SLACK * size

    def plan(self, paid: Array, allowed: Mask) -> Array:
        """Values (S,) in the worst model of the policy for which that is best; ``allowed`` (S, A)."""
        policy = _greedy(np.where(allowed, paid.reshape(allowed.shape), -np.inf))
        best, v = -np.inf, np.zeros(allowed.shape[0])
        for _ in range(MAX_ROUNDS):
            found = self.evaluate(policy, paid)
            value = float(self.counted.start @ found)
            if value <= best + CONVERGED_CHANGE * abs(best):
                break
            v, best = found, value
            q = (paid + self.counted.discount * self.worst_next(v)).reshape(allowed.shape)
            policy = _greedy(np.where(allowed, q, -np.inf))
        return v


def _sums(groups: Indices, values: Array, size: int) -> Array:
    """Sums of the values (m,) of each group, (``size``,)."""
    return np.asarray(np.bincount(groups, values, minlength=size), dtype=np.float64)


def _greedy(q: Array) -> Array:
    return np.asarray(np.eye(q.shape[1])[q.argmax(axis=1)])


def means_below(
    size: int, pairs: Indices, values: Array, count: Array, ends: tuple[float, float], delta: float
) -> Array:
    """Numbers (``size``,) that the mean payments of all pairs exceed, with probability at least 1 - delta together.

    ``values`` (m,) in [low, high] were paid ``count`` (m,) times by the pairs ``pairs`` (m,). A pair that never paid
    anything has the low end.
    """
    low, high = ends
    width = max(high - low, 1e-300)
    order = np.lexsort((values, pairs))
    pairs, values, count = pairs[order], values[order], count[order]
    # equal payments of a pair are one group
    first = np.flatnonzero((np.diff(pairs, prepend=-1) != 0) | (np.diff(values, prepend=np.nan) != 0))
    pairs, values, count = pairs[first], values[first], np.add.reduceat(count, first)
    x = np.clip((values - low) / width, 0.0, 1.0)
    n = _sums(pairs, count, size)
    enough = np.log(size / delta)
    inside, outside = np.zeros(size), _sums(pairs, count * x, size) / np.maximum(n, 1)
    for _ in range(BISECTIONS):
        mu = (inside + outside) / 2
        ratio = x / np.maximum(mu[pairs], 1e-300) - 1
        wealth = [_sums(pairs, count * np.log1p(b * ratio), size) for b in BET_SHARES]
        excluded = np.logaddexp.reduce(wealth) - np.log(BET_SHARES.size) >= enough
        inside, outside = np.where(excluded, mu, inside), np.where(excluded, outside, mu)
    return np.asarray(np.where(n > 0, low + width * inside, low) - RELATIVE_ROUNDING * (abs(low) + abs(high)))
