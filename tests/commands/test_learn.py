"""``cautious learn``: what it prints, writes and refuses; its exit codes, its bar, and the TensorBoard file."""

import dataclasses
import io
import json
import struct
import sys
import types

import numpy as np
import pytest
from rich.console import Console

import cautious as ca
from cautious.commands.progress import LearningBar, learning_figures
from cautious.commands.shared import whole_number
from cautious.learning.loop import LearningProgress

PROGRESS = LearningProgress(
    samples=250_000,
    total=1_000_000,
    seconds=2.0,
    samples_per_second=125_000.0,
    objective=-1.25,
    risk=0.5,
    gap=np.nan,
    violation=np.inf,
    phase="learning",
    method="plug-in",
)


@pytest.fixture
def asked(monkeypatch):
    """``ca.learn`` replaced by one that keeps its arguments and returns ``asked.answer``."""
    names = ("simulator", "risk", "caution", "samples", "method", "seed", "checkpoint", "callback", "executor")
    kept = types.SimpleNamespace(answer=ca.learn(ca.worlds.river_swim().simulator(), samples=2000))

    def learn(*arguments, **options):
        vars(kept).update(dict(zip(names, arguments, strict=True)) | options)
        return kept.answer

    monkeypatch.setattr(ca, "learn", learn)
    return kept


def events_of(folder):
    """(step, tag, value) of every scalar, by the library's own records; lengths, sums and data as TFRecord has it."""
    event_pb2 = pytest.importorskip("tensorboardX.proto.event_pb2", reason="extra tensorboard")
    found = []
    for path in sorted(folder.iterdir()):
        data = path.read_bytes()
        while data:
            (length,) = struct.unpack("<Q", data[:8])
            event = event_pb2.Event.FromString(data[12 : 12 + length])
            found += [(event.step, value.tag, value.simple_value) for value in event.summary.value]
            data = data[16 + length :]
    return found


def test_a_world_is_learned_and_everything_is_written(run, tmp_path):
    files = {name: tmp_path / name for name in ("out.npz", "report.html", "history.png", "run.npz")}
    code, out, err = run(
        *("learn", "river_swim", "--caution", 2, "--samples", "2e4", "--out", files["out.npz"]),
        *("--report", files["report.html"], "--plot", files["history.png"], "--checkpoint", files["run.npz"]),
    )
    assert (code, err) == (0, "")
    assert "ESTIMATED" in out
    assert "Variance" in out
    assert all(f"{path}" in out for path in files.values())
    assert files["history.png"].read_bytes().startswith(b"\x89PNG")
    assert "cautious learn river_swim" in files["report.html"].read_text("utf-8")
    saved = ca.load(files["out.npz"])
    wanted = ca.learn(ca.worlds.river_swim().simulator(), ca.Variance(), 2.0, 20_000)
    assert saved.policy.tobytes() == wanted.policy.tobytes()
    assert saved.history.samples[-1] <= 20_000


@pytest.mark.parametrize("method", ["plug-in", "primal-dual", "paper"])
def test_json_is_one_object_for_every_method(run, method):
    code, out, err = run("learn", "river_swim", "--samples", "5_000", "--method", method, "--json")
    found = json.loads(out)
    assert err == ""
    assert code == {"ESTIMATED": 0, "UNDECIDED": 4}[found["status"]]
    assert (found["n_states"], found["n_actions"]) == (6, 2)
    assert found["certificate"]["kind"] == "estimated"
    assert 0 < found["facts"]["samples"] <= 5000


def test_an_environment_is_learned_and_workers_change_nothing(run):
    pytest.importorskip("gymnasium", reason="extra gym")
    common = ("learn", "gym:FrozenLake-v1", "--discount", 0.9, "--at-end", "restart", "--samples", "12000", "--json")
    one, two = run(*common), run(*common, "--workers", 2)
    assert one[0] == two[0] == 0
    first, second = json.loads(one[1]), json.loads(two[1])
    assert first.pop("seconds") > 0 < second.pop("seconds")
    assert first == second
    assert first["risk_label"] == "none"
    assert (first["n_states"], first["n_actions"]) == (16, 4)


