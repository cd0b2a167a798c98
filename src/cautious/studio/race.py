"""``Race``: the three ways to learn, on the problem of a page, with more and more samples.

Every point is a run of ``ca.learn`` from the beginning with so many samples, because the steps and stages of the
methods depend on how many there are. What the policy is worth is computed in the true model, which no learner sees.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.errors import IncompatibleError, InputError
from cautious.learning.learn import learn
from cautious.learning.loop import LearningProgress
from cautious.occupancy import policy_occupancy
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, TotalVariation
from cautious.status import Status
from cautious.studio.messages import METHODS
from cautious.studio.scenario import Scenario, Statement
from cautious.studio.session import Session

# points for each tenfold number of samples
POINTS_PER_DECADE = 4
# a point stays on the page at least as long as it takes to see it, and a race ends by itself
LEAST_SECONDS_PER_POINT = 0.15
LONGEST_SECONDS = 180.0
SECONDS_BETWEEN_PROGRESS = 0.1

# a head, and arrays by name
Tell = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]


def refusal(statement: Statement) -> str | None:
    """Why a statement cannot be raced; None if it can."""
    if statement.horizon is not None:
        return 'learning is for returns that are discounted for ever; choose "For ever, discounted" to see the race'
    if statement.limits.given:
        return "learning keeps no limits; take the limits away, and make danger dear by a risk and its caution"
    return None


def sample_sizes(pairs: int, samples: int) -> list[int]:
    """Numbers of samples from a few for each pair up to ``samples``, equally spaced on a logarithmic axis."""
    if samples < pairs:
        raise InputError(f"{samples:,} samples do not reach every pair once; there are {pairs:,} pairs")
    count = max(1, round(POINTS_PER_DECADE * np.log10(samples / pairs))) + 1
    return sorted({round(size) for size in np.geomspace(pairs, samples, count).tolist()})


@dataclass
class Race:
    """One race; ``run`` is for a thread of its own, the rest for the others."""

    session: Session
    statement: Statement
    samples: int
    seed: int
    number: int
    tell: Tell
    _going: threading.Event = field(default_factory=threading.Event)
    _stopped: bool = False
    _last_progress: float = 0.0

    def __post_init__(self) -> None:
        self._going.set()

    def control(self, what: str) -> None:
        """Pause, resume or stop."""
        if what == "pause":
            self._going.clear()
            return
        self._stopped = self._stopped or what == "stop"
        self._going.set()

    def run(self) -> str:
        """The whole race, and why it ended: it is "done", or was "stopped", or its "time" is up."""
        reason = refusal(self.statement)
        if reason is not None:
            raise IncompatibleError(reason)
        statement = self.statement
        scenario = self.session.scenario(statement)
        sizes = sample_sizes(int(scenario.mdp.allowed.sum()), self.samples)
        best = self.session.solve(statement, lambda: self._stopped)
        problem = Problem(scenario.mdp, _risk(scenario, statement), statement.caution)
        optimum = best.upper_bound if np.isfinite(best.upper_bound) else best.objective
        proved = best.status is Status.SOLVED
        self._say("start", {"optimum": optimum, "proved": proved, "sizes": sizes, "methods": list(METHODS)})
        left, over = list(METHODS), time.monotonic() + LONGEST_SECONDS
        for size in sizes:
            for method in list(left):
                self._going.wait()
                if self._stopped or time.monotonic() > over:
                    return "stopped" if self._stopped else "time"
                try:
                    self._point(problem, method, size)
                except IncompatibleError as error:
                    left.remove(method)
                    self._say("refused", {"method": method, "why": str(error)})
        return "done"

    def _point(self, problem: Problem, method: str, size: int) -> None:
        began, paused = time.monotonic(), 0.0

        def watch(progress: LearningProgress) -> bool:
            nonlocal paused
            waiting = time.monotonic()
            self._going.wait()
            paused += time.monotonic() - waiting
            if time.monotonic() - self._last_progress > SECONDS_BETWEEN_PROGRESS:
                self._last_progress = time.monotonic()
                self._say("progress", {"method": method, "size": size, "samples": progress.samples})
            return self._stopped

        risk = problem.unbound_risk if problem.caution > 0 else None
        caution = problem.caution if risk is not None else 0.0
        simulator = problem.mdp.simulator()
        learned = learn(simulator, risk, caution, size, method, self.seed, callback=watch)
        if learned.status is Status.STOPPED or self._stopped:
            return
        now = evaluate_policy(problem, learned.policy)
        seconds = time.monotonic() - began - paused
        objective = now.objective if np.isfinite(now.objective) else None
        facts = {"method": method, "size": size, "objective": objective, "seconds": seconds}
        facts |= {"shape": list(learned.policy.shape)}
        time.sleep(max(0.0, LEAST_SECONDS_PER_POINT - seconds))
        arrays = {"policy": learned.policy, "occupancy": now.occupancy.occupancy}
        self._say("point", facts, {name: one.astype("<f4").ravel() for name, one in arrays.items()})

    def _say(self, event: str, facts: dict[str, Any], arrays: dict[str, NDArray[Any]] | None = None) -> None:
        self.tell(self.words(event, facts), arrays or {})

    def words(self, event: str, facts: dict[str, Any]) -> dict[str, Any]:
        """The head of a message to the page."""
        return {"type": "race", "number": self.number, "event": event} | facts


def _risk(scenario: Scenario, statement: Statement) -> Risk | None:
    """The risk of a statement; habits as an occupancy, since learners do not know what a policy does in the model."""
    choice = statement.risk
    if choice.kind not in ("kl", "tv"):
        return scenario.risk(choice)
    prior = policy_occupancy(scenario.mdp, scenario.habit(choice.habit)).occupancy
    return KL(prior) if choice.kind == "kl" else TotalVariation(prior)
