"""Rewards far beyond the objective, rounding beyond the tolerance, numbers near the end of double precision."""

import numpy as np
import pytest

import cautious as ca
from cautious.certificate.bounds import Box, Cover, Witness, upper_bound
from cautious.solvers.refinement import refined

PRIOR = np.array([[0.7, 0.3]])


def all_risks(mdp):
    """One of every kind, with data that fits any model."""
    (n_states, n_actions), rng = mdp.shape, np.random.default_rng(3)
    pairs, states = np.full(mdp.shape, 1 / (n_states * n_actions)), np.full(n_states, 1 / n_states)
    tasks = rng.random((2, *mdp.shape))
    return {
        "none": None,
        "KL": ca.KL(pairs),
        "KL states": ca.KL(states),
        "Entropy": ca.Entropy(),
        "TotalVariation": ca.TotalVariation(pairs),
        "Quadratic": ca.Quadratic(pairs),
        "Wasserstein": ca.Wasserstein(states, 1.0 - np.eye(n_states)),
        "PeakExposure": ca.PeakExposure([[0], list(range(n_states))]),
        "WorstTask": ca.WorstTask(tasks),
        "SafeSet": ca.SafeSet([0], 0.95),
        "TaskFloors": ca.TaskFloors(tasks, np.full(2, 0.01 / (1 - mdp.discount) if mdp.discount < 1 else 0.01)),
        "Variance": ca.Variance(),
        "CVaR": ca.CVaR(0.9),
        "Variance + KL": ca.Variance() + ca.KL(pairs),
        "CVaR + TotalVariation": ca.CVaR(0.5) + ca.TotalVariation(pairs),
    }


@pytest.mark.parametrize("caution", [1e-3, 0.127, 10.0])
def test_rounding_of_the_gap_does_not_make_a_solve_endless(caution):
    """A free action and one that costs ten: the rounding of the return alone used to exceed the tolerance."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9999)
    solution = ca.solve(ca.Problem(mdp, ca.TotalVariation(PRIOR), caution), time_limit_seconds=20)
    assert solution.status is ca.Status.SOLVED
    # return minus caution times half the distance, at its best by hand
    share = np.linspace(0, 0.3, 3)
    worth = -10 * share / (1 - 0.9999) - caution * (0.3 - share)
    assert solution.objective == pytest.approx(worth.max(), abs=2e-6 * max(1, abs(worth.max())))


@pytest.mark.parametrize("discount", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_costs_with_a_free_way_out(name, discount):
    """The objective is near zero, the rewards are not."""
    rng = np.random.default_rng(5)
    transitions = rng.dirichlet(np.ones(4), size=(4, 3))
    rewards = -1e3 * rng.random((4, 3))
    rewards[:, 0] = 0.0
    mdp = ca.MDP(transitions, rewards, discount)
    solution = ca.solve(ca.Problem(mdp, all_risks(mdp)[name], 0.3), time_limit_seconds=20)
    assert solution.status is ca.Status.SOLVED


@pytest.mark.parametrize("penalty", [-1e5, -1e8])
@pytest.mark.parametrize("discount", [0.9, 0.9999])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_one_large_penalty_that_nobody_pays_costs_no_digits(name, discount, penalty):
    rng = np.random.default_rng(0)
    transitions, rewards = rng.dirichlet(np.ones(6), size=(6, 3)), rng.random((6, 3))
    rewards[2, 1] = penalty
    mdp = ca.MDP(transitions, rewards, discount)
    found = ca.solve(ca.Problem(mdp, all_risks(mdp)[name]), time_limit_seconds=20)
    assert found.status is ca.Status.SOLVED
    # nobody pays it, so that forbidding the pair changes hardly anything
    allowed = np.ones((6, 3), dtype=bool)
    allowed[2, 1] = False
    without = ca.MDP(transitions, rewards, discount, allowed=allowed)
    other = ca.solve(ca.Problem(without, all_risks(mdp)[name]), time_limit_seconds=20)
    room = 3e-6 * max(1.0, abs(other.objective))
    assert found.objective == pytest.approx(other.objective, abs=room)


@pytest.mark.parametrize("horizon", [3, "average", "total"])
def test_large_penalties_that_nobody_pays_cost_no_digits_with_any_horizon(horizon):
    rng, penalty = np.random.default_rng(0), -1e9
    transitions, rewards = rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2))
    rewards[:, 1] = penalty * rng.random(4)
    if horizon == "total":
        # the last state is the end
        transitions[:3, :, 3] += 0.2
        transitions /= transitions.sum(axis=2, keepdims=True)
        transitions[3], rewards[3] = np.eye(4)[3], 0.0
    mdp = ca.MDP(transitions, rewards, discount=0.9 if horizon == 3 else 1.0)
    names = ["KL", "TotalVariation", "Quadratic", "PeakExposure"]
    if horizon != "total":
        names += ["Wasserstein", "SafeSet", "Variance"]
    for name in names:
        risk = all_risks(mdp)[name]
        solution = ca.solve(ca.Problem(mdp, risk, horizon=horizon), time_limit_seconds=20)
        assert solution.status is ca.Status.SOLVED, name
        assert ca.verify(solution).proved, name


def test_variance_beside_an_unused_penalty():
    """Ten steps' worth of the reward one, without any variance."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[1.0, -1e8]], discount=0.9)
    solution = ca.solve(ca.Problem(mdp, ca.Variance(), 1.0))
    assert solution.status is ca.Status.SOLVED
    assert solution.objective == pytest.approx(10.0, abs=1e-6)


