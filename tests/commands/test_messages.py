"""Errors and warnings are one line, on standard error; programs get JSON."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import cautious as ca
from cautious import cli

USAGE = {
    "no such command": (
        ("slove", "maze"),
        "No such command 'slove'. Did you mean 'solve'? (cautious --help shows how)",
    ),
    "no argument": (("solve",), "Missing argument 'PROBLEM' (cautious solve --help shows how)"),
    "no such option": (("solve", "maze", "--cautoin", "1"), "No such option: --cautoin"),
    "no number": (("solve", "maze", "--caution", "high"), "Invalid value for '--caution'"),
    "no option": (("evaluate", "maze"), "Missing option '--policy'"),
    "too many": (("worlds", "maze", "drift"), "unexpected extra argument"),
    "blanks between cautions": (
        ("frontier", "maze", "--cautions", "0", "1", "10"),
        "separate values by commas, as in --cautions 0,1,10 (cautious frontier --help shows how)",
    ),
    "cautions before the problem": (
        ("frontier", "--cautions", "0,", "1,", "10", "maze"),
        "as in --cautions 0,1,10 (",
    ),
    "a negative caution": (("frontier", "maze", "--cautions", "0", "-1"), "as in --cautions 0,-1 ("),
    "blanks in a range": (("learn", "x.csv", "--reward-range", "-10", "5"), "as in --reward-range -10,5 ("),
    "blanks between methods": (
        ("compare", "maze", "--methods", "cautious", "CLARABEL", "--quiet"),
        "as in --methods cautious,CLARABEL (",
    ),
    "blanks in a risk": (
        ("solve", "maze", "--risk", "variance", "+", "entropy"),
        "a value with blanks needs quotes, as in --risk 'variance + entropy' (",
    ),
    "blanks in a state": (("solve", "maze", "--start", "in", "stock"), "as in --start 'in stock' ("),
}


@pytest.mark.parametrize("case", USAGE)
def test_a_wrong_command_line_is_one_line_and_exit_code_two(run, case):
    arguments, message = USAGE[case]
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_values_that_are_whole_get_no_advice(run):
    err = run("solve", "--caution", "high", "--risk", "variance", "maze")[2]
    assert "Invalid value for '--caution'" in err
    assert "quotes" not in err


@pytest.mark.parametrize("arguments", [("solve", "nowhere"), ("solve", "maze", "--caution", "-1"), ("slove", "maze")])
def test_programs_get_errors_as_json(run, arguments):
    code, out, err = run(*arguments, "--json")
    error = json.loads(out)["error"]
    assert code == error["exit_code"] == 2
    assert err == f"cautious: {error['message']}\n"
    assert error["kind"] in ("InputError", "UsageError")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("arguments", [("worlds", "--json"), ("worlds",), ("solve", "nowhere", "--json")])
def test_a_full_disk_is_one_line(arguments):
    command = [sys.executable, "-m", "cautious", *arguments]
    with open("/dev/full", "w") as full:
        # with a buffer, as from a shell: Python empties it once more when it ends
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, env=environment)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert "No space left" in done.stderr or "nowhere" in done.stderr


def test_faults_and_interrupts_too(run, monkeypatch):
    monkeypatch.setattr(ca, "solve", lambda *a, **k: 1 / 0)
    code, out, _ = run("solve", "river_swim", "--json")
    assert (code, json.loads(out)["error"]["kind"]) == (1, "ZeroDivisionError")


def test_the_version(run):
    assert run("--version") == (0, f"cautious {ca.__version__}\n", "")


def test_without_arguments_there_is_help(run):
    code, out, err = run()
    assert (code, err) == (0, "")
    assert "Usage: cautious" in out


def test_warnings_are_one_line_without_a_place(run, monkeypatch):
    def warning_solve(*arguments, **options):
        warnings.warn("the danger set\n is empty", ca.CautiousWarning, stacklevel=1)
        return original(*arguments, **options)

    original = ca.solve
    monkeypatch.setattr(ca, "solve", warning_solve)
    shown = warnings.showwarning
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        code, _, err = run("solve", "river_swim")
    assert (code, err) == (0, "cautious: warning: the danger set is empty\n")
    assert warnings.showwarning is shown


def test_tables_fit_eighty_columns_and_have_no_colours_in_a_pipe(run, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (
        ("solve", "river_swim"),
        ("check", "river_swim"),
        ("worlds",),
        ("compare", "drift", "--methods", "cautious,QuantEcon"),
        ("frontier", "river_swim", "--cautions", "0,1"),
    ):
        out = run(*arguments)[1]
        assert "\x1b" not in out
        assert max(len(line) for line in out.splitlines() if not line.endswith(".")) <= 80


def test_the_errors_of_the_command_line_are_known():
    assert cli.USAGE_ERROR.__name__ == "UsageError"
