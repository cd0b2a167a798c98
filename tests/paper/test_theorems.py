import csv
import io
import itertools
from dataclasses import replace

import numpy as np
import pytest

import cautious as ca
from cautious.paper import theorem_claims as claims
from cautious.paper import theorems
from cautious.paper.duality_gap import (
    GapCurve,
    Instance,
    begin,
    curve,
    divergence_of,
    gap_of,
    measure,
    violation_of,
    with_optimum,
)
from cautious.paper.evidence import QUICK, Scale
from cautious.paper.theorem_study import (
    Growth,
    crossing,
    gap_against_horizon,
    jackknife,
    peak_problem,
    samples_needed,
    slope,
)
from cautious.report.canvas import DARK, LIGHT, png
from cautious.sweeps.statistics import Interval


def two_states(low=-1.0, high=2.0):
    transitions = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.3, 0.7]]])
    rewards = np.array([[low, 0.25], [high, 0.5]])
    return ca.MDP(transitions, rewards, 0.6, [0.25, 0.75])


def lagrangian(problem, v, d):
    """L(v, lam) from its definition, term by term, with lam = d / (1 - gamma)."""
    mdp, lam = problem.mdp, d / (1 - problem.mdp.discount)
    total = float(mdp.start @ v) - problem.caution * problem.risk_value(d)
    rows = mdp.transitions.toarray().reshape(2, 2, 2)
    for s, a in itertools.product(range(2), range(2)):
        total += lam[s, a] * (mdp.rewards[s, a] + mdp.discount * rows[s, a] @ v - v[s])
    return total


@pytest.mark.parametrize("caution", [0.0, 0.7])
def test_the_gap_is_that_of_the_lagrangian_over_the_corners_of_the_box(caution):
    problem = ca.Problem(two_states(), ca.KL(np.full((2, 2), 0.25)), caution)
    instance, box = with_optimum("two states", problem), 3.7
    rng = np.random.default_rng(1)
    for average in rng.dirichlet(np.ones(4), 5).reshape(5, 2, 2):
        lowest = min(lagrangian(problem, np.array(v), average) for v in itertools.product((-box, box), repeat=2))
        at_optimum = lagrangian(problem, rng.uniform(-box, box, 2), instance.optimum)
        assert gap_of(instance, average, box) == pytest.approx(at_optimum - lowest, rel=1e-6)


def test_the_bounds_are_the_printed_ones_times_the_range_of_rewards():
    """Appendix B, term by term, for rewards in [-1, 2] and a KL of known sigma."""
    problem, samples = ca.Problem(two_states(), ca.KL(np.full((2, 2), 0.25)), 0.9), 500
    found = measure(with_optimum("two states", problem), samples, seed=0)
    gamma, n_states, pairs, width = 0.6, 2, 4, 3.0
    steepest = abs(1 + np.log(1e-15) - np.log(0.25))
    c_sigma = 0.9 / width * (1 - gamma) * steepest
    log, rest, size = np.log(pairs), 1 - gamma, 1 + c_sigma
    beta = rest / size * np.sqrt(log / (samples * pairs))
    alpha = np.sqrt(n_states / samples) * size
    t1 = log / (samples * rest * beta)
    t2 = 4 * beta * c_sigma**2 / rest + 128 * beta * pairs * size**2 / rest**3
    t4 = 8 * n_states * size**2 / (samples * alpha * rest**2)
    t5 = 27 * alpha / (2 * rest**2)
    t6 = 3 * np.sqrt(3 * n_states) * size / (np.sqrt(samples) * rest**2)
    epsilon = t1 + t2 + t4 + t5 + t6
    assert found["bound"] == pytest.approx(width * epsilon, rel=1e-9)
    assert found["violation_bound"] == pytest.approx(rest * epsilon / size, rel=1e-9)
    assert found["divergence_bound"] == pytest.approx(width * epsilon / 0.9, rel=1e-9)


