"""Long runs: same bytes, resume after anything, budgets kept, Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from plain_simulators import Plain, small

import cautious as ca

METHODS = ["plug-in", "primal-dual", "paper"]
CASES = {
    "neutral": (None, 0.0),
    "peak": (ca.PeakExposure([[0, 1], [2]]), 4.0),
    "variance": (ca.Variance(), 2.0),
    "KL": (ca.KL(np.full(5, 0.2)), 1.0),
}


def same(one, other):
    for name in ("policy", "occupancy", "multipliers", "adjusted_reward"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name in ("objective", "gap", "upper_bound", "risk", "status"):
        np.testing.assert_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_equal(one.certificate.facts, other.certificate.facts)
    for name in ("samples", "objective", "violation"):
        np.testing.assert_array_equal(getattr(one.history, name), getattr(other.history, name))


def learn(simulator, case, method, samples=2500, **more):
    risk, caution = CASES[case]
    return ca.learn(simulator, risk, caution, samples, method, seed=3, **more)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["table", "plain"])
def test_stopped_anywhere_and_resumed_is_the_undisturbed_run(method, case, kind, tmp_path):
    mdp = small()
    samples = 2500 if method != "paper" or kind == "table" else 300

    def simulator():
        return mdp.simulator() if kind == "table" else Plain(mdp)

    whole = learn(simulator(), case, method, samples)
    path, rng, stops = tmp_path / "run.npz", np.random.default_rng(0), 0
    for _ in range(200):
        # every run reports at least four times
        after = int(rng.integers(1, 3))
        pieces = iter(range(10**9))
        part = learn(simulator(), case, method, samples, checkpoint=path, callback=lambda p, a=after: next(pieces) >= a)  # noqa: B023
        if part.status is not ca.Status.STOPPED:
            break
        stops += 1
    assert stops >= 1
    same(part, whole)
    # a run that has ended is not changed by being continued, however often
    for _ in range(2):
        same(learn(simulator(), case, method, samples, checkpoint=path), whole)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("case", CASES)
def test_samples_are_never_exceeded_and_nearly_used(method, case):
    simulator = Plain(small())
    samples = 400 if method == "paper" else 3000
    learned = learn(simulator, case, method, samples)
    assert simulator.drawn == learned.certificate.facts["samples"] <= samples
    assert simulator.drawn >= 0.85 * samples


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("breaks_at", [2, 4, 9, 14])
def test_a_simulator_that_breaks_leaves_a_checkpoint(method, breaks_at, tmp_path):
    mdp, path = small(), tmp_path / "run.npz"
    samples = 300 if method == "paper" else 20_000
    whole = learn(Plain(mdp), "peak", method, samples)
    with pytest.raises(ca.SimulatorError, match=r"ConnectionError: the lab is closed \(call \d+, seed 3\)") as error:
        learn(Plain(mdp, breaks_at), "peak", method, samples, checkpoint=path)
    if path.exists():
        assert str(path) in str(error.value)
    same(learn(Plain(mdp), "peak", method, samples, checkpoint=path), whole)


@pytest.mark.parametrize("method", ["plug-in", "primal-dual"])
def test_any_number_of_workers_gives_the_same_bytes(method):
    mdp = small()
    whole = learn(Plain(mdp), "peak", method, 20_000)
    for workers in (1, 2, 8):
        with ThreadPoolExecutor(workers) as pool:
            same(learn(Plain(mdp), "peak", method, 20_000, executor=pool), whole)


def test_twenty_repeats_give_the_same_bytes():
    simulator = small().simulator()
    first = learn(simulator, "KL", "primal-dual")
    for _ in range(20):
        same(learn(simulator, "KL", "primal-dual"), first)


def test_another_question_is_refused_by_name(tmp_path):
    path, simulator = tmp_path / "run.npz", small().simulator()
    ca.learn(simulator, ca.KL(np.full(5, 0.2)), 1.0, 2500, "primal-dual", seed=3, checkpoint=path)
    with pytest.raises(ca.FileError, match=r"another run: its samples is 2500, asked for is 2600"):
        ca.learn(simulator, ca.KL(np.full(5, 0.2)), 1.0, 2600, "primal-dual", seed=3, checkpoint=path)
    other = np.array([0.3, 0.1, 0.2, 0.2, 0.2])
    with pytest.raises(ca.FileError, match="risk values"):
        ca.learn(simulator, ca.KL(other), 1.0, 2500, "primal-dual", seed=3, checkpoint=path)
    with pytest.raises(ca.FileError, match=r"its samples is 2500, asked for is 2600$"):
        ca.learn(simulator, ca.KL(np.full(5, 0.2)), 1.0, 2600, "primal-dual", seed=3, checkpoint=path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ca.FileError, match="not a readable cautious file"):
        ca.learn(simulator, ca.KL(np.full(5, 0.2)), 1.0, 2500, "primal-dual", seed=3, checkpoint=path)


def test_a_missing_folder_is_refused_before_any_work(tmp_path):
    simulator = Plain(small())
    with pytest.raises(ca.FileError, match="there is no folder"):
        ca.learn(simulator, samples=2500, checkpoint=tmp_path / "nowhere" / "run.npz")
    assert simulator.drawn == 0


def test_an_unrepeatable_simulator_leaves_no_checkpoint(tmp_path):
    class Loose(Plain):
        def sample(self, states, actions, rng):
            return super().sample(states, actions, np.random.default_rng(self.calls))

    path = tmp_path / "run.npz"
    for _ in range(2):
        with pytest.raises(ca.SimulatorError, match="called again with the same generator"):
            ca.learn(Loose(small()), samples=4000, checkpoint=path)
        assert not path.exists()


RUN = """
import sys, numpy as np
import cautious as ca
mdp = ca.worlds.drift()
learned = ca.learn(mdp.simulator(), ca.KL(ca.worlds.drift_prior()), 5.0, {samples}, "{method}", seed=5,
                   checkpoint=sys.argv[1], checkpoint_seconds=0.0)
