"""Distances to a prior on models that factor well: a primal-dual interior point method on the occupancy program.

Each step (Mehrotra) predicts where the products of variables and multipliers could go, aims at a share of that, and
corrects for the second order; all of it needs one sparse factorisation (``newton_matrix``). Where it starts says
``starting_points``. Steps end when the sum of the products, and what the multipliers miss, are below the allowed gap;
the certificate then judges the policy read off the occupancy.
"""

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from cautious._core import interior_steps as kernels
from cautious.arrays import Array
from cautious.certificate.bounds import Witness
from cautious.checks import picked, spread_to, state_sums_of
from cautious.models.horizons import AVERAGE
from cautious.occupancy import occupancy_policy
from cautious.problem import Problem
from cautious.risks.base import Structure
from cautious.risks.transport import EXACT_STATES, FLOW_PRECISION, GraphTransport, TransportHint
from cautious.solvers.balance import balance_of
from cautious.solvers.base import Candidate, Solver, Target
from cautious.solvers.candidates import joined
from cautious.solvers.interior_point.barrier_program import Form, Kinks, TransportBlock, formulate
from cautious.solvers.interior_point.newton_directions import (
    BarrierIterate,
    Newton,
    mix,
    near_barriers,
    sides,
    step_lengths,
)
from cautious.solvers.interior_point.newton_matrix import MOST_FLOPS, System, edges_of
from cautious.solvers.interior_point.sparse_cholesky import OutOfTime
from cautious.solvers.interior_point.starting_points import KeptPoint, start
from cautious.solvers.shape import TRANSPORT_FACTOR, Shape

MAX_FEATURES, MAX_STEPS = 24, 100
# what the work is estimated by: iterations, operations per pair and iteration, operations per entry of a clique, and
# how many operations of assembly, and of dense blocks, take the time of one elsewhere
USUAL_STEPS, PAIR_WORK, ANALYSIS_WORK, ASSEMBLY_SPEED, FACTOR_SPEED = 15, 150.0, 5.0, 20.0, 50.0
# of a factor, per state
FACTOR_BYTES = 2600
# states with less than this share of the mean mass take their best paid action
MIN_RELATIVE_MASS = 1e-9
# of the way to where a variable is zero, how much is gone at most; below the last length no progress is possible
BOUNDARY_FRACTION, MIN_STEP_LENGTH = 0.995, 1e-6
# products aim at their mean times this power of what the predictor leaves of it
CENTRING_POWER = 4.0
# the flow of a transport must be proved to this share of the precision that its value needs; and how many steps are
# made for that alone
TRANSPORT_PROOF_SHARE, MAX_STEPS_FOR_TRANSPORT_PROOF = 0.7, 5
# the objective is computed again when the gap has fallen to this share, until it is below this share of the objective
REEVALUATION_GAP_RATIO, SETTLED_RELATIVE_GAP = 0.2, 0.01
# shares of the allowed gap at which a candidate is proposed, one after the other
PROPOSAL_SHARES = (0.95, 0.3, 0.03, 0.003, 0.0003)


class InteriorPoint(Solver):
    """Separable risks, transport on a graph, and their sums with a few features."""

    name = "interior point"
    every_horizon = True

    accepts = frozenset({Structure.FEATURES, Structure.ENTROPY, Structure.L1, Structure.SQUARE, Structure.TRANSPORT})

    def further_refusal(self, problem: Problem) -> str | None:
        """Takes at most one transport, on a graph, and few features; discounted for ever, or long-run averages."""
        if problem.mdp.horizon not in (None, AVERAGE):
            return "needs a problem that goes on for ever"
        transports = problem.parts.transports
        if any(not term.risk.on_graph for term in transports):
            return "needs a graph for a transport distance"
        if len(transports) > 1:
            return "takes one transport distance only"
        return f"takes at most {MAX_FEATURES} features" if problem.parts.n_features > MAX_FEATURES else None

    def work(self, problem: Problem, shape: Shape) -> float:
        """Assembly and a sparse factor in every iteration; potentials of a graph double the size of a separator."""
        flops = (TRANSPORT_FACTOR if problem.parts.transports else 1.0) * shape.factor_flops
        if flops > MOST_FLOPS:
            return np.inf
        cliques = shape.clique_work
        iteration = PAIR_WORK * shape.n_pairs + cliques.assembly / ASSEMBLY_SPEED + flops / FACTOR_SPEED
        return USUAL_STEPS * iteration + ANALYSIS_WORK * cliques.entries

    def memory(self, problem: Problem) -> int:
        """With the factor: 850 to 2,400 bytes a state were seen on grids of 10,000 to a million, 2,460 with a graph."""
        return super().memory(problem) + FACTOR_BYTES * problem.mdp.n_states

    def steps(self, problem: Problem, target: Target) -> Iterator[Candidate]:
        """One candidate when the method's own gap is small enough; more while the certificate asks for more."""
        graphs = [cast(GraphTransport, term.risk).graph for term in problem.parts.transports]
        system = target.workspace.of(
            self.name,
            lambda: System(
                balance_of(problem.mdp, problem.active), problem.active, edges_of(graphs[0]) if graphs else None
            ),
        )
        system.over = lambda: target.clock.over
        # the analysis of a large matrix takes seconds: the clock is asked before, inside and after it
        try:
            if target.clock.over or not system.affordable or target.clock.over:
                return
        except OutOfTime:
            return
        form = formulate(problem, system.balance)
        # floating-point trouble shows as numbers that are not finite: the run then ends with what it has
        yield from _run(problem, target, form, system, target.workspace.of(f"{self.name}, start", KeptPoint))


