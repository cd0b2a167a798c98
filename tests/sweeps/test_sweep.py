"""Sweeps: the runs are those of ca.learn and ca.solve, whatever does them and however often they are interrupted."""

import csv
import json
import os
import re
from concurrent.futures import ThreadPoolExecutor

import learners
import numpy as np
import pytest

import cautious as ca
from cautious.runtime.processes import process_pool
from cautious.sweeps import sweep as module

SWIM = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)


def text(found):
    """Everything that a sweep says, exactly."""
    return json.dumps(found.table())


def test_rows_are_what_learn_and_solve_give():
    found = ca.sweep({"swim": SWIM}, ["plug-in", "exact"], [2.0, 0.5], samples=[2000, 3000], seeds=[3, 5])
    assert [(row["method"], row["caution"], row["samples"], row["seed"]) for row in found.rows] == [
        *(("plug-in", 2.0, n, seed) for n in (2000, 3000) for seed in (3, 5)),
        ("exact", 2.0, 0, 0),
        *(("plug-in", 0.5, n, seed) for n in (2000, 3000) for seed in (3, 5)),
        ("exact", 0.5, 0, 0),
    ]
    for row in found.rows:
        problem = SWIM.with_caution(row["caution"])
        best = ca.solve(problem)
        if row["method"] == "exact":
            assert (row["objective"], row["status"]) == (best.objective, "SOLVED")
            continue
        learned = ca.learn(SWIM.mdp.simulator(), ca.Variance(), row["caution"], row["samples"], "plug-in", row["seed"])
        exact = ca.compare(problem, methods=[], policies={"learned": learned.policy}).rows[0]
        assert row["objective"] == pytest.approx(exact.objective, rel=1e-12)
        assert row["gap"] == pytest.approx(best.upper_bound - exact.objective, abs=1e-9)
        assert row["drawn"] == learned.steps <= row["samples"]
        assert row["objective"] == pytest.approx(row["expected_return"] - row["caution"] * row["risk"], rel=1e-12)


def test_a_simulator_has_the_estimates_of_the_learner():
    coin = ca.FunctionSimulator(learners.coin, 2, 2, 0.5, (0.0, 1.0))
    found = ca.sweep(coin, "plug-in", samples=400, seeds=2, risk=ca.Variance(), cautions=[0.5])
    learned = ca.learn(coin, ca.Variance(), 0.5, 400, "plug-in", 1)
    assert found.rows[1]["objective"] == learned.objective
    assert found.rows[1]["gap"] is None
    assert found.rows[1]["problem"] == "problem 1"


def test_functions_are_methods_and_failures_are_rows():
    found = ca.sweep({"swim": SWIM}, [learners.first_action, learners.by_seed], samples=10, seeds=3)
    assert [row["status"] for row in found.rows] == ["GIVEN"] * 4 + ["FAILED", "GIVEN"]
    assert [row["error"] for row in found.failed] == ["ArithmeticError: seed 1 is unlucky"]
    left = ca.compare(SWIM, methods=[], policies={"left": np.zeros(SWIM.mdp.n_states, np.int64)}).rows[0]
    assert found.rows[0]["objective"] == pytest.approx(left.objective, rel=1e-12)
    assert found.summary("objective")[1]["n"] == 2
    assert "1 failed" in repr(found)


class Counting:
    """Counts the runs that are done, by wrapping what does one."""

    def __init__(self, monkeypatch):
        self.jobs, real = [], module.run
        monkeypatch.setattr(module, "run", lambda content, job: self.jobs.append(dict(job)) or real(content, job))


def test_a_rerun_computes_nothing_twice(tmp_path, monkeypatch):
    counting = Counting(monkeypatch)
    arguments = {"samples": [2000], "seeds": 2, "folder": tmp_path / "study"}
    first = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments)
    # two runs, and the optimum
    assert len(counting.jobs) == 3
    again = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments)
    assert len(counting.jobs) == 3
    assert text(again) == text(first)
    more = ca.sweep({"swim": SWIM}, ["plug-in"], **{**arguments, "seeds": 3, "samples": [2000, 3000]})
    assert len(counting.jobs) == 3 + 4
    assert text(more) == text(ca.sweep({"swim": SWIM}, ["plug-in"], samples=[2000, 3000], seeds=3))


