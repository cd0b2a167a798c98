"""``ca.solve`` against the independent truth: CVXPY models and brute force, both written from the definitions."""

import numpy as np
import pytest

import cautious as ca
import reference
from random_models import CONVEX_KINDS, SIZES, case_for, random_case, random_model, random_term

ACCURACY = 1e-6
SUMS = (
    ("SafeSet", "KL"),
    ("PeakExposure", "Quadratic"),
    ("TotalVariation", "WorstTask"),
    ("Wasserstein", "Entropy"),
    ("TaskFloors", "TotalVariation states"),
    ("KL", "KL states"),
    ("Wasserstein graph", "PeakExposure"),
    ("SafeSet", "TaskFloors"),
    ("Quadratic", "Wasserstein crooked"),
)
SMALL_SEEDS, MEDIUM_SEEDS, LARGE_SEEDS = range(24), range(24, 32), range(32, 34)


def size_of(seed):
    return "small" if seed in SMALL_SEEDS else "medium" if seed in MEDIUM_SEEDS else "large"


def check_policy(case, solution):
    """A policy: rows sum to one, nothing where it may not act; its objective is the one reported."""
    raw, policy = case.raw, solution.policy
    assert np.all(policy >= 0)
    assert np.abs(policy.sum(axis=1) - 1).max() < 1e-12
    assert np.all(policy[~raw.allowed] == 0)
    d = reference.occupancy(raw, policy)
    assert np.abs(d - solution.occupancy).sum() < 1e-9
    for _, term in case.terms:
        if term.kind == "KL":
            prior = term.data["prior"]
            assert np.all(_entries(prior, solution.occupancy)[prior == 0] == 0)
            assert np.all(policy[solution.reached][~_open(prior, raw.shape)[solution.reached]] == 0)
    risk = sum(weight * reference.risk_value(raw, term, d) for weight, term in case.terms)
    gain = reference.expected_return(raw, d)
    size = max(1.0, abs(gain), case.caution * abs(risk))
    assert solution.expected_return == pytest.approx(gain, rel=1e-9, abs=1e-9 * size)
    assert solution.objective == pytest.approx(gain - case.caution * risk, rel=1e-9, abs=1e-9 * size)
    assert solution.objective == pytest.approx(solution.expected_return - case.caution * solution.risk, rel=1e-12)


def _entries(prior, d):
    return d.sum(axis=1) if prior.ndim == 1 else d


def _open(prior, shape):
    return np.broadcast_to((prior > 0)[:, None], shape) if prior.ndim == 1 else prior > 0


def check_convex(case):
    """Our answer against those of other solvers; how many numbers of theirs could be compared with."""
    solution = ca.solve(case.problem())
    answers = reference.reference_answers(case.raw, case.terms, case.caution)
    proved = max((answer.proved for answer in answers), default=-np.inf)
    size = max(1.0, abs(solution.objective))
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "optimal"
    check_policy(case, solution)
    # ``proved`` belongs to a policy: nobody may claim that nothing reaches it, and we must reach it
    if answers:
        assert solution.upper_bound >= proved - 1e-12 * max(1.0, abs(proved))
        assert solution.objective >= proved - ACCURACY * size
    assert solution.gap == pytest.approx(solution.upper_bound - solution.objective, abs=1e-14 * size)
    # a number that its own policy is not worth is no answer
    values = [answer.value for answer in answers if abs(answer.value - answer.proved) <= ACCURACY * size]
    agreed = len(values) == 2 and abs(values[0] - values[1]) <= 1e-7 * size
    if agreed or len(values) == 1:
        nearest = min(abs(solution.objective - value) for value in values)
        assert nearest <= ACCURACY * size
    return len(values)


@pytest.mark.parametrize("seed", [*SMALL_SEEDS, *MEDIUM_SEEDS])
@pytest.mark.parametrize("kind", CONVEX_KINDS)
def test_convex_risk_matches_cvxpy(kind, seed):
    rng = np.random.default_rng([CONVEX_KINDS.index(kind), seed])
    assert check_convex(random_case(rng, [kind], size_of(seed))) > 0


@pytest.mark.parametrize("seed", LARGE_SEEDS[:1])
@pytest.mark.parametrize("kind", CONVEX_KINDS)
def test_large_convex_risk_matches_cvxpy(kind, seed):
    rng = np.random.default_rng([CONVEX_KINDS.index(kind), seed])
    assert check_convex(random_case(rng, [kind], size_of(seed))) > 0


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kinds", SUMS, ids="+".join)
def test_sum_of_convex_risks_matches_cvxpy(kinds, seed):
    rng = np.random.default_rng([100 + SUMS.index(kinds), seed])
    assert check_convex(_feasible_sum(rng, kinds, "small" if seed < 9 else "medium")) > 0


def _feasible_sum(rng, kinds, size):
    """Two requirements may conflict; then there is no optimum to compare: draw until some policy meets both."""
    for _ in range(50):
        case = random_case(rng, kinds, size)
        try:
            reference.solve_convex(case.raw, case.terms, case.caution, "CLARABEL")
        except AssertionError:
            continue
        return case
    raise AssertionError("no feasible sum found")


