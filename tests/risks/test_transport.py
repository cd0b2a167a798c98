"""Cheapest plans and flows against linear programming, and solves with them."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.sparse.csgraph import dijkstra

import cautious as ca
from cautious.risks import network_simplex
from cautious.risks.graph_flow import spanning_tree
from cautious.risks.network_simplex import cheapest_flow, cheapest_plan


def exact_cost(distance, x, q):
    n, m = distance.shape
    rows = sp.vstack([sp.kron(sp.eye_array(n), np.ones((1, m))), sp.kron(np.ones((1, n)), sp.eye_array(m))])
    found = linprog(distance.ravel(), A_eq=sp.csr_array(rows), b_eq=np.concatenate([x, q]), method="highs-ds")
    assert found.status == 0
    return found.fun


def proved_below(distance, x, q, potentials):
    return potentials @ x - q @ (potentials[:, None] - distance).max(axis=0)


def random_case(seed):
    """Distances with ties, without a triangle inequality, or of points; marginals with and without zeros."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 13))
    points = rng.random((n, 2))
    distance = [
        rng.random((n, n)),
        rng.integers(0, 4, (n, n)).astype(float),
        np.linalg.norm(points[:, None] - points[None], axis=-1),
    ][seed % 3]
    x, q = rng.dirichlet(np.full(n, 0.3)), rng.dirichlet(np.ones(n))
    if seed % 4 == 0:
        x, q = np.where(x < 0.1, 0.0, x), np.where(q < 0.05, 0.0, q)
        x, q = x / x.sum(), q / q.sum() if q.any() else np.full(n, 1 / n)
    return distance, x, q


@pytest.mark.parametrize("seed", range(40))
def test_cheapest_plan_is_the_linear_program(seed):
    distance, x, q = random_case(seed)
    cost, potentials = cheapest_plan(distance, x, q)
    assert_allclose(cost, exact_cost(distance, x, q), atol=1e-12)
    assert_allclose(proved_below(distance, x, q, potentials), cost, atol=1e-13)


def test_equal_marginals_move_nothing():
    distance, x, _ = random_case(2)
    distance = distance + distance.T
    np.fill_diagonal(distance, 0.0)
    assert cheapest_plan(distance, x, x)[0] <= 1e-16


def random_graph(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 25))
    weights = np.triu(rng.random((n, n)) * (rng.random((n, n)) < 0.2), 1)
    weights[np.arange(n - 1), np.arange(1, n)] = 1.0 + (seed % 2) * rng.random(n - 1)
    graph = sp.csr_array(weights + weights.T)
    return graph, rng.dirichlet(np.full(n, 0.5)), rng.dirichlet(np.ones(n))


@pytest.mark.parametrize("seed", range(20))
def test_cheapest_flow_is_the_plan_over_shortest_paths(seed):
    graph, x, q = random_graph(seed)
    distance, edges = dijkstra(graph), sp.coo_array(graph)
    arcs = edges.row.astype(np.int64), edges.col.astype(np.int64), edges.data
    cost, potentials = cheapest_flow(*arcs, spanning_tree(graph), x - q)
    assert_allclose(cost, exact_cost(distance, x, q), atol=1e-12)
    assert_allclose(proved_below(distance, x, q, potentials), cost, atol=1e-12)


def test_when_time_is_up_the_plan_is_merely_possible(monkeypatch):
    monkeypatch.setattr(network_simplex, "CLOCK_CHECK_NODES", 1)
    rng = np.random.default_rng(0)
    distance, x, q = rng.random((30, 30)), rng.dirichlet(np.ones(30)), rng.dirichlet(np.ones(30))
    exact = exact_cost(distance, x, q)
    cost, potentials = cheapest_plan(distance, x, q, over=lambda: True)
    assert cost > exact + 0.1
    assert proved_below(distance, x, q, potentials) <= exact + 1e-12
    # without a limit, small budgets only mean more looks at the clock
    assert_allclose(cheapest_plan(distance, x, q)[0], exact, atol=1e-12)


