"""Limits with hardly any room, and with hardly any missing: bounds at the best reachable value and a little beside it.

The best value, and the best objective within the bound, are those of HiGHS or, for convex measures, of Clarabel through
CVXPY, from equations that are written here.
"""

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

import cautious as ca
from cautious.solvers.limits import conflicts
from random_models import random_model

HORIZONS = (None, 1, 4, "average", "total")
MEASURES = ("Exposure", "Return", "KL", "TotalVariation", "TotalVariation states", "Quadratic")
# distances of the bound from the best value, relative to that
ROOMS = (1e-6, -1e-6, 1e-4, -1e-4)
HIGHS = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
CLARABEL = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "max_iter": 300}


def random_mdp(rng, horizon):
    """Connected for the long run, with an end for totals, and sometimes periodic."""
    raw = random_model(rng, "small")
    rows, n, m = raw.transitions.copy(), raw.n_states, raw.n_actions
    rewards, allowed, start = raw.mean_reward, raw.allowed, raw.start
    if horizon == "average":
        rows[allowed] = 0.97 * rows[allowed] + 0.03 / n
        if rng.random() < 0.3:
            ahead = (np.arange(n)[:, None] + 1 + (np.arange(m) % 2 if n > 2 else np.zeros(m, int))) % n
            rows = np.where(np.arange(n) == ahead[:, :, None], 1.0, 0.0) * allowed[:, :, None]
    if horizon == "total":
        rows = np.concatenate([0.9 * rows, 1 - 0.9 * rows.sum(axis=2, keepdims=True)], axis=2) * allowed[:, :, None]
        end = np.zeros((1, m, n + 1))
        end[0, :, n] = 1
        rows, start = np.concatenate([rows, end]), np.append(start, 0)
        rewards, allowed = np.vstack([-np.abs(rewards) - 0.01, np.zeros((1, m))]), np.vstack([allowed, np.ones((1, m))])
    # discount 1 where it must be, and sometimes over some steps
    discount = 1.0
    if horizon not in ("average", "total"):
        discount = float(rng.choice([0.5, 0.9, 0.99] if horizon is None else [0.0, 0.5, 0.9, 1.0]))
    return ca.MDP(rows, np.where(allowed, rewards, 0), discount, start, allowed=allowed.astype(bool))


class Reference:
    """Occupancies as vectors: equations, which entries may be positive, and what a return is multiplied by."""

    def __init__(self, mdp, horizon):
        s, a = mdp.shape
        self.shape, self.steps, gamma = (s, a), 1, mdp.discount
        leaving = sp.csr_array((np.ones(s * a), (np.repeat(np.arange(s), a), np.arange(s * a))), (s, s * a))
        arriving, usable = mdp.transitions.T, mdp.allowed.ravel()
        self.scale = 1 - gamma if horizon is None else 1.0
        if horizon is None:
            left, right = leaving - gamma * arriving, (1 - gamma) * mdp.start
        elif horizon == "average":
            left = sp.vstack([leaving - arriving, np.ones((1, s * a))])
            right = np.append(np.zeros(s), 1.0)
        elif horizon == "total":
            left, right = (leaving - arriving)[:-1], mdp.start[:-1]
            usable = usable & (np.arange(s * a) < (s - 1) * a)
        else:
            self.steps, self.scale = horizon, 1 / sum(gamma**t for t in range(horizon))
            blocks = [[None] * horizon for _ in range(horizon)]
            for t in range(horizon):
                blocks[t][t] = leaving
                if t:
                    blocks[t][t - 1] = -gamma * arriving
            left, right = sp.block_array(blocks), np.concatenate([self.scale * mdp.start, np.zeros((horizon - 1) * s)])
        self.left, self.right, self.usable = sp.csr_array(left), right, np.tile(usable, self.steps)

    def linear(self, gain, row=None, bound=None):
        """The most of a table, over occupancies with at most ``bound`` of a row if it is given; None if HiGHS fails."""
        rows = None if row is None else np.tile(row.ravel(), self.steps)[None]
        sides = [(0, None if ok else 0) for ok in self.usable]
        options = {"method": "highs", "options": HIGHS}
        paid = -np.tile(gain.ravel(), self.steps)
        found = scipy.optimize.linprog(paid, rows, bound, self.left, self.right, sides, **options)
        return -found.fun if found.status == 0 else None

    def convex(self, measured, gain=None, bound=None):
        """The least of a convex measure; or the most of a table within its bound. None where Clarabel fails."""
        d = cp.Variable(self.usable.size, nonneg=True)
        pairs = cp.sum(cp.reshape(d, (self.steps, self.shape[0] * self.shape[1]), order="C"), axis=0)
        value = measured(cp.reshape(pairs, self.shape, order="C"))
        kept = [self.left @ d == self.right, cp.multiply(d, 1.0 - self.usable) == 0]
        goal = cp.Minimize(value) if bound is None else cp.Maximize(pairs @ gain.ravel())
        program = cp.Problem(goal, kept if bound is None else [*kept, value <= bound])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                program.solve(solver="CLARABEL", **CLARABEL)
            except cp.SolverError:
                return None
        return program.value if program.status == "optimal" else None


