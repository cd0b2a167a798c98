"""The divergences of the public contract: recipes that bind a prior to a model; ``separable`` has the mathematics."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from cautious.models.horizons import TOTAL
from cautious.models.tabular import MDP
from cautious.risks.base import UnboundRisk
from cautious.risks.priors import resolve_prior
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.separable_visits import EntropicVisits, HalfL1Visits, HalfSquaresVisits


@dataclass(frozen=True, eq=False)
class KL(UnboundRisk):
    """Relative entropy KL(d || prior) to behaviour seen before; prior (S, A), or (S,) for the state marginal.

    Zero entries of the prior forbid the pair (or state). The prior may also be a policy or a Solution.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp, prior = ca.worlds.drift(), ca.worlds.drift_prior()
    >>> near, far = (ca.solve(ca.Problem(mdp, ca.KL(prior), caution)).risk for caution in (10.0, 0.1))
    >>> near < far
    True
    """

    summary = "the relative entropy to the prior behaviour, in nats"
    fields_in_files: ClassVar = {"prior": "prior"}

    prior: Any

    def bind(self, mdp: MDP) -> EntropicRisk:
        """The divergence in this model."""
        kind = EntropicVisits if mdp.horizon == TOTAL else EntropicRisk
        return kind(resolve_prior("KL.prior", self.prior, mdp), mdp.shape, "KL")


@dataclass(frozen=True)
class Entropy(UnboundRisk):
    """Negative entropy sum d log d: caution spreads the behaviour over all pairs.

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.Problem(ca.worlds.river_swim(), ca.Entropy(), caution=1.0))
    >>> bool((solution.policy > 0).all())
    True
    """

    summary = "the concentration of the behaviour (negative entropy), in nats"

    def bind(self, mdp: MDP) -> EntropicRisk:
        """The negative entropy in this model."""
        if mdp.horizon == TOTAL:
            return EntropicVisits(np.ones(mdp.shape), mdp.shape, "Entropy", relative=0)
        return EntropicRisk(np.ones(mdp.shape), mdp.shape, "Entropy")


@dataclass(frozen=True, eq=False)
class TotalVariation(UnboundRisk):
    """Half the L1 distance to the prior; prior (S, A) or (S,), a policy or a Solution.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.river_swim()
    >>> habit = ca.solve(ca.Problem(mdp, ca.Entropy(), caution=1.0))
    >>> solution = ca.solve(ca.Problem(mdp, ca.TotalVariation(habit), caution=1.0))
    >>> bool(0 < solution.risk < 1)
    True
    """

    summary = "half the L1 distance to the prior behaviour"
    fields_in_files: ClassVar = {"prior": "prior"}

    prior: Any
    smooth = False

    def bind(self, mdp: MDP) -> HalfL1:
        """The distance in this model."""
        kind = HalfL1Visits if mdp.horizon == TOTAL else HalfL1
        return kind(resolve_prior("TotalVariation.prior", self.prior, mdp), mdp.shape, "TotalVariation")


@dataclass(frozen=True, eq=False)
class Quadratic(UnboundRisk):
    """Half the squared Euclidean distance to the prior; prior (S, A) or (S,), a policy or a Solution.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> even = np.full(6, 1 / 6)  # equal time in every state
    >>> solution = ca.solve(ca.Problem(ca.worlds.river_swim(), ca.Quadratic(even), caution=1000.0))
    >>> print(solution.occupancy.sum(axis=1).round(2))
    [0.17 0.17 0.17 0.15 0.2  0.14]
    """

    summary = "half the squared distance to the prior behaviour"
    fields_in_files: ClassVar = {"prior": "prior"}

    prior: Any

    def bind(self, mdp: MDP) -> HalfSquares:
        """The distance in this model."""
        kind = HalfSquaresVisits if mdp.horizon == TOTAL else HalfSquares
        return kind(resolve_prior("Quadratic.prior", self.prior, mdp), mdp.shape, "Quadratic")
