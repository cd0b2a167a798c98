"""Cheapest flows without capacities: the primal network simplex on a spanning tree.

Legend: ``links`` (n, 6) of every node: its parent, first child, next and previous sibling, depth, and whether the arc
to its parent points upwards; ``carried`` (3, n): cost and flow of that arc, and the node's potential pi. On arcs of the
tree  pi(tail) - pi(head) = cost;  an arc outside of it pays when that difference exceeds its cost. Only arcs of the
tree carry flow. Those that carry none point upwards, and the last arc to block a change leaves (Cunningham), so no
sequence of exchanges comes back to where it was.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices

PARENT, CHILD, NEXT, PREVIOUS, DEPTH, UPWARD = range(6)
COST, FLOW, PI = range(3)
NOBODY = -1
EPS = float(np.finfo(np.float64).eps)


@njit(cache=True, nogil=True)
def attach(links: Indices, node: int, parent: int) -> None:
    """Make a node the first child of another."""
    child = links[parent, CHILD]
    links[node, PARENT], links[node, NEXT], links[node, PREVIOUS] = parent, child, NOBODY
    links[parent, CHILD] = node
    if child != NOBODY:
        links[child, PREVIOUS] = node


@njit(cache=True, nogil=True)
def detach(links: Indices, node: int) -> None:
    """Take a node from its parent's children."""
    before, after = links[node, PREVIOUS], links[node, NEXT]
    if before == NOBODY:
        links[links[node, PARENT], CHILD] = after
    else:
        links[before, NEXT] = after
    if after != NOBODY:
        links[after, PREVIOUS] = before


@njit(cache=True, nogil=True)
def after(links: Indices, node: int, top: int) -> int:
    """The next node of the part of the tree below ``top``, parents first; nobody after the last."""
    if links[node, CHILD] != NOBODY:
        return int(links[node, CHILD])
    while node != top:
        if links[node, NEXT] != NOBODY:
            return int(links[node, NEXT])
        node = links[node, PARENT]
    return NOBODY


@njit(cache=True, nogil=True)
def rehang(links: Indices, carried: Array, top: int) -> int:
    """Depths and potentials below ``top`` and there, from its parent's; how many nodes that were."""
    node, count = top, 0
    while node != NOBODY:
        parent, count = links[node, PARENT], count + 1
        cost = carried[COST, node] if links[node, UPWARD] else -carried[COST, node]
        links[node, DEPTH] = links[parent, DEPTH] + 1
        carried[PI, node] = carried[PI, parent] + cost
        node = after(links, node, top)
    return count


@njit(cache=True, nogil=True)
def planted(parent: Indices, order: Indices, length: Array, supply: Array) -> tuple[Indices, Array]:
    """The tree of ``parent`` (n,), parents first in ``order`` (n,), carrying these supplies (n,) over its arcs."""
    links, carried = np.full((order.size, 6), NOBODY), np.zeros((3, order.size))
    carried[FLOW] = supply
    for k in range(order.size - 1, 0, -1):
        node = order[k]
        carried[FLOW, parent[node]] += carried[FLOW, node]
        attach(links, node, parent[node])
    for node in range(order.size):
        links[node, UPWARD] = carried[FLOW, node] >= 0.0
        carried[COST, node], carried[FLOW, node] = length[node], abs(carried[FLOW, node])
    links[order[0], DEPTH] = 0
    child = links[order[0], CHILD]
    while child != NOBODY:
        rehang(links, carried, child)
        child = links[child, NEXT]
    return links, carried