def test_a_stopped_sweep_goes_on(tmp_path, monkeypatch):
    counting, seen = Counting(monkeypatch), []
    arguments = {"samples": [2000, 3000], "seeds": 3, "folder": tmp_path}
    part = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments, callback=lambda one: seen.append(one) or one.done == 3)
    assert (len(counting.jobs), part.missing) == (3, 4)
    assert [one.done for one in seen] == [1, 2, 3]
    assert seen[0].total == 7
    assert np.isfinite(seen[0].seconds_left)
    whole = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments, callback=seen.append)
    assert len(counting.jobs) == 7
    assert seen[-1].kept == 3
    assert (seen[-1].done, seen[-1].seconds_left) == (7, 0.0)
    assert whole.missing == 0
    assert text(whole) == text(ca.sweep({"swim": SWIM}, ["plug-in"], samples=[2000, 3000], seeds=3))


def test_an_exception_of_the_callback_loses_nothing(tmp_path, monkeypatch):
    counting = Counting(monkeypatch)

    def breaks(progress):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=2, folder=tmp_path, callback=breaks)
    ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=2, folder=tmp_path)
    assert len(counting.jobs) == 3


def test_failures_are_kept_and_retried_when_asked(tmp_path, monkeypatch):
    arguments = {"samples": 10, "seeds": 3, "folder": tmp_path}
    ca.sweep({"swim": SWIM}, [learners.by_seed], **arguments)
    counting = Counting(monkeypatch)
    assert len(ca.sweep({"swim": SWIM}, [learners.by_seed], **arguments).failed) == 1
    assert counting.jobs == []
    ca.sweep({"swim": SWIM}, [learners.by_seed], **arguments, retry_failed=True)
    assert [job["seed"] for job in counting.jobs] == [1]


@pytest.fixture(scope="module")
def pools():
    with process_pool(1) as one, process_pool(2) as two, process_pool(8) as eight, ThreadPoolExecutor(3) as threads:
        yield {"1": one, "2": two, "8": eight, "threads": threads}


@pytest.mark.parametrize("workers", ["1", "2", "8", "threads"])
def test_any_executor_gives_the_same_bytes(pools, workers, tmp_path):
    arguments = {"cautions": [0.5, 2.0], "samples": [2000, 4000], "seeds": 2}
    methods = ["plug-in", "primal-dual", learners.by_seed, "exact"]
    serial = ca.sweep({"swim": SWIM}, methods, **arguments, folder=tmp_path / "serial")
    spread = ca.sweep({"swim": SWIM}, methods, **arguments, folder=tmp_path / "spread", executor=pools[workers])
    assert text(spread) == text(serial)
    files = [sorted(path.rglob("*.json")) for path in (tmp_path / "serial", tmp_path / "spread")]
    assert len(files[0]) == 2 * (3 * 4 + 1) + 1
    for one, two in zip(*files, strict=True):
        assert one.relative_to(tmp_path / "serial") == two.relative_to(tmp_path / "spread")
        assert one.read_bytes() == two.read_bytes()


def test_killed_workers_change_nothing(pools, tmp_path):
    seeds = 12
    marks, quiet = tmp_path / "marks", tmp_path / "quiet"
    marks.mkdir()
    quiet.mkdir()
    folder = tmp_path / "study"
    deaths = {"dies": learners.DiesOnce(marks, {3, 8})}
    found = ca.sweep({"swim": SWIM}, deaths, samples=10, seeds=seeds, folder=folder, executor=pools["2"])
    assert {path.name for path in marks.glob("died-*")} == {"died-3", "died-8"}
    assert not found.failed
    alive = ca.sweep({"swim": SWIM}, {"dies": learners.DiesOnce(quiet, set())}, samples=10, seeds=seeds)
    assert text(found) == text(alive)
    before = {path.name: path.read_text() for path in marks.glob("ran-*")}
    ca.sweep({"swim": SWIM}, deaths, samples=10, seeds=seeds, folder=folder, executor=pools["2"])
    assert {path.name: path.read_text() for path in marks.glob("ran-*")} == before


