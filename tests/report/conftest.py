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


@pytest.fixture(scope="session")
def pump():
    """A pump as its owner would write it down: no map, names of their own, two dangers."""
    outcomes = {
        ("new", "run"): {"new": 0.7, "used": 0.3},
        ("new", "service"): {"new": 0.9, "used": 0.1},
        ("used", "run"): {"used": 0.8, "worn": 0.19, "broken": 0.01},
        ("used", "service"): {"new": 0.3, "used": 0.7},
        ("used", "replace"): {"new": 1.0},
        ("worn", "run"): {"worn": 0.5, "leaking": 0.4, "broken": 0.1},
        ("worn", "service"): {"used": 0.4, "worn": 0.6},
        ("worn", "replace"): {"new": 1.0},
        ("leaking", "run"): {"leaking": 0.5, "broken": 0.5},
        ("leaking", "service"): {"worn": 0.3, "leaking": 0.7},
        ("leaking", "replace"): {"new": 1.0},
        ("broken", "replace"): {"new": 1.0},
    }
    paid = {
        "run": {"new": 900, "used": 850, "worn": 800, "leaking": 500},
        "service": {"new": 700, "used": 100, "worn": 50},
    }
    states, actions = ("new", "used", "worn", "leaking", "broken"), ("run", "service", "replace")
    transitions, rewards = np.zeros((5, 3, 5)), np.zeros((5, 3, 5))
    for (state, action), chances in outcomes.items():
        for after, chance in chances.items():
            place = states.index(state), actions.index(action), states.index(after)
            transitions[place] = chance
            earned = -1500 if action == "replace" else paid[action].get(state, 0)
            rewards[place] = -2000 if after == "broken" else earned
    return ca.MDP(
        transitions,
        rewards,
        0.99,
        [1, 0, 0, 0, 0],
        allowed=transitions.sum(axis=2) > 0,
        state_names=states,
        action_names=actions,
    )
