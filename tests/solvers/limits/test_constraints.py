"""Constraints against linear programs of HiGHS, CVXPY with Clarabel, and exact fractions."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import cautious as ca
from random_models import random_model

SENSES = ("<=", ">=")


def flow(mdp):
    """Left and right side of the flow equations of occupancies."""
    s, a = mdp.shape
    leaving = sp.csr_array((np.ones(s * a), (np.repeat(np.arange(s), a), np.arange(s * a))), shape=(s, s * a))
    return leaving - mdp.discount * mdp.transitions.T, (1 - mdp.discount) * mdp.start


def linear_program(mdp, gain, rows, bounds):
    """The best occupancy by HiGHS; its status is 2 where there is none."""
    left, right = flow(mdp)
    sides = [(0, None if ok else 0) for ok in mdp.allowed.ravel()]
    return scipy.optimize.linprog(-gain.ravel(), rows, bounds, left, right, sides, method="highs")


def random_rows(rng, mdp, neutral):
    """Constraints, and the same as rows (m, S*A) and bounds (m,) for `rows @ d <= bounds`."""
    constraints, rows, bounds = [], [], []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5:
            states = rng.choice(mdp.n_states, max(1, mdp.n_states // 3), replace=False)
            row, measure = np.zeros(mdp.shape), ca.Exposure(states)
            row[states] = 1
        else:
            table = rng.normal(size=mdp.shape) * 10.0 ** rng.uniform(-1, 2)
            row, measure = table / (1 - mdp.discount), ca.Return(table)
        here = float(np.sum(neutral * row))
        low = float(linear_program(mdp, -row, None, None).fun)
        # between what is possible and what the neutral policy has, sometimes beyond
        bound = low + rng.choice([-0.1, 0.02, 0.3, 0.7, 1.2]) * max(here - low, 1e-3)
        sense = SENSES[int(rng.integers(2))]
        constraints.append(measure <= bound if sense == "<=" else -1.0 * measure >= -bound)
        rows.append(row.ravel())
        bounds.append(bound)
    return constraints, np.array(rows), np.array(bounds)


def small_model(seed, size="small"):
    rng = np.random.default_rng([77, seed])
    mdp = random_model(rng, size).mdp()
    return rng, mdp, ca.solve(ca.Problem(mdp)).occupancy


@pytest.mark.parametrize("block", range(4))
def test_linear_limits_against_highs(block):
    statuses = []
    for seed in range(30 * block, 30 * (block + 1)):
        rng, mdp, neutral = small_model(seed)
        constraints, rows, bounds = random_rows(rng, mdp, neutral)
        gain = mdp.rewards / (1 - mdp.discount)
        wanted = linear_program(mdp, gain, rows, bounds)
        found = ca.solve(ca.Problem(mdp, constraints=constraints))
        statuses.append(found.status)
        if wanted.status == 2:
            assert found.status is ca.Status.INFEASIBLE, seed
            check_smallest_conflict(mdp, found, rows, bounds, constraints)
            continue
        assert found.status is ca.Status.SOLVED, (seed, found)
        best = -wanted.fun
        assert found.objective == pytest.approx(best, rel=2e-6, abs=2e-6), seed
        assert found.upper_bound >= best - 1e-7 * max(1, abs(best))
        check_prices(mdp, gain, rows, bounds, found)
    assert statuses.count(ca.Status.SOLVED) >= 5
    assert statuses.count(ca.Status.INFEASIBLE) >= 3


def check_smallest_conflict(mdp, found, rows, bounds, constraints):
    """The constraints that are named cannot be kept together, and all but any one of them can."""
    names = [repr(one) for one in constraints]
    named = [names.index(name) for name in found.certificate.facts["requirements"]]
    nothing = np.zeros(mdp.shape)
    assert linear_program(mdp, nothing, rows[named], bounds[named]).status == 2
    for left_out in named:
        rest = [j for j in named if j != left_out]
        if rest:
            assert linear_program(mdp, nothing, rows[rest], bounds[rest]).status == 0
    for j, alone in zip(named, found.certificate.facts["best_alone"], strict=True):
        least = linear_program(mdp, -rows[j].reshape(mdp.shape), None, None).fun
        sign = 1 if constraints[j].sense == "<=" else -1
        assert sign * alone == pytest.approx(least, rel=1e-6, abs=1e-7)


def check_prices(mdp, gain, rows, bounds, found):
    """With more room the optimum rises by at most the price per unit."""
    for j, row in enumerate(found.constraints):
        assert row.price >= 0
        assert row.slack >= 0
        more = bounds.copy()
        more[j] += 0.1 * max(1.0, abs(bounds[j]))
        wider = -linear_program(mdp, gain, rows, more).fun
        assert wider <= found.upper_bound + row.price * (more[j] - bounds[j]) + 1e-6 * max(1, abs(wider))


def exact_occupancy(mdp, policy):
    """State-action occupancy in fractions."""
    s, a = mdp.shape
    gamma, rows = Fraction(mdp.discount), mdp.transitions.toarray()
    kernel = [[Fraction(float(p)) for p in row] for row in rows]
    pi = [[Fraction(float(p)) for p in row] for row in policy]
    pi = [[p / sum(row) for p in row] for row in pi]
    start = [Fraction(float(p)) for p in mdp.start]
    start = [p / sum(start) for p in start]
    matrix = [
        [
            (1 if i == j else 0)
            - gamma * sum(pi[j][k] * kernel[j * a + k][i] / sum(kernel[j * a + k]) for k in range(a) if pi[j][k])
            for j in range(s)
        ]
        + [(1 - gamma) * start[i]]
        for i in range(s)
    ]
    for i in range(s):
        pivot = next(k for k in range(i, s) if matrix[k][i])
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        matrix[i] = [x / matrix[i][i] for x in matrix[i]]
        for k in range(s):
            if k != i and matrix[k][i]:
                matrix[k] = [x - matrix[k][i] * y for x, y in zip(matrix[k], matrix[i], strict=True)]
    return [[matrix[i][s] * pi[i][k] for k in range(a)] for i in range(s)]


def test_delivered_policies_keep_every_limit_in_exact_arithmetic():
    checked = 0
    for seed in range(60):
        rng, mdp, neutral = small_model(1000 + seed, "tiny")
        constraints, rows, _ = random_rows(rng, mdp, neutral)
        found = ca.solve(ca.Problem(mdp, constraints=constraints))
        if found.status is not ca.Status.SOLVED:
            continue
        d = [x for row in exact_occupancy(mdp, found.policy) for x in row]
        for constraint, row in zip(constraints, rows, strict=True):
            measure, sign = constraint.measure, 1
            if constraint.sense == ">=":
                # the constraint says -1.0 * measure >= -bound
                ((sign, measure),) = measure.terms
            if isinstance(measure, ca.Exposure):
                value = sum(x for x, one in zip(d, row, strict=True) if one)
            else:
                paid = zip(d, np.ravel(measure.rewards), strict=True)
                value = sum(x * Fraction(float(r)) for x, r in paid) / (1 - Fraction(mdp.discount))
            assert value <= int(sign) * Fraction(constraint.bound), (seed, constraint)
            checked += 1
    assert checked >= 15


def convex_reference(mdp, risk, caution, limits):
    cp = pytest.importorskip("cvxpy")
    d = cp.Variable(mdp.shape, nonneg=True)
    left, right = flow(mdp)
    gain = cp.sum(cp.multiply(d, mdp.rewards)) / (1 - mdp.discount)
    kept = [left @ cp.reshape(d, (d.size,), order="C") == right, d[~mdp.allowed] == 0]
    kept += [limit(cp, d) for limit in limits]
    program = cp.Problem(cp.Maximize(gain - caution * risk(cp, d)), kept)
    program.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
    return program


DISTANCES = {
    "KL": lambda cp, d, prior: cp.sum(cp.kl_div(d, prior)),
    "TotalVariation": lambda cp, d, prior: cp.sum(cp.abs(d - prior)) / 2,
    "Quadratic": lambda cp, d, prior: cp.sum_squares(d - prior) / 2,
}


@pytest.mark.parametrize("kinds", [["KL"], ["TotalVariation"], ["Quadratic"], ["KL", "TotalVariation"]], ids="+".join)
@pytest.mark.parametrize("objective", ["none", "Quadratic", "Entropy"])
@pytest.mark.parametrize("seed", range(3))
def test_limits_on_distances_against_cvxpy(kinds, objective, seed):
    rng = np.random.default_rng([78, seed])
    mdp = random_model(rng, "small", masks=False).mdp()
    prior = ca.solve(ca.Problem(mdp, ca.Entropy(), 1e3)).occupancy
    neutral = ca.solve(ca.Problem(mdp)).occupancy
    states = rng.choice(mdp.n_states, 2, replace=False)
    share = 0.5 * (neutral[states].sum() + prior[states].sum())
    constraints, limits = [ca.Exposure(states) <= share], [lambda cp, d: cp.sum(d[states]) <= share]
    for kind in kinds:
        risk = getattr(ca, kind)(prior)
        bound = 0.4 * ca.Problem(mdp, risk).risk_value(neutral)
        constraints.append(risk <= bound)
        limits.append(lambda cp, d, kind=kind, bound=bound: DISTANCES[kind](cp, d, prior) <= bound)
    risk, cost = {
        "none": (None, lambda cp, d: 0.0),
        "Quadratic": (ca.Quadratic(prior), lambda cp, d: cp.sum_squares(d - prior) / 2),
        "Entropy": (ca.Entropy(), lambda cp, d: -cp.sum(cp.entr(d))),
    }[objective]
    wanted = convex_reference(mdp, cost, 0.7, limits)
    found = ca.solve(ca.Problem(mdp, risk, 0.7, constraints=constraints))
    assert wanted.status == "optimal"
    assert found.status is ca.Status.SOLVED
    assert found.certificate.kind == "optimal"
    assert found.objective == pytest.approx(wanted.value, rel=5e-6, abs=5e-6)
    assert all(row.slack >= 0 and row.price >= 0 for row in found.constraints)


def test_convex_limits_that_cannot_be_kept_together():
    _, mdp, _ = small_model(5)
    prior = ca.solve(ca.Problem(mdp, ca.Entropy(), 1e3)).occupancy
    busiest, row = int(np.argmax(prior.sum(axis=1))), np.zeros(mdp.shape)
    row[busiest] = 1
    least, share = linear_program(mdp, -row, None, None).fun, prior[busiest].sum()
    positive = np.where(mdp.allowed, prior + 1e-9, 0)
    near = ca.KL(positive / positive.sum()) <= 1e-4
    found = ca.solve(ca.Problem(mdp, constraints=[near, ca.Exposure([busiest]) <= least + 0.2 * (share - least)]))
    assert found.status is ca.Status.INFEASIBLE
    assert len(found.certificate.facts["requirements"]) == 2
    assert ca.solve(ca.Problem(mdp, constraints=[near])).status is ca.Status.SOLVED


@pytest.mark.parametrize("risk", [ca.Variance(), ca.CVaR(0.8)], ids=["Variance", "CVaR"])
def test_scalar_risks_beside_limits_are_global(risk):
    solved = 0
    for seed in range(6):
        _, mdp, neutral = small_model(200 + seed, "tiny")
        state = int(np.argmax(neutral.sum(axis=1)))
        row = np.zeros(mdp.shape)
        row[state] = 1
        least = linear_program(mdp, -row, None, None).fun
        bound = least + 0.5 * (neutral[state].sum() - least) + 1e-3
        found = ca.solve(ca.Problem(mdp, risk, 0.3, constraints=[ca.Exposure([state]) <= bound]))
        assert found.status is ca.Status.SOLVED
        assert found.certificate.kind == "global"
        # a minimum over one number: on a grid of numbers, linear programs give values that some policy has
        low, high = ca.Problem(mdp, risk).risk.interval()
        best = -np.inf
        for t in np.linspace(low, high, 60):
            term = ca.Problem(mdp, risk).risk
            gain = mdp.rewards / (1 - mdp.discount) - 0.3 * term.table(t)
            best = max(best, -linear_program(mdp, gain, [row.ravel()], [bound]).fun - 0.3 * term.offset(t))
        assert found.upper_bound >= best - 1e-6 * max(1, abs(best))
        assert found.objective >= best - 1e-5 * max(1, abs(best))
        solved += 1
    assert solved == 6


def machine():
    transitions = np.array(
        [[[0.8, 0.2, 0], [1, 0, 0]], [[0, 0.85, 0.15], [0.9, 0.1, 0]], [[0, 0, 1.0], [1, 0, 0]]], dtype=float
    )
    rewards = np.array([[10.0, 3.0], [9.0, -1.0], [0.0, -10.0]])
    names = ["good", "worn", "broken"]
    return ca.MDP(transitions, rewards, discount=0.95, start=[1, 0, 0], state_names=names)


@pytest.mark.parametrize("others", [[ca.Variance()], [ca.Variance(), ca.CVaR(0.5), ca.KL(np.full(2, 0.5))]])
def test_convex_limits_that_cannot_be_kept_beside_scalar_risks(others):
    mdp = ca.MDP(np.full((2, 2, 2), [0.9, 0.1]), [[0.0, 1.0], [2.0, -1.0]], 0.9)
    floors = ca.TaskFloors(np.ones((1, 2, 2)), [1.0])
    for risk in (sum(others[1:], floors + others[0]), sum(others[1:], others[0] + floors)):
        solution = ca.solve(ca.Problem(mdp, risk, constraints=[ca.TotalVariation([0.0, 1.0]) <= 0.1]))
        assert solution.status is ca.Status.INFEASIBLE
        assert "TotalVariation <= 0.1" in solution.certificate.statement


def test_a_limit_of_zero_forbids_states_exactly():
    mdp = machine()
    found = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0])).require()
    assert found.occupancy[2].sum() == 0
    assert found.policy[1].tolist() == [0, 1]
    # the price is that of the smallest limits above zero
    small = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 1e-3])).require()
    assert found.constraints[0].price == pytest.approx((small.objective - found.objective) / 1e-3, rel=1e-3)


@pytest.mark.parametrize("size", [8, 60])
@pytest.mark.parametrize(
    ("horizon", "terms"),
    [(None, ()), (6, ()), ("average", ()), (None, (ca.Entropy(), 0.5)), (None, (ca.CVaR(0.8), 0.5))],
    ids=["neutral", "steps", "average", "entropy", "CVaR"],
)
def test_all_time_in_some_states_is_no_time_in_the_others(size, horizon, terms):
    """A barrier finds no room here, and no sum of rounded numbers shows that the limit is kept."""
    rng = np.random.default_rng(size)
    inside, outside = np.split(np.arange(size), [size * 3 // 4])
    transitions = rng.dirichlet(np.full(size, 0.1), (size, 3))
    transitions[inside, 0] = 0
    transitions[inside[:, None], 0, inside] = rng.dirichlet(np.ones(inside.size), inside.size)
    mdp = ca.MDP(transitions, rng.random((size, 3)), 1.0 if horizon == "average" else 0.9, np.eye(size)[0])
    none, *others = (
        ca.solve(ca.Problem(mdp, *terms, constraints=[limit], horizon=horizon)).require()
        for limit in (
            ca.Exposure(outside) <= 0,
            ca.Exposure(inside) >= 1,
            ca.Exposure(inside) - ca.Exposure(outside) >= 1,
        )
    )
    for weight, found in zip((1, 2), others, strict=True):
        assert found.occupancy[..., outside, :].sum() == 0
        assert found.constraints[0].slack == 0
        assert found.objective == pytest.approx(none.objective, rel=1e-6)
        assert weight * found.constraints[0].price == pytest.approx(none.constraints[0].price, rel=0.05, abs=1e-3)
        assert ca.verify(found).proved


def test_all_time_where_one_cannot_stay():
    found = ca.solve(ca.Problem(machine(), constraints=[ca.Exposure(["worn", "broken"]) >= 1]))
    assert found.status is ca.Status.INFEASIBLE
    assert found.certificate.facts["requirements"] == ["Exposure(worn, broken) >= 1"]


def test_a_state_that_cannot_be_avoided():
    mdp = machine()
    found = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("good") <= 0]))
    assert found.status is ca.Status.INFEASIBLE
    assert found.certificate.facts["requirements"] == ["Exposure(good) <= 0"]
    assert found.certificate.facts["best_reachable"] > 0.01


def test_measures_are_risks_too():
    mdp = machine()
    broken, worn = ca.Exposure("broken"), ca.Exposure("worn")
    for measure, weights in ((broken, (0, 0, 1)), (broken - 0.5 * worn, (0, -0.5, 1)), (-broken, (0, 0, -1))):
        found = ca.solve(ca.Problem(mdp, measure, 10.0)).require()
        assert found.risk == pytest.approx(float(found.occupancy.sum(axis=1) @ weights), abs=1e-9)
        priced = mdp.rewards - 10 * (1 - mdp.discount) * np.array(weights, dtype=float)[:, None]
        wanted = ca.solve(ca.Problem(ca.MDP(mdp.transitions, priced, 0.95, mdp.start)))
        assert found.objective == pytest.approx(wanted.objective, abs=1e-5)


def test_rewards_by_outcome_and_a_worst_case_of_several_sets():
    mdp = machine()
    by_outcome = np.zeros((3, 2, 3))
    by_outcome[:, :, 2] = 1.0
    found = ca.solve(ca.Problem(mdp, constraints=[ca.Return(by_outcome) <= 0.3, ca.PeakExposure([[2], [1]]) <= 0.2]))
    found.require()
    arrivals = float(np.sum(found.occupancy * mdp.transitions.toarray().reshape(3, 2, 3)[:, :, 2])) / 0.05
    assert found.constraints[0].value == pytest.approx(arrivals)
    assert arrivals <= 0.3
    assert found.occupancy[1].sum() <= 0.2


def test_saved_and_loaded(tmp_path):
    found = ca.solve(ca.Problem(machine(), constraints=[ca.Exposure("broken") <= 0.02]))
    found.save(tmp_path / "limited.npz")
    assert ca.load(tmp_path / "limited.npz").constraints == found.constraints


WRONG = {
    "a range": (lambda mdp: 0.1 <= ca.Exposure([1]) <= 0.2, "is two constraints"),
    "a risk at least": (lambda mdp: ca.Entropy() >= 1, "only linear measures"),
    "no list": (lambda mdp: ca.Problem(mdp, constraints=ca.Exposure([1]) <= 0.1), "must be a list"),
    "no constraint": (lambda mdp: ca.Problem(mdp, constraints=[0.1]), "found float"),
    "not convex": (lambda mdp: ca.Problem(mdp, constraints=[ca.Variance() <= 1]), "not convex"),
    "no number": (lambda mdp: ca.Exposure([1]) <= float("nan"), "the limit of Exposure is nan"),
    "no state": (lambda mdp: ca.Problem(mdp, constraints=[ca.Exposure("brokn") <= 0.1]), "did you mean 'broken'"),
    "shape": (lambda mdp: ca.Problem(mdp, constraints=[ca.Return([1.0]) >= 1]), "Return.rewards has shape"),
    "weights": (
        lambda mdp: ca.Problem(mdp, constraints=[0 * ca.Entropy() <= 1]),
        "every weight of the measure is zero",
    ),
    "idle barrier": (lambda mdp: ca.Problem(mdp, ca.SafeSet([0, 1], 0.02), 0.0), "ca.Exposure(states) >= 0.98"),
    "idle floors": (
        lambda mdp: ca.Problem(mdp, ca.TaskFloors(mdp.rewards[None], [1.0]), 0.0),
        "ca.Return(task_rewards",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_constraints(case):
    call, message = WRONG[case]
    with pytest.raises(ca.CautiousError, match=None) as raised:
        call(machine())
    assert message in str(raised.value)


def test_a_divergence_that_no_policy_has_is_infeasible():
    """Its best value alone is infinite too; looking for it ended in an error."""
    mdp = ca.MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 0.9)
    found = ca.solve(ca.Problem(mdp, constraints=[ca.KL([1.0, 0.0]) <= 0.5, ca.Exposure([0]) <= 0.9]))
    assert found.status is ca.Status.INFEASIBLE
    assert found.certificate.facts["best_alone"] == [np.inf]
    assert found.constraints[0].value == np.inf


@pytest.mark.parametrize("seed", range(12))
def test_a_bound_that_is_the_best_reachable_value(seed):
    """The best policies of the limit's own row keep it: kept exactly, or out of reach by less than rounding."""
    _, mdp, _ = small_model(400 + seed)
    states = sorted({int(np.argmax(mdp.start)), mdp.n_states - 1})
    row = np.zeros(mdp.shape)
    row[states] = 1
    least = linear_program(mdp, -row, None, None).fun
    model = ca.MDP(mdp.transitions, np.zeros(mdp.shape), mdp.discount, mdp.start, allowed=mdp.allowed)
    best = ca.solve(ca.Problem(model, ca.Exposure(states)), tolerance=1e-12).risk
    assert best == pytest.approx(least, abs=1e-9)
    for bound in (best, np.nextafter(best, 2)):
        found = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure(states) <= bound]))
        if found.status is not ca.Status.SOLVED:
            assert found.status in (ca.Status.INFEASIBLE, ca.Status.UNDECIDED)
            continue
        wanted = linear_program(mdp, mdp.rewards / (1 - mdp.discount), [row.ravel()], [least + 1e-9])
        assert found.objective == pytest.approx(-wanted.fun, rel=1e-4, abs=1e-4)
        exact = exact_occupancy(mdp, found.policy)
        assert sum(sum(exact[s]) for s in states) <= Fraction(float(bound))