def _run(problem: Problem, target: Target, form: Form, system: System, kept: KeptPoint) -> Iterator[Candidate]:
    try:
        point: BarrierIterate | None = kept.start(form, system) or start(problem, form, system)
    except OutOfTime:
        return
    shares, best, best_gap = list(PROPOSAL_SHARES), None, np.inf
    unit, worth, known = form.scale / (problem.mdp.normaliser * form.amount), 0.0, np.inf
    steps_for_transport = 0
    for _ in range(MAX_STEPS):
        if point is None:
            break
        newton = Newton(form, system, point)
        gap = unit * own_gap(form, newton)
        # what a point is worth matters for what is allowed: now and then until it hardly changes, and at the end
        rough = known > SETTLED_RELATIVE_GAP * max(1.0, abs(worth)) and gap < REEVALUATION_GAP_RATIO * known
        if rough or gap <= 2 * shares[0] * target.allowance(worth):
            worth, known = own_objective(problem, form, newton), gap
        allowed = target.allowance(worth)
        if not np.isfinite(gap) or target.clock.over:
            break
        if gap < best_gap:
            best, best_gap = newton, gap
        if kept.wants(gap / max(1.0, abs(worth))):
            kept.keep(form, point)
        small_enough = gap <= shares[0] * allowed
        steps_for_transport += small_enough
        late = steps_for_transport > MAX_STEPS_FOR_TRANSPORT_PROOF
        if small_enough and (late or flow_is_sure(problem, form, newton)):
            yield candidate(problem, form, newton)
            shares = [share for share in shares if gap > share * allowed]
            if not shares:
                return
        try:
            point = advance(form, newton)
        except OutOfTime:
            break
    if best is not None:
        yield candidate(problem, form, best)


def _table(problem: Problem, point: BarrierIterate, form: Form) -> Array:
    return np.asarray(spread_to(problem.active, point.primal[: form.reward.size] / form.amount))


def flow_is_sure(problem: Problem, form: Form, newton: Newton) -> bool:
    """Whether flows and potentials of a transport will prove its cost, so that it needs no program of its own."""
    transport = form.transport
    if transport is None or problem.mdp.n_states <= EXACT_STATES:
        return True
    flows, against, *_ = vectors = sides(transport, newton.point.primal, newton.point.dual)
    risk = problem.parts.transports[0].risk
    unproved = float(kernels.opposed(*vectors)) / transport.weight
    cost = float(transport.edges.length @ np.abs(flows - against))
    return unproved <= TRANSPORT_PROOF_SHARE * FLOW_PRECISION * max(cost, 0.01 * risk.diameter * form.amount)


def own_objective(problem: Problem, form: Form, newton: Newton) -> float:
    """About what the point's occupancy is worth; the cost of transport is that of the point's own flows."""
    d = _table(problem, newton.point, form)
    total = problem.expected_return(d)
    for term in (*problem.parts.separable, *problem.parts.features):
        total -= term.weight * term.risk.value(d)
    if form.transport is not None:
        weight, flows = problem.terms[form.transport.term][0], newton.point.primal / form.amount
        carried = flows[form.transport.along] + flows[form.transport.against]
        total -= weight * float(form.transport.edges.length @ carried)
    return total


def own_gap(form: Form, newton: Newton) -> float:
    """What the products and the residuals say the gap is, in the method's units."""
    point, end = newton.point, form.n_free
    gap = newton.product
    opposite: list[Kinks | TransportBlock] = [*form.kinks]
    if form.transport is not None:
        opposite.append(form.transport)
    for part in opposite:
        gap += float(kernels.opposed(*sides(part, point.primal, point.dual)))
    gap += form.amount * float(kernels.excess(newton.dual_residual, newton.z))
    if form.features is not None:
        fixed, found = form.features.fixed, point.primal[end:] * point.dual[end:]
        barrier = fixed > 0
        ratio = found[barrier] / fixed[barrier]
        gap += float(np.sum(fixed[barrier] * (ratio - 1 - np.log(ratio)))) + float(found[~barrier].sum())
    return gap