@njit(cache=True, nogil=True)
def exchange(links: Indices, carried: Array, tail: int, head: int, cost: float) -> int:
    """Take an arc that pays into the tree; the work it was, in nodes."""
    a, b, out, amount, out_b, amount_b = tail, head, tail, np.inf, head, np.inf
    while a != b:
        if links[a, DEPTH] >= links[b, DEPTH]:
            if links[a, UPWARD] and carried[FLOW, a] < amount:
                out, amount = a, carried[FLOW, a]
            a = links[a, PARENT]
        else:
            if not links[b, UPWARD] and carried[FLOW, b] <= amount_b:
                out_b, amount_b = b, carried[FLOW, b]
            b = links[b, PARENT]
    below_head = amount_b <= amount
    if below_head:
        out, amount = out_b, amount_b
    for end, sign in ((tail, -amount), (head, amount)):
        node = end
        while node != a:
            carried[FLOW, node] += sign if links[node, UPWARD] else -sign
            node = links[node, PARENT]
    # the part that comes off hangs from the new arc: on the way to its old top every arc now points to the other side
    top, parent = (head, tail) if below_head else (tail, head)
    node, upward, flow = top, not below_head, amount
    while True:
        above, was_upward = links[node, PARENT], links[node, UPWARD] == 1
        was_flow, was_cost = carried[FLOW, node], carried[COST, node]
        detach(links, node)
        attach(links, node, parent)
        links[node, UPWARD], carried[FLOW, node], carried[COST, node] = upward, flow, cost
        if node == out:
            return int(rehang(links, carried, top))
        upward, flow, cost = not was_upward, was_flow, was_cost
        parent, node = node, above


@njit(cache=True, nogil=True)
def blur(links: Indices, carried: Array, a: int, b: int) -> float:
    """What rounding can have done to the difference of two potentials, each summed up along its path.

    An arc that pays less may be one of the tree, which would be exchanged for itself without end.
    """
    far = links[a, DEPTH] * abs(carried[PI, a]) + links[b, DEPTH] * abs(carried[PI, b])
    return float(EPS * far)


@njit(cache=True, nogil=True)
def improve_plan(distance: Array, links: Indices, carried: Array, rows: int, tolerance: float, budget: int) -> bool:
    """Exchanges until no entry of ``distance`` (n, m), from node i to node n + j, pays; False if the budget ran out.

    The best of some ``rows`` enters.
    """
    (n, m), at, quiet = distance.shape, 0, 0
    prices = carried[PI, n : n + m]
    while quiet < n and budget > 0:
        best, tail, head = -tolerance, NOBODY, NOBODY
        for _ in range(rows):
            potential = carried[PI, at]
            for j in range(m):
                reduced = distance[at, j] - potential + prices[j]
                if reduced < best:
                    best, tail, head = reduced, at, j
            at, quiet = (at + 1) % n, quiet + 1
        budget -= rows * m
        if tail != NOBODY and -best > blur(links, carried, tail, n + head):
            quiet = 0
            budget -= exchange(links, carried, tail, n + head, distance[tail, head])
    return bool(quiet >= n)


@njit(cache=True, nogil=True)
def improve_flow(
    tail: Indices,
    head: Indices,
    length: Array,
    links: Indices,
    carried: Array,
    block: int,
    tolerance: float,
    budget: int,
) -> bool:
    """The same for a list of arcs; the best of a ``block`` enters."""
    at, quiet = 0, 0
    while quiet < tail.size and budget > 0:
        best, chosen = -tolerance, NOBODY
        for _ in range(block):
            reduced = length[at] - carried[PI, tail[at]] + carried[PI, head[at]]
            if reduced < best:
                best, chosen = reduced, at
            at, quiet = (at + 1) % tail.size, quiet + 1
        budget -= block
        if chosen != NOBODY and -best > blur(links, carried, tail[chosen], head[chosen]):
            quiet = 0
            budget -= exchange(links, carried, tail[chosen], head[chosen], length[chosen])
    return bool(quiet >= tail.size)


@njit(cache=True, nogil=True)
def worth(links: Indices, carried: Array, root: int, supply: Array) -> tuple[float, float]:
    """What these supplies (n,) cost on the tree, and how much of them would go against its arcs: rounding, if any."""
    order, node, count = np.empty(supply.size, np.int64), root, 0
    while node != NOBODY:
        order[count], count = node, count + 1
        node = after(links, node, root)
    net, total, against = supply.copy(), 0.0, 0.0
    for k in range(count - 1, 0, -1):
        node = order[k]
        net[links[node, PARENT]] += net[node]
        total += abs(net[node]) * carried[COST, node]
        if (net[node] > 0.0) != (links[node, UPWARD] == 1):
            against += abs(net[node])
    return total, against
