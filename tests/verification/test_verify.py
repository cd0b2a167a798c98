"""``ca.verify``: every risk is proved, the numbers are right, files suffice, and what cannot be checked is refused."""

import dataclasses
import subprocess
import sys
import zipfile
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from claims import stored, verified
from test_exact_arithmetic import Exact, exact_objective

import cautious as ca
import reference
from cautious.risks.measures import LinearMeasure
from cautious.risks.public import PUBLIC_RISKS
from cautious.risks.returns import ReturnRisk
from cautious.verification.claim import ARRAYS
from cautious.verification.risks import KINDS as CONVEX
from cautious.verification.scalars import SCALARS
from random_models import CONVEX_KINDS, random_case, random_model

KINDS = (*CONVEX_KINDS, "Variance", "CVaR")
WITHOUT_LOGARITHMS = [kind for kind in KINDS if kind.split()[0] not in ("SafeSet", "TaskFloors", "KL", "Entropy")]


@pytest.fixture(autouse=True)
def _needs_flint():
    pytest.importorskip("flint", reason="extra verify")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_every_risk_is_proved(kind, seed):
    case = random_case(np.random.default_rng([seed, 1]), [kind])
    solution = ca.solve(case.problem())
    found = ca.verify(solution)
    assert found.proved, found.statement
    scale = max(1.0, abs(solution.objective))
    # an independent evaluation and the claimed bound, both in floating point
    assert float(found.objective) == pytest.approx(case.objective(solution.policy), abs=1e-8 * scale)
    assert found.objective <= found.upper_bound <= Fraction(solution.upper_bound)
    assert found.gap == found.upper_bound - found.objective
    assert found.margin == Fraction(solution.gap) - found.gap >= 0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if not kind.startswith("Wasserstein")])
def test_the_objective_is_the_exact_one(kind):
    """To 25 digits; 50 for risks without logarithms would need an exact linear system."""
    case = random_case(np.random.default_rng(5), [kind], "tiny")
    solution = ca.solve(case.problem())
    exact = Exact(case.raw)
    truth = exact_objective(exact, case, exact.occupancy(solution.policy))
    found = ca.verify(solution).objective
    # a prior that was given as a policy is resolved in floating point
    digits = 12 if any(term.given for _, term in case.terms) else 15 if kind.startswith("KL") else 25
    assert 0 <= truth - found <= max(1, abs(truth)) / 10**digits or (digits < 25 and abs(truth - found) < 1e-12)


def test_every_public_risk_can_be_verified():
    public = {"Linear" if issubclass(kind, LinearMeasure) else name for name, kind in PUBLIC_RISKS.items()}
    # the proofs of risks of the return are not part of a file
    public -= {name for name, kind in PUBLIC_RISKS.items() if issubclass(kind, ReturnRisk)}
    assert public == set(ARRAYS) == set(CONVEX) | set(SCALARS)


@pytest.mark.parametrize("seed", range(12))
def test_sums_are_proved(seed):
    rng = np.random.default_rng([seed, 2])
    kinds = list(rng.choice(KINDS, size=int(rng.integers(2, 4)), replace=False))
    solution = ca.solve(random_case(rng, kinds).problem(), time_limit_seconds=10)
    found = ca.verify(solution)
    assert found.proved, (kinds, found.statement)


def test_two_scalars_share_a_cover():
    case = random_case(np.random.default_rng(3), ["Variance", "CVaR"])
    solution = ca.solve(case.problem())
    assert solution.certificate.kind == "global"
    assert ca.verify(solution).proved


def test_a_given_second_moment_counts():
    raw = random_model(np.random.default_rng(4), outcome_rewards=False, reward_square=True)
    solution = ca.solve(ca.Problem(raw.mdp(), ca.Variance(), 0.1))
    found = ca.verify(solution)
    assert found.proved
    assert float(found.objective) == pytest.approx(solution.objective, rel=1e-9)


@pytest.mark.parametrize("kind", ["none", "KL", "Wasserstein graph", "CVaR"])
def test_a_file_suffices(kind, tmp_path):
    rng = np.random.default_rng(6)
    problem = ca.Problem(random_model(rng).mdp()) if kind == "none" else random_case(rng, [kind]).problem()
    solution = ca.solve(problem)
    solution.save(tmp_path / "s.npz", witness=True)
    loaded = ca.load(tmp_path / "s.npz")
    loaded.save(tmp_path / "again.npz", witness=True)
    assert ca.verify(tmp_path / "s.npz") == ca.verify(loaded) == ca.verify(solution)
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "s.npz").read_bytes()


