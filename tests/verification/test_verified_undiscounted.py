"""``ca.verify`` of long-run averages and of totals until the end, against fractions.

The truth is that of a discount of 1 - 10^-60, which long-run averages and totals of so small models do not differ from
by more than TINY: linear systems in fractions do not mind.
"""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from claims import accepted, mutate, stored, verified
from test_exact_arithmetic import Exact

import cautious as ca
from cautious.verification.average import Average, end_components, long_run_occupancy
from cautious.verification.claim import read_claim
from cautious.verification.total import Total, ended_states, visits_until_end
from random_models import random_model, random_policy, random_support

NEARLY_ONE, TINY = 1 - Fraction(1, 10**60), Fraction(1, 10**30)


@pytest.fixture(autouse=True)
def _needs_flint():
    pytest.importorskip("flint", reason="extra verify")


def raw_model(rng, horizon):
    """A tiny model; for totals its last state is an end, and every pair may lead there."""
    raw = random_model(rng, "tiny", outcome_rewards=False, masks=horizon == "average")
    transitions, rewards = raw.transitions.copy(), raw.rewards.copy()
    if horizon == "total":
        transitions[..., -1] += 0.25
        transitions /= transitions.sum(axis=2, keepdims=True)
        transitions[-1], rewards[-1] = np.eye(raw.n_states)[-1], 0.0
    # any discount of 0.9 becomes another one below
    return replace(raw, transitions=transitions, rewards=rewards, discount=0.9, encoding="dense")


def mdp_of(raw):
    allowed = None if raw.allowed.all() else raw.allowed
    return ca.MDP(raw.transitions, raw.rewards, 1.0, raw.start, allowed=allowed)


class Truth:
    def __init__(self, raw, horizon):
        self.exact, self.horizon, self.raw = Exact(raw), horizon, raw
        self.exact.gamma = NEARLY_ONE

    def occupancy(self, policy):
        """Shares of time, or expected visits before the last state, which is the end."""
        d = self.exact.occupancy(policy)
        if self.horizon == "average":
            return d
        return {pair: 0 if pair[0] == self.exact.n - 1 else mass / (1 - NEARLY_ONE) for pair, mass in d.items()}

    def worth(self, policy):
        return self.exact.mean(self.occupancy(policy), self.exact.reward)

    def best(self):
        choices = [np.flatnonzero(row) for row in self.raw.allowed]
        eye = np.eye(self.raw.n_actions)
        return max(self.worth(eye[list(pick)]) for pick in itertools.product(*choices))


def solved(raw, horizon, **more):
    """None where the start matters in the long run, which is refused."""
    try:
        return ca.solve(ca.Problem(mdp_of(raw), horizon=horizon, **more))
    except ca.CautiousError:
        return None


def model_of(solution):
    return read_claim("test", *solution.to_storage(witness=True)).model


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_occupancies_are_as_close_as_they_say(horizon):
    checked = 0
    for seed in range(30):
        rng = np.random.default_rng([seed, 11])
        raw = raw_model(rng, horizon)
        solution = solved(raw, horizon)
        if solution is None:
            continue
        checked += 1
        # deterministic policies too, which may have several closed classes
        rare = rng.random() < 0.5
        policy = random_policy(rng, raw, random_support(rng, raw) if rare else None)
        enclose = long_run_occupancy if horizon == "average" else visits_until_end
        found, truth = enclose(model_of(solution), policy), Truth(raw, horizon).occupancy(policy)
        masses = {
            divmod(int(p), raw.n_actions): Fraction(int(m), 2**found.bits)
            for p, m in zip(found.rows.pairs, found.mass, strict=True)
        }
        apart = sum(abs(masses.get(pair, 0) - mass) for pair, mass in truth.items())
        assert apart <= found.distance + TINY
        assert found.distance <= Fraction(1, 10**25) * max(1, sum(truth.values()))
    assert checked >= 10


