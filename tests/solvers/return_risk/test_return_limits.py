"""Limits on risks of the return, against all policies on the tree of histories and mixtures of these."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from all_histories import all_distributions, as_mdp, random_tiny, risk_of
from typer.testing import CliRunner

import cautious as ca
from cautious.cli import app

KINDS = [ca.ReturnVariance(), ca.ReturnCVaR(0.75), ca.ReturnEntropic(1.0), ca.ReturnBelow(0.5), ca.ReturnEVaR(0.5)]


def mean_of(distribution):
    return sum(chance * earned for earned, chance in distribution)


def mixed(one, other, share):
    """The distribution of who plays one policy with this chance, and the other otherwise."""
    found = {}
    for distribution, weight in ((one, share), (other, 1 - share)):
        for earned, chance in distribution:
            found[earned] = found.get(earned, 0) + weight * chance
    return tuple(sorted(found.items()))


def check(risk, seed):
    rng = np.random.default_rng([seed, 13])
    parts = random_tiny(rng)
    distributions = sorted(all_distributions(*parts[:3], min(parts[3], 2), 0), key=mean_of)
    risks = [float(risk_of(risk, one)) for one in distributions]
    bound = min(risks) + float(rng.uniform(-0.2, 1.1)) * (max(risks) - min(risks)) + 1e-3
    problem = ca.Problem(as_mdp(*parts[:3]), constraints=[risk <= bound], horizon=min(parts[3], 2))
    solution = ca.solve(problem, tolerance=1e-3, time_limit_seconds=60)
    kept = [one for one, value in zip(distributions, risks, strict=True) if value <= bound]
    (row,) = solution.constraints
    assert row.name == repr(risk <= bound)
    assert row.bound == bound
    if solution.status is ca.Status.INFEASIBLE:
        assert not kept
        assert solution.certificate.facts["best_reachable"] <= min(risks) + 1e-9
        assert solution.certificate.facts["best_reachable"] > bound
        return solution, 0.0
    if not np.isfinite(solution.objective):
        return solution, math.inf
    assert row.value <= bound
    best = max(float(mean_of(one)) for one in kept)
    # nobody who keeps the limit earns more than the bound, also not by drawing one of two policies at the start
    for one, other in itertools.combinations(distributions[-6:], 2):
        for share in (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4)):
            both = mixed(one, other, share)
            if float(risk_of(risk, both)) <= bound:
                best = max(best, float(mean_of(both)))
    assert solution.upper_bound >= best - 1e-9
    # what is delivered is one of them, and its risk is no larger than it is said to be
    assert any(
        abs(float(mean_of(one)) - solution.expected_return) < 1e-9
        and float(risk_of(risk, one)) <= row.value + (1e-3 if isinstance(risk, ca.ReturnEVaR) else 1e-9)
        for one in distributions
    )
    # at its price one more unit of room is worth no more than the bound says
    assert row.price >= 0
    return solution, best - solution.objective


@pytest.mark.parametrize("risk", KINDS, ids=lambda risk: risk.label)
@pytest.mark.parametrize("seed", range(5))
def test_no_policy_that_keeps_the_limit_is_above_the_bound(risk, seed):
    check(risk, seed)


@pytest.mark.slow
@pytest.mark.parametrize("risk", KINDS, ids=lambda risk: risk.label)
def test_many_limits(risk):
    # every price of EVaR is a search over rates
    for seed in range(100, 112 if isinstance(risk, ca.ReturnEVaR) else 160):
        check(risk, seed)


def coin():
    """A fair coin for 0 or 2 against 0.8 for certain."""
    return ca.MDP(np.full((2, 2, 2), 0.5), np.array([[[0.0, 2.0], [0.8, 0.8]]] * 2), 1.0, start=np.array([1.0, 0.0]))


def test_one_step_is_known_in_closed_form():
    def found(constraint):
        return ca.solve(ca.Problem(coin(), constraints=[constraint], horizon=1))

    free = found(ca.ReturnVariance() <= 1.5)
    assert free.status is ca.Status.SOLVED
    assert free.objective == pytest.approx(1.0)
    assert free.constraints[0].price == 0
    tight = found(ca.ReturnVariance() <= 0.5)
    assert tight.objective == pytest.approx(0.8)
    assert tight.constraints[0].value == pytest.approx(0.0, abs=1e-12)
    # mixtures of both at the start can earn up to 0.8 + 0.2 p with variance p + 0.04 p (1 - p) <= 0.5
    assert 0.8 + 0.2 * 0.48 <= tight.upper_bound <= 1.0
    none = found(ca.ReturnCVaR(0.75) <= -0.9)
    assert none.status is ca.Status.INFEASIBLE
    assert none.certificate.facts["best_reachable"] == pytest.approx(-0.8, abs=1e-3)
    assert none.constraints[0].price == math.inf
    assert "cannot be kept" in none.certificate.statement


def test_what_a_limit_cannot_be_combined_with():
    swim, limit = ca.worlds.river_swim(discount=0.5), ca.ReturnCVaR(0.9) <= 0.0
    for constraints, risk in [
        ([limit, ca.Exposure([0]) <= 0.5], None),
        ([limit, ca.ReturnVariance() <= 1.0], None),
        ([limit], ca.Variance()),
        ([limit], ca.ReturnVariance()),
    ]:
        with pytest.raises(ca.IncompatibleError, match="cannot be combined with"):
            ca.Problem(swim, risk, constraints=constraints)
    with pytest.raises(ca.IncompatibleError, match="on that risk alone"):
        ca.Problem(swim, constraints=[ca.ReturnCVaR(0.9) + ca.Variance() <= 0.0])
    with pytest.raises(ca.IncompatibleError, match="no episode ends"):
        ca.Problem(ca.worlds.river_swim(discount=1.0), constraints=[limit], horizon="average")
    with pytest.raises(ca.InputError, match="level"):
        ca.Problem(swim, constraints=[ca.ReturnCVaR(1.0) <= 0.0])
    problem = ca.Problem(swim, constraints=[limit])
    for flags in ({"deterministic": True}, {"memory": False}):
        with pytest.raises(ca.IncompatibleError, match="leave out deterministic and memory"):
            ca.solve(problem, **flags)
    with pytest.raises(ca.InputError, match="give limits="):
        ca.frontier(swim, constraints=[limit])
    with pytest.raises(ca.IncompatibleError, match="cannot be verified"):
        ca.verify(ca.solve(problem, tolerance=0.1))


def test_a_limit_along_its_bounds_and_on_the_command_line(tmp_path):
    swim = ca.worlds.river_swim(discount=0.5)
    points = ca.frontier(swim, constraints=[ca.ReturnVariance() <= 0], limits=[0.001, 0.01, 1.0], tolerance=1e-2)
    returns = [row["expected_return"] for row in points.table()]
    assert returns == sorted(returns)
    assert [row["value"] <= row["limit"] for row in points.table()] == [True] * 3
    file = str(tmp_path / "limited.npz")
    asked = ["river_swim", "--risk", "none", "--limit", "return-cvar:0.9<=0", "--horizon", "6", "--out", file]
    told = json.loads(CliRunner().invoke(app, ["solve", *asked, "--tolerance", "1e-2", "--json"]).stdout)
    again = ca.load(file)
    assert again.expected_return == told["expected_return"]
    assert again.constraints[0].value <= 0
