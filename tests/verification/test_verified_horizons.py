"""``ca.verify`` of problems with a number of steps, against fractions followed step by step."""

from fractions import Fraction

import numpy as np
import pytest
from claims import accepted, mutate, stored, verified
from test_exact_arithmetic import Exact, exact_risk, normalised

import cautious as ca
from cautious.verification.claim import read_claim
from cautious.verification.finite_horizon import FiniteHorizon, occupancy_over_time
from random_models import CONVEX_KINDS, random_case, random_model, random_policy

KINDS = ("none", *CONVEX_KINDS, "Variance", "CVaR")
EXACT_KINDS = ("none", "PeakExposure", "TotalVariation", "Quadratic", "Variance", "CVaR")
DISCOUNTS = (0.0, 0.9, 1.0)


@pytest.fixture(autouse=True)
def _needs_flint():
    pytest.importorskip("flint", reason="extra verify")


def solved(case, steps, kind, discount=None):
    mdp = case.raw.mdp()
    if discount is not None:
        mdp = ca.MDP(mdp.transitions, mdp.rewards, discount, mdp.start, allowed=mdp.allowed)
    if kind == "none":
        return ca.solve(ca.Problem(mdp, horizon=steps))
    ((_, term),) = case.terms
    return ca.solve(ca.Problem(mdp, term.risk(), case.caution, horizon=steps))


class ExactSteps:
    """T steps in fractions."""

    def __init__(self, raw, steps):
        self.exact, self.steps = Exact(raw), steps
        self.length = sum(self.exact.gamma**t for t in range(steps))

    def occupancy(self, policy):
        exact = self.exact
        x, weight, total = exact.start, 1 / self.length, dict.fromkeys(exact.pairs, Fraction(0))
        for table in policy:
            rows = [normalised(row) for row in table]
            now = {(s, a): x[s] * rows[s][a] for s, a in exact.pairs}
            total = {pair: total[pair] + weight * now[pair] for pair in exact.pairs}
            x = [sum(now[pair] * exact.rows[pair][s] for pair in exact.pairs) for s in range(exact.n)]
            weight *= exact.gamma
        return total

    def best(self):
        exact, v = self.exact, [Fraction(0)] * self.exact.n
        for _ in range(self.steps):
            after = {p: sum(q * w for q, w in zip(exact.rows[p], v, strict=True)) for p in exact.pairs}
            worth = {p: exact.reward[p] + exact.gamma * after[p] for p in exact.pairs}
            v = [max(worth[s, a] for s, a in exact.pairs if s == state) for state in range(exact.n)]
        return sum(p * value for p, value in zip(exact.start, v, strict=True))

    def objective(self, case, policy):
        d = self.occupancy(policy)
        risks = sum(Fraction(w) * exact_risk(self.exact, term, d) for w, term in case.terms)
        return self.length * self.exact.mean(d, self.exact.reward) - Fraction(case.caution) * risks


@pytest.mark.parametrize("kind", KINDS)
def test_every_risk_is_proved_over_steps(kind, tmp_path):
    rng = np.random.default_rng([KINDS.index(kind), 3])
    for steps, discount in ((1, None), (4, None), (3, 1.0), (2, 0.0)):
        case = random_case(rng, ["Entropy" if kind == "none" else kind], "tiny")
        solution = solved(case, steps, kind, discount)
        solution.save(tmp_path / "s.npz", witness=True)
        loaded = ca.load(tmp_path / "s.npz")
        assert loaded.policy.shape == (steps, *case.raw.shape)
        assert loaded.mdp.horizon == steps
        found = ca.verify(tmp_path / "s.npz")
        assert found == ca.verify(loaded) == ca.verify(solution)
        assert found.proved, (steps, discount, found.statement)


@pytest.mark.parametrize("kind", EXACT_KINDS)
def test_the_objective_over_steps_is_the_exact_one(kind):
    rng = np.random.default_rng([EXACT_KINDS.index(kind), 4])
    for steps in (1, 3):
        case = random_case(rng, ["Variance" if kind == "none" else kind], "tiny")
        if any(term.given for _, term in case.terms):
            continue
        solution, exact = solved(case, steps, kind), ExactSteps(case.raw, steps)
        if kind == "none":
            case = type(case)(case.raw, (), 0.0)
        found, truth = ca.verify(solution), exact.objective(case, solution.policy)
        assert found.proved
        # a prior is divided by its rounded sum
        apart = 1e-12 if kind in ("TotalVariation", "Quadratic") else 1e-25
        assert abs(truth - found.objective) <= max(1, abs(truth)) * Fraction(apart)
        assert found.objective <= truth or apart == 1e-12
        if kind == "none":
            assert found.objective <= exact.best() <= found.upper_bound


def model_of(mdp, steps):
    solution = ca.solve(ca.Problem(mdp, horizon=steps))
    return read_claim("test", *solution.to_storage(witness=True)).model, solution