def test_what_is_measured_is_the_average_of_the_run():
    problem = ca.Problem(two_states(), None)
    instance, run = with_optimum("two states", problem), begin(problem, 400, 3)
    while not run.done:
        run.advance()
    average, found = run.occupancy, measure(instance, 400, 3)
    lam = average / 0.4
    rows = problem.mdp.transitions.toarray().reshape(2, 2, 2)
    flow = lam.sum(axis=1) - 0.6 * np.einsum("sa,sat->t", lam, rows) - problem.mdp.start
    assert found["violation"] == pytest.approx(np.abs(flow).sum())
    assert found["violation"] == violation_of(problem, average)
    assert found["suboptimality"] == pytest.approx(instance.best - np.sum(lam * problem.mdp.rewards))
    # Lemma 1 with its factor two, for a range of rewards of 3
    assert found["box"] == pytest.approx(3.0 * 2 / 0.4)
    assert found["gap"] == pytest.approx(found["suboptimality"] + found["box"] * found["violation"])
    assert found["policy_error"] >= 0


def test_the_direction_of_the_divergence():
    half, optimum = np.array([[0.5, 0.5]]), np.array([[0.25, 0.75]])
    assert divergence_of(half, optimum) == pytest.approx(0.5 * np.log(2) + 0.5 * np.log(2 / 3))
    assert divergence_of(np.array([[1.0, 0.0]]), optimum) == pytest.approx(np.log(4))
    assert divergence_of(optimum, np.array([[1.0, 0.0]])) == np.inf


def test_slope_and_crossing_of_exact_power_laws():
    x = [40.0, 80.0, 160.0]
    assert slope(x, [7 * value**1.3 for value in x]) == pytest.approx(1.3)
    samples = [2**k for k in range(10, 16)]
    gaps = np.array([30 / np.sqrt(n) for n in samples])
    assert crossing(samples, gaps, 0.4) == pytest.approx((30 / 0.4) ** 2)
    assert crossing(samples[:2], gaps[:2], 0.4) == pytest.approx((30 / 0.4) ** 2), "continued beyond the last mark"
    assert crossing(samples, gaps, 2.0) == pytest.approx((30 / 2.0) ** 2), "continued below the first mark"
    assert crossing([100, 1000], np.array([8.0, 2.0]), 4.0) == pytest.approx(np.sqrt(1e5)), "half way on both scales"


def test_the_jackknife_of_a_mean_is_its_student_interval():
    values = np.array([1.0, 4.0, 2.0, 7.0])
    one = jackknife(lambda weights: float(weights @ values), 4)
    reach = 3.182446305284263 * values.std(ddof=1) / 2
    assert (one.mean, one.low, one.high) == pytest.approx((3.5, 3.5 - reach, 3.5 + reach))


def test_growth_on_small_models():
    needed, per_log = samples_needed((5, 10), 2.0, 0.5, seeds=2)
    assert needed.x == (20.0, 40.0)
    assert needed.y[0].mean > 0
    assert per_log.mean < needed.exponent.mean
    wide = gap_against_horizon((0.2, 0.5), 5, 500, seeds=2)
    assert wide.x == (1.25, 2.0)
    assert wide.y[0].mean < wide.y[1].mean


@pytest.fixture(scope="module")
def measured():
    mdp = ca.worlds.garnet(5, 2, 3, discount=0.5)
    prior = np.random.default_rng(0).dirichlet(np.ones(10)).reshape(mdp.shape)
    return [curve(with_optimum(f"c {c}", ca.Problem(mdp, ca.KL(prior), c)), [200, 800, 3200], 4) for c in (0.5, 5.0)]


BOUNDED = [claims.theorem_1, claims.suboptimality, claims.violation, claims.corollary_1]


def shrunk(one, factor):
    """The same runs with a smaller bound."""
    smaller = {name: factor * table for name, table in one.numbers.items() if name.endswith("bound")}
    return replace(one, numbers={**one.numbers, **smaller})


