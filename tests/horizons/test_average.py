"""Long-run averages: against brute force in exact fractions, linear and cone programs of others, and simulation."""

import cvxpy as cp
import long_runs
import numpy as np
import pytest

import cautious as ca
from cautious.horizons.recurrence import uniform_on
from cautious.occupancy import policy_occupancy
from cautious.planning import plan

AVERAGE = "average"


def two_places(staying=1.0):
    """Stay in one of two places, or go to the other one through a third state: the optimum may stay in both."""
    transitions = np.zeros((3, 3, 3))
    for place, other in ((0, 2), (2, 0)):
        transitions[place, 0, place] += staying
        transitions[place, 0, 1] += 1 - staying
        transitions[place, 1:, 1] = 1
        transitions[1, 1 if place else 2, place] = 1
        transitions[1, 0, other] = 0.5
    rewards = np.array([[1.0, 0.0, 0.0], [-1.0, -1.0, -1.0], [0.2, 0.0, 0.0]])
    return ca.MDP(transitions, rewards, discount=1, start=[1.0, 0.0, 0.0])


@pytest.mark.parametrize("n_models", [60, pytest.param(500, marks=pytest.mark.slow)])
def test_gains_of_tiny_models_by_brute_force(n_models):
    """Periodic chains, transient states, multichain policies and forbidden actions, in exact fractions."""
    rng, checked, refused = np.random.default_rng(0), 0, 0
    while checked < n_models:
        mdp = long_runs.random_model(rng)
        try:
            problem = ca.Problem(mdp, horizon=AVERAGE)
        except ca.IncompatibleError:
            refused += 1
            continue
        best = long_runs.best_gain(mdp)
        found = plan(problem.mdp, mdp.rewards, allowed=problem.kept)
        assert found.lower <= best <= found.upper
        assert found.upper - found.lower <= 1e-9
        if checked % 5 == 0:
            solution = ca.solve(problem).require()
            assert solution.objective - solution.certificate.objective_error <= best <= solution.upper_bound
            kernel = mdp.under(solution.policy).toarray()
            shares = np.array([float(x) for x in long_runs.exact_occupancy(kernel, mdp.start)])
            assert np.sum(shares[:, None] * solution.policy * mdp.rewards) == pytest.approx(float(best), abs=1e-6)
        checked += 1
    assert refused > 0 or n_models < 500


@pytest.mark.parametrize("rare", [0.0, 1e-4, 1e-7, 1e-10, 1e-13])
def test_occupancies_are_as_near_as_they_say(rare):
    rng, errors = np.random.default_rng(1), []
    for _ in range(60):
        n = int(rng.integers(1, 9))
        chain = np.zeros((n, n))
        for s in range(n):
            count = min(n, int(rng.integers(1, 4)))
            chances = rng.dirichlet(np.ones(count))
            if rare and count > 1 and rng.random() < 0.7:
                chances[1:] = rare * rng.random(count - 1)
                chances[0] = 1 - chances[1:].sum()
            chain[s, rng.choice(n, count, replace=False)] = chances
        start = rng.dirichlet(np.ones(n))
        mdp = ca.MDP(chain[:, None], np.zeros((n, 1)), discount=1, start=start).with_horizon(AVERAGE)
        found = policy_occupancy(mdp, np.ones((n, 1)))
        exact = long_runs.exact_occupancy(chain, start)
        distance = sum(abs(float(x) - share) for x, share in zip(found.occupancy[:, 0], exact, strict=True))
        assert distance <= found.error
        errors.append(found.error)
    assert np.median(errors) < 1e-12
    # the largest are those of transient states that lead to each other often, and to two classes hardly ever
    assert np.quantile(errors, 0.9) < 1e-4


