"""Algorithm 1 as printed: one sample, one step of the multipliers, one multiplicative step of the whole occupancy.

It is here to be studied and compared, with the steps, shifts and constants of Theorem 1. For results take another
method: with these constants 1e7 samples leave an error of tens of per cent on a 10x10 grid.

Inside, rewards are rescaled to [0, 1] as the theory wants them, so a caution c counts as c / (high - low); everything a
person sees is in the simulator's own units. Where pairs do not exist, |S||A| is the number of pairs that do. The start
distribution xi is the simulator's. A table simulator and the usual risks run compiled; anything else runs through the
readable loop of ``algorithm_1_reference``, one call of the simulator per iteration, which is slow.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cautious.checks import as_number
from cautious.errors import InputError
from cautious.learning.draws import Draws
from cautious.learning.method import Method, Point, Result, Run
from cautious.learning.printed.algorithm_1_reference import Constants
from cautious.learning.printed.algorithm_1_state import Saddle, reward_scale
from cautious.learning.printed.gradient_bounds import BoundedTerm, Limits, bounded, refusal
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.task import Task
from cautious.occupancy import occupancy_policy, uniform_policy

Setting = float | Literal["theory"]


@dataclass(frozen=True)
class AlgorithmOne(Method):
    """The paper's Algorithm 1.

    ``multiplier_step`` (alpha), ``occupancy_step`` (beta), ``shift_reward`` (M1) and ``shift_risk`` (M2) are numbers
    for rewards in [0, 1], or "theory" for Theorem 1's. ``exploration`` (delta) in (0, 0.5). ``prior_mixing``: how much
    of the uniform law is mixed into the prior of a KL. ``barrier_floor``, ``occupancy_floor`` and ``gradient_bound``
    keep gradients bounded: see ``gradient_bounds``.

    Examples
    --------
    >>> import cautious as ca
    >>> river = ca.worlds.river_swim().simulator()
    >>> ca.learn(river, samples=20_000, method=ca.AlgorithmOne(exploration=0.1)).method
    'paper'
    """

    multiplier_step: Setting = "theory"
    occupancy_step: Setting = "theory"
    shift_reward: Setting = "theory"
    shift_risk: Setting = "theory"
    exploration: float = 0.25
    prior_mixing: float = 0.0
    barrier_floor: float = 0.01
    occupancy_floor: float = 1e-15
    gradient_bound: float | None = None
    name = "paper"

    def __post_init__(self) -> None:
        for setting in ("multiplier_step", "occupancy_step", "shift_reward", "shift_risk"):
            given = getattr(self, setting)
            if isinstance(given, str) and given != "theory":
                raise InputError(f'AlgorithmOne.{setting} is {given!r}; it must be "theory" or a number')
            if not isinstance(given, str):
                as_number(f"AlgorithmOne.{setting}", given, 0.0, open_ends="(" if setting.endswith("step") else "")
        as_number("AlgorithmOne.exploration", self.exploration, 0.0, 0.5, open_ends="()")
        as_number("AlgorithmOne.prior_mixing", self.prior_mixing, 0.0, 1.0)
        as_number("AlgorithmOne.barrier_floor", self.barrier_floor, 0.0, open_ends="(")
        as_number("AlgorithmOne.occupancy_floor", self.occupancy_floor, 0.0, 1.0, open_ends="()")
        if self.gradient_bound is not None:
            as_number("AlgorithmOne.gradient_bound", self.gradient_bound, 0.0, open_ends="(")

    @property
    def limits(self) -> Limits:
        """What bounds the gradients."""
        return Limits(self.occupancy_floor, self.barrier_floor, self.prior_mixing, self.gradient_bound)

    def refusal(self, task: Task) -> str | None:
        """Needs convex risks with bounded gradients."""
        if task.scalars:
            label = task.scalars[0][1].label
            return (
                f"{label} is not convex; the paper covers Variance on its own, by Algorithm 2. "
                f'method="plug-in" takes {label}, alone or in a sum'
            )
        reasons = (refusal(risk, task.allowed, self.limits) for _, risk in task.problem.terms)
        return next((reason for reason in reasons if reason is not None), None)

    def begin(self, task: Task, draws: Draws, samples: int) -> "AlgorithmOneRun":
        """A run of ``samples`` iterations."""
        _, width = reward_scale(task)
        terms = [bounded(weight / width, risk, task.allowed, self.limits) for weight, risk in task.problem.terms]
        return AlgorithmOneRun(self, task, self.saddle(task, draws, terms, samples))

    def saddle(self, task: Task, draws: Draws, terms: Sequence[BoundedTerm], samples: int) -> Saddle:
        """The loop for given terms, their weights those of the problem with rewards in [0, 1]."""
        return Saddle(task, draws, terms, self.constants(task, terms, samples), self.occupancy_floor)

    def constants(self, task: Task, terms: Sequence[BoundedTerm], horizon: int) -> Constants:
        """Theorem 1's, where nothing else is asked for."""
        gamma, pairs, n_states = task.discount, task.pairs, task.shape[0]
        c_sigma = (1 - gamma) * sum(term.weight * term.bound for term in terms)
        alpha = np.sqrt(n_states / horizon) * (1 + c_sigma)
        # a single pair has nothing to learn, but its logarithm must not stop the step
        beta = (1 - gamma) / (1 + c_sigma) * np.sqrt(np.log(max(pairs, 2)) / (horizon * pairs))
        return Constants(
            gamma=gamma,
            n_states=n_states,
            pairs=pairs,
            horizon=horizon,
            c_sigma=c_sigma,
            alpha=_chosen(self.multiplier_step, float(alpha)),
            beta=_chosen(self.occupancy_step, float(beta)),
            m1=_chosen(self.shift_reward, 4 * (1 + c_sigma) / (1 - gamma)),
            m2=_chosen(self.shift_risk, c_sigma),
            delta=self.exploration,
        )

    def theorem_bound(self, constants: Constants) -> float:
        """Theorem 1's bound on the expected duality gap, for rewards in [0, 1]; infinite without its shifts."""
        covered = self.shift_reward == "theory" and self.shift_risk == "theory"
        return constants.bound if covered else np.inf