@pytest.mark.parametrize("seed", range(32))
def test_neutral_matches_the_linear_program(seed):
    rng = np.random.default_rng([200, seed])
    raw = random_model(rng, size_of(seed))
    solution = ca.solve(ca.Problem(raw.mdp()))
    best = reference.solve_convex(raw, (), 0.0, "HIGHS")
    size = max(1.0, abs(best.proved))
    assert solution.status is ca.Status.SOLVED
    assert solution.risk == 0.0
    assert solution.objective == pytest.approx(best.proved, abs=ACCURACY * size)
    assert solution.upper_bound >= best.proved - 1e-12 * size


@pytest.mark.parametrize("kind", ["Variance", "CVaR"])
@pytest.mark.parametrize("block", range(10))
def test_scalar_risk_matches_brute_force(kind, block):
    for seed in range(30):
        rng = np.random.default_rng([300, block, seed, len(kind)])
        case = random_case(rng, [kind], "tiny", reward_square=kind == "Variance")
        check_scalar(case, reference.brute_force(case.raw, case.terms, case.caution), 1e-8)


def check_scalar(case, best, accuracy):
    solution = ca.solve(case.problem(), tolerance=accuracy)
    size = max(1.0, abs(best))
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    assert solution.objective == pytest.approx(best, abs=accuracy * size)
    assert solution.upper_bound >= best - 1e-12 * size
    check_policy(case, solution)


@pytest.mark.parametrize("kind", ["Variance", "CVaR"])
@pytest.mark.parametrize("seed", range(20))
def test_scalar_risk_beats_every_policy_tried(kind, seed):
    """Larger models: no brute force, but no random or risk-neutral policy may exceed the bound."""
    rng = np.random.default_rng([400, seed, len(kind)])
    case = random_case(rng, [kind], "medium" if seed < 17 else "large")
    solution = ca.solve(case.problem())
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    check_policy(case, solution)
    choices = [np.argmax(rng.random((20, *case.raw.shape)) * case.raw.allowed, axis=2)]
    tried = [case.objective(np.eye(case.raw.n_actions)[actions]) for actions in choices[0]]
    tried.append(case.objective(ca.solve(ca.Problem(case.raw.mdp())).policy))
    assert max(tried) <= solution.upper_bound + 1e-12 * max(1.0, abs(solution.upper_bound))


@pytest.mark.parametrize("other", ["Quadratic", "PeakExposure", "KL", "SafeSet"])
@pytest.mark.parametrize("seed", range(4))
def test_variance_plus_convex_matches_branch_and_bound(other, seed):
    rng = np.random.default_rng([500, seed, len(other)])
    raw = random_model(rng, "tiny")
    case = case_for(rng, raw, [random_term(rng, raw, "Variance"), random_term(rng, raw, other)])
    low, high = reference.solve_with_variance(raw, case.terms[0][0], case.terms[1:], case.caution)
    solution = ca.solve(case.problem())
    size = max(1.0, abs(low))
    check_policy(case, solution)
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    assert solution.objective >= low - ACCURACY * size
    assert solution.objective <= high + ACCURACY * size
    assert solution.upper_bound >= low - 1e-12 * size


@pytest.mark.parametrize("other", ["TotalVariation", "WorstTask", "Entropy"])
@pytest.mark.parametrize("seed", range(4))
def test_cvar_plus_convex_matches_every_quantile(other, seed):
    rng = np.random.default_rng([600, seed, len(other)])
    raw = random_model(rng, "tiny", outcome_rewards=False)
    case = case_for(rng, raw, [random_term(rng, raw, "CVaR"), random_term(rng, raw, other)])
    best = reference.solve_with_cvar(
        raw, case.terms[0][0], case.terms[0][1].data["level"], case.terms[1:], case.caution
    )
    solution = ca.solve(case.problem())
    size = max(1.0, abs(best))
    check_policy(case, solution)
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    assert solution.objective == pytest.approx(best, abs=ACCURACY * size)
    assert solution.upper_bound >= best - 1e-12 * size


@pytest.mark.slow
@pytest.mark.parametrize("kind", CONVEX_KINDS)
@pytest.mark.parametrize("block", range(10))
def test_many_convex(kind, block):
    answered = 0
    for seed in range(100):
        rng = np.random.default_rng([700, CONVEX_KINDS.index(kind), block, seed])
        size = list(SIZES)[min(seed // 30, 3)] if seed < 95 else "large"
        answered += check_convex(random_case(rng, [kind], size)) > 0
    # other solvers fail now and then
    assert answered >= 95


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["Variance", "CVaR"])
@pytest.mark.parametrize("block", range(20))
def test_many_scalar(kind, block):
    for seed in range(200):
        rng = np.random.default_rng([800, block, seed, len(kind)])
        case = random_case(rng, [kind], "tiny", reward_square=kind == "Variance")
        check_scalar(case, reference.brute_force(case.raw, case.terms, case.caution), 1e-8)
