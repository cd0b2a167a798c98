"""``ca.sweep``: problems or simulators, methods, cautions, samples and seeds, each with each, as a resumable study."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from importlib.metadata import version
from itertools import product
from typing import Any, TypeVar

import numpy as np

from cautious.checks import as_count, as_flag, as_number, as_seed, check_callback, did_you_mean, is_listable
from cautious.errors import IncompatibleError, InputError, shown
from cautious.learning.learn import DEFAULT_SAMPLES
from cautious.learning.method import Method
from cautious.learning.task import checked_task
from cautious.models.simulators import Simulator
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.runtime.executors import checked_executor
from cautious.status import DEFAULT_TOLERANCE
from cautious.sweeps.folder import Job, ResultFolder
from cautious.sweeps.jobs import SweepProgress, run_jobs
from cautious.sweeps.results import COLUMNS, Sweep
from cautious.sweeps.runs import EXACT, KNOWN_METHODS, Content, Learner, Subject, failed, gap_of, method_question, run

Number = TypeVar("Number", int, float)

MOST_RUNS = 10_000_000
# in the order of work, an exact solve counts as a run of this many samples
EXACT_WEIGHT = 100_000


def sweep(
    problems: Any,
    methods: Any = ("auto",),
    cautions: Iterable[float] | None = None,
    samples: int | Iterable[int] = DEFAULT_SAMPLES,
    seeds: int | Iterable[int] = 10,
    *,
    risk: Risk | None = None,
    folder: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    callback: Callable[[SweepProgress], Any] | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    run_timeout_seconds: float | None = None,
    retry_failed: bool = False,
) -> Sweep:
    """Run every method on every problem with every caution, number of samples and seed.

    A run depends on nothing but these five: the same numbers come out for any executor, and after any interruption.

    Parameters
    ----------
    problems
        A ``ca.Problem``, a model or a simulator, a list of them, or a mapping from names to them.
    methods
        Names, objects such as ``ca.PlugIn(prove=False)``, or functions; a list, or a mapping from names to them.
        "exact" is ``ca.solve``; "auto", "plug-in", "primal-dual" and "paper" are those of ``ca.learn``. A function
        ``learner(simulator, risk, caution, samples, seed)`` returns a policy: anything that ``ca.evaluate`` takes.
    cautions
        By default the caution of each problem; 1 for a model or a simulator with a risk.
    samples
        Transitions that a learner may draw: a number, or several.
    seeds
        How many, 0 to n - 1, or which.
    risk
        For models and simulators; a problem has its own.
    folder
        Where results are kept as they come, each in a file of its own. With the same folder, only what is missing is
        computed: after an interruption, or for more seeds, samples, cautions, methods and problems. A problem or a
        method that has the name of another one there is refused.
    executor
        Any ``concurrent.futures.Executor``. What the runs share is sent to each worker once; a function and a
        simulator must be picklable for one with processes.
    callback
        Called with a ``SweepProgress`` after every run; returning True stops the sweep.
    tolerance
        Of the exact solves.
    run_timeout_seconds
        A run that takes longer is tried once more, and is then recorded as failed.
    retry_failed
        Run again what is recorded in the folder as failed.

    Returns
    -------
    Sweep
        A row for each run, in the order of the arguments. In a known model the policy is judged exactly, and ``gap`` is
        how far it is at most below the best one, which is found by ``ca.solve`` once for each problem and caution. With
        a simulator the numbers are the estimates of the learner. A run that fails is a row with its error.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> found = ca.sweep({"swim": problem}, ["plug-in", "primal-dual"], samples=[2_000, 20_000], seeds=3)
    >>> len(found.rows), found.rows[0]["method"], found.rows[0]["gap"] >= 0
    (12, 'plug-in', True)
    """
    subjects = _subjects(problems, risk)
    chosen = _methods(methods)
    everyone = _cautions(cautions, subjects, risk)
    budgets = _several("samples", samples, as_count)
    if isinstance(seeds, int | np.integer):
        numbers = list(range(as_count("seeds", seeds, high=MOST_RUNS)))
    else:
        numbers = _several("seeds", seeds, lambda _, one: as_seed(one))
    check_callback(callback)
    limit = np.inf
    if run_timeout_seconds is not None:
        limit = as_number("run_timeout_seconds", run_timeout_seconds, 0.0, open_ends="(")
    checked_executor(executor)
    content = Content(subjects, chosen, as_number("tolerance", tolerance, 0.0))
    retries = as_flag("retry_failed", retry_failed)
    wanted, references = _jobs(content, everyone, budgets, numbers)
    # learners of another version may draw other samples from the same seed
    question: dict[str, Any] = {"tolerance": content.tolerance, "version of cautious": version("cautious")}
    for name, subject in subjects.items():
        question |= {f"problem {name!r}, {part}": value for part, value in subject.question().items()}
    question |= {f"method {name!r}": method_question(method) for name, method in chosen.items()}
    found = run_jobs(
        run,
        content,
        [*wanted, *references],
        executor,
        folder=None if folder is None else ResultFolder(folder, question),
        weight=lambda job: float(job["samples"] or EXACT_WEIGHT),
        failed=failed,
        callback=callback,
        timeout_seconds=limit,
        again=lambda row: retries and bool(row["error"]),
    )
    optima = {(row["problem"], row["caution"]): row for row in found if row is not None and row["method"] == EXACT}
    rows = [_completed(row, optima) for row in found[: len(wanted)] if row is not None]
    return Sweep(tuple(rows), missing=len(wanted) - len(rows))


def _completed(row: Mapping[str, Any], optima: Mapping[tuple[str, float], Mapping[str, Any]]) -> dict[str, Any]:
    """The row as it is shown, with its gap."""
    found = {**row, "gap": gap_of(row, optima.get((row["problem"], row["caution"])))}
    return {name: found[name] for name in COLUMNS}


def _several(name: str, value: Any, checked: Callable[[str, Any], Number]) -> list[Number]:
    """One or several numbers, without repetitions."""
    listed = list(value) if is_listable(value) else [value]
    if not listed:
        raise InputError(f"{name} is empty; expected at least one")
    return list(dict.fromkeys(checked(name, one) for one in listed))


def _subjects(problems: Any, risk: Risk | None) -> dict[str, Subject]:
    """What is swept, by name."""
    if isinstance(problems, Mapping):
        named = {str(name): one for name, one in problems.items()}
    else:
        listed = list(problems) if isinstance(problems, Sequence) and not isinstance(problems, str) else [problems]
        titles = [_title(one) for one in listed]
        unique = len(set(titles)) == len(titles)
        named = {
            title if title and unique else f"problem {number}": one
            for number, (title, one) in enumerate(zip(titles, listed, strict=True), 1)
        }
    if not named:
        raise InputError("problems is empty; expected at least one problem, model or simulator")
    return {name: _subject(name, one, risk) for name, one in named.items()}


def _title(one: Any) -> str:
    mdp = one.mdp if isinstance(one, Problem) else one
    return mdp.scene.title if isinstance(mdp, MDP) and mdp.scene is not None else ""


def _subject(name: str, one: Any, risk: Risk | None) -> Subject:
    if isinstance(one, Problem):
        if risk is not None:
            raise IncompatibleError(f"problem {name!r} has a risk of its own; risk= is for models and simulators")
        return Subject(one, one.mdp.simulator(), one.unbound_risk)
    if isinstance(one, MDP):
        return Subject(Problem(one, risk, 0.0 if risk is None else 1.0), one.simulator(), risk)
    if isinstance(one, Simulator) and not isinstance(one, type):
        return Subject(None, one, risk)
    raise IncompatibleError(
        f"problem {name!r} must be a ca.Problem, a ca.MDP or a simulator, found {type(one).__name__}"
    )


def _methods(given: Any) -> dict[str, str | Method | Learner]:
    """The methods by name."""
    if isinstance(given, Mapping):
        named = {str(name): method for name, method in given.items()}
    else:
        listed = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        named = {}
        for method in listed:
            name = method if isinstance(method, str) else getattr(method, "name", getattr(method, "__name__", ""))
            if not name or name in named:
                raise InputError(f"two methods are called {name!r}; give a mapping from names to methods")
            named[str(name)] = method
    if not named:
        raise InputError(f"methods is empty; the methods are {', '.join(KNOWN_METHODS)}, objects and functions")
    for name, method in named.items():
        if isinstance(method, str) and method not in KNOWN_METHODS:
            raise InputError(
                f"there is no method {shown(method)}{did_you_mean(method, KNOWN_METHODS) or ';'} the methods are "
                f"{', '.join(KNOWN_METHODS)}, objects such as ca.PlugIn(), and functions"
            )
        if not isinstance(method, str | Method) and not callable(method):
            raise InputError(f"method {name!r} must be a name, a method or a function, found {shown(method)}")
        if (name == EXACT) != (isinstance(method, str) and method == EXACT):
            raise InputError(f"method {name!r} is {shown(method)}; {EXACT!r} is ca.solve, by this name only")
    return named


def _cautions(
    given: Iterable[float] | None, subjects: Mapping[str, Subject], risk: Risk | None
) -> dict[str, list[float]]:
    """The cautions of each problem."""
    if given is not None:
        return dict.fromkeys(subjects, _several("cautions", given, lambda name, one: as_number(name, one, 0.0)))
    default = 0.0 if risk is None else 1.0
    return {
        name: [default if subject.problem is None else subject.problem.caution] for name, subject in subjects.items()
    }


def _jobs(
    content: Content, cautions: Mapping[str, Sequence[float]], budgets: Sequence[int], seeds: Sequence[int]
) -> tuple[list[Job], list[Job]]:
    """The runs that are rows, and the exact solves that others are compared with; each is checked before any work."""
    wanted: list[Job] = []
    references: list[Job] = []
    for name, subject in content.subjects.items():
        for caution in cautions[name]:
            exact = {"problem": name, "method": EXACT, "caution": caution, "samples": 0, "seed": 0}
            if subject.problem is not None:
                # a caution that the problem does not take is refused now
                _ = subject.problem.with_caution(caution)
                references += [] if EXACT in content.methods else [exact]
            for title, method in content.methods.items():
                _refuse(name, subject, title, method)
                if isinstance(method, str) and method == EXACT:
                    wanted.append(exact)
                    continue
                if isinstance(method, str | Method):
                    checked_task(subject.simulator, subject.risk, caution, min(budgets), min(seeds))
                wanted += [
                    {"problem": name, "method": title, "caution": caution, "samples": n, "seed": seed}
                    for n, seed in product(budgets, seeds)
                ]
    if len(wanted) > MOST_RUNS:
        raise InputError(f"these are {len(wanted):,} runs; at most {MOST_RUNS:,} are done at once")
    return wanted, references


def _refuse(name: str, subject: Subject, title: str, method: str | Method | Learner) -> None:
    problem = subject.problem
    is_exact = isinstance(method, str) and method == EXACT
    if problem is None and (is_exact or not isinstance(method, str | Method)):
        why = "solves a known model" if is_exact else "is a function, whose policies are judged in a known model"
        raise IncompatibleError(f"problem {name!r} is a simulator, and method {title!r} {why}")
    if is_exact or problem is None:
        return
    if problem.mdp.horizon is not None or problem.constraints:
        has = "constraints" if problem.constraints else f"the horizon {problem.mdp.horizon!r}"
        raise IncompatibleError(
            f"problem {name!r} has {has}, and method {title!r} learns discounted returns without constraints only"
        )
