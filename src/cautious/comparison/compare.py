"""``ca.compare``: the same problem by every applicable method of ours and by the packages that are installed."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import partial
from typing import Any

from cautious.checks import as_count, as_number
from cautious.comparison.method_runs import Peers, Run, learner_row, solver_row
from cautious.comparison.results import OURS, Comparison, ComparisonRow
from cautious.errors import IncompatibleError, InputError
from cautious.peers import roster
from cautious.problem import Problem
from cautious.solvers.base import Solver
from cautious.solvers.choose import SOLVERS, choose
from cautious.solvers.request import Request

LEARNERS = ("plug-in", "primal-dual", "paper")
SAMPLES = 1_000_000


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
    tolerance: float = 1e-6,
    time_limit_seconds: float = 60.0,
    samples: int | None = None,
    seed: int = 0,
    callback: Callable[[Turn], Any] | None = None,
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
    budget = None if samples is None else as_count("samples", samples)
    wanted = _wanted(problem, methods, budget)
    rows: list[ComparisonRow] = []
    with Peers(problem, tolerance, limit) as peers:
        runs = [
            (name, whose, _run(problem, name, request, budget or SAMPLES, as_count("seed", seed, 0), peers))
            for name, whose in wanted
        ]
        for number, (name, whose, run) in enumerate(runs, 1):
            if callback is not None:
                callback(Turn(name, whose, number, len(runs)))
            rows.append(_until_interrupted(name, whose, run))
            if rows[-1].status in ("interrupted", "STOPPED"):
                rows += [ComparisonRow(later, owner, "interrupted") for later, owner, _ in runs[number:]]
                break
    return Comparison(tuple(rows), problem, tolerance, limit)


def method_names() -> dict[str, str]:
    """Every method that ``compare`` knows, and whose it is."""
    ours = [solver.name for solver in _solvers()]
    return dict.fromkeys([*ours, *LEARNERS], OURS) | {name: roster.owner(name) for name in roster.EVERY}


def _solvers() -> list[Solver]:
    return list(SOLVERS)


def _wanted(problem: Problem, methods: Sequence[str] | None, samples: int | None) -> list[tuple[str, str]]:
    """(method, whose) of everything to run, without repetitions."""
    if methods is None:
        names = [solver.name for solver in choose(problem)]
        names += LEARNERS if samples is not None else ()
        names += [name for name in roster.USUAL if roster.refusal(problem, name) is None]
        return [(name, method_names()[name]) for name in names]
    if isinstance(methods, str) or not isinstance(methods, Sequence) or not methods:
        raise InputError(f"methods must be a sequence of names, found {methods!r}")
    return list(dict.fromkeys(pair for word in methods for pair in _meant(problem, word, samples)))


def _meant(problem: Problem, word: Any, samples: int | None) -> Iterator[tuple[str, str]]:
    """The methods a word stands for: those of a package that apply, or one by its name."""
    known, asked = method_names(), str(word).strip().lower()
    of_package = [(name, whose) for name, whose in known.items() if whose.lower() == asked]
    if not of_package:
        named = [(name, whose) for name, whose in known.items() if name.lower() == asked]
        if named:
            return iter(named)
        close = get_close_matches(asked, [name.lower() for name in (*known, *known.values())], 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        every = ", ".join(dict.fromkeys([*known.values(), *known]))
        raise InputError(f"there is no method {word!r}; {hint}there are {every}")
    unwanted = LEARNERS if samples is None else ()
    fitting = [pair for pair in of_package if pair[0] not in unwanted and _refusal(problem, pair[0]) is None]
    # a package none of whose methods applies says why, by its first one
    return iter(fitting or of_package[:1])


def _refusal(problem: Problem, name: str) -> str | None:
    if name in roster.EVERY:
        return roster.refusal(problem, name)
    if name in LEARNERS:
        return None
    return next(solver.refusal(problem) for solver in _solvers() if solver.name == name)


def _run(problem: Problem, name: str, request: Request, samples: int, seed: int, peers: Peers) -> Run:
    refusal, whose = _refusal(problem, name), method_names()[name]
    if refusal is not None:
        return partial(ComparisonRow, name, whose, "not applicable", note=refusal)
    if name in roster.EVERY:
        return partial(peers.row, name)
    if name in LEARNERS:
        assert request.time_limit_seconds is not None
        return partial(learner_row, problem, name, samples, request.time_limit_seconds, seed)
    solver = next(solver for solver in _solvers() if solver.name == name)
    return partial(solver_row, problem, solver, request)


def _until_interrupted(name: str, whose: str, run: Run) -> ComparisonRow:
    try:
        return run()
    except KeyboardInterrupt:
        return ComparisonRow(name, whose, "interrupted")