def test_a_run_that_ends_its_worker_every_time_is_a_row(pools):
    found = ca.sweep({"swim": SWIM}, [learners.deadly], samples=10, seeds=4, executor=pools["2"])
    assert [row["status"] for row in found.rows] == ["GIVEN", "FAILED", "GIVEN", "GIVEN"]
    assert "WorkerError" in found.failed[0]["error"]


def test_a_run_that_hangs_is_a_row(pools):
    found = ca.sweep(
        {"swim": SWIM}, {"hangs": learners.Hangs()}, samples=10, seeds=3, executor=pools["2"], run_timeout_seconds=1.0
    )
    assert [row["status"] for row in found.rows] == ["GIVEN", "FAILED", "GIVEN"]
    assert "did not return within 1 seconds" in found.failed[0]["error"]


CHANGED = {
    "discount": (
        ca.Problem(ca.worlds.river_swim(discount=0.9), ca.Variance(), 2.0),
        "discount was 0.95 and is 0.9 now",
    ),
    "rewards": (
        ca.Problem(ca.MDP(SWIM.mdp.transitions, SWIM.mdp.rewards + 1, 0.95, SWIM.mdp.start), ca.Variance(), 2.0),
        "problem 'swim', rewards was",
    ),
    "risk": (ca.Problem(SWIM.mdp, ca.Entropy(), 2.0), "problem 'swim', risk was 'Variance' and is 'Entropy' now"),
}


@pytest.mark.parametrize("case", CHANGED)
def test_another_question_in_the_same_folder_is_refused(tmp_path, case):
    ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=1, folder=tmp_path)
    problem, message = CHANGED[case]
    with pytest.raises(ca.FileError, match=re.escape(message)):
        ca.sweep({"swim": problem}, ["plug-in"], samples=2000, seeds=1, folder=tmp_path)
    # under another name it is another problem
    both = ca.sweep({"other": problem}, ["plug-in"], samples=2000, seeds=1, folder=tmp_path)
    assert len(both.rows) == 1


def test_another_method_of_the_same_name_is_refused(tmp_path):
    ca.sweep({"swim": SWIM}, {"mine": ca.PlugIn()}, samples=2000, seeds=1, folder=tmp_path)
    with pytest.raises(ca.FileError, match="method 'mine' was 'PlugIn"):
        ca.sweep({"swim": SWIM}, {"mine": ca.PlugIn(prove=False)}, samples=2000, seeds=1, folder=tmp_path)


def test_a_folder_of_another_version_is_refused(tmp_path, monkeypatch):
    ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=1, folder=tmp_path)
    monkeypatch.setattr("cautious.sweeps.sweep.version", lambda package: "99")
    with pytest.raises(ca.FileError, match=r"version of cautious was .* and is '99' now; use another folder"):
        ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=2, folder=tmp_path)


def spoil_truncate(path, rng):
    path.write_bytes(path.read_bytes()[: int(rng.integers(len(path.read_bytes())))])


def spoil_byte(path, rng):
    data = bytearray(path.read_bytes())
    data[int(rng.integers(len(data) - 2))] ^= 1 + int(rng.integers(255))
    path.write_bytes(bytes(data))


def spoil_number(path, rng):
    found = json.loads(path.read_text())
    found["result"]["objective"] = 1e6
    path.write_text(json.dumps(found))


def spoil_job(path, rng):
    found = json.loads(path.read_text())
    found["job"]["seed"] = 99
    path.write_text(json.dumps(found))


def spoil_kind(path, rng):
    path.unlink()
    path.mkdir()


SPOILS = {
    "truncated": spoil_truncate,
    "one byte": spoil_byte,
    "number": spoil_number,
    "job": spoil_job,
    "empty": lambda path, rng: path.write_bytes(b""),
    "text": lambda path, rng: path.write_text("[1, 2]"),
    "nested": lambda path, rng: path.write_text("[" * 100_000),
}


