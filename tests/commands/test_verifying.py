"""``cautious verify``: exit codes, JSON, and the file that ``solve --witness`` writes."""

import json
from fractions import Fraction

import numpy as np

import cautious as ca
from cautious import storage


def test_a_proof_is_saved_and_checked(run, tmp_path):
    file = tmp_path / "s.npz"
    assert run("solve", "river_swim", "--out", file, "--witness")[0] == 0
    code, out, err = run("verify", file)
    assert (code, err) == (0, "")
    assert out.startswith("Proved.")
    code, out, _ = run("verify", file, "--json")
    found, wanted = json.loads(out), ca.verify(file)
    assert (code, found["proved"], found["statement"]) == (0, True, wanted.statement)
    numerator, denominator = (int(part, 16) for part in found["exact"]["objective"].split("/"))
    assert Fraction(numerator, denominator) == wanted.objective
    assert found["margin"] == float(wanted.margin) > 0


def test_a_claim_that_is_not_proved_has_its_own_exit_code(run, tmp_path):
    file = tmp_path / "s.npz"
    header, arrays = ca.solve(ca.worlds.problem("river_swim")).to_storage(witness=True)
    arrays["policy"] = np.where(arrays["model.allowed"], 0.5, 0.0)
    storage.write(file, "solution", header, arrays)
    code, out, err = run("verify", file)
    assert (code, err) == (4, "")
    assert out.startswith("Not proved. The policy is proved to reach")


def test_files_that_cannot_be_checked_are_wrong_input(run, tmp_path):
    file = tmp_path / "s.npz"
    assert run("solve", "river_swim", "--out", file)[0] == 0
    code, _, err = run("verify", file)
    assert code == 2
    assert "saved without its witness" in err
    assert "--out FILE --witness" in err
    code, _, err = run("verify", tmp_path / "none.npz")
    assert code == 2
    assert "no such file" in err


def test_a_witness_needs_a_file(run):
    code, _, err = run("solve", "river_swim", "--witness")
    assert code == 2
    assert "--witness needs --out" in err


def test_infinities_are_null_in_json(run, tmp_path):
    file = tmp_path / "s.npz"
    problem = ca.Problem(ca.worlds.river_swim(), ca.SafeSet([5], slack=1e-6))
    ca.solve(problem).save(file, witness=True)
    code, out, _ = run("verify", file, "--json")
    found = json.loads(out)
    assert (code, found["proved"], found["objective"], found["exact"]["objective"]) == (0, True, None, None)
