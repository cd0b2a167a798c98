"""Solutions to draw: made once, from small worlds."""

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
def infeasible_solution(chain):
    """A safe set that no policy can stay in for so long."""
    solution = ca.solve(ca.Problem(chain, ca.SafeSet([0], slack=0.01), caution=1.0))
    assert solution.status is ca.Status.INFEASIBLE
    return solution