@pytest.mark.parametrize("spoil", SPOILS)
@pytest.mark.parametrize("seed", range(3))
def test_a_damaged_result_is_computed_again(tmp_path, spoil, seed):
    arguments = {"samples": 2000, "seeds": 2, "folder": tmp_path}
    whole = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments)
    rng = np.random.default_rng(seed)
    victim = sorted((tmp_path / "results").rglob("*.json"))[seed]
    kept = victim.read_bytes()
    SPOILS[spoil](victim, rng)
    with pytest.warns(ca.CautiousWarning, match=re.escape(str(victim)) + " is damaged"):
        again = ca.sweep({"swim": SWIM}, ["plug-in"], **arguments)
    assert text(again) == text(whole)
    assert victim.read_bytes() == kept


def test_folders_that_cannot_be_used_are_refused_by_name(tmp_path):
    def into(folder):
        return ca.sweep({"swim": SWIM}, ["plug-in"], samples=2000, seeds=1, folder=folder)

    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ca.FileError, match=re.escape(f"cannot make the folder {file}")):
        into(file)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "results").write_text("")
    with pytest.raises(ca.FileError, match="cannot make the folder"):
        into(tmp_path / "a")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "question.json").write_text('{"half": ')
    with pytest.raises(ca.FileError, match=re.escape(f"{tmp_path / 'b' / 'question.json'}: damaged")):
        into(tmp_path / "b")
    (tmp_path / "b" / "question.json").write_text("[]")
    with pytest.raises(ca.FileError, match="not the question of a sweep"):
        into(tmp_path / "b")
    (tmp_path / "c").mkdir()
    os.mkfifo(tmp_path / "c" / "question.json")
    with pytest.raises(ca.FileError, match=r"question\.json: .* pipe"):
        into(tmp_path / "c")
    folder = tmp_path / "d"
    into(folder)
    victim = next((folder / "results").rglob("*.json"))
    spoil_kind(victim, None)
    with pytest.warns(ca.CautiousWarning, match="is damaged"), pytest.raises(ca.FileError, match="it is a folder"):
        into(folder)


