"""Damaged claims of every kind: a typed error, or an answer; never anything else, and never a false proof."""

import numpy as np
import pytest
from claims import stored, verified

import cautious as ca
from random_models import CONVEX_KINDS, random_case

KINDS = (*CONVEX_KINDS, "Variance", "CVaR")
STRANGE = (np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 0.5, 5e-324, 1e308, -1e308, 2.0**53, 1e-300)
VALUES = (None, [], {}, "x", True, -1, 0, 2, 10**30, 0.5, float("nan"), float("inf"), {"number": "nan"}, [[]], [None])


def damage_array(rng, arrays):
    name = str(rng.choice([name for name in arrays if name.startswith(("model.", "proof.", "policy"))]))
    array = arrays[name]
    match int(rng.integers(6)):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[..., : max(0, array.shape[-1] - 1)] if array.ndim else np.zeros((0, 2))
        case 2:
            arrays[name] = array.astype(rng.choice(["U8", "i8", "f4", "c16", "?", "u1"]))
        case 3:
            arrays[name] = array.reshape((-1, 1) if rng.random() < 0.5 else (1, -1))
        case 4:
            arrays[name] = np.zeros(int(rng.integers(4)), array.dtype)
        case _:
            flat = np.array(array, dtype=float).ravel()
            if flat.size:
                flat[int(rng.integers(flat.size))] = rng.choice(STRANGE)
            with np.errstate(invalid="ignore"):
                arrays[name] = flat.reshape(array.shape).astype(array.dtype)


def damage_header(rng, header):
    proof = {**header["proof"], "terms": [dict(term) for term in header["proof"]["terms"]]}
    proof["limits"] = [{**limit, "terms": [dict(term) for term in limit["terms"]]} for limit in proof["limits"]]
    header["proof"], header["model"] = proof, dict(header["model"])
    header["constraints"] = [dict(row) for row in header["constraints"]]
    limited = [*proof["limits"], *(term for limit in proof["limits"] for term in limit["terms"])]
    places = [header, proof, header["model"], header["certificate"], *proof["terms"], *header["constraints"], *limited]
    place = places[int(rng.integers(len(places)))]
    key = str(rng.choice(list(place)))
    place[key] = VALUES[int(rng.integers(len(VALUES)))]


def check_damage(rng, solution, count):
    for _ in range(count):
        header, arrays = stored(solution)
        if rng.random() < 0.5:
            damage_array(rng, arrays)
        else:
            damage_header(rng, header)
        try:
            verified(header, arrays)
        except ca.CautiousError:
            continue


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_claims_of_every_kind(kind):
    pytest.importorskip("flint", reason="extra verify")
    rng = np.random.default_rng(KINDS.index(kind))
    solution = ca.solve(random_case(rng, [kind], "tiny").problem())
    check_damage(rng, solution, 40)


def limited_problem(rng, horizon):
    """Limits of both forms beside a risk, with this horizon."""
    n = 4
    transitions, rewards = rng.dirichlet(np.ones(n), size=(n, 2)), rng.random((n, 2))
    if horizon == "total":
        transitions[-1], rewards[-1] = np.eye(n)[-1], 0
    mdp = ca.MDP(transitions, rewards, 0.9 if horizon is None else 1.0, start=np.eye(n)[0])
    outcomes = rng.random((n, 2, n)) * np.arange(n - 1, -1, -1)[:, None, None]
    limits = [ca.Return(outcomes) - 2 * ca.Exposure([1]) >= -100, ca.Entropy() + ca.PeakExposure([[0], [2]]) <= 100]
    return ca.Problem(mdp, ca.Quadratic(np.full((n, 2), 1 / 8)), constraints=limits, horizon=horizon)


@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("horizon", [None, 2, "average", "total"])
def test_damaged_claims_of_every_horizon(horizon):
    pytest.importorskip("flint", reason="extra verify")
    rng = np.random.default_rng(3)
    solution = ca.solve(limited_problem(rng, horizon))
    assert ca.verify(solution).proved
    check_damage(rng, solution, 150)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Casting complex values")
@pytest.mark.parametrize("kind", KINDS)
def test_many_damaged_claims_of_every_kind(kind):
    pytest.importorskip("flint", reason="extra verify")
    for seed in range(30):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        check_damage(rng, ca.solve(random_case(rng, [kind], "tiny").problem()), 100)