def test_the_best_return_first_and_then_another():
    """Limits at the best value leave the ties of the first aim to the second."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1:, :, 0] = 1
    first, second = np.array([[0.0, 0], [1, 1], [1, 1]]), np.array([[0.0, 0], [3, 4], [0, 0]])
    mdp = ca.MDP(transitions, second, 0.5, [1, 0, 0])
    # every policy has the first return 2/3, and the double is just below that
    assert Fraction(2 / 3) < Fraction(2, 3)
    found = ca.solve(ca.Problem(mdp, constraints=[ca.Return(first) >= 2 / 3])).require()
    assert found.objective == pytest.approx(8 / 3)
    assert ca.solve(ca.Problem(mdp, constraints=[ca.Return(first) >= np.nextafter(2 / 3, 1)])).objective == -np.inf
    assert ca.solve(ca.Problem(mdp, constraints=[ca.Return(first) >= 1])).status is ca.Status.INFEASIBLE


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("kind", ["linear", "distance"])
def test_rewards_of_any_size(scale, kind):
    """The weight of the barriers follows the size of the objective."""
    rng = np.random.default_rng(79)
    raw = replace(random_model(rng, "small", masks=False, outcome_rewards=False), discount=0.9999)
    mdp = replace(raw, rewards=scale * raw.rewards / np.abs(raw.rewards).max()).mdp()
    neutral = ca.solve(ca.Problem(mdp)).occupancy
    prior = ca.solve(ca.Problem(mdp, ca.Entropy(), 1e6 * scale + 1e3)).occupancy
    row = (neutral > prior).astype(float)
    bound = float(np.sum(row * (neutral + prior)) / 2)
    states = ca.Return(row * (1 - mdp.discount)) <= bound
    limits = [states] if kind == "linear" else [states, ca.Quadratic(prior) <= 0.2 * np.sum((neutral - prior) ** 2)]
    found = ca.solve(ca.Problem(mdp, constraints=limits)).require()
    assert all(row.slack >= 0 for row in found.constraints)
    if kind == "linear":
        wanted = -linear_program(mdp, mdp.rewards / scale, [row.ravel()], [bound]).fun * scale / (1 - mdp.discount)
        assert found.objective == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_a_limit_without_room_beside_another_limit_and_a_risk(seed):
    """What solvers keep for each other must not go from all pairs to the tight ones."""
    _, mdp, neutral = small_model(600 + seed)
    states, row = [mdp.n_states - 1], np.zeros(mdp.shape)
    row[states] = 1
    model = ca.MDP(mdp.transitions, np.zeros(mdp.shape), mdp.discount, mdp.start, allowed=mdp.allowed)
    least = ca.solve(ca.Problem(model, ca.Exposure(states)), tolerance=1e-12).risk
    limits = [ca.Exposure(states) <= np.nextafter(least, 2), ca.Return(mdp.rewards) <= 1e9]
    found = ca.solve(ca.Problem(mdp, ca.Quadratic(neutral), 1.0, limits))
    assert found.status in (ca.Status.SOLVED, ca.Status.UNDECIDED, ca.Status.INFEASIBLE)
    assert all(one.slack >= 0 for one in found.constraints) or found.status is not ca.Status.SOLVED


@pytest.mark.parametrize("horizon", [None, 4, "average"])
@pytest.mark.parametrize("size", [5, 60])
def test_limits_that_every_policy_keeps_have_no_price(horizon, size):
    """Their bound is reached exactly, whatever rounding makes of the sum of an occupancy."""
    rng = np.random.default_rng(size)
    transitions, rewards = rng.dirichlet(np.ones(size), (size, 2)), rng.normal(size=(size, 2))
    mdp = ca.MDP(transitions, rewards, 0.9 if horizon is None else 1.0)
    everywhere = ca.Exposure(range(size))
    free = ca.solve(ca.Problem(mdp, horizon=horizon)).require()
    for limit in (everywhere <= 1, everywhere >= 1, ca.Exposure([0]) <= 1, ca.Exposure([1]) >= 0):
        found = ca.solve(ca.Problem(mdp, constraints=[limit], horizon=horizon)).require()
        assert found.objective == pytest.approx(free.objective)
        assert found.constraints[0].price == 0
    beyond = ca.solve(ca.Problem(mdp, constraints=[everywhere <= 1 - 1e-9], horizon=horizon))
    assert beyond.status is ca.Status.INFEASIBLE


@pytest.mark.parametrize("horizon", [None, 1, 5])
def test_a_bound_that_only_states_out_of_reach_could_miss(horizon):
    transitions = np.zeros((3, 2, 3))
    transitions[:2, 0, 0] = transitions[:2, 1, 1] = transitions[2, :, 2] = 1
    mdp = ca.MDP(transitions, [[1.0, 0.0], [2.0, 0.0], [9.0, 9.0]], 0.9, start=[1, 0, 0])
    elsewhere = np.array([[0.0, 0.0], [0.0, 0.0], [0.75, -0.25]])
    free = ca.solve(ca.Problem(mdp, horizon=horizon))
    for limit in (ca.Return(elsewhere) <= 0, ca.Return(elsewhere) >= 0):
        found = ca.solve(ca.Problem(mdp, constraints=[limit], horizon=horizon)).require()
        assert found.objective == pytest.approx(free.objective)
        assert ca.verify(found).proved
    for limit in (ca.Return(elsewhere) <= -1e-3, ca.Return(elsewhere) >= 1e-3):
        found = ca.solve(ca.Problem(mdp, constraints=[limit], horizon=horizon))
        assert found.status is ca.Status.INFEASIBLE


def test_visits_of_a_model_that_has_ended_before_it_begins():
    mdp = ca.MDP(np.full((2, 1, 2), [0.0, 1.0]), [[-1.0], [0.0]], 1, start=[0, 1])
    for limit, status in ((ca.Exposure([0]) >= 1, "INFEASIBLE"), (ca.Exposure([0]) <= 1, "SOLVED")):
        assert ca.solve(ca.Problem(mdp, constraints=[limit], horizon="total")).status.name == status