@pytest.mark.parametrize("claim", BOUNDED)
def test_a_claim_holds_and_fails_with_a_bound_that_is_too_small(claim, measured):
    assert claim(measured).holds
    small = claim([shrunk(one, 1e-4) for one in measured])
    assert not small.holds
    assert "NOT below" in small.found


@pytest.mark.parametrize("claim", [claims.violation, claims.corollary_1])
def test_a_single_run_above_what_its_gap_allows_is_found(claim, measured):
    numbers = {name: table.copy() for name, table in measured[0].numbers.items()}
    for name in ("violation", "divergence"):
        numbers[name][0, 0] = 1.01 * numbers[f"{name}_allowed"][0, 0]
    assert not claim([replace(measured[0], numbers=numbers)]).holds


def test_a_negative_loss_keeps_the_bound_and_is_reported(measured):
    numbers = {**measured[0].numbers, "suboptimality": -np.abs(measured[0].numbers["suboptimality"])}
    found = claims.suboptimality([replace(measured[0], numbers=numbers)])
    assert found.holds
    assert found.numbers["share of runs above the optimum"] == 1.0


def test_verdicts_on_growth():
    def growth(low, high):
        ends = (Interval(1.0, 1.0, 1.0, 5), Interval(2.0, 2.0, 2.0, 5))
        return Growth((1.0, 2.0), ends, Interval(0.0, low, high, 5))

    def near_linear(exponent, per_log):
        return claims.near_linear(growth(*exponent), Interval(0.0, *per_log, 5), 0.5).holds

    assert near_linear((1.0, 1.2), (0.8, 1.05))
    assert not near_linear((1.3, 1.6), (1.1, 1.4)), "faster than linear times the logarithm"
    assert near_linear((0.6, 0.9), (0.4, 0.7)), "the theorem bounds the growth from above only"
    assert not near_linear((-5.0, 8.0), (-5.0, 8.0)), "not knowing is no proof"
    assert claims.horizon_squared(growth(1.7, 1.9), 100).holds
    assert not claims.horizon_squared(growth(1.9, 2.1), 100).holds


def test_the_remark_on_large_cautions_needs_a_fall_at_every_step():
    problem = ca.Problem(two_states(), ca.KL(np.full((2, 2), 0.25)), 1.0)

    def fake(caution, level):
        numbers = {
            "divergence": level * np.array([[1.0, 1.01, 1.02]]),
            "divergence_bound": np.full((1, 3), 1 / caution),
        }
        instance = Instance(f"c {caution}", problem.with_caution(caution), 0.0, np.full((2, 2), 0.25))
        return GapCurve(instance, [9], numbers)

    assert claims.large_caution([fake(0.1, 3.0), fake(1.0, 2.0), fake(10.0, 1.0)]).holds
    assert not claims.large_caution([fake(0.1, 3.0), fake(1.0, 2.0), fake(10.0, 2.0)]).holds


def test_the_peak_risk_binds():
    problem = peak_problem()
    neutral = ca.solve(problem.with_caution(0.0))
    assert with_optimum("grid", problem).best > problem.objective(neutral.occupancy) + 1e-3


def test_the_part_in_quick():
    part = theorems.make(Scale(seeds=3, quick=QUICK.quick))
    assert part.key == "theorems"
    assert len({tuple(row) for row in part.rows}) == 1
    stream = io.StringIO()
    csv.DictWriter(stream, list(part.rows[0])).writerows(part.rows)
    by_place = {claim.place: claim for claim in part.claims}
    for place in (
        "Theorem 1, duality gap",
        "Theorem 2, sub-optimality",
        "Theorem 2, constraint violation",
        "Corollary 1",
    ):
        assert by_place[place].holds, place
    assert "expectation" in by_place["Theorem 2, constraint violation"].caveat
    pytest.importorskip("matplotlib")
    for theme in (LIGHT, DARK):
        figure = part.draw(theme)
        assert [axes.get_title(loc="left")[:3] for axes in figure.axes] == ["(a)", "(b)", "(c)", "(d)", "(e)", "(f)"]
    assert png(figure, dpi=40).startswith(b"\x89PNG")
