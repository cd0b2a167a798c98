"""Finite horizons against brute force in exact fractions, linear programs of HiGHS, CVXPY, and closed forms."""

import itertools
import warnings
from dataclasses import replace
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import cautious as ca
import reference
from random_models import CONVEX_KINDS, random_model, random_policy, random_term

DISCOUNTS = (0.0, 0.5, 0.9, 1.0)


def exact_rows(table):
    """Rows of fractions that sum to exactly one."""
    rows = [[Fraction(float(x)) for x in row] for row in table]
    return [[x / sum(row) if sum(row) else x for x in row] for row in rows]


def exact_occupancy(raw, policy, steps):
    """The occupancy (S, A) of a policy (T, S, A), summed over the steps and not normalised, in exact arithmetic."""
    n, m = raw.shape
    mass = exact_rows([raw.start])[0]
    kernel = [exact_rows(raw.transitions[s]) for s in range(n)]
    total, weight = [[Fraction(0)] * m for _ in range(n)], Fraction(1)
    for t in range(steps):
        chances, after = exact_rows(policy[t]), [Fraction(0)] * n
        for s, a in itertools.product(range(n), range(m)):
            here = mass[s] * chances[s][a]
            if here:
                total[s][a] += weight * here
                for s_next in range(n):
                    after[s_next] += here * kernel[s][a][s_next]
        mass, weight = after, weight * Fraction(float(raw.discount))
    return total


def weight_of_steps(raw, steps):
    return sum(Fraction(float(raw.discount)) ** t for t in range(steps))


def layered(raw, steps):
    """Flow equations of the occupancies (T*S*A), which sum to one, as plain dense arrays."""
    n, m = raw.shape
    rows, right = np.zeros((steps, n, steps, n, m)), np.zeros((steps, n))
    kappa = 1 / sum(raw.discount**t for t in range(steps))
    right[0] = kappa * raw.start
    for t in range(steps):
        for s in range(n):
            rows[t, s, t, s] += 1
        if t:
            rows[t, :, t - 1] -= raw.discount * np.moveaxis(raw.kernel, 2, 0)
    return rows.reshape(steps * n, -1), right.ravel(), kappa


def tiny(seed, size="tiny"):
    rng = np.random.default_rng([20, seed])
    raw = replace(random_model(rng, size), discount=float(rng.choice(DISCOUNTS)))
    return rng, raw


@pytest.mark.parametrize("block", range(5))
def test_brute_force_over_all_deterministic_policies(block):
    for seed in range(100 * block, 100 * (block + 1)):
        _, raw = tiny(seed)
        choices = [np.flatnonzero(row) for row in raw.allowed]
        size = np.prod([len(one) for one in choices])
        most = 64 if seed % 5 == 0 else 16
        steps = max((t for t in (2, 3) if size**t <= most), default=1)
        reward = [[Fraction(float(x)) for x in row] for row in raw.mean_reward]
        best = None
        for actions in itertools.product(itertools.product(*choices), repeat=steps):
            policy = np.eye(raw.n_actions)[np.array(actions)]
            d = exact_occupancy(raw, policy, steps)
            value = sum(x * r for row, paid in zip(d, reward, strict=True) for x, r in zip(row, paid, strict=True))
            best = value if best is None else max(best, value)
        solution = ca.solve(ca.Problem(raw.mdp(), horizon=steps)).require()
        scale = max(1.0, abs(float(best)))
        assert solution.objective == pytest.approx(float(best), abs=1e-9 * scale, rel=1e-12)
        # the mean of outcome rewards rounds in the model and in the test
        assert solution.upper_bound >= float(best) - 1e-12 * scale
        assert solution.gap <= 1e-6 * scale
        assert solution.policy.shape == solution.occupancy.shape == (steps, *raw.shape)
        assert solution.occupancy.sum() == pytest.approx(1)


