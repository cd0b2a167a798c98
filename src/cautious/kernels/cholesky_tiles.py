"""The dense arithmetic of a sparse Cholesky factorisation, a vector of numbers at a time (``vectors``).

Legend: a *panel* holds columns of L, each along memory, ``width`` numbers apart, from ``begin`` of a flat array on. A
*tile* is ROWS by two vectors of sums that stay in registers while columns pass by. Tiles at an edge also write numbers
that nobody reads; ``padded`` sizes keep them from those that somebody does, in either precision.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array
from cautious.kernels.vectors import LANES, alike, lanes, load, minus_product, store, times

ROWS, WIDTH = 4, 4 * LANES
HUGE = 1e30


@njit(cache=True, nogil=True)
def padded(size: int) -> int:
    """The next multiple of the widest tile's width."""
    return (size + WIDTH - 1) // WIDTH * WIDTH


@njit(cache=True, nogil=True)
def subtract_tile(
    out: Array,
    corner: int,
    stride: int,
    panel: Array,
    begin: int,
    width: int,
    count: int,
    at: int,
    low: int,
    blank: bool,
) -> None:
    """out[corner + i stride + j] -= sum over the first ``count`` columns of column[at + i] * column[low + j].

    What was there before does not matter if it is ``blank``.
    """
    after, here = lanes(out), begin
    a = b = c = d = e = f = g = h = alike(out, 0.0)
    if not blank:
        a, b = load(out, corner), load(out, corner + after)
        c, d = load(out, corner + stride), load(out, corner + stride + after)
        e, f = load(out, corner + 2 * stride), load(out, corner + 2 * stride + after)
        g, h = load(out, corner + 3 * stride), load(out, corner + 3 * stride + after)
    for _ in range(count):
        p, q = load(panel, here + low), load(panel, here + low + after)
        weight = alike(panel, panel[np.uint64(here + at)])
        a, b = minus_product(a, weight, p), minus_product(b, weight, q)
        weight = alike(panel, panel[np.uint64(here + at + 1)])
        c, d = minus_product(c, weight, p), minus_product(d, weight, q)
        weight = alike(panel, panel[np.uint64(here + at + 2)])
        e, f = minus_product(e, weight, p), minus_product(f, weight, q)
        weight = alike(panel, panel[np.uint64(here + at + 3)])
        g, h = minus_product(g, weight, p), minus_product(h, weight, q)
        here += width
    store(out, corner, a)
    store(out, corner + after, b)
    store(out, corner + stride, c)
    store(out, corner + stride + after, d)
    store(out, corner + 2 * stride, e)
    store(out, corner + 2 * stride + after, f)
    store(out, corner + 3 * stride, g)
    store(out, corner + 3 * stride + after, h)


@njit(cache=True, nogil=True)
def pivot_of(value: float, least: float) -> float:
    """A vanishing pivot is replaced by a huge one: its unknown then stays zero."""
    return value if value > least else HUGE


@njit(cache=True, nogil=True)
def eliminate_four(panel: Array, at: int, width: int, j: int, least: Array, k: int, valid: int) -> int:
    """Columns j to j+3 of a panel, from their diagonal on; ``at`` is where column j begins.

    Pivots not above ``least``, from its place k on, count as zero. One over the diagonal is kept in its place: solving
    multiplies by it. Only the first ``valid`` of them count; returns how many of these had a vanishing pivot.
    """
    p, q = panel[at + j : at + width], panel[at + width + j : at + 2 * width]
    r, s = panel[at + 2 * width + j : at + 3 * width], panel[at + 3 * width + j : at + 4 * width]
    a = pivot_of(p[0], least[k])
    by_a = 1 / np.sqrt(a)
    ab, ac, ad = p[1] * by_a, p[2] * by_a, p[3] * by_a
    b = pivot_of(q[1] - ab * ab, least[k + 1])
    by_b = 1 / np.sqrt(b)
    bc, bd = (q[2] - ab * ac) * by_b, (q[3] - ab * ad) * by_b
    c = pivot_of(r[2] - ac * ac - bc * bc, least[k + 2])
    by_c = 1 / np.sqrt(c)
    cd = (r[3] - ac * ad - bc * bd) * by_c
    d = pivot_of(s[3] - ad * ad - bd * bd - cd * cd, least[k + 3])
    by_d = 1 / np.sqrt(d)
    for i in range(0, p.size, lanes(panel)):
        one = times(load(p, i), alike(panel, by_a))
        two = times(minus_product(load(q, i), alike(panel, ab), one), alike(panel, by_b))
        three = minus_product(minus_product(load(r, i), alike(panel, ac), one), alike(panel, bc), two)
        three = times(three, alike(panel, by_c))
        four = minus_product(minus_product(load(s, i), alike(panel, ad), one), alike(panel, bd), two)
        four = times(minus_product(four, alike(panel, cd), three), alike(panel, by_d))
        store(p, i, one)
        store(q, i, two)
        store(r, i, three)
        store(s, i, four)
    p[0], q[1], r[2], s[3] = by_a, by_b, by_c, by_d
    vanished = (a == HUGE) + (valid > 1 and b == HUGE) + (valid > 2 and c == HUGE) + (valid > 3 and d == HUGE)
    return int(vanished)