def _chosen(setting: Setting, theory: float) -> float:
    return theory if isinstance(setting, str) else float(setting)


class AlgorithmOneRun(Run):
    """Chunks of iterations; what is delivered is read off the averages."""

    def __init__(self, method: AlgorithmOne, task: Task, saddle: Saddle) -> None:
        self.method, self.task, self.saddle, self.done = method, task, saddle, saddle.done

    def advance(self) -> None:
        """The next iterations."""
        self.saddle.advance()
        self.done = self.saddle.done

    def look_every(self, samples: int) -> None:
        """An iteration draws one sample."""
        self.saddle.longest = samples

    def point(self) -> Point:
        """The objective of the average, rewards as seen; its violation of the flow needs the model and is not known."""
        low, width = reward_scale(self.task)
        d, saddle = self.saddle.occupancy, self.saddle
        expected = float(np.sum(d * (low + width * saddle.rewards))) / (1 - self.task.discount)
        penalty = sum(width * term.weight * term.risk.value(d) for term in saddle.terms)
        risk = penalty / self.task.caution if saddle.terms else 0.0
        return Point(saddle.draws.used, expected - penalty, risk)

    def result(self) -> Result:
        """The policy read off the averaged occupancy, uniform in states without mass."""
        low, width = reward_scale(self.task)
        d = self.saddle.occupancy
        return Result(
            policy=occupancy_policy(d, uniform_policy(self.task.allowed)),
            occupancy=d / d.sum(),
            multipliers=self.saddle.multipliers,
            payoff=low + width * self.saddle.rewards,
            optimum_below=sure_bound(self.task),
            facts=self._facts(width),
        )

    def _facts(self, width: float) -> dict[str, Any]:
        """The constants, for rewards in [0, 1] unless the name says otherwise."""
        k = self.saddle.constants
        caution = self.task.caution / width
        bound = width * self.method.theorem_bound(k)
        return {
            "algorithm": "Algorithm 1 as printed",
            "compiled": self.saddle.draws.table is not None and self.saddle.compiled is not None,
            "T": k.horizon,
            "alpha": k.alpha,
            "beta": k.beta,
            "M1": k.m1,
            "M2": k.m2,
            "delta": k.delta,
            "sigma": k.c_sigma / caution if caution > 0 else 0.0,
            "caution times sigma": k.c_sigma,
            "bound on v": k.box,
            "reward range": list(self.task.reward_range),
            "prior_mixing": self.method.prior_mixing,
            "barrier_floor": self.method.barrier_floor,
            "occupancy_floor": self.method.occupancy_floor,
            "theorem bound on the expected duality gap, in units of return": bound if np.isfinite(bound) else None,
            "pairs never tried": int(np.sum((self.saddle.moments[0] == 0) & np.ravel(self.task.allowed))),
        }

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The loop's."""
        return self.saddle.storage()

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """The loop's."""
        self.saddle.restore(header, arrays)
        self.done = self.saddle.done