@pytest.mark.parametrize("penalty", [-3e9, -3e10, -3e11])
@pytest.mark.parametrize("risk", [ca.Variance(), ca.Variance() + ca.CVaR(0.9)])
def test_a_penalty_far_away_from_the_best_mean_keeps_no_box_open(risk, penalty):
    """Over the widest range of means rounding left 1e8 open, and narrower ranges were not tried."""
    rows = np.array([[[0.5, 0.5, 0], [0, 1, 0]], [[0, 1, 0], [0, 1, 0]], [[0, 0.5, 0.5], [0, 0, 1]]])
    mdp = ca.MDP(rows, [[0.35, 0.29], [penalty, 0.62], [1.0, 0.15]], 0.9999)
    solution = ca.solve(ca.Problem(mdp, risk, 0.1))
    assert solution.status is ca.Status.SOLVED
    assert ca.verify(solution).proved


TWO = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]])


def test_a_system_that_is_not_finite_ends_a_solver_and_not_the_solve(monkeypatch):
    """Prices of floors may overflow on the way; another solver takes over."""
    from cautious.solvers.dual_newton.entropic_dual import Dual

    border = Dual._border
    monkeypatch.setattr(Dual, "_border", lambda *given: (border(*given)[0], np.full((1, 1), np.nan)))
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, 0.5]], 0.9)
    risk = ca.KL(np.full((2, 2), 0.25)) + ca.SafeSet([0], 0.9)
    solution = ca.solve(ca.Problem(mdp, risk))
    assert solution.status is ca.Status.SOLVED
    assert solution.method != "dual Newton"


@pytest.mark.parametrize("caution", [0.0, 1e-310])
def test_limits_are_kept_without_caution(caution):
    """A limit that is not kept was worth 0 times infinity, which is not a number and beaten by nothing."""
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, 0.5]], 0.9)
    prior = np.array([[0.4, 0.1], [0.1, 0.4]])
    for limit in (ca.KL(prior) <= 0.1, ca.TotalVariation(prior) <= 0.1, ca.Exposure([0]) >= 0.5):
        without = ca.solve(ca.Problem(mdp, constraints=[limit]))
        found = ca.solve(ca.Problem(mdp, ca.Entropy(), caution, constraints=[limit]))
        assert found.status is ca.Status.SOLVED
        assert found.objective == pytest.approx(without.objective, abs=2e-5)


