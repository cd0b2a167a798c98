"""Distributions of the return: exact where they are lists, and bounds that hold the truth elsewhere."""

import math
from fractions import Fraction

import numpy as np
import pytest

import cautious as ca
from cautious.returns.plain import PlainPolicy, is_affordable

LEVELS = (0.0, 0.3, 0.75, 0.95)
SHARES = (0.03, 0.21, 0.5, 0.77, 0.98)


def by_all_paths(mdp, policy, steps):
    """Returns and chances after so many steps, by every path, in fractions; rewards are whole."""
    states = {(s, Fraction(0)): Fraction(p).limit_denominator(10**6) for s, p in enumerate(mdp.start) if p > 0}
    discount = Fraction(mdp.discount).limit_denominator(1000)
    for t in range(steps):
        after: dict = {}
        table = policy[t] if policy.ndim == 3 else policy
        for (state, earned), chance in states.items():
            for action in np.flatnonzero(table[state]):
                row = state * mdp.n_actions + action
                share = chance * Fraction(table[state, action]).limit_denominator(10**6)
                for k in range(mdp.transitions.indptr[row], mdp.transitions.indptr[row + 1]):
                    paid = Fraction(mdp.outcome_rewards[k]).limit_denominator(10**6)
                    place = (int(mdp.transitions.indices[k]), earned + discount**t * paid)
                    one = Fraction(mdp.transitions.data[k]).limit_denominator(10**6)
                    after[place] = after.get(place, 0) + share * one
        states = after
    whole: dict = {}
    for (_, earned), chance in states.items():
        whole[earned] = whole.get(earned, 0) + chance
    return sorted(whole.items())


def tiny(rng, discount):
    """Three states, two actions, chances in quarters, whole rewards."""
    transitions = np.zeros((3, 2, 3))
    for row in transitions.reshape(-1, 3):
        ends = rng.choice(3, size=2, replace=False)
        row[ends[0]] = rng.choice([0.25, 0.5, 0.75])
        row[ends[1]] = 1 - row[ends[0]]
    return ca.MDP(
        transitions, rng.integers(-3, 4, (3, 2, 3)).astype(float), discount, start=np.array([0.5, 0.25, 0.25])
    )


def tail_of(atoms, level):
    """The mean of the worst share, by its definition."""
    left, total = 1 - level, 0.0
    for value, chance in atoms:
        taken = min(left, float(chance))
        total, left = total + taken * float(value), left - taken
    return -total / (1 - level)


