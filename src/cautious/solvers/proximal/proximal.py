"""Divergences, transport over a graph, and their sums with each other and with features, without any matrix.

A proximal interior point: see ``proximal_newton`` for the steps. Linear systems over the balance of flow are solved by
conjugate gradients on the transitions themselves, so memory stays a few tables, and models whose factors would fill in
(random successors) cost no more than those whose would not.
"""

import math
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.horizons.plan import Plan
from cautious.horizons.visits import over_time
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.occupancy import occupancy_policy, policy_occupancy, uniform_policy
from cautious.planning import plan
from cautious.problem import Problem
from cautious.risks.base import Structure, never
from cautious.risks.transport import TransportHint
from cautious.solvers.base import Candidate, Solver, Target, shape_of
from cautious.solvers.candidates import adjusted_reward, joined
from cautious.solvers.interior_point.newton_matrix import MOST_FLOPS
from cautious.solvers.interior_point.sparse_cholesky import OutOfTime, require_time
from cautious.solvers.proximal.flow_system import ActivePart
from cautious.solvers.proximal.proximal_newton import ProximalNewton
from cautious.solvers.shape import Shape

MAX_STEPS = 150
# what the work is estimated by: passes, those of any solve, of one with a transport, and more for every level of the
# model; what an entry, a pair and a state cost in a pass, and beside a transport an entry and an arc; how many times as
# many passes kinks, worst cases, barriers, entropies and matrices take; and the states of a metric that double the
# passes of a level, which grow with their square
PASSES, TRANSPORT_PASSES, PASSES_PER_LEVEL = 600.0, 2500.0, 240.0
ENTRY_WORK, PAIR_WORK, STATE_WORK, TRANSPORT_ENTRY_WORK, ARC_WORK = 0.15, 1.5, 6.0, 0.5, 10.0
KINK_FACTOR, WORST_CASE_FACTOR, KINKED_WORST_CASE_FACTOR, BARRIER_FACTOR = 2.5, 3.0, 8.0, 2.0
ENTROPY_FACTOR, MATRIX_FACTOR, ENTROPIC_MATRIX_FACTOR = 0.5, 0.25, 1.0
METRIC_STATES = 250.0
MAX_FEATURES = 20
# of the allowed gap, the estimated gap that counts as done
GAP_SHARE = 0.3
# steps after the estimated gap is done, fewer with a transport, where they rarely help; and steps in which it did not
# fall
MAX_STEPS_WHEN_DONE, MAX_TRANSPORT_STEPS_WHEN_DONE, MAX_STEPS_WITHOUT_PROGRESS = 12, 5, 40
# before that, a candidate is proposed whenever the estimated gap has fallen by this factor
CANDIDATE_GAP_RATIO = 100.0
# of the first policy, the share of the uniform one
UNIFORM_SHARE = 0.01
# states with less than this share of the mean mass take the planned action
MIN_RELATIVE_MASS = 1e-9
# arrays held at the peak: per pair, per state, and per entry of a block with variables of its own
ARRAYS_PER_PAIR, ARRAYS_PER_STATE, ARRAYS_PER_ENTRY = 18, 40, 14