def test_saving_without_a_witness_stays_as_it_was(tmp_path):
    solution = ca.solve(ca.worlds.problem("queue"))
    solution.save(tmp_path / "s.npz")
    with zipfile.ZipFile(tmp_path / "s.npz") as archive:
        assert not any("proof" in name for name in archive.namelist())
    with pytest.raises(ca.FileError, match="saved without its witness"):
        ca.verify(str(tmp_path / "s.npz"))
    with pytest.raises(ca.InputError, match="saved without its witness"):
        ca.verify(ca.load(tmp_path / "s.npz"))


def infeasible_problems():
    rng, garnet = np.random.default_rng(0), ca.worlds.garnet(30, 3, 4, 0.9)
    tasks, prior = rng.random((2, 30, 3)), rng.random((30, 3))
    prior[5] = 0
    floors = ca.TaskFloors(tasks, [9.9, 9.9])
    return {
        "safe set": ca.Problem(ca.worlds.maze(), ca.SafeSet(["r0c0"], slack=0.01)),
        "floors": ca.Problem(garnet, floors),
        "floors and variance": ca.Problem(garnet, floors + ca.Variance()),
        "two barriers": ca.Problem(garnet, floors + 0.5 * ca.SafeSet(range(25), slack=0.3)),
        "unavoidable state": ca.Problem(garnet, ca.KL(prior / prior.sum())),
    }


@pytest.mark.parametrize("name", infeasible_problems())
def test_infeasible_requirements_are_proved_infeasible(name):
    problem = infeasible_problems()[name]
    solution = ca.solve(problem)
    assert solution.status is ca.Status.INFEASIBLE
    found = ca.verify(solution)
    assert found.proved
    assert (found.objective, found.upper_bound) == (-np.inf, -np.inf)
    assert found.margin > 0


def test_a_conflict_that_proves_nothing_is_not_believed():
    header, arrays = stored(ca.solve(infeasible_problems()["floors"]))
    assert verified(header, arrays).proved
    for name, factor in (
        ("proof.conflict.weights", 0.0),
        ("proof.conflict.weights", -1.0),
        ("proof.conflict.multipliers", 1e3),
    ):
        changed = {**arrays, name: factor * arrays[name]}
        assert not verified(header, changed).proved
    without = {**header, "proof": {**header["proof"], "conflict": False}}
    assert "no witness" in verified(without, arrays).statement


def test_a_feasible_problem_is_never_proved_infeasible():
    header, arrays = stored(ca.solve(random_case(np.random.default_rng(8), ["TaskFloors"]).problem()))
    header["status"] = "INFEASIBLE"
    count = arrays["proof.term0.floors"].size
    header["proof"] = {**header["proof"], "conflict": True}
    arrays["proof.conflict.rest"] = np.zeros_like(arrays["proof.boxes.multipliers"][0])
    rng = np.random.default_rng(0)
    for _ in range(50):
        arrays["proof.conflict.weights"] = rng.exponential(size=count)
        arrays["proof.conflict.multipliers"] = arrays["proof.boxes.multipliers"][0] * rng.normal()
        assert not verified(header, arrays).proved


def test_limits_are_proved_with_the_gap_they_claim():
    problem = ca.worlds.problem("river_swim")
    solution = ca.solve(problem, callback=lambda progress: True)
    found = ca.verify(solution)
    assert solution.status is not ca.Status.SOLVED
    assert found.proved == bool(np.isfinite(solution.gap))


def test_an_answer_without_bounds_is_not_proved():
    solution = ca.solve(ca.worlds.problem("queue"))
    endless = dataclasses.replace(solution, status=ca.Status.TIME_LIMIT, upper_bound=np.inf, gap=np.inf)
    found = ca.verify(endless)
    assert not found.proved
    assert "no finite bounds" in found.statement


def test_a_time_limit_before_the_first_bound_can_be_saved(tmp_path):
    """Column generation then has multipliers, and no line yet for its risk."""
    problem = ca.Problem(ca.worlds.problem("clinic").mdp, ca.SafeSet([0, 1, 2, 3, 4], slack=0.9))
    solution = ca.solve(problem, time_limit_seconds=1e-9)
    assert solution.upper_bound == np.inf
    solution.save(tmp_path / "s.npz", witness=True)
    assert not ca.verify(solution).proved
    assert not ca.verify(tmp_path / "s.npz").proved


