"""The operations of the soak: each gets a generator and a folder of its own, and raises what is wrong."""

import json
import random
import resource
import signal
import tempfile
import threading
import time
import traceback
import warnings
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import psutil

import cautious as ca
import reference
from cautious.studio import websocket
from cautious.studio.server import Studio
from input_fuzzer import Inputs, mutated
from learning.plain_simulators import Plain, small
from learning.test_long_runs import killed_and_resumed
from random_models import CONVEX_KINDS, case_for, random_model, random_policy, random_term
from studio.conftest import running, solve_message

RISKS = (*CONVEX_KINDS, "Variance", "CVaR")
DISCOUNTS = (0.0, 0.5, 0.9, 0.99, 0.999, 1 - 1e-4, 1 - 1e-5, 1 - 1e-6)
PAGES = 3
MAX_LATE_SECONDS = 1.0
# how often each operation is done in one round
ROUND = {
    "solve": 20,
    "frontier": 2,
    "evaluate": 3,
    "learn": 3,
    "kill and resume": 1,
    "studio": 1,
    "cut file": 10,
    "full disk": 3,
}


class FalseProofError(Exception):
    """``ca.verify`` does not confirm a solution that claims a proof."""


class WrongFileError(Exception):
    """A file that is not what was written, or one that should not be there."""


@dataclass
class Tally:
    """What one worker did, as it is written to its file after every operation."""

    done: Counter = field(default_factory=Counter)
    refused: Counter = field(default_factory=Counter)
    slowest: dict = field(default_factory=dict)
    statuses: Counter = field(default_factory=Counter)
    late: list = field(default_factory=list)
    faults: list = field(default_factory=list)
    memory: list = field(default_factory=list)
    descriptors: list = field(default_factory=list)
    doing: str = ""

    def measure(self):
        process = psutil.Process()
        self.memory.append(process.memory_info().rss)
        self.descriptors.append(process.num_fds())


class Worker:
    """Operations by name; each gets its own generator and its own folder."""

    def __init__(self, folder):
        self.folder, self.tally = Path(folder), Tally()
        self.operations = {kind: getattr(self, kind.replace(" ", "_")) for kind in ROUND}

    def work(self, seconds, seed):
        """Each operation once, then rounds in random order until the time is over."""
        began, order = time.monotonic(), random.Random(seed)
        waiting, first_round = list(ROUND), True
        while first_round or time.monotonic() - began < seconds:
            self.perform(waiting.pop(), seed)
            seed += 1
            if not self.tally.memory and time.monotonic() - began > seconds / 10:
                self.tally.measure()
            if not waiting:
                first_round, waiting = False, [kind for kind, times in ROUND.items() for _ in range(times)]
                order.shuffle(waiting)
        self.tally.measure()
        self.write()

    def write(self):
        """Put the tally where it survives a crash of this process."""
        beside = self.folder / "tally.new"
        beside.write_text(json.dumps(vars(self.tally)))
        beside.replace(self.folder / "tally.json")

    def perform(self, kind, seed):
        """One operation; what it raises that is not an error of ours is a fault."""
        self.tally.doing = f"--kind {kind!r} --only {seed}"
        self.write()
        began = time.monotonic()
        try:
            with warnings.catch_warnings(), tempfile.TemporaryDirectory(dir=self.folder) as place:
                # a warning that is not ours is a fault, as in the tests
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", ca.CautiousWarning)
                try:
                    self.operations[kind](np.random.default_rng(seed), Path(place))
                except ca.CautiousError:
                    self.tally.refused[kind] += 1
                left = [path.name for path in self.folder.rglob("*.part")]
                if left:
                    raise WrongFileError(f"left behind: {left}")
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{error!s:.300} ({Path(last.filename).name}, line {last.lineno})"
            self.tally.faults.append((type(error).__name__, self.tally.doing, text))
        self.tally.done[kind] += 1
        self.tally.slowest[kind] = max(self.tally.slowest.get(kind, 0.0), time.monotonic() - began)

    def solve(self, rng, place):
        """A random problem under a time limit, sometimes stopped; then its file, and its proof."""
        problem, limit, stop_after = _problem(rng), 10 ** rng.uniform(-4, 1), int(rng.integers(4))
        steps = iter(range(10**9))
        stop = (lambda progress: next(steps) >= stop_after) if rng.random() < 0.2 else None
        began = time.monotonic()
        solution = ca.solve(problem, time_limit_seconds=limit, callback=stop)
        over = time.monotonic() - began - limit
        if over > MAX_LATE_SECONDS:
            self.tally.late.append((self.tally.doing, over))
        self.tally.statuses[solution.status.name] += 1
        if solution.objective > solution.upper_bound:
            raise FalseProofError(f"objective {solution.objective!r} above its bound {solution.upper_bound!r}")
        witness = bool(rng.random() < 0.7)
        solution.save(place / "solution.npz", witness=witness)
        loaded = ca.load(place / "solution.npz")
        if not np.array_equal(loaded.policy, solution.policy) or loaded.gap != solution.gap:
            raise WrongFileError("a solution was loaded that is not the one saved")
        if solution.status in (ca.Status.SOLVED, ca.Status.INFEASIBLE):
            _confirm([place / "solution.npz", loaded][int(rng.integers(2))] if witness else solution)

    def frontier(self, rng, place):
        """A few cautions; one of the points is verified."""
        problem = _problem(rng, sizes=("tiny", "small"), least_terms=1)
        cautions = problem.caution * 10 ** np.sort(rng.uniform(-1, 1, 3))
        points = ca.frontier(problem.mdp, problem.unbound_risk, cautions, time_limit_seconds=5.0)
        solved = [point for point in points if point.status is ca.Status.SOLVED]
        if solved:
            _confirm(solved[int(rng.integers(len(solved)))])

    def evaluate(self, rng, place):
        """A random policy, whose exact return is compared with that of dense linear algebra."""
        raw = random_model(rng, "small")
        policy = random_policy(rng, raw)
        found = ca.evaluate(raw.mdp(), policy, episodes=50, seed=int(rng.integers(100)))
        wanted = reference.expected_return(raw, reference.occupancy(raw, policy))
        scale = float(np.abs(raw.rewards).max()) / (1 - raw.discount)
        np.testing.assert_allclose(found.exact_mean, wanted, rtol=0, atol=1e-8 * scale)

    def learn(self, rng, place):
        """From a simulator that may raise or return nonsense, which must not be believed."""
        mdp = small(int(rng.integers(1000)))
        breaks_at, way = int(rng.integers(1, 30)), str(rng.choice(["well", "raises", "nan", "lost state"]))
        risk = [None, ca.Variance(), ca.KL(np.full(5, 0.2)), ca.PeakExposure([[0, 1], [2]])][int(rng.integers(4))]
        method = str(rng.choice(["plug-in", "primal-dual"]))
        simulator = Faulty(mdp, breaks_at, way)
        learned = ca.learn(simulator, risk, 0.0 if risk is None else 1.0, 20_000, method, checkpoint=place / "run.npz")
        if simulator.broken:
            raise FalseProofError(f"a simulator that {way} was believed")
        if not np.allclose(learned.policy.sum(axis=1), 1):
            raise ArithmeticError("rows of a learned policy do not sum to one")

    def kill_and_resume(self, rng, place):
        method, samples = str(rng.choice(["plug-in", "primal-dual"])), int(rng.integers(1, 4)) * 10**6
        killed_and_resumed(place, int(rng.integers(1, 4)), method, samples, int(rng.integers(10**6)))

    def studio(self, rng, place):
        """Several pages at once, which also send nonsense."""
        faults = []
        with running(Studio()) as site:
            pages = [
                threading.Thread(target=_visit, args=(site, random.Random(int(rng.integers(10**9))), faults))
                for _ in range(PAGES)
            ]
            for page in pages:
                page.start()
            for page in pages:
                page.join()
        if faults:
            raise RuntimeError(f"the studio failed: {faults[0]}")

    def cut_file(self, rng, place):
        """A reader gets a copy that ends too early."""
        kind = str(rng.choice(sorted(self.inputs.readers())))
        good, file = self.inputs.good[kind], self.inputs.folder / kind
        file.write_bytes(good[: int(rng.integers(len(good)))])
        try:
            self.inputs.readers()[kind](file)
        finally:
            file.write_bytes(good)

    @cached_property
    def inputs(self):
        folder = self.folder / "inputs"
        folder.mkdir()
        return Inputs(folder)

    def full_disk(self, rng, place):
        """Writing fails at some byte: the old file stays, or the new one is complete."""
        old, new = (ca.solve(ca.Problem(random_model(rng).mdp())) for _ in range(2))
        target = place / "solution.npz"
        old.save(target)
        size = target.stat().st_size
        with _no_file_above(int(rng.integers(2 * size))):
            try:
                new.save(target)
                wanted = new
            except ca.FileError:
                wanted = old
        if not np.array_equal(ca.load(target).policy, wanted.policy):
            raise WrongFileError("a write to a full disk left neither the old file nor the new one")


