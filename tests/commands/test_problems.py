"""What a PROBLEM can be, and what is said when it is something else."""

import json

import numpy as np
import pytest

import cautious as ca
from cautious.commands.problems import MODEL_OPTIONS, model_table, source_of
from cautious.problem_files.model_entries import SOURCES

FORMATS = (".npz", ".umb", ".tra", ".csv", ".parquet", ".arrow", ".mat")


def solved(run, *arguments):
    code, out, err = run("solve", *arguments, "--json")
    assert (code, err) == (0, ""), err
    return json.loads(out)


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_model_of_any_format_is_converted_and_solved(run, folder, suffix):
    if suffix in (".parquet", ".arrow"):
        pytest.importorskip("pyarrow", reason="extra data")
    # arrays of MATLAB have every action in every state, explicit files of PRISM one first state
    world = "river_swim" if suffix == ".mat" else "machine_replacement"
    code, out, err = run("convert", world, f"model{suffix}")
    assert (code, err) == (0, "")
    assert f"written: model{suffix} (" in out
    found = solved(run, f"model{suffix}", "--risk", "cvar:0.9", "--caution", 20)
    mdp = vars(ca.worlds)[world]()
    wanted = ca.solve(ca.Problem(mdp, ca.CVaR(0.9), 20.0))
    assert found["objective"] == pytest.approx(wanted.objective, rel=1e-6)
    # and back again, whatever the file could not hold
    assert run("convert", f"model{suffix}", "back.npz")[0] == 0
    back = ca.read_model("back.npz")
    np.testing.assert_allclose(back.transitions.toarray(), mdp.transitions.toarray(), atol=1e-12)
    assert (back.discount, back.state_names) == (mdp.discount, mdp.state_names)


def test_convert_overwrites_only_when_told(run, folder):
    (folder / "swim.lab").write_text("mine")
    code, _, err = run("convert", "machine_replacement", "swim.tra")
    assert (code, err) == (2, "cautious: swim.lab exists; --force overwrites it\n")
    assert not (folder / "swim.tra").exists()
    code, out, _ = run("convert", "machine_replacement", "swim.tra", "--force", "--json")
    assert code == 0
    assert json.loads(out)["files"]["swim.lab"] == (folder / "swim.lab").stat().st_size != 4


def test_an_environment_is_solved_as_published(run):
    pytest.importorskip("gymnasium", reason="extra gym")
    found = solved(run, "gym:FrozenLake-v1", "--discount", 0.99, "--at-end", "absorb")
    assert found["objective"] == pytest.approx(0.5420259320, abs=1e-8)


def test_a_start_is_a_name_before_it_is_a_number(run, folder):
    table = "state,action,next_state,probability,reward\n{},go,{},1,1\n{},go,{},1,0\n"
    for name, first in (("ones.csv", 1), ("zeros.csv", 0)):
        (folder / name).write_text(table.format(first, first + 1, first + 1, first))
        found = solved(run, name, "--discount", 0.9, "--start", first)
        assert found["objective"] == pytest.approx(1 / (1 - 0.81), abs=1e-9)


def test_a_log_is_counted(run, folder):
    found = solved(run, "log.csv", "--discount", 0.9, "--start", "a")
    # "a" stays for 0.5 for ever, or goes to "b" and comes back half of the time
    assert found["objective"] == pytest.approx(max(5.0, 1 / (1 - 0.9 * 0.45 / 0.55)), abs=1e-5)
    code, out, _ = run("learn", "log.csv", "--discount", 0.9, "--reward-range", "0,1", "--json")
    assert code == 0
    assert json.loads(out)["certificate"]["kind"] == "estimated"
    code, out, _ = run("check", "log.csv", "--discount", 0.9)
    assert (code, "rows of the log" in out, "least tried pair" in out) == (0, True, True)


@pytest.mark.parametrize(("first", "last"), [("1", "end"), ("01", "02"), ("1", "2"), ("-1", "2"), ("1.5", "2")])
def test_a_log_starts_in_the_state_that_is_written_so(run, folder, first, last):
    """Beside "end" the labels are texts, alone they are whole numbers."""
    (folder / "log.csv").write_text(f"state,action,reward,next_state\n{first},go,1,{last}\n{last},go,0,{first}\n")
    found = solved(run, "log.csv", "--discount", 0.9, "--start", first)
    assert found["objective"] == pytest.approx(1 / (1 - 0.81), abs=1e-9)


def test_a_table_with_probabilities_is_a_model_and_others_are_logs(folder):
    pytest.importorskip("pyarrow", reason="extra data")
    ca.worlds.river_swim().save("swim.csv")
    ca.worlds.river_swim().save("swim.parquet")
    kinds = {"swim.csv": "file", "swim.parquet": "file", "log.csv": "transitions", "maze": "world", "gym:X": "gym"}
    assert {name: source_of(name) for name in kinds} == kinds