def test_limits_against_highs():
    """Optima that stay in several places at once included; what HiGHS finds impossible is proved impossible."""
    rng, checked = np.random.default_rng(5), {"SOLVED": 0, "INFEASIBLE": 0}
    while sum(checked.values()) < 80:
        mdp = long_runs.random_model(rng, largest=8, staying=0.5)
        try:
            problem = ca.Problem(mdp, horizon=AVERAGE)
        except ca.IncompatibleError:
            continue
        table = rng.random(mdp.shape)
        reached = float(np.sum(ca.solve(problem).occupancy * table)) * rng.uniform(0.7, 1)
        states = [int(s) for s in rng.choice(mdp.n_states, max(1, mdp.n_states // 2), replace=False)]
        inside = np.repeat(np.isin(np.arange(mdp.n_states), states), mdp.n_actions).astype(float)
        for limit, feature, bound in (
            (ca.Return(table) <= reached, table.ravel(), reached),
            (ca.Exposure(states) <= 0.37, inside, 0.37),
        ):
            best = long_runs.linear_optimum(mdp, [feature], [bound])
            solution = ca.solve(ca.Problem(mdp, constraints=[limit], horizon=AVERAGE))
            assert solution.status.name == ("INFEASIBLE" if best is None else "SOLVED")
            checked[solution.status.name] += 1
            if best is not None:
                assert solution.objective == pytest.approx(best, abs=2e-6, rel=2e-6)
                assert solution.upper_bound >= best - 1e-9
                # the delivered policy itself keeps the limit, whatever closed classes it was read off
                kernel = mdp.under(solution.policy).toarray()
                shares = np.array([float(x) for x in long_runs.exact_occupancy(kernel, mdp.start)])
                assert feature @ (shares[:, None] * solution.policy).ravel() <= bound
    assert min(checked.values()) > 5


@pytest.mark.parametrize(
    ("risk", "form"),
    [
        (ca.KL, lambda d, prior: cp.sum(cp.rel_entr(d, prior))),
        (ca.Quadratic, lambda d, prior: cp.sum_squares(d - prior) / 2),
        (ca.TotalVariation, lambda d, prior: cp.norm1(d - prior) / 2),
    ],
)
def test_convex_risks_against_clarabel(risk, form):
    rng = np.random.default_rng(2)
    mdp = ca.worlds.garnet(12, 3, 2, discount=1.0, seed=3)
    prior = rng.random(mdp.shape)
    prior /= prior.sum()
    d = cp.Variable(mdp.n_states * mdp.n_actions, nonneg=True)
    leaving = np.repeat(np.eye(mdp.n_states), mdp.n_actions, axis=1)
    balanced = [(leaving - mdp.transitions.toarray().T) @ d == 0, cp.sum(d) == 1]
    exposed = np.repeat(np.arange(mdp.n_states) < 4, mdp.n_actions).astype(float)
    limit = exposed @ d <= 0.2
    paid = mdp.rewards.ravel() @ d - 0.5 * form(d, prior.ravel())
    cp.Problem(cp.Maximize(paid), balanced).solve(solver="CLARABEL")
    free = float(paid.value)
    solution = ca.solve(ca.Problem(mdp, risk(prior), 0.5, horizon=AVERAGE)).require()
    assert solution.objective == pytest.approx(free, abs=2e-6)
    cp.Problem(cp.Maximize(paid), [*balanced, limit]).solve(solver="CLARABEL")
    solution = ca.solve(ca.Problem(mdp, risk(prior), 0.5, [ca.Exposure([0, 1, 2, 3]) <= 0.2], AVERAGE)).require()
    assert solution.objective == pytest.approx(float(paid.value), abs=2e-6)
    assert solution.constraints[0].value <= 0.2
    assert solution.constraints[0].price == pytest.approx(float(limit.dual_value), abs=1e-3)


def test_peak_exposure_against_clarabel():
    mdp = ca.worlds.garnet(12, 3, 2, discount=1.0, seed=4)
    sets = [np.arange(0, 6), np.arange(4, 12)]
    d = cp.Variable(mdp.n_states * mdp.n_actions, nonneg=True)
    leaving = np.repeat(np.eye(mdp.n_states), mdp.n_actions, axis=1)
    inside = [np.repeat(np.isin(np.arange(mdp.n_states), one), mdp.n_actions).astype(float) for one in sets]
    paid = mdp.rewards.ravel() @ d - 2 * cp.max(cp.hstack([row @ d for row in inside]))
    balanced = [(leaving - mdp.transitions.toarray().T) @ d == 0, cp.sum(d) == 1]
    cp.Problem(cp.Maximize(paid), balanced).solve(solver="CLARABEL")
    solution = ca.solve(ca.Problem(mdp, ca.PeakExposure(sets), 2.0, horizon=AVERAGE)).require()
    assert solution.objective == pytest.approx(float(paid.value), abs=2e-6)


def test_a_share_of_the_time_in_each_of_two_places():
    """Staying in one place is best, and only a share of the time may be spent there: both are left very rarely."""
    for staying in (1.0, 1 - 1e-7):
        mdp = two_places(staying)
        solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([0]) <= 0.95], horizon=AVERAGE)).require()
        assert solution.objective == pytest.approx(long_runs.linear_optimum(mdp, [[1] * 3 + [0] * 6], [0.95]), abs=1e-6)
        exact = long_runs.exact_occupancy(mdp.under(solution.policy).toarray(), mdp.start)
        assert float(exact[0]) <= 0.95
        assert float(exact[0]) == pytest.approx(0.95, abs=1e-5)
        assert solution.constraints[0].price == pytest.approx(0.8, abs=1e-3)


