"""The model in exact arithmetic against fractions, brute force and the sets that a problem finds for itself."""

from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest
from test_exact_arithmetic import Exact

import cautious as ca
from cautious.verification.claim import read_claim
from cautious.verification.flow import Discounted
from cautious.verification.occupancy import occupancy
from random_models import random_case, random_model, random_policy


def model_of(mdp):
    return read_claim("test", *ca.solve(ca.Problem(mdp)).to_storage(witness=True)).model


@pytest.mark.parametrize("seed", range(20))
def test_the_occupancy_is_as_close_as_it_says(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng, "tiny")
    policy = random_policy(rng, raw)
    found, truth = occupancy(model_of(raw.mdp()), policy), Exact(raw).occupancy(policy)
    masses = {
        divmod(int(p), raw.n_actions): Fraction(int(m), 2**found.bits)
        for p, m in zip(found.rows.pairs, found.mass, strict=True)
    }
    distance = sum(abs(masses.get(pair, 0) - mass) for pair, mass in truth.items())
    assert distance <= found.distance < Fraction(1, 10**30)


@pytest.mark.parametrize("discount", [0.0, 0.999, 1 - 1e-9])
def test_the_occupancy_near_both_ends_of_the_discount(discount):
    raw = random_model(np.random.default_rng(1), "tiny", masks=False)
    with pytest.warns(ca.CautiousWarning) if discount > 1 - 1e-6 else nullcontext():
        mdp = ca.MDP(raw.transitions, raw.rewards, discount)
    found = occupancy(model_of(mdp), random_policy(np.random.default_rng(2), raw))
    assert found.distance < Fraction(1, 10**30)
    assert abs(Fraction(int(found.mass.sum()), 2**found.bits) - 1) <= found.distance


@pytest.mark.parametrize("seed", range(20))
def test_no_policy_exceeds_the_bound_of_any_multipliers(seed):
    rng = np.random.default_rng(seed)
    raw = random_model(rng, "tiny")
    model, exact = model_of(raw.mdp()), Exact(raw)
    best = exact.best_value([int(np.argmax(row)) for row in raw.allowed])
    values = ca.solve(ca.Problem(raw.mdp())).multipliers
    whole = Discounted(model, model.allowed)
    for size in (0.0, 1e-12, 1e-3, 10.0):
        multipliers = values + size * rng.normal(size=values.size)
        assert whole.greatest_return(whole.reward_above, multipliers) >= best
    assert whole.greatest_return(whole.reward_above, values) - best <= Fraction(1e-5) * max(1, abs(best))


@pytest.mark.parametrize("seed", range(40))
def test_usable_pairs_are_those_that_the_problem_finds(seed):
    rng = np.random.default_rng(seed)
    problem = random_case(rng, ["KL states" if seed % 2 else "KL"]).problem()
    found = Discounted(model_of(problem.mdp), problem.permitted)
    assert np.array_equal(found.first, problem.kept)
    assert np.array_equal(found.active, problem.active)
    assert found.trapped == problem.trapped


def test_a_trap_at_the_end_of_a_long_way_is_found():
    """Every state leads to the next; only the first can also stay."""
    n = 50
    transitions = np.zeros((n, 2, n))
    transitions[np.arange(n), 1, np.minimum(np.arange(n) + 1, n - 1)] = 1
    transitions[:, 0] = transitions[:, 1]
    transitions[0, 0] = np.eye(n)[0]
    mdp = ca.MDP(transitions, np.zeros((n, 2)), 0.9, start=np.eye(n)[0])
    permitted = np.ones((n, 2), dtype=bool)
    permitted[-1] = False
    found = Discounted(model_of(mdp), permitted)
    assert np.argwhere(found.first).tolist() == [[0, 0]]
    assert found.trapped is None
    permitted[0, 0] = False
    assert Discounted(model_of(mdp), permitted).trapped == 0
