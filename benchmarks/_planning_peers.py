"""Risk-neutral packages on the same model: QuantEcon, MDPSolver and Storm, with the methods of each that do best here.

Times run from each package's own input to its answer: arrays for QuantEcon, nested lists for MDPSolver, a built model
for Storm. Making lists and models in Python is slow and says nothing about the packages, so it is left out. Each is
asked for what gives a relative gap of about 1e-6. The answer is a policy, judged by our certificate.

Storm knows no discounting: every row of P is multiplied by gamma, the rest goes to an absorbing state "dead", and the
expected reward until "dead" is maximised.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import cautious as ca
from cautious.certificate import deliver, upper_bound
from cautious.solvers.rounding import prove

PRECISION = 1e-6
MANY = 10**6
Solve = Callable[[], Any]


def quantecon(mdp: ca.MDP, method: str) -> Solve:
    """Sparse state-action formulation; policy iteration or modified policy iteration."""
    from quantecon.markov import DiscreteDP

    states = np.repeat(np.arange(mdp.n_states), mdp.n_actions)
    actions = np.tile(np.arange(mdp.n_actions), mdp.n_states)
    name = {"PI": "policy_iteration", "MPI": "modified_policy_iteration"}[method]

    def solve() -> Any:
        found = DiscreteDP(mdp.rewards.ravel(), mdp.transitions, mdp.discount, states, actions)
        return found.solve(method=name, epsilon=PRECISION, max_iter=MANY).sigma

    return solve


def mdpsolver(mdp: ca.MDP, method: str) -> Solve:
    """Modified policy iteration or value iteration, standard updates, one thread."""
    import mdpsolver as package

    rows = np.split(mdp.transitions.data, mdp.transitions.indptr[1:-1])
    columns = np.split(mdp.transitions.indices, mdp.transitions.indptr[1:-1])
    lists = [
        [[part.tolist() for part in parts[s * mdp.n_actions : (s + 1) * mdp.n_actions]] for s in range(mdp.n_states)]
        for parts in (rows, columns)
    ]
    rewards = mdp.rewards.tolist()

    def solve() -> Any:
        found = package.model()
        found.mdp(discount=mdp.discount, rewards=rewards, tranMatProbs=lists[0], tranMatColumns=lists[1])
        found.solve(algorithm=method.lower(), tolerance=PRECISION, parallel=False)
        return found.getPolicy()

    return solve


def storm(mdp: ca.MDP, method: str) -> Solve:
    """Its own choice (sound bounds, optimistic value iteration), or policy iteration."""
    import stormpy
    from stormpy import environments

    model, n_states = storm_model(mdp), mdp.n_states
    (query,) = stormpy.parse_properties('R{"r"}max=? [F "dead"]')
    environment = stormpy.Environment() if method == "PI" else environments.default(model)
    settings = environment.solver().min_max()
    if method == "PI":
        settings.method = environments.MinMaxMethod.POLICY_ITERATION
    settings.precision = stormpy.Rational(PRECISION)
    settings.relative_termination_criterion = True
    settings.maximal_number_of_iterations = MANY

    def solve() -> Any:
        found = stormpy.model_checking(model, query, extract_scheduler=True, environment=environment)
        return lambda: [found.get_scheduler().get_choice(s).get_deterministic_choice() for s in range(n_states)]

    return solve


def storm_model(mdp: ca.MDP) -> Any:
    """The model in Storm's words; state S is "dead"."""
    from stormpy import datastructures, models

    n_states, n_actions = mdp.shape
    n_rows, rows = n_states * n_actions, mdp.transitions
    ends, columns = rows.indptr.tolist(), rows.indices.tolist()
    chances = (mdp.discount * rows.data).tolist()
    builder = datastructures.SparseMatrixBuilder[float](n_rows + 1, n_states + 1, 0, True, True, n_states + 1)
    for row in range(n_rows):
        if row % n_actions == 0:
            builder.new_row_group(row)
        for k in range(ends[row], ends[row + 1]):
            builder.add_next_value(row, columns[k], chances[k])
        builder.add_next_value(row, n_states, 1 - mdp.discount)
    builder.new_row_group(n_rows)
    builder.add_next_value(n_rows, n_states, 1.0)
    labels = models.StateLabeling(n_states + 1)
    for label, state in (("init", 0), ("dead", n_states)):
        labels.add_label(label)
        labels.add_label_to_state(label, state)
    pay = [*mdp.rewards.ravel().tolist(), 0.0]
    rewards = {"r": models.SparseRewardModel[float](optional_state_action_reward_vector=pay)}
    parts = models.SparseModelComponents[float](builder.build(), labels, rewards)
    return models.SparseMdp[float](parts)


PACKAGES = {"QuantEcon": quantecon, "MDPSolver": mdpsolver, "Storm": storm}


def prepare(mdp: ca.MDP, solver: str) -> Solve:
    """The call to be timed; a tiny model is solved first, so that nothing is compiled while the clock runs."""
    package, _, method = solver.partition(" ")
    PACKAGES[package](ca.worlds.garnet(20, discount=0.5), method)()
    return PACKAGES[package](mdp, method)


def attempt(problem: ca.Problem, solve: Solve) -> tuple[dict[str, Any], Callable[[], dict[str, Any]]]:
    """Solve, timed; the judgement comes as a function, since its time is not the peer's."""
    wall, cpu = time.perf_counter(), time.process_time()
    answer = solve()
    seconds, wall_seconds = time.process_time() - cpu, time.perf_counter() - wall
    stats = {"seconds": seconds, "wall_seconds": wall_seconds, "status": "finished", "solver_seconds": seconds}
    return stats, lambda: judge(problem, answer() if callable(answer) else answer)


def judge(problem: ca.Problem, actions: Any) -> dict[str, Any]:
    """What the policy is worth, and how much better any policy could be."""
    found = deliver(problem, np.eye(problem.mdp.n_actions)[np.asarray(actions, dtype=np.int64)])
    bound = upper_bound(problem, prove(problem, (), 1e-9)[0])
    gap = (bound - found.objective) / max(1.0, abs(found.objective))
    return {"gap": gap, "objective": found.objective, "claimed": None}