def test_an_optimum_in_two_places_by_a_cone_program():
    prior = np.zeros((3, 3))
    prior[0, 0], prior[2, 0] = 0.3, 0.7
    solution = ca.solve(ca.Problem(two_places(), ca.Quadratic(prior), 1e3, horizon=AVERAGE)).require()
    # maximise x + .2 (1 - x) - 500 ((x - .3)^2 + (1 - x - .7)^2)
    assert solution.occupancy[0, 0] == pytest.approx(0.3 + 0.8 / 2000, abs=1e-4)


def test_a_long_simulation_agrees():
    mdp = ca.worlds.garnet(30, 3, 3, discount=1.0, seed=1)
    solution = ca.solve(ca.Problem(mdp, ca.Entropy(), 0.3, horizon=AVERAGE)).require()
    rng, chain, state = np.random.default_rng(0), mdp.under(solution.policy).toarray().cumsum(axis=1), 0
    steps, counts = 100_000, np.zeros(mdp.n_states)
    for number in rng.random(steps):
        state = min(int(np.searchsorted(chain[state], number)), mdp.n_states - 1)
        counts[state] += 1
    assert np.abs(counts / steps - solution.occupancy.sum(axis=1)).sum() < 0.03


def test_discounts_near_one_lead_to_the_average():
    mdp = ca.worlds.garnet(40, 3, 3, discount=1.0, seed=2)
    gain = ca.solve(ca.Problem(mdp, horizon=AVERAGE)).require().objective
    with pytest.warns(ca.CautiousWarning, match="within 1e-6"):
        near = ca.MDP(mdp.transitions, mdp.rewards, discount=1 - 5e-7, start=mdp.start)
    discounted = ca.solve(ca.Problem(near)).objective * 5e-7
    assert discounted == pytest.approx(gain, abs=1e-4)


def test_periods_do_not_matter():
    """A cycle of 7 states, and one of 3 that pays a little more."""
    n = 9
    transitions = np.zeros((n, 2, n))
    for s in range(n):
        transitions[s, :, (s + 1) % 7 if s < 7 else (s + 1) % n] = 1
    transitions[0, 1] = np.eye(n)[7]
    rewards = np.zeros((n, 2))
    rewards[3] = 7.0
    rewards[8] = 3.3
    solution = ca.solve(ca.Problem(ca.MDP(transitions, rewards, discount=1), horizon=AVERAGE)).require()
    assert solution.objective == pytest.approx(1.1, abs=1e-6)
    assert solution.gap < 1e-9


