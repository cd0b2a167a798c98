"""Which packages there are, what each can take, and whether it is installed.

A name is a solver and, after a space, one of its settings: "CLARABEL 1e-10", "QuantEcon MPI". CVXPY calls the solvers
of convex programs; the other packages plan without a risk.
"""

from importlib.util import find_spec

from cautious.models.horizons import TOTAL
from cautious.problem import Problem
from cautious.risks.base import Risk, terms_of
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.limits import Limit
from cautious.risks.matrix_transport import MatrixTransport
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.transport import GraphTransport

CONES = ("CLARABEL", "CLARABEL 1e-10", "SCS")
LINEAR = ("PIQP", "CLARABEL 1e-10", "CLARABEL", "HIGHS IPM", "SCS", "HIGHS", "HIGHS PDLP")
QUADRATIC = ("PIQP", *CONES)
PLANNERS = ("QuantEcon MPI", "QuantEcon PI", "QuantEcon VI", "Storm", "Storm PI", "MDPSolver VI", "MDPSolver MPI")
EVERY = (*PLANNERS, *LINEAR)
# one or two settings of each package, those that usually do best
USUAL = ("QuantEcon MPI", "QuantEcon PI", "QuantEcon VI", "MDPSolver MPI", "Storm", "CLARABEL", "PIQP", "HIGHS", "SCS")
CVXPY = "CVXPY"
OWNERS = (CVXPY, "QuantEcon", "Storm", "MDPSolver")
MODULES = {"CLARABEL": "clarabel", "SCS": "scs", "HIGHS": "highspy", "PIQP": "piqp"}
MODULES |= {"QuantEcon": "quantecon", "MDPSolver": "mdpsolver", "Storm": "stormpy"}
IN_OUR_EXTRA = ("cvxpy", "clarabel", "scs", "highspy")
# a full matrix of distances makes a transport plan of this many states squared
MAX_PLAN_STATES = 1000
# the bound risks that ``convex`` can write down, and the kind of cost each makes
COSTS: dict[type[Risk], str] = {
    LogBarrier: "exponential",
    EntropicRisk: "exponential",
    HalfSquares: "quadratic",
    WorstOf: "linear",
    HalfL1: "linear",
    GraphTransport: "linear",
    MatrixTransport: "linear",
}


def owner(name: str) -> str:
    """The package one calls: CVXPY, or the planner itself."""
    first = name.split()[0]
    return first if first in OWNERS else CVXPY


def missing(name: str) -> str | None:
    """What to install before the solver can be called; None when all of it is there."""
    needed = [*(["cvxpy"] if owner(name) == CVXPY else []), MODULES[name.split()[0]]]
    absent = [module for module in needed if find_spec(module) is None]
    if not absent:
        return None
    ours = ['"cautious[solvers]"'] if any(module in IN_OUR_EXTRA for module in absent) else []
    return " ".join([*ours, *(module for module in absent if module not in IN_OUR_EXTRA)])


def refusal(problem: Problem, name: str) -> str | None:
    """Why a solver cannot take a problem; None when it can."""
    if owner(name) != CVXPY:
        return _planner_refusal(problem, name)
    risks = [risk for _, term in problem.terms for risk in _measured(term)]
    kinds = [type(risk) for risk in risks]
    unknown = [risk.label for risk in risks if type(risk) not in COSTS]
    if unknown:
        return f"takes convex risks of this package only, not {unknown[0]}"
    if problem.mdp.n_states > MAX_PLAN_STATES and MatrixTransport in kinds:
        return f"the matrix of distances makes a plan of {problem.mdp.n_states**2:,} entries"
    costs = {COSTS[kind] for kind in kinds}
    if any(COSTS[type(risk)] == "quadratic" for limit in problem.limits for risk in _measured(limit)):
        # a quadratic constraint needs a second-order cone
        costs.add("exponential")
    fitting = CONES if "exponential" in costs else QUADRATIC if "quadratic" in costs else LINEAR
    return None if name in fitting else f"takes linear{' and quadratic' if name in QUADRATIC else ''} costs only"


def _planner_refusal(problem: Problem, name: str) -> str | None:
    horizon, limited = problem.mdp.horizon, name == "Storm" and bool(problem.limits)
    if horizon is not None and not (limited and horizon == TOTAL):
        return f"is asked for discounted returns only, and the horizon is {horizon!r}"
    if problem.neutral:
        return None
    if not limited:
        return "plans without a risk or limit only"
    if len(problem.terms) > len(problem.limits) or not all(limit.linear for limit in problem.limits):
        return "takes linear limits only, and no risk beside them"
    return None


def _measured(risk: Risk) -> list[Risk]:
    """The risk, or the terms of the measure of a limit."""
    return [one for _, one in terms_of(risk.measure)] if isinstance(risk, Limit) else [risk]
