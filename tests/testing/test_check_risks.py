import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious import testing
from cautious.certificate.bounds import Witness
from cautious.occupancy import policy_occupancy
from cautious.risks.base import ConicRisk, Cut, Risk
from cautious.solvers.base import Candidate, Solver
from cautious.solvers.choose import dispatch
from cautious.solvers.column_generation.column_generation import ColumnGeneration
from cautious.solvers.conic.conic import ConicProgram
from cautious.solvers.dual_newton.dual_newton import DualNewton
from cautious.solvers.local_models.local_models import LocalModels
from cautious.solvers.risk_neutral import RiskNeutral
from cautious.solvers.scalar_search.scalar_search import ScalarSearch
from cautious.testing import CheckFailure, check_model, check_risk, check_simulator, check_solver

MODEL = ca.worlds.garnet(n_states=8, n_actions=3, n_successors=3, discount=0.9, seed=3)


def prior():
    return np.random.default_rng(0).dirichlet(np.ones(24)).reshape(8, 3)


def sparse_prior():
    """The occupancy of a policy that never uses the last action."""
    policy = np.tile([0.5, 0.5, 0.0], (8, 1))
    return policy_occupancy(MODEL, policy).occupancy


def ring():
    here = np.arange(8)
    return sp.csr_array((np.ones(8), (here, (here + 1) % 8)), shape=(8, 8))


def tasks():
    return np.random.default_rng(1).random((3, 8, 3))


RISKS = {
    "SafeSet": lambda: ca.SafeSet([0, 1, 2, 3, 4, 5], 0.5),
    "SafeSet, tight": lambda: ca.SafeSet([0, 1, 2, 3, 4, 5], 0.2),
    "TaskFloors": lambda: ca.TaskFloors(tasks(), [4.0, 4.0, 4.0]),
    "PeakExposure": lambda: ca.PeakExposure([[0], [1, 2], [3]]),
    "WorstTask": lambda: ca.WorstTask(tasks()),
    "Variance": ca.Variance,
    "CVaR": lambda: ca.CVaR(0.9),
    "KL": lambda: ca.KL(prior()),
    "KL, zeros": lambda: ca.KL(sparse_prior()),
    "KL, states": lambda: ca.KL(prior().sum(axis=1)),
    "TotalVariation": lambda: ca.TotalVariation(prior()),
    "TotalVariation, states": lambda: ca.TotalVariation(prior().sum(axis=1)),
    "Quadratic": lambda: ca.Quadratic(prior()),
    "Quadratic, states": lambda: ca.Quadratic(prior().sum(axis=1)),
    "Wasserstein, graph": lambda: ca.Wasserstein(prior().sum(axis=1), ring()),
    "Wasserstein, matrix": lambda: ca.Wasserstein(prior().sum(axis=1), abs(np.subtract.outer(range(8), range(8)))),
    "Entropy": ca.Entropy,
    "sum": lambda: 2.0 * ca.Entropy() + ca.Variance() + ca.PeakExposure([[0]]),
}


@pytest.mark.parametrize("name", RISKS)
@pytest.mark.parametrize("seed", [0, 1])
def test_built_in_risks_pass(name, seed):
    check_risk(RISKS[name](), MODEL, seed)


@pytest.mark.parametrize("name", RISKS)
def test_values_and_gradients_found_together(name):
    risk, rng = ca.Problem(MODEL, RISKS[name]()).risk, np.random.default_rng(7)
    for _ in range(5):
        d = rng.dirichlet(np.ones(MODEL.n_states * MODEL.n_actions)).reshape(MODEL.shape) * MODEL.allowed
        d /= d.sum()
        value, gradient = risk.value_and_gradient(d)
        assert value == risk.value(d)
        if np.isfinite(value):
            np.testing.assert_array_equal(gradient, risk.gradient(d))
        else:
            assert gradient is None


@pytest.mark.parametrize("name", ca.worlds.names())
def test_worlds_pass_with_their_risks_and_simulators(name):
    problem = ca.worlds.problem(name)
    check_model(problem.mdp)
    check_simulator(problem.mdp.simulator())
    if problem.mdp.n_states <= 150:
        check_risk(problem.unbound_risk, problem.mdp)


# these two are never asked about a problem without a risk, and raise instead of answering


@pytest.mark.parametrize(
    "solver",
    [
        RiskNeutral(),
        ScalarSearch(dispatch),
        ColumnGeneration(),
        DualNewton(),
        ConicProgram(),
        LocalModels(),
    ],
    ids=lambda solver: solver.name,
)
def test_built_in_solvers_pass(solver):
    check_solver(solver)


@dataclass(frozen=True)
class Bowl(Risk):
    def value(self, d):
        return 0.5 * float(np.sum(d**2))

    def gradient(self, d):
        return d.copy()


class WrongGradient(Bowl):
    def gradient(self, d):
        return 1.01 * d


class Dome(Bowl):
    def value(self, d):
        return -super().value(d)

    def gradient(self, d):
        return -d


class Mutating(Bowl):
    def value(self, d):
        d *= 1.0 + 1e-12
        return super().value(d)


class WrongShape(Bowl):
    def gradient(self, d):
        return d.sum(axis=1)


class WrongType(Bowl):
    def value(self, d):
        return d