@pytest.mark.parametrize("seed", range(10))
def test_the_occupancy_over_steps_is_below_the_exact_one_and_close(seed):
    rng = np.random.default_rng([seed, 5])
    raw, steps = random_model(rng, "tiny"), int(rng.integers(1, 6))
    model, _ = model_of(raw.mdp(), steps)
    policy = np.array([random_policy(rng, raw) for _ in range(steps)])
    found, truth = occupancy_over_time(model, policy), ExactSteps(raw, steps).occupancy(policy)
    masses = {
        divmod(int(p), raw.n_actions): Fraction(int(m), 2**found.bits)
        for p, m in zip(found.rows.pairs, found.mass, strict=True)
    }
    assert all(masses.get(pair, 0) <= mass for pair, mass in truth.items())
    apart = sum(mass - masses.get(pair, 0) for pair, mass in truth.items())
    assert apart == found.distance < Fraction(1, 10**60)


@pytest.mark.parametrize("seed", range(10))
def test_no_policy_exceeds_the_bound_of_any_multipliers_of_steps(seed):
    rng = np.random.default_rng([seed, 6])
    raw, steps = random_model(rng, "tiny"), int(rng.integers(1, 6))
    model, solution = model_of(raw.mdp(), steps)
    best, whole = ExactSteps(raw, steps).best(), FiniteHorizon(model, model.allowed)
    for size in (0.0, 1e-12, 1e-3, 10.0):
        multipliers = solution.multipliers + size * rng.normal(size=solution.multipliers.shape)
        assert whole.greatest_return(whole.reward_above, multipliers) >= best
    assert whole.greatest_return(whole.reward_above, solution.multipliers) - best <= Fraction(1e-9) * max(1, abs(best))


@pytest.mark.parametrize("discount", DISCOUNTS)
def test_pairs_of_each_step_are_those_that_the_problem_finds(discount):
    for seed in range(10):
        rng = np.random.default_rng([seed, 7])
        case = random_case(rng, ["KL"], "small")
        mdp = ca.MDP(case.raw.mdp().transitions, np.zeros(case.raw.shape), discount, case.raw.start)
        model, _ = model_of(mdp, 4)
        problem = ca.Problem(mdp, case.terms[0][1].risk(), horizon=4)
        found = FiniteHorizon(model, problem.permitted)
        assert np.array_equal(found.active, problem.active_pairs)
        assert np.array_equal(found.first, problem.kept[0])
        assert found.trapped == problem.trapped


def test_many_steps():
    """Powers of a discount have 53 bits more with every step; numbers do not grow with them where that matters."""
    mdp = ca.worlds.river_swim()
    table = np.arange(mdp.n_states * mdp.n_actions).reshape(mdp.shape) / 8
    free = ca.solve(ca.Problem(mdp, horizon=600))
    limits = [ca.Exposure([0]) >= 0.5, ca.Return(table) + 2 * ca.Exposure([1]) <= 0.9 * np.sum(table)]
    solution = ca.solve(ca.Problem(mdp, ca.Variance(), constraints=limits, horizon=600))
    for one in (free, solution):
        found = ca.verify(one)
        assert found.proved, found.statement


def test_too_many_steps_are_refused():
    solution = ca.solve(ca.Problem(ca.worlds.river_swim(), horizon=6000))
    with pytest.raises(ca.IncompatibleError, match="over 6000 steps are too large to verify"):
        ca.verify(solution)


@pytest.mark.parametrize("horizon", ["for ever", 0, -1, 2.5, True, [3], {}, 4, None, 10**30])
def test_a_horizon_that_is_not_that_of_the_policy_is_refused(horizon):
    header, arrays = stored(ca.solve(ca.Problem(ca.worlds.river_swim(), horizon=3)))
    with pytest.raises(ca.CautiousError):
        verified({**header, "horizon": horizon}, arrays)


def check_mutations(kind, seed, count):
    """How many mutated claims were false, and how many were called proved."""
    rng = np.random.default_rng([seed, 8])
    case = random_case(rng, ["Variance" if kind == "none" else kind], "tiny")
    solution, exact = solved(case, 2, kind), ExactSteps(case.raw, 2)
    if kind == "none":
        case = type(case)(case.raw, (), 0.0)
    assert ca.verify(solution).proved
    others = [np.array([random_policy(rng, case.raw) for _ in range(2)]) for _ in range(5)]
    best = max(exact.objective(case, policy) for policy in (solution.policy, *others))
    if kind == "none":
        best = exact.best()
    false, proved = 0, 0
    for _ in range(count):
        header, arrays = stored(solution)
        mutate(rng, header, arrays)
        objective = exact.objective(case, arrays["policy"])
        wrong = (
            header["status"] == "INFEASIBLE"
            or objective + Fraction(header["certificate"]["objective_error"]) < Fraction(header["objective"])
            or best > Fraction(header["upper_bound"])
            or best - objective > Fraction(header["gap"])
        )
        called = accepted(header, arrays)
        assert not (called and wrong), (kind, seed)
        false, proved = false + wrong, proved + called
    return false, proved


@pytest.mark.parametrize("kind", ["none", "PeakExposure", "Variance", "CVaR"])
def test_no_false_claim_about_steps_is_proved(kind):
    found = np.array([check_mutations(kind, seed, 8) for seed in range(6)])
    false, proved = found.sum(axis=0)
    assert false >= 10
    assert proved >= 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["none", "PeakExposure", "Variance", "CVaR"])
def test_many_false_claims_about_steps(kind):
    for seed in range(1000, 1040):
        check_mutations(kind, seed, 20)
