"""Every solver that takes a problem with a horizon, alone: all answers agree within what each of them proves."""

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.occupancy import policy_occupancy
from cautious.runtime.clock import Clock
from cautious.solvers.balance import balance_of
from cautious.solvers.base import Target, run
from cautious.solvers.choose import SOLVERS, choose
from cautious.solvers.conic.cone_program import flow_rows
from random_models import random_model, random_policy

GAP = 1e-6
KINDS = ("KL", "KL states", "TotalVariation", "TotalVariation states", "Quadratic", "Wasserstein", "SafeSet", "sum")


def undiscounted(rng, size="small"):
    """A random model in which every state can be reached from every other one."""
    raw = random_model(rng, size)
    rows = raw.transitions.copy()
    rows[raw.allowed] = 0.9 * rows[raw.allowed] + 0.1 / raw.n_states
    return ca.MDP(rows, raw.rewards, 1.0, raw.start, allowed=raw.allowed)


def risk_of(kind, rng, mdp):
    n = mdp.n_states
    prior = rng.dirichlet(np.ones(mdp.allowed.sum()))
    pairs, states = np.zeros(mdp.shape), rng.dirichlet(np.ones(n))
    pairs[mdp.allowed] = prior
    ring = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], format="csr")
    terms = {
        "KL": lambda: ca.KL(pairs),
        "KL states": lambda: ca.KL(states),
        "TotalVariation": lambda: ca.TotalVariation(pairs),
        "TotalVariation states": lambda: ca.TotalVariation(states),
        "Quadratic": lambda: ca.Quadratic(pairs),
        "Wasserstein": lambda: ca.Wasserstein(states, sp.csr_array(ring)),
        "SafeSet": lambda: ca.SafeSet(np.arange((n + 1) // 2), 0.999) + ca.KL(states),
        "sum": lambda: ca.TotalVariation(pairs) + 0.5 * ca.Quadratic(states) + ca.PeakExposure([[0], [1]]),
    }
    return terms[kind]()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("horizon", [1, 4, 15, "average"])
def test_solvers_agree(kind, horizon):
    rng = np.random.default_rng([5, KINDS.index(kind), 99 if horizon == "average" else horizon])
    mdp = undiscounted(rng)
    caution = float(np.ptp(mdp.rewards[mdp.allowed])) * (horizon if horizon != "average" else 1) + 1e-3
    problem = ca.Problem(mdp, risk_of(kind, rng, mdp), caution, horizon=horizon)
    fitting = [solver for solver in SOLVERS if solver.refusal(problem) is None]
    found = {solver.name: run(solver, problem, Target(GAP, Clock(60.0))) for solver in fitting}
    assert {"proximal interior point", "cone program"} <= set(found)
    assert ("interior point" in found) == (horizon == "average")
    lowest = min(outcome.upper for outcome in found.values())
    for name, outcome in found.items():
        assert outcome.status is ca.Status.SOLVED, name
        size = max(1.0, abs(outcome.objective))
        assert outcome.objective <= lowest + 1e-12 * size, name
        assert outcome.objective >= lowest - 2 * GAP * size, name


@pytest.mark.parametrize("horizon", [None, 1, 5, "average", "total"])
def test_occupancies_balance(horizon):
    """What a policy does keeps the equations, and what one unit for every pair pays is the sum of the occupancy."""
    rng = np.random.default_rng(8)
    raw = random_model(rng, "small")
    rows = raw.transitions.copy()
    if horizon == "total":
        rows[raw.allowed] *= 0.8
        rows = np.concatenate([rows, 1 - rows.sum(axis=2, keepdims=True)], axis=2)
        rows = np.concatenate([rows, np.zeros((1, *rows.shape[1:]))])
        rows[-1, :, -1] = 1
    discount = 1.0 if horizon in ("average", "total") else 0.7
    n = rows.shape[0]
    allowed = np.concatenate([raw.allowed, np.ones((n - raw.n_states, raw.n_actions), dtype=bool)])
    rewards = np.where(np.arange(n)[:, None] < raw.n_states, -1.0, 0.0) * allowed
    start = np.append(raw.start, np.zeros(n - raw.n_states))
    problem = ca.Problem(ca.MDP(rows, rewards, discount, start, allowed=allowed), horizon=horizon)
    policy = np.zeros(allowed.shape)
    policy[: raw.n_states] = random_policy(rng, raw)
    policy[raw.n_states :] = 1 / raw.n_actions
    d = policy_occupancy(problem.mdp, policy).occupancy
    left, right = flow_rows(problem.mdp, problem.active)
    assert left @ d[problem.active] == pytest.approx(right, abs=1e-10)
    balance = balance_of(problem.mdp, problem.active)
    if horizon != "total":
        assert float(np.sum(balance.inflow * balance.unit_value)) == pytest.approx(1.0, rel=1e-12)


@pytest.mark.parametrize("horizon", [12, "average"])
def test_cone_program_is_not_first_in_large_models(horizon):
    mdp = ca.worlds.garnet(300)
    mdp = ca.MDP(mdp.transitions, mdp.rewards, 1.0)
    prior = np.full(mdp.shape, 1 / mdp.rewards.size)
    for risk in (ca.TotalVariation(prior), ca.Quadratic(prior), ca.KL(prior)):
        assert choose(ca.Problem(mdp, risk, horizon=horizon))[0].name != "cone program"
