"""Divergences, transport over a graph, and their sums with each other and with features, without any matrix.

A proximal interior point: see ``proximal_search`` for the steps. Linear systems over the balance of flow are solved by
conjugate gradients on the transitions themselves, so memory stays a few tables, and models whose factors would fill in
(random successors) cost no more than those whose would not.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.occupancy import occupancy_policy, policy_occupancy, uniform_policy
from cautious.planning import Plan, plan
from cautious.problem import Problem
from cautious.risks.features import FeatureRisk, LogBarrier
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.transport import GraphTransport, TransportRisk
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.proximal.flow_system import ActivePart
from cautious.solvers.proximal.proximal_newton import Search
from cautious.solvers.rounding import adjusted_reward

STEPS = 150
FEATURES = 20
SHARE = 0.3
LATE, STALLED = 12, 40
FALL = 100.0
UNIFORM_SHARE = 0.01
LEAST_MASS = 1e-9
# arrays held at the peak: per pair, per state, and per entry of a block with variables of its own
PER_PAIR, PER_STATE, PER_ENTRY = 18, 40, 14


class Proximal(Solver):
    """See the module's text."""

    name = "proximal interior point"

    def refusal(self, problem: Problem) -> str | None:
        """Needs terms it knows, at most one transport, and few features."""
        transports, features = 0, 0
        for _, risk in problem.terms:
            if isinstance(risk, TransportRisk) and not risk.partial:
                transports += 1
            elif isinstance(risk, FeatureRisk):
                features += len(risk.names)
            elif not isinstance(risk, EntropicRisk | HalfL1 | HalfSquares):
                return f"cannot take {risk.label}"
        if not problem.terms:
            return "has no risk"
        if transports > 1 or features > FEATURES:
            return f"takes one transport and {FEATURES} features at most"
        return None

    def memory(self, problem: Problem) -> int:
        """Tables, vectors, and the variables of kinks and arcs; a copy of the model where not all of it is active."""
        n_states, n_pairs = problem.mdp.n_states, problem.active.size
        entries = sum(risk.prior.size for _, risk in problem.terms if isinstance(risk, HalfL1))
        entries += sum(risk.cost.size for _, risk in problem.terms if isinstance(risk, TransportRisk))
        features = sum(len(risk.names) for _, risk in problem.terms if isinstance(risk, FeatureRisk))
        # the heavy half of the transitions, and all of them once more if not every pair is active
        copied = (0.5 if problem.active.all() else 2.5) * problem.mdp.transitions.nnz
        return int(8 * (PER_PAIR * n_pairs + (PER_STATE + features) * n_states + PER_ENTRY * entries + copied))

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Candidates when the estimated gap is done, or (without transport) has fallen a hundred times."""
        part = ActivePart(problem)
        search = _begin(problem, part, target)
        late, stalled, least = 0, 0, np.inf
        # pricing a marginal that is not yet optimal is a transport problem of its own
        shown = 0.0 if search.arcs else np.inf
        for _ in range(STEPS):
            gap = search.gap()
            if not np.isfinite(gap):
                return
            done = gap <= SHARE * self.margin * target.allowance(_objective(search))
            late, stalled = late + done, stalled + 1 if gap > 0.95 * least else 0
            least = min(gap, least)
            if done or gap <= shown / FALL or target.clock.over:
                yield candidate(search, target)
                shown = gap
            if target.clock.over or late > LATE or stalled > STALLED:
                return
            search.step(target.clock)
        yield candidate(search, target)


def _begin(problem: Problem, part: ActivePart, target: Target) -> Search:
    """From a neighbour's policy, blurred so that every pair carries mass; else from the uniform one."""
    policy, multipliers = uniform_policy(problem.active | ~problem.active_states[:, None]), None
    if target.start is not None and problem.usable(target.start.policy):
        policy = UNIFORM_SHARE * policy + (1 - UNIFORM_SHARE) * target.start.policy
        multipliers = target.start.multipliers
    policy = np.where(problem.active_states[:, None], policy, problem.default_rows)
    return Search(problem, part, policy_occupancy(problem.mdp, policy, 1e-6).occupancy, multipliers)


def _objective(search: Search) -> float:
    """The objective of the present occupancy, about: transport is charged for the present flows."""
    problem = search.problem
    d = table(search)
    value = problem.expected_return(d)
    for weight, risk in problem.terms:
        if isinstance(risk, TransportRisk):
            value -= weight * float(risk.cost @ search.arcs[0].flow)
        else:
            cost = risk.value(d)
            value -= weight * cost if np.isfinite(cost) else 0.0
    return value


def table(search: Search) -> Array:
    """The present occupancy (S, A), normalised."""
    d = np.zeros(search.problem.active.size)
    d[search.part.pairs] = search.d / search.d.sum()
    return d.reshape(search.problem.active.shape)


def cuts(search: Search) -> tuple[Any, ...]:
    """For every term what its ``cut`` takes: the slopes at the present point."""
    part, found, row = search.part, [], 0
    for number, (weight, risk) in enumerate(search.problem.terms):
        scaled = (1 - part.gamma) * weight / search.unit
        if isinstance(risk, HalfL1):
            found.append(search.kinks[number].slope / scaled)
        elif isinstance(risk, EntropicRisk | HalfSquares):
            x = part.gather(search.d) if risk.on_states else search.d
            prior = risk.prior[part.states] if risk.on_states else risk.prior.ravel()[part.pairs]
            found.append(x - prior if isinstance(risk, HalfSquares) else np.log(x) - np.log(prior))
        elif isinstance(risk, TransportRisk):
            found.append(search.arcs[0].prices[: risk.shape[0]] / scaled)
            if isinstance(risk, GraphTransport):
                # the certificate may price the marginal with it, instead of looking for a flow itself
                risk.memory.flow = search.arcs[0].flow / search.d.sum()
        elif isinstance(risk, FeatureRisk):
            prices = search.slacks[0].price[row : row + len(risk.names)]
            found.append(prices / scaled if isinstance(risk, LogBarrier) else prices)
            row += len(risk.names)
    return tuple(found)


def candidate(search: Search, target: Target) -> Candidate:
    """The policy of the present occupancy, and the best multipliers for its slopes, planned from the present ones."""
    problem, part = search.problem, search.part
    mdp, slopes = problem.mdp, cuts(search)
    values = np.zeros(mdp.n_states)
    values[part.states] = search.v * search.unit + search.middle / (1 - part.gamma)
    reward = adjusted_reward(problem, slopes)
    advantage = np.where(problem.active, reward + part.gamma * mdp.expect_next(values), -np.inf)
    warm = Plan(np.argmax(advantage, axis=1), values, -np.inf, np.inf)
    tolerance = 0.1 * SHARE * target.allowance(_objective(search))
    best = plan(mdp, reward, tolerance=tolerance, allowed=problem.kept, warm=warm)
    greedy = problem.completed(best.policy(mdp.n_actions))
    d = table(search)
    policy = problem.completed(occupancy_policy(d, greedy, LEAST_MASS / part.states.size))
    return Candidate(policy, Witness(best.values, slopes), states=d.sum(axis=1))
