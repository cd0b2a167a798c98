"""``ca.compare``: the same problem by every applicable method of ours and by the packages that are installed."""

import pickle
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.checks import as_count, as_number, as_seed, check_callback, did_you_mean
from cautious.comparison.results import OURS, YOURS, Comparison, ComparisonRow
from cautious.errors import CautiousError, IncompatibleError, InputError, shown
from cautious.evaluation.agents import Agent, agent_table
from cautious.evaluation.policy_rows import policy_table
from cautious.learning.learn import DEFAULT_SAMPLES, learn
from cautious.learning.loop import LearningProgress
from cautious.models.formats.own import model_from_storage, model_to_storage
from cautious.models.tabular import MDP
from cautious.occupancy import check_policy
from cautious.peers import roster
from cautious.peers.timing import finite, repeated
from cautious.peers.workers import Worker
from cautious.problem import Problem
from cautious.solution import Solution
from cautious.solvers.base import Solver
from cautious.solvers.choose import SOLVERS, choose
from cautious.solvers.solve import Request, answer
from cautious.status import DEFAULT_TOLERANCE, Status

LEARNERS = ("plug-in", "primal-dual", "paper")
CHILD_COMMAND = ("-P", "-m", "cautious.peers.child")
# shorter runs are repeated, and the fastest counts
MAX_REPEATED_SECONDS = 5.0


@dataclass(frozen=True)
class Turn:
    """What the callback of ``ca.compare`` receives before each method: its name, its number from 1, and of how many."""

    method: str
    whose: str
    number: int
    total: int


def compare(
    problem: Problem,
    methods: Sequence[str] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    time_limit_seconds: float = 60.0,
    samples: int | None = None,
    seed: int = 0,
    callback: Callable[[Turn], Any] | None = None,
    *,
    policies: Mapping[str, Any] | None = None,
) -> Comparison:
    """Solve one problem by many methods, and judge all answers alike.

    Every policy is evaluated by our own code in the model of the problem, whatever its solver claims. Other packages
    run in processes of their own, which are killed at the time limit; what is not installed is a row that says so.
    Everyone gets one thread.

    Parameters
    ----------
    problem
        Model, risk and caution.
    methods
        Names of methods, or of packages for all of theirs that apply, such as ``["cautious", "CLARABEL", "Storm"]``;
        ``Comparison`` shows the names. By default all of ours that apply, and the usual ones of every package that can
        take the problem.
    tolerance
        Relative gap of our own methods, as in ``ca.solve``.
    time_limit_seconds
        For each method. What is not its time is bounded as well: ten limits (60 s to 600 s) to prepare another package,
        five (30 s to 300 s) to judge its answer.
    samples
        With a number, our learners take part and may draw this many transitions each. Those named in ``methods`` take
        part anyway, by default with a million.
    seed
        For the learners.
    callback
        Called with a ``Turn`` before each method.
    policies
        Policies of your own by name, each anything that ``ca.evaluate`` takes: an agent of another library, a function,
        an array, a Solution. They are rows of the table as well, judged like the others.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.river_swim()
    >>> found = ca.compare(ca.Problem(mdp, ca.Entropy(), caution=0.1), methods=["cautious"])
    >>> [row.status for row in found.rows if row.method == "dual Newton"]
    ['SOLVED']
    """
    if not isinstance(problem, Problem):
        raise IncompatibleError(f"ca.compare needs a ca.Problem, found {type(problem).__name__}")
    problem.mdp.require_transitions("ca.compare")
    limit = as_number("time_limit_seconds", time_limit_seconds, 0.0, open_ends="(")
    request = Request(tolerance, limit, threads=1).check()
    check_callback(callback)
    budget = None if samples is None else as_count("samples", samples)
    given = {} if policies is None else _tables(problem, policies)
    wanted = [] if given and methods is not None and not methods else _wanted(problem, methods, budget)
    learning = (budget or DEFAULT_SAMPLES, limit, as_seed(seed))
    rows = [policy_row(problem, name, table) for name, table in given.items()]
    with Peers(problem, tolerance, limit) as peers:
        for number, (name, whose) in enumerate(wanted, 1):
            if callback is not None:
                callback(Turn(name, whose, number, len(wanted)))
            refusal = _refusal(problem, name)
            try:
                if refusal is not None:
                    row = ComparisonRow(name, whose, "not applicable", note=refusal)
                elif name in roster.EVERY:
                    row = peers.row(name)
                elif name in LEARNERS:
                    row = learner_row(problem, name, *learning)
                else:
                    row = solver_row(problem, _solvers()[name], request)
            except KeyboardInterrupt:
                row = ComparisonRow(name, whose, "interrupted")
            rows.append(row)
            if row.status in ("interrupted", "STOPPED"):
                rows += [ComparisonRow(later, owner, "interrupted") for later, owner in wanted[number:]]
                break
    return Comparison(tuple(rows), problem, tolerance, limit)


