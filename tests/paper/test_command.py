"""``cautious paper``: one part of it for real, and what it refuses."""

import json

import pytest


def test_a_quick_part_leaves_a_page_figures_and_numbers(run, tmp_path):
    out = tmp_path / "new" / "folder"
    code, printed, _ = run("paper", "--figure", "3", "--quick", "--out", out, "--json")
    assert code == 0
    claims = json.loads(printed)["claims"]
    assert {claim["part"] for claim in claims} == {"figure-3"}
    assert all(claim["holds"] for claim in claims)
    names = {"index.html", "claims.json", "figure-3.png", "figure-3.pdf", "figure-3.csv"}
    assert {path.name for path in out.iterdir()} == names
    assert "2 of 2 claims of the paper hold" in (out / "index.html").read_text()
    assert "the quick run" in (out / "index.html").read_text()


@pytest.mark.parametrize("figure", ["5", "0", "one", ""])
def test_unknown_figures_are_refused_and_nothing_is_made(run, tmp_path, figure):
    code, printed, error = run("paper", "--figure", figure, "--out", tmp_path / "paper")
    assert (code, printed) == (2, "")
    assert "the parts are 1, 2, 3, 4, theorems" in error
    assert not (tmp_path / "paper").exists()


def test_a_file_in_the_way_is_named(run, tmp_path):
    (tmp_path / "paper").write_text("mine")
    code, _, error = run("paper", "--figure", "3", "--quick", "--out", tmp_path / "paper")
    assert code == 2
    assert f"cannot make the folder {tmp_path / 'paper'}" in error
    assert (tmp_path / "paper").read_text() == "mine"
