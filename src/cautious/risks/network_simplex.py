"""The cheapest transport over a matrix or a graph, with potentials that prove it (``_core/network_simplex.hpp``).

When time is up the answer is a plan that is merely possible: its cost is then an upper bound of the distance. Where
exchanges do not end, the plan at hand counts if its potentials prove it nearly the cheapest; else ``SolveError``.
"""

from collections.abc import Callable

import numpy as np

from cautious._core import network_simplex as kernels
from cautious.arrays import Array, Indices
from cautious.errors import SolveError
from cautious.risks.base import never
from cautious.risks.graph_flow import SpanningTree

# an arc enters the tree when it pays more than this part of the largest cost
MIN_RELATIVE_GAIN = 1e-14
# rows of the matrix that are looked through before the best arc seen enters
PRICED_ROWS = 2
# work between two looks at the clock, in nodes: some tenths of a second
CLOCK_CHECK_NODES = 10_000_000
# rounding may let exchanges cycle: then the present plan is returned if its potentials prove it this precise
MAX_ROUNDS = 10_000
MAX_RELATIVE_ERROR = 1e-9


def cheapest_plan(
    distance: Array, supply: Array, demand: Array, over: Callable[[], bool] = never
) -> tuple[float, Array]:
    """Cost of the cheapest plan from supplies (n,) to demands (m,), both of sum one; potentials (n,) of the suppliers.

    The starting plan sends everything through an extra node, the hub, whose arcs cost the largest distance.
    """
    (n, m), largest = distance.shape, float(distance.max())
    links, carried, done = _improved_plan(distance, supply, demand, over)
    cost, against = kernels.tree_cost(links, carried, n + m, _plan_balance(supply, demand))
    cost, potentials = cost + 2 * largest * against, carried[kernels.PI, :n].copy()
    if not done:
        collected = (potentials[:, None] - distance).max(axis=0)
        _require_proof(cost, float(potentials @ supply - demand @ collected), largest)
    return cost, potentials


def cheapest_plan_tree(distance: Array, supply: Array, demand: Array) -> Indices:
    """The spanning tree that carries the cheapest plan, as the parent of every node, -1 at the root.

    Nodes 0 to n-1 are the suppliers, n to n+m-1 the demands, and n+m is the hub.
    """
    return _improved_plan(distance, supply, demand, never)[0][:, 0].copy()


def _improved_plan(
    distance: Array, supply: Array, demand: Array, over: Callable[[], bool]
) -> tuple[Indices, Array, bool]:
    n, m = distance.shape
    hub, largest = n + m, float(distance.max())
    parent = np.full(hub + 1, hub)
    parent[hub] = kernels.NO_NODE
    order, balance = np.arange(hub, -1, -1), _plan_balance(supply, demand)
    links, carried = kernels.tree_with_flow(parent, order, np.full(hub + 1, largest), balance)
    rows, gain = min(PRICED_ROWS, n), MIN_RELATIVE_GAIN * largest
    done = _finished(
        distance.size, lambda budget: kernels.improve_plan(distance, links, carried, rows, gain, budget), over
    )
    return links, carried, done


def _plan_balance(supply: Array, demand: Array) -> Array:
    return np.concatenate([supply, -demand, [0.0]])


def cheapest_flow(
    tail: Indices,
    head: Indices,
    length: Array,
    tree: SpanningTree,
    balance: Array,
    over: Callable[[], bool] = never,
) -> tuple[float, Array]:
    """Cost of the cheapest flow that carries these supplies (n,), of sum zero, over arcs given both ways; potentials.

    It starts on the ``tree``.
    """
    links, carried, done = _improved_flow(tail, head, length, tree, balance, over)
    # what goes against an arc costs the same on the arc back
    cost, potentials = kernels.tree_cost(links, carried, int(tree.order[0]), balance)[0], carried[kernels.PI].copy()
    if not done:
        # no arc may be steeper than its length, so all potentials are scaled down until none is
        with np.errstate(divide="ignore", invalid="ignore"):
            steepness = np.nan_to_num((potentials[tail] - potentials[head]) / length, nan=0.0, posinf=np.inf)
        _require_proof(cost, float(potentials @ balance) / max(1.0, float(steepness.max())), float(length.max()))
    return cost, potentials


def cheapest_flow_tree(tail: Indices, head: Indices, length: Array, tree: SpanningTree, balance: Array) -> Indices:
    """The spanning tree that carries the cheapest flow, as the parent of every node, -1 at the root."""
    return _improved_flow(tail, head, length, tree, balance, never)[0][:, 0].copy()


def _improved_flow(
    tail: Indices, head: Indices, length: Array, tree: SpanningTree, balance: Array, over: Callable[[], bool]
) -> tuple[Indices, Array, bool]:
    links, carried = kernels.tree_with_flow(tree.parent, tree.order, tree.length, balance)
    block, gain = max(1, int(tail.size**0.5)), MIN_RELATIVE_GAIN * float(length.max(initial=0.0))
    done = _finished(
        tail.size, lambda budget: kernels.improve_flow(tail, head, length, links, carried, block, gain, budget), over
    )
    return links, carried, done


def _finished(n_arcs: int, improve: Callable[[int], bool], over: Callable[[], bool]) -> bool:
    """Improve until no arc pays or time is up; False if neither came."""
    # one budget must suffice to look at all arcs: otherwise it could not be found out that none pays
    budget = max(CLOCK_CHECK_NODES, 2 * n_arcs)
    return any(improve(budget) or over() for _ in range(MAX_ROUNDS))


def _require_proof(cost: float, at_least: float, size: float) -> None:
    """Refuse a plan that is dearer than its potentials prove necessary."""
    if not cost - at_least <= MAX_RELATIVE_ERROR * max(cost, size):
        raise SolveError(
            f"the cheapest transport was not found in {MAX_ROUNDS} rounds: one that costs {cost:.9g} is known, and "
            f"that it costs at least {at_least:.9g}; with a time limit the one that is known counts as an upper bound"
        )