def advance(form: Form, newton: Newton) -> BarrierIterate | None:
    """One predictor-corrector step; None when no progress is possible.

    A further correction (Gondzio) draws products that are far off towards the aim; as much of it is taken as lets the
    step be longest (Colombo and Gondzio). It costs a solve, not a factorisation.
    """
    point, step, other = newton.point, newton.blank("step"), newton.blank("other")
    here, wanted, rest = (
        (point.primal, point.dual),
        newton.system.room("wanted", form.size),
        (form.n_free, form.targets),
    )
    kernels.straight(*here, form.targets, wanted)
    newton.direction(wanted, other, rounds=1)
    lengths = step_lengths(form, other, 1.0)
    mean, then = kernels.mean_product(*here, other.primal, other.dual, *lengths, *rest)
    aim = min(max(then / mean, 0.0), 1.0) ** CENTRING_POWER * mean
    kernels.curved(*here, other.primal, other.dual, aim, 10 * mean, *rest, wanted)
    newton.direction(wanted, step, like=other)
    lengths = step_lengths(form, step, BOUNDARY_FRACTION)
    # steps that are long where a slope bends leave the dual equation behind
    if kernels.furthest(newton.dual_residual) <= mean:
        along, along_dual = (min(1.0, 1.5 * length + 0.3) for length in lengths)
        kernels.centred(*here, step.primal, step.dual, along, along_dual, aim, *rest, wanted)
        newton.direction(wanted, other, like=step)
        longer = mix(form, point, step, other, BOUNDARY_FRACTION)
        if sum(longer) > sum(lengths):
            step, lengths = other, longer
    if not np.isfinite(sum(lengths)) or max(lengths) < MIN_STEP_LENGTH:
        return None
    return near_barriers(form, point.moved(step, *lengths))


def candidate(problem: Problem, form: Form, newton: Newton) -> Candidate:
    """Policy, witness and state marginal of a point; states with hardly any mass take their best paid action."""
    mdp, point, balance = problem.mdp, newton.point, newton.system.balance
    occupancy = _table(problem, point, form)
    paid = spread_to(problem.active, newton.dual_residual - newton.z, -np.inf)
    greedy = problem.completed(np.eye(mdp.n_actions)[np.argmax(paid, axis=1)])
    policy = problem.completed(occupancy_policy(occupancy, greedy, MIN_RELATIVE_MASS / mdp.n_states))
    if mdp.horizon == AVERAGE:
        policy = joined(problem, policy, occupancy)
    v = np.where(problem.active_states, point.v[: mdp.n_states] * form.scale, 0.0)
    # the reward was centred: a constant reward is worth a constant
    v += balance.unit_value * float(picked(problem.reward, problem.active).mean())
    hints = (
        {} if form.transport is None else {form.transport.term: _transport_hint(problem, form.transport, form, newton)}
    )
    return Candidate(policy, Witness(v, cuts(problem, form, newton)), states=state_sums_of(occupancy), hints=hints)


def _transport_hint(problem: Problem, transport: TransportBlock, form: Form, newton: Newton) -> TransportHint:
    """Flow and potentials of the point: the transport distance may prove its value with them, without a program."""
    risk = problem.parts.transports[0].risk
    n, edges, flows = problem.mdp.n_states, transport.edges, newton.point.primal / form.amount
    net, arcs = flows[transport.along] - flows[transport.against], risk.tail * n + risk.head
    sorted_arcs, carried = np.argsort(arcs), np.zeros(arcs.size)
    for tail, head, amount in ((edges.tail, edges.head, net), (edges.head, edges.tail, -net)):
        place = sorted_arcs[np.searchsorted(arcs[sorted_arcs], tail * n + head)]
        carried[place] = np.maximum(amount, 0.0)
    return TransportHint(carried, newton.point.v[n:] / transport.weight)


def cuts(problem: Problem, form: Form, newton: Newton) -> tuple[Any, ...]:
    """What every risk's ``cut`` takes."""
    found: list[Any] = [None] * len(problem.terms)
    for term in form.smooth:
        # the quadratic's weight is per unit of amount
        weight = term.weight if term.entropic else term.weight * form.amount
        found[term.term] = term.slope(newton.entries(term.on_states)) / weight
    for kink in form.kinks:
        found[kink.term] = newton.point.dual[kink.below] / kink.weight
    if form.transport is not None:
        found[form.transport.term] = newton.point.v[problem.mdp.n_states :] / form.transport.weight
    if form.features is not None:
        for k, part, factor in form.features.terms:
            found[k] = newton.point.dual[form.features.slack][part] * factor
    return tuple(found)
