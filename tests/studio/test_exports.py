"""Files that are taken away: the command line reads them, and they say the same."""

import csv
import io
import json
import zipfile

import numpy as np
import pytest

import cautious as ca
from cautious.studio.exports import export
from cautious.studio.messages import RISKS, RiskChoice, Statement
from cautious.studio.session import Session
from studio.conftest import statement


def exported(what, asked, session=None):
    session = Session() if session is None else session
    solution = session.answered(asked, lambda: False)
    return solution, export(what, asked, session.place(asked), solution)


@pytest.mark.parametrize("kind", [kind for kind in RISKS if kind != "own"])
def test_the_command_line_solves_the_exported_problem(kind, run, tmp_path, monkeypatch):
    asked = statement(kind=kind, caution=2.0, slack=0.02, level=0.8)
    solution, (name, media, content) = exported("problem", asked)
    assert (name, media) == ("problem.zip", "application/zip")
    zipfile.ZipFile(io.BytesIO(content)).extractall(tmp_path)
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("solve", "problem.toml", "--json")
    assert code == 0
    assert abs(json.loads(out)["objective"] - solution.objective) < 1e-5


def test_the_policy_as_a_table():
    solution, (name, _, content) = exported("policy", statement())
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    assert name == "policy.csv"
    assert len(rows) == np.count_nonzero(solution.policy)
    assert sum(float(row["share_of_time"]) for row in rows) == pytest.approx(1.0)


def test_the_report(quick_pictures):
    pytest.importorskip("matplotlib", reason="extra plot")
    _, (name, _, content) = exported("report", statement())
    assert name == "report.html"
    assert b"<html" in content


def test_the_risk_of_an_opened_problem_stays_in_its_file():
    asked = Statement(None, RiskChoice("own"), 1.0)
    with pytest.raises(ca.InputError, match="its own file is the one to solve again"):
        exported("problem", asked, Session(ca.worlds.problem("queue")))
