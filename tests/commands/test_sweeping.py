"""``cautious sweep``: the sweep of the library, from a file."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

import cautious as ca

STUDY = """problems = {{ swim = "river_swim", mine = "mine.toml" }}
methods = ["plug-in"]
cautions = [2]
samples = [2e3, 3000]
seeds = {seeds}
risk = "variance"
"""
PROBLEM = '[model]\nworld = "river_swim"\n[risk]\nkind = "Variance"\n'


@pytest.fixture
def study(tmp_path):
    (tmp_path / "mine.toml").write_text(PROBLEM)
    file = tmp_path / "study.toml"
    file.write_text(STUDY.format(seeds=2))
    return file


def test_the_command_is_the_call(study, run, tmp_path):
    code, out, _ = run("sweep", study, "--json", "--table", tmp_path / "runs.csv")
    assert code == 0
    problem = ca.Problem(ca.worlds.river_swim(), ca.Variance())
    expected = ca.sweep({"swim": problem, "mine": problem}, ["plug-in"], [2], samples=[2000, 3000], seeds=2)
    answer = json.loads(out)
    assert answer["rows"] == expected.table()
    assert answer["summary"] == {"number": "gap", "rows": expected.summary("gap")}
    expected.save(tmp_path / "expected.csv")
    assert (tmp_path / "runs.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()
    # beside the file, without its suffix
    assert (tmp_path / "study" / "question.json").exists()
    code, out, _ = run("sweep", study)
    assert code == 0
    assert "interquartile means over seeds" in out


def test_failed_runs_are_told_and_give_code_4(study, run, tmp_path, monkeypatch):
    monkeypatch.setattr("cautious.sweeps.runs.learn", lambda *given: 1 / 0)
    code, out, _ = run("sweep", study)
    assert code == 4
    assert "failed: swim, plug-in, caution 2, 2,000 samples, seed 0: ZeroDivisionError" in out
    monkeypatch.undo()
    assert run("sweep", study)[0] == 4
    assert run("sweep", study, "--retry-failed")[0] == 0


WRONG = {
    'problems = ["nowhere"]': "nowhere",
    "problems = 3": "problems is 3; expected a list such as",
    "methods = []": "the study needs problems",
    'problems = ["river_swim"]\nmethod = "plug-in"': "the study has an unknown key 'method'; did you mean 'methods'?",
    'problems = ["river_swim"]\nmethods = ["plugin"]': "there is no method 'plugin'; did you mean 'plug-in'?",
    'problems = ["river_swim"]\nsamples = [0.5]': "samples must be a whole number of at least 1, found 0.5",
    'problems = ["river_swim"]\nrisk = 3': "risk is 3; expected a text such as 'variance'",
    "problems = [": "not valid TOML",
}


@pytest.mark.parametrize("content", WRONG)
def test_wrong_files_are_refused(content, run, tmp_path):
    (tmp_path / "study.toml").write_text(content)
    code, _, err = run("sweep", tmp_path / "study.toml")
    assert code == 2
    assert re.search(re.escape(WRONG[content]), err)
    assert not (tmp_path / "study").exists()


def test_a_killed_command_goes_on(study, tmp_path):
    study.write_text(STUDY.format(seeds=40))
    command = [sys.executable, "-m", "cautious", "sweep", str(study), "--table", str(tmp_path / "runs.csv")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    results = tmp_path / "study" / "results"
    while not len(list(results.rglob("*.json"))) >= 5:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = {path: path.stat().st_mtime_ns for path in results.rglob("*.json")}
    assert 5 <= len(kept) < 162
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    assert all(path.stat().st_mtime_ns == when for path, when in kept.items())
    assert len(list(results.rglob("*.json"))) == 162
    assert not list(results.rglob("*.part"))
    problem = ca.Problem(ca.worlds.river_swim(), ca.Variance())
    whole = ca.sweep({"swim": problem, "mine": problem}, ["plug-in"], [2], samples=[2000, 3000], seeds=40)
    whole.save(tmp_path / "expected.csv")
    assert (tmp_path / "runs.csv").read_bytes() == (tmp_path / "expected.csv").read_bytes()
