"""Where the policies of sixteen entropic duals go: their state marginals, side by side.

The flow that is missing is measured in double precision, and corrected in single precision until little is missing.
The certificate measures it again.
"""

import numpy as np

from cautious.arrays import Array
from cautious.kernels import sixteen_chains as kernels
from cautious.kernels.vectors import SIXTEEN_LANES
from cautious.solvers.entropic_sixteen import SixteenDuals

STEPS, ROUNDS = 100, 6
# digits that one correction is asked for at most
DIGITS = 4.5
# what rounding a policy to single precision moves, of all mass
SHORT = 2e-7


def find_marginals(duals: SixteenDuals, count: int, accuracy: float) -> None:
    """Let ``wanted`` of the halves be the marginals of the first ``count`` policies, within ``accuracy`` in the 1-norm.

    They begin from the masses that the halves have.
    """
    parts, aim = duals.used(count), 0.49 * accuracy * (1 - duals.gamma)
    for half, place in parts:
        kernels.shorten(half.policy, place.start, duals.w)
        half.wanted[:] = half.states
    kernels.diagonals(*duals.csr, duals.gamma, duals.w, duals.inverse)
    best, left = np.full(SIXTEEN_LANES, np.inf), np.empty(SIXTEEN_LANES)
    for number in range(ROUNDS):
        size = np.zeros(SIXTEEN_LANES)
        for half, place in parts:
            half.find_excess()
            size[place] = kernels.measure(half.right, place.start, duals.room[0])
        # places that nobody needs were left behind, and would keep the others waiting
        size[count:] = 0.0
        best, before = np.minimum(best, size), best
        if np.all(size <= aim) or not np.any(size < 0.5 * before) or number == ROUNDS - 1:
            return
        kernels.solve_flow(
            *duals.csr, duals.gamma, duals.w, duals.inverse, _tolerance(aim, size), STEPS, duals.x, duals.room, left
        )
        for half, place in parts:
            kernels.correct(duals.x, place.start, size[place], half.wanted)
        # the certificate will measure it; looking before pays only where single precision may have hidden something
        if np.all(size * (left + SHORT / (1 - duals.gamma)) <= aim):
            return


def _tolerance(aim: float, size: Array) -> Array:
    """How small a correction should leave what is missing, (16,): as many digits in each of the rounds it will take.

    All take as many rounds as the one that needs most: the others would be done sooner, and gain nothing by it.
    """
    digits = np.log10(np.maximum(size, aim) / (0.8 * aim))
    rounds = np.ceil(max(float(digits.max()), 1.0) / DIGITS)
    return np.asarray(np.where(size <= aim, np.inf, 10.0 ** -(digits / rounds)))