def random_rows(rng, raw, steps):
    """Constraints, and the same as rows (S, A) and bounds for `sum(row * d) <= bound`."""
    left, right, kappa = layered(raw, steps)
    sides = [(0, None if ok else 0) for ok in np.broadcast_to(raw.allowed, (steps, *raw.shape)).ravel()]
    constraints, rows, bounds = [], [], []
    for _ in range(int(rng.integers(1, 4))):
        if rng.random() < 0.5:
            states = rng.choice(raw.n_states, max(1, raw.n_states // 3), replace=False)
            row, measure = np.zeros(raw.shape), ca.Exposure(states)
            row[states] = 1
        else:
            table = rng.normal(size=raw.shape)
            row, measure = table / kappa, ca.Return(table)
        flat = np.tile(row.ravel(), steps)
        low, high = (
            sign * scipy.optimize.linprog(sign * flat, None, None, left, right, sides, method="highs").fun
            for sign in (1, -1)
        )
        bound = low + rng.choice([-0.05, 0.02, 0.3, 0.7]) * max(high - low, 1e-3)
        constraints.append(measure <= bound if rng.random() < 0.5 else -1.0 * measure >= -bound)
        rows.append(row)
        bounds.append(bound)
    return constraints, np.array(rows), np.array(bounds)


@pytest.mark.parametrize("block", range(4))
def test_limits_against_highs(block):
    statuses = []
    for seed in range(15 * block, 15 * (block + 1)):
        rng, raw = tiny(seed, "small" if seed % 3 == 0 else "tiny")
        steps = int(rng.integers(1, 7))
        constraints, rows, bounds = random_rows(rng, raw, steps)
        left, right, kappa = layered(raw, steps)
        allowed = np.broadcast_to(raw.allowed, (steps, *raw.shape)).ravel()
        tiled = np.tile(rows.reshape(len(rows), -1), steps)
        gain = np.tile((raw.mean_reward / kappa).ravel(), steps)
        sides = [(0, None if ok else 0) for ok in allowed]
        truth = scipy.optimize.linprog(-gain, tiled, bounds, left, right, sides, method="highs")
        solution = ca.solve(ca.Problem(raw.mdp(), constraints=constraints, horizon=steps))
        statuses.append(solution.status.name)
        if truth.status == 2:
            assert solution.status is ca.Status.INFEASIBLE, seed
            continue
        assert solution.status is ca.Status.SOLVED, (seed, solution)
        scale = max(1.0, abs(truth.fun))
        assert solution.objective == pytest.approx(-truth.fun, abs=3e-6 * scale)
        assert solution.upper_bound >= -truth.fun - 1e-8 * scale
        d = exact_occupancy(raw, solution.policy, steps)
        whole = weight_of_steps(raw, steps)
        for row, constraint, value in zip(rows, constraints, solution.constraints, strict=True):
            measured = (
                sum(
                    Fraction(float(x)) * y
                    for given, used in zip(row, d, strict=True)
                    for x, y in zip(given, used, strict=True)
                )
                / whole
            )
            sign = 1 if constraint.sense == "<=" else -1
            kept = sign * measured if isinstance(constraint.measure, ca.Exposure | ca.Return) else measured
            assert float(kept) == pytest.approx(sign * value.value, rel=1e-9, abs=1e-12)
            assert value.slack >= 0
            assert value.price >= 0
        # prices bound what more room brings
        more = np.array([value.price for value in solution.constraints])
        wider = bounds + 0.05 * np.maximum(np.abs(bounds), 0.1)
        again = scipy.optimize.linprog(-gain, tiled, wider, left, right, sides, method="highs")
        assert -again.fun <= solution.upper_bound + more @ (wider - bounds) + 1e-7 * scale
    assert "SOLVED" in statuses
    assert "INFEASIBLE" in statuses


@pytest.mark.parametrize("kind", CONVEX_KINDS)
def test_convex_risks_against_cvxpy(kind):
    solved = 0
    for seed in range(6):
        rng = np.random.default_rng([21, seed])
        raw = replace(random_model(rng, "tiny" if seed % 2 else "small"), discount=float(rng.choice(DISCOUNTS[1:])))
        steps = int(rng.integers(2, 6))
        left, right, kappa = layered(raw, steps)
        # what the reference divides returns by
        seen = replace(raw, discount=1 - kappa)
        term = random_term(rng, replace(raw, discount=0.9), kind)
        caution = float(np.ptp(raw.mean_reward[raw.allowed])) / kappa * 10 ** rng.uniform(-1, 0.5)
        d = cp.Variable((steps, raw.allowed.size), nonneg=True)
        pairs = cp.reshape(cp.sum(d, axis=0), raw.shape, order="C")
        expression, more = reference._EXPRESSIONS[term.kind](seen, term.data, pairs)
        scale = max(1.0, float(np.abs(raw.mean_reward[raw.allowed]).max()) / kappa)
        gain = cp.sum(cp.multiply(pairs, raw.mean_reward / kappa / scale)) - caution / scale * expression
        flat = cp.reshape(d, (d.size,), order="C")
        program = cp.Problem(cp.Maximize(gain), [left @ flat == right, d[:, ~raw.allowed.ravel()] == 0, *more])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program.solve(solver="CLARABEL", **reference.CLARABEL_OPTIONS)
        problem = ca.Problem(raw.mdp(), getattr(ca, term.kind)(**term.data), caution, horizon=steps)
        solution = ca.solve(problem)
        if program.status.startswith("infeasible"):
            assert solution.status is ca.Status.INFEASIBLE, (seed, solution)
            continue
        assert solution.status is ca.Status.SOLVED, (seed, solution)
        solved += 1
        best = program.value * scale
        assert solution.objective == pytest.approx(best, abs=1e-5 * max(scale, abs(best)))
        # the policy is worth what is claimed
        found = np.array(exact_occupancy(raw, solution.policy, steps), dtype=float) * kappa
        worth = float(np.sum(found * raw.mean_reward)) / kappa - caution * reference.risk_value(seen, term, found)
        assert worth == pytest.approx(solution.objective, abs=1e-7 * max(scale, abs(best)))
    assert solved


@pytest.mark.parametrize("name", ["Variance", "CVaR"])
def test_scalar_risks_against_all_deterministic_policies(name):
    """Both are concave in the occupancy, so that a deterministic policy is best."""
    for seed in range(12):
        rng = np.random.default_rng([22, seed])
        raw = replace(random_model(rng, "tiny"), discount=float(rng.choice(DISCOUNTS)))
        choices = [np.flatnonzero(row) for row in raw.allowed]
        size = np.prod([len(one) for one in choices])
        steps = 3 if size**3 <= 512 else 2 if size**2 <= 600 else 1
        kappa = 1 / sum(raw.discount**t for t in range(steps))
        term = random_term(rng, raw, name)
        caution = 10 ** rng.uniform(-1, 1) / kappa
        values = []
        for actions in itertools.product(itertools.product(*choices), repeat=steps):
            mass, d = kappa * raw.start, np.zeros(raw.shape)
            for step in actions:
                own = mass[:, None] * np.eye(raw.n_actions)[list(step)]
                d += own
                mass = raw.discount * np.einsum("sa,sat->t", own, raw.kernel)
            values.append(np.sum(d * raw.mean_reward) / kappa - caution * reference.risk_value(raw, term, d))
        solution = ca.solve(ca.Problem(raw.mdp(), term.risk(), caution, horizon=steps))
        assert solution.certificate.kind == "global"
        assert solution.status is ca.Status.SOLVED, (seed, solution)
        scale = max(1.0, abs(max(values)))
        assert solution.objective == pytest.approx(max(values), abs=2e-6 * scale)
        assert solution.upper_bound >= max(values) - 1e-9 * scale


def test_many_steps_approach_the_discounted_problem():
    mdp = ca.worlds.machine_replacement()
    limit = [ca.Exposure("broken") <= 0.004]
    finite = ca.solve(ca.Problem(mdp, constraints=limit, horizon=700)).require()
    forever = ca.solve(ca.Problem(mdp, constraints=limit)).require()
    assert finite.objective == pytest.approx(forever.objective, abs=1e-3 * abs(forever.objective))


def test_one_step_has_a_closed_form():
    mdp = ca.MDP(np.ones((1, 2, 1)), [[1.0, 3.0]], discount=1.0)
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Return([[0.0, 1.0]]) <= 0.25], horizon=1)).require()
    assert solution.objective == pytest.approx(1.5, abs=2e-6)
    assert solution.constraints[0].price == pytest.approx(2.0, abs=1e-5)