def _tables(problem: Problem, policies: Any) -> dict[str, Array]:
    """The policies as tables, which is what they are judged by."""
    if not isinstance(policies, Mapping):
        raise InputError(f"policies must map names to policies, found {type(policies).__name__}")
    tables = {}
    for name, policy in policies.items():
        try:
            table = policy_table(policy, problem.mdp)
            if isinstance(table, Agent):
                table = agent_table(table, problem.mdp)
            if table is None:
                raise IncompatibleError(
                    "it remembers, or answers differently when it is asked again; ca.compare judges policies exactly, "
                    "ca.evaluate simulates them"
                )
            tables[str(name)] = check_policy(problem.mdp, table)
        except (InputError, IncompatibleError) as error:
            raise type(error)(f"policies[{shown(name)}]: {error}") from error
    return tables


def method_names() -> dict[str, str]:
    """Every method that ``compare`` knows, and whose it is."""
    return dict.fromkeys([*_solvers(), *LEARNERS], OURS) | {name: roster.owner(name) for name in roster.EVERY}


def _solvers() -> dict[str, Solver]:
    return {solver.name: solver for solver in SOLVERS}


def _wanted(problem: Problem, methods: Sequence[str] | None, samples: int | None) -> list[tuple[str, str]]:
    """(method, whose) of everything to run, without repetitions."""
    if methods is None:
        names = [solver.name for solver in choose(problem)]
        names += LEARNERS if samples is not None else ()
        names += [name for name in roster.USUAL if roster.refusal(problem, name) is None]
        return [(name, method_names()[name]) for name in names]
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise InputError(f"methods must be a sequence of names, found {shown(methods)}")
    for word in methods:
        if not isinstance(word, str):
            raise InputError(f"methods must hold names, found {shown(word)}")
    return list(dict.fromkeys(pair for word in methods for pair in _meant(problem, word, samples)))


def _meant(problem: Problem, word: Any, samples: int | None) -> Iterator[tuple[str, str]]:
    """The methods a word stands for: those of a package that apply, or one by its name."""
    known, asked = method_names(), str(word).strip().lower()
    of_package = [(name, whose) for name, whose in known.items() if whose.lower() == asked]
    if not of_package:
        named = [(name, whose) for name, whose in known.items() if name.lower() == asked]
        if named:
            return iter(named)
        every = list(dict.fromkeys([*known.values(), *known]))
        raise InputError(
            f"there is no method {shown(word)}{did_you_mean(asked, every) or ';'} there are {', '.join(every)}"
        )
    unwanted = LEARNERS if samples is None else ()
    fitting = [pair for pair in of_package if pair[0] not in unwanted and _refusal(problem, pair[0]) is None]
    # a package none of whose methods applies says why, by its first one
    return iter(fitting or of_package[:1])


def _refusal(problem: Problem, name: str) -> str | None:
    if name in roster.EVERY:
        return roster.refusal(problem, name)
    if name in LEARNERS:
        if problem.mdp.horizon is not None:
            return "learns discounted returns only"
        return "takes no constraints" if problem.constraints else None
    return _solvers()[name].refusal(problem)


def solver_row(problem: Problem, solver: Solver, request: Request) -> ComparisonRow:
    """One of our exact methods."""

    def run() -> dict[str, Any]:
        # bound anew: what the bound risk has cached would help the next method
        fresh = Problem(problem.mdp, problem.unbound_risk, problem.caution, problem.constraints, problem.mdp.horizon)
        started = time.perf_counter()
        solution = answer(fresh, request, solvers=[solver])
        return {"seconds": time.perf_counter() - started, "solution": solution}

    found = run()
    if found["seconds"] < MAX_REPEATED_SECONDS and found["solution"].status is not Status.STOPPED:
        found = min(found, repeated(run), key=lambda one: one["seconds"])
    solution: Solution = found["solution"]
    return ComparisonRow(
        method=solver.name,
        whose=OURS,
        status=solution.status.name,
        objective=finite(solution.objective),
        upper_bound=finite(solution.upper_bound),
        gap=finite(solution.gap) if np.isfinite(solution.objective) else None,
        seconds=found["seconds"],
    )