def test_a_cover_with_a_box_without_lines_proves_nothing():
    solution = ca.solve(ca.Problem(ca.worlds.maze(), ca.PeakExposure([[0], [2]]) + ca.Variance()))
    first, *others = solution.certificate.witness.boxes
    bare = dataclasses.replace(first, witness=dataclasses.replace(first.witness, cuts=()))
    cover = dataclasses.replace(solution.certificate.witness, boxes=(bare, *others))
    assert ca.verify(solution).proved
    certificate = dataclasses.replace(solution.certificate, witness=cover)
    assert not ca.verify(dataclasses.replace(solution, certificate=certificate)).proved


@pytest.mark.parametrize("name", ["Wasserstein", "Wasserstein crooked", "Wasserstein graph"])
def test_transport_is_bounded_on_both_sides(name):
    """A damaged plan only makes the proved objective lower; damaged potentials only raise the bound."""
    rng = np.random.default_rng(9)
    case = random_case(rng, [name])
    solution = ca.solve(case.problem())
    truth = reference.objective(case.raw, case.terms, case.caution, reference.occupancy(case.raw, solution.policy))
    for _ in range(20):
        header, arrays = stored(solution)
        tree = arrays["proof.term0.tree"]
        tree[int(rng.integers(tree.size))] = int(rng.integers(-1, tree.size))
        potentials = arrays["proof.boxes.line0"]
        arrays["proof.boxes.line0"] = potentials + rng.normal(size=potentials.shape)
        found = verified(header, arrays)
        scale = max(1.0, abs(truth))
        assert found.objective <= truth + 1e-9 * scale
        assert found.upper_bound >= truth - 1e-9 * scale


class Mine(ca.Risk):
    def value(self, d):
        return float(np.sum(d**2))

    def gradient(self, d):
        return 2 * d


def test_a_risk_of_the_user_is_refused(tmp_path):
    for risk in (Mine(), ca.Entropy() + Mine()):
        solution = ca.solve(ca.Problem(ca.worlds.river_swim(), risk))
        with pytest.raises(ca.IncompatibleError, match="Mine is a risk of your own"):
            ca.verify(solution)
        with pytest.raises(ca.IncompatibleError, match="Mine is a risk of your own"):
            solution.save(tmp_path / "mine.npz", witness=True)
    assert not list(tmp_path.iterdir())


def test_a_learned_solution_is_refused(tmp_path):
    learned = ca.learn(ca.worlds.river_swim().simulator(), samples=2000)
    with pytest.raises(ca.IncompatibleError, match="learned from samples"):
        ca.verify(learned)
    learned.save(tmp_path / "learned.npz")
    with pytest.raises(ca.IncompatibleError, match="learned from samples"):
        ca.verify(tmp_path / "learned.npz")
    with pytest.raises(ca.IncompatibleError, match="no witness"):
        learned.save(tmp_path / "learned.npz", witness=True)


@pytest.mark.parametrize("wrong", [None, 3, np.zeros(3), ca.Status.SOLVED])
def test_other_things_are_refused(wrong):
    with pytest.raises(ca.IncompatibleError, match=r"needs a ca\.Solution or the path"):
        ca.verify(wrong)


def test_a_flag_that_is_no_flag_is_refused(tmp_path):
    with pytest.raises(ca.InputError, match="witness must be True or False"):
        ca.solve(ca.worlds.problem("queue")).save(tmp_path / "s.npz", witness=np.ones(2))


def damaged_claims():
    """(what is changed, in header or arrays, to what)."""
    _, arrays = stored(ca.solve(ca.worlds.problem("queue")))
    for name, array in arrays.items():
        # rewards of outcomes make the second moments of pairs superfluous; without scalars boxes have no sides
        if name.startswith(("model.", "proof.", "policy")) and name != "model.reward_square" and array.size:
            if name != "model.outcome_rewards":  # without them it is another model, with rewards of pairs
                yield name, None
            yield name, array[..., :-1]
            yield name, np.full(array.shape, np.nan)
            yield name, array.astype("U")
    for key in ("proof", "model", "certificate", "objective"):
        for value in ({}, [], "x", 3, None):
            yield key, value


