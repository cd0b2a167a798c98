"""The terms of a problem's risk, sorted by their structure: what solvers, certificates and learners read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from cautious.risks.base import ConicRisk, Risk, ScalarRisk, Structure
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.limits import Limit
from cautious.risks.returns import BoundReturnRisk, ReturnLimit
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.transport import TransportRisk

Kind = TypeVar("Kind", bound=Risk)


@dataclass(frozen=True)
class Term(Generic[Kind]):
    """One term: its place ``number`` among the terms of the problem, its weight (caution included) and its risk."""

    number: int
    weight: float
    risk: Kind


_WITHOUT_CONES = (Structure.SCALAR, Structure.GENERAL, Structure.LIMIT, Structure.RETURN, Structure.RETURN_LIMIT)
_WITH_CONES = tuple(structure for structure in Structure if structure not in _WITHOUT_CONES)


class Parts:
    """Weighted bound risks by structure; every list keeps the order of the terms.

    ``features`` are barriers and worst cases, ``barriers`` those that must stay above their floors, and ``n_features``
    says how many numbers all features are. ``separable`` are sums over entries, of pairs or of states: ``entropies``,
    ``l1_distances`` and ``squares``. ``scalars`` are minima over one number, ``returns`` risks of the return of an
    episode, and ``return_limits`` limits on these. ``conic`` are the terms with a conic form. ``limits`` are
    constraints on occupancies, and ``requirements`` what must exceed a floor: barriers, and the rows of linear limits.
    """

    def __init__(self, terms: Sequence[tuple[float, Risk]]) -> None:
        self.all = [Term(number, weight, risk) for number, (weight, risk) in enumerate(terms)]
        self.structures = frozenset(term.risk.structure for term in self.all)
        self.features: list[Term[LogBarrier | WorstOf]] = self._of(Structure.FEATURES)
        self.barriers: list[Term[LogBarrier]] = [term for term in self._of(Structure.FEATURES) if term.risk.is_barrier]
        self.n_features = sum(len(term.risk.names) for term in self.features)
        self.entropies: list[Term[EntropicRisk]] = self._of(Structure.ENTROPY)
        self.l1_distances: list[Term[HalfL1]] = self._of(Structure.L1)
        self.squares: list[Term[HalfSquares]] = self._of(Structure.SQUARE)
        self.separable: list[Term[EntropicRisk] | Term[HalfL1] | Term[HalfSquares]] = self._of(
            Structure.ENTROPY, Structure.L1, Structure.SQUARE
        )
        self.transports: list[Term[TransportRisk]] = self._of(Structure.TRANSPORT)
        self.scalars: list[Term[ScalarRisk]] = self._of(Structure.SCALAR)
        self.returns: list[Term[BoundReturnRisk]] = self._of(Structure.RETURN)
        self.return_limits: list[Term[ReturnLimit]] = self._of(Structure.RETURN_LIMIT)
        self.without_scalars = [term for term in self.all if term.risk.structure is not Structure.SCALAR]
        self.conic: list[Term[ConicRisk]] = self._of(*_WITH_CONES)
        self.without_cones: list[Term[Risk]] = self._of(*_WITHOUT_CONES)
        self.limits: list[Term[Limit]] = self._of(Structure.LIMIT)
        self.limit_by_number = {term.number: term.risk for term in self.limits}
        rows = [term.risk.barrier for term in self.limits]
        self.requirements = [term.risk for term in self.barriers] + [row for row in rows if row is not None]

    def _of(self, *structures: Structure) -> list[Any]:
        return [term for term in self.all if term.risk.structure in structures]
