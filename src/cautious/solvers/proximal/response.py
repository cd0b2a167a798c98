"""How the pairs answer prices: each alone, with itself at other steps, and with the pairs of its state.

With D = diag(free), what bends on sums over some pairs couples the answers of these. Let G add them up, let c be the
curvature of the sums, and M the answers without it. Then, if no two sums share a pair,

    M - M G' damp G M,      damp = c / (1 + c G M G')

are the answers with it, and G M G' is diagonal. This is done once for the sums of a pair over all steps, where there
are several, and once for those of all pairs of a state.
"""

from collections.abc import Sequence

import numpy as np

from cautious.arrays import Array
from cautious.solvers.proximal.flow_system import ActivePart
from cautious.solvers.proximal.proximal_terms import Kink


def bend(curvatures: Array, kinks: Sequence[Kink], x: Array, mu: float) -> tuple[Array, Array]:
    """Curvature and offset of what is paid for entries x: the slope after a step is  slope + curvature step - offset.

    ``curvatures`` are a quadratic and an entropic one.
    """
    curvature, offset = curvatures[0] + curvatures[1] / x, np.zeros(x.size)
    for kink in kinks:
        more, shift = kink.prepare(x, mu)
        curvature = curvature + more
        offset += shift
    return curvature, offset


class Response:
    """See the module's text; ``free`` (n,) is what a pair moves alone, ``damp`` (M,) what curvature of states takes."""

    def __init__(
        self, part: ActivePart, stiffness: Array, pairs: tuple[Array, Array], states: tuple[Array, Array]
    ) -> None:
        self.part, self.curvatures = part, (pairs[0], states[0])
        curvature, offset = pairs
        if part.layered:
            self.free = 1 / stiffness
            stiff = 1 + curvature * part.on_pairs(self.free)
            self.pair_damp, self.pair_offset = curvature / stiff, offset / stiff
            self.together = self.free * part.of_pairs(1 / stiff)
        else:
            # a pair is a sum of its own
            self.free = self.together = 1 / (stiffness + curvature)
            self.pair_damp, self.pair_offset = np.zeros(0), offset
        curvature, offset = states
        stiff = 1 + curvature * part.on_states(self.together)
        self.damp, self.offset = curvature / stiff, offset / stiff

    def answer(self, push: Array) -> Array:
        """The step of the pairs (n,) for a push on their prices."""
        part = self.part
        if part.layered:
            alone = self.free * push
            alone -= self.free * part.of_pairs(self.pair_damp * part.on_pairs(alone) - self.pair_offset)
        else:
            alone = self.free * (push + self.pair_offset)
        of_states = self.damp * part.on_states(alone) - self.offset
        return np.asarray(alone - self.together * part.of_states(of_states))

    def without_offsets(self) -> "Response":
        """The linear part."""
        other = object.__new__(Response)
        other.part, other.curvatures, other.free, other.together = self.part, self.curvatures, self.free, self.together
        other.pair_damp, other.damp = self.pair_damp, self.damp
        other.pair_offset, other.offset = np.zeros_like(self.pair_offset), np.zeros_like(self.offset)
        return other

    def diagonal(self) -> Array:
        """How far each pair moves for a push on its own price; (n,)."""
        own = self.free
        if self.part.layered:
            own = own - self.part.of_pairs(self.pair_damp) * self.free**2
        return np.asarray(np.maximum(own - self.part.of_states(self.damp) * self.together**2, 0.0))