def random_measure(kind, rng, mdp, scale):
    """A measure, and its row or its definition."""
    pairs = np.zeros(mdp.shape)
    pairs[mdp.allowed] = rng.dirichlet(np.ones(mdp.allowed.sum()))
    states = rng.dirichlet(np.ones(mdp.n_states))
    if kind == "Exposure":
        chosen, row = rng.choice(mdp.n_states - 1, max(1, mdp.n_states // 3), replace=False), np.zeros(mdp.shape)
        row[chosen] = 1
        return ca.Exposure(chosen), row
    if kind == "Return":
        table = rng.normal(size=mdp.shape) * 10 ** rng.uniform(-1, 2)
        # ends pay nothing
        table[-1] *= mdp.discount < 1 or bool(mdp.rewards[-1].any())
        return ca.Return(table), table / scale
    if kind == "KL":
        return ca.KL(pairs), lambda d: cp.sum(cp.kl_div(d[mdp.allowed], pairs[mdp.allowed]))
    if kind == "TotalVariation":
        return ca.TotalVariation(pairs), lambda d: 0.5 * cp.norm1(d - pairs)
    if kind == "TotalVariation states":
        return ca.TotalVariation(states), lambda d: 0.5 * cp.norm1(cp.sum(d, axis=1) - states)
    return ca.Quadratic(pairs), lambda d: 0.5 * cp.sum_squares(d - pairs)


def check(kind, horizon, room, seed):
    rng = np.random.default_rng([41, seed, MEASURES.index(kind), HORIZONS.index(horizon)])
    mdp = random_mdp(rng, horizon)
    reference = Reference(mdp, horizon)
    measure, meant = random_measure(kind, rng, mdp, reference.scale)
    gain, linear = mdp.rewards / reference.scale, isinstance(meant, np.ndarray)
    best = reference.linear(-meant) if linear else reference.convex(meant)
    if best is None:
        pytest.skip("the reference fails")
    best *= -1 if linear else 1
    bound = best + room * max(abs(best), 1e-3)
    constraint = -1.0 * measure >= -bound if linear and seed % 2 else measure <= bound
    solution = ca.solve(ca.Problem(mdp, constraints=[constraint], horizon=horizon), time_limit_seconds=60)
    if room < 0:
        assert solution.status is ca.Status.INFEASIBLE, (seed, solution)
        (reached,) = solution.certificate.facts["best_alone"]
        sign = -1 if constraint.sense == ">=" else 1
        assert sign * reached == pytest.approx(best, abs=1e-6 * max(abs(best), 1e-3))
        return
    assert solution.status is ca.Status.SOLVED, (seed, solution)
    (row,) = solution.constraints
    assert row.slack >= 0
    assert row.price >= 0
    if linear:
        truth = reference.linear(gain, meant, bound)
        assert truth is None or solution.objective == pytest.approx(truth, abs=1e-5 * max(1, abs(truth)))
        # the price is a valid multiplier: it pays for more room
        more = bound + 0.1 * max(1.0, abs(bound))
        wider = reference.linear(gain, meant, more)
        assert wider is None or wider <= solution.upper_bound + row.price * (more - bound) + 1e-6 * max(1, abs(wider))
    elif room >= 1e-4:
        # closer to the best value the reference misses the bound by too much for its price
        truth = reference.convex(meant, gain, bound)
        assert truth is None or solution.objective <= truth + 1e-3 * max(1, abs(truth))


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("kind", MEASURES)
def test_verdicts_beside_the_best_value(kind, horizon, room):
    if horizon == "total" and kind in ("Return", "TotalVariation"):
        pytest.skip("ends pay nothing, and a distance of visits may stay undecided")
    check(kind, horizon, room, ROOMS.index(room))


@pytest.mark.parametrize("horizon", [None, 5, "average"])
def test_equalities_are_named_and_need_little_room(horizon):
    garnet = ca.worlds.garnet(n_states=20)
    mdp = ca.MDP(garnet.transitions, garnet.rewards, 0.9 if horizon is None else 1.0)
    share, other = ca.Exposure([1, 2, 3]), ca.Exposure([5]) <= 0.9
    exact = ca.solve(ca.Problem(mdp, constraints=[share <= 0.2, other, share >= 0.2], horizon=horizon))
    assert exact.status is ca.Status.UNDECIDED
    assert "Exposure <= 0.2 and Exposure >= 0.2 together ask for one exact number" in exact.certificate.statement
    wide = ca.solve(ca.Problem(mdp, constraints=[share <= 0.21, share >= 0.19], horizon=horizon)).require()
    narrow = ca.solve(ca.Problem(mdp, constraints=[share <= 0.2, share >= 0.2 * (1 - 1e-9)], horizon=horizon)).require()
    assert min(row.slack for row in narrow.constraints) >= 0
    assert wide.upper_bound >= narrow.objective


@pytest.mark.parametrize("seed", [1, 4, 5, 6])
def test_a_divergence_with_room_for_rounding_only(seed):
    """Without a future the least divergence is that of the start: its pairs can follow the prior exactly."""
    rng = np.random.default_rng([43, seed])
    start, prior = rng.dirichlet(np.ones(5)), rng.dirichlet(np.ones(15)).reshape(5, 3)
    least = float(np.sum(start * np.log(start / prior.sum(axis=1))))
    mdp = ca.MDP(np.full((5, 3, 5), 0.2), 100 * rng.normal(size=(5, 3)), 0.0, start)
    found = ca.solve(ca.Problem(mdp, constraints=[ca.KL(prior) <= least + 1e-9])).require()
    assert found.constraints[0].slack >= 0
    assert ca.solve(ca.Problem(mdp, constraints=[ca.KL(prior) <= least - 1e-9])).status is ca.Status.INFEASIBLE


def test_two_limits_that_can_be_kept_alone_need_no_other_proof_that_both_matter(monkeypatch):
    def refused(*arguments, **named):
        raise AssertionError("the best value of each limit alone says it")

    monkeypatch.setattr(conflicts, "run", refused)
    either = [[[0, 1, 0], [0, 0, 1]], [[0, 1, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]]
    mdp = ca.MDP(np.array(either, dtype=float), np.zeros((3, 2)), 1.0, start=[1, 0, 0])
    limits = [ca.Reach([1]) >= 0.6, ca.Reach([2]) >= 0.6]
    solution = ca.solve(ca.Problem(mdp, constraints=limits, horizon="total"))
    assert solution.status is ca.Status.INFEASIBLE
    assert solution.certificate.facts["best_alone"] == pytest.approx((1.0, 1.0), abs=1e-9)
    assert ca.verify(solution).proved