def test_check_says_what_a_model_is_and_what_is_odd(run, folder):
    code, out, _ = run("check", "examples/maintenance.toml")
    assert code == 0
    assert "SafeSet" in out
    assert "Nothing looks suspicious." in out
    transitions = np.tile(np.eye(3)[:, None], (1, 2, 1))
    ca.MDP(transitions, np.ones((3, 2)), 0.5, [1, 0, 0]).save("odd.npz")
    code, out, _ = run("check", "odd.npz")
    assert code == 0
    assert "Suspicious: " in out
    found = json.loads(run("check", "odd.npz", "--json")[1])
    assert (found["n_states"], found["n_absorbing"], found["risk"]) == (3, 3, "none")
    assert len(found["suspicions"]) == out.count("Suspicious: ")


def test_states_can_be_named_in_a_risk(run, folder):
    words = ("examples/machine.csv", "--discount", 0.95, "--start", "good", "--caution", 0.1)
    named = solved(run, *words, "--risk", "safe:0.05:good,worn")
    assert named["objective"] == pytest.approx(ca.solve(ca.read_problem("examples/maintenance.toml")).objective)


WRONG = {
    "no such thing": (("solve", "maz"), "'maz' is neither a world nor a file nor gym:NAME; did you mean 'maze'?"),
    "no such file": (("check", "gone.tra"), "gone.tra: no such file"),
    "unknown format": (("solve", "examples"), "examples"),
    "discount of a world": (("solve", "maze", "--discount", "0.9"), "maze is a world"),
    "untried of a model": (("solve", "swim.npz", "--untried", "forbid"), "swim.npz is a model file"),
    "end of a problem file": (
        ("solve", "examples/maze.toml", "--at-end", "absorb"),
        "--at-end is not for a problem file: give at_end in examples/maze.toml, [model]",
    ),
    "no discount": (("solve", "log.csv"), "need a discount, as in --discount 0.95"),
    "no discount of a table": (("solve", "examples/machine.csv"), "give one, as in --discount 0.95"),
    "no untried": (("solve", "sparse.csv", "--discount", "0.9"), "--untried"),
    "other untried": (("solve", "log.csv", "--discount", "0.9", "--untried", "guess"), "'guess'"),
    "no end": (("solve", "gym:FrozenLake-v1", "--discount", "0.9"), "gym:FrozenLake-v1 needs --at-end"),
    "start of samples": (
        ("learn", "gym:FrozenLake-v1", "--discount", "0.9", "--at-end", "absorb", "--start", "1"),
        "--start means nothing here",
    ),
    "range": (("learn", "log.csv", "--discount", "0.9", "--reward-range", "1"), "expected two numbers such as -10,5"),
    "samples of a log": (
        ("learn", "log.csv", "--discount", "0.9", "--reward-range", "0,1", "--samples", "5"),
        "samples is for simulators",
    ),
    "suffix of out": (
        ("convert", "maze", "maze.txt"),
        "cannot write maze.txt: the suffix says the format, one of .npz",
    ),
    "folder of out": (("convert", "maze", "no/maze.npz"), "there is no folder no"),
    "methods": (("compare", "maze", "--methods", "CLARABELL"), "did you mean 'CLARABEL'?"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_exit_code_two(run, folder, case):
    pytest.importorskip("gymnasium", reason="extra gym")
    ca.worlds.river_swim().save("swim.npz")
    (folder / "sparse.csv").write_text("state,action,reward,next_state\na,go,1,b\nb,stay,0,a\n")
    arguments, message = WRONG[case]
    code, out, err = run(*arguments)
    assert message in err
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert err.startswith("cautious: ")


def test_options_are_words_of_problem_files():
    every = {key for keys in SOURCES.values() for key in keys}
    assert {*MODEL_OPTIONS, "reward_range"} <= every
    asked = {"discount": 0.9, "start": "3"}
    assert model_table("gym:Taxi-v4", asked) == {"gym": "Taxi-v4", "discount": 0.9, "start": 3}


def test_compare_prints_rows_and_exit_codes(run):
    code, out, err = run("compare", "river_swim", "--methods", "cautious")
    assert (code, err) == (0, "")
    assert "Fastest with a gap within 1e-06 of the objective's size: scalar search" in out
    code, out, _ = run("compare", "river_swim", "--methods", "dual Newton", "--json")
    assert code == 4
    (row,) = json.loads(out)["rows"]
    assert row["status"] == "not applicable"
    assert run("compare", "river_swim", "--risk", "safe:0.01:5", "--methods", "column generation")[0] == 3
    code, out, _ = run("compare", "river_swim", "--methods", "dual Newton")
    assert "No method proved its answer" in out
