"""``--help`` and the completion of the shell load no numerics; Tab offers commands, worlds and files."""

import os
import shutil
import subprocess
import sys

import pytest

import cautious as ca
from cautious.commands import completion

HEAVY = ("numpy", "scipy", "clarabel", "matplotlib", "gymnasium", "pyarrow", "cvxpy", "multiprocessing")
LOADED = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", *[name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr))
sys.argv[0] = "cautious"
from cautious.cli import main
main()
"""


def loaded(*arguments, **environment):
    """What a command line printed, and which heavy packages it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, env=os.environ | environment
    )
    return done.stdout, done.stderr.rpartition("loaded:")[2].split()


@pytest.mark.parametrize("arguments", [("--help",), ("solve", "--help")])
def test_help_loads_no_numerics(arguments):
    out, heavy = loaded(*arguments)
    assert "Usage: cautious" in out
    assert heavy == []


def test_nor_does_completion():
    words = "cautious solve ma"
    out, heavy = loaded(_CAUTIOUS_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD="2")
    assert "maze" in out.split()
    assert heavy == []


@pytest.fixture
def completed(run, monkeypatch):
    """What bash offers for the last word of a line."""

    def complete(line):
        monkeypatch.setenv("_CAUTIOUS_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(line.split(" ")) - 1))
        code, out, err = run()
        assert (code, err) == (0, "")
        return out.split()

    return complete


def test_bash_completes_commands_options_worlds_and_files(completed, folder):
    assert completed("cautious co") == ["compare", "convert"]
    assert {"--caution", "--discount"} <= set(completed("cautious solve maze --"))
    assert completed("cautious solve mac") == ["machine_replacement"]
    assert completed("cautious check l") == ["liquidation", "log.csv"]
    assert completed("cautious solve examples/m") == [
        "examples/machine.csv",
        "examples/maintenance.toml",
        "examples/maze.toml",
    ]
    assert completed("cautious worlds riv") == ["river_swim"]
    assert completed("cautious solve ex") == ["examples/"]
    assert completed("cautious solve gym:T") == ["gym:Taxi-v4"]
    assert completed("cautious solve no/such/") == []


@pytest.fixture
def in_bash(monkeypatch):
    """Whatever shell the tests were started from."""
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "bash")


TYPED = {
    "gym:": ["CliffWalking-v1", "FrozenLake-v1", "FrozenLake8x8-v1", "Taxi-v4"],
    "gym:T": ["Taxi-v4"],
    "gym:Taxi-v4 --dis": ["--discount"],
    "ma": ["maze", "machine_replacement"],
}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize("typed", TYPED)
def test_bash_itself_which_takes_words_apart_at_colons(typed, run, in_bash, tmp_path):
    """What the shell would put on the line: of a word with a colon it replaces the part after it."""
    _, script, _ = run("--show-completion")
    words = f"cautious solve {typed}".replace(":", " : ").split()
    (tmp_path / "cautious").write_text(f'#!/bin/sh\nexec {sys.executable} -m cautious "$@"\n')
    (tmp_path / "cautious").chmod(0o755)
    code = f"{script}\nCOMP_WORDS=({' '.join(words)})\nCOMP_CWORD={len(words) - 1}\n"
    code += '_cautious_completion cautious\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", code], capture_output=True, text=True, env=os.environ | {"PATH": path}, cwd=tmp_path
    )
    assert done.stdout.split() == TYPED[typed], done.stderr


def test_the_script_for_bash_can_be_shown(run, in_bash):
    code, out, _ = run("--show-completion")
    assert code == 0
    assert "_CAUTIOUS_COMPLETE=complete_bash" in out


def test_the_names_offered_are_those_there_are():
    assert ca.worlds.names() == completion.WORLDS
    gymnasium = pytest.importorskip("gymnasium", reason="extra gym")
    assert {name.removeprefix("gym:") for name in completion.ENVIRONMENTS} <= set(gymnasium.registry)
