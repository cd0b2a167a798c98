"""How often a policy visits each pair until the end, in expectation.

The visits x (S,) of the states that are not ended satisfy  x = start + P_pi' x.  If the residuals of an approximation
are e (S,), it is wrong by at most  sum_s |e(s)| w(s)  in the 1-norm, where w(s) is the mean number of steps that the
policy takes from s: it holds for any w >= 1 + P_pi w, and such a w also proves that the policy ends with certainty.
"""

import numpy as np

from cautious._core.rows import ending_actions
from cautious.arrays import Array, Mask
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.chains import Chain, chain_of
from cautious.models.encodings import EPS, read_only_view
from cautious.models.tabular import MDP

MAX_REFINEMENTS = 8
# after so many refinements the system is solved by factors
DIRECT_AFTER = 4
# one Krylov solve is asked to reduce the residual at most to this share of it: rounding spoils its own estimate
MIN_RESIDUAL_RATIO = 1e-10
# numbers of steps need no precision; proved ones are so much larger
STEPS_PRECISION = 1e-3
MAX_SHORTFALL = 0.5


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
    chain = _until_end(chain_of(mdp, policy), counted)
    # chances of the model and of a policy that was divided by its sums are known to that many operations each
    unsure = EPS * (mdp.widest_row + 3 * mdp.n_actions + 8) + 2 * mdp.row_sum_error
    steps = _steps(chain, counted, unsure) if _ends(mdp, policy, counted) else None
    if steps is None:
        return PolicyOccupancy(np.zeros(mdp.shape), reached, np.inf)
    indegree = int(np.bincount(np.asarray(chain.successor), minlength=1).max())
    states, error, start = np.zeros(mdp.n_states), np.inf, np.where(counted, mdp.start, 0.0)
    found = states if guess is None else np.where(counted, np.maximum(guess, 0.0), 0.0)
    for number in range(MAX_REFINEMENTS):
        residual = chain.missing_inflow(start, found)
        # what flows into a state is known up to the chances, and the sums of a state round relative to themselves
        doubt = unsure * (found + np.abs(residual)) + EPS * (indegree + 3) * (2 * found + np.abs(residual))
        size = float(steps @ (np.abs(residual) + doubt))
        if not size < error:
            break
        slow, states, error = size > 0.5 * error, found, size
        left = float(np.abs(residual).sum())
        if error <= accuracy or slow or left == 0:
            break
        if number >= DIRECT_AFTER:
            more = chain.direct(1.0, residual, transposed=True)
        else:
            aim = max(0.5 * accuracy / float(steps.max()), MIN_RESIDUAL_RATIO * left)
            more, _ = chain.krylov(1.0, residual, aim, transposed=True)
        found = np.where(counted, np.maximum(states + more, 0.0), 0.0)
    occupancy = np.where(policy > 0, policy * states[:, None], 0.0)
    return PolicyOccupancy(occupancy, reached, error + 2 * EPS * float(states.sum()))


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


def _steps(chain: Chain, counted: Mask, unsure: float) -> Array | None:
    """Numbers w (S,) with w >= 1 + P w in exact arithmetic, where entries of P may be off by a share; None if not."""
    ones = counted.astype(np.float64)
    steps = np.where(counted, np.maximum(chain.values(1.0, ones, None, STEPS_PRECISION)[0], 1.0), 0.0)
    short = chain.missing(1.0, ones, steps) + 4 * unsure * (1 + 2 * steps)
    worst = float(short[counted].max())
    return steps / (1 - worst) if worst < MAX_SHORTFALL else None