class Faulty(Plain):
    """Breaks at a call, in one of several ways; ``broken`` says that it did."""

    def __init__(self, mdp, breaks_at, way):
        super().__init__(mdp)
        self.call_that_breaks, self.way, self.broken = breaks_at, way, False

    def sample(self, states, actions, rng):
        following, rewards = super().sample(states, actions, rng)
        if self.way == "well" or self.calls < self.call_that_breaks:
            return following, rewards
        self.broken = True
        if self.way == "raises":
            raise ConnectionError("the simulator is gone")
        if self.way == "nan":
            return following, np.where(np.arange(rewards.size) == 0, np.nan, rewards)
        return following + self.n_states, rewards


def _problem(rng, sizes=("tiny", "small", "small", "medium", "large"), least_terms=0):
    """Up to two risks of any kind, rewards of any scale, discounts up to almost one."""
    raw = random_model(rng, str(rng.choice(sizes)))
    raw = replace(raw, rewards=raw.rewards * 10.0 ** rng.integers(-5, 6), discount=float(rng.choice(DISCOUNTS)))
    kinds = rng.choice(RISKS, size=int(rng.integers(least_terms, 3)))
    if not len(kinds):
        return ca.Problem(raw.mdp())
    return case_for(rng, raw, [random_term(rng, raw, str(kind)) for kind in kinds]).problem()


def _confirm(solution):
    """Raise unless the proof is confirmed; here a refusal is no confirmation either."""
    try:
        found = ca.verify(solution)
    except ca.CautiousError as error:
        raise FalseProofError(f"verification refused: {error}") from error
    if not found.proved:
        raise FalseProofError(found.statement)


@contextmanager
def _no_file_above(size):
    """A limit on the size of files stands for a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def _visit(site, rng, faults):
    try:
        with site.connect() as line:
            line.recv(60)
            for number in range(5):
                message = solve_message(number, caution=rng.uniform(0, 20))
                line.send(mutated(message.encode(), rng) if rng.random() < 0.3 else message)
                answer = line.recv(60)
                if isinstance(answer, str) and json.loads(answer).get("message") == websocket.FAULT:
                    faults.append(message)
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}")
