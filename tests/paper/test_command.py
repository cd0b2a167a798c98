"""``cautious paper``: one part of it for real, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time

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


@pytest.mark.slow
def test_ctrl_c_ends_workers_and_all_and_keeps_what_was_finished(tmp_path):
    command = [sys.executable, "-m", "cautious", "paper", "--figure", "1", "--figure", "4", "--out", str(tmp_path)]
    # a group of its own: like a terminal, the signal goes to the workers as well
    run = subprocess.Popen(command, start_new_session=True, stderr=subprocess.PIPE)
    time.sleep(25)
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=15)
    assert run.returncode == 130
    # those that keep the books of the workers follow a moment later
    time.sleep(3)
    with pytest.raises(ProcessLookupError):
        os.killpg(run.pid, 0)
    assert "On this page: figure-1." in (tmp_path / "index.html").read_text()
