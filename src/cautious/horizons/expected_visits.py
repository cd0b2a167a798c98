"""How often a policy visits each pair until the end, in expectation.

The visits x (S,) of the states that are not ended satisfy  x = start + P_pi' x.  If the residuals of an approximation
are e (S,), it is wrong by at most  sum_s |e(s)| w(s)  in the 1-norm, where w(s) is the mean number of steps that the
policy takes from s: it holds for any w >= 1 + P_pi w, and such a w also proves that the policy ends with certainty.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious._core.rows import ending_actions
from cautious.arrays import Array, Mask
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.chains import MAX_REFINEMENTS, MIN_RESIDUAL_RATIO, Chain, OrderedChain, chain_of, ordered
from cautious.models.encodings import EPS, read_only_view
from cautious.models.tabular import MDP

# residuals of this share of the visits are rounding
MAX_RELATIVE_ROUNDING = 16 * EPS
# numbers of steps need no precision; proved ones are so much larger
STEPS_PRECISION = 1e-3
MAX_SHORTFALL = 0.5


# of a policy that hardly ever ends the numbers of steps overflow, and what is not finite bounds no error
@np.errstate(all="ignore")
def expected_visits(mdp: MDP, policy: Array, accuracy: float = 0.0, guess: Array | None = None) -> PolicyOccupancy:
    """The visits (S, A) of a checked policy (S, A) until the end, solved until ``error`` is at most ``accuracy``.

    With accuracy 0 they are as exact as rounding permits. ``guess`` (S,) is an approximation of the visits of the
    states. If the policy does not end with certainty, or this cannot be told, ``error`` is infinite and nothing is said
    of its visits.
    """
    reached = mdp.reachable(policy > 0)
    counted = reached & ~mdp.ended
    if not counted.any():
        return PolicyOccupancy(np.zeros(mdp.shape), reached, 0.0)
    end = mdp.ending(mdp.allowed)
    known = end.order if not ((policy > 0) & counted[:, None] & ~end.pairs).any() else None
    chain = ordered(mdp, _until_end(chain_of(mdp, policy), counted), known)
    # chances of the model and of a policy that was divided by its sums are known to that many operations each
    unsure = EPS * (mdp.widest_row + 3 * mdp.n_actions + 8) + 2 * mdp.row_sum_error
    steps = _steps(chain, counted, unsure) if _ends(mdp, policy, counted) else None
    if steps is None:
        return PolicyOccupancy(np.zeros(mdp.shape), reached, np.inf)
    system = _Visits(chain, np.where(counted, mdp.start, 0.0), counted, steps, unsure)
    states, error = system.solved(guess, accuracy)
    occupancy = np.where(policy > 0, policy * states[:, None], 0.0)
    return PolicyOccupancy(occupancy, reached, error + 2 * EPS * float(states.sum()))


@dataclass(frozen=True)
class _Visits:
    """The equation  x = start + P' x  on the counted states, with the numbers of ``steps`` (S,) that bound errors."""

    chain: OrderedChain
    start: Array
    counted: Mask
    steps: Array
    unsure: float

    @cached_property
    def indegree(self) -> int:
        """The largest number of transitions into one state."""
        return int(np.bincount(np.asarray(self.chain.chain.successor), minlength=1).max())

    def measured(self, x: Array) -> tuple[Array, float]:
        """The residual of x (S,), and how far x is from the visits in the 1-norm."""
        residual = self.chain.missing_inflow(self.start, x)
        # what flows into a state is known up to the chances, and the sums of a state round relative to themselves
        doubt = (self.unsure + EPS * (self.indegree + 3)) * (2 * x + np.abs(residual))
        return residual, float(self.steps @ (np.abs(residual) + doubt))

    def solved(self, guess: Array | None, accuracy: float) -> tuple[Array, float]:
        """Visits (S,) and their error: from the guess, from nothing, and then by factors, until the error will do."""
        nothing = np.zeros(self.start.size)
        best, error = nothing, np.inf
        for first, by_factors in ((guess, False), (nothing, False), (nothing, True)):
            if first is None:
                continue
            x, last = np.where(self.counted, np.maximum(first, 0.0), 0.0), np.inf
            for _ in range(MAX_REFINEMENTS):
                residual, size = self.measured(x)
                if size < error:
                    best, error = x, size
                left = float(np.abs(residual).sum())
                if error <= accuracy or left <= MAX_RELATIVE_ROUNDING * float(x.sum()):
                    return best, error
                if size > 0.5 * last:
                    break
                last = size
                x = np.where(self.counted, np.maximum(x + self._step(residual, left, accuracy, by_factors), 0.0), 0.0)
        return best, error

    def _step(self, residual: Array, left: float, accuracy: float, by_factors: bool) -> Array:
        aim = max(0.5 * accuracy / float(self.steps.max()), MIN_RESIDUAL_RATIO * left)
        return self.chain.inflow_step(residual, aim, by_factors)


def _until_end(chain: Chain, counted: Mask) -> Chain:
    """The chain on the counted states: what leaves them is lost."""
    rows = np.repeat(counted, np.diff(np.asarray(chain.pointer)))
    chance = np.where(rows & counted[np.asarray(chain.successor)], chain.chance, 0.0)
    return Chain(chain.pointer, chain.successor, read_only_view(chance))


def _ends(mdp: MDP, policy: Array, counted: Mask) -> bool:
    """Whether every counted state can lead to an ended one."""
    taken = (policy > 0) & counted[:, None]
    end = mdp.ending(mdp.allowed)
    if not (taken & (end.components.inside | ~end.pairs)).any():
        return True
    leading = ending_actions(*mdp.csr[:2], read_only_view(taken).ravel(), mdp.ended)
    return bool(np.all(leading[counted] >= 0))


def _steps(chain: OrderedChain, counted: Mask, unsure: float) -> Array | None:
    """Numbers w (S,) with w >= 1 + P w in exact arithmetic, where entries of P may be off by a share; None if not."""
    ones = counted.astype(np.float64)
    steps = np.where(counted, np.maximum(chain.values(ones, None, STEPS_PRECISION)[0], 1.0), 0.0)
    short = chain.missing(ones, steps) + 4 * unsure * (1 + 2 * steps)
    worst = float(short[counted].max())
    return steps / (1 - worst) if worst < MAX_SHORTFALL else None