def test_two_closed_classes_and_a_way_there():
    """A policy that goes left or right by chance and stays; going back is possible, so that nothing is refused."""
    transitions = np.zeros((5, 2, 5))
    transitions[0, :] = [0, 0.3, 0, 0.7, 0]
    transitions[1, 0, 2] = transitions[2, 0, 1] = transitions[3, 0, 4] = transitions[4, 0, 4] = 1
    transitions[[1, 2, 3, 4], 1, 0] = 1
    rewards = np.array([[0, 0], [1, 0], [3, 0], [9, 0], [7, 0]], dtype=float)
    mdp = ca.MDP(transitions, rewards, 1.0, start=[1, 0, 0, 0, 0])
    model = model_of(ca.solve(ca.Problem(mdp, horizon="average")))
    found = long_run_occupancy(model, np.tile([1.0, 0.0], (5, 1)))
    assert np.allclose([float(Fraction(int(m), 2**found.bits)) for m in found.mass], [0.15, 0.15, 0.7])
    assert found.rows.pairs.tolist() == [2, 4, 8]
    assert found.distance < TINY


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_objective_and_bound_hold(horizon):
    checked = 0
    for seed in range(25):
        raw = raw_model(np.random.default_rng([seed, 12]), horizon)
        solution = solved(raw, horizon)
        if solution is None:
            continue
        checked += 1
        found, truth = ca.verify(solution), Truth(raw, horizon)
        assert found.proved, (seed, found.statement)
        worth = truth.worth(solution.policy)
        scale = max(1, abs(worth))
        assert found.objective <= worth + TINY * scale
        assert worth - found.objective <= Fraction(1, 10**20) * scale
        assert truth.best() <= found.upper_bound + TINY * scale
    assert checked >= 10


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_no_policy_exceeds_the_bound_of_any_multipliers(horizon):
    for seed in range(15):
        rng = np.random.default_rng([seed, 13])
        raw = raw_model(rng, horizon)
        solution = solved(raw, horizon)
        if solution is None:
            continue
        model, best = model_of(solution), Truth(raw, horizon).best()
        whole = (Average if horizon == "average" else Total)(model, model.allowed)
        for size in (0.0, 1e-12, 1e-3, 10.0):
            multipliers = solution.multipliers + size * rng.normal(size=raw.n_states)
            assert whole.greatest_return(whole.reward_above, multipliers) >= best - TINY * max(1, abs(best))


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_pairs_that_count_are_those_that_the_problem_finds(horizon):
    for seed in range(30):
        raw = raw_model(np.random.default_rng([seed, 14]), horizon)
        solution = solved(raw, horizon)
        if solution is None:
            continue
        model, problem = model_of(solution), solution.problem
        if horizon == "average":
            assert np.array_equal(Average(model, model.allowed).active, problem.active)
        else:
            assert np.array_equal(ended_states(model), problem.mdp.ended)
            assert np.array_equal(Total(model, model.allowed).active, problem.active)


def test_end_components_lose_what_leads_out_of_them():
    """0 and 1 exchange, 1 may leave for 2, which leads to 3, which stays."""
    transitions = np.zeros((4, 2, 4))
    transitions[[0, 1, 1, 2, 2, 3, 3, 0], [0, 0, 1, 0, 1, 0, 1, 1], [1, 0, 2, 3, 3, 3, 3, 0]] = 1
    model = model_of(ca.solve(ca.Problem(ca.MDP(transitions, np.zeros((4, 2)), 0.9))))
    found = end_components(model, model.allowed)
    assert found.tolist() == [[True, True], [True, False], [False, False], [True, True]]


def test_a_policy_that_may_never_end_is_no_claim():
    stay, end = np.eye(2), np.array([[0.0, 1.0], [0.0, 1.0]])
    mdp = ca.MDP([stay, end], [[-1.0, -3.0], [0.0, 0.0]], 1.0, start=[1.0, 0.0])
    header, arrays = stored(ca.solve(ca.Problem(mdp, horizon="total")))
    assert verified(header, arrays).proved
    found = verified(header, {**arrays, "policy": np.tile([1.0, 0.0], (2, 1))})
    assert (found.proved, found.objective) == (False, -np.inf)


