"""Algorithm 1 as printed: one sample, one step of the multipliers, one multiplicative step of the whole occupancy.

It is here to be studied and compared, with the steps, shifts and constants of Theorem 1. For results take another
method: with these constants 1e7 samples leave an error of tens of per cent on a 10x10 grid.

Inside, rewards are rescaled to [0, 1] as the theory wants them, so a caution c counts as c / (high - low); everything a
person sees is in the simulator's own units. Where pairs do not exist, |S||A| is the number of pairs that do. The start
distribution xi is the simulator's. A table simulator and the usual risks run compiled; anything else runs through the
readable loop of ``algorithm_1_reference``, one call of the simulator per iteration, which is slow. Both loops follow
the same random numbers.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cautious._core import algorithm_1 as kernel
from cautious._core import sampling
from cautious.arrays import Array, Indices
from cautious.checks import as_number
from cautious.errors import InputError, shown
from cautious.learning.draws import Draws
from cautious.learning.method import Method, Point, Result, Run
from cautious.learning.printed.algorithm_1_reference import Constants, Iterate, iterate
from cautious.learning.printed.gradient_bounds import BoundedTerm, GradientLimits, PackedTerms, bounded, packed, refusal
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.task import Task
from cautious.models.simulators import TableSimulator
from cautious.occupancy import occupancy_policy, uniform_policy

Setting = float | Literal["theory"]

# state-action pairs updated per piece of work, about 0.2 seconds; a fixed number, so that pieces do not depend on the
# machine's speed. A row of a risk's data costs as much as ROW_COST updates
PIECE_UPDATES = 60_000_000
ROW_COST = 6
READABLE_STEPS = 20


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
                raise InputError(f'AlgorithmOne.{setting} is {shown(given)}; it must be "theory" or a number')
            if not isinstance(given, str):
                as_number(f"AlgorithmOne.{setting}", given, 0.0, open_ends="(" if setting.endswith("step") else "")
        as_number("AlgorithmOne.exploration", self.exploration, 0.0, 0.5, open_ends="()")
        as_number("AlgorithmOne.prior_mixing", self.prior_mixing, 0.0, 1.0)
        as_number("AlgorithmOne.barrier_floor", self.barrier_floor, 0.0, open_ends="(")
        as_number("AlgorithmOne.occupancy_floor", self.occupancy_floor, 0.0, 1.0, open_ends="()")
        if self.gradient_bound is not None:
            as_number("AlgorithmOne.gradient_bound", self.gradient_bound, 0.0, open_ends="(")

    @property
    def limits(self) -> GradientLimits:
        """What bounds the gradients."""
        return GradientLimits(self.occupancy_floor, self.barrier_floor, self.prior_mixing, self.gradient_bound)

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
        return AlgorithmOneRun(self, task, draws, terms, samples)

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


def reward_scale(task: Task) -> tuple[float, float]:
    """(low, width): a reward r counts as (r - low) / width inside."""
    low, high = task.reward_range
    return low, (high - low) or 1.0


def mean_rewards(moments: Array, shape: tuple[int, int]) -> tuple[Array, Array]:
    """Means (S, A) of the rewards and of their squares from ``moments`` (3, S*A); 1/2 where there was no sample."""
    tried, paid, squares = moments
    reward, square = (np.where(tried > 0, total / np.maximum(tried, 1), 0.5) for total in (paid, squares))
    return np.asarray(reward.reshape(shape)), np.asarray(square.reshape(shape))


class AlgorithmOneRun(Run):
    """The iterations and everything they change; what is delivered is read off the averages.

    ``terms``: their weights are those of the problem with rewards in [0, 1]. ``log_lam`` (S, A), ``v`` (S,); ``d_sum``,
    ``v_sum`` sums of what came before; ``moments`` (3, S*A) number, sum and sum of squares of the rewards seen, in
    [0, 1]; ``count`` iterations done; ``longest`` the most iterations of a piece of work.
    """

    stored_numbers = ("count",)
    stored_arrays = ("log_lam", "v", "d_sum", "v_sum", "moments")

    def __init__(
        self, method: AlgorithmOne, task: Task, draws: Draws, terms: Sequence[BoundedTerm], samples: int
    ) -> None:
        self.method, self.task, self.draws, self.terms = method, task, draws, terms
        self.low, self.width = reward_scale(task)
        self.constants = method.constants(task, terms, samples)
        n_states, size = task.shape[0], task.allowed.size
        rest = 1 - task.discount
        with np.errstate(divide="ignore"):
            self.log_lam: Array = np.log(task.allowed / (task.pairs * rest))
        self.v, self.v_sum = np.zeros(n_states), np.zeros(n_states)
        self.d_sum, self.moments, self.count = np.zeros(task.shape), np.zeros((3, size)), 0
        self.compiled = packed(terms, rest, size, method.occupancy_floor)
        self.longest = samples
        self.done = samples == 0

    @property
    def rewards(self) -> Array:
        """Mean reward of each pair in the samples (S, A), in the simulator's units."""
        return self.low + self.width * mean_rewards(self.moments, self.task.shape)[0]

    @property
    def occupancy(self) -> Array:
        """The average of (1-gamma) lam; the first iterate before the first step."""
        if self.count == 0:
            return self.task.allowed / self.task.pairs
        return np.asarray(self.d_sum / self.count)

    @property
    def multipliers(self) -> Array:
        """The average of v in the simulator's units: the constant part of the rewards is put back."""
        return self.width * self.v_sum / max(self.count, 1) + self.low / (1 - self.task.discount)

    def look_every(self, samples: int) -> None:
        """An iteration draws one sample."""
        self.longest = samples

    def advance(self) -> None:
        """The next iterations."""
        left = min(self.longest, self.constants.horizon - self.count)
        table = self.draws.table
        if table is not None and self.compiled is not None:
            rows = self.compiled[4].shape[0]
            steps = min(left, max(1, PIECE_UPDATES // (self.task.allowed.size * (1 + ROW_COST * rows))))
            self._compiled_steps(table, self.compiled, steps)
        else:
            steps = min(left, READABLE_STEPS)
            self._readable_steps(table, steps)
        self.count += steps
        self.done = self.count >= self.constants.horizon

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """As ``Run.restore``."""
        super().restore(header, arrays)
        self.done = self.count >= self.constants.horizon

    def _compiled_steps(self, table: TableSimulator, risk: PackedTerms, steps: int) -> None:
        k = self.constants
        self.draws.count(steps)
        seed = self.draws.kernel_seed()
        model = (*table.sums, table.pay, table.pays_per_outcome, table.running_start, self.task.allowed.ravel())
        constants = (self.low, self.width, k.gamma, k.alpha, k.beta, k.m1, k.m2, k.delta, k.box)
        state = (self.log_lam, self.v, self.d_sum, self.v_sum, self.moments)
        kernel.run(steps, seed, *model, *constants, *risk, *state)

    def _readable_steps(self, table: TableSimulator | None, steps: int) -> None:
        now, drawn = Iterate(self.log_lam, self.v, self.d_sum, self.v_sum), list[tuple[int, int, float]]()
        if table is None:
            picks, starts, outcome = _simulator_draws(self.draws, steps)
        else:
            picks, starts, outcome = _table_draws(self.draws, table, steps)
        for t in range(steps):

            def generate(s: int, a: int, t: int = t) -> tuple[int, float]:
                s_next, reward = outcome(t, s, a)
                return s_next, (reward - self.low) / self.width

            pick, s_bar = float(picks[t]), int(starts[t])
            now, seen = iterate(now, self.task.allowed, self.constants, self.risk_slope, pick, s_bar, generate)
            drawn.append(seen)
        self.log_lam, self.v, self.d_sum, self.v_sum = now.log_lam, now.v, now.d_sum, now.v_sum
        for s, a, r_hat in drawn:
            self.moments[:, s * self.task.shape[1] + a] += (1.0, r_hat, r_hat**2)

    def risk_slope(self, d: Array) -> Array:
        """c times the subgradient of rho in lam, at an occupancy (S, A)."""
        slope = np.zeros_like(d)
        for term in self.terms:
            slope += (1 - self.task.discount) * term.weight * np.asarray(term.gradient(d))
        return slope

    def point(self) -> Point:
        """The objective of the average, rewards as seen; its violation of the flow needs the model and is not known."""
        d = self.occupancy
        expected = float(np.sum(d * self.rewards)) / (1 - self.task.discount)
        penalty = sum(self.width * term.weight * term.risk.value(d) for term in self.terms)
        risk = penalty / self.task.caution if self.terms else 0.0
        return Point(self.draws.used, expected - penalty, risk)

    def result(self) -> Result:
        """The policy read off the averaged occupancy, uniform in states without mass."""
        d = self.occupancy
        return Result(
            policy=occupancy_policy(d, uniform_policy(self.task.allowed)),
            occupancy=d / d.sum(),
            multipliers=self.multipliers,
            payoff=self.rewards,
            optimum_below=sure_bound(self.task),
            facts=self._facts(),
        )

    def _facts(self) -> dict[str, Any]:
        """The constants, for rewards in [0, 1] unless the name says otherwise."""
        k, caution = self.constants, self.task.caution / self.width
        bound = self.width * self.method.theorem_bound(k)
        return {
            "algorithm": "Algorithm 1 as printed",
            "compiled": self.draws.table is not None and self.compiled is not None,
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
            "pairs never tried": int(np.sum((self.moments[0] == 0) & np.ravel(self.task.allowed))),
        }


# what picks the pair of every step (n,), its start state (n,), and the outcome of step t for a pair: (t, s, a)
StepDraws = tuple[Array, Indices, Callable[[int, int, int], tuple[int, float]]]


def _table_draws(draws: Draws, table: TableSimulator, steps: int) -> StepDraws:
    """The draws that the kernel would make from the same seed."""
    draws.count(steps)
    uniforms = np.empty((steps, 3))
    sampling.uniforms(draws.kernel_seed(), uniforms)
    running = table.running_start
    starts = np.minimum(np.searchsorted(running, uniforms[:, 1] * running[-1], side="right"), running.size - 1)

    def outcome(t: int, s: int, a: int) -> tuple[int, float]:
        row = np.array([s * table.n_actions + a])
        place = sampling.draw_successors(*table.sums, row, uniforms[t, 2:])
        paid = table.pay[place] if table.pays_per_outcome else table.pay[row]
        return int(table.rows.indices[place[0]]), float(paid[0])

    return uniforms[:, 0], starts, outcome


def _simulator_draws(draws: Draws, steps: int) -> StepDraws:
    """A simulator called for one pair at a time."""
    picks, starts = draws.rng().random(steps), draws.start_states(steps)

    def outcome(t: int, s: int, a: int) -> tuple[int, float]:
        next_states, rewards = draws.sample(np.array([s]), np.array([a]))
        return int(next_states[0]), float(rewards[0])

    return picks, starts, outcome
