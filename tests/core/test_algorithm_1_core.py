"""The compiled loop of Algorithm 1: arguments, index types, a step by hand; see also learning/test_algorithm_1."""

import numpy as np
import pytest

from cautious._core import DESCRIPTIONS, algorithm_1, sampling

S, A = 3, 2
N = S * A
NAMES = next(
    names for subject, kernel, _, names, _ in DESCRIPTIONS if (subject, kernel) == ("algorithm_1", "run")
).split()


def arguments(kind=np.int64, terms=()):
    """Every pair goes to each state alike; one pair does not exist. ``terms``: (kind, on_states, rows)."""
    allowed = np.ones(N, dtype=bool)
    allowed[1] = False
    lengths = np.where(allowed, S, 0)
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(kind)
    pairs = np.count_nonzero(allowed)
    values = {
        "steps": 40, "seed": 5, "indptr": indptr, "indices": np.tile(np.arange(S), pairs).astype(kind),
        "cumulative": np.tile(np.arange(1, S + 1) / S, pairs), "rewards": np.linspace(0, 1, N), "per_outcome": False,
        "xi": np.cumsum(np.full(S, 1 / S)), "allowed": allowed, "low": 0.0, "width": 1.0, "gamma": 0.9, "alpha": 0.01,
        "beta": 0.001, "m1": 1.0, "m2": 2.0, "delta": 0.25, "box": 20.0,
        "kinds": np.array([term[0] for term in terms], dtype=np.int64),
        "on_states": np.array([term[1] for term in terms], dtype=bool), "weights": np.full(len(terms), 0.05),
        "first": np.cumsum([0, *(len(term[2]) for term in terms)], dtype=np.int64),
        "rows": np.concatenate([np.zeros((0, N)), *(term[2] for term in terms)]), "floor": 1e-12,
        "log_lam": np.where(allowed, np.log(10 / pairs), -np.inf), "v": np.zeros(S), "d_sum": np.zeros(N),
        "v_sum": np.zeros(S), "moments": np.zeros((3, N)),
    }  # fmt: skip
    values["numbers"] = np.tile([-1.0, 0.1], (len(values["rows"]), 1))
    return values


def run(values):
    algorithm_1.run(*(values[name] for name in NAMES))
    return values


def every_term():
    rng = np.random.default_rng(0)
    kinds = ("ENTROPIC", "HALF_L1", "HALF_SQUARES", "WORST", "BARRIER", "SQUARE_OF")
    assert [getattr(algorithm_1, name) for name in kinds] == list(range(6))
    distances = [(kind, on_states, rng.random((1, N))) for kind in range(3) for on_states in (False, True)]
    return [*distances, *((kind, False, rng.normal(size=(3, N))) for kind in range(3, 6))]


@pytest.mark.parametrize("terms", [[], every_term()])
def test_index_types_agree_and_mass_stays(terms):
    one, two = run(arguments(np.int32, terms)), run(arguments(np.int64, terms))
    for name in ("log_lam", "v", "d_sum", "v_sum", "moments"):
        np.testing.assert_array_equal(one[name], two[name])
    assert np.exp(one["log_lam"]).sum() * 0.1 == pytest.approx(1, rel=1e-12)
    assert one["d_sum"].sum() == pytest.approx(40, rel=1e-12)
    assert one["moments"][0].sum() == 40
    assert one["moments"][0, 1] == 0


def test_one_step_without_risk():
    values = run({**arguments(), "steps": 1})
    numbers = np.empty(3)
    sampling.uniforms(5, numbers)
    pair = np.flatnonzero(arguments()["allowed"])[int(numbers[0] * 5)]
    s_bar, s_next, s = int(numbers[1] * S), int(numbers[2] * S), pair // A
    reward, zeta = np.linspace(0, 1, N)[pair], 0.2
    v = np.zeros(S)
    v[s_bar] -= 0.01
    v[s_next] -= 0.01 * 10 * 0.9
    v[s] += 0.01 * 10
    np.testing.assert_allclose(values["v"], v, rtol=1e-12, atol=1e-15)
    log_lam = arguments()["log_lam"]
    log_lam[pair] += 0.001 * (reward - 1.0) / zeta
    log_lam -= np.log(0.1 * np.exp(log_lam).sum())
    np.testing.assert_allclose(values["log_lam"], log_lam, rtol=1e-12)
    assert values["moments"][:, pair].tolist() == [1.0, reward, reward**2]


def test_rewards_per_outcome():
    outcomes = np.repeat(np.linspace(0, 1, N)[arguments()["allowed"]], S)
    one, two = run(arguments()), run({**arguments(), "rewards": outcomes, "per_outcome": True})
    np.testing.assert_array_equal(one["log_lam"], two["log_lam"])


def test_one_state_and_one_pair():
    values = arguments() | {
        "indptr": np.array([0, 1]), "indices": np.array([0]), "cumulative": np.ones(1), "rewards": np.ones(1),
        "xi": np.ones(1), "allowed": np.ones(1, dtype=bool), "rows": np.zeros((0, 1)), "log_lam": np.zeros(1),
        "v": np.zeros(1), "d_sum": np.zeros(1), "v_sum": np.zeros(1), "moments": np.zeros((3, 1)),
    }  # fmt: skip
    run(values)
    assert values["d_sum"].tolist() == [40.0]
    assert values["log_lam"][0] == pytest.approx(np.log(10))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("steps", -1), ("steps", 2**62), ("rewards", np.zeros(N + 1)), ("xi", np.zeros(S + 1)),
        ("allowed", np.ones(N, dtype=bool)), ("allowed", np.zeros(N, dtype=bool)), ("allowed", np.ones(2, dtype=bool)),
        ("log_lam", np.zeros(N - 1)), ("v", np.zeros(4)), ("v", np.zeros(0)), ("d_sum", np.zeros(N + 1)),
        ("v_sum", np.zeros(2)), ("moments", np.zeros((2, N))), ("moments", np.zeros((3, N - 1))),
        ("kinds", np.array([6])), ("kinds", np.array([-1])), ("kinds", np.array([0, 0])),
        ("on_states", np.zeros(2, dtype=bool)),
        ("weights", np.zeros(0)), ("first", np.array([0])), ("first", np.array([0, 0])), ("first", np.array([0, 9])),
        ("first", np.array([-1, 1])), ("rows", np.zeros((3, N - 1))), ("rows", np.zeros((2, N))),
        ("numbers", np.zeros((3, 1))), ("indptr", np.zeros(2, dtype=np.int64)),
    ],
)  # fmt: skip
def test_bad_arguments(name, wrong):
    with pytest.raises(ValueError, match="run needs"):
        run({**arguments(terms=[(4, False, np.ones((3, N)))]), name: wrong})


def test_bad_types():
    with pytest.raises(TypeError, match="`rows` must be a table"):
        run({**arguments(), "rows": np.zeros(N)})
    with pytest.raises(TypeError, match="`allowed` must be bool"):
        run({**arguments(), "allowed": np.ones(N)})
    frozen = np.zeros(N)
    frozen.flags.writeable = False
    with pytest.raises(TypeError, match="`d_sum` must be writable"):
        run({**arguments(), "d_sum": frozen})


@pytest.mark.parametrize("name", ["gamma", "beta", "delta", "width", "box", "floor", "m1"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -1.0])
def test_odd_numbers_give_an_answer(name, value):
    run({**arguments(terms=every_term()), name: value})
