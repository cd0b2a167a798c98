"""``ca.learn``: a policy from samples alone, and what can be said about it."""

import os
from collections.abc import Mapping
from concurrent.futures import Executor

from threadpoolctl import threadpool_limits

from cautious.checks import as_flag, as_number, check_callback
from cautious.errors import IncompatibleError, InputError, shown
from cautious.learning.learned_solution import learned_solution
from cautious.learning.loop import LearningCallback, Loop
from cautious.learning.method import Method
from cautious.learning.plug_in.from_log import learn_from_log
from cautious.learning.plug_in.plug_in import PlugIn
from cautious.learning.primal_dual.primal_dual import PrimalDual
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.learning.printed.algorithm_2 import AlgorithmTwo
from cautious.learning.return_risks import has_return_risk, learn_return_risk
from cautious.learning.task import Task, make_task
from cautious.models.logged import LoggedMDP
from cautious.models.simulators import Simulator
from cautious.models.tabular import MDP
from cautious.risks.base import Risk
from cautious.runtime.executors import checked_executor
from cautious.solution import Solution

DEFAULT_SAMPLES = 1_000_000
# by name: the first one that takes the task, and if none does, the refusal of the last one is reported
METHODS: Mapping[str, tuple[Method, ...]] = {
    "auto": (PlugIn(), PrimalDual()),
    "plug-in": (PlugIn(),),
    "primal-dual": (PrimalDual(),),
    "paper": (AlgorithmTwo(), AlgorithmOne()),
}


def learn(
    simulator: Simulator | LoggedMDP,
    risk: Risk | None = None,
    caution: float = 0.0,
    samples: int = DEFAULT_SAMPLES,
    method: str | Method = "auto",
    seed: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    callback: LearningCallback | None = None,
    executor: Executor | None = None,
    *,
    robust: bool = True,
    checkpoint_seconds: float = 60.0,
    call_timeout_seconds: float | None = None,
) -> Solution:
    """Learn a policy by drawing transitions from a simulator.

    Parameters
    ----------
    simulator
        Anything with the members of ``ca.Simulator``; ``mdp.simulator()`` for a known model. From the model of a log
        (``ca.from_transitions``) nothing is drawn: its rows are the samples, and of the
        parameters below only risk, caution, ``seed`` and ``robust`` are used.
    risk, caution
        As in ``ca.Problem``.
    samples
        Transitions that may be drawn; never exceeded. A part of them tries the final policy: up to two fifths with
        "plug-in", a tenth with other methods.
    method
        "plug-in" counts transitions and solves the counted model; "primal-dual" keeps only tables (S, A); "paper" is
        Algorithm 1 as printed, or Algorithm 2 for ``Variance``; "auto" takes plug-in while the counts fit in memory.
        An object such as ``ca.AlgorithmOne(...)`` sets the method's own choices.
    seed
        Same seed, same bytes, whatever the executor.
    checkpoint
        A file. It is written every ``checkpoint_seconds``, also between the draws of a slow simulator; when it exists,
        the run continues where it stopped.
    callback
        Called with a ``LearningProgress`` after every batch of draws; returning True stops the run.
    executor
        Where to draw, in tasks of about half a second; any ``concurrent.futures.Executor``. A task that raises or hangs
        is tried once more, one that loses its worker twice; it counts once.
    robust
        For logs: take the policy about which the rows prove most, which avoids pairs that were rarely tried. False
        takes the best policy of the counted model.
    call_timeout_seconds
        A draw that takes longer ends the run with an error. Where one call asks for several draws (see
        ``draws_per_seed`` of a simulator) it has that much longer. By default 600 on an executor; without one there is
        no limit, and the simulator is called in the thread of the caller. With a limit it is called in another one,
        because a call that hangs could not be given up otherwise.

    Returns
    -------
    Solution
        Its certificate is of kind "estimated": the statement holds with probability 95 %.

    Examples
    --------
    >>> import cautious as ca
    >>> simulator = ca.worlds.river_swim().simulator()
    >>> learned = ca.learn(simulator, ca.Variance(), caution=2.0, samples=20_000)
    >>> learned.certificate.kind, learned.certificate.facts["samples"] <= 20_000
    ('estimated', True)
    """
    robust = as_flag("robust", robust)
    if isinstance(simulator, LoggedMDP):
        for name, given, default in (
            ("samples", samples, DEFAULT_SAMPLES),
            ("method", None if isinstance(method, str) and method == "plug-in" else method, "auto"),
            ("checkpoint", checkpoint, None),
            ("callback", callback, None),
            ("executor", executor, None),
        ):
            # an array would be compared entry by entry
            if given is not None and not (isinstance(given, int | str) and given == default):
                raise IncompatibleError(f"{name} is for simulators: nothing is drawn from a log; leave it out")
        with threadpool_limits(limits=1):
            return learn_from_log(simulator, risk, caution, seed, robust)
    if not robust:
        raise IncompatibleError("robust is for logs: samples are drawn of every pair of a simulator; leave it out")
    check_callback(callback)
    checked_executor(executor)
    limit = call_timeout_seconds
    if limit is not None:
        limit = as_number("call_timeout_seconds", limit, 0.0, open_ends="(")
    if risk is not None and has_return_risk(risk, caution) and not isinstance(simulator, MDP):
        with threadpool_limits(limits=1):
            return learn_return_risk(
                simulator,
                risk,
                caution,
                samples,
                method,
                seed,
                checkpoint,
                callback,
                executor,
                as_number("checkpoint_seconds", checkpoint_seconds, 0.0),
                limit,
            )
    task = make_task(simulator, risk, caution, samples, seed)
    chosen, why = choose(task, method)
    refusal = chosen.refusal(task)
    if refusal is not None:
        raise IncompatibleError(f"{chosen.name} cannot learn this: {refusal}")
    with threadpool_limits(limits=1):
        loop = Loop(
            task,
            chosen,
            checkpoint,
            checkpoint_seconds=as_number("checkpoint_seconds", checkpoint_seconds, 0.0),
            call_timeout_seconds=limit,
            callback=callback,
            executor=executor,
        )
        return learned_solution(task, chosen, why, loop.run())


def choose(task: Task, method: str | Method) -> tuple[Method, str]:
    """The method, and why."""
    if isinstance(method, Method):
        return method, "asked for"
    if not isinstance(method, str) or method not in METHODS:
        known = ", ".join(METHODS)
        raise InputError(f"method is {shown(method)}; the methods are {known}, or an object such as ca.PlugIn()")
    first, last = METHODS[method][0], METHODS[method][-1]
    refusal = first.refusal(task)
    if method == "auto" and refusal is None:
        return first, "chosen because the counts fit in memory, and counting needs the fewest samples"
    if method == "auto":
        return last, f"chosen because {first.name} cannot: {refusal}"
    return (first if refusal is None else last), "asked for"
