"""``--report`` of the commands: one page each, with the command that made it."""

import pytest

import cautious as ca
from cautious.report.words import number
from page_reader import read

pytestmark = pytest.mark.usefixtures("quick_pictures")


def test_solve(run, tmp_path):
    path = tmp_path / "page.html"
    assert run("solve", "queue", "--report", path)[0] == 0
    _, page = read(path)
    assert f"# on the command line: cautious solve queue --report {path}" in page.words
    assert "n/a" not in page.words.split("Which states")[0]
    assert "What one unit of caution buys" in page.sections


def test_frontier(run, tmp_path):
    path = tmp_path / "page.html"
    code, out, _ = run("frontier", "river_swim", "--cautions", "0,10", "--report", path)
    assert code == 0
    assert f"report: {path}" in out
    _, page = read(path)
    points = ca.frontier(ca.worlds.river_swim(), ca.Variance(), [0, 10])
    for one in points:
        assert number(one.expected_return, 6) in page.words
    assert "# on the command line: cautious frontier river_swim" in page.words


def test_pages_of_files_have_their_names_and_units(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = "good,run,good,0.9,5\ngood,run,bad,0.1,5\nbad,mend,good,1,-9\n"
    (tmp_path / "care-path.csv").write_text("state,action,next_state,probability,reward\n" + rows)
    assert run("solve", "care-path.csv", "--discount", 0.9, "--report", "page.html")[0] == 0
    text, page = read(tmp_path / "page.html")
    assert "<h1>care-path</h1>" in text
    assert "A model with" not in page.words
    (tmp_path / "log.csv").write_text("state,action,reward,next_state\n" + "good,run,5,bad\nbad,mend,-9,good\n" * 300)
    said = 'reward_range = [-9, 5]\nuntried = "forbid"\ntitle = "Our ward"\nstep = "night"\nreward_unit = "euros"\n'
    (tmp_path / "ward.toml").write_text(f'[model]\ntransitions = "log.csv"\ndiscount = 0.5\n{said}')
    for command in ("solve", "learn"):
        assert run(command, "ward.toml", "--report", "page.html")[0] == 0
        text, page = read(tmp_path / "page.html")
        assert "<h1>Our ward</h1>" in text
        assert "(euros, discounted)" in page.words
        assert "One step is one night." in page.words


@pytest.mark.parametrize("method", ["plug-in", "primal-dual", "paper"])
def test_learn(run, tmp_path, method):
    path = tmp_path / "page.html"
    code, out, _ = run(
        "learn",
        "river_swim",
        "--risk",
        "entropy",
        "--caution",
        0.1,
        "--samples",
        "2e4",
        "--method",
        method,
        "--report",
        path,
    )
    assert code in (0, 4)
    assert f"report: {path}" in out.replace("\n", "")
    _, page = read(path)
    assert "# on the command line: cautious learn river_swim" in page.words
    assert ("No model was counted" in page.words) is (method != "plug-in")


def test_a_folder_that_is_not_there_is_refused_before_any_work(run, tmp_path, capsys):
    assert run("frontier", "maze", "--report", tmp_path / "no" / "page.html")[:2] == (2, "")
