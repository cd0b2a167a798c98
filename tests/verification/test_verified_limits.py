"""``ca.verify`` of problems with limits: kept exactly, priced, in conflict; and mutations of such claims."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from claims import accepted, mutate, stored, verified
from test_exact_arithmetic import Exact, normalised

import cautious as ca
from random_models import random_model

TINY = Fraction(1, 10**40)
# the policies of two steps are the square of these
MAX_POLICIES_OF_A_STEP = 9


@pytest.fixture(autouse=True)
def _needs_flint():
    pytest.importorskip("flint", reason="extra verify")


def limited(mdp, constraints, risk=None, caution=1.0):
    return ca.Problem(mdp, risk, caution, constraints=constraints)


def limits_on_a_machine():
    mdp = ca.worlds.machine_replacement()
    broken, last = ca.Exposure("broken"), mdp.state_names[-2]
    uniform = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    by_outcome = np.tile(np.arange(mdp.n_states) / mdp.n_states, (*mdp.shape, 1))
    measures = [
        broken,
        ca.Return(by_outcome),
        2 * broken - ca.Return(by_outcome),
        ca.KL(uniform),
        ca.Quadratic(uniform),
    ]
    neutral = ca.solve(ca.Problem(mdp))
    values = [row.value for row in ca.solve(limited(mdp, [one <= 1e9 for one in measures])).constraints]
    return {
        "exposure": limited(mdp, [broken <= 0.004]),
        "at least": limited(mdp, [ca.Return(mdp.rewards) >= 0.9 * neutral.expected_return], ca.Exposure("broken"), 1e4),
        "outcomes": limited(mdp, [ca.Return(by_outcome) <= 0.9 * values[1]]),
        "combination": limited(mdp, [2 * broken - ca.Return(by_outcome) >= 0.9 * values[2]]),
        "forbidden states": limited(mdp, [ca.Exposure(last) <= 0, broken <= 0.5]),
        "peak": limited(mdp, [ca.PeakExposure([["broken"], [last]]) <= 0.01], ca.Entropy()),
        "divergence": limited(mdp, [ca.KL(uniform) <= 0.5 * values[3], broken <= 0.004], ca.Quadratic(uniform)),
        "sum of risks": limited(mdp, [ca.KL(uniform) + 2 * ca.Quadratic(uniform) <= 0.5 * values[3] + values[4]]),
        "beside variance": limited(mdp, [broken <= 0.004], ca.Variance(), 1e-3),
        "conflict": limited(mdp, [broken <= 1e-6, ca.Return(mdp.rewards) >= 0.99 * neutral.expected_return]),
        "conflict of distances": limited(mdp, [ca.KL(uniform) <= 1e-3, broken <= 1e-6]),
        "conflict with a barrier": limited(mdp, [broken >= 0.1], ca.SafeSet(range(mdp.n_states - 1), slack=0.05)),
        "unavoidable state": limited(mdp, [ca.Exposure([0]) <= 0]),
    }


@pytest.mark.parametrize("name", limits_on_a_machine())
def test_limits_and_conflicts_of_limits_are_proved(name, tmp_path):
    solution = ca.solve(limits_on_a_machine()[name])
    assert (solution.status is ca.Status.INFEASIBLE) == ("conflict" in name or "unavoidable" in name)
    solution.save(tmp_path / "s.npz", witness=True)
    found = ca.verify(tmp_path / "s.npz")
    assert found.proved, found.statement


def test_a_policy_that_misses_a_limit_is_not_proved():
    header, arrays = stored(ca.solve(limits_on_a_machine()["exposure"]))
    for place in (header["proof"]["limits"][0], header["constraints"][0]):
        place["bound"] = 0.0039
    assert "not proved to keep Exposure(broken) <= 0.004" in verified(header, arrays).statement


def test_prices_are_part_of_the_proof():
    for name, place in (("exposure", "proof.boxes.limit0.price"), ("conflict", "proof.conflict.limit1.price")):
        header, arrays = stored(ca.solve(limits_on_a_machine()[name]))
        assert verified(header, arrays).proved
        assert not verified(header, {**arrays, place: 0 * arrays[place]}).proved


def test_a_claimed_price_must_cover_that_of_the_proof():
    header, arrays = stored(ca.solve(limits_on_a_machine()["exposure"]))
    header["constraints"][0]["price"] *= 0.5
    assert "worth more than its claimed price" in verified(header, arrays).statement


def test_the_limits_of_solution_and_proof_are_the_same():
    header, arrays = stored(ca.solve(limits_on_a_machine()["divergence"]))
    for name, changed in (("name", "another"), ("bound", 0.3)):
        row = {**header["constraints"][0], name: changed}
        with pytest.raises(ca.FileError, match="is not the limit"):
            verified({**header, "constraints": [row, header["constraints"][1]]}, arrays)
    with pytest.raises(ca.FileError, match="2 constraints, and its proof 1 limits"):
        verified({**header, "proof": {**header["proof"], "limits": header["proof"]["limits"][:1]}}, arrays)


def test_rewards_by_outcome_are_not_rounded():
    """A third of the time each: the mean of a row of outcomes is no double."""
    transitions = np.full((3, 1, 3), 1 / 3)
    outcomes = np.array([0.1, 0.2, 0.7])[None, None].repeat(3, axis=0)
    mdp = ca.MDP(transitions, np.zeros((3, 1)), 0.5)
    header, arrays = stored(ca.solve(ca.Problem(mdp, constraints=[ca.Return(outcomes) + ca.Exposure([0]) <= 3])))
    assert arrays["proof.limit0.term0.tables"].shape == (2, 9)
    assert np.array_equal(arrays["proof.limit0.term0.tables"][0].reshape(3, 3), outcomes[:, 0])
    assert verified(header, arrays).proved


class ExactProblem:
    """A tiny problem with one linear limit in fractions: its optimum mixes at most two deterministic policies."""

    def __init__(self, rng, horizon=None):
        self.raw = random_model(rng, "tiny", outcome_rewards=False)
        while horizon == 2 and np.prod(self.raw.allowed.sum(axis=1)) > MAX_POLICIES_OF_A_STEP:
            self.raw = random_model(rng, "tiny", outcome_rewards=False)
        self.exact, self.horizon = Exact(self.raw), horizon
        self.length = 1 / (1 - self.exact.gamma)
        if horizon is not None:
            self.length = sum(self.exact.gamma**t for t in range(horizon))
        states = sorted(rng.choice(self.raw.n_states, max(1, self.raw.n_states // 2), replace=False).tolist())
        by_time, table = rng.random() < 0.5, rng.integers(-8, 9, size=self.raw.shape) / 8
        self.measure = ca.Exposure(states) if by_time else ca.Return(table)
        self.row = {(s, a): Fraction(s in states) for s, a in self.exact.pairs}
        if not by_time:
            self.row = {pair: self.length * Fraction(table[pair]) for pair in self.exact.pairs}
        self.corners = [self.numbers(policy) for policy in self.deterministic()]
        values = [value for _, value in self.corners]
        self.sense = str(rng.choice(["<=", ">="]))
        self.sign = 1 if self.sense == "<=" else -1
        self.bound = float(min(values) + Fraction(float(rng.uniform(-0.1, 1.0))) * (max(values) - min(values)))
        self.best = self.optimum()

    def deterministic(self):
        choices = [np.flatnonzero(row) for row in self.raw.allowed]
        tables = [np.eye(self.raw.n_actions)[list(pick)] for pick in itertools.product(*choices)]
        if self.horizon is None:
            return tables
        return [np.array(steps) for steps in itertools.product(tables, repeat=self.horizon)]

    def occupancy(self, policy):
        """Of every pair; summed over the steps."""
        exact = self.exact
        if self.horizon is None:
            return exact.occupancy(policy)
        x, weight, total = exact.start, 1 / self.length, dict.fromkeys(exact.pairs, Fraction(0))
        for table in policy:
            rows = [normalised(row) for row in table]
            now = {(s, a): x[s] * rows[s][a] for s, a in exact.pairs}
            for pair in exact.pairs:
                total[pair] += weight * now[pair]
            x = [sum(now[pair] * exact.rows[pair][s] for pair in exact.pairs) for s in range(exact.n)]
            weight *= exact.gamma
        return total

    def numbers(self, policy):
        """Return and measure."""
        d = self.occupancy(policy)
        return self.length * self.exact.mean(d, self.exact.reward), self.exact.mean(d, self.row)

    def keeps(self, value):
        return self.sign * value <= self.sign * Fraction(self.bound)

    def optimum(self):
        """None if nothing keeps the limit."""
        inside = [corner for corner in self.corners if self.keeps(corner[1])]
        outside = [corner for corner in self.corners if not self.keeps(corner[1])]
        found = [gain for gain, _ in inside]
        for (g, v), (h, w) in itertools.product(set(inside), set(outside)):
            share = (Fraction(self.bound) - w) / (v - w)
            found.append(share * g + (1 - share) * h)
        return max(found, default=None)

    def problem(self):
        limit = self.measure <= self.bound if self.sense == "<=" else self.measure >= self.bound
        return ca.Problem(self.raw.mdp(), constraints=[limit], horizon=self.horizon)

    def false(self, header, policy):
        """Whether a claim is known to be false."""
        if header["status"] == "INFEASIBLE":
            return True
        gain, value = self.numbers(policy)
        objective = gain + Fraction(header["certificate"]["objective_error"])
        return (
            not self.keeps(value)
            or objective < Fraction(header["objective"]) - TINY
            or self.best > Fraction(header["upper_bound"]) + TINY
            or self.best - gain > Fraction(header["gap"]) + TINY
            or (header["status"] == "SOLVED" and header["gap"] > header["tolerance"] * max(1, abs(header["objective"])))
        )


def mutated(rng, header, arrays):
    """As for other claims, or what belongs to limits: prices and lines of either sign, other multipliers."""
    mutate(rng, header, arrays)
    names = [name for name in arrays if ".limit" in name and name.endswith("price")]
    if rng.random() < 0.4:
        name = str(rng.choice(names))
        arrays[name] = arrays[name] * rng.choice([-1.0, 0.0, 0.5, 0.999, 1.001, 2.0])
    if rng.random() < 0.1:
        header["constraints"], header["proof"]["limits"] = [], []


def check_mutations(seed, count, horizon):
    rng = np.random.default_rng([seed, horizon or 0])
    case = ExactProblem(rng, horizon)
    solution = ca.solve(case.problem())
    if solution.status is ca.Status.UNDECIDED:
        return 0, 0
    assert (solution.status is ca.Status.INFEASIBLE) == (case.best is None), seed
    found = ca.verify(solution)
    assert found.proved, (seed, found.statement)
    if case.best is None:
        # it is infeasible whatever the witness says
        return 0, 0
    assert found.objective <= case.best <= found.upper_bound
    false, proved = 0, 0
    for _ in range(count):
        header, arrays = stored(solution)
        mutated(rng, header, arrays)
        if not header["proof"]["limits"]:
            # another problem than the one that was solved: what is claimed of that need not be false
            continue
        called, wrong = accepted(header, arrays), case.false(header, arrays["policy"])
        assert not (called and wrong), seed
        false, proved = false + wrong, proved + called
    return false, proved


@pytest.mark.parametrize("horizon", [None, 1, 2])
def test_no_false_claim_about_a_limit_is_proved(horizon):
    found = np.array([check_mutations(seed, 8, horizon) for seed in range(20)])
    false, proved = found.sum(axis=0)
    assert false >= 20
    assert proved >= 5


@pytest.mark.slow
@pytest.mark.parametrize("horizon", [None, 1, 2])
def test_many_false_claims_about_limits(horizon):
    for seed in range(1000, 1200):
        check_mutations(seed, 20, horizon)


@pytest.mark.parametrize("horizon", [None, 1])
def test_a_limit_that_no_pair_in_reach_keeps(horizon):
    transitions = np.tile(np.eye(3), (2, 1, 1)).transpose(1, 0, 2)
    transitions[0, 1] = [0, 1, 0]
    mdp = ca.MDP(transitions, np.zeros((3, 2)), 0.0 if horizon is None else 0.9, start=[1, 0, 0])
    for limit in (ca.Exposure([0]) <= 0.5, ca.Exposure([1, 2]) >= 0.5, ca.Exposure([2]) >= 0.1):
        solution = ca.solve(ca.Problem(mdp, constraints=[limit], horizon=horizon))
        assert solution.status is ca.Status.INFEASIBLE
        assert ca.verify(solution).proved, limit


def test_boxes_beyond_every_mean_that_is_within_reach():
    transitions = np.zeros((3, 2, 3))
    transitions[:2, :, 0] = transitions[2, 0, 2] = transitions[2, 1, 1] = 1
    mdp = ca.MDP(transitions, [[1.0, -2.0], [1.0, 1.0], [-2.0, -2.0]], 0, start=[0, 0, 1])
    limit = ca.Return(np.array([[0.0, 0.0], [0.0, 0.0], [1.0, 0.0]])) >= 0.1
    solution = ca.solve(ca.Problem(mdp, ca.Variance(), 0.3, constraints=[limit], horizon=4))
    assert ca.verify(solution.require()).proved


def test_a_divergence_of_an_occupancy_that_is_known_exactly():
    mdp = ca.MDP(np.ones((1, 2, 1)), [[1.0, 1.0]], 1)
    limit = ca.KL([[0.5, 0.5]]) <= 1
    assert ca.verify(ca.solve(ca.Problem(mdp, constraints=[limit], horizon=1))).proved


@pytest.mark.parametrize("horizon", [None, 1, 3])
def test_states_that_a_limit_closes_keep_allowed_rows(horizon):
    allowed = np.array([[True, True], [False, True]])
    mdp = ca.MDP(np.full((2, 2, 2), [1.0, 0.0]), [[0.0, 1.0], [0.0, 0.0]], 0.9, start=[1.0, 0.0], allowed=allowed)
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([1]) <= 0], horizon=horizon))
    assert not np.any((solution.policy > 0) & ~allowed)
    assert ca.verify(solution).proved
