"""Plug-in learning: count transitions, solve the counted model exactly.

Samples are drawn in stages: evenly over all pairs, then where a better estimate changes the policy most. The final
policy is the best one of the counted model, and all counts prove what no policy exceeds (``optimum_bound``).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import psutil

from cautious.arrays import Array, Indices
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.checks import as_flag, states_of
from cautious.errors import IncompatibleError
from cautious.learning.draws import Draws
from cautious.learning.exact_solves import best_outcome
from cautious.learning.method import NAN, Method, Point, Result, Run
from cautious.learning.plug_in.transition_counts import (
    BYTES_PER_TRIPLE,
    Counts,
    counted_mdp,
    draw_table_piece,
    next_moments,
    pair_batches,
    shared_sizes,
    uniform_sizes,
)
from cautious.learning.scalar_risk_rewards import Payoff, scalars_of
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.statements.confidence import CONFIDENCE
from cautious.learning.statements.optimum_bound import optimum_below
from cautious.learning.statements.worst_case import stress_facts, worst_case_of_counts
from cautious.learning.task import Task, start_distribution
from cautious.occupancy import uniform_policy
from cautious.problem import Problem
from cautious.risks.scalar import CVaR
from cautious.solution import Solution
from cautious.solvers.base import Start
from cautious.solvers.build_solution import build_solution
from cautious.solvers.findings import findings

ROUGH_TOLERANCE = 1e-3
FINAL_TOLERANCE = 1e-6
# the share of the samples before the last stage; its part drawn evenly over all pairs; the share of directed draws that
# stays even. Directing more, or earlier, gained nothing at 10,000 samples on a 10x10 grid
EARLY_SHARE, EVEN_SHARE, DIRECTED_EVEN_SHARE = 0.5, 0.7, 0.2
# the same share in the last stage, where there are enough samples to prove anything about all policies
PROOF_EVEN_SHARE = 0.4
# with fewer samples per pair in the last stage no useful bound over all policies is proved
MIN_PROOF_SAMPLES_PER_PAIR = 200
# with fewer samples per pair the policy is worth more than a closer statement about it; a larger trial gained little
MIN_POLICY_SAMPLES_PER_PAIR, LARGEST_TRIAL_SHARE = 40, 0.4


@dataclass(frozen=True)
class PlugIn(Method):
    """Count transitions, solve the counted model exactly; the fewest samples, memory for every transition seen.

    ``prove``: also bound what no policy exceeds, and evaluate the worst case. That can take longer than all the rest;
    where only the policy is wanted, False leaves it out, and the samples are directed for the policy alone.

    Examples
    --------
    >>> import cautious as ca
    >>> river = ca.worlds.river_swim().simulator()
    >>> learned = ca.learn(river, samples=20_000, method=ca.PlugIn(prove=False))
    >>> learned.policy.argmax(axis=1).tolist()
    [1, 1, 1, 1, 1, 1]
    """

    prove: bool = True
    name = "plug-in"

    def __post_init__(self) -> None:
        as_flag("PlugIn.prove", self.prove)

    def refusal(self, task: Task) -> str | None:
        """Counts must fit in half of the memory."""
        triples = min(task.samples, task.pairs * task.shape[0])
        wanted = triples * BYTES_PER_TRIPLE
        memory = psutil.virtual_memory().total
        if wanted <= memory // 2:
            return None
        return (
            f"the counts may take {wanted / 2**30:.1f} GiB ({triples} triples), more than half of this machine's "
            f'{memory / 2**30:.1f} GiB; use method="primal-dual"'
        )

    def trial_samples(self, task: Task) -> int:
        """A tenth, and more where every pair has 40 samples without that, up to two fifths."""
        spare = task.samples - MIN_POLICY_SAMPLES_PER_PAIR * task.pairs
        return max(super().trial_samples(task), min(int(LARGEST_TRIAL_SHARE * task.samples), spare))

    def begin(self, task: Task, draws: Draws, samples: int) -> "PlugInRun":
        """A run that draws ``samples`` transitions."""
        return PlugInRun(self, task, draws, samples)


@dataclass(frozen=True)
class Found:
    """What later pieces need of a solve; ``status`` is a sentence."""

    policy: Array
    multipliers: Array
    objective: float
    risk: float
    status: str


class PlugInRun(Run):
    """The pieces in order: draw a stage, solve, draw the next, and in the end solve all and bound the optimum."""

    stored_numbers = ("stage", "drawn", "drawing", "done", "bound", "stress")
    stored_arrays = ("sizes",)

    def __init__(self, method: PlugIn, task: Task, draws: Draws, samples: int) -> None:
        self.method, self.task, self.draws = method, task, draws
        first = max(int(EARLY_SHARE * samples), min(samples, task.pairs))
        even = max(int(EVEN_SHARE * first), min(first, task.pairs))
        self.budgets = [even, first - even, samples - first]
        self.stage = 0
        self.drawn = 0
        self.drawing = True
        self.start: Array | None = None
        self.counts = Counts(task.shape)
        self.sizes: Indices = uniform_sizes(task.allowed, even)
        self.found: Found | None = None
        self.bound = sure_bound(task)
        self.stress: dict[str, Any] = {}
        # the draws of this stage that are under way
        self._stream: Iterator[tuple[Indices, Indices, Indices, Array]] | None = None

    @property
    def midway(self) -> bool:
        """Within a stage that is drawn part by part."""
        return self._stream is not None

    def advance(self) -> None:
        """A batch of draws, a solve, or the bound."""
        if self.start is None:
            self.start = start_distribution(self.task, self.draws.start_states)
        elif self.drawing:
            self._draw()
        elif self.stage < len(self.budgets) - 1:
            self._direct()
        else:
            self._finish()

    def _draw(self) -> None:
        total, table = int(self.sizes.sum()), self.draws.table
        if self.drawn < total and table is not None:
            self.drawn += draw_table_piece(self.counts, self.draws, table, self.sizes, self.drawn)
        elif self.drawn < total:
            if self._stream is None:
                batches = pair_batches(self.sizes, self.drawn, self.task.shape[1], self.draws.per_call)
                self._stream = self.draws.stream(batches)
            states, actions, next_states, rewards = next(self._stream)
            self.counts.add(states, actions, next_states, rewards)
            self.drawn += states.size
        self.drawing = self.drawn < total
        if not self.drawing:
            self._stream = None

    def _direct(self) -> None:
        """Solve what was counted so far and decide where to draw next."""
        counts = self.counts
        problem = counted_problem(self.task, counts, self._known_start)
        solution = solved(problem, ROUGH_TOLERANCE, self._warm, self.draws)
        last = self.stage + 2 == len(self.budgets)
        provable = self.method.prove and last and self.budgets[-1] >= MIN_PROOF_SAMPLES_PER_PAIR * self.task.pairs
        even = PROOF_EVEN_SHARE if provable else DIRECTED_EVEN_SHARE
        share = _shares_of_next_samples(self.task, problem, counts, solution, even)
        self.found, self.stage, self.drawn, self.drawing = _found(problem, solution), self.stage + 1, 0, True
        self.sizes = shared_sizes(share, self.budgets[self.stage])

    def _finish(self) -> None:
        below = self.bound
        if self.method.prove:
            fresh = None if self.task.known.start is not None else self.draws.start_states
            found = optimum_below(self.task, self.counts, self._known_start, fresh, self.draws.stopping)
            below = min(below, found)
        problem = counted_problem(self.task, self.counts, self._known_start)
        self.found = _found(problem, solved(problem, FINAL_TOLERANCE, self._warm, self.draws))
        if self.method.prove:
            self.stress = self._stress(problem, self.found.policy)
        self.bound, self.done = below, True

    def _stress(self, problem: Problem, policy: Array) -> dict[str, Any]:
        """The value of the policy in the worst of the models that agree with all counts."""
        worst = worst_case_of_counts(self.task, self.counts, self._known_start, 1 - CONFIDENCE)
        scalars = scalars_of(problem, evaluate_policy(problem, policy).occupancy.occupancy)
        objective = worst.objective_below(policy, worst.on_grid(scalars))
        return stress_facts(objective, -np.inf if np.isfinite(objective) else worst.return_below(policy))

    @property
    def _known_start(self) -> Array:
        assert self.start is not None
        return self.start

    @property
    def _warm(self) -> Start | None:
        return None if self.found is None else Start(self.found.policy, self.found.multipliers)

    def point(self) -> Point:
        """The latest solve."""
        if self.found is None:
            return Point(self.draws.used)
        # the solver's gap is about the counted model; what is known about the true one comes at the end
        below = self.bound - self.found.objective if self.done else NAN
        return Point(self.draws.used, self.found.objective, self.found.risk, below)

    def glimpse(self, seconds: float) -> Point | None:
        """The best policy in the model counted so far that is found in so many seconds."""
        if self.start is None or not self.drawing or self.counts.used == 0:
            return None
        problem = counted_problem(self.task, self.counts, self._known_start)
        if problem.trapped is not None:
            return None
        best = best_outcome(problem, ROUGH_TOLERANCE, self.draws.stopping, self._warm, seconds)[0].evaluated
        return None if best is None else Point(self.draws.used, best.objective, best.risk)

    def result(self) -> Result:
        """The policy of the latest solve, in the model counted so far."""
        n_states = self.task.shape[0]
        start = np.full(n_states, 1 / n_states) if self.start is None else self.start
        counts = self.counts
        problem = counted_problem(self.task, counts, start)
        found = self.found
        policy = uniform_policy(self.task.allowed) if found is None else found.policy
        now = evaluate_policy(problem, policy)
        facts: dict[str, Any] = {"triples": counts.used, **self.stress}
        if found is not None and not np.isfinite(found.objective):
            facts["counted model"] = found.status
        return Result(
            policy=policy,
            occupancy=now.occupancy.occupancy,
            multipliers=np.zeros(n_states) if found is None else found.multipliers,
            payoff=problem.mdp.rewards,
            scalars=scalars_of(problem, now.occupancy.occupancy),
            optimum_below=self.bound,
            problem=problem,
            counts=counts,
            facts=facts,
        )

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also the counts, the start and the latest solve."""
        header, arrays = super().storage()
        if self.start is not None:
            arrays["start"] = self.start
        arrays |= self.counts.arrays()
        if self.found is not None:
            arrays |= {"policy": self.found.policy, "multipliers": self.found.multipliers}
            header |= {"numbers": [self.found.objective, self.found.risk], "status": self.found.status}
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also the counts, the start and the latest solve."""
        super().restore(header, arrays)
        self.start = arrays["start"].copy() if "start" in arrays else None
        self.counts = Counts.from_arrays(self.task.shape, arrays["triples"], arrays["rewards"])
        if "policy" in arrays:
            objective, risk = header["numbers"]
            policy, multipliers = arrays["policy"].copy(), arrays["multipliers"].copy()
            self.found = Found(policy, multipliers, objective, risk, header["status"])


def counted_problem(task: Task, counts: Counts, start: Array) -> Problem:
    """The problem in the counted model."""
    tails = [risk for _, risk in task.scalars if isinstance(risk, CVaR)]
    if tails and not counts.deterministic:
        raise IncompatibleError(
            f"{tails[0].label} needs the distribution of rewards, and this simulator pays different rewards for the "
            "same (state, action, next state): make what decides the reward part of the state, or use ca.Variance()"
        )
    return Problem(counted_mdp(task, counts, start), task.unbound_risk, task.caution)


def solved(problem: Problem, tolerance: float, start: Start | None, draws: Draws) -> Solution:
    """As ``ca.solve``, starting from an earlier solution."""
    outcome, target = best_outcome(problem, tolerance, draws.stopping, start)
    return build_solution(problem, target, findings(problem, target, outcome))


def _found(problem: Problem, solution: Solution) -> Found:
    """A policy without pairs that a prior forbids, also in states that the counted model never visits."""
    possible = states_of(problem.permitted) & ~solution.reached
    strays = possible & np.any((solution.policy > 0) & ~problem.permitted, axis=1)
    rows = problem.permitted / np.maximum(problem.permitted.sum(axis=1), 1)[:, None]
    policy = np.where(strays[:, None], rows, solution.policy)
    status = solution.certificate.statement
    return Found(policy, solution.multipliers, solution.objective, solution.risk, status)


def _shares_of_next_samples(task: Task, problem: Problem, counts: Counts, solution: Solution, even: float) -> Array:
    """Where to draw next, (S*A,): even everywhere, and more on pairs that a nearly best policy uses.

    A pair counts by the root of its state's occupancy, by the standard deviation of reward plus next value, and by how
    little worse it seems than the best action, compared with what the samples leave open.
    """
    v, allowed = solution.multipliers, task.allowed
    payoff = Payoff(task.scalars, scalars_of(problem, solution.occupancy), task.discount)
    variance = next_moments(counts, payoff, v)[1]
    square = np.ones(task.shape) if variance is None else variance.reshape(task.shape)
    # few samples may show no variance at all: every pair keeps a tenth of the average
    square = np.maximum(square, 0.1 * float(square[allowed].mean()) + 1e-300)
    open_square = square / np.maximum(counts.per_pair, 1).reshape(task.shape)
    advantage = np.where(allowed, solution.adjusted_reward + task.discount * problem.mdp.expect_next(v), -np.inf)
    loss = advantage.max(axis=1, keepdims=True) - advantage
    doubt = open_square + np.where(allowed, open_square, np.inf).min(axis=1, keepdims=True)
    share = np.sqrt(solution.occupancy.sum(axis=1)[:, None] * square) / (1 + loss**2 / doubt)
    share = np.where(allowed, share, 0.0).ravel()
    flat = allowed.ravel() / task.pairs
    return flat if not share.sum() > 0 else even * flat + (1 - even) * share / share.sum()
