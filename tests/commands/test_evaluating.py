"""``evaluate``: policies from csv files, and what the problem asks of them."""

import json
import math

import pytest

import cautious as ca

MODEL = """state,action,next_state,probability,reward
{0},pump,{0},0.8,120
{0},pump,{1},0.2,120
{0},overhaul,{0},1,-200
{1},pump,{1},0.5,70
{1},pump,{2},0.5,70
{1},overhaul,{0},1,-250
{2},overhaul,{0},1,-900
"""
PROBLEM = """caution = {caution}
[model]
file = "{file}"
discount = 0.9
start = "{start}"
reward_unit = "euros"
[risk]
kind = "SafeSet"
states = ["{start}", "{second}"]
slack = 0.2
"""


def write(folder, name, states, caution=1):
    (folder / f"{name}.csv").write_text(MODEL.format(*states))
    text = PROBLEM.format(file=f"{name}.csv", start=states[0], second=states[1], caution=caution)
    (folder / f"{name}.toml").write_text(text)


@pytest.fixture
def pump(run, tmp_path, monkeypatch):
    """A problem, its saved solution and its policy as csv."""
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "pump", ("fresh", "leaky", "seized"))
    assert run("solve", "pump.toml", "--out", "pump.npz", "--policy-csv", "pump-policy.csv")[0] == 0
    return tmp_path


