"""A few seconds of ``make soak`` find no fault, and planted faults are reported."""

import re
import subprocess
import sys

import pytest

import cautious as ca

pytest.importorskip("flint", reason="extra verify")
pytest.importorskip("websockets", reason="extra studio")
pytest.importorskip("starlette", reason="extra studio")

import soak
from soak_operations import ROUND, Tally, Worker


def test_ten_seconds_without_a_fault(tmp_path):
    results = tmp_path / "soak.md"
    command = [sys.executable, soak.__file__, "--seconds", "10", "--workers", "1", "--page", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    text = results.read_text()
    assert done.returncode == 0, text + done.stderr[-1000:]
    assert " 0 faults." in text
    assert "- False proofs: 0." in text
    assert all(int(re.search(rf"^\| {kind} \| (\d+) ", text, re.MULTILINE)[1]) > 0 for kind in ROUND)


def reported(worker):
    """Names of the faults on the page."""
    return re.findall(r"^- Fault: (\w+) in", soak.page([worker.tally], 1.0, 0), re.MULTILINE)


def test_a_proof_that_is_not_confirmed_is_reported(tmp_path, monkeypatch):
    worker, verify = Worker(tmp_path), ca.verify
    worker.perform("frontier", 0)
    assert reported(worker) == []

    def doubtful(solution):
        found = verify(solution)
        object.__setattr__(found, "proved", False)
        return found

    monkeypatch.setattr(ca, "verify", doubtful)
    worker.perform("frontier", 0)
    assert reported(worker) == ["FalseProofError"]
    assert "- False proofs: 1." in soak.page([worker.tally], 1.0, 0)


def test_errors_of_others_and_files_left_behind_are_reported(tmp_path, monkeypatch):
    worker = Worker(tmp_path)
    monkeypatch.setattr(ca, "solve", lambda *_, **__: 1 / 0)
    worker.perform("solve", 0)
    monkeypatch.setitem(worker.operations, "evaluate", lambda rng, place: (place / ".run.npz.part").touch())
    worker.perform("evaluate", 0)
    assert reported(worker) == ["ZeroDivisionError", "WrongFileError"]


def test_a_simulator_that_is_believed_is_reported(tmp_path, monkeypatch):
    worker, learn = Worker(tmp_path), ca.learn

    def credulous(simulator, *arguments, **options):
        simulator.broken = True
        simulator.way = "well"
        return learn(simulator, *arguments, **options)

    monkeypatch.setattr(ca, "learn", credulous)
    worker.perform("learn", 0)
    assert reported(worker) == ["FalseProofError"]


def test_growth_and_crashes_are_reported(tmp_path, monkeypatch):
    grown = Tally(memory=[0, 2 * soak.MAX_GROWTH_BYTES], descriptors=[4, 100])
    assert [fault[0] for fault in soak.all_faults([grown])] == ["Growth", "Growth"]
    crashing = tmp_path / "crashing.py"
    crashing.write_text("import os\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr(soak, "__file__", str(crashing))
    tallies = soak.soak(1.0, 0, 1, tmp_path)
    assert soak.all_faults(tallies) == [("Crash", "", "a worker ended with code -9")]


def test_a_worker_that_does_not_end_is_reported(tmp_path, monkeypatch):
    endless = tmp_path / "endless.py"
    endless.write_text("import time\ntime.sleep(600)\n")
    monkeypatch.setattr(soak, "__file__", str(endless))
    monkeypatch.setattr(soak, "MAX_LAST_OPERATION_SECONDS", 0.1)
    assert "did not end" in soak.soak(0.1, 0, 1, tmp_path)[0].faults[0][2]