def test_multipliers_that_rise_anywhere_prove_no_total():
    mdp = ca.MDP([np.array([[0.5, 0.5], [0.0, 1.0]])], [[1.0], [0.0]], 1.0, start=[1.0, 0.0])
    header, arrays = stored(ca.solve(ca.Problem(mdp, horizon="total")))
    found = verified(header, {**arrays, "proof.boxes.multipliers": np.array([[2.0 - 2.0**-50, 0.0]])})
    assert found.upper_bound == np.inf
    # at the end they are taken to be zero
    assert verified(header, {**arrays, "proof.boxes.multipliers": np.array([[2.0, -5.0]])}).upper_bound == 2


def problems():
    """Risks and limits of every kind, as (horizon, risk, constraints)."""
    n = 12
    rng = np.random.default_rng(1)
    prior, table = rng.random((n, 2)), rng.random((n, 2))
    outcomes = rng.random((n, 2, n))
    prior[-1], table[-1], outcomes[-1] = 0, 0, 0
    shares = prior / prior.sum()
    few = ca.Exposure([0, 1])
    for horizon, given in (("average", shares), ("total", prior)):
        for risk in (
            ca.KL(given),
            ca.Entropy(),
            ca.TotalVariation(given),
            ca.Quadratic(given),
            ca.KL(given.sum(axis=1)),
        ):
            if horizon == "total" or "KL" not in risk.label:
                yield horizon, risk, []
        yield horizon, ca.PeakExposure([[0], [2]]), [few <= 10]
        yield horizon, ca.WorstTask(table[None]), [ca.Return(outcomes) + few <= 100]
        yield horizon, ca.Entropy(), [few <= 0.5, ca.TotalVariation(given) <= 50]
        yield horizon, None, [few <= -1]
        yield horizon, None, [few >= 1e-9, ca.Return(table) <= 1e-12]
    yield "average", ca.Variance(), [few <= 0.5]
    yield "average", ca.CVaR(0.5), []
    for horizon in ("total", 3):
        yield horizon, None, [ca.Reach([3]) <= 0.2]
        yield horizon, ca.Reach([0, 3]), [few <= 10]
        yield horizon, None, [ca.Reach([0, 3]) - ca.Reach([4]) <= 0.5, ca.Return(outcomes) <= 20]
        yield horizon, None, [ca.Reach([3]) <= -0.1]
        yield horizon, None, [ca.Reach([3]) <= 0]


def small_model(horizon):
    n = 12
    rng = np.random.default_rng(2)
    transitions, rewards = rng.dirichlet(np.full(n, 0.3), size=(n, 2)), rng.random((n, 2)) - 0.3
    transitions[..., -1] += 0.1
    transitions /= transitions.sum(axis=2, keepdims=True)
    if horizon != "average":
        transitions[-1], rewards[-1] = np.eye(n)[-1], 0
    return ca.MDP(transitions, rewards, 1.0, start=np.append(np.full(n - 1, 1 / (n - 1)), 0.0))


@pytest.mark.parametrize("number", range(len(list(problems()))))
def test_risks_and_limits_without_discount_are_proved(number, tmp_path):
    horizon, risk, constraints = list(problems())[number]
    solution = ca.solve(ca.Problem(small_model(horizon), risk, 0.1, constraints=constraints, horizon=horizon))
    solution.save(tmp_path / "s.npz", witness=True)
    found = ca.verify(tmp_path / "s.npz")
    assert found.proved, found.statement
    assert found == ca.verify(solution) == ca.verify(ca.load(tmp_path / "s.npz"))
    if solution.status is not ca.Status.INFEASIBLE:
        assert float(found.objective) == pytest.approx(solution.objective, rel=1e-9, abs=1e-9)


