"""Algorithm 2 from samples: the variance by rounds of a projection and a run of Algorithm 1.

Round k: mu is the projection of  d + (c/M)(2<d, r> r - R)  on the simplex, then Algorithm 1 maximises Phi(., mu). The
moments r and R of the rewards are not known here: they are estimated per pair from the samples drawn so far, beginning
with a few of every pair. Rewards are rescaled to [0, 1], so the caution of a variance counts as c * (high - low). The
constants of Algorithm 1 grow with the coupling M, so this is slow by nature; ``block_ascent`` solves both blocks
exactly where the model is known.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_count, as_number
from cautious.errors import IncompatibleError, InputError, shown
from cautious.learning.draws import Draws
from cautious.learning.method import Method, Point, Result, Run
from cautious.learning.printed.algorithm_1 import AlgorithmOne, AlgorithmOneRun, mean_rewards, reward_scale
from cautious.learning.printed.block_ascent import Output
from cautious.learning.printed.gradient_bounds import bounded
from cautious.learning.printed.variance_surrogate import COUPLING_SHARE, Surrogate, simplex_gradient
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.task import Task
from cautious.occupancy import occupancy_policy, uniform_policy
from cautious.risks.scalar import Variance
from cautious.storage import part_of

FIRST_SHARE = 0.05
FIRST_PIECE = 20_000
COLUMNS = ("phi", "objective", "stationarity in mu")


@dataclass(frozen=True)
class AlgorithmTwo(Method):
    """The paper's Algorithm 2, for ``ca.Variance()`` on its own.

    ``coupling``: the paper's M in units of return, by default caution * range^2 * pairs / 32. ``rounds``: its K; the
    samples are shared equally. ``output``: the round with the "best" objective, or a "random" one as printed.
    ``inner``: the settings of Algorithm 1.

    Examples
    --------
    >>> import cautious as ca
    >>> river = ca.worlds.river_swim().simulator()
    >>> learned = ca.learn(river, ca.Variance(), caution=0.5, samples=20_000, method=ca.AlgorithmTwo(rounds=3))
    >>> learned.status.name
    'ESTIMATED'
    """

    coupling: float | None = None
    rounds: int = 10
    output: Output = "best"
    inner: AlgorithmOne = field(default_factory=AlgorithmOne)
    name = "paper"

    def __post_init__(self) -> None:
        if self.coupling is not None:
            as_number("AlgorithmTwo.coupling", self.coupling, 0.0, open_ends="(")
        as_count("AlgorithmTwo.rounds", self.rounds)
        if self.output not in ("best", "random"):
            raise InputError(f'AlgorithmTwo.output is {shown(self.output)}; it must be "best" or "random"')
        if not isinstance(self.inner, AlgorithmOne):
            raise IncompatibleError(f"AlgorithmTwo.inner must be a ca.AlgorithmOne, found {type(self.inner).__name__}")

    def refusal(self, task: Task) -> str | None:
        """Needs the variance on its own."""
        if len(task.weighted) == 1 and isinstance(task.weighted[0][1], Variance):
            return None
        return f'Algorithm 2 is for Variance on its own, found {task.risk_label}; method="plug-in" takes any risk'

    def begin(self, task: Task, draws: Draws, samples: int) -> "AlgorithmTwoRun":
        """A run that draws every pair a few times, then goes through the rounds."""
        return AlgorithmTwoRun(self, task, draws, samples)


class AlgorithmTwoRun(Run):
    """``record``: one row per finished round, see ``COLUMNS``, in the simulator's units; ``d`` and ``multipliers`` are
    those of the round that would be delivered now.
    """

    stored_numbers = ("drawn", "done")
    stored_arrays = ("moments", "d", "previous", "multipliers", "record")

    def __init__(self, method: AlgorithmTwo, task: Task, draws: Draws, samples: int) -> None:
        self.method, self.task, self.draws, self.samples = method, task, draws, samples
        self.low, self.width = reward_scale(task)
        ((self.weight, _),) = task.weighted
        self.caution = self.weight * self.width
        given = method.coupling
        if given is None:
            given = self.weight * self.width**2 * task.pairs * COUPLING_SHARE
        self.coupling = given / self.width
        first = max(1, int(FIRST_SHARE * samples / task.pairs)) * task.pairs
        self.first = min(first, samples)
        self.rounds = min(method.rounds, samples - self.first)
        picked = draws.rng().integers(max(1, self.rounds))
        self.picked = int(picked) if method.output == "random" else None
        self.moments, self.drawn = np.zeros((3, task.allowed.size)), 0
        self.d: Array = task.allowed / task.pairs
        self.previous = self.d
        self.multipliers = np.full(task.shape[0], self.low / (1 - task.discount))
        self.record = np.zeros((0, len(COLUMNS)))
        self.inner: AlgorithmOneRun | None = None
        self.mu = self.d

    def advance(self) -> None:
        """A piece of the first draws, or of a round."""
        if self.drawn < self.first:
            self._draw_every_pair()
        else:
            inner = self._open_round() if self.inner is None else self.inner
            inner.advance()
            if inner.done:
                self._close_round(inner)
        self.done = self.drawn >= self.first and len(self.record) >= self.rounds

    def _draw_every_pair(self) -> None:
        places = np.flatnonzero(self.task.allowed)
        end = min(self.first, self.drawn + FIRST_PIECE)
        places = places[np.arange(self.drawn, end) % places.size]
        states, actions = np.divmod(places, self.task.shape[1])
        _, rewards = self.draws.sample(states, actions)
        scaled = (rewards - self.low) / self.width
        powers = (np.ones_like(scaled), scaled, scaled**2)
        self.moments = self.moments + [np.bincount(places, power, self.moments.shape[1]) for power in powers]
        self.drawn = end

    def _open_round(self) -> AlgorithmOneRun:
        left = self.samples - self.first
        k = len(self.record)
        share = left * (k + 1) // self.rounds - left * k // self.rounds
        surrogate, method = self._surrogate(), self.method.inner
        self.mu = surrogate.best_mu(self.previous)
        terms = [bounded(w, risk, self.task.allowed, method.limits) for w, risk in surrogate.terms(self.mu)]
        self.inner = AlgorithmOneRun(method, self.task, self.draws, terms, share)
        return self.inner

    def _close_round(self, inner: AlgorithmOneRun) -> None:
        self.moments = self.moments + inner.moments
        self.previous, surrogate, k = inner.occupancy, self._surrogate(), len(self.record)
        phi = self.width * surrogate.value(self.previous, self.mu) + self.low / (1 - self.task.discount)
        gradient = self.width * surrogate.gradient_in_mu(self.previous, self.mu)
        still = float(np.sum(simplex_gradient(gradient, self.mu, self.task.allowed) ** 2))
        objective = self._worth(self.previous)[0]
        chosen = objective > self.record[:, 1].max(initial=-np.inf) if self.picked is None else k <= self.picked
        if chosen:
            self.d, self.multipliers = self.previous, inner.multipliers
        self.record = np.vstack([self.record, [phi, objective, still]])
        self.inner = None

    def _surrogate(self) -> Surrogate:
        """Phi with the moments as estimated now, for rewards in [0, 1]."""
        reward, square = mean_rewards(self.moments, self.task.shape)
        return Surrogate(reward, square, self.task.allowed, self.caution, self.coupling, self.task.discount)

    def _worth(self, d: Array) -> tuple[float, float, float]:
        """Objective, variance and mean reward of an occupancy by the estimated moments, in the simulator's units."""
        surrogate = self._surrogate()
        mean = float(np.sum(d * surrogate.reward))
        variance = self.width**2 * (float(np.sum(d * surrogate.square)) - mean**2)
        average = self.low + self.width * mean
        return average / (1 - self.task.discount) - self.weight * variance, variance, average

    def point(self) -> Point:
        """The latest average by the estimated moments; its violation of the flow needs the model and is not known."""
        d = self.previous if self.inner is None else self.inner.occupancy
        objective, variance, _ = self._worth(d)
        return Point(self.draws.used, objective, self.weight * variance / self.task.caution)

    def result(self) -> Result:
        """The policy of the chosen round.

        The payoff is r - (1 - gamma) c E[(r - m)^2] by the estimated moments, m the mean reward of that round.
        """
        surrogate, average = self._surrogate(), self._worth(self.d)[2]
        mean = (average - self.low) / self.width
        spread = surrogate.square - 2 * mean * surrogate.reward + mean**2
        paid = surrogate.reward - (1 - self.task.discount) * self.caution * spread
        return Result(
            policy=occupancy_policy(self.d, uniform_policy(self.task.allowed)),
            occupancy=self.d / self.d.sum(),
            multipliers=self.multipliers,
            payoff=self.low + self.width * paid,
            scalars=(average,),
            optimum_below=sure_bound(self.task),
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        return {
            "algorithm": "Algorithm 2, corrected",
            "rounds": len(self.record),
            "samples per round": (self.samples - self.first) // max(1, self.rounds),
            "moments of the rewards": f"estimated per pair from the samples, the first {self.first} of them equally",
            "M, in units of return": self.coupling * self.width,
            "sigma, for rewards in [0, 1]": (1 - self.task.discount) * (2 + self.coupling / self.caution),
            "delta": self.method.inner.exploration,
            **{f"{name} of every round": [float(x) for x in self.record[:, i]] for i, name in enumerate(COLUMNS)},
        }

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also those of the round that is going on."""
        header, arrays = super().storage()
        if self.inner is None:
            return header | {"inner": None}, arrays
        inner_header, inner_arrays = self.inner.storage()
        return header | {"inner": inner_header}, arrays | {f"inner.{key}": a for key, a in inner_arrays.items()}

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also those of the round that is going on."""
        super().restore(header, arrays)
        if header["inner"] is not None:
            self._open_round().restore(header["inner"], part_of(arrays, "inner."))
