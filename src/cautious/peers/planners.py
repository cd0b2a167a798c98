"""Risk-neutral packages on the same model: QuantEcon, MDPSolver and Storm, with the methods of each that do best here.

Times run from each package's own input to its answer: arrays for QuantEcon, nested lists for MDPSolver, a built model
for Storm. Making lists and models in Python is slow and says nothing about the packages, so it is left out. Each is
asked for what gives a relative gap of about 1e-6. The answer is a policy, judged by our certificate. Where actions
differ by state, a package is given the allowed ones only.

Storm knows no discounting: every row of P is multiplied by gamma, the rest goes to an absorbing state "dead", and the
expected reward until "dead" is maximised. Its rewards are shifted to start at zero, which no policy can notice.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from cautious.arrays import Indices
from cautious.certificate.bounds import upper_bound
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.models.tabular import MDP
from cautious.peers.timing import Attempt, judged, timed
from cautious.problem import Problem
from cautious.solvers.candidates import prove
from cautious.worlds.random_models import garnet

RELATIVE_PRECISION = 1e-6
PROOF_TOLERANCE = 1e-9
MAX_ITERATIONS = 10**6
# gives the action of every state, or a function that does
Solve = Callable[[], Any]


class AllowedPairs:
    """The allowed pairs of a model in the order of its rows, as packages with ragged actions count them."""

    def __init__(self, mdp: MDP) -> None:
        self.states, self.actions = (axis.astype(np.int64) for axis in np.nonzero(mdp.allowed))
        every = bool(mdp.allowed.all())
        self.rows = mdp.transitions if every else mdp.transitions[np.flatnonzero(mdp.allowed.ravel())]
        self.rewards = mdp.rewards[self.states, self.actions]
        counts = mdp.allowed.sum(axis=1)
        self.first = np.concatenate([[0], np.cumsum(counts)])

    def action(self, numbers: Any) -> Indices:
        """The action of every state, from its number among the allowed ones."""
        return np.asarray(self.actions[self.first[:-1] + np.asarray(numbers, dtype=np.int64)])


def quantecon(mdp: MDP, method: str) -> Solve:
    """Sparse state-action formulation; policy iteration, modified policy iteration or value iteration."""
    from quantecon.markov import DiscreteDP

    given = AllowedPairs(mdp)
    name = {"PI": "policy_iteration", "MPI": "modified_policy_iteration", "VI": "value_iteration"}[method]

    def solve() -> Any:
        found = DiscreteDP(given.rewards, given.rows, mdp.discount, given.states, given.actions)
        return found.solve(method=name, epsilon=RELATIVE_PRECISION, max_iter=MAX_ITERATIONS).sigma

    return solve


def mdpsolver(mdp: MDP, method: str) -> Solve:
    """Modified policy iteration or value iteration, standard updates, one thread."""
    import mdpsolver as package

    given = AllowedPairs(mdp)

    def nested(items: list[Any]) -> list[list[Any]]:
        return [items[low:high] for low, high in zip(given.first[:-1], given.first[1:], strict=True)]

    ends = given.rows.indptr[1:-1]
    chances, columns = (
        nested([part.tolist() for part in np.split(array, ends)]) for array in (given.rows.data, given.rows.indices)
    )
    rewards = nested(given.rewards.tolist())

    def solve() -> Any:
        found = package.model()
        found.mdp(discount=mdp.discount, rewards=rewards, tranMatProbs=chances, tranMatColumns=columns)
        found.solve(algorithm=method.lower(), tolerance=RELATIVE_PRECISION, parallel=False)
        return given.action(found.getPolicy())

    return solve


def storm(mdp: MDP, method: str) -> Solve:
    """Its own choice (sound bounds, optimistic value iteration), or policy iteration."""
    import stormpy
    from stormpy import environments

    given, n_states = AllowedPairs(mdp), mdp.n_states
    model = storm_model(mdp, given)
    (query,) = stormpy.parse_properties('R{"r"}max=? [F "dead"]')
    environment = stormpy.Environment() if method == "PI" else environments.default(model)
    settings = environment.solver().min_max()
    if method == "PI":
        settings.method = environments.MinMaxMethod.POLICY_ITERATION
    settings.precision = stormpy.Rational(RELATIVE_PRECISION)
    settings.relative_termination_criterion = True
    settings.maximal_number_of_iterations = MAX_ITERATIONS

    def solve() -> Any:
        found = stormpy.model_checking(model, query, extract_scheduler=True, environment=environment)
        choice = found.get_scheduler().get_choice
        return lambda: given.action([choice(s).get_deterministic_choice() for s in range(n_states)])

    return solve


def storm_model(mdp: MDP, given: AllowedPairs) -> Any:
    """The model in Storm's words; state S is "dead"."""
    from stormpy import datastructures, models

    n_states, n_rows, rows = mdp.n_states, given.states.size, given.rows
    ends, columns = rows.indptr.tolist(), rows.indices.tolist()
    chances = (mdp.discount * rows.data).tolist()
    builder = datastructures.SparseMatrixBuilder[float](n_rows + 1, n_states + 1, 0, True, True, n_states + 1)
    first = set(given.first.tolist())
    for row in range(n_rows):
        if row in first:
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
    pay = [*(given.rewards - min(0.0, float(given.rewards.min()))).tolist(), 0.0]
    rewards = {"r": models.SparseRewardModel[float](optional_state_action_reward_vector=pay)}
    parts = models.SparseModelComponents[float](builder.build(), labels, rewards)
    return models.SparseMdp[float](parts)


PACKAGES = {"QuantEcon": quantecon, "MDPSolver": mdpsolver, "Storm": storm}


def prepare(mdp: MDP, solver: str) -> Solve:
    """The call to be timed; a tiny model is solved first, so that nothing is compiled while the clock runs."""
    package, _, method = solver.partition(" ")
    PACKAGES[package](garnet(20, discount=0.5), method)()
    return PACKAGES[package](mdp, method)


def attempt(problem: Problem, solve: Solve) -> Attempt:
    """Solve, timed; the judgement comes as a function, since its time is not the peer's."""
    answer, stats = timed(solve)
    stats |= {"status": "finished", "solver_seconds": stats["seconds"]}
    return stats, lambda: judge(problem, answer() if callable(answer) else answer)


def judge(problem: Problem, actions: Any) -> dict[str, Any]:
    """What the policy is worth, and how much better any policy could be."""
    found = evaluate_policy(problem, np.eye(problem.mdp.n_actions)[np.asarray(actions, dtype=np.int64)])
    return judged(found, upper_bound(problem, prove(problem, (), PROOF_TOLERANCE)[0]))
