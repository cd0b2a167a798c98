"""What a page is told: a JSON head and, for maps, the policy and the occupancy as float32; and files it can save.

A binary message is the length of its head (4 bytes, little-endian), the head padded with blanks to a multiple of four,
and the arrays, so that a page can look at them in place.
"""

import io
import json
import math
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array
from cautious.errors import InputError
from cautious.frontiers import Frontier
from cautious.models.horizons import TOTAL
from cautious.occupancy import occupancy_policy, uniform_policy
from cautious.problem_files.risk_entries import written_constraint, written_risk
from cautious.report.barriers import PLAIN_RISK, risk_figure
from cautious.report.limit_words import (
    impossible_words,
    is_share,
    limit_words,
    measure_words,
    sense_words,
    shown_constraints,
)
from cautious.report.over_steps import as_one_table
from cautious.report.words import action_name, number, return_words, state_name
from cautious.report.writing import write_policy
from cautious.solution import Solution
from cautious.status import Status
from cautious.studio.graph import graph_of
from cautious.studio.messages import Message
from cautious.studio.opening import MAX_ACTIONS, has_map
from cautious.studio.scenario import (
    Scenario,
    Statement,
)
from cautious.studio.session import Session
from cautious.studio.walks import walk_arrays

# of the table that is shown where there is no map
MAX_ROWS = 40
HOW_TO = "# cautious solve problem.toml --report report.html\n"


def pack(head: dict[str, Any], payload: bytes) -> bytes:
    """One binary message."""
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text + payload


