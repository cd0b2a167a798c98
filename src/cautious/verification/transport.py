"""Transport from a marginal to a prior, in exact arithmetic: prices bound its cost from below, plans from above.

Below. For potentials f of the states i that can have mass and prices m of all states j with f_i - m_j <= D_ij, the
cheapest transport costs at least  <f, x> - <m, p>.  On a graph one function serves for both, if it changes along no
edge by more than the length of the edge.

Above. A spanning tree carries given supplies and demands in one way only. Over a matrix an amount N that would flow
against the direction of the plan, or through the hub, can be rerouted at no more than N times the largest distance.
"""

from collections.abc import Mapping
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import breadth_first_order

from cautious.arrays import Array, Indices, Mask
from cautious.verification.exact import Integers, bits_of, fraction, integers

# rows of a matrix of distances that are looked at together
ROWS_PER_CHUNK = 256


def matrix_prices(distance: Array, given: Array, here: Mask) -> tuple[Array, Array]:
    """Potentials and prices (S,) as doubles; ``given`` are potentials of the states ``here``.

    A difference or sum of two doubles is rounded once, so its neighbour on the safe side bounds it.
    """
    prices, everywhere = np.full(len(distance), -np.inf), np.arange(len(distance))
    with np.errstate(over="ignore"):
        for states in _chunks(np.flatnonzero(here)):
            prices = np.maximum(prices, (given[states, None] - distance[states]).max(axis=0))
        prices = np.nextafter(prices, np.inf)
        potentials = np.concatenate([(distance[states] + prices).min(axis=1) for states in _chunks(everywhere)])
    return np.nextafter(potentials, -np.inf), prices


def _chunks(states: Indices) -> list[Indices]:
    return [states[first : first + ROWS_PER_CHUNK] for first in range(0, states.size, ROWS_PER_CHUNK)]


def graph_prices(data: Mapping[str, Any], given: Array, here: Mask) -> tuple[Integers, int]:
    """max over the states i ``here`` of f_i - D_ij for every state j, as integers, and their bits: by Dijkstra."""
    bits = bits_of(given, data["lengths"])
    neighbours: list[list[tuple[int, int]]] = [[] for _ in here]
    lengths = integers(data["lengths"], bits)
    for tail, head, length in zip(data["tails"].tolist(), data["heads"].tolist(), lengths.tolist(), strict=True):
        neighbours[tail].append((head, length))
        neighbours[head].append((tail, length))
    least: dict[int, int] = {}
    heap = [(-int(f), state) for state, f in enumerate(integers(given, bits)) if here[state]]
    heapify(heap)
    while heap:
        cost, state = heappop(heap)
        if state in least:
            continue
        least[state] = cost
        for other, length in neighbours[state]:
            if other not in least:
                heappush(heap, (cost + length, other))
    # a state without a path is at an infinite distance: any price will do, and the lowest is the best
    lowest = max(least.values())
    return np.array([-least.get(state, lowest) for state in range(here.size)], dtype=object), bits


def _tree_flow(parent: Indices, balance: Integers) -> Integers | None:
    """What each node sends to its parent: the balance of its subtree; None if the parents do not make a tree."""
    roots, children = np.flatnonzero(parent < 0), np.flatnonzero(parent >= 0)
    if parent.size != balance.size or roots.size != 1:
        return None
    links = sp.csr_array((np.ones(children.size), (parent[children], children)), shape=(parent.size, parent.size))
    order = breadth_first_order(links, int(roots[0]), return_predecessors=False)
    if order.size < parent.size:
        return None
    flow = balance.copy()
    for node in order[:0:-1].tolist():
        flow[parent[node]] += flow[node]
    return flow


def matrix_cost(data: Mapping[str, Any], supply: Integers, demand: Integers) -> tuple[Fraction, Fraction] | None:
    """The cost of the plan on the tree of the witness, or more, and the largest distance; None if it is no tree."""
    n, distance, parent = supply.size, data["distance"], data["tree"]
    flow = _tree_flow(parent, np.concatenate([supply, -demand, np.zeros(1, dtype=object)]))
    if flow is None:
        return None
    children = np.flatnonzero(parent >= 0)
    parents, hub = parent[children], 2 * n
    by_hub = (children == hub) | (parents == hub)
    downward = (children >= n) & (parents < n)
    if np.any(~by_hub & ~downward & ~((children < n) & (parents >= n))):
        return None
    tail, head = np.where(downward, parents, children), np.where(downward, children, parents)
    sent = np.where(downward, -flow[children], flow[children])
    lengths = distance[np.where(by_hub, 0, tail), np.where(by_hub, 0, head - n)]
    bits = bits_of(lengths)
    cost = fraction(int(np.sum(np.where(by_hub, 0, np.maximum(sent, 0)) * integers(lengths, bits))), bits)
    against = int(np.sum(np.where(by_hub, 0, np.maximum(-sent, 0))))
    largest = Fraction(float(distance.max()))
    return cost + largest * (against + 2 * int(np.sum(np.where(by_hub, np.abs(sent), 0)))), largest


def graph_cost(data: Mapping[str, Any], supply: Integers, demand: Integers) -> tuple[Fraction, Fraction] | None:
    """The cost of the flow on the tree of the witness, and the length of the tree, which no distance exceeds."""
    parent = data["tree"]
    flow = _tree_flow(parent, supply - demand)
    if flow is None:
        return None
    length: dict[tuple[int, int], float] = {}
    for tail, head, one in zip(data["tails"].tolist(), data["heads"].tolist(), data["lengths"].tolist(), strict=True):
        for edge in ((tail, head), (head, tail)):
            length[edge] = min(one, length.get(edge, one))
    children = np.flatnonzero(parent >= 0)
    edges = list(zip(children.tolist(), parent[children].tolist(), strict=True))
    if any(edge not in length for edge in edges):
        return None
    lengths = np.array([length[edge] for edge in edges])
    bits = bits_of(lengths)
    whole = integers(lengths, bits)
    return fraction(int(np.sum(np.abs(flow[children]) * whole)), bits), fraction(int(whole.sum()), bits)