@pytest.mark.parametrize("size", [1e308, -1e308, 1e306])
@pytest.mark.parametrize(
    "risk",
    [
        lambda x: ca.WorstTask(np.full((1, 2, 2), x)),
        lambda x: ca.TaskFloors(np.full((1, 2, 2), x), [0.0]),
        lambda x: ca.TaskFloors(np.ones((1, 2, 2)), [x]),
        lambda x: ca.Wasserstein([0.5, 0.5], abs(x) * (1 - np.eye(2))),
        lambda x: abs(x) * ca.KL(np.full((2, 2), 0.25)),
        lambda x: abs(x) * ca.Variance(),
    ],
)
def test_numbers_beyond_double_precision_are_refused(risk, size):
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, -1.0]], 0.9)
    with pytest.raises(ca.InputError, match="double precision"):
        ca.Problem(mdp, risk(size))


@pytest.mark.parametrize("bound", [1e308, -1e308])
def test_limits_beyond_double_precision_are_refused(bound):
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, -1.0]], 0.9)
    with pytest.raises(ca.InputError, match="double precision"):
        ca.Problem(mdp, constraints=[ca.KL(np.full((2, 2), 0.25)) <= bound])


@pytest.mark.parametrize("size", [1e300, -1e300, 1e155, -1e30])
@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_huge_numbers_end_in_an_answer(name, size, capfd):
    """Whatever the status: no error from linear algebra, no message of a library, and the gap is a true statement."""
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, size]], 0.9)
    if "Variance" in name and abs(size) > 1e150:
        with pytest.raises(ca.InputError):
            ca.Problem(mdp, all_risks(mdp)[name])
        return
    solution = ca.solve(ca.Problem(mdp, all_risks(mdp)[name]), time_limit_seconds=20)
    assert solution.gap >= 0
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", all_risks(ca.MDP(np.ones((1, 2, 1)), [[0, -10]], discount=0.9)))
def test_a_witness_still_proves_its_bound_when_the_solver_has_gone_on(name):
    """What a solver sends must not be a view of numbers that it goes on changing."""
    for seed in range(8):
        rng = np.random.default_rng([11, seed])
        mdp = ca.MDP(rng.dirichlet(np.ones(5), size=(5, 3)), 100 * rng.random((5, 3)), 0.999)
        problem = ca.Problem(mdp, all_risks(mdp)[name], 1e3)
        certificate = ca.solve(problem, tolerance=1e-9).certificate
        if isinstance(certificate.witness, Witness | Cover):
            assert upper_bound(problem, certificate.witness) <= certificate.upper_bound


@pytest.mark.parametrize("caution", [1.0, 30.0])
@pytest.mark.parametrize("slack", [1e-4, 1e-6])
@pytest.mark.parametrize("discount", [0.9999, 0.99999])
def test_narrow_barriers_near_a_discount_of_one(discount, slack, caution):
    """An occupancy is known up to rounding / (1 - discount), which such a slack magnifies; values tell more."""
    rng = np.random.default_rng(17)
    transitions, rewards = rng.dirichlet(np.ones(6), size=(6, 3)), rng.integers(-1, 2, (6, 3)).astype(float)
    mdp = ca.MDP(transitions, rewards, discount)
    inside = np.zeros((6, 3))
    inside[:2] = 1.0
    most = (1 - discount) * ca.solve(ca.Problem(ca.MDP(transitions, inside, discount))).objective
    found = ca.solve(ca.Problem(mdp, ca.SafeSet([0, 1], 1 - most + slack), caution))
    assert found.status is ca.Status.SOLVED
    # a floor from below and one from above: the return of this task stays in a narrow band
    task = rng.normal(size=(6, 3))
    here = float(np.sum(found.occupancy * task)) / (1 - discount)
    room = slack / (1 - discount)
    band = ca.TaskFloors(np.array([task, -task]), [here - room, -here - room])
    kept = ca.solve(ca.Problem(mdp, band, caution))
    assert kept.status is ca.Status.SOLVED
    assert kept.gap < 1e-6 * max(1.0, abs(kept.objective))