def test_grids_and_garnets_are_certified():
    for name in ("garnet", "maze"):
        world = getattr(ca.worlds, name)(2000, 4, 5) if name == "garnet" else ca.worlds.maze()
        mdp = ca.MDP(world.transitions, world.rewards, discount=1, start=world.start, allowed=world.allowed)
        try:
            solution = ca.solve(ca.Problem(mdp, horizon=AVERAGE)).require()
        except ca.IncompatibleError:
            continue
        assert solution.gap <= 1e-6 * max(1.0, abs(solution.objective))


def test_two_closed_classes_are_refused_by_name():
    transitions = np.zeros((4, 1, 4))
    transitions[0, 0, [1, 2]] = 0.5
    transitions[1, 0, 1] = transitions[2, 0, 3] = transitions[3, 0, 2] = 1
    names = ["begin", "left", "right", "far right"]
    mdp = ca.MDP(transitions, np.zeros((4, 1)), discount=1, start=[1.0, 0, 0, 0], state_names=names)
    with pytest.raises(ca.IncompatibleError, match=r"state 1 .'left'.*state 2 .'right'., state 3 .'far right'"):
        ca.Problem(mdp, horizon=AVERAGE)
    # a start that leads to one of them only is fine
    begun = ca.MDP(transitions, np.arange(4.0)[:, None], discount=1, start=[0, 0, 1.0, 0])
    assert ca.solve(ca.Problem(begun, horizon=AVERAGE)).objective == pytest.approx(2.5)
    # so is a class that can be left
    stay_or_go = np.zeros((2, 2, 2))
    stay_or_go[:, 0] = np.eye(2)
    stay_or_go[:, 1] = 1 - np.eye(2)
    rewards = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert ca.solve(ca.Problem(ca.MDP(stay_or_go, rewards, discount=1), horizon=AVERAGE)).objective == pytest.approx(2)


def test_what_an_average_needs():
    mdp = ca.worlds.garnet(5, 2, 2, discount=0.9)
    with pytest.raises(ca.InputError, match=r"discount of the model is 0\.9"):
        ca.Problem(mdp, horizon=AVERAGE)
    with pytest.raises(ca.InputError, match='must be None, a number of steps, "average" or "total"'):
        ca.Problem(mdp, horizon="averages")


def test_forbidden_pairs_may_be_used_on_the_way():
    """A prior that is zero outside the component where the policy ends up forbids nothing there in the long run."""
    transitions = np.zeros((3, 2, 3))
    transitions[0, :, 1] = 1
    transitions[1, 0, 2] = transitions[2, 0, 1] = 1
    transitions[1, 1, 0] = transitions[2, 1, 0] = 1
    prior = np.zeros((3, 2))
    prior[1, 0] = prior[2, 0] = 0.5
    mdp = ca.MDP(transitions, np.ones((3, 2)), discount=1, start=[1.0, 0, 0])
    solution = ca.solve(ca.Problem(mdp, ca.KL(prior), horizon=AVERAGE)).require()
    assert solution.objective == pytest.approx(1.0)
    assert np.array_equal(solution.policy[1:, 1], [0, 0])


def test_transient_states_count_for_nothing():
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.ones(5), size=(5, 2))
    transitions[1:, :, 0] = 0
    transitions[1:] /= transitions[1:].sum(axis=2, keepdims=True)
    rewards = rng.random((5, 2))
    rewards[0] = 100.0
    mdp = ca.MDP(transitions, rewards, discount=1, start=np.eye(5)[0])
    solution = ca.solve(ca.Problem(mdp, horizon=AVERAGE)).require()
    assert solution.objective < 1
    assert solution.occupancy[0].sum() == 0
    assert policy_occupancy(ca.Problem(mdp, horizon=AVERAGE).mdp, uniform_on(mdp.allowed)).reached.all()
