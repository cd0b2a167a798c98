"""Newton's method on up to sixteen entropic duals side by side: two eights, and one linear solver for both.

A dual that is done, or cannot go on, rests while the others do. The rules for steps are those of ``entropic`` and
``entropic_dual``; a line is searched by the slopes at its points, which the next step needs anyway.
"""

from collections.abc import Sequence

import numpy as np

from cautious.arrays import Array, Mask
from cautious.kernels import sixteen_gradients as kernels
from cautious.kernels.vectors import EIGHT_LANES, SIXTEEN_LANES, aligned
from cautious.solvers.base import Clock
from cautious.solvers.entropic_dual import ENOUGH, FLATTEST, REST, SHARE, SMALLEST_SHARE, Dual
from cautious.solvers.entropic_eight import EightDuals

LONGEST_SOLVE = 400
LINE_POINTS = 8
# a promise so small that the whole step is taken without looking
SMALL = 1e-3
NEAREST = 0.1
# of what is allowed, what the certificate will surely take
SURE = 0.25


class SixteenDuals:
    """Two halves of eight duals; numbers of each are in arrays (16,)."""

    def __init__(self, dual: Dual, log_mu: Array) -> None:
        n = dual.xi.size
        self.halves = [EightDuals(dual, log_mu) for _ in range(SIXTEEN_LANES // EIGHT_LANES)]
        indptr, indices, data = dual.problem.mdp.csr
        self.csr, self.gamma = (indptr, indices, data.astype(np.float32)), dual.gamma
        # eight numbers have room for sixteen of half the length
        self.w, self.x, self.inverse = (aligned(size).view(np.float32) for size in (log_mu.size, n, n))
        # three for conjugate gradients, seven for flows
        self.room = aligned(7 * n).view(np.float32).reshape(7, -1)
        self.w[:], self.room[:] = 0.0, 0.0
        self.passes = 0

    def used(self, count: int) -> list[tuple[EightDuals, slice]]:
        """The halves that hold the first ``count`` duals, and the places of each."""
        places = [slice(first, first + EIGHT_LANES) for first in range(0, count, EIGHT_LANES)]
        return list(zip(self.halves, places, strict=False))

    def newton(self, allowed: Array, steps: int, clock: Clock) -> Array:
        """Newton's steps until what they leave is ``allowed`` (n,); what each of n duals is thought to leave, (n,).

        That is infinite where a dual got stuck. Those that leave more than ``SURE`` of it go on as long as others do.
        """
        count, every = allowed.size, self.used(allowed.size)
        goal, live = np.ones(SIXTEEN_LANES), np.arange(SIXTEEN_LANES) < count
        goal[:count] = allowed
        left, share, known = np.full(SIXTEEN_LANES, np.inf), np.full(SIXTEEN_LANES, SHARE), False
        for _ in range(steps):
            # a half in which all rest stays as it is
            parts = [(half, place) for half, place in every if live[place].any()]
            promise, reached = self._step(parts, known, live, share, ENOUGH * goal)
            live &= (promise > 0) & np.isfinite(promise)
            length, known = self._searched(parts, live, promise)
            rest = promise * (1 - length + np.minimum(1.0, np.maximum(REST * reached, promise)))
            left = np.where(live, np.where(length > 0, rest, np.inf), left)
            live &= (length > 0) & (rest > SURE * goal)
            if not np.any(live & (rest > goal)) or clock.over:
                break
            finer = np.maximum(0.1 * goal / np.maximum(rest, goal), SHARE * rest)
            share = np.minimum(SHARE, np.maximum(SMALLEST_SHARE, finer))
        return left[:count]

    def _step(
        self, parts: Sequence[tuple[EightDuals, slice]], known: bool, live: Mask, share: Array, room: Array
    ) -> tuple[Array, Array]:
        """Find the steps; what they promise and what share their last steps added, (16,). ``known``: the slopes are."""
        slope = np.ones(SIXTEEN_LANES)
        for half, place in parts:
            if not known:
                half.slope()
            half.weights(place.start, self.w)
            slope[place] = kernels.narrow(half.right, place.start, self.room[0])
        kernels.inverse_diagonals(*self.csr, self.gamma, self.w, self.inverse)
        promise, reached, unit = np.zeros(SIXTEEN_LANES), np.ones(SIXTEEN_LANES), slope * slope
        matrix = (*self.csr, self.gamma, self.w, self.inverse)
        self.passes += kernels.conjugate_gradients(
            *matrix, unit, share, room, live, LONGEST_SOLVE, self.x, self.room, promise, reached
        )
        for half, place in parts:
            half.step(self.x, place.start, np.where(live[place], slope[place], 0.0))
        return promise, reached

    def _searched(self, parts: Sequence[tuple[EightDuals, slice]], live: Mask, promise: Array) -> tuple[Array, bool]:
        """Go along the steps, near to where phi is least: how far (16,), and whether the slopes there are known."""
        start = [half.u.copy() for half, _ in parts]
        length, low, high = np.where(live, 1.0, 0.0), np.zeros(SIXTEEN_LANES), np.ones(SIXTEEN_LANES)
        slope, low_slope, high_slope = np.zeros(SIXTEEN_LANES), -promise, np.full(SIXTEEN_LANES, np.inf)
        looking = live & (promise > SMALL)
        moving, known = live.copy(), bool(looking.any())
        for number in range(LINE_POINTS):
            for u, (half, place) in zip(start, parts, strict=True):
                if moving[place].any():
                    half.move(u, length[place])
                if known and (number == 0 or moving[place].any()):
                    slope[place] = half.slope()
            short = looking & (slope <= 0)
            # a whole step may be too short, others are looked for until phi is nearly flat
            looking &= ~(np.abs(slope) <= FLATTEST * promise) & ~(short & (length == 1.0))
            if not looking.any():
                break
            low, low_slope = np.where(short, length, low), np.where(short, slope, low_slope)
            beyond = looking & ~short
            high, high_slope = np.where(beyond, length, high), np.where(beyond, slope, high_slope)
            # slopes grow like exponentials on the far side
            inside = np.sqrt(np.nan_to_num(low_slope / (low_slope - high_slope), nan=0.1))
            inside = np.clip(inside, NEAREST, 1 - NEAREST)
            length, moving = np.where(looking, low + inside * (high - low), length), looking.copy()
            if number == LINE_POINTS - 2:
                length, looking = np.where(looking, low, length), np.zeros(SIXTEEN_LANES, np.bool_)
        return length, known
