"""Until the end, undiscounted: against all deterministic policies in exact arithmetic, and other solvers."""

from fractions import Fraction

import numpy as np
import pytest
from total_by_hand import TinyModel

import cautious as ca


@pytest.mark.parametrize("block", range(10))
def test_all_deterministic_policies(block):
    seen = {"solved": 0, "refused": 0}
    for seed in range(50 * block, 50 * (block + 1)):
        model = TinyModel(seed)
        ended, mdp = model.ended(), model.mdp()
        assert set(np.flatnonzero(mdp.ended)) == ended, seed
        totals = [model.total(policy, ended) for policy in model.policies()]
        best = max((total for total in totals if total is not None), default=None)
        if best is None or model.endless(ended):
            words = "no policy comes to an end" if best is None else "has no largest value"
            with pytest.raises(ca.InputError, match=words):
                ca.Problem(mdp, horizon="total")
            seen["refused"] += 1
            continue
        solution = ca.solve(ca.Problem(mdp, horizon="total"), tolerance=1e-8)
        assert solution.status is ca.Status.SOLVED, (seed, solution.status)
        assert solution.objective == pytest.approx(float(best), rel=1e-8, abs=1e-8), seed
        assert Fraction(solution.upper_bound) >= best, seed
        assert np.all(solution.occupancy[sorted(ended)] == 0), seed
        balance = mdp.start + mdp.flow_into(solution.occupancy) - solution.occupancy.sum(axis=1)
        assert np.abs(np.delete(balance, sorted(ended))).max(initial=0.0) < 1e-9, seed
        seen["solved"] += 1
    assert min(seen.values()) > 0
