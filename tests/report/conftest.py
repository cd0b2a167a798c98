"""Solutions to draw: made once, from small worlds."""

import dataclasses

import numpy as np
import pytest

import cautious as ca


@pytest.fixture(scope="session")
def maze_problem():
    return ca.Problem(ca.worlds.maze(start_at_s=True), ca.Variance(), caution=10.0)


@pytest.fixture(scope="session")
def maze_solution(maze_problem):
    return ca.solve(maze_problem)


@pytest.fixture(scope="session")
def chain():
    """Three states with names that would break a careless page."""
    rng = np.random.default_rng(0)
    names = ["<script>alert(1)</script>", "a & b", '$x_1$ "quoted"']
    scene = ca.Scene("Depot <b>North</b>", "Trucks & 'vans'.", "day", "kEUR")
    return ca.MDP(
        rng.dirichlet(np.ones(3), size=(3, 2)),
        rng.normal(size=(3, 2, 3)),
        0.9,
        state_names=names,
        action_names=["go | stop", "<wait>"],
        scene=scene,
    )


@pytest.fixture(scope="session")
def chain_problem(chain):
    return ca.Problem(chain, ca.PeakExposure([[0], [1]]), caution=3.0)


@pytest.fixture(scope="session")
def chain_solution(chain_problem):
    return ca.solve(chain_problem)


@pytest.fixture(scope="session")
def infeasible_solution(chain_solution):
    """As the solver hands it over when requirements conflict."""
    proof = dataclasses.replace(
        chain_solution.certificate, kind="infeasible", statement="These requirements cannot be met.", gap=0.0
    )
    return dataclasses.replace(
        chain_solution,
        status=ca.Status.INFEASIBLE,
        objective=-np.inf,
        risk=np.inf,
        upper_bound=-np.inf,
        gap=0.0,
        certificate=proof,
        risk_label="SafeSet",
    )