@pytest.mark.parametrize("kind", ["plan", "flow"])
def test_exchanges_without_end_count_only_with_a_proof(monkeypatch, kind):
    """After the last round the plan at hand is proved to be the cheapest, or refused."""
    graph, x, q = random_graph(7)
    distance, edges = dijkstra(graph), sp.coo_array(graph)

    arcs = edges.row.astype(np.int64), edges.col.astype(np.int64), edges.data

    def ship(**options):
        if kind == "plan":
            return cheapest_plan(distance, x, q, **options)[0]
        return cheapest_flow(*arcs, spanning_tree(graph), x - q, **options)[0]

    exact = exact_cost(distance, x, q)
    improve = getattr(network_simplex.kernels, f"improve_{kind}")
    monkeypatch.setattr(network_simplex, "MAX_ROUNDS", 1)
    monkeypatch.setattr(network_simplex.kernels, f"improve_{kind}", lambda *given: improve(*given) and False)
    assert_allclose(ship(), exact, atol=1e-12)
    monkeypatch.setattr(network_simplex.kernels, f"improve_{kind}", lambda *given: False)
    with pytest.raises(ca.SolveError, match="the cheapest transport was not found in 1 rounds"):
        ship()
    # when time is up, what is merely possible is an upper bound
    assert ship(over=lambda: True) > exact + 1e-3


def test_values_are_the_same_whatever_was_asked_before(monkeypatch):
    monkeypatch.setattr(network_simplex, "CLOCK_CHECK_NODES", 1)
    rng = np.random.default_rng(0)
    mdp = ca.worlds.garnet(30, seed=1)
    distance, prior = rng.random((30, 30)), rng.dirichlet(np.ones(30))
    distance = distance + distance.T + 1.0
    np.fill_diagonal(distance, 0.0)
    risk = ca.Wasserstein(prior, distance).bind(mdp)
    d = rng.dirichlet(np.ones(mdp.allowed.size)).reshape(mdp.shape)
    hurried = risk.value_and_gradient(d, over=lambda: True)[0]
    exact = exact_cost(distance, d.sum(axis=1), prior)
    assert hurried > exact + 0.1
    assert_allclose(risk.value(d), exact, atol=1e-12)


def test_a_distance_of_many_states_needs_no_patience():
    rng = np.random.default_rng(1)
    points = rng.random((600, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=-1)
    x, q = rng.dirichlet(np.ones(600)), rng.dirichlet(np.ones(600))
    cost, potentials = cheapest_plan(distance, x, q)
    assert_allclose(proved_below(distance, x, q, potentials), cost, rtol=1e-12)


@pytest.mark.parametrize("caution", [1e-6, 1.0, 1e4])
def test_a_matrix_and_its_graph_are_the_same_problem(caution):
    mdp = ca.worlds.garnet(20, n_actions=3, n_successors=3, discount=0.9, seed=2)
    ring = np.arange(20)
    graph = sp.csr_array((1.0 + ring % 3, (ring, (ring + 1) % 20)), shape=(20, 20))
    prior = np.random.default_rng(0).dirichlet(np.ones(20))
    by_graph = ca.solve(ca.Problem(mdp, ca.Wasserstein(prior, graph), caution)).require()
    distances = dijkstra(graph, directed=False)
    by_matrix = ca.solve(ca.Problem(mdp, ca.Wasserstein(prior, distances), caution)).require()
    assert by_matrix.method == "dense transport"
    assert_allclose(by_matrix.objective, by_graph.objective, rtol=2e-6, atol=2e-6)


def test_a_long_path_ends():
    """Potentials add up over 3,000 arcs; their rounding once made arcs of the tree look worth an exchange, for ever."""
    n_states, rng = 3000, np.random.default_rng(0)
    lengths = rng.random(n_states - 1) + 0.01
    path = sp.csr_array(sp.diags_array([lengths, lengths], offsets=[1, -1]))
    mdp = ca.MDP(sp.csr_array(sp.eye_array(n_states)), np.zeros((n_states, 1)), 0.5)
    d, prior = rng.dirichlet(np.ones(n_states)), rng.dirichlet(np.ones(n_states))
    value = ca.Wasserstein(prior, path).bind(mdp).value(d[:, None])
    assert value == pytest.approx(np.abs(np.cumsum(d - prior)[:-1]) @ lengths, rel=1e-9)
