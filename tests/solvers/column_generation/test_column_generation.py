"""Column generation on whole problems: against the reference, counted in planning calls, and shared between solves."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

import cautious as ca
import reference
from cautious.certificate.bounds import upper_bound
from cautious.risks.features import compressed
from cautious.runtime.clock import Clock
from cautious.solvers.base import Target, Workspace
from cautious.solvers.column_generation import column_pool as columns
from cautious.solvers.column_generation.column_generation import ColumnGeneration
from cautious.solvers.feature_rows import all_features
from random_models import random_model, random_tasks

CAUTIONS = [0.3, 0.5, 0.8, 1.3, 2.0, 3.0, 5.0]


@pytest.fixture
def planned(monkeypatch):
    """How often the columns called the planner."""
    calls, real = [], columns.plan

    def counted(*arguments, **options):
        calls.append(1)
        return real(*arguments, **options)

    monkeypatch.setattr(columns, "plan", counted)
    return calls


def sets_of(mdp, m):
    return [np.arange(j, mdp.n_states, m + 1) for j in range(m)]


def steps(problem, workspace=None):
    """All candidates until the first whose own witness closes the gap, as ``run`` would take them."""
    target = Target(1e-6, Clock(None), workspace=Workspace() if workspace is None else workspace)
    return ColumnGeneration().steps(problem, target)


@pytest.mark.parametrize("seed", range(8))
def test_sums_of_features_match_the_linear_program(seed):
    """Two worst cases at once: a linear program over occupancies."""
    rng = np.random.default_rng([21, seed])
    raw = random_model(rng, "small")
    mdp, tasks = raw.mdp(), random_tasks(rng, raw)
    size = max(1.0, float(np.abs(raw.mean_reward).max()))
    problem = ca.Problem(mdp, ca.WorstTask(tasks) + 3.0 * size * ca.PeakExposure(sets_of(mdp, 2)), caution=0.7)
    solution = ca.solve(problem)
    best = _linear_program(raw, tasks, sets_of(mdp, 2), 0.7, 3.0 * size)
    assert solution.status is ca.Status.SOLVED
    assert solution.objective <= best + 1e-6 * max(1, abs(best))
    assert best <= solution.upper_bound + 1e-6 * max(1, abs(best))


def _linear_program(raw, tasks, sets, caution, weight):
    n = raw.n_states
    balance = np.repeat(np.eye(n), raw.n_actions, axis=1) - raw.discount * raw.kernel.reshape(-1, n).T
    losses = -tasks.reshape(len(tasks), -1) / (1 - raw.discount)
    shares = np.array([np.repeat(np.isin(np.arange(n), one), raw.n_actions).astype(float) for one in sets])
    tops = np.zeros((len(losses) + len(shares), 2))
    tops[: len(losses), 0] = tops[len(losses) :, 1] = -1
    found = linprog(
        np.concatenate([-raw.mean_reward.ravel() / (1 - raw.discount), caution * np.array([1, weight])]),
        A_ub=np.hstack([np.vstack([losses, shares]), tops]),
        b_ub=np.zeros(len(tops)),
        A_eq=np.hstack([balance, np.zeros((n, 2))]),
        b_eq=(1 - raw.discount) * raw.start,
        bounds=[(0, None if ok else 0) for ok in raw.allowed.ravel()] + [(None, None)] * 2,
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert found.status == 0, found.message
    return -found.fun


@pytest.mark.parametrize("risk", ["peak", "tasks", "safe"])
def test_no_bound_is_ever_below_the_optimum(risk):
    """Rough plans and occupancies on the way, but every witness offered proves a true bound."""
    mdp = ca.worlds.garnet(150, n_actions=3, n_successors=4, discount=0.9, seed=5)
    rng = np.random.default_rng(6)
    risks = {
        "peak": ca.PeakExposure(sets_of(mdp, 12)),
        "tasks": ca.WorstTask(rng.random((6, *mdp.shape))),
        "safe": ca.SafeSet(np.arange(100), slack=0.4),
    }
    problem = ca.Problem(mdp, risks[risk], caution=3.0)
    best = ca.solve(problem, tolerance=1e-10).objective
    offered = list(steps(problem))
    assert offered
    for candidate in offered:
        assert upper_bound(problem, candidate.witness) >= best - 1e-8 * max(1, abs(best))


@pytest.mark.parametrize("m", [1, 3, 8])
def test_policy_mixes_at_most_one_behaviour_more_than_features(m):
    mdp = ca.worlds.garnet(200, n_actions=4, n_successors=4, discount=0.9, seed=1)
    problem = ca.Problem(mdp, ca.PeakExposure(sets_of(mdp, m)), caution=20.0)
    solution = ca.solve(problem)
    assert solution.status is ca.Status.SOLVED
    # m + 1 deterministic behaviours differ from each other in few states at a vertex; at least one state is mixed for
    # every extra behaviour, and none offers more actions than there are behaviours
    assert np.count_nonzero(solution.policy > 0, axis=1).max() <= m + 1


def test_many_sets_are_solved(planned):
    mdp = ca.worlds.garnet(150, n_actions=4, n_successors=4, discount=0.9, seed=2)
    problem = ca.Problem(mdp, ca.PeakExposure([[j] for j in range(64)]), caution=200.0)
    solution = ca.solve(problem)
    assert solution.status is ca.Status.SOLVED
    assert len(planned) <= 400


def test_level_method_needs_few_planning_calls(planned):
    mdp = ca.worlds.garnet(400, n_actions=4, n_successors=5, discount=0.95, seed=3)
    assert ca.solve(ca.Problem(mdp, ca.PeakExposure(sets_of(mdp, 3)), caution=10.0)).status is ca.Status.SOLVED
    assert len(planned) <= 25


@pytest.mark.parametrize("risk", ["peak", "safe"])
def test_next_caution_reuses_the_columns(risk, planned):
    mdp = ca.worlds.garnet(300, n_actions=4, n_successors=5, discount=0.9, seed=4)
    risks = {"peak": ca.PeakExposure(sets_of(mdp, 3)), "safe": ca.SafeSet(np.arange(200), slack=0.3)}
    problem = ca.Problem(mdp, risks[risk])
    for caution in CAUTIONS:
        ca.solve(problem.with_caution(caution))
    alone, workspace = len(planned), Workspace()
    planned.clear()
    for caution in CAUTIONS:
        here = problem.with_caution(caution)
        for candidate in steps(here, workspace):
            bound, worth = upper_bound(here, candidate.witness), _worth(here, candidate.policy)
            if bound - worth <= 1e-6 * max(1, abs(worth)):
                break
        assert bound - worth <= 1e-6 * max(1, abs(worth))
    assert len(planned) <= 0.75 * alone


def _worth(problem, policy):
    return problem.objective(columns.policy_occupancy(problem.mdp, policy).occupancy)


def test_columns_know_their_return_under_another_reward():
    mdp = ca.worlds.garnet(120, n_actions=3, n_successors=4, discount=0.9, seed=7)
    problem = ca.Problem(mdp, ca.PeakExposure(sets_of(mdp, 2)), caution=5.0)
    keeper = columns.ColumnPoolCache()
    blocks = [problem.terms[0][1].features]
    pool = keeper.of(problem, blocks, all_features)
    pool.price_out(problem.reward, np.zeros(2), 0.0, 0.0)
    reward = np.random.default_rng(8).normal(size=mdp.shape)
    again = keeper.of(problem.part(reward, problem.terms), blocks, all_features)
    assert again is pool
    policy = np.eye(mdp.n_actions)[pool.columns[0].actions]
    expected = float(np.sum(columns.policy_occupancy(mdp, policy).occupancy * reward)) / (1 - mdp.discount)
    assert pool.returns[0] == pytest.approx(expected, rel=1e-10)
    other = ca.Problem(mdp, ca.PeakExposure(sets_of(mdp, 2)), caution=5.0)
    assert keeper.of(other, [other.terms[0][1].features], all_features) is not pool


def test_states_beyond_the_room_are_dropped_and_found_again(monkeypatch):
    mdp = ca.worlds.garnet(150, n_actions=4, n_successors=4, discount=0.9, seed=9)
    problem = ca.Problem(mdp, ca.WorstTask(np.random.default_rng(1).random((8, *mdp.shape))), caution=2.0)
    free = ca.solve(problem)
    monkeypatch.setattr(columns, "STATES_SHARE", 0.0)
    cramped = ca.solve(problem)
    assert cramped.status is ca.Status.SOLVED
    assert cramped.objective == pytest.approx(free.objective, rel=1e-6)


@pytest.mark.parametrize("caution", [1e-9, 1e-3, 1e3, 1e9])
def test_cautions_of_any_size(caution):
    rng = np.random.default_rng(31)
    raw = random_model(rng, "small")
    solution = ca.solve(ca.Problem(raw.mdp(), ca.WorstTask(random_tasks(rng, raw)), caution))
    assert solution.status is ca.Status.SOLVED
    d = reference.occupancy(raw, solution.policy)
    assert solution.expected_return == pytest.approx(reference.expected_return(raw, d), rel=1e-6)


def test_same_bytes_every_time():
    mdp = ca.worlds.garnet(200, n_actions=4, n_successors=4, discount=0.9, seed=10)
    problem = ca.Problem(mdp, ca.PeakExposure(sets_of(mdp, 3)), caution=8.0)
    one, two = ca.solve(problem), ca.solve(problem)
    assert one.policy.tobytes() == two.policy.tobytes()


@pytest.mark.parametrize("zeros", [0, 3])
def test_tables_with_and_without_zeros_become_the_same_rows(zeros):
    table = np.random.default_rng(0).normal(size=(3, 8)) + 9
    table.ravel()[:zeros] = 0.0
    found, expected = compressed(table), sp.csr_array(table)
    for name in ("data", "indices", "indptr"):
        assert np.array_equal(getattr(found, name), getattr(expected, name))
        assert getattr(found, name).dtype == getattr(expected, name).dtype


def test_tables_without_zeros_give_the_same_columns():
    raw = random_model(np.random.default_rng(3), "small")
    mdp, rng = raw.mdp(), np.random.default_rng(4)
    tasks = rng.uniform(0.5, 1.0, (2, *mdp.shape))
    problem = ca.Problem(mdp, ca.WorstTask(tasks))
    whole = all_features(problem)
    # with one zero, the entries are no longer a table
    listed = whole.copy()
    listed.data[0] = 0.0
    listed.eliminate_zeros()
    pools = [columns.ColumnPool(problem, features) for features in (whole, listed)]
    assert pools[0].tables is not None
    assert pools[1].tables is None
    prices = np.array([-0.3, -0.7])
    dense = whole.toarray()
    for pool, table in zip(pools, (dense, listed.toarray()), strict=True):
        pool.price_out(problem.reward, prices, 1e-9, 1e-9)
        column = pool.columns[-1]
        d = np.zeros(mdp.shape)
        d[np.arange(mdp.n_states), column.actions] = column.states
        np.testing.assert_allclose(pool.numbers[:, -1], table @ d.ravel(), atol=1e-12)
        np.testing.assert_allclose(pool._worth(prices).ravel(), prices @ table, atol=1e-12)
