"""Checks of solvers: small problems whose best policies an exhaustive and random search comes close to."""

from dataclasses import dataclass
from itertools import product

import numpy as np

from cautious.arrays import Array
from cautious.errors import shown
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.wasserstein import Wasserstein
from cautious.runtime.clock import Clock
from cautious.solvers.base import Outcome, Solver, Target, run
from cautious.status import Status
from cautious.testing.parts import CheckFailure, call, require
from cautious.worlds.random_models import garnet

TOLERANCE = 1e-6
LIMIT_SECONDS = 20.0
RANDOM_POLICIES = 300
OBJECTIVE_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Spread(Risk):
    """A risk known by value and gradient only, for solvers that take those."""

    def value(self, d: Array) -> float:
        """Half the squared distance to the uniform occupancy."""
        return 0.5 * float(np.sum((d - 1 / d.size) ** 2))

    def gradient(self, d: Array) -> Array:
        """The difference itself."""
        return d - 1 / d.size


def check_solver(solver: Solver, seed: int = 0) -> None:
    """Check a solver on small problems that it does not refuse.

    ``refusal`` gives a string or None; the objective of the delivered policy is recomputed by other code; no policy of
    a search beats the upper bound; the gap closes to 1e-6. A solver that refuses every problem fails.
    """
    require(isinstance(solver, Solver), f"a solver subclasses cautious.solvers.base.Solver, found {shown(solver)}")
    rng = np.random.default_rng(seed)
    mdp = garnet(n_states=5, n_actions=2, n_successors=3, discount=0.9, seed=seed)
    # every deterministic policy, and random ones
    policies = [np.eye(mdp.n_actions)[list(choice)] for choice in product(range(mdp.n_actions), repeat=mdp.n_states)]
    policies += [rng.dirichlet(np.full(mdp.n_actions, 0.7), size=mdp.n_states) for _ in range(RANDOM_POLICIES)]
    occupancies = [_occupancy(mdp, policy) for policy in policies]
    refusals = []
    for risk, caution in _risks(mdp, rng):
        problem = Problem(mdp, risk, caution)
        label = f"{solver.name} on {problem.risk_label}"
        refusal = call(f"{label}: refusal", solver.refusal, problem)
        require(refusal is None or isinstance(refusal, str), f"{label}: refusal is {refusal!r}; expected str or None")
        if refusal is not None:
            refusals.append(f"{problem.risk_label}: {refusal}")
            continue
        outcome = call(f"{label}: run", run, solver, problem, Target(TOLERANCE, Clock(LIMIT_SECONDS)), None)
        _judge(label, problem, outcome, max(problem.objective(d) for d in occupancies))
    require(len(refusals) < len(_risks(mdp, rng)), f"{solver.name} refuses every problem: {'; '.join(refusals)}")


def _judge(label: str, problem: Problem, outcome: Outcome, searched: float) -> None:
    if outcome.evaluated is None:
        raise CheckFailure(f"{label}: no policy was delivered")
    policy, objective = outcome.evaluated.policy, outcome.evaluated.objective
    recomputed = problem.objective(_occupancy(problem.mdp, policy))
    off = abs(recomputed - objective)
    size = max(1.0, abs(objective))
    require(
        off <= OBJECTIVE_TOLERANCE * size,
        f"{label}: the objective is {objective:.12g}, recomputed {recomputed:.12g}, off by {off:.3g}",
    )
    below = searched - outcome.upper
    require(
        below <= OBJECTIVE_TOLERANCE * size,
        f"{label}: a policy beats the upper bound {outcome.upper:.12g} by {below:.3g}",
    )
    below = searched - objective
    require(
        outcome.status is Status.SOLVED and outcome.gap <= TOLERANCE * size,
        f"{label}: ended {outcome.status.name} with a gap of {outcome.gap:.3g} after {outcome.steps} steps; "
        f"expected SOLVED within {TOLERANCE * size:.3g}",
    )
    require(below <= TOLERANCE * size, f"{label}: a policy of the search beats the delivered one by {below:.3g}")


def _occupancy(mdp: MDP, policy: Array) -> Array:
    """By one dense solve that shares nothing with the certificate."""
    kernel = mdp.transitions.toarray().reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    chain = np.einsum("sa,sat->st", policy, kernel)
    states = np.linalg.solve(np.eye(mdp.n_states) - mdp.discount * chain.T, (1 - mdp.discount) * mdp.start)
    return np.asarray(states[:, None] * policy)


def _risks(mdp: MDP, rng: np.random.Generator) -> list[tuple[Risk | None, float]]:
    """One of every kind of structure, and sums across kinds."""
    prior = rng.dirichlet(np.ones(mdp.n_states * mdp.n_actions)).reshape(mdp.shape)
    marginal = prior.sum(axis=1)
    place = np.arange(mdp.n_states, dtype=np.float64)
    tasks = rng.random((2, *mdp.shape))
    distance = np.abs(place[:, None] - place[None])
    return [
        (None, 0.0),
        (SafeSet(np.arange(mdp.n_states - 1), 0.9), 0.5),
        (WorstTask(tasks), 1.0),
        (PeakExposure([[0], [1, 2]]), 5.0),
        (KL(prior), 1.0),
        (Entropy(), 0.1),
        (KL(marginal), 1.0),
        (TotalVariation(prior), 2.0),
        (Quadratic(marginal), 10.0),
        (Wasserstein(marginal, distance), 1.0),
        (Variance(), 20.0),
        (CVaR(0.8), 5.0),
        (Spread(), 20.0),
        (PeakExposure([[0], [1, 2]]) + 0.5 * Entropy(), 2.0),
        (Variance() + Quadratic(prior), 10.0),
        (Spread() + TotalVariation(prior), 3.0),
    ]
