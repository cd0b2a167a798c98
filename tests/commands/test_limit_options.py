"""``--limit`` and ``deterministic`` of problem files, on the command line."""

import json

import numpy as np
import pytest

import cautious as ca
from cautious.commands.risk_spec import parse_limit

MACHINE = ca.worlds.machine_replacement()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("time:broken<=2%", "Exposure(broken) <= 0.02"),
        ("time:broken,wear 9<=0.1", "Exposure(broken,wear 9) <= 0.1"),
        ("time:wear*<=90 %", "Exposure(wear*) <= 0.9"),
        ("time:0,3-5 >= .1", "Exposure(states 0,3-5) >= 0.1"),
        ("ever:broken<=5%", "Reach(broken) <= 0.05"),
        ("entropy<=-1", "Entropy <= -1"),
        ("2*entropy+peak:0,1<=3", "2*Entropy + PeakExposure <= 3"),
    ],
)
def test_limits_in_a_few_characters(text, wanted):
    assert repr(parse_limit(text, MACHINE)) == wanted


def test_a_pattern_stands_for_its_states():
    found = parse_limit("time:wear*<=0.9", MACHINE)
    assert found.measure.states == [name for name in MACHINE.state_names if name.startswith("wear")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time:broken", "expected a measure, <= or >=, and a number"),
        ("time:broken<2", "expected a measure"),
        ("time:broken<=much", "'much' is not a number"),
        ("time:brken*<=1", "no state matches 'brken*'"),
        ("share:broken<=1", "cannot read 'share:broken'"),
        ("none<=1", "cannot read 'none'"),
        ("variance<=1", "Variance is not convex"),
        ("time:9-3<=1", "--limit 'time:9-3<=1': '9-3' is not a range"),
    ],
)
def test_what_is_no_limit_is_refused(run, text, words):
    code, _, err = run("solve", "machine_replacement", "--limit", text)
    assert code == 2
    assert words in err


def test_limits_are_solved(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("income.npy", MACHINE.rewards)
    command = ["solve", "machine_replacement", "--risk", "none", "--json"]
    code, out, _ = run(*command, "--limit", "time:broken<=0.4%", "--limit", "return:income.npy>=60000")
    found = json.loads(out)
    limits = [ca.Exposure("broken") <= 0.004, ca.Return(MACHINE.rewards) >= 60000]
    wanted = ca.solve(ca.Problem(MACHINE, constraints=limits))
    assert (code, [row["bound"] for row in found["constraints"]]) == (0, [0.004, 60000])
    assert found["objective"] == pytest.approx(wanted.objective, rel=1e-6)
    code, out, _ = run("solve", "machine_replacement", "--limit", "time:broken<=0.4%", "--limit", "time:wear 0<=-1")
    assert code == 3
    assert "No policy has time in wear 0 at most -100 %" in out


def test_the_key_deterministic(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = 'deterministic = true\n[model]\nworld = "machine_replacement"\n[[constraints]]\nkind = "Exposure"\n'
    (tmp_path / "one.toml").write_text(lines + 'states = ["broken"]\nat_most = 0.002\n')
    code, out, _ = run("solve", "one.toml")
    assert (code, "It takes one action in every state." in out) == (0, True)
    code, out, _ = run("solve", "one.toml", "--mixed", "--json")
    assert json.loads(out)["method"] != "branch and bound"
    code, out, err = run("frontier", "one.toml", "--limits", "0.002", "--quiet")
    assert code == 0
    assert err == "cautious: warning: one.toml has deterministic = true, which counts for cautious solve only\n"
