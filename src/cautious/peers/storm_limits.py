"""Storm's multi-objective engine on linear limits: the best return that keeps them, without a policy.

    multi( R{"r"}max=? [F "dead"],  R{"limit0"}<=b0 [F "dead"], ... )

Discounting is an end: every row of P is multiplied by gamma, and the rest goes to "dead". Until an end, "dead" are the
states that have ended. Each row of a limit is a reward structure of its own, with the bound on expected sums, and the
start is a state before all others. Storm gives no scheduler for such a query, so its answer is a number that is shown
as a claim. Its precision is absolute.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.models.horizons import TOTAL
from cautious.models.tabular import MDP
from cautious.peers.planners import RELATIVE_PRECISION, AllowedPairs
from cautious.peers.timing import NO_ANSWER, Attempt, timed
from cautious.problem import Problem

# of what is computed inside, beside what is asked for
INNER_PRECISION_SHARE = 1e-2


class LimitedModel:
    """A problem with linear limits as Storm's model and query; states follow the one that begins."""

    def __init__(self, problem: Problem) -> None:
        import stormpy
        from stormpy import models

        mdp, given = problem.mdp, AllowedPairs(problem.mdp)
        rows = list(limit_rows(problem))
        pairs = given.states * mdp.n_actions + given.actions
        paid = {"r": given.rewards, **{f"limit{number}": row[pairs] for number, (row, _, _) in enumerate(rows)}}
        ended = mdp.ended if mdp.horizon == TOTAL else np.zeros(mdp.n_states, np.bool_)
        structures = {
            name: models.SparseRewardModel[float](optional_state_action_reward_vector=[0.0, *column.tolist(), 0.0])
            for name, column in paid.items()
        }
        labels = models.StateLabeling(mdp.n_states + 2)
        for label, states in (("init", [0]), ("dead", [*(1 + np.flatnonzero(ended)).tolist(), mdp.n_states + 1])):
            labels.add_label(label)
            for state in states:
                labels.add_label_to_state(label, state)
        parts = models.SparseModelComponents[float](transition_matrix(mdp, given), labels, structures)
        self.model = models.SparseMdp[float](parts)
        asked = ['R{"r"}max=? [F "dead"]']
        asked += [f'R{{"limit{k}"}}{sense}{bound!r} [F "dead"]' for k, (_, sense, bound) in enumerate(rows)]
        (self.query,) = stormpy.parse_properties(f"multi({', '.join(asked)})")
        self.environment = stormpy.Environment()
        self.environment.modelchecker().multi().precision = stormpy.Rational(RELATIVE_PRECISION)
        self.environment.solver().min_max().precision = stormpy.Rational(INNER_PRECISION_SHARE * RELATIVE_PRECISION)

    def value(self) -> float | None:
        """The best return that keeps every limit; None if none does."""
        import stormpy

        found = stormpy.model_checking(self.model, self.query, environment=self.environment)
        return float(found.get_value(0)) if found.is_quantitative() else None


def limit_rows(problem: Problem) -> Iterator[tuple[Array, str, float]]:
    """Every row of the limits as it was written: numbers of the pairs (S*A,), the sense, and the bound on their sum."""
    for limit in problem.limits:
        assert limit.rows is not None
        for row in limit.rows.features.toarray():
            yield limit.sign * row, "<=" if limit.sign > 0 else ">=", limit.sign * limit.bound / problem.mdp.normaliser


def transition_matrix(mdp: MDP, given: AllowedPairs) -> Any:
    """The rows of the model between one of the start and one of "dead"."""
    from stormpy import datastructures

    n_rows, dead, rows = given.states.size, mdp.n_states + 1, given.rows
    builder = datastructures.SparseMatrixBuilder[float](n_rows + 2, dead + 1, 0, True, True, dead + 1)
    builder.new_row_group(0)
    for state in np.flatnonzero(mdp.start).tolist():
        builder.add_next_value(0, 1 + state, float(mdp.start[state]))
    first, ends, columns = set(given.first.tolist()), rows.indptr.tolist(), (1 + rows.indices).tolist()
    chances = (mdp.discount * rows.data).tolist()
    for row in range(n_rows):
        if row in first:
            builder.new_row_group(1 + row)
        for k in range(ends[row], ends[row + 1]):
            builder.add_next_value(1 + row, columns[k], chances[k])
        if mdp.discount < 1:
            builder.add_next_value(1 + row, dead, 1 - mdp.discount)
    builder.new_row_group(1 + n_rows)
    builder.add_next_value(1 + n_rows, dead, 1.0)
    return builder.build()


def attempt(problem: Problem, model: LimitedModel) -> Attempt:
    """Ask, timed; there is no policy to judge."""
    claimed, stats = timed(model.value)
    stats |= {"status": "infeasible" if claimed is None else "value only", "solver_seconds": stats["seconds"]}
    return stats, lambda: NO_ANSWER | {"claimed": claimed}
