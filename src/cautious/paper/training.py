"""Policies as they are while a method learns: what the figures over training show."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from threadpoolctl import threadpool_limits

from cautious.arrays import Array
from cautious.learning.draws import Draws
from cautious.learning.method import Method, Run
from cautious.learning.task import make_task
from cautious.models.tabular import MDP
from cautious.risks.base import Risk


@dataclass(frozen=True)
class Snapshot:
    """After ``samples`` transitions: the policy (S, A) one would take now."""

    samples: int
    policy: Array


def begin(method: Method, mdp: MDP, risk: Risk | None, caution: float, samples: int, seed: int) -> tuple[Run, Draws]:
    """A run of a method on the model's simulator, all samples for learning, and what it draws from."""
    task = make_task(mdp.simulator(), risk, caution, samples, seed)
    draws = Draws(task.simulator, samples, seed)
    return method.begin(task, draws, samples), draws


def snapshots(
    mdp: MDP, risk: Risk | None, caution: float, method: Method, samples: int, seed: int, marks: Sequence[int] = ()
) -> list[Snapshot]:
    """One run of a method on the model's simulator, looked at when each mark is passed and when all samples are used.

    ``marks`` are increasing numbers of transitions. Methods work in pieces, so a snapshot can lie beyond its mark; it
    says how many transitions were drawn.
    """
    with threadpool_limits(limits=1):
        run, draws = begin(method, mdp, risk, caution, samples, seed)
        run.look_every(min([b - a for a, b in pairwise([0, *marks])], default=samples))
        found: list[Snapshot] = []
        waiting = list(marks)
        while not run.done:
            run.advance()
            if run.done or (waiting and draws.used >= waiting[0]):
                found.append(Snapshot(draws.used, run.result().policy))
                waiting = [mark for mark in waiting if mark > draws.used]
    return found