def evaluated(run, problem, policy, *more):
    code, out, err = run("evaluate", problem, "--policy", policy, "--episodes", 50, *more, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


def test_the_csv_of_a_policy_is_the_policy(run, pump):
    assert evaluated(run, "pump.toml", "pump-policy.csv") == evaluated(run, "pump.toml", "pump.npz")


def test_by_name_whatever_the_order_of_rows_and_states(run, pump):
    header, *rows = (pump / "pump-policy.csv").read_text().splitlines()
    (pump / "turned.csv").write_text("\n".join([header, *rows[::-1]]) + "\n")
    wanted = evaluated(run, "pump.toml", "pump.npz")
    assert evaluated(run, "pump.toml", "turned.csv") == wanted
    # the same states in another order, saved by position
    mdp = ca.read_problem("pump.toml").mdp
    order = [2, 0, 1]
    rows = mdp.transitions.toarray().reshape(3, 2, 3)[order][:, :, order]
    names = [mdp.state_names[i] for i in order]
    ca.MDP(
        rows,
        mdp.rewards[order],
        0.9,
        mdp.start[order],
        allowed=mdp.allowed[order],
        state_names=names,
        action_names=mdp.action_names,
    ).save("other.npz")
    for policy in ("pump.npz", "pump-policy.csv"):
        found = evaluated(run, "other.npz", policy)
        assert found["exact_mean"] == pytest.approx(wanted["exact_mean"])


def test_worlds_without_names_too(run, pump):
    assert run("solve", "maze", "--out", "maze.npz", "--policy-csv", "maze.csv")[0] == 0
    assert evaluated(run, "maze", "maze.csv")["exact_mean"] == evaluated(run, "maze", "maze.npz")["exact_mean"]


def test_the_policy_of_another_model_is_refused(run, pump):
    write(pump, "new", ("ok", "leaky", "dead"))
    code, out, err = run("evaluate", "new.toml", "--policy", "pump.npz")
    assert (code, out) == (2, "")
    assert err == "cautious: the policy is for states fresh, leaky, seized; this model has dead, leaky, ok\n"


GOOD = "fresh,pump,1\nleaky,overhaul,1\nseized,overhaul,1\n"
WRONG = {
    "unknown state": (GOOD.replace("leaky", "leeky"), "line 3: this model has no state 'leeky'; did you mean 'leaky'?"),
    "unknown action": (GOOD.replace("pump", "run"), "line 2: this model has no action 'run'; its actions are overhaul"),
    "missing states": ("leaky,pump,1\n", "policy.csv: no row for fresh, seized; every state"),
    "sum": (
        GOOD.replace("pump,1", "pump,0.9"),
        "the probabilities in fresh sum to 0.9; they must sum to 1 within 1e-09",
    ),
    "negative": (GOOD + "fresh,overhaul,-0.5\n", "line 5: probability is -0.5; it must be from 0 to 1"),
    "twice": (GOOD + "leaky,overhaul,0\n", "line 5: overhaul in leaky has a row already"),
    "no number": (GOOD + "fresh,overhaul,much\n", "line 5: 'probability'"),
    "forbidden": (
        GOOD.replace("seized,overhaul", "seized,pump"),
        "the policy takes pump in seized with probability 1, which is not allowed there",
    ),
    "empty": ("", "no rows"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_rows_are_refused(run, pump, case):
    rows, message = WRONG[case]
    (pump / "policy.csv").write_text(f"state,action,probability\n{rows}")
    code, out, err = run("evaluate", "pump.toml", "--policy", "policy.csv")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert message in err


def test_a_barrier_without_caution_is_refused(run, pump):
    write(pump, "idle", ("fresh", "leaky", "seized"), caution=0)
    code, out, err = run("solve", "idle.toml")
    assert (code, out) == (2, "")
    assert "constraints=[ca.Exposure(states) >= 0.8]" in err


def test_the_risk_the_requirement_and_the_time_outside_are_told(run, pump):
    write(pump, "same", ("fresh", "leaky", "seized"))
    # two pumps in a row: the share of time in "seized" follows from its equation
    (pump / "bold.csv").write_text("state,action,probability\nfresh,pump,1\nleaky,pump,1\nseized,overhaul,1\n")
    # x = 0.1 xi + 0.9 P' x
    leaky = 0.9 * 0.2 / (1 - 0.45)
    seized = 0.45 * leaky
    fresh = 0.1 / (1 - 0.72 - 0.9 * seized)
    share = fresh * seized
    found = evaluated(run, "same.toml", "bold.csv")
    assert found["exact_exposure"] == pytest.approx({"states outside the safe set": share})
    assert found["exact_risk"] == pytest.approx(-math.log(0.2 - share))
    (demand,) = found["requirements"]
    assert demand["reached"] == pytest.approx(1 - share)
    assert demand["must_exceed"] == pytest.approx(0.8)
    assert (found["reward_unit"], found["risk_label"]) == ("euros", "SafeSet")
    out = run("evaluate", "same.toml", "--policy", "bold.csv")[1]
    assert "returns in euros" in out
    assert f"{-math.log(0.2 - share):.5g}" in out.partition("risk (SafeSet)")[2].splitlines()[0]
    assert "share of time in the safe set (must exceed 0.8)" in out
    assert "time in states outside the safe set" in out


def test_a_risk_can_be_given_and_a_broken_requirement_is_infinite(run, pump):
    found = evaluated(run, "pump.toml", "pump.npz", "--risk", "peak:seized/fresh")
    assert found["exact_risk"] == pytest.approx(max(found["exact_exposure"].values()))
    assert list(found["exact_exposure"]) == ["danger set 0", "danger set 1"]
    assert evaluated(run, "pump.toml", "pump.npz", "--risk", "safe:0.001:leaky")["exact_risk"] is None
    assert evaluated(run, "pump.toml", "pump.npz", "--risk", "none")["requirements"] == []


def test_an_open_start_is_told(run, pump):
    code, out, _ = run("solve", "pump.csv", "--discount", 0.9)
    assert code == 0
    assert "start: any of the 3 states alike (--start chooses one)" in out
    out = run("check", "pump.csv", "--discount", 0.9)[1]
    assert "any of the 3 states alike (--start chooses one)" in out
    (pump / "open.toml").write_text('[model]\nfile = "pump.csv"\ndiscount = 0.9\n')
    assert "start: any of the 3 states alike (start in its [model] chooses one)" in run("solve", "open.toml")[1]
    for words in (("pump.csv", "--discount", 0.9, "--start", "leaky"), ("pump.toml",), ("maze",), ("river_swim",)):
        assert "alike" not in run("solve", *words)[1]
        assert "alike" not in run("check", *words)[1]


def test_a_start_that_is_no_state_names_those_there_are(run, pump):
    err = run("check", "pump.csv", "--discount", 0.9, "--start", "Fresch")[2]
    assert "start is 'Fresch', which is not the name of a state; did you mean 'fresh'? " in err
    assert "the states are fresh, leaky, seized" in err
    err = run("check", "pump.csv", "--discount", 0.9, "--start", "xxxx")[2]
    assert "not the name of a state; the states are fresh, leaky, seized\n" in err


def test_learning_from_a_log_says_where_the_policy_comes_from(run, folder):
    header, *rows = (folder / "log.csv").read_text().splitlines()
    (folder / "long.csv").write_text("\n".join([header, *(rows * 40)]) + "\n")
    words = ("learn", "long.csv", "--discount", 0.9, "--reward-range", "0,1")
    careful = json.loads(run(*words, "--json")[1])["facts"]
    counted = json.loads(run(*words, "--no-robust", "--json")[1])["facts"]
    assert counted["policy from"] == "counted model"
    assert careful["objective_at_least"] >= counted["objective_at_least"]
    assert f"log: 200 rows, policy from the {careful['policy from']}\n" in run(*words)[1]
