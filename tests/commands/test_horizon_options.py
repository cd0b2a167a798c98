"""``--horizon`` on the command line and ``horizon`` in problem files."""

import json

import numpy as np
import pytest

import cautious as ca


@pytest.fixture
def undiscounted(tmp_path, monkeypatch):
    """A folder with a model file of discount 1."""
    monkeypatch.chdir(tmp_path)
    mdp = ca.worlds.machine_replacement()
    names = {"state_names": mdp.state_names, "action_names": mdp.action_names, "allowed": mdp.allowed}
    ca.MDP(mdp.transitions, mdp.rewards, 1.0, mdp.start, **names).save("machine.npz")
    return tmp_path


def answer(run, *words, code=0):
    found, out, err = run(*words, "--json")
    assert found == code, err
    return json.loads(out)


def test_solve_and_evaluate_over_some_steps(run, undiscounted):
    solved = answer(run, "solve", "machine.npz", "--horizon", "6", "--out", "six.npz", "--policy-csv", "six.csv")
    assert (solved["horizon"], solved["n_states"]) == (6, 11)
    saved = ca.load("six.npz")
    assert saved.policy.shape == (6, *saved.mdp.shape)
    header, first, *rows = (undiscounted / "six.csv").read_text().splitlines()
    assert header == "step,state,action,probability,share_of_time"
    assert first.startswith("0,")
    assert rows[-1].startswith("5,")
    by_solution = answer(run, "evaluate", "machine.npz", "--policy", "six.npz", "--episodes", "50")
    assert by_solution["exact_mean"] == pytest.approx(solved["expected_return"])
    assert by_solution["criterion"] == by_solution["horizon"] == 6
    assert answer(run, "evaluate", "machine.npz", "--policy", "six.csv", "--episodes", "50") == by_solution
    np.save("six.npy", saved.policy)
    assert answer(run, "evaluate", "machine.npz", "--policy", "six.npy", "--episodes", "50") == by_solution


def test_the_long_run(run, undiscounted):
    solved = answer(run, "solve", "machine.npz", "--horizon", "average", "--out", "average.npz")
    assert solved["horizon"] == "average"
    found = answer(run, "evaluate", "machine.npz", "--policy", "average.npz", "--episodes", "5")
    assert found["exact_mean"] == pytest.approx(solved["expected_return"])
    assert (found["criterion"], found["exact_variance"], found["horizon"]) == ("average", None, 10_000)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["solve", "machine.npz"], "--horizon 24 (that many steps)"),
        (["solve", "machine.npz", "--horizon", "later"], "expected a number of steps, such as 24, or average"),
        (["solve", "machine.npz", "--horizon", "0"], "expected a number of steps"),
        (["solve", "maze", "--horizon", "average"], "does not discount, and the discount of the model is"),
        (["learn", "machine.npz"], "--horizon 24 (that many steps)"),
    ],
)
def test_what_does_not_fit_is_refused(run, undiscounted, words, message):
    code, _, err = run(*words)
    assert code == 2
    assert message in " ".join(err.split())


def test_check_and_convert_need_no_horizon(run, undiscounted):
    assert answer(run, "check", "machine.npz")["discount"] == 1
    said = " ".join(run("check", "machine.npz")[1].split())
    assert "fits, such as --horizon 24" in said
    assert "fits: --horizon average" in said
    assert "does not fit: from state 0 ('wear 0') no policy comes to an end" in said
    assert run("convert", "machine.npz", "machine.csv")[0] == 0
    assert ca.read_model("machine.csv").discount == 1


def test_problem_files_have_a_horizon(run, undiscounted):
    (undiscounted / "six.toml").write_text('horizon = 6\n[model]\nfile = "machine.npz"\n')
    assert ca.read_problem("six.toml").mdp.horizon == 6
    assert answer(run, "solve", "six.toml")["horizon"] == 6
    assert answer(run, "solve", "six.toml", "--horizon", "4")["horizon"] == 4
    (undiscounted / "wrong.toml").write_text('steps = 6\n[model]\nfile = "machine.npz"\n')
    assert "did you mean 'horizon'?" in run("solve", "wrong.toml")[2]
    (undiscounted / "inside.toml").write_text('[model]\nfile = "machine.npz"\nhorizon = 6\n')
    code, _, err = run("solve", "inside.toml")
    assert code == 2
    assert "it belongs at the top of the file, above [model]" in " ".join(err.split())


def test_frontiers_and_comparisons(run, undiscounted):
    points = answer(run, "frontier", "machine.npz", "--risk", "variance", "--cautions", "0,1", "--horizon", "4")
    assert [point["horizon"] for point in points] == [4, 4]
    found = answer(run, "compare", "machine.npz", "--horizon", "4", "--methods", "cautious,Storm")
    assert {row["status"] for row in found["rows"] if row["whose"] == "cautious"} == {"SOLVED"}
    assert [row["note"] for row in found["rows"] if row["whose"] == "Storm"] == [
        "is asked for discounted returns only, and the horizon is 4"
    ]


def test_a_csv_with_a_gap_between_its_steps_is_refused(run, undiscounted):
    run("solve", "machine.npz", "--horizon", "3", "--policy-csv", "three.csv")
    rows = (undiscounted / "three.csv").read_text().splitlines()
    (undiscounted / "gap.csv").write_text("\n".join(row for row in rows if not row.startswith("1,")))
    code, _, err = run("evaluate", "machine.npz", "--policy", "gap.csv")
    assert code == 2
    assert "gap.csv, step 1: no row for" in err