def policy_row(problem: Problem, name: str, table: Array) -> ComparisonRow:
    """A policy of the user's, by its table."""
    return ComparisonRow(name, YOURS, "given", finite(evaluate_policy(problem, table).objective))


def learner_row(problem: Problem, method: str, samples: int, limit_seconds: float, seed: int) -> ComparisonRow:
    """One of our learners; it sees samples only, and the policy it delivers is evaluated in the model."""
    is_late = False

    def watch(progress: LearningProgress) -> bool:
        nonlocal is_late
        is_late = progress.seconds > limit_seconds
        return is_late

    simulator, started = problem.mdp.simulator(), time.perf_counter()
    try:
        learned = learn(simulator, problem.unbound_risk, problem.caution, samples, method, seed, callback=watch)
    except CautiousError as error:
        return ComparisonRow(method, OURS, "not applicable", note=str(error))
    seconds = time.perf_counter() - started
    objective = finite(evaluate_policy(problem, learned.policy).objective)
    # a learner does not know that it was stopped by the clock
    status = Status.TIME_LIMIT if is_late and learned.status is Status.STOPPED else learned.status
    return ComparisonRow(method, OURS, status.name, objective, seconds=seconds, note=f"at most {samples:,} samples")


class Peers:
    """Others' solvers, each package in a process of its own that is started when it is first needed."""

    def __init__(self, problem: Problem, tolerance: float, limit_seconds: float) -> None:
        self.problem, self.tolerance, self.limit = problem, tolerance, limit_seconds
        self.workers: dict[str, Worker] = {}

    def row(self, name: str) -> ComparisonRow:
        """One peer; a package that fails, hangs or is missing is a row that says so."""
        absent, owner = roster.missing(name), roster.owner(name)
        if absent is not None:
            return ComparisonRow(name, owner, "not installed", note=f"pip install {absent}")
        worker, payload = self.workers.get(owner), b""
        if worker is None or not worker.alive:
            worker = self.workers[owner] = Worker(CHILD_COMMAND, patient=False)
            payload = self._pickled()
        found = worker.ask({"solver": name, "limit_seconds": self.limit}, self.limit, payload)
        status, note = status_and_note(found["status"])
        if found.get("objective") is None:
            if self.problem.constraints and status == "optimal":
                note = "its policy does not keep every limit exactly"
            elif found.get("claimed") is not None:
                note = f"claims {found['claimed']:.8g}; with limits it gives no policy"
            return ComparisonRow(name, owner, status, seconds=found.get("wall_seconds"), note=note)
        objective, bound, claimed = found["objective"], found["upper_bound"], found["claimed"]
        if claimed is not None and abs(claimed - objective) > self.tolerance * max(1.0, abs(objective)):
            note = f"claims {claimed:.8g}"
        gap = None if bound is None else bound - objective
        return ComparisonRow(name, owner, status, objective, bound, gap, found["wall_seconds"], note)

    def _pickled(self) -> bytes:
        """The bound problem for a child process, without the unbound risk and without the log behind its model."""
        mdp = self.problem.mdp
        if type(mdp) is not MDP:
            # the model of a log holds its log
            mdp = model_from_storage("model", *model_to_storage(mdp)).with_horizon(mdp.horizon)
        # a risk that does not count, at caution 0 or weight 0, may hold functions that cannot be sent
        bare = self.problem.in_model(mdp, self.problem.reward, self.problem.terms)
        bare.unbound_risk = None
        return pickle.dumps(bare)

    def __enter__(self) -> "Peers":
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers.values():
            if worker.alive:
                worker.close()


def status_and_note(status: str) -> tuple[str, str]:
    """A worker's status as a word and a note."""
    if status.startswith("failed: "):
        return "failed", status.removeprefix("failed: ")
    if " over " in f" {status}":
        return "time limit", status.replace("over", "stopped after")
    return status, ""
