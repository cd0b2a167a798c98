"""A time limit ends a search over targets wherever it is: while steps are counted, and while grids are laid out."""

import numpy as np
import pytest

import cautious as ca
from cautious.returns.plain import PlainPolicy
from cautious.solvers.return_risk import search
from cautious.solvers.return_risk.search import Search


@pytest.mark.parametrize("risk", [ca.ReturnCVaR(0.999999), ca.ReturnVariance()])
def test_no_grids_are_laid_out_when_time_is_over(risk, monkeypatch):
    """Thousands of steps until the end, which used to be laid out again and again, ever more coarsely."""
    transitions = np.array([[[0.999, 0.001], [0.998, 0.002]], [[0.0, 1.0], [0.0, 1.0]]])
    mdp = ca.MDP(transitions, [[1e3, 7.0], [0.0, 0.0]], 1.0)
    laid_out = []

    def counted(*given, **named):
        laid_out.append(1)
        return grids(*given, **named)

    grids = search.target_grids
    monkeypatch.setattr(search, "target_grids", counted)
    # over from the first grids on
    begin = Search.__init__
    monkeypatch.setattr(
        Search,
        "__init__",
        lambda self, earnings, objective, over, *more: begin(
            self, earnings, objective, lambda: over() or bool(laid_out), *more
        ),
    )
    monkeypatch.setattr(Search, "_affordable", lambda *_: False)
    solution = ca.solve(ca.Problem(mdp, risk, 1.0, horizon="total"), time_limit_seconds=20)
    assert len(laid_out) <= 1
    assert solution.status is not ca.Status.SOLVED


@pytest.mark.parametrize("risk", [ca.ReturnCVaR(0.9), ca.ReturnEVaR(0.9), ca.ReturnEntropic(0.5), ca.ReturnBelow(1.0)])
def test_when_time_is_over_what_is_known_of_a_policy_must_do(risk):
    """A distribution with 20,000 steps takes a second, and some risks looked at twenty of them for every policy."""
    played, calls = PlainPolicy(ca.worlds.river_swim(), np.full((6, 2), 0.5)), []

    def followed(*given):
        calls.append(given)
        return played.followed(*given)

    low, high, _ = risk.of(followed, lambda: True)
    assert len(calls) <= 2
    closely = risk.of(played.followed)
    assert low <= closely[1] + 1e-9
    assert high >= closely[0] - 1e-9
    assert np.isfinite(high)
