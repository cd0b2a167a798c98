"""Dask as the executor: the same bytes, workers that are killed, a scheduler that is, an address that is refused."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious.commands.workers import chosen_executor
from cautious.runtime.dask_cluster import joined_workers, local_workers
from cautious.runtime.executors import Workers

pytest.importorskip("distributed", reason="extra dask")

# Dask closes its sockets and loops when it gets to it
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


class Slow:
    """A random walk on a ring of six that takes its time; the walls of the files make some draws special."""

    n_states, n_actions, discount, reward_range = 6, 2, 0.8, (0.0, 1.0)
    draws_per_seed = 1

    def __init__(self, seconds=0.002, log=None):
        self.seconds, self.log = seconds, log

    def start_states(self, n, rng):
        return np.zeros(n, dtype=np.int64)

    def sample(self, states, actions, rng):
        time.sleep(self.seconds * len(states))
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{os.getpid()}\n")
        moved = rng.random(len(states)) < 0.8
        return (states + np.where(moved, 2 * actions - 1, 0)) % 6, (states == 3) * 1.0


def learn(executor=None, samples=1500, **options):
    return ca.learn(Slow(options.pop("seconds", 0.0)), None, 0.0, samples, executor=executor, **options)


def same(one, two):
    assert one.policy.tobytes() == two.policy.tobytes()
    assert (one.objective, one.gap) == (two.objective, two.gap)
    assert one.certificate.facts == two.certificate.facts


def worker_pids(client):
    # one that was killed a moment ago does not answer
    return list(client.run(os.getpid, on_error="ignore").values())


def client_of(found):
    return found.executor._client


@pytest.fixture(scope="module")
def two_workers():
    with local_workers(2) as found:
        yield found


def test_a_local_cluster_listens_on_the_loopback_interface(two_workers):
    client = client_of(two_workers)
    addresses = [client.scheduler.address, *client.nthreads(), two_workers.dashboard]
    assert all("127.0.0.1" in address for address in addresses)
    assert Workers(two_workers.executor).count == two_workers.count == 2


def test_learning_gives_the_same_bytes(two_workers):
    same(learn(two_workers.executor), learn())


def test_the_content_is_sent_once_to_each_worker(two_workers):
    workers = Workers(two_workers.executor)
    big = np.arange(100_000)
    found = [value for _, value in workers.run(entry, big, range(200))]
    assert found == list(range(200))


def entry(array, place):
    return int(array[place])


def test_a_frontier_is_the_same_for_any_number_of_workers(two_workers):
    mdp, cautions = ca.worlds.maze(), [0, 1, 10]
    serial, two = (
        ca.frontier(mdp, ca.Variance(), cautions),
        ca.frontier(mdp, ca.Variance(), cautions, executor=two_workers.executor),
    )
    for one, other in zip(serial, two, strict=True):
        assert other.caution == one.caution
        assert abs(one.objective - other.objective) <= 1e-6 * max(1, abs(one.objective))
        assert ca.verify(other).proved


def killed_in_the_middle(kills, seconds):
    """A run in which a worker is killed so many times, each after some more samples have arrived."""
    rng = np.random.default_rng(kills)
    marks = list(np.linspace(100, 1300, kills))
    with local_workers(2) as found:

        def kill(progress):
            if marks and progress.samples >= marks[0]:
                pids = worker_pids(client_of(found))
                if pids:
                    os.kill(int(rng.choice(pids)), signal.SIGKILL)
                    marks.pop(0)

        learned = learn(found.executor, seconds=seconds, callback=kill)
    assert not marks
    return learned


def test_workers_that_are_killed_change_nothing():
    same(killed_in_the_middle(2, 0.004), learn())


@pytest.mark.slow
def test_workers_killed_twenty_times_change_nothing():
    same(killed_in_the_middle(20, 0.02), learn())


# a cluster that runs by itself must be able to import the simulator
ENVIRONMENT = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}


def scheduler_process(*options, environment=ENVIRONMENT):
    code = "from distributed.cli.dask_scheduler import main; main()"
    command = [sys.executable, "-c", code, "--host", "127.0.0.1", "--port", "0", "--no-dashboard", *options]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    for line in process.stderr:
        if "Scheduler at:" in line:
            threading.Thread(target=process.stderr.read, daemon=True).start()
            return process, line.split()[-1]
    raise AssertionError("no scheduler")


def worker_process(address, environment=ENVIRONMENT):
    code = "from distributed.cli.dask_worker import main; main()"
    command = [sys.executable, "-c", code, address, "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
    return subprocess.Popen(
        [*command, "--no-nanny", "--death-timeout", "5"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def test_a_scheduler_that_is_killed_is_named_and_the_run_goes_on_later(tmp_path, monkeypatch):
    dask = pytest.importorskip("dask", reason="extra dask")
    path, log = tmp_path / "run.npz", tmp_path / "log"
    scheduler, address = scheduler_process()
    worker = worker_process(address)
    simulator = Slow(0.01, str(log))
    quiet = ca.learn(Slow(0.0), samples=1500)

    def kill(progress):
        if progress.samples > 700:
            scheduler.kill()

    try:
        # how long Dask tries to find its scheduler again
        with (
            dask.config.set({"distributed.comm.timeouts.connect": "2s"}),
            joined_workers(address) as found,
            pytest.raises(ca.WorkerError, match="the same call continues there"),
        ):
            ca.learn(simulator, samples=1500, executor=found.executor, checkpoint=path, callback=kill)
    finally:
        scheduler.kill()
        worker.kill()
    before = len(log.read_text().split())
    seen = []
    learned = ca.learn(simulator, samples=1500, checkpoint=path, callback=lambda now: seen.append(now.samples))
    same(learned, quiet)
    assert seen[0] > 700
    # what was handed over before the scheduler went is not drawn again
    assert len(log.read_text().split()) - before <= 1500 - 700


@pytest.mark.parametrize("address", ["127.0.0.1:8786", "http://127.0.0.1:1", "tcp://here"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(ca.InputError, match="a cluster is given as tcp://HOST:PORT"), joined_workers(address):
        pass


def test_a_scheduler_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setattr("cautious.runtime.dask_cluster.CONNECT_SECONDS", 0.5)
    with (
        pytest.raises(ca.WorkerError, match=r"no scheduler answers at tcp://127\.0\.0\.1:9"),
        joined_workers("tcp://127.0.0.1:9"),
    ):
        pass


def test_a_connection_without_encryption_to_elsewhere_is_warned_about(monkeypatch):
    monkeypatch.setattr("cautious.runtime.dask_cluster.CONNECT_SECONDS", 0.2)
    with (
        pytest.warns(ca.CautiousWarning, match="is not encrypted"),
        pytest.raises(ca.WorkerError),
        joined_workers("tcp://192.0.2.1:8786"),
    ):
        pass


@pytest.mark.parametrize(
    ("workers", "cluster", "wanted"),
    [(0, None, "--workers is 0; expected at least 1"), (2, "tcp://127.0.0.1:8786", "give one of them")],
)
def test_options_that_contradict_each_other_are_refused(workers, cluster, wanted):
    with pytest.raises(ca.InputError, match=wanted), chosen_executor(workers, cluster, quiet=True):
        pass


def test_a_command_says_where_its_workers_can_be_watched(capsys):
    with chosen_executor(2, None, quiet=False) as executor:
        assert Workers(executor).count == 2
    assert capsys.readouterr().err.startswith("2 workers; dashboard: http://127.0.0.1:")
    with chosen_executor(1, None, quiet=False) as executor:
        assert executor is None
