"""One run of a sweep: solve or learn, and judge the policy in the model where that is known.

A run sees its description alone (problem, method, caution, samples, seed), so that it gives the same row wherever and
whenever it is done. One that fails gives a row with its error.
"""

import hashlib
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.errors import IncompatibleError
from cautious.evaluation.agents import Agent, agent_table
from cautious.evaluation.policy_rows import policy_table
from cautious.learning.learn import METHODS, learn
from cautious.learning.method import Method
from cautious.learning.task import checked_task
from cautious.models.simulators import Simulator
from cautious.occupancy import check_policy
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.solvers.solve import solve
from cautious.sweeps.folder import Job

EXACT = "exact"
KNOWN_METHODS = (EXACT, *METHODS)
# what a function that is a method takes, and returns a policy
Learner = Callable[[Simulator, Risk | None, float, int, int], Any]


@dataclass(frozen=True)
class Subject:
    """What is learned or solved under one name: a problem in a known model, or a simulator and a risk."""

    problem: Problem | None
    simulator: Simulator
    risk: Risk | None

    def question(self) -> dict[str, Any]:
        """What must stay the same for results to be of the same subject."""
        if self.problem is None:
            found = checked_task(self.simulator, self.risk, 1.0, 1, 0).fingerprint()
            return {name: found[name] for name in ("shape", "discount", "reward_range", "model", "risk", "risk values")}
        problem, mdp = self.problem, self.problem.mdp
        weights = np.where(mdp.allowed, np.arange(1, mdp.allowed.size + 1).reshape(mdp.shape), 0.0)
        places = [weights / weights.sum(), mdp.allowed / mdp.allowed.sum()]
        rows, risk = mdp.transitions, problem.risk
        return {
            "shape": list(mdp.shape),
            "discount": mdp.discount,
            "horizon": mdp.horizon,
            "start": _digest(mdp.start),
            "actions": _digest(mdp.allowed),
            "transitions": _digest(rows.indptr.astype(np.int64), rows.indices.astype(np.int64), rows.data),
            "rewards": _digest(mdp.rewards, mdp.reward_square),
            "risk": problem.risk_label,
            "risk values": [] if risk is None else [repr(float(risk.value(place))) for place in places],
            "constraints": [f"{limit.label} {limit.bound!r}" for limit in problem.limits],
        }


def _digest(*arrays: Any) -> str:
    found = hashlib.sha256()
    for array in arrays:
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()[:16]


@dataclass(frozen=True)
class Content:
    """What all runs share; it is sent to each worker once."""

    subjects: Mapping[str, Subject]
    methods: Mapping[str, str | Method | Learner]
    tolerance: float


def method_question(method: str | Method | Learner) -> str:
    """What must stay the same for results to be of the same method."""
    if isinstance(method, str | Method):
        return method if isinstance(method, str) else repr(method)
    try:
        source = inspect.getsource(method)
    except (OSError, TypeError):
        source = ""
    name = getattr(method, "__qualname__", type(method).__name__)
    return f"{getattr(method, '__module__', '')}.{name} {hashlib.sha256(source.encode()).hexdigest()[:16]}"


def run(content: Content, job: Job) -> dict[str, Any]:
    """The row of one run, or of the optimum that runs are compared with."""
    try:
        found = _run(content, job)
    except Exception as error:
        return failed(job, error)
    return dict(job) | found | {"error": ""}


def failed(job: Job, error: Exception) -> dict[str, Any]:
    """The row of a run that failed."""
    return dict(job) | NOTHING | {"status": "FAILED", "error": f"{type(error).__name__}: {error}"}


NOTHING: dict[str, Any] = dict.fromkeys(("objective", "expected_return", "risk", "upper_bound", "drawn"))


def _run(content: Content, job: Job) -> dict[str, Any]:
    subject, caution = content.subjects[job["problem"]], job["caution"]
    method = content.methods.get(job["method"], job["method"])
    problem = None if subject.problem is None else subject.problem.with_caution(caution)
    if isinstance(method, str) and method == EXACT:
        assert problem is not None
        solution = solve(problem, tolerance=content.tolerance, seed=job["seed"])
        return {
            "status": solution.status.name,
            "objective": solution.objective,
            "expected_return": solution.expected_return,
            "risk": solution.risk,
            "upper_bound": solution.upper_bound,
            "drawn": 0,
        }
    if isinstance(method, str | Method):
        learned = learn(subject.simulator, subject.risk, caution, job["samples"], method, job["seed"])
        row = {
            "status": learned.status.name,
            "objective": learned.objective,
            "expected_return": learned.expected_return,
            "risk": learned.risk,
            "upper_bound": None,
            "drawn": learned.steps,
        }
        return row if problem is None else row | _judged(problem, learned.policy)
    policy = method(subject.simulator, subject.risk, caution, job["samples"], job["seed"])
    assert problem is not None
    return {"status": "GIVEN", "upper_bound": None, "drawn": job["samples"], **_judged(problem, policy)}


def _judged(problem: Problem, policy: Any) -> dict[str, float]:
    """What a policy is worth in the model, exactly."""
    table = policy_table(policy, problem.mdp)
    if isinstance(table, Agent):
        table = agent_table(table, problem.mdp)
    if table is None:
        raise IncompatibleError("the policy remembers, or answers differently when it is asked again; it has no table")
    found = evaluate_policy(problem, check_policy(problem.mdp, table))
    risk = 0.0 if problem.caution == 0 else found.risk
    return {"objective": found.objective, "expected_return": found.expected_return, "risk": risk}


def gap_of(row: Mapping[str, Any], optimum: Mapping[str, Any] | None) -> float | None:
    """How far a policy is at most below the best one; None where one of them is not known."""
    above = None if optimum is None else optimum["upper_bound"]
    if above is None or row["objective"] is None or not (math.isfinite(above) and math.isfinite(row["objective"])):
        return None
    return float(above - row["objective"])