class Forgetful(Bowl):
    """Its value depends on how often it was asked."""

    def value(self, d):
        self.__dict__["calls"] = self.__dict__.get("calls", 0) + 1
        return super().value(d) * (1 + 1e-6 * self.__dict__["calls"])


class NoGradient(Bowl):
    def gradient(self, d):
        return np.full_like(d, np.nan)


class Crashing(Bowl):
    def value(self, d):
        raise ZeroDivisionError("division by nothing")


class LooseCut(Bowl):
    def cut(self, witness, active):
        cut = super().cut(witness, active)
        return Cut(cut.slope, cut.intercept + 1e-3)


class ForbidsTooMuch(Bowl):
    def permitted(self):
        return np.arange(24).reshape(8, 3) % 3 > 0


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        (WrongGradient(), "finite differences"),
        (Dome(), "flagged convex"),
        (Mutating(), "changes its argument"),
        (WrongShape(), "shape"),
        (WrongType(), "number"),
        (Forgetful(), "same point again"),
        (NoGradient(), "not finite"),
        (Crashing(), "division by nothing"),
        (LooseCut(), "tangent's cut reaches"),
        (ForbidsTooMuch(), r"forbids \(0, 0\)"),
        ("variance", "binding 'variance'"),
        (None, "needs a risk"),
        (ca.SafeSet([0], 0.001), "finite risk"),
        (ca.PeakExposure([[99]]), "99"),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Risk) else None,
)
def test_broken_risks_are_caught(risk, words):
    with pytest.raises(CheckFailure, match=words):
        check_risk(risk, MODEL)


def test_the_message_says_by_how_much():
    with pytest.raises(CheckFailure, match=r"WrongGradient\.gradient: .* off by \d"):
        check_risk(WrongGradient(), MODEL)


class Reshaped(Risk):
    """Binds to a bound risk of the package with a part replaced."""

    def __init__(self, inner, **changes):
        self.inner, self.changes = inner, changes

    def value(self, d):
        raise NotImplementedError

    gradient = value

    def bind(self, mdp):
        bound = self.inner.bind(mdp)
        members = {name: change(bound) for name, change in self.changes.items()}
        return type("Broken", (type(bound),), members)(**bound.__dict__)


def with_form(**parts):
    """An epigraph with parts replaced."""
    return {"epigraph": lambda bound: lambda self, active: replace(bound.epigraph(active), **parts)}


def chord(self, low, high, at):
    """The table of ``at`` with its own offset: below the risk only when ``at`` is the best number."""
    return self.table(at), at * at


@pytest.mark.parametrize(
    ("inner", "changes", "words"),
    [
        (ca.Variance(), {"offset": lambda _: lambda self, t: -0.1 * t * t}, "gives less|not that of its best|line"),
        (ca.Variance(), {"line": lambda _: chord}, "line"),
        (ca.Variance(), {"best": lambda _: lambda self, d: self.range[0]}, "gives less"),
        (ca.CVaR(0.8), {"interval": lambda _: lambda self: (-0.1, 0.0)}, "outside"),
        (ca.CVaR(0.8), {"cut_at": lambda _: lambda self, lo, hi, t: hi}, "not inside"),
        (
            ca.TotalVariation(prior()),
            {"tightest_line": lambda _: lambda self, u, here: (u, 0.0, 1.0)},
            "random witness",
        ),
        (ca.Entropy(), with_form(rhs=np.zeros(3)), "shape"),
        (ca.Entropy(), with_form(cones=(("ball", 72),)), "unknown cones"),
        (ca.Entropy(), with_form(cones=()), "cover 0 rows"),
        (ca.KL(sparse_prior()), {"permitted": lambda _: lambda self: np.ones(8, dtype=bool)}, "must be None or a mask"),
    ],
)
def test_broken_kinds_are_caught(inner, changes, words):
    with pytest.raises(CheckFailure, match=words):
        check_risk(Reshaped(inner, **changes), MODEL)


class Lying(Solver):
    """Delivers the best policy of the expected return, whatever the risk, and proves nothing."""

    name = "lying"

    def refusal(self, problem):
        return None

    def steps(self, problem, target):
        yield Candidate(problem.default_rows, Witness(np.zeros(problem.mdp.n_states), ()))


class Odd(Lying):
    def refusal(self, problem):
        return False


class Refusing(Lying):
    def refusal(self, problem):
        return "not today"


class Silent(Lying):
    def steps(self, problem, target):
        yield from ()


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        (Lying(), "STALLED with a gap"),
        (Odd(), "expected str or None"),
        (Refusing(), "refuses every"),
        (Silent(), "no policy"),
        (object(), "subclasses"),
    ],
)
def test_broken_solvers_are_caught(solver, words):
    with pytest.raises(CheckFailure, match=words):
        check_solver(solver)


def test_a_failure_is_an_error_of_the_package_and_an_assertion():
    assert issubclass(CheckFailure, ca.CautiousError)
    assert issubclass(CheckFailure, AssertionError)
    assert issubclass(ConicRisk, Risk)
    assert set(testing.__all__) >= {"check_model", "check_risk", "check_simulator", "check_solver"}


def test_warnings_of_the_risk_do_not_disturb():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_risk(ca.PeakExposure([[0], []]), MODEL)