@pytest.mark.parametrize("seed", range(5))
def test_largest_exposures_with_much_caution_near_a_discount_of_one(seed):
    """The exposure's error times the caution was more than the tolerance."""
    rng = np.random.default_rng(seed)
    costs = -1e3 * rng.random((8, 30)) * (rng.random((8, 30)) < 0.7)
    costs[:, 0] = 0.0
    mdp = ca.MDP(np.eye(8)[rng.integers(8, size=(8, 30))], costs, 0.9999)
    assert ca.solve(ca.Problem(mdp, ca.PeakExposure([[0, 2, 4, 6, 7]]), 1e7)).status is ca.Status.SOLVED


def test_tangents_at_the_only_policy():
    """Slopes of a barrier were less exact than the policy: a gap of 2.7 where there is no choice."""
    rows = np.array([[0.45, 0.5, 0.05], [0.24, 0.14, 0.62], [0.18, 0.51, 0.31]])
    mdp = ca.MDP(rows.reshape(3, 1, 3), np.zeros((3, 1)), 0.99, start=[1, 0, 0])
    tasks = np.array([[-27.0, 10.7, 82.7], [68.8, 41.9, 106.7]]).reshape(2, 3, 1)
    floors = np.einsum("jsa,sa->j", tasks, ca.solve(ca.Problem(mdp)).occupancy) * 100 - 0.02
    risk = ca.TaskFloors(tasks, floors) + 0.06 * ca.TotalVariation([0.13, 0.5, 0.37])
    assert ca.solve(ca.Problem(mdp, risk, 190.0)).status is ca.Status.SOLVED


@pytest.mark.filterwarnings("error")
def test_slopes_beyond_double_precision_warn_nobody():
    """Beside a slack of nothing a solver may send infinite weights; they prove nothing."""
    rows = np.array([[0.01, 0.69, 0.3], [0.84, 0.08, 0.08], [0.0, 0.0, 1.0]])
    mdp = ca.MDP(rows.reshape(3, 1, 3), [[-1.7e4], [-0.07], [-1400.0]], 0.999, start=[0, 0, 1])
    assert not np.isfinite(ca.solve(ca.Problem(mdp, ca.SafeSet([1], 1.0), 708.0)).objective)


def test_distance_at_a_kink_has_an_error():
    """The slope is zero where occupancy and prior agree; what the occupancy may be off is not."""
    mdp = ca.MDP(np.ones((1, 3, 1)), [[0.0, -1.0, -1.0]], 0.9)
    solution = ca.solve(ca.Problem(mdp, ca.TotalVariation([[1.0, 0.0, 0.0]])))
    assert solution.certificate.objective_error > 0


def test_witnesses_without_lines_are_left_as_they_are():
    """A run may end before every risk has its line: such a witness proves nothing, and breaks nothing."""
    mdp = ca.MDP(TWO, [[0.0, 1.0], [2.0, -1.0]], 0.9)
    bare = Witness(np.zeros(2))
    convex = ca.Problem(mdp, ca.Entropy())
    assert refined(convex, bare) is bare
    mixed = ca.Problem(mdp, ca.Variance() + ca.Entropy())
    cover = Cover((Box((-1.0,), (2.0,), (0.0,), bare),))
    assert refined(mixed, cover) == cover
    assert upper_bound(mixed, cover) == np.inf


def test_rates_of_returns_beyond_double_precision():
    """Squares of returns overflowed, and a rate that vanished failed an assertion."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[-1e155, 0.5]], 0.9)
    assert ca.solve(ca.Problem(mdp, ca.ReturnEntropic(1e-308)), time_limit_seconds=5).gap >= 0
    once = ca.Problem(ca.MDP(np.ones((1, 2, 1)), [[-1e155, 0.5]], 1.0), ca.ReturnEVaR(0.9), 1e-300, horizon=1)
    assert ca.solve(once, time_limit_seconds=5).gap >= 0