def test_options_reach_the_library(run, asked, tmp_path):
    code, _, _ = run(
        *("learn", "river_swim", "--risk", "entropy", "--caution", 3, "--samples", "1e3", "--method", "paper"),
        *("--seed", 9, "--checkpoint", tmp_path / "c.npz", "--checkpoint-every", 5, "--call-timeout", 7, "--quiet"),
    )
    assert code == 0
    assert asked.risk.label == "Entropy"
    assert (asked.caution, asked.samples, asked.method, asked.seed) == (3.0, 1000, "paper", 9)
    assert asked.checkpoint == tmp_path / "c.npz"
    assert (asked.checkpoint_seconds, asked.call_timeout_seconds, asked.executor) == (5.0, 7.0, None)


def test_the_problem_s_own_risk_is_the_default(run, asked, tmp_path):
    run("learn", "river_swim", "--quiet")
    wanted = ca.worlds.problem("river_swim")
    assert (asked.risk.label, asked.caution, asked.samples) == (wanted.unbound_risk.label, wanted.caution, 1_000_000)
    ca.worlds.river_swim().save(tmp_path / "m.npz")
    run("learn", tmp_path / "m.npz", "--quiet")
    assert asked.risk is None
    (tmp_path / "p.toml").write_text('caution = 4.0\n[model]\nfile = "m.npz"\n[risk]\nkind = "Entropy"\n')
    run("learn", tmp_path / "p.toml", "--quiet")
    assert (asked.risk.label, asked.caution) == ("Entropy", 4.0)


def test_an_environment_s_risk_comes_from_the_command_line(run, asked):
    pytest.importorskip("gymnasium", reason="extra gym")
    common = ("learn", "gym:CliffWalking-v1", "--discount", 0.9, "--at-end", "absorb", "--quiet")
    run(*common)
    assert (asked.risk, asked.caution, asked.simulator.n_states) == (None, 0.0, 49)
    run(*common, "--risk", "variance")
    assert (asked.risk.label, asked.caution) == ("Variance", 1.0)


@pytest.mark.parametrize(
    ("status", "wanted"), [("ESTIMATED", 0), ("STOPPED", 130), ("INFEASIBLE", 3), ("UNDECIDED", 4)]
)
def test_exit_codes(run, asked, status, wanted):
    asked.answer = dataclasses.replace(asked.answer, status=ca.Status[status])
    assert run("learn", "river_swim", "--json")[0] == wanted


def test_what_was_learned_without_a_model_has_a_report_that_says_so(run, asked, tmp_path):
    asked.answer.mdp.known_transitions = False
    code, _, err = run("learn", "river_swim", "--report", tmp_path / "x.html")
    assert (code, err) == (0, "")
    assert "No model was counted" in (tmp_path / "x.html").read_text("utf-8")


def test_a_failing_simulator_is_one_line_and_exit_code_four(run, monkeypatch):
    def learn(*arguments, **options):
        raise ca.SimulatorError("the simulator raised ValueError: no such valve (call 3, seed 0)")

    monkeypatch.setattr(ca, "learn", learn)
    code, out, err = run("learn", "river_swim")
    assert (code, out) == (4, "")
    assert err == "cautious: the simulator raised ValueError: no such valve (call 3, seed 0)\n"


