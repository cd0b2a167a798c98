"""A ``Scenario``: a model with its danger marked, and what each risk of the page means there."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Indices
from cautious.errors import InputError
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, Entropy, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet
from cautious.risks.scalar import CVaR, Variance
from cautious.solvers.solve import solve
from cautious.studio.messages import RiskChoice, Statement
from cautious.studio.painted_grids import DANGER, areas
from cautious.worlds.grids import cells_marked

# how much of a careful walker's habit is random, so that no action is forbidden
CURIOSITY = 0.05
# by how many times the spread of the rewards a careful walker fears danger
FEAR = 5.0
NO_DANGER = "nothing is marked as danger; mark some, or choose another risk"


@dataclass(frozen=True, eq=False)
class Scenario:
    """``own`` is the risk of the problem that was opened, if it has one."""

    mdp: MDP
    danger: Indices
    own: Risk | None = None

    def risk(self, choice: RiskChoice) -> Risk | None:
        """The risk a page asks for; None is risk-neutral."""
        if choice.kind in ("safe", "peak") and self.danger.size == 0:
            raise InputError(NO_DANGER)
        if choice.kind == "safe":
            safe = np.setdiff1d(np.arange(self.mdp.n_states), self.danger)
            if safe.size == 0:
                raise InputError("everything is marked as danger; leave at least one safe place")
            return SafeSet(safe, choice.slack)
        if choice.kind == "peak":
            return PeakExposure(areas(self.mdp, self.danger))
        if choice.kind in ("kl", "tv"):
            prior = self.careful_policy if choice.habit == "careful" else uniform_policy(self.mdp.allowed)
            return KL(prior) if choice.kind == "kl" else TotalVariation(prior)
        if choice.kind == "cvar":
            return CVaR(choice.level)
        if choice.kind == "own" and self.own is None:
            raise InputError("this problem came without a risk of its own; choose another one")
        plain: dict[str, Risk | None] = {"own": self.own, "variance": Variance(), "entropy": Entropy(), "none": None}
        return plain[choice.kind]

    @cached_property
    def careful_policy(self) -> Array:
        """The best policy (S, A) of somebody to whom danger costs far more, with a little curiosity."""
        if self.danger.size == 0:
            raise InputError(NO_DANGER)
        mdp = self.mdp
        spread = float(np.ptp(mdp.rewards[mdp.allowed])) or 1.0
        rewards = mdp.rewards.copy()
        rewards[self.danger] -= FEAR * spread
        feared = MDP(mdp.transitions, rewards, mdp.discount, mdp.start, allowed=mdp.allowed)
        policy = solve(Problem(feared), tolerance=1e-4, time_limit_seconds=5.0).policy
        return np.asarray((1 - CURIOSITY) * policy + CURIOSITY * uniform_policy(mdp.allowed))


def place_of(statement: Statement, opened: Problem | None) -> Scenario:
    """Where a statement takes place: on its grid, or in the model that was opened."""
    if statement.grid is not None:
        mdp = statement.grid.model()
        return Scenario(mdp, cells_marked(mdp, DANGER))
    if opened is None:
        raise InputError("no model was opened; the statement needs a grid")
    return Scenario(opened.mdp, opened.mdp.state_indices("danger", list(statement.danger)), opened.unbound_risk)
