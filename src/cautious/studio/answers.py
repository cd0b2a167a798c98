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

from cautious.errors import InputError
from cautious.frontiers import Frontier
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.problem_files.risk_entries import written_risk
from cautious.report.sentences import risk_words
from cautious.report.words import action_name, fits_grid, number, percent, scene_of, state_name
from cautious.report.writing import write_policy
from cautious.solution import Solution
from cautious.status import Status
from cautious.studio.scenario import LARGEST_SIDE, RiskChoice, Scenario, Statement, has_limits

# of the table that is shown where there is no map
MAX_ROWS = 40
MAX_ACTIONS = 12
HOW_TO = "# cautious solve problem.toml --report report.html\n"


def pack(head: dict[str, Any], payload: bytes) -> bytes:
    """One binary message."""
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text + payload


def has_map(mdp: MDP) -> bool:
    """Whether the model is drawn as a map; beyond the largest grid that can be painted a table says more."""
    grid = scene_of(mdp).grid
    return fits_grid(mdp) and max(len(grid), len(grid[0])) <= LARGEST_SIDE


def solution_message(asked: int, solution: Solution, scenario: Scenario, choice: RiskChoice, seconds: float) -> bytes:
    """The answer to a statement."""
    d = solution.occupancy
    risk = solution.policy_risk
    head: dict[str, Any] = {
        "type": "solution",
        "number": asked,
        "status": solution.status.name,
        "verdict": proof_sentence(solution, choice),
        "detail": solution.certificate.statement,
        "caution": solution.caution,
        "expected_return": _plain(solution.expected_return),
        "risk": None if risk is None else _plain(risk),
        "risk_infinite": risk is not None and math.isinf(risk),
        "objective": _plain(solution.objective),
        "gap": _plain(solution.gap),
        "danger_share": float(d[scenario.danger].sum()) if scenario.danger.size else None,
        "method": solution.method,
        "seconds": seconds,
        "shape": list(solution.policy.shape),
    }
    if not has_map(solution.mdp):
        return pack(head | {"table": busiest(solution, scenario)}, b"")
    return pack(head, _floats(solution.policy) + _floats(d))


def proof_sentence(solution: Solution, choice: RiskChoice) -> str:
    """What is sure about the answer, in one plain sentence."""
    facts = solution.certificate.facts
    if solution.status is Status.INFEASIBLE and choice.kind == "safe":
        best = 1 - float(facts["best_reachable"])
        return (
            f"Impossible: you allow at most {percent(choice.slack)} of the time in danger, and every policy spends at "
            f"least {percent(best)} there. The one shown comes closest."
        )
    if solution.status is Status.INFEASIBLE:
        return f"Impossible: {solution.certificate.statement} The policy shown comes closest."
    if not math.isfinite(solution.gap):
        return "Nothing is proved yet: this is the best policy found so far."
    if solution.certificate.kind not in ("optimal", "global"):
        return "No policy close by is better, but one far away may be: that is all that could be proved."
    within = f"within {number(max(solution.gap, 1e-16), 2)} of the best possible"
    if solution.status is Status.SOLVED:
        return f"Proved: {within}."
    reason = {Status.TIME_LIMIT: "Time is up", Status.STOPPED: "Still working"}.get(solution.status, "Stopped early")
    return f"{reason}: so far proved {within}."


def busiest(solution: Solution, scenario: Scenario) -> list[dict[str, Any]]:
    """The states where the policy is most of the time, and what it does there."""
    mdp, share = solution.mdp, solution.occupancy.sum(axis=1)
    first = np.argsort(-share, kind="stable")[:MAX_ROWS]
    dangerous = set(scenario.danger.tolist())
    rows = []
    for state in dict.fromkeys([*first.tolist(), *sorted(dangerous)[:MAX_ROWS]]):
        chances = solution.policy[state]
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


def frontier_message(asked: int, points: Frontier) -> str:
    """The curve of return against risk; points without a finite risk are left out."""
    rows = [
        {"caution": one.caution, "expected_return": one.expected_return, "risk": one.policy_risk}
        for one in points
        if one.policy_risk is not None and math.isfinite(one.policy_risk) and math.isfinite(one.expected_return)
    ]
    return json.dumps({"type": "frontier", "number": asked, "points": rows})


def error_message(asked: int | None, text: str) -> str:
    """A sentence about what is wrong."""
    return json.dumps({"type": "error", "number": asked, "message": " ".join(text.split())})


def opened_words(problem: Problem, name: str) -> dict[str, Any]:
    """What a page must know about the problem that was opened."""
    mdp, scene = problem.mdp, scene_of(problem.mdp)
    own = "variance" if problem.unbound_risk is None else "own"
    return {
        "name": name,
        "title": "" if mdp.scene is None else scene.title,
        "story": scene.story,
        "unit": scene.reward_unit,
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "discount": mdp.discount,
        "statement": Statement(None, RiskChoice(own, habit="random"), problem.caution).plain(),
        "own_risk": None if problem.unbound_risk is None else problem.risk_label,
        "own_words": risk_words(problem.risk_label),
        "own_limits": has_limits(problem.with_caution(1.0)),
        "rows": list(scene.grid) if has_map(mdp) else None,
        "arrows": list(scene.action_arrows) if has_map(mdp) else [],
        "still": never_left(mdp) if has_map(mdp) else [],
        "actions": [action_name(mdp, a) for a in range(min(mdp.n_actions, MAX_ACTIONS))],
    }


def never_left(mdp: MDP) -> list[int]:
    """States in which every action stays."""
    pairs = np.arange(mdp.n_states * mdp.n_actions)
    stays = np.asarray(mdp.transitions[pairs, pairs // mdp.n_actions]).reshape(mdp.shape) > 1 - 1e-12
    return np.flatnonzero((stays | ~mdp.allowed).all(axis=1)).tolist()


def export(what: str, statement: Statement, scenario: Scenario, solution: Solution) -> tuple[str, str, bytes]:
    """Name, media type and content of a file."""
    # the writers of the library want a path; the only ones they get are made here
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
    if statement.risk.kind == "own":
        raise InputError("the risk is the one of the problem you opened, so its own file is the one to solve again")
    scenario.mdp.save(folder / "model.npz")
    lines = [HOW_TO, f"caution = {caution!r}", "", "[model]", 'file = "model.npz"']
    risk = scenario.risk(statement.risk)
    if risk is not None:
        lines += ["", *written_risk(risk, folder)]
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
