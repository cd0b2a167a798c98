"""What a release needs: one version, files that say the same as the package, no page without its file."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import cautious as ca

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
YAML = [
    ".pre-commit-config.yaml",
    "CITATION.cff",
    *(str(p.relative_to(ROOT)) for p in (ROOT / ".github").rglob("*.yml")),
]


def test_the_version_is_written_in_one_place_and_cited():
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/cautious/__init__.py"
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == ca.__version__
    assert f"## {ca.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.parametrize("name", YAML)
def test_yaml_is_read(name):
    assert isinstance(yaml.safe_load((ROOT / name).read_text()), dict)


def test_the_workflow_runs_what_contributors_run():
    jobs = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
    said = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert said == ["bash .ci/run", "make dist"]
    assert re.search(r"^dist: ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_hooks_before_a_commit_run_installed_tools():
    (local,) = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    assert {hook["entry"].split()[0] for hook in local["hooks"]} == {
        ".venv/bin/ruff",
        ".venv/bin/mypy",
        ".venv/bin/pytest",
    }


def test_badges_are_those_of_the_package(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs/images"))
    from badges import badges

    assert (ROOT / "docs/images/badges.svg").read_text() == badges()
