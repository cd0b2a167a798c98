"""Runs of learners with and without a prior, side by side in processes; each leaves a ``LearningCurve``."""

import signal
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import active_children, get_context

from cautious.arrays import Array
from cautious.learning.primal_dual.primal_dual import PrimalDual
from cautious.learning.printed.algorithm_1 import AlgorithmOne
from cautious.models.tabular import MDP
from cautious.paper.prior_curves import LearningCurve, curve_of, worth
from cautious.paper.training import snapshots
from cautious.risks.divergence import KL


def prior_risk(prior: Array, caution: float) -> KL | None:
    """KL to the prior (S, A); without caution there is nothing to mind."""
    return KL(prior) if caution > 0 else None


@dataclass(frozen=True)
class Job:
    """One run of Algorithm 1, looked at every ``every`` of its ``samples`` iterations; caution 0 minds no prior."""

    mdp: MDP
    prior: Array
    caution: float
    method: AlgorithmOne
    samples: int
    every: int
    seed: int


def follow(job: Job) -> LearningCurve:
    """The policies read off the averages of Algorithm 1, as it goes on."""
    marks = range(job.every, job.samples + 1, job.every)
    risk = prior_risk(job.prior, job.caution)
    found = snapshots(job.mdp, risk, job.caution, job.method, job.samples, job.seed, marks)
    return curve_of([one.samples for one in found], [worth(job.mdp, one.policy) for one in found])


def follow_all(jobs: Sequence[Job], workers: int) -> list[LearningCurve]:
    """The curves of all jobs, in their order; the same numbers with any number of ``workers``."""
    if workers == 1:
        return [follow(job) for job in jobs]
    # spawned, because the arithmetic libraries have threads; Ctrl-C is for this process alone
    quiet = (signal.signal, (signal.SIGINT, signal.SIG_IGN))
    others = active_children()
    with ProcessPoolExecutor(workers, get_context("spawn"), *quiet) as pool:
        # not pool.map: it would cancel what waits, and Python 3.11 then stumbles over workers that are gone
        curves = [pool.submit(follow, job) for job in jobs]
        try:
            return [one.result() for one in curves]
        except KeyboardInterrupt:
            # what runs now takes a quarter of a minute, and nobody wants it any more
            for process in active_children():
                if process not in others:
                    process.terminate()
            raise


def budget_curve(mdp: MDP, prior: Array, caution: float, budgets: Sequence[int], seed: int) -> LearningCurve:
    """Our learner, one whole run for each number of samples: its steps shrink, so a run has no earlier self."""
    risk = prior_risk(prior, caution)
    finals = [snapshots(mdp, risk, caution, PrimalDual(), budget, seed, [])[-1] for budget in budgets]
    return curve_of(budgets, [worth(mdp, one.policy) for one in finals])
