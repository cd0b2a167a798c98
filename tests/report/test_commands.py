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
