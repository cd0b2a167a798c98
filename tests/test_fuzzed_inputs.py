"""Damaged inputs of every kind: an answer or an error of ours. ``make fuzz`` tries many more."""

import subprocess
import sys
from pathlib import Path

import pytest

import cautious as ca

FUZZER = Path(__file__).with_name("input_fuzzer.py")
LONG = "9" * 5001


def test_damaged_inputs_give_an_answer_or_an_error_of_ours():
    command = [sys.executable, str(FUZZER), "--calls", "2000", "--seed", "0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout == ""
    assert done.returncode == 0, done.stderr[-1000:]


def test_numbers_of_thousands_of_digits_in_files(tmp_path):
    (tmp_path / "p.toml").write_text(f'caution = {LONG}\n[model]\nworld = "maze"\n')
    with pytest.raises(ca.FileError, match="digits"):
        ca.read_problem(tmp_path / "p.toml")
    (tmp_path / "log.csv").write_text(f"state,action,reward,next_state\n1,x,{LONG},1\n")
    with pytest.raises(ca.FileError, match="line 2"):
        ca.from_transitions(tmp_path / "log.csv", discount=0.9)


def test_labels_of_thousands_of_digits():
    with pytest.raises(ca.InputError, match="cannot be written as texts"):
        ca.from_transitions([(10**5000, "x", 1.0, 10**5000)], discount=0.9, untried="forbid")
    far = ca.from_function([10**5000], lambda state: ["stay"], lambda state, action: [(1.0, state, 1.0)])
    assert far.state_names is None