GYM = ("learn", "gym:FrozenLake-v1", "--discount", "0.9", "--at-end", "absorb")
WRONG = {
    "samples": (("learn", "maze", "--samples", "many"), "--samples 'many': expected a whole number of at least 1"),
    "half a sample": (("learn", "maze", "--samples", "1.5"), "--samples '1.5'"),
    "infinitely many": (("learn", "maze", "--samples", "inf"), "--samples 'inf'"),
    "too few": (("learn", "maze", "--samples", "10"), "must be tried at least once"),
    "method": (("learn", "river_swim", "--method", "magic"), "method is 'magic'; the methods are auto, plug-in"),
    "workers": (("learn", "river_swim", "--workers", "0"), "--workers is 0; expected at least 1"),
    "seed": (("learn", "river_swim", "--seed", "-1"), "seed must be a whole number of at least 0, found -1"),
    "time-out": (("learn", "river_swim", "--call-timeout", "0"), "call_timeout_seconds is 0"),
    "discount of a world": (
        ("learn", "maze", "--discount", "0.9"),
        "logged transitions; maze is a world",
    ),
    "end of a world": (
        ("learn", "maze", "--at-end", "absorb"),
        "--at-end is for a Gymnasium",
    ),
    "no discount": (("learn", "gym:FrozenLake-v1", "--at-end", "absorb"), "gym:FrozenLake-v1 needs --discount"),
    "no end": (("learn", "gym:FrozenLake-v1", "--discount", "0.9"), "gym:FrozenLake-v1 needs --at-end"),
    "another end": ((*GYM[:-1], "stop"), "at_end is 'stop'"),
    "no such environment": (("learn", "gym:Nowhere-v0", *GYM[2:]), "gym:Nowhere-v0 cannot be made"),
    "not discrete": (("learn", "gym:CartPole-v1", *GYM[2:]), "GymSimulator needs Discrete"),
    "folder": (("learn", "river_swim", "--plot", "no/such/x.png"), "cannot write no/such/x.png"),
    "checkpoint": (("learn", "river_swim", "--checkpoint", "no/such/c.npz"), "cannot write no/such/c.npz"),
    "board": (("learn", "river_swim", "--tensorboard", "taken"), "cannot make the folder taken: File exists"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_exit_code_two(run, tmp_path, monkeypatch, case):
    pytest.importorskip("gymnasium", reason="extra gym")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "taken").write_text("a file")
    arguments, message = WRONG[case]
    code, _, err = run(*arguments)
    assert message in err
    assert len(err.splitlines()) == 1
    assert code == 2


@pytest.mark.parametrize(
    ("module", "arguments", "extra"),
    [("gymnasium", GYM, "cautious[gym]"), ("tensorboardX", ("learn", "maze", "--tensorboard", "x"), "[tensorboard]")],
)
def test_a_missing_extra_is_named(run, monkeypatch, tmp_path, module, arguments, extra):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == module]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, module, None)
    code, _, err = run(*arguments)
    assert code == 2
    assert extra in err


def test_whole_numbers_in_any_spelling():
    for text in ("1e6", "1000000", "1_000_000", "1.0e6"):
        assert whole_number("--samples", text) == 1_000_000


def test_the_bar_says_samples_speed_objective_and_time_left():
    assert learning_figures(PROGRESS) == "250,000 of 1,000,000  125,000/s  objective -1.25  6 s left"
    assert "gap 0.5" in learning_figures(dataclasses.replace(PROGRESS, gap=0.5))
    screen = io.StringIO()
    with LearningBar("learning", False, Console(file=screen, force_terminal=True, width=120)) as bar:
        bar(PROGRESS)
    assert "plug-in, learning" in screen.getvalue()
    assert "250,000 of 1,000,000" in screen.getvalue()


def test_there_is_no_bar_without_a_terminal(capsys):
    with LearningBar("learning", False) as bar:
        bar(PROGRESS)
    assert not bar.wanted
    assert not LearningBar("learning", True, Console(force_terminal=True)).wanted
    assert capsys.readouterr().err == ""


def test_tensorboard_reads_what_was_written(tmp_path):
    pytest.importorskip("tensorboardX", reason="extra tensorboard")
    board = ca.TensorBoard(tmp_path / "new" / "runs")
    board(PROGRESS)
    # on the disk before the file is closed
    wanted = [(250_000, "objective", -1.25), (250_000, "risk", 0.5), (250_000, "samples_per_second", 125_000.0)]
    assert events_of(tmp_path / "new" / "runs") == wanted
    board(dataclasses.replace(PROGRESS, samples=500_000, gap=0.25))
    board.close()
    board.close()
    assert (500_000, "gap", 0.25) in events_of(tmp_path / "new" / "runs")
    ca.TensorBoard(tmp_path / "new" / "runs")(PROGRESS)
    assert len(list((tmp_path / "new" / "runs").iterdir())) == 2


def test_the_command_writes_the_course_of_a_run(run, tmp_path):
    pytest.importorskip("tensorboardX", reason="extra tensorboard")
    assert run("learn", "river_swim", "--samples", "2e4", "--tensorboard", tmp_path / "runs")[0] == 0
    found = events_of(tmp_path / "runs")
    steps = [step for step, tag, _ in found if tag == "objective"]
    assert steps == sorted(steps)
    assert 0 < steps[-1] <= 20_000
    assert {tag for _, tag, _ in found} <= {"objective", "risk", "gap", "violation", "samples_per_second"}
