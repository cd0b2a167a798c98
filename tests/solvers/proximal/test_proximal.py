"""The proximal interior point alone, against CVXPY, and its Newton system against plain matrices."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
import reference
from cautious.runtime.clock import Clock
from cautious.solvers.base import Start, Target, run
from cautious.solvers.proximal.flow_system import ActivePart, Links, NewtonSystem
from cautious.solvers.proximal.layered_system import LayeredFactors, LayeredSystem
from cautious.solvers.proximal.proximal import Proximal
from cautious.solvers.proximal.proximal_newton import ProximalNewton
from cautious.solvers.proximal.response import Response
from cautious.status import Status
from random_models import random_case

KINDS = (
    ("Quadratic",),
    ("Quadratic states",),
    ("TotalVariation",),
    ("TotalVariation states",),
    ("KL states",),
    ("Wasserstein graph",),
    ("KL", "TotalVariation"),
    ("PeakExposure", "Quadratic"),
    ("SafeSet", "TotalVariation states"),
    ("TotalVariation", "TotalVariation states", "Quadratic states"),
    ("Wasserstein graph", "WorstTask"),
    ("KL states", "Entropy"),
)


def solve(problem, tolerance=1e-6, start=None):
    return run(Proximal(), problem, Target(tolerance, Clock(60.0), start=start), None)


@pytest.fixture(scope="module")
def ragged():
    """A model with forbidden pairs and a state nothing leads to, and its B as a plain matrix."""
    rng = np.random.default_rng(3)
    n, m = 9, 3
    transitions = rng.dirichlet(np.ones(n), size=(n, m))
    transitions[:, :, 4] = 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    allowed = rng.random((n, m)) < 0.7
    allowed[:, 0] = True
    start = np.full(n, 1 / (n - 1))
    start[4] = 0
    mdp = ca.MDP(transitions, rng.random((n, m)), 0.9, start, allowed=allowed)
    problem = ca.Problem(mdp, ca.Quadratic(np.full(n, 1 / n)))
    pairs, states = np.flatnonzero(problem.active), np.flatnonzero(problem.active_states)
    assert pairs.size < n * m
    assert states.size == n - 1
    own = (pairs[:, None] // m == states[None, :]).astype(float)
    return problem, 0.9 * transitions.reshape(-1, n)[pairs][:, states] - own, own


def test_part_matches_matrices(ragged):
    problem, matrix, own = ragged
    part, rng = ActivePart(problem), np.random.default_rng(0)
    v, y = rng.normal(size=part.states.size), rng.normal(size=part.pairs.size)
    assert part.price(v) == pytest.approx(matrix @ v, abs=1e-14)
    assert part.flow(y) == pytest.approx(matrix.T @ y, abs=1e-14)
    assert part.gather(y) == pytest.approx(own.T @ y, abs=1e-14)
    assert np.array_equal(part.spread(v), own @ v)


def answers_of_states(free, damp, own):
    """How pairs answer prices together with the others of their state, as a plain matrix."""
    return np.diag(free) - (free[:, None] * (own * damp) @ own.T) * free


def dense_newton(matrix, own, answers, links):
    """The Newton matrix from its definition."""
    on_nodes = np.zeros((matrix.shape[0], links.n_nodes))
    on_nodes[:, links.at] = own if links.n_nodes else 0.0
    whole = np.hstack([matrix, -on_nodes])
    found = whole.T @ answers @ whole
    for tail, head, ease in zip(links.tail, links.head, links.ease, strict=True):
        edge = np.zeros(whole.shape[1])
        edge[matrix.shape[1] + tail], edge[matrix.shape[1] + head] = 1.0, -1.0
        found += ease * np.outer(edge, edge)
    return found


@pytest.mark.parametrize("n_nodes", [0, 9])
def test_newton_system_matches_dense_solve(ragged, n_nodes):
    problem, matrix, own = ragged
    part, rng = ActivePart(problem), np.random.default_rng(1)
    free = rng.exponential(size=part.pairs.size)
    damp = rng.random(part.states.size) / part.gather(free)
    n_arcs = 20 if n_nodes else 0
    tail = rng.integers(max(n_nodes, 1), size=n_arcs)
    head = (tail + rng.integers(1, 9, size=n_arcs)) % max(n_nodes, 1)
    at = part.states if n_nodes else np.zeros(0, dtype=np.int64)
    links = Links(at, n_nodes, tail, head, rng.exponential(size=n_arcs))
    dense = dense_newton(matrix, own, answers_of_states(free, damp, own), links)
    exact = rng.normal(size=dense.shape[0])
    right = dense @ exact
    system = NewtonSystem(part, free, damp, links)
    v, f = system.solve(right[: part.states.size], right[part.states.size :], 1e-12, 500, Clock(None))
    assert dense @ np.concatenate([v, f]) == pytest.approx(right, abs=1e-9)
    assert 0 < system.steps < 200
    # a shared successor aside the diagonal is exact; without damping it always is
    plain = NewtonSystem(part, free, np.zeros_like(damp), links)
    exact = np.diag(dense_newton(matrix, own, np.diag(free), links))
    assert np.concatenate([plain.own, plain.node]) == pytest.approx(exact, rel=1e-9)


def layers(steps, discount=0.8):
    """A model with a forbidden pair over several steps: its part, B, and its sums as matrices."""
    rng, n, m = np.random.default_rng(9), 4, 3
    transitions = rng.dirichlet(np.ones(n), size=(n, m))
    transitions[1, :, 2] = 0
    transitions /= transitions.sum(axis=2, keepdims=True)
    allowed = np.ones((n, m), dtype=bool)
    allowed[2, 1] = False
    mdp = ca.MDP(transitions, rng.random((n, m)), discount, [1, 0, 0, 0], allowed=allowed)
    problem = ca.Problem(mdp, ca.KL(np.full((n, m), 1 / (n * m))), horizon=steps)
    whole = np.zeros((steps, n, m, steps, n))
    for t, s, a in np.ndindex(steps, n, m):
        whole[t, s, a, t, s] -= 1
        if t < steps - 1:
            whole[t, s, a, t + 1] += discount * transitions[s, a]
    pairs, states = np.flatnonzero(problem.active), np.flatnonzero(problem.active_states)
    matrix = whole.reshape(steps * n * m, steps * n)[pairs][:, states]
    kinds, places = pairs % (n * m), np.unique(pairs % (n * m))
    of_pair = (kinds[:, None] == places).astype(float)
    of_state = (kinds[:, None] // m == np.unique(places // m)).astype(float)
    return ActivePart(problem), matrix, of_pair, of_state


def test_layers_match_matrices():
    part, matrix, of_pair, of_state = layers(4)
    rng = np.random.default_rng(2)
    v, y = rng.normal(size=part.states.size), rng.normal(size=part.pairs.size)
    assert part.price(v) == pytest.approx(matrix @ v, abs=1e-14)
    assert part.flow(y) == pytest.approx(matrix.T @ y, abs=1e-14)
    assert part.on_pairs(y) == pytest.approx(of_pair.T @ y, abs=1e-14)
    assert part.on_states(y) == pytest.approx(of_state.T @ y, abs=1e-14)
    x = rng.normal(size=part.risk_states.size)
    assert np.array_equal(part.of_states(x), of_state @ x)
    # one unit for every pair is what the unit values pay
    assert matrix @ part.unit_value == pytest.approx(np.full(part.pairs.size, -1.0), abs=1e-12)


@pytest.mark.parametrize("bends", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("factored", [False, True])
def test_layered_system_matches_dense_solve(bends, factored):
    """The answers are the inverse Hessian, whatever bends; factors solve at once, other steps take longer."""
    part, matrix, of_pair, of_state = layers(5)
    rng = np.random.default_rng(3)
    stiffness = rng.exponential(size=part.pairs.size)
    curves = [bent * rng.exponential(size=sums.shape[1]) for bent, sums in zip(bends, (of_pair, of_state), strict=True)]
    offsets = [rng.normal(size=curve.size) for curve in curves]
    response = Response(part, stiffness, *zip(curves, offsets, strict=True))
    hessian = np.diag(stiffness) + (of_pair * curves[0]) @ of_pair.T + (of_state * curves[1]) @ of_state.T
    inverse, push = np.linalg.inv(hessian), rng.normal(size=part.pairs.size)
    wanted = inverse @ (push + of_pair @ offsets[0] + of_state @ offsets[1])
    assert response.answer(push) == pytest.approx(wanted, rel=1e-9, abs=1e-10)
    assert response.without_offsets().answer(push) == pytest.approx(inverse @ push, rel=1e-9, abs=1e-10)
    assert response.diagonal() == pytest.approx(np.diag(inverse), rel=1e-9)
    links = Links(np.zeros(0, dtype=np.int64), 0, *(np.zeros(0, dtype=np.int64),) * 2, np.zeros(0))
    system = LayeredSystem(part, response, links, LayeredFactors(part, bends) if factored else None)
    right = rng.normal(size=part.states.size)
    found, _ = system.solve(right, np.zeros(0), 1e-11, 400, Clock(None))
    assert matrix.T @ inverse @ matrix @ found == pytest.approx(right, abs=1e-9)
    assert system.steps <= (2 if factored else 60)


def test_layered_system_moves_mass_over_arcs():
    part, matrix, _, of_state = layers(3)
    rng = np.random.default_rng(4)
    stiffness, nothing = rng.exponential(size=part.pairs.size), np.zeros(part.risk_pairs.size)
    curve = rng.exponential(size=part.risk_states.size)
    response = Response(part, stiffness, (nothing, nothing), (curve, np.zeros_like(curve)))
    tail = rng.integers(4, size=8)
    head = (tail + rng.integers(1, 4, size=8)) % 4
    links = Links(part.risk_states, 4, tail, head, rng.exponential(size=8))
    inverse = np.linalg.inv(np.diag(stiffness) + (of_state * curve) @ of_state.T)
    own = np.zeros((part.pairs.size, 4))
    own[:, part.risk_states] = of_state
    dense = dense_newton(matrix, own, inverse, Links(np.arange(4), 4, tail, head, links.ease))
    right = dense @ rng.normal(size=len(dense))
    v, f = LayeredSystem(part, response, links, None).solve(right[:-4], right[-4:], 1e-10, 400, Clock(None))
    assert dense @ np.concatenate([v, f]) == pytest.approx(right, abs=1e-9)


def test_light_pairs_left_out_are_mended():
    """Most pairs are light, but not nothing: the answer solves the whole system, whatever the share left out."""
    mdp = ca.worlds.garnet(60, 4, 5, discount=0.9, seed=4)
    part, rng = ActivePart(ca.Problem(mdp, ca.Quadratic(np.full(60, 1 / 60)))), np.random.default_rng(5)
    free = np.where(np.arange(240) % 4 == 0, 1.0, 1e-6) * rng.uniform(0.5, 1.0, size=240)
    matrix = 0.9 * mdp.transitions.toarray() - np.repeat(np.eye(60), 4, axis=0)
    none, empty = np.zeros(0, dtype=np.int64), np.zeros(0)
    system = NewtonSystem(part, free, np.zeros(60), Links(none, 0, none, none, empty))
    assert system.heavy[-1].size == 60
    light = matrix.T @ (np.where(free < 1e-5, free, 0.0)[:, None] * matrix)
    assert np.abs(light @ np.ones(60)).sum() > 1e-7
    right = rng.normal(size=60)
    v, _ = system.solve(right, empty, 1e-8, 500, Clock(None))
    assert np.abs(matrix.T @ (free * (matrix @ v)) - right).sum() <= 1.1e-8


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kinds", KINDS, ids=" + ".join)
def test_matches_cvxpy(kinds, seed):
    rng = np.random.default_rng([31, KINDS.index(kinds), seed])
    case = random_case(rng, kinds, "small" if seed else "medium")
    problem = case.problem()
    if problem.trapped is not None:
        pytest.skip("an unavoidable pair has no prior")
    outcome = solve(problem)
    answer = reference.solve_convex(case.raw, case.terms, case.caution, "CLARABEL")
    size = max(1.0, abs(outcome.evaluated.objective))
    assert outcome.status is Status.SOLVED
    assert outcome.upper >= answer.proved - 1e-12 * size
    assert outcome.evaluated.objective >= answer.proved - 1e-6 * size
    assert case.objective(outcome.evaluated.policy) == pytest.approx(outcome.evaluated.objective, abs=1e-8 * size)


@pytest.mark.parametrize("discount", [0.0, 0.99, 0.9999])
@pytest.mark.parametrize("risk", [ca.TotalVariation, ca.Quadratic, ca.KL])
def test_discounts(discount, risk):
    mdp = ca.worlds.garnet(30, 3, 4, discount=discount, seed=5)
    prior = np.random.default_rng(0).dirichlet(np.ones(30))
    outcome = solve(ca.Problem(mdp, risk(prior), caution=2.0))
    assert outcome.status is Status.SOLVED


@pytest.mark.parametrize("scale", [1e-200, 1e200])
def test_rewards_of_any_size(scale):
    """The scaled problem is the same problem, so its answer is the same policy."""
    rng = np.random.default_rng(7)
    prior = rng.dirichlet(np.ones(20))
    mdp = ca.worlds.garnet(20, 3, 4, seed=2)
    policies = []
    for factor in (1.0, scale):
        scaled = ca.MDP(mdp.transitions, factor * mdp.rewards, mdp.discount)
        target = Target(1e-6, Clock(60.0), absolute=1e-6 * factor)
        found = run(Proximal(), ca.Problem(scaled, ca.Quadratic(prior), 50.0 * factor), target, None)
        assert found.gap <= 1e-6 * factor
        policies.append(found.evaluated.policy)
    assert policies[0] == pytest.approx(policies[1], abs=1e-6)


def test_warm_start_takes_fewer_steps(monkeypatch):
    mdp = ca.worlds.garnet(200, 4, 5, seed=1)
    prior = np.random.default_rng(1).dirichlet(np.ones(200))
    before = solve(ca.Problem(mdp, ca.Quadratic(prior), 100.0))
    near, taken, step = ca.Problem(mdp, ca.Quadratic(prior), 102.0), [], ProximalNewton.step
    monkeypatch.setattr(ProximalNewton, "step", lambda search, clock: (taken.append(1), step(search, clock)))
    cold = solve(near)
    n_cold = len(taken)
    warm = solve(near, start=Start(before.evaluated.policy, before.witness.multipliers))
    assert warm.status is Status.SOLVED
    assert warm.evaluated.objective == pytest.approx(cold.evaluated.objective, rel=2e-6)
    assert len(taken) - n_cold < n_cold


def test_time_limit_leaves_a_candidate():
    mdp = ca.worlds.garnet(300, 4, 5)
    problem = ca.Problem(mdp, ca.TotalVariation(np.full(300, 1 / 300)), 5.0)
    outcome = run(Proximal(), problem, Target(1e-12, Clock(1e-9)), None)
    assert outcome.status is Status.TIME_LIMIT
    assert np.isfinite(outcome.evaluated.objective)
    assert np.isfinite(outcome.upper)


def test_refuses_what_it_cannot_take():
    mdp = ca.worlds.river_swim()
    assert Proximal().refusal(ca.Problem(mdp)) == "needs a risk"
    assert "Variance" in Proximal().refusal(ca.Problem(mdp, ca.Variance()))
    graph = sp.csr_array((np.ones(5), (np.arange(5), np.arange(1, 6))), shape=(6, 6))
    one = ca.Wasserstein(np.full(6, 1 / 6), graph)
    assert Proximal().refusal(ca.Problem(mdp, one)) is None
    assert "one transport" in Proximal().refusal(ca.Problem(mdp, one + one))


def test_memory_counts_what_each_term_adds():
    mdp = ca.worlds.garnet(100, 4, 5)
    curved = Proximal().memory(ca.Problem(mdp, ca.Quadratic(np.full(100, 0.01))))
    kinked = Proximal().memory(ca.Problem(mdp, ca.TotalVariation(np.full((100, 4), 1 / 400))))
    assert 8 * 10 * 400 < curved < kinked < 4 * curved


def test_rough_steps_are_solved_more_precisely():
    """At this caution many pairs are tied: conjugate gradients that were cut short left steps that hardly moved."""
    mdp = ca.worlds.garnet(10_000)
    prior = np.full(mdp.shape, 1 / (mdp.n_states * mdp.n_actions))
    solution = ca.solve(ca.Problem(mdp, ca.TotalVariation(prior), 2.2), time_limit_seconds=60)
    assert solution.status is ca.Status.SOLVED
    assert solution.method == "proximal interior point"
