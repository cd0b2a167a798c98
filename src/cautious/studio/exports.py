"""Files a page can take away: the report, the policy as csv, and the problem as ``cautious solve`` reads it."""

import io
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from cautious.errors import InputError
from cautious.report.writing import write_policy
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet
from cautious.risks.scalar import CVaR
from cautious.solution import Solution
from cautious.studio.messages import Statement
from cautious.studio.scenario import Scenario

HOW_TO = "# cautious solve problem.toml --report report.html\n"


def export(what: str, statement: Statement, place: Scenario, solution: Solution) -> tuple[str, str, bytes]:
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
        return "problem.zip", "application/zip", _problem(statement, place, Path(folder))


def _problem(statement: Statement, place: Scenario, folder: Path) -> bytes:
    if statement.risk.kind == "own":
        raise InputError("the risk is the one of the problem you opened, so its own file is the one to solve again")
    place.mdp.save(folder / "model.npz")
    lines = [HOW_TO, f"caution = {statement.caution!r}", "", "[model]", 'file = "model.npz"']
    risk = place.risk(statement.risk)
    if risk is not None:
        lines += ["", "[risk]", f'kind = "{type(risk).__name__}"', *_fields(risk, folder)]
    (folder / "problem.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.write(path, path.name)
    return packed.getvalue()


def _fields(risk: Risk, folder: Path) -> list[str]:
    """The lines of ``[risk]`` that say what the risk was made with."""
    if isinstance(risk, SafeSet):
        return [f"states = {_numbers(risk.states)}", f"slack = {risk.slack!r}"]
    if isinstance(risk, PeakExposure):
        return [f"sets = [{', '.join(_numbers(one) for one in risk.sets)}]"]
    if isinstance(risk, CVaR):
        return [f"level = {risk.level!r}"]
    if isinstance(risk, KL | TotalVariation):
        np.save(folder / "prior.npy", risk.prior)
        return ['prior = "prior.npy"']
    return []


def _numbers(states: Any) -> str:
    return str(np.asarray(states).tolist())