class Proximal(Solver):
    """See the module's text."""

    name = "proximal interior point"
    every_horizon = True

    accepts = frozenset({Structure.FEATURES, Structure.ENTROPY, Structure.L1, Structure.SQUARE, Structure.TRANSPORT})

    def further_refusal(self, problem: Problem) -> str | None:
        """Takes at most one transport, of which all arcs must be known, and few features; a fixed amount of mass."""
        if problem.mdp.horizon == TOTAL:
            return "needs occupancies with a fixed sum"
        transports = problem.parts.transports
        if any(term.risk.partial for term in transports):
            return "needs all arcs of a transport"
        if len(transports) > 1 or problem.parts.n_features > MAX_FEATURES:
            return f"takes one transport and {MAX_FEATURES} features at most"
        return None

    def work(self, problem: Problem, shape: Shape) -> float:
        """Conjugate gradients: the more steps, the more slowly the model mixes; kinks and transports multiply them."""
        parts, levels, passes = problem.parts, shape.n_levels, PASSES
        a_pass = ENTRY_WORK * shape.n_entries + PAIR_WORK * shape.n_pairs + STATE_WORK * shape.n_states
        factor = KINK_FACTOR if parts.l1_distances and not parts.transports else 1.0
        if len(parts.barriers) < len(parts.features):
            factor = KINKED_WORST_CASE_FACTOR if parts.l1_distances else WORST_CASE_FACTOR
        elif parts.features:
            factor *= BARRIER_FACTOR
        factor *= ENTROPY_FACTOR if parts.entropies and not parts.transports else 1.0
        for term in parts.transports:
            passes = TRANSPORT_PASSES
            smooth_states = any(other.risk.on_states and other.risk.smooth for other in parts.separable)
            if not (term.risk.on_graph and smooth_states):
                # mass moves over a graph as slowly as over a chain, unless a smooth risk keeps the states near a prior
                levels *= 1 + (shape.n_states / METRIC_STATES) ** 2
            a_pass = TRANSPORT_ENTRY_WORK * shape.n_entries + ARC_WORK * term.risk.cost.size
            if not term.risk.on_graph:
                factor *= ENTROPIC_MATRIX_FACTOR if parts.entropies else MATRIX_FACTOR
        return factor * a_pass * (passes + PASSES_PER_LEVEL * levels)

    def memory(self, problem: Problem) -> int:
        """Tables, vectors, and the variables of kinks and arcs; a copy of the model where not all of it is active."""
        n_states, n_pairs = math.prod(problem.mdp.occupancy_shape[:-1]), problem.active.size
        entries = sum(term.risk.prior.size for term in problem.parts.l1_distances)
        entries += sum(term.risk.cost.size for term in problem.parts.transports)
        features = problem.parts.n_features
        # the heavy half of the transitions, and all of them once more if not every pair is active, and for every step
        steps, as_it_is = n_states / problem.mdp.n_states, problem.mdp.horizon is None and problem.active.all()
        copied = (0.5 if as_it_is else 2.5) * steps * problem.mdp.transitions.nnz
        return int(
            8
            * (
                ARRAYS_PER_PAIR * n_pairs
                + (ARRAYS_PER_STATE + features) * n_states
                + ARRAYS_PER_ENTRY * entries
                + copied
            )
        )

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """Candidates when the estimated gap is done, or (without transport) has fallen a hundred times."""
        try:
            newton = _begin(problem, target)
        except OutOfTime:
            return
        # the analysis of a factor that would be too large takes longer than the solve
        if shape_of(problem, target.workspace).factor_flops <= MOST_FLOPS:
            newton.find_factors(target.clock)
        late, stalled, least = 0, 0, np.inf
        # pricing a marginal that is not yet optimal is a transport problem of its own
        shown = 0.0 if newton.arcs else np.inf
        most_late = MAX_TRANSPORT_STEPS_WHEN_DONE if newton.arcs else MAX_STEPS_WHEN_DONE
        for _ in range(MAX_STEPS):
            gap = newton.gap()
            if not np.isfinite(gap):
                return
            done = gap <= GAP_SHARE * self.margin * target.allowance(_objective(newton))
            late, stalled = late + done, stalled + 1 if gap > 0.95 * least else 0
            least = min(gap, least)
            if done or gap <= shown / CANDIDATE_GAP_RATIO or target.clock.over:
                yield candidate(newton, target)
                shown = gap
            if done:
                # the certificate rejected it: mass that does not balance is far from a prior, which the gap leaves out
                newton.solve_further()
            if target.clock.over or late > most_late or stalled > MAX_STEPS_WITHOUT_PROGRESS:
                return
            with suppress(OutOfTime):
                newton.step(target.clock)
        yield candidate(newton, target)


