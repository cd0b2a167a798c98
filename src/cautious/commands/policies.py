"""For ``evaluate``: policies from solutions, arrays or the csv of ``--policy-csv``; their risk and requirements."""

from pathlib import Path
from typing import Any

import numpy as np

from cautious import (
    MDP,
    FileError,
    InputError,
    PeakExposure,
    Problem,
    ReturnDistribution,
    SafeSet,
    Solution,
)
from cautious.arrays import Array, Mask
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.checks import did_you_mean
from cautious.problem_files.risk_entries import array_from_file
from cautious.report.barriers import Requirement, requirements_of
from cautious.report.words import action_name, state_name
from cautious.risks.base import terms_of
from cautious.risks.returns import ReturnRisk
from cautious.tables.columns import Columns, read_columns

MAX_NAMES_LISTED = 6
SUM_TOLERANCE = 1e-9


def read_policy(path: Path, mdp: MDP) -> Any:
    """A Solution, or a policy (S, A) in the order of the model."""
    if path.suffix.lower() == ".csv":
        return policy_from_rows(path, mdp)
    return array_from_file("--policy", path.name, path.parent, solutions=True)


def problem_horizon(policy: Any, mdp: MDP, asked: Any) -> Any:
    """The horizon of the problem that a policy answers; None leaves it to the problem.

    With a discount below 1, a number of steps says how long episodes are, and not what the policy is for.
    """
    if isinstance(policy, Solution):
        return policy.horizon
    if np.ndim(policy) == 3:
        return len(policy)
    return asked if mdp.discount == 1 or isinstance(asked, str) else None


def policy_from_rows(path: Path, mdp: MDP) -> Array:
    """Rows state, action, probability, matched by name; further columns are ignored, and pairs without a row are 0.

    With a column step, counted from 0, there is a table for every step.
    """
    rows = read_columns(
        path, labels={"state": "state", "action": "action"}, numbers=["probability", "step"], optional=["step"]
    )
    states = _numbers(rows, "state", [state_name(mdp, state) for state in range(mdp.n_states)])
    actions = _numbers(rows, "action", [action_name(mdp, action) for action in range(mdp.n_actions)])
    chances = rows.numbers["probability"]
    wrong = (chances < 0) | (chances > 1)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise rows.refusal(row, f"probability is {chances[row]:g}; it must be from 0 to 1")
    steps = _steps(rows)
    _, first = np.unique((steps * mdp.n_states + states) * mdp.n_actions + actions, return_index=True)
    if first.size < rows.n_rows:
        row = int(np.setdiff1d(np.arange(rows.n_rows), first)[0])
        pair = f"{action_name(mdp, int(actions[row]))} in {state_name(mdp, int(states[row]))}"
        raise rows.refusal(row, f"{pair} has a row already")
    n_steps = int(steps.max(initial=0)) + 1
    policy, told = np.zeros((n_steps, *mdp.shape)), np.zeros((n_steps, mdp.n_states), np.bool_)
    policy[steps, states, actions], told[steps, states] = chances, True
    for step in range(n_steps):
        when = f", step {step}" if "step" in rows.numbers else ""
        _check_states(f"{path}{when}", mdp, policy[step], told[step])
    return policy if "step" in rows.numbers else policy[0]


def _steps(rows: Columns) -> Any:
    """The step (n,) of each row, 0 without such a column."""
    if "step" not in rows.numbers:
        return np.zeros(rows.n_rows, np.int64)
    steps = rows.numbers["step"]
    wrong = (steps < 0) | (steps != np.floor(steps)) | (steps >= rows.n_rows)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise rows.refusal(row, f"step is {steps[row]:g}; steps are whole numbers, counted from 0 without a gap")
    return steps.astype(np.int64)


def _numbers(rows: Columns, column: str, names: list[str]) -> Any:
    """The states or actions (n,) of the model that a column names."""
    places = {name: place for place, name in enumerate(names)}

    def number(label: Any) -> int:
        if str(label) not in places:
            hint = did_you_mean(str(label), names) or ";"
            raise InputError(f"this model has no {column} {str(label)!r}{hint} its {column}s are {_some(names)}")
        return places[str(label)]

    return rows.numbered(column, column, number)


def _check_states(path: str, mdp: MDP, policy: Array, told: Any) -> None:
    if not told.all():
        names = [state_name(mdp, int(state)) for state in np.flatnonzero(~told)]
        raise FileError(f"{path}: no row for {_some(names)}; every state of the model needs its actions")
    sums = policy.sum(axis=1)
    off = np.abs(sums - 1) > SUM_TOLERANCE
    if off.any():
        state = int(np.argmax(off))
        raise FileError(
            f"{path}: the probabilities in {state_name(mdp, state)} sum to {sums[state]:.12g}; they must sum to 1 "
            f"within {SUM_TOLERANCE:g}"
        )


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MAX_NAMES_LISTED:,} more" if len(names) > MAX_NAMES_LISTED else ""
    return ", ".join(names[:MAX_NAMES_LISTED]) + more


def evaluated_risk(problem: Problem, policy: Array) -> tuple[float | None, list[Requirement]]:
    """The exact risk of a checked policy, whatever the caution, and the requirements; None without a risk."""
    if problem.risk is None:
        return None, []
    # at caution 0 the risk plays no part, and would not be computed
    counted = problem if problem.caution > 0 else problem.with_caution(1.0)
    of_return = counted.risk_of_policy(policy)
    if of_return is not None:
        return of_return, []
    found = evaluate_policy(counted, policy)
    return found.risk, requirements_of(counted, found.occupancy.pairs)


def risk_of_returns(risk: ReturnRisk, label: str, returns: ReturnDistribution) -> float | None:
    """Another risk of a policy with memory than its own, from above; None where exponentials would have to be known."""
    if label != risk.label or risk.needs_exponentials:
        return None
    return risk.interval(returns)[1]


def watched_sets(problem: Problem) -> dict[str, Mask]:
    """Masks (S,) of the states outside safe sets and of the danger sets, by name."""
    terms = () if problem.unbound_risk is None else terms_of(problem.unbound_risk)
    safe = [risk.states for _, risk in terms if isinstance(risk, SafeSet)]
    outside = "states outside the safe set"
    names = [outside] if len(safe) == 1 else [f"{outside} {j}" for j in range(len(safe))]
    watched = {name: ~_mask(problem, states) for name, states in zip(names, safe, strict=True)}
    danger = [states for _, risk in terms if isinstance(risk, PeakExposure) for states in risk.sets]
    return watched | {f"danger set {j}": _mask(problem, states) for j, states in enumerate(danger)}


def _mask(problem: Problem, states: Any) -> Mask:
    inside = problem.mdp.state_indices("states", states)
    return np.isin(np.arange(problem.mdp.n_states), inside)