def test_the_share_of_the_start_is_exact():
    """Two thirds lie between two doubles, and the start stands for its multiple that sums to one."""
    transitions = np.zeros((3, 1, 3))
    transitions[:, :, 2] = 1
    mdp = ca.MDP(transitions, np.zeros((3, 1)), 1.0, start=[2 / 3, 1 / 3, 0])
    header, arrays = stored(ca.solve(ca.Problem(mdp, constraints=[ca.Reach([0]) <= 0.7], horizon="total")))
    for bound, kept in ((2 / 3, False), (float(np.nextafter(2 / 3, 1)), True)):
        for place in (header["proof"]["limits"][0], header["constraints"][0]):
            place["bound"] = bound
        assert ("not proved to keep" not in verified(header, arrays).statement) == kept


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_another_horizon_is_another_claim(horizon):
    header, arrays = stored(ca.solve(ca.Problem(small_model(horizon), horizon=horizon)))
    other = "total" if horizon == "average" else "average"
    assert verified(header, arrays).proved
    assert not accepted({**header, "horizon": other}, arrays)
    assert not accepted({**header, "horizon": None}, arrays)
    assert not accepted({**header, "model": {**header["model"], "discount": 0.99}}, arrays)


def check_mutations(horizon, seed, count):
    """How many mutated claims were false, and how many were called proved."""
    rng = np.random.default_rng([seed, 15])
    raw = raw_model(rng, horizon)
    solution = solved(raw, horizon)
    if solution is None:
        return 0, 0
    truth, false, proved = Truth(raw, horizon), 0, 0
    best = truth.best()
    tiny = TINY * max(1, abs(best))
    for _ in range(count):
        header, arrays = stored(solution)
        mutate(rng, header, arrays)
        worth = truth.worth(arrays["policy"])
        wrong = (
            header["status"] == "INFEASIBLE"
            or worth + Fraction(header["certificate"]["objective_error"]) < Fraction(header["objective"]) - tiny
            or best > Fraction(header["upper_bound"]) + tiny
            or best - worth > Fraction(header["gap"]) + tiny
        )
        called = accepted(header, arrays)
        assert not (called and wrong), (horizon, seed)
        false, proved = false + wrong, proved + called
    return false, proved


@pytest.mark.parametrize("horizon", ["average", "total"])
def test_no_false_claim_without_discount_is_proved(horizon):
    found = np.array([check_mutations(horizon, seed, 8) for seed in range(10)])
    false, proved = found.sum(axis=0)
    assert false >= 10
    assert proved >= 1


@pytest.mark.slow
@pytest.mark.parametrize("horizon", ["average", "total"])
def test_many_false_claims_without_discount(horizon):
    for seed in range(1000, 1080):
        check_mutations(horizon, seed, 20)


@pytest.mark.parametrize("horizon", [None, 3, "total"])
def test_a_limit_that_is_met_with_equality(horizon):
    """Enclosures cannot tell; fractions can."""
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1:, :, 3] = 1
    first, second = np.array([[0.0, 0], [0.5, 0.5], [0.5, 0.5], [0, 0]]), np.array([[0.0, 0], [3, 4], [0, 0], [0, 0]])
    mdp = ca.MDP(transitions, second, 0.5 if horizon is None else 1.0, start=[1, 0, 0, 0])
    value = 0.25 if horizon is None else 0.5
    # limits with room, whose bound is then moved to what every policy has
    for limit, sign in ((ca.Return(first) >= value / 2, -1), (ca.Return(first) <= 2 * value, 1)):
        header, arrays = stored(ca.solve(ca.Problem(mdp, constraints=[limit], horizon=horizon)).require())
        for side, kept in ((-np.inf, False), (sign * value, True), (np.inf, True)):
            bound = float(np.nextafter(sign * value, side))
            header["proof"]["limits"][0]["bound"], header["constraints"][0]["bound"] = bound, sign * bound
            assert ("not proved to keep" not in verified(header, arrays).statement) == kept