def test_pairs_may_be_forbidden_only_while_they_matter():
    """A state that leads into the forbidden one may be entered at the last step."""
    forward = np.zeros((3, 2, 3))
    forward[0, 0, 0] = forward[0, 1, 1] = forward[1, :, 2] = forward[2, :, 2] = 1
    rewards = np.array([[0.0, 5.0], [7.0, 7.0], [0.0, 0.0]])
    mdp = ca.MDP(forward, rewards, discount=1.0, start=[1, 0, 0])
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([2]) <= 0], horizon=4)).require()
    # wait twice, then go and be paid once more
    assert solution.objective == pytest.approx(12)
    assert solution.occupancy[:, 2].sum() == 0
    blocked = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([1, 2]) <= 0], horizon=4)).require()
    # where the last step leads is not counted any more
    assert blocked.objective == pytest.approx(5)
    from_one = ca.MDP(forward, rewards, discount=1.0, start=[0, 1, 0])
    impossible = ca.solve(ca.Problem(from_one, constraints=[ca.Exposure([2]) <= 0], horizon=2))
    assert impossible.status is ca.Status.INFEASIBLE


def test_a_users_own_risk():
    class Spread(ca.Risk):
        def value(self, d):
            return 0.5 * float(np.sum((d - 1 / d.size) ** 2))

        def gradient(self, d):
            return d - 1 / d.size

    raw = random_model(np.random.default_rng(5), "tiny")
    mdp = replace(raw, discount=1.0).mdp()
    same = ca.Quadratic(np.full(mdp.shape, 1 / mdp.allowed.size))
    scale = float(np.ptp(raw.mean_reward)) + 1
    own = ca.solve(ca.Problem(mdp, Spread(), 3 * scale, horizon=5)).require()
    known = ca.solve(ca.Problem(mdp, same, 3 * scale, horizon=5)).require()
    assert own.objective == pytest.approx(known.objective, abs=1e-5 * max(1, abs(known.objective)))