learned.save(sys.argv[2])
print(learned.status.name, flush=True)
"""


def start(method, samples, path, out, stdout=subprocess.DEVNULL):
    code = textwrap.dedent(RUN).format(samples=samples, method=method)
    return subprocess.Popen([sys.executable, "-c", code, str(path), str(out)], stdout=stdout, text=True)


def killed_and_resumed(tmp_path, kills, method, samples, seed=1):
    """Kill the process at random moments; the file must load each time, and the end must be that of a quiet run."""
    rng, path, out = np.random.default_rng(seed), tmp_path / "run.npz", tmp_path / "learned.npz"
    done = 0
    while done < kills:
        process = start(method, samples, path, out)
        while not path.exists() and process.poll() is None:
            time.sleep(0.005)
        time.sleep(float(rng.uniform(0, 0.6)))
        if process.poll() is not None:
            path.unlink()
            continue
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        done += 1
        if rng.random() < 0.2:
            path.unlink()
    assert start(method, samples, path, out).wait() == 0
    quiet = ca.learn(ca.worlds.drift().simulator(), ca.KL(ca.worlds.drift_prior()), 5.0, samples, method, seed=5)
    same(ca.load(out), quiet)


def test_killed_ten_times_and_bit_identical(tmp_path):
    killed_and_resumed(tmp_path, 10, "primal-dual", 3_000_000)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["primal-dual", "plug-in"])
def test_killed_a_hundred_times_and_bit_identical(tmp_path, method):
    killed_and_resumed(tmp_path, 50, method, 3_000_000)


def test_ctrl_c_gives_the_best_so_far_at_once(tmp_path):
    path, out = tmp_path / "run.npz", tmp_path / "learned.npz"
    process = start("primal-dual", 10**9, path, out, subprocess.PIPE)
    while not path.exists():
        time.sleep(0.01)
    pressed = time.monotonic()
    process.send_signal(signal.SIGINT)
    printed, _ = process.communicate(timeout=60)
    assert printed.strip() == "STOPPED"
    assert time.monotonic() - pressed < 20
    stopped = ca.load(out)
    assert "nothing is claimed" in stopped.certificate.statement
    assert np.allclose(stopped.policy.sum(axis=1), 1)


def test_another_level_of_a_tail_is_another_question(tmp_path):
    path, simulator = tmp_path / "run.npz", small().simulator()
    ca.learn(simulator, ca.CVaR(0.9), 1.0, 2500, "plug-in", checkpoint=path)
    with pytest.raises(ca.FileError, match=r"its risk is 'CVaR\(0.9\)', asked for is 'CVaR\(0.5\)'"):
        ca.learn(simulator, ca.CVaR(0.5), 1.0, 2500, "plug-in", checkpoint=path)


def test_workers_draw_at_the_same_time():
    """A piece of plug-in has several batches, or an executor would be of no use."""
    busy, most, lock = [0], [0], threading.Lock()

    class Slow(Plain):
        def sample(self, states, actions, rng):
            with lock:
                busy[0] += 1
                most[0] = max(most[0], busy[0])
            time.sleep(0.01)
            with lock:
                busy[0] -= 1
            return self.inner.sample(states, actions, rng)

    with ThreadPoolExecutor(2) as pool:
        learn(Slow(small()), "neutral", "plug-in", 60_000, executor=pool)
    assert most[0] == 2


def test_a_risk_without_caution_is_warned_about():
    with pytest.warns(ca.CautiousWarning, match="caution is 0: the risk plays no part"):
        ca.learn(small().simulator(), ca.Variance(), samples=1000)


@pytest.mark.parametrize(
    ("simulator", "wanted"),
    [
        (small(), "pass mdp.simulator"),
        (Plain, r"simulator is the class Plain; make one: Plain\(\.\.\.\)"),
        (lambda s, a, rng: (s, 0.0), "ca.FunctionSimulator makes one of a function"),
    ],
)
def test_what_is_not_a_simulator_is_refused_with_the_way_out(simulator, wanted):
    with pytest.raises(ca.IncompatibleError, match=wanted):
        ca.learn(simulator, samples=1000)


def test_an_infeasible_requirement_is_named():
    learned = ca.learn(small().simulator(), ca.SafeSet([0], slack=0.01), 1.0, 5000, "plug-in")
    assert learned.status is ca.Status.UNDECIDED
    assert "share of time in the safe set" in learned.certificate.statement


def test_a_spread_that_the_simulator_does_not_draw_is_refused():
    mdp = small()
    averaged = ca.MDP(mdp.transitions, mdp.rewards, 0.8, reward_square=mdp.rewards**2 + 1.0)
    assert ca.learn(averaged.simulator(), samples=1000).status is ca.Status.ESTIMATED
    with pytest.raises(ca.IncompatibleError, match="Variance looks at the spread of rewards"):
        ca.learn(averaged.simulator(), ca.Variance(), 1.0, samples=1000)
