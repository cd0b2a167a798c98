"""Algorithm 2 with a known model: both blocks are solved exactly.

The paper proves convergence to a stationary point of a surrogate; ``ca.solve`` finds the global optimum of the problem
itself. This algorithm is here for comparison. Corrections to the printed text: the centre of the mu step,
the newest mu in the d step, and the best iterate instead of a random one (which ``output="random"`` gives).
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.checks import as_count, as_number, as_seed, check_choice
from cautious.errors import IncompatibleError
from cautious.learning.printed.variance_surrogate import COUPLING_SHARE, Surrogate, flow_gradient, simplex_gradient
from cautious.occupancy import flow_residual, policy_occupancy
from cautious.problem import Problem
from cautious.risks.base import Sum
from cautious.risks.scalar import RewardVariance
from cautious.solvers.solve import solve

Output = Literal["best", "random"]

INNER_TOLERANCE = 1e-9
MIN_RELATIVE_RISE = 1e-12


@dataclass(frozen=True)
class Round:
    """One round of Algorithm 2.

    ``phi`` the surrogate, which never decreases. ``stationarity`` the squared norms of its projected gradients in lam
    and in mu (Theorem 3), projected on the directions that stay feasible. ``violation`` the flow's, in the 1-norm.
    ``objective`` with the true variance; ``rounded_objective`` that of the most likely action in every state.
    """

    phi: float
    stationarity: float
    violation: float
    objective: float
    rounded_objective: float
    occupancy: Array
    mu: Array


@dataclass(frozen=True)
class BlockAscent:
    """All rounds, and the policy of the chosen one; ``rounded`` takes its most likely action in every state."""

    rounds: tuple[Round, ...] = field(repr=False)
    chosen: int
    policy: Array = field(repr=False)
    rounded: Array = field(repr=False)
    coupling: float


def block_ascent(
    problem: Problem, coupling: float | None = None, rounds: int = 60, output: Output = "best", seed: int = 0
) -> BlockAscent:
    """Algorithm 2 from the uniform policy, for a problem whose only risk is ``ca.Variance``.

    ``coupling`` is the paper's M, by default caution * range^2 * pairs / 32. Stops when the surrogate no longer grows.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> found = ca.block_ascent(problem, rounds=5)
    >>> found.rounds[-1].phi >= found.rounds[0].phi
    True
    """
    if not isinstance(problem, Problem):
        raise IncompatibleError(f"ca.block_ascent needs a ca.Problem, found {type(problem).__name__}")
    seed = as_seed(seed)
    check_choice("output", output, ("best", "random"))
    surrogate = _surrogate(problem, None if coupling is None else as_number("coupling", coupling))
    mdp, policy = problem.mdp, problem.default_rows
    d, found, policies = policy_occupancy(mdp, policy).occupancy, list[Round](), list[Array]()
    for _ in range(as_count("rounds", rounds)):
        mu = surrogate.best_mu(d)
        inner = solve(Problem(mdp, Sum(surrogate.terms(mu))), INNER_TOLERANCE)
        # the last digits of the inner solve must not undo an ascent
        if surrogate.value(inner.occupancy, mu) >= surrogate.value(d, mu):
            d, policy = inner.occupancy, inner.policy
        policies.append(policy)
        found.append(_round(problem, surrogate, d, mu, _rounded(problem, policy)))
        if len(found) > 1 and found[-1].phi - found[-2].phi <= MIN_RELATIVE_RISE * max(1.0, abs(found[-1].phi)):
            break
    if output == "best":
        chosen = int(np.argmax([one.objective for one in found]))
    else:
        chosen = int(np.random.default_rng(seed).integers(len(found)))
    return BlockAscent(tuple(found), chosen, policies[chosen], _rounded(problem, policies[chosen]), surrogate.coupling)


def _surrogate(problem: Problem, coupling: float | None) -> Surrogate:
    if len(problem.terms) != 1 or not isinstance(problem.terms[0][1], RewardVariance):
        raise IncompatibleError(
            f"Algorithm 2 is for ca.Variance() on its own with caution above 0, found {problem.risk_label} with "
            f"caution {problem.caution:g}; ca.solve takes any risk"
        )
    mdp, ((caution, _),) = problem.mdp, problem.terms
    if coupling is None:
        low, high = mdp.reward_range
        coupling = caution * ((high - low) or 1.0) ** 2 * np.count_nonzero(mdp.allowed) * COUPLING_SHARE
    coupling = as_number("coupling", float(coupling), 0.0, open_ends="(")
    return Surrogate(mdp.rewards, mdp.reward_square, mdp.allowed, caution, coupling, mdp.discount)


def _rounded(problem: Problem, policy: Array) -> Array:
    likely = np.where(problem.mdp.allowed, policy, -1.0)
    return np.asarray(np.eye(problem.mdp.n_actions)[np.argmax(likely, axis=1)])


def _round(problem: Problem, surrogate: Surrogate, d: Array, mu: Array, rounded: Array) -> Round:
    mdp = problem.mdp
    in_flux = flow_gradient(surrogate.gradient_in_flux(d, mu), d, mdp, problem.active)
    in_mu = simplex_gradient(surrogate.gradient_in_mu(d, mu), mu, mdp.allowed)
    return Round(
        phi=surrogate.value(d, mu),
        stationarity=float(np.sum(in_flux**2) + np.sum(in_mu**2)),
        violation=float(np.abs(flow_residual(mdp, d)).sum()),
        objective=problem.objective(d),
        rounded_objective=evaluate_policy(problem, rounded).objective,
        occupancy=d,
        mu=mu,
    )