WRONG = {
    "problem": (
        lambda: ca.sweep("maze"),
        "problem 'problem 1' must be a ca.Problem, a ca.MDP or a simulator, found str",
    ),
    "no problem": (lambda: ca.sweep([]), "problems is empty"),
    "method": (lambda: ca.sweep(SWIM, "plugin"), "there is no method 'plugin'; did you mean 'plug-in'?"),
    "methods": (lambda: ca.sweep(SWIM, [3]), "two methods are called ''"),
    "kind": (lambda: ca.sweep(SWIM, {"a": 3}), "method 'a' must be a name, a method or a function, found 3"),
    "twice": (lambda: ca.sweep(SWIM, [ca.PlugIn(), ca.PlugIn(prove=False)]), "two methods are called 'plug-in'"),
    "renamed": (lambda: ca.sweep(SWIM, {"best": "exact"}), "'exact' is ca.solve, by this name only"),
    "risk twice": (lambda: ca.sweep(SWIM, risk=ca.Entropy()), "has a risk of its own"),
    "caution": (lambda: ca.sweep(SWIM, cautions=[-1]), "cautions is -1"),
    "samples": (lambda: ca.sweep(SWIM, samples=0), "samples must be a whole number of at least 1, found 0"),
    "no samples": (lambda: ca.sweep(SWIM, samples=[]), "samples is empty"),
    "seeds": (lambda: ca.sweep(SWIM, seeds=0), "seeds must be a whole number of at least 1, found 0"),
    "seed": (lambda: ca.sweep(SWIM, seeds=[0.5]), "seed must be"),
    "callback": (lambda: ca.sweep(SWIM, callback=3), "callback must be callable or None, found int"),
    "time": (lambda: ca.sweep(SWIM, run_timeout_seconds=0), "run_timeout_seconds is 0"),
    "simulator, exact": (
        lambda: ca.sweep(SWIM.mdp.simulator(), "exact"),
        "problem 'problem 1' is a simulator, and method 'exact' solves a known model",
    ),
    "simulator, function": (
        lambda: ca.sweep(SWIM.mdp.simulator(), learners.first_action),
        "method 'first_action' is a function, whose policies are judged in a known model",
    ),
    "horizon": (
        lambda: ca.sweep(ca.Problem(ca.worlds.inventory(), horizon=5), "plug-in"),
        "has the horizon 5, and method 'plug-in' learns discounted returns",
    ),
    "constraints": (
        lambda: ca.sweep(ca.Problem(ca.worlds.river_swim(), constraints=[ca.Exposure([0]) <= 0.9]), "plug-in"),
        "has constraints, and method 'plug-in'",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_arguments_are_refused_before_any_work(case, monkeypatch):
    counting = Counting(monkeypatch)
    make, message = WRONG[case]
    with pytest.raises(ca.CautiousError, match=re.escape(message)):
        make()
    assert counting.jobs == []


def test_a_problem_with_a_horizon_is_solved_exactly():
    problem = ca.Problem(ca.worlds.inventory(), ca.KL(np.full(ca.worlds.inventory().n_states, 1 / 21)), 1.0, horizon=4)
    found = ca.sweep({"stock": problem}, "exact", [0.5, 1.0])
    assert [row["status"] for row in found.rows] == ["SOLVED", "SOLVED"]
    assert found.rows[0]["objective"] == ca.solve(problem.with_caution(0.5)).objective


def test_tables_are_written_and_read(tmp_path):
    found = ca.sweep({"swim": SWIM}, ["plug-in", learners.by_seed], samples=2000, seeds=2)
    found.save(tmp_path / "runs.csv")
    with (tmp_path / "runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["objective"]) if row["objective"] else None for row in rows] == [
        row["objective"] for row in found.rows
    ]
    parquet = pytest.importorskip("pyarrow.parquet", reason="extra data")
    found.save(tmp_path / "runs.parquet")
    assert parquet.read_table(tmp_path / "runs.parquet").to_pylist() == found.table()
    with pytest.raises(ca.InputError, match=r"a sweep is written as \.csv or \.parquet"):
        found.save(tmp_path / "runs.txt")


def test_summaries_group_as_asked():
    found = ca.sweep({"a": SWIM, "b": SWIM}, ["plug-in"], samples=[2000, 3000], seeds=2)
    over = found.summary("gap", by=["method", "samples"])
    assert [(row["samples"], row["n"]) for row in over] == [(2000, 4), (3000, 4)]
    gaps = [row["gap"] for row in found.rows if row["samples"] == 2000]
    assert over[0]["mean"] == pytest.approx(np.mean(gaps))
    assert over[0]["iqm"] == pytest.approx(np.mean(sorted(gaps)[1:3]))
    with pytest.raises(ca.InputError, match=r"number is 'gaps'; did you mean 'gap'\?"):
        found.summary("gaps")
    with pytest.raises(ca.InputError, match="by holds 'seed'"):
        found.summary("gap", by=["seed"])


def test_figures_have_a_panel_for_each_problem():
    pytest.importorskip("matplotlib", reason="extra plot")
    found = ca.sweep({"a": SWIM, "b": SWIM}, ["plug-in", "exact"], samples=[2000, 3000], seeds=2)
    panels = found.plot().axes
    assert [axes.get_title(loc="left") for axes in panels] == ["a", "b"]
    middle = [row["iqm"] for row in found.summary("gap") if row["problem"] == "a" and row["method"] == "plug-in"]
    assert panels[0].lines[0].get_ydata().tolist() == middle
    along = ca.sweep({"a": SWIM}, ["exact"], [0.5, 1.0, 2.0]).plot()
    assert along.axes[0].lines[0].get_xdata().tolist() == [0.5, 1.0, 2.0]
    with pytest.raises(ca.InputError, match="against is 'seed'"):
        found.plot(against="seed")