def test_damaged_claims_are_refused_with_a_typed_error():
    header, arrays = stored(ca.solve(ca.worlds.problem("queue")))
    refused = 0
    for name, value in damaged_claims():
        if name in arrays:
            changed = {key: array for key, array in arrays.items() if key != name or value is not None}
            changed |= {} if value is None else {name: value}
            claim = header, changed
        else:
            claim = {**header, name: value}, arrays
        try:
            assert not verified(*claim).proved
        except ca.CautiousError:
            refused += 1
    assert refused > 30


def test_a_file_with_flipped_bytes_is_refused_or_not_proved_or_unchanged(tmp_path):
    path, rng = tmp_path / "s.npz", np.random.default_rng(0)
    ca.solve(ca.worlds.problem("queue")).save(path, witness=True)
    content = path.read_bytes()
    for _ in range(60):
        damaged = bytearray(content)
        damaged[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        # the archive has check sums: what gets through them did not change an array
        try:
            ca.verify(path)
        except ca.FileError:
            continue


def test_an_untrue_number_is_named():
    header, arrays = stored(ca.solve(ca.worlds.problem("queue")))
    header["upper_bound"] -= 1.0
    header["gap"] = header["upper_bound"] - header["objective"]
    found = verified(header, arrays)
    assert not found.proved
    assert "more than the claimed" in found.statement
    assert found.margin < 0


def test_large_units_and_small_ones():
    rng, transitions = np.random.default_rng(0), ca.worlds.garnet(20, 3, 3).transitions
    for unit in (1e-300, 1e-20, 1e20, 1e300):
        solution = ca.solve(ca.Problem(ca.MDP(transitions, unit * rng.random((20, 3)), 0.9)))
        assert ca.verify(solution).proved


@pytest.mark.parametrize("risk", [ca.Entropy(), ca.KL([1.0, 0.0]), ca.TotalVariation([1.0, 0.0])])
def test_a_share_that_is_exactly_one(risk):
    """The occupancy that is found may exceed one by its error."""
    mdp = ca.MDP(np.eye(2)[:, None], [[1.0], [0.0]], 0.99, start=[1.0, 0.0])
    assert ca.verify(ca.solve(ca.Problem(mdp, risk))).proved


def test_an_objective_that_is_exactly_zero():
    """Its claimed error is zero too."""
    mdp = ca.MDP(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), [[0.0], [1.0]], 0.9, start=[1.0, 0.0])
    solution = ca.solve(ca.Problem(mdp, ca.Variance()))
    found = ca.verify(solution)
    assert (solution.objective, found.objective, found.proved) == (0.0, 0, True)


def test_one_state_with_a_graph_without_edges():
    mdp = ca.MDP(np.ones((1, 2, 1)), [[0.0, -10.0]], discount=0.9)
    assert ca.verify(ca.solve(ca.Problem(mdp, ca.Wasserstein([1.0], sp.csr_array((1, 1)))))).proved


def test_nothing_of_solvers_or_certificates_is_imported():
    code = (
        "import sys, cautious.verification.verify; print(*sorted(m for m in sys.modules if m.startswith('cautious.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {name for name in done.stdout.split() if not name.startswith("cautious.verification")}
    files = {"cautious.regular_files", "cautious.storage"}
    assert own == {"cautious.arrays", "cautious.checks", "cautious.errors"} | files


def test_without_flint_only_logarithms_are_missing():
    code = (
        "import sys; sys.modules['flint'] = None\n"
        "import cautious as ca\n"
        "mdp = ca.worlds.river_swim()\n"
        "print(ca.verify(ca.solve(ca.Problem(mdp, ca.Variance()))).proved)\n"
        "try:\n    ca.verify(ca.solve(ca.Problem(mdp, ca.Entropy())))\n"
        "except ca.MissingExtraError as error:\n    print('cautious[verify]' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True", "True"]


def test_the_caller_s_precision_stays():
    from flint import ctx

    before = ctx.prec
    ca.verify(ca.solve(ca.Problem(ca.worlds.river_swim(), ca.Entropy())))
    assert ctx.prec == before


def test_a_gap_far_below_the_rewards_is_proved():
    """Free, but for a caution so small that the whole objective is far below the last digit of the rewards."""
    mdp = ca.MDP(np.ones((1, 2, 1)), [[0.0, -1.0]], 0.99)
    risk = ca.TaskFloors(np.array([[[0.5, -12.0]], [[-17.0, 16.0]]]), [-7e4, -7e4]) + ca.Variance()
    solution = ca.solve(ca.Problem(mdp, risk, 1e-90))
    assert 0 < solution.gap < 1e-80
    assert ca.verify(solution).proved