def _begin(problem: Problem, target: Target) -> ProximalNewton:
    """From a neighbour's policy, blurred so that every pair carries mass; else from the uniform one.

    Raises ``OutOfTime`` where time is over before the tables of many steps are made; those of one are soon made, and
    give a candidate in any case.
    """
    over = target.over if isinstance(problem.mdp.horizon, int) else never
    part = ActivePart(problem, over)
    require_time(over)
    policy, multipliers = uniform_policy(problem.active | ~problem.active_states[..., None]), None
    if target.start is not None and problem.usable(target.start.policy):
        policy = UNIFORM_SHARE * policy + (1 - UNIFORM_SHARE) * target.start.policy
        multipliers = target.start.multipliers
    policy = np.where(problem.active_states[..., None], policy, problem.default_rows)
    occupancy = policy_occupancy(problem.mdp, policy, 1e-6).occupancy
    require_time(over)
    return ProximalNewton(problem, part, occupancy, multipliers)


def _objective(newton: ProximalNewton) -> float:
    """The objective of the present occupancy, about: transport is charged for the present flows."""
    problem = newton.problem
    d = over_time(table(newton))
    value = problem.expected_return(d)
    for term in problem.parts.transports:
        value -= term.weight * float(term.risk.cost @ newton.arcs[0].flow)
    for separable in (*problem.parts.separable, *problem.parts.features):
        cost = separable.risk.value(d)
        value -= separable.weight * cost if np.isfinite(cost) else 0.0
    return value


def table(newton: ProximalNewton) -> Array:
    """The present occupancy (S, A) or (T, S, A), normalised."""
    d = np.zeros(newton.problem.active.size)
    d[newton.part.pairs] = newton.d / newton.d.sum()
    return d.reshape(newton.problem.active.shape)


def cuts(newton: ProximalNewton) -> tuple[Any, ...]:
    """For every term what its ``cut`` takes: the slopes at the present point."""
    part, parts, row = newton.part, newton.problem.parts, 0
    found: list[Any] = [None] * len(parts.all)
    unit = part.normaliser / newton.unit
    for kinked in parts.l1_distances:
        found[kinked.number] = newton.kinks[kinked.number].slope / (unit * kinked.weight)
    for square in parts.squares:
        x, prior = part.entries_and_prior(newton.d, square.risk)
        found[square.number] = x - prior
    for entropy in parts.entropies:
        x, prior = part.entries_and_prior(newton.d, entropy.risk)
        found[entropy.number] = np.log(x) - np.log(prior)
    for transport in parts.transports:
        prices = newton.arcs[0].prices[: transport.risk.shape[0]] / (unit * transport.weight)
        found[transport.number] = prices
    for feature in parts.features:
        prices = newton.slacks[0].price[row : row + len(feature.risk.names)]
        # a copy: the method goes on with its own
        found[feature.number] = prices / (unit * feature.weight) if feature.risk.is_barrier else prices.copy()
        row += len(feature.risk.names)
    return tuple(found)


def candidate(newton: ProximalNewton, target: Target) -> Candidate:
    """The policy of the present occupancy, and the best multipliers for its slopes, planned from the present ones."""
    problem, part = newton.problem, newton.part
    mdp, slopes = problem.mdp, cuts(newton)
    reward, warm = adjusted_reward(problem, slopes), None
    if not part.layered:
        values = np.zeros(mdp.n_states)
        values[part.states] = newton.v * newton.unit + newton.middle * part.unit_value
        advantage = np.where(problem.active, reward + mdp.discount * mdp.expect_next(values), -np.inf)
        warm = Plan(np.argmax(advantage, axis=1), values, -np.inf, np.inf)
    tolerance = 0.1 * GAP_SHARE * target.allowance(_objective(newton))
    best = plan(mdp, reward, tolerance=tolerance, allowed=problem.kept, warm=warm, over=target.over)
    greedy = problem.completed(best.policy(mdp.n_actions))
    d = table(newton)
    policy = problem.completed(occupancy_policy(d, greedy, MIN_RELATIVE_MASS / part.states.size))
    if mdp.horizon == AVERAGE:
        policy = joined(problem, policy, d)
    # the certificate may price the marginal with the flow, instead of looking for one itself
    hints = {
        term.number: TransportHint(newton.arcs[0].flow / newton.d.sum(), slopes[term.number])
        for term in problem.parts.transports
    }
    return Candidate(policy, Witness(best.values, slopes), states=over_time(d).sum(axis=1), hints=hints)
