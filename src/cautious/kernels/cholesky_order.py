"""An order of the unknowns that keeps a sparse Cholesky factor small: nested dissection by levels of a search.

A breadth-first search from the edge of a connected graph sorts its nodes into levels, and every level separates those
before it from those after it. A short level near the middle is numbered last, both sides are treated alike, and so on
down to small pieces. Symmetric patterns without diagonal as CSR (``indptr``, ``indices``).
"""

import numpy as np
from numba import njit

from cautious.arrays import Indices

LEAF = 24
LEAST_SHARE = 0.3
# level of nodes that have their place
PLACED = -(2**30)


@njit(cache=True, nogil=True)
def search(indptr: Indices, indices: Indices, root: int, piece: int, level: Indices, queue: Indices) -> int:
    """Nodes of the root's component within a piece into ``queue``, by ``level``; their number.

    Nodes of the piece that were not found yet have level ``-piece``, and no other nodes have.
    """
    unknown = np.int32(-piece)
    queue[0] = root
    level[root] = 0
    head, tail = 0, 1
    while head < tail:
        node = queue[head]
        head += 1
        following = level[node] + 1
        for k in range(indptr[node], indptr[node + 1]):
            other = indices[k]
            if level[other] == unknown:
                level[other] = following
                queue[tail] = other
                tail += 1
    return tail


@njit(cache=True, nogil=True)
def middle_level(queue: Indices, level: Indices, size: int) -> int:
    """The level to separate at: few nodes, both sides of comparable size; -1 when there is none."""
    depth = level[queue[size - 1]] + 1
    width = np.zeros(depth, np.int64)
    for i in range(size):
        width[level[queue[i]]] += 1
    best, best_cost, before = -1, np.inf, 0
    for l in range(depth - 1):
        after = size - before - width[l]
        smaller = min(before, after)
        if l > 0 and smaller > 0:
            share = smaller / (before + after)
            cost = width[l] * (1.0 if share >= LEAST_SHARE else LEAST_SHARE / share) * (1.25 - 0.5 * share)
            if cost < best_cost:
                best, best_cost = l, cost
        before += width[l]
    return best


@njit(cache=True, nogil=True)
def part_at(
    indptr: Indices, indices: Indices, level: Indices, queue: Indices, size: int, at: int, nodes: Indices
) -> tuple[int, int]:
    """Write the nodes as (before, after, separator) into ``nodes``; returns the sizes of the first two parts.

    Nodes of the level without a neighbour beyond it need not separate anything and join those before.
    """
    first, second = 0, 0
    for i in range(size):
        node = queue[i]
        if level[node] == at:
            beyond = False
            for k in range(indptr[node], indptr[node + 1]):
                beyond = beyond or level[indices[k]] == at + 1
            if not beyond:
                level[node] = at - 1
        if level[node] < at:
            first += 1
        elif level[node] > at:
            second += 1
    a, b, c = 0, first, first + second
    for i in range(size):
        node = queue[i]
        if level[node] < at:
            nodes[a] = node
            a += 1
        elif level[node] > at:
            nodes[b] = node
            b += 1
        else:
            nodes[c] = node
            level[node] = PLACED
            c += 1
    return first, second


@njit(cache=True, nogil=True)
def dissect(indptr: Indices, indices: Indices) -> Indices:
    """The order (n,): position -> node."""
    n = indptr.size - 1
    # short numbers: more of them are near
    nodes, queue, level = np.arange(n, dtype=np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    low, high = np.empty(n + 2, np.int64), np.empty(n + 2, np.int64)
    low[0], high[0], top, pieces = 0, n, 1, 0
    while top > 0:
        top -= 1
        begin, end = low[top], high[top]
        pieces += 1
        for i in range(begin, end):
            level[nodes[i]] = -pieces
        root = nodes[begin]
        size = search(indptr, indices, root, pieces, level, queue)
        if size < end - begin:
            place = begin
            rest = nodes[begin:end].copy()
            for i in range(size):
                nodes[place + i] = queue[i]
            low[top], high[top] = place, place + size
            top += 1
            place += size
            # all further components at once: a graph may have as many as nodes
            for node in rest:
                if level[node] < 0:
                    size = search(indptr, indices, node, pieces, level, queue)
                    nodes[place : place + size] = queue[:size]
                    if size > LEAF:
                        low[top], high[top] = place, place + size
                        top += 1
                    place += size
            continue
        if size <= LEAF:
            nodes[begin:end] = queue[:size]
            continue
        root = queue[size - 1]
        for i in range(begin, end):
            level[nodes[i]] = -pieces
        search(indptr, indices, root, pieces, level, queue)
        at = middle_level(queue, level, size)
        if at < 0:
            nodes[begin:end] = queue[:size]
            continue
        first, second = part_at(indptr, indices, level, queue, size, at, nodes[begin:end])
        low[top], high[top] = begin, begin + first
        low[top + 1], high[top + 1] = begin + first, begin + first + second
        top += 2
    return nodes.astype(np.int64)


@njit(cache=True, nogil=True)
def widest_level(indptr: Indices, indices: Indices, n_states: int) -> int:
    """The most states at the same number of steps from one state, over all actions; parts are searched one by one.

    Where it is a large part of all states, as with random successors, so are the sets that cut the model in two; models
    like trees are the exception.
    """
    n_actions = (indptr.size - 1) // n_states
    seen = np.zeros(n_states, dtype=np.bool_)
    queue = np.empty(n_states, dtype=np.int64)
    widest = 0
    for root in range(n_states):
        if seen[root]:
            continue
        seen[root], queue[0] = True, root
        first, last = 0, 1
        while first < last:
            widest = max(widest, last - first)
            end = last
            for k in range(first, last):
                for entry in range(indptr[queue[k] * n_actions], indptr[(queue[k] + 1) * n_actions]):
                    successor = np.int64(indices[entry])
                    if not seen[successor]:
                        seen[successor] = True
                        queue[end] = successor
                        end += 1
            first, last = last, end
    return widest