def test_a_policy_as_prior_is_used_at_every_step():
    raw = random_model(np.random.default_rng(6), "tiny", masks=False)
    policy = random_policy(np.random.default_rng(7), raw)
    solution = ca.solve(ca.Problem(raw.mdp(), ca.KL(policy), 1e3, horizon=4)).require()
    assert solution.risk == pytest.approx(0, abs=1e-3)
    assert solution.policy == pytest.approx(np.broadcast_to(policy, solution.policy.shape), abs=0.2)


def test_what_a_horizon_must_be():
    mdp = ca.MDP(np.ones((1, 1, 1)), [[1.0]], discount=1.0)
    with pytest.raises(ca.InputError, match="discount is 1, and without a horizon"):
        ca.Problem(mdp)
    for bad in (0, -3, 2.5, True, "monthly", [3], 10**30):
        with pytest.raises(ca.InputError, match="horizon"):
            ca.Problem(mdp, horizon=bad)
    discounted = ca.MDP(np.ones((1, 1, 1)), [[1.0]], discount=0.9)
    for kind in ("average", "total"):
        with pytest.raises(ca.InputError, match="make the model with discount=1"):
            ca.Problem(discounted, horizon=kind)
    with pytest.raises(ca.InputError, match=r"discount is 1\.1"):
        ca.MDP(np.ones((1, 1, 1)), [[1.0]], discount=1.1)
    assert ca.solve(ca.Problem(mdp, horizon=np.int64(7))).objective == pytest.approx(7)


def test_a_horizon_that_no_memory_holds_is_refused_before_any_work():
    mdp = ca.MDP(np.full((1000, 1, 1000), 1e-3), np.zeros((1000, 1)), discount=1.0)
    with pytest.raises(ca.MemoryLimitError, match=r"horizon is 10,000,000: .* 1,000 states and 1 actions"):
        ca.Problem(mdp, horizon=10**7)


def test_the_model_is_not_written_out_for_every_step():
    rows = sp.csr_array(sp.csr_array(sp.eye_array(2000))[np.repeat(np.arange(2000), 3)])
    mdp = ca.MDP(rows, np.zeros((2000, 3)), discount=1.0)
    assert ca.Problem(mdp, horizon=50).mdp.transitions is mdp.transitions
