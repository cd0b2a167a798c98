"""``PrimalDual``: our sweep variant of Algorithm 1, and the search over the numbers of scalar risks on top of it.

Without Variance and CVaR there is one stage of sweeps. With them, short stages start from several values of their
numbers; each stage's policy is tried, and the best one is taken further: its own mean or quantile becomes the next
number. That finds a good local optimum and often the global one; nothing is proved about others.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.learning.draws import Draws
from cautious.learning.method import NAN, Method, Point, Result, Run
from cautious.learning.primal_dual.sweeps import Sweeps
from cautious.learning.scalar_risk_rewards import Payoff
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.statements.table_bound import TableBoundRun
from cautious.learning.statements.trial import Trial
from cautious.learning.task import Task, start_distribution
from cautious.storage import part_of

TABLE_PIECE = 400_000
MOST_SWEEPS_PER_PIECE = 25
MOST_STARTS = 6
REFINEMENTS = 2
# shares of the samples: all starts together, and each refinement; the last stage has what is left
STARTS_SHARE, REFINE_SHARE = 0.4, 0.12
# a quarter of a stage tries its policy
TRIAL_SHARE = 1 / 4
# without scalar risks this share of the samples proves what no policy exceeds
PROOF_SHARE = 0.06
SAMPLES_PER_PAIR = 20


@dataclass(frozen=True)
class PrimalDual(Method):
    """Sweeps over tables (S, A); no transition is counted. Its constants are the same for all problems.

    Examples
    --------
    >>> import cautious as ca
    >>> river = ca.worlds.river_swim().simulator()
    >>> ca.learn(river, ca.Entropy(), caution=1.0, samples=20_000, method=ca.PrimalDual()).certificate.kind
    'estimated'
    """

    name = "primal-dual"

    def refusal(self, task: Task) -> str | None:
        """Takes convex risks, Variance and CVaR; some policy must have a finite risk."""
        for _, risk in task.problem.terms:
            if not risk.convex:
                return f"{risk.label} is not convex, and only Variance and CVaR are searched over their number"
        if not task.problem.permitted.any():
            return "the risk forbids every pair"
        return None

    def begin(self, task: Task, draws: Draws, samples: int) -> "PrimalDualRun":
        """A run of one stage, or of several."""
        return PrimalDualRun(task, draws, samples)


class PrimalDualRun(Run):
    """Stages one after the other; each has numbers ``at``, sweeps and, but for the last one, a trial.

    A run without scalar risks is one stage and a proof of what no policy exceeds.
    ``tried``: for every stage so far the numbers that suit its policy, and what it seemed worth.
    """

    stored_numbers = ("tried", "at", "spent", "calls", "done", "bound")

    def __init__(self, task: Task, draws: Draws, samples: int) -> None:
        self.task, self.draws = task, draws
        self.proof_samples = 0 if task.scalars else int(PROOF_SHARE * samples)
        self.samples = samples - self.proof_samples
        self.proof: TableBoundRun | None = None
        self.bound = sure_bound(task)
        self.start = start_distribution(task, draws.start_states)
        affordable = int(STARTS_SHARE * samples) // (SAMPLES_PER_PAIR * task.pairs)
        self.starts = min(MOST_STARTS, max(1, affordable)) if task.scalars else 0
        self.tried: list[tuple[list[float], float]] = []
        self.spent = 0
        self._begin_stage(self._first_numbers(0))

    def _first_numbers(self, stage: int) -> list[float]:
        """Numbers to begin with, spread over the rewards for a mean and over the losses for a quantile."""
        low, high = self.task.reward_range
        reward = low + (high - low) * (stage + 0.5) / max(1, self.starts)
        return [risk.number_of(reward) for _, risk in self.task.scalars]

    def _begin_stage(self, at: list[float]) -> None:
        stage, whole = len(self.tried), self.samples - self.spent
        if stage < self.starts:
            whole = int(STARTS_SHARE * self.samples / self.starts)
        elif stage < self.starts + REFINEMENTS and self.starts > 0:
            whole = int(REFINE_SHARE * self.samples)
        self.last = self.starts == 0 or stage == self.starts + REFINEMENTS
        self.trial_samples = 0 if self.last else int(TRIAL_SHARE * whole)
        # the stage draws its seed from the run's counter: a resume goes back to it
        self.at, self.calls = at, self.draws.calls
        payoff = Payoff(self.task.scalars, tuple(at), self.task.discount)
        self.sweeps = Sweeps(self.task, self.draws, self.start, payoff, whole - self.trial_samples)
        self.trial: Trial | None = None

    @property
    def midway(self) -> bool:
        """Within the trial of a stage."""
        return self.trial is not None and not self.trial.done

    def advance(self) -> None:
        """Some sweeps, a step of a trial, or the beginning of the next stage."""
        if not self.sweeps.done:
            self._sweep()
        elif self.last:
            self._prove()
        elif self.trial is None:
            self.trial = self._new_trial()
        elif not self.trial.done:
            self.trial.advance()
        else:
            self._end_stage(self.trial)

    def _sweep(self) -> None:
        """As many sweeps as a piece holds; one only where a call may fail, so that it can be done again."""
        pieces = 1
        if self.draws.table is not None:
            batch = max(1, self.sweeps.samples // self.sweeps.sweeps)
            pieces = max(1, min(MOST_SWEEPS_PER_PIECE, TABLE_PIECE // batch))
        for _ in range(pieces):
            self.sweeps.advance()
            if self.sweeps.done:
                return

    def _prove(self) -> None:
        if self.proof is None:
            self.proof = self._new_proof()
        elif not self.proof.done:
            self.proof.advance()
        else:
            # an infinite sure bound says that the risk's meaning in the true model is not known here
            risks = self.sweeps.risks_below() if np.isfinite(self.bound) else None
            found = np.inf if risks is None else self.proof.bound(risks)
            self.bound, self.done = min(self.bound, found), True

    def _new_proof(self) -> TableBoundRun:
        sweeps = self.sweeps
        v = sweeps.multipliers()
        return TableBoundRun(self.task, self.draws, sweeps.usable_table, v, sweeps.critic(v), self.proof_samples)

    def _new_trial(self) -> Trial:
        return Trial(self.task, self.draws, self.sweeps.policy(), self.trial_samples)

    def _end_stage(self, trial: Trial) -> None:
        """The trial says which numbers suit the policy, and what is gained by them; the tables say the rest better."""
        suited, gained = self.at, 0.0
        if trial.paths > 0:
            suited = [trial.rewards.best_scalar(risk) for _, risk in self.task.scalars]
            gained = sum(
                weight * (trial.rewards.penalty(risk, t) - trial.rewards.penalty(risk, better))
                for (weight, risk), t, better in zip(self.task.scalars, self.at, suited, strict=True)
            )
        self.tried.append((suited, self._earned() - self._convex_risk() + gained))
        self.spent += self.sweeps.samples + self.trial_samples
        stage = len(self.tried)
        best = max(self.tried, key=lambda one: one[1])[0]
        self._begin_stage(self._first_numbers(stage) if stage < self.starts else best)

    def _earned(self) -> float:
        """The mean payoff under the average occupancy, at the present numbers of the scalar risks."""
        paid = float(np.sum(self.sweeps.occupancy() * self.sweeps.mean_payoff()))
        return paid / (1 - self.task.discount) - self.sweeps.payoff.offset

    def _convex_risk(self) -> float:
        d = self.sweeps.occupancy()
        return float(sum(weight * risk.value(d) for weight, risk in self.task.problem.terms))

    def point(self) -> Point:
        """The average occupancy, at this stage's numbers; their share of the risk is inside the payoffs.

        The gap is an estimate: the gain by the values of the critic.
        """
        risk = self._convex_risk()
        worth = self._earned() - risk
        shown = NAN if self.task.scalars else risk / (self.task.caution or 1.0)
        # the average does not satisfy the balance of flows exactly: its objective can exceed that of any policy
        gap = max(self._thought_optimum() - worth, 0.0) if not self.task.scalars else NAN
        return Point(self.draws.used, worth, shown, gap, self.sweeps.violation())

    def _thought_optimum(self) -> float:
        sweeps, risks = self.sweeps, self.sweeps.risks_below()
        if risks is None:
            return np.inf
        v = sweeps.multipliers()
        gain = sweeps.critic(v).reshape(self.task.shape) - v[:, None]
        return float(self.start @ v) + risks.bound(gain, sweeps.usable_table, self.task.discount)

    def result(self) -> Result:
        """The policy of the average occupancy."""
        sweeps = self.sweeps
        facts: dict[str, Any] = {"sweeps": sweeps.sweep}
        if self.task.scalars:
            facts["numbers"] = {risk.label: t for (_, risk), t in zip(self.task.scalars, self.at, strict=True)}
        return Result(
            policy=sweeps.policy(),
            occupancy=sweeps.occupancy(),
            multipliers=sweeps.multipliers(),
            payoff=sweeps.mean_payoff(),
            scalars=tuple(self.at),
            optimum_below=self.bound,
            facts=facts,
        )

    def storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Also the sweeps, and the proof or trial that is going on."""
        header, arrays = super().storage()
        sweeps_header, sweeps_arrays = self.sweeps.storage()
        header, arrays = header | sweeps_header, arrays | sweeps_arrays
        for name, part in (("proof", self.proof), ("trial", self.trial)):
            if part is not None:
                header[name], found = part.storage()
                arrays |= {f"{name}.{key}": array for key, array in found.items()}
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Also the sweeps, and the proof or trial that is going on."""
        super().restore(header, arrays)
        self.draws.calls = self.calls
        self._begin_stage(self.at)
        self.sweeps.restore(header, arrays)
        if "proof" in header:
            self.proof = self._new_proof()
            self.proof.restore(header["proof"], part_of(arrays, "proof."))
        if "trial" in header:
            self.trial = self._new_trial()
            self.trial.restore(header["trial"], part_of(arrays, "trial."))