def pack_arrays(head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """One binary message with arrays of four bytes an entry; the head has names, types and lengths."""
    listed = [[name, one.dtype.str[1:], one.size] for name, one in arrays.items()]
    return pack(head | {"arrays": listed}, b"".join(one.tobytes() for one in arrays.values()))


def walk_message(message: Message, solution: Solution, scenario: Scenario) -> bytes:
    """What walkers of one side of a page need."""
    facts, arrays = walk_arrays(solution, scenario)
    facts |= {"type": "walk", "number": message.number, "side": message.side}
    if message.side != "map":
        # the page has a map of its own, which has not been solved
        policy, d = tables(solution, message.statement.step)
        facts |= {
            "shape": list(policy.shape),
            "expected_return": _plain(solution.expected_return),
            "danger_share": float(d[scenario.danger].sum()) if scenario.danger.size else None,
            "visits": message.statement.horizon == TOTAL,
        }
        arrays |= {"table": policy.astype("<f4").ravel(), "occupancy": d.astype("<f4").ravel()}
    return pack_arrays(facts, arrays)


def solution_message(asked: int, solution: Solution, session: Session, statement: Statement, seconds: float) -> bytes:
    """The answer to a statement."""
    scenario = session.scenario(statement)
    policy, d = tables(solution, statement.step)
    figure, risk = session.risk_shown(statement, solution)
    mdp = solution.mdp
    head: dict[str, Any] = {
        "type": "solution",
        "number": asked,
        "status": solution.status.name,
        "verdict": proof_sentence(solution),
        "detail": solution.certificate.statement,
        "caution": solution.caution,
        "expected_return": _plain(solution.expected_return),
        "counted": return_words(mdp),
        "risk": None if risk is None else _plain(risk),
        "risk_infinite": risk is not None and math.isinf(risk),
        "risk_name": figure.name if figure.is_barrier else "",
        "risk_is_share": figure.is_share,
        "objective": None if figure.is_barrier else _plain(solution.objective),
        "gap": _plain(solution.gap),
        "danger_share": float(d[scenario.danger].sum()) if scenario.danger.size else None,
        "visits": statement.horizon == TOTAL,
        "limits": limit_rows(solution, statement),
        "method": solution.method,
        "seconds": seconds,
        "shape": list(policy.shape),
    }
    if not has_map(scenario.mdp):
        return pack(head | {"table": busiest(policy, d, scenario), "graph": graph_of(policy, d, scenario)}, b"")
    return pack(head, _floats(policy) + _floats(d))


def tables(solution: Solution, step: int = 0) -> tuple[Array, Array]:
    """Policy and occupancy (S, A) of one step, or of all of them, in the model without memory."""
    one = as_one_table(solution)
    policy, d = one.policy, one.certificate.visits.pairs
    if step > 0 and isinstance(solution.horizon, int):
        policy, d = solution.policy[step - 1], solution.occupancy[step - 1]
        d = d / max(float(d.sum()), 1e-300)
    memory = solution.mdp.memory
    if memory is None:
        return policy, d
    base = memory.base
    together = np.zeros(base.shape)
    np.add.at(together, memory.origin, d)
    return occupancy_policy(together, uniform_policy(base.allowed)), together


def limit_rows(solution: Solution, statement: Statement) -> list[dict[str, Any]]:
    """Each limit: which one it is, a sentence, and whether the policy shown keeps it."""
    given = statement.limits.given
    rows = []
    for k, (row, own) in enumerate(zip(shown_constraints(solution), solution.constraints, strict=True)):
        # what is more than the page asked for are barriers at caution 0
        name, place, _ = given[k] if k < len(given) else ("barrier", None, 0.0)
        text = limit_words(row, solution.mdp, solution.gap, math.isfinite(solution.objective))
        rows.append({"limit": name, "place": place, "text": text[:1].upper() + text[1:], "kept": own.slack >= 0})
    return rows


def proof_sentence(solution: Solution) -> str:
    """What is sure about the answer, in one plain sentence."""
    if solution.status is Status.INFEASIBLE:
        why = impossible_words(solution) or solution.certificate.statement
        return f"Impossible: {why[:1].lower() + why[1:]} The policy shown comes closest."
    if solution.certificate.kind == "undecided":
        return f"Not decided: {solution.certificate.statement}"
    if not math.isfinite(solution.gap):
        return "Nothing is proved yet: this is the best policy found so far."
    if solution.certificate.kind not in ("optimal", "global"):
        return "No policy close by is better, but one far away may be: that is all that could be proved."
    kept = " that keeps the limits" if len(solution.constraints) > 1 else " that keeps the limit"
    within = f"within {number(max(solution.gap, 1e-16), 2)} of the best possible"
    within += kept if solution.constraints else ""
    if solution.status is Status.SOLVED:
        return f"Proved: {within}."
    reason = {Status.TIME_LIMIT: "Time is up", Status.STOPPED: "Still working"}.get(solution.status, "Stopped early")
    return f"{reason}: so far proved {within}."


def busiest(policy: Array, d: Array, scenario: Scenario) -> list[dict[str, Any]]:
    """The states where the policy is most of the time, and what it does there."""
    mdp, share = scenario.mdp, d.sum(axis=1)
    first = np.argsort(-share, kind="stable")[:MAX_ROWS]
    dangerous = set(scenario.danger.tolist())
    rows = []
    for state in dict.fromkeys([*first.tolist(), *sorted(dangerous)[:MAX_ROWS]]):
        chances = policy[state]
        likeliest = np.argsort(-chances, kind="stable")[:MAX_ACTIONS]
        rows.append(
            {
                "state": state,
                "name": state_name(mdp, state),
                "share": float(share[state]),
                "danger": state in dangerous,
                "actions": [[action_name(mdp, int(a)), float(chances[a])] for a in likeliest if chances[a] > 0],
            }
        )
    return rows


def frontier_message(asked: int, points: Frontier, statement: Statement) -> str:
    """The curve of return against risk, or against the only limit; points that no policy reaches are left out."""
    figure = PLAIN_RISK if points.over_limit else risk_figure(points)
    rows = []
    for one in points:
        x = one.constraints[0].bound if points.over_limit else one.policy_risk
        if x is None or not math.isfinite(x) or not math.isfinite(one.objective):
            continue
        shown = figure.value(one) if figure.is_barrier else x
        rows.append({"x": shown, "expected_return": one.expected_return, "caution": one.caution})
    head: dict[str, Any] = {"type": "frontier", "number": asked, "points": rows}
    head |= {"risk": figure.name if figure.is_barrier else "", "share": figure.is_share, "limit": None}
    if points.over_limit:
        ((name, place, _),) = statement.limits.given
        row = shown_constraints(points[0])[0]
        head |= {"risk": f"{measure_words(row)}, {sense_words(row)}", "share": is_share(row)}
        head["limit"] = {"name": name, "place": place}
    return json.dumps(head)


def error_message(asked: int | None, text: str) -> str:
    """A sentence about what is wrong."""
    return json.dumps({"type": "error", "number": asked, "message": " ".join(text.split())})


def export(what: str, statement: Statement, scenario: Scenario, solution: Solution) -> tuple[str, str, bytes]:
    """Name, media type and content of a file."""
    # the writers of the library need a path; all paths are made here, and none comes from a request
    with tempfile.TemporaryDirectory(prefix="cautious-studio-") as folder:
        if what == "report":
            path = Path(folder) / "report.html"
            solution.report(path)
            return path.name, "text/html", path.read_bytes()
        if what == "policy":
            path = Path(folder) / "policy.csv"
            write_policy(solution, path)
            return path.name, "text/csv", path.read_bytes()
        return "problem.zip", "application/zip", _problem_archive(statement, scenario, solution.caution, Path(folder))


def _problem_archive(statement: Statement, scenario: Scenario, caution: float, folder: Path) -> bytes:
    for what, counts in (("risk is", statement.risk.kind == "own"), ("limits are", any(statement.limits.own))):
        if counts:
            raise InputError(f"the {what} that of the problem you opened, so its own file is the one to solve again")
    scenario.mdp.save(folder / "model.npz")
    lines = [HOW_TO, f"caution = {caution!r}"]
    lines += [] if statement.horizon is None else [f"horizon = {json.dumps(statement.horizon)}"]
    lines += ["", "[model]", 'file = "model.npz"']
    risk = scenario.risk(statement.risk)
    lines += [] if risk is None else ["", *written_risk(risk, folder)]
    for constraint in scenario.constraints(statement.limits):
        lines += ["", *written_constraint(constraint, folder)]
    (folder / "problem.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    return packed.getvalue()


def _floats(table: NDArray[Any]) -> bytes:
    return np.ascontiguousarray(table, dtype="<f4").tobytes()


def _plain(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
