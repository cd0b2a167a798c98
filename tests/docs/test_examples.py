"""Every file of examples/ is a problem that is solved, and shows what it says."""

from pathlib import Path

import pytest

import cautious as ca
from cautious.problem_files.model_entries import SOURCES

FILES = sorted((Path(__file__).parents[2] / "examples").glob("*.toml"))
STUDY = next(path for path in FILES if path.name == "study.toml")
FILES.remove(STUDY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_an_example_is_solved_and_commented(path):
    pytest.importorskip("gymnasium", reason="extra gym")
    problem = ca.read_problem(path)
    assert ca.solve(problem).status is ca.Status.SOLVED
    assert problem.unbound_risk is not None or problem.constraints
    text = path.read_text()
    assert text.startswith("# ")
    assert f"#   cautious solve examples/{path.name}" in text or "#   cautious compare" in text


def test_there_is_one_for_every_source_of_a_model():
    text = "\n".join(path.read_text() for path in FILES)
    assert not {source for source in SOURCES if f"\n{source} = " not in text}


def test_the_maintenance_example_is_the_one_of_the_readme():
    mdp = ca.read_problem(FILES[0].with_name("maintenance.toml")).mdp
    worn = mdp.state_names.index("worn")
    policy = ca.solve(ca.Problem(mdp, ca.SafeSet(["good", "worn"], 0.05), 0.1)).policy
    assert policy[worn, mdp.action_names.index("service")] == pytest.approx(0.129, abs=1e-3)


def test_the_study_is_a_sweep(run, tmp_path):
    text = STUDY.read_text()
    assert "#   cautious sweep examples/study.toml" in text
    small = tmp_path / "study.toml"
    small.write_text(text.replace("[3e3, 1e4, 3e4]", "[2e3]").replace("seeds = 10", "seeds = 2"))
    code, out, _ = run("sweep", small, "--out", tmp_path / "out")
    assert code == 0
    assert out.count("plug-in") == out.count("primal-dual") == 2