def quantile_of(atoms, share):
    reached = 0.0
    for value, chance in atoms:
        reached += float(chance)
        if reached >= share * (1 - 1e-12):
            return float(value)
    return float(atoms[-1][0])


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("discount", [1.0, 0.5])
def test_over_some_steps_everything_is_exact(seed, discount):
    rng = np.random.default_rng(seed)
    mdp = tiny(rng, discount)
    policy = rng.choice([0.25, 0.5, 1.0], size=(5, 3, 1))
    policy = np.concatenate([policy, 1 - policy], axis=2)
    atoms = by_all_paths(mdp, policy, 5)
    found = PlainPolicy(mdp.with_horizon(5), policy).followed().returns
    assert found.is_exact
    assert found.resolution == 0
    assert found.expectation == pytest.approx(float(sum(v * p for v, p in atoms)), abs=1e-12)
    for level in LEVELS:
        assert found.cvar(level) == pytest.approx((tail_of(atoms, level),) * 2, abs=1e-9)
    for share in SHARES:
        assert found.quantile(share) == pytest.approx((quantile_of(atoms, share),) * 2, abs=1e-9)
    for value, _ in atoms[:: max(1, len(atoms) // 5)]:
        exactly = float(sum(p for v, p in atoms if v < value))
        assert found.below(float(value)) == pytest.approx((exactly, exactly), abs=1e-12)


@pytest.mark.parametrize("seed", range(2))
def test_for_ever_the_bounds_hold_the_truth(seed, monkeypatch):
    """With a discount of a half, 9 steps leave 3 / 2^8 open; a coarse grid, so that bounds matter."""
    monkeypatch.setattr("cautious.returns.plain.MOST_NODES", 60)
    rng = np.random.default_rng(seed)
    mdp = tiny(rng, 0.5)
    first = rng.choice([0.0, 0.25, 0.5], size=(3, 1))
    policy = np.concatenate([first, 1 - first], axis=1)
    atoms, late = by_all_paths(mdp, policy, 9), 3 * 0.5**8
    found = PlainPolicy(mdp, policy).followed().returns
    assert not found.is_exact
    assert 0 < found.resolution < 0.2
    for level in LEVELS:
        low, high = found.cvar(level)
        assert low - late <= tail_of(atoms, level) <= high + late
        assert high - low < 0.5
    for share in SHARES:
        low, high = found.quantile(share)
        assert low - late <= quantile_of(atoms, share) <= high + late
        assert high - low < 1.5
    for x in np.linspace(float(atoms[0][0]), float(atoms[-1][0]), 40):
        low, high = found.below(x)
        assert low <= float(sum(p for v, p in atoms if v < x + late)) + 1e-9
        assert high >= float(sum(p for v, p in atoms if v < x - late)) - 1e-9


def test_finer_grids_have_a_finer_resolution():
    mdp = ca.worlds.river_swim()
    policy = ca.solve(ca.Problem(mdp)).policy
    fine = PlainPolicy(mdp, policy).followed().returns
    coarse = PlainPolicy(mdp, policy, most_moves=1e6).followed().returns
    assert fine.resolution < 0.3 * coarse.resolution
    for one in (fine, coarse):
        assert one.expectation == pytest.approx(fine.expectation, rel=1e-9)
        assert one.variance == pytest.approx(fine.variance, rel=1e-9)
    for share in SHARES:
        (low, high), (least, most) = fine.quantile(share), coarse.quantile(share)
        assert max(low, least) <= min(high, most)


@pytest.mark.parametrize("horizon", [None, 15, "total"])
def test_solutions_know_how_their_return_is_distributed(horizon):
    mdp = ca.worlds.river_swim(discount=0.9)
    if horizon == "total":
        rows = mdp.transitions.toarray().reshape(6, 2, 6)
        rows[5], discount = np.eye(6)[5], 1.0
        mdp = ca.MDP(rows, np.where(np.arange(6)[:, None] < 5, -1.0, 0.0) * np.ones((6, 2)), discount, mdp.start)
    for problem in (ca.Problem(mdp, horizon=horizon), ca.Problem(mdp, ca.ReturnVariance(), 0.1, horizon=horizon)):
        solution = ca.solve(problem, tolerance=1e-2)
        found = solution.return_distribution()
        assert found.expectation == pytest.approx(solution.expected_return, rel=1e-6)
        simulated = ca.evaluate(mdp, solution, episodes=4000)
        assert simulated.exact_returns.variance == pytest.approx(found.variance, rel=1e-9)
        for percent, (low, high) in simulated.quantile_intervals.items():
            least, most = found.quantile(percent / 100)
            # intervals of 95 %, and episodes that are cut
            assert max(low, least) <= min(high, most) + 0.1 * math.sqrt(found.variance)
        rows = {row[0]: row for row in simulated.table()}
        worst = rows["mean of the worst 5 % of the returns"]
        low, high = worst[2] if isinstance(worst[2], tuple) else (worst[2], worst[2])
        unsure = 0.15 * math.sqrt(found.variance)
        assert low - unsure <= worst[1] <= high + unsure


def test_a_certain_return_is_one_number():
    mdp = ca.MDP(np.ones((1, 1, 1)), np.ones((1, 1)), 0.9)
    found = ca.solve(ca.Problem(mdp)).return_distribution()
    assert found.quantile(0.3) == pytest.approx((10.0, 10.0), rel=1e-6)
    assert found.cvar(0.9) == pytest.approx((-10.0, -10.0), rel=1e-6)
    assert found.below(9.99) == (0.0, 0.0)
    assert found.below(10.01) == pytest.approx((1.0, 1.0))


def test_what_has_no_distribution_is_refused():
    mdp = ca.worlds.river_swim(discount=1.0)
    with pytest.raises(ca.IncompatibleError, match="no episode ends"):
        ca.solve(ca.Problem(mdp, horizon="average")).return_distribution()
    swim = ca.worlds.river_swim()
    spread = ca.MDP(swim.transitions, swim.rewards, 0.9, reward_square=swim.rewards**2 + 1)
    with pytest.raises(ca.IncompatibleError, match="reward_square"):
        ca.solve(ca.Problem(spread)).return_distribution()
    found = ca.solve(ca.Problem(swim, horizon=4)).return_distribution()
    for wrong in (0.0, 1.0, math.nan, "half"):
        with pytest.raises(ca.InputError, match="share"):
            found.quantile(wrong)
    with pytest.raises(ca.InputError, match="level"):
        found.cvar(1.0)


def test_large_models_are_not_followed_unasked():
    garnet = ca.worlds.garnet(3000, 3, 20, discount=0.99)
    policy = np.full(garnet.shape, 1 / 3)
    assert not is_affordable(garnet, policy)
    assert ca.evaluate(garnet, policy, episodes=2, horizon=5).exact_returns is None


def played_by_all_paths(mdp, memory, steps):
    """Returns and chances of a policy with memory, by every path of the first steps."""
    places = {(s, int(memory.first()), 0.0): p for s, p in enumerate(mdp.start) if p > 0}
    for t in range(steps):
        after: dict = {}
        for (state, node, earned), chance in places.items():
            row = state * mdp.n_actions + int(memory.tables[t].at(np.array(state), np.array(node)))
            for k in range(mdp.transitions.indptr[row], mdp.transitions.indptr[row + 1]):
                paid = float(mdp.rewards.ravel()[row] if mdp.outcome_rewards is None else mdp.outcome_rewards[k])
                moved = int(memory.moved(t, np.array(node), np.array(paid)))
                place = (int(mdp.transitions.indices[k]), moved, round(earned + mdp.discount**t * paid, 12))
                after[place] = after.get(place, 0.0) + chance * float(mdp.transitions.data[k])
        places = after
    whole: dict = {}
    for (_, _, earned), chance in places.items():
        whole[earned] = whole.get(earned, 0.0) + chance
    return sorted(whole.items())


@pytest.mark.parametrize("risk", [ca.ReturnVariance(), ca.ReturnCVaR(0.6)], ids=lambda risk: risk.label)
def test_policies_with_memory_are_followed_more_finely_than_they_remember(risk):
    mdp = tiny(np.random.default_rng(5), 0.5)
    solution = ca.solve(ca.Problem(mdp, risk, 0.7), tolerance=1e-3)
    steps = min(10, solution.memory_policy.n_steps)
    atoms, late = played_by_all_paths(mdp, solution.memory_policy, steps), 6 * 0.5**steps
    found = solution.return_distribution()
    assert found.expectation == pytest.approx(solution.expected_return, abs=1e-9)
    assert found.variance == pytest.approx(ca.evaluate(mdp, solution, episodes=2).exact_variance, abs=1e-9)
    assert found.resolution < 0.02
    for share in SHARES:
        low, high = found.quantile(share)
        assert low - late <= quantile_of(atoms, share) <= high + late
    for level in LEVELS:
        low, high = found.cvar(level)
        assert low - late <= tail_of(atoms, level) <= high + late
        assert high - low < 0.01


def test_a_return_without_spread_needs_few_nodes():
    """Nodes closer than rounding filled what rounding leaves open: three million of them at every step."""
    mdp = ca.MDP(np.array([[[0.0, 1.0]], [[0.0, 1.0]]]), [[1.0], [2.0]], 0.99, start=[1.0, 0.0])
    played = PlainPolicy(mdp, np.ones((2, 1)))
    _, tracker = played.tracked(near=played.mean)
    assert max(grid.count for grid in tracker.grids) < 1000
    low, high = played.followed(near=played.mean).returns.cvar(0.99)
    assert low - 1e-9 <= -199 <= high + 1e-9
    assert high - low < 1e-9
