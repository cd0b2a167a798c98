"""The terms of a problem's risk, sorted by their structure: what solvers, certificates and learners read."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from cautious.risks.base import ConicRisk, Risk, ScalarRisk, Structure
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.separable import EntropicRisk, HalfL1, HalfSquares
from cautious.risks.transport import TransportRisk

Kind = TypeVar("Kind", bound=Risk)


@dataclass(frozen=True)
class Term(Generic[Kind]):
    """One term: its place ``number`` among the terms of the problem, its weight (caution included) and its risk."""

    number: int
    weight: float
    risk: Kind


class Parts:
    """Weighted bound risks by structure; every list keeps the order of the terms."""

    def __init__(self, terms: Sequence[tuple[float, Risk]]) -> None:
        self.all = [Term(number, weight, risk) for number, (weight, risk) in enumerate(terms)]

    def _of(self, *structures: Structure) -> list[Any]:
        return [term for term in self.all if term.risk.structure in structures]

    @cached_property
    def structures(self) -> frozenset[Structure]:
        """All that occur."""
        return frozenset(term.risk.structure for term in self.all)

    @cached_property
    def features(self) -> list[Term[LogBarrier | WorstOf]]:
        """Barriers and worst cases."""
        return self._of(Structure.FEATURES)

    @cached_property
    def barriers(self) -> list[Term[LogBarrier]]:
        """Features that must stay above their floors."""
        return [term for term in self._of(Structure.FEATURES) if term.risk.is_barrier]

    @property
    def n_features(self) -> int:
        """How many numbers all features are."""
        return sum(len(term.risk.names) for term in self.features)

    @cached_property
    def entropies(self) -> list[Term[EntropicRisk]]:
        """Relative entropies, of pairs or of states."""
        return self._of(Structure.ENTROPY)

    @cached_property
    def l1_distances(self) -> list[Term[HalfL1]]:
        """Total variations, of pairs or of states."""
        return self._of(Structure.L1)

    @cached_property
    def squares(self) -> list[Term[HalfSquares]]:
        """Quadratic distances, of pairs or of states."""
        return self._of(Structure.SQUARE)

    @cached_property
    def separable(self) -> "list[Term[EntropicRisk] | Term[HalfL1] | Term[HalfSquares]]":
        """Everything that is a sum over entries."""
        return self._of(Structure.ENTROPY, Structure.L1, Structure.SQUARE)

    @cached_property
    def transports(self) -> list[Term[TransportRisk]]:
        """Transport distances."""
        return self._of(Structure.TRANSPORT)

    @cached_property
    def scalars(self) -> list[Term[ScalarRisk]]:
        """Risks that are a minimum over one number."""
        return self._of(Structure.SCALAR)

    @cached_property
    def without_scalars(self) -> list[Term[Risk]]:
        """All other terms."""
        return [term for term in self.all if term.risk.structure is not Structure.SCALAR]

    @cached_property
    def conic(self) -> list[Term[ConicRisk]]:
        """Terms with a conic form."""
        return [term for term in self._of(*Structure) if term.risk.structure not in _WITHOUT_CONES]

    @cached_property
    def without_cones(self) -> list[Term[Risk]]:
        """Terms without a conic form."""
        return [term for term in self.all if term.risk.structure in _WITHOUT_CONES]


_WITHOUT_CONES = frozenset({Structure.SCALAR, Structure.GENERAL})
