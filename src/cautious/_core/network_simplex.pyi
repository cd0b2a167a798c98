"""Cheapest flows without capacities: the primal network simplex on a spanning tree."""

from cautious.arrays import Array, Indices

NO_NODE: int
PI: int
def tree_flow(
    parent: Indices,
    order: Indices,
    supply: Array,
    flow: Array,
    /,
) -> None:
    """Flow from each node to its parent."""

def tree_with_flow(
    parent: Indices,
    order: Indices,
    length: Array,
    supply: Array,
    /,
) -> tuple[Indices, Array]:
    """links and carried of a spanning tree that carries these supplies."""

def improve_plan(
    distance: Array,
    links: Indices,
    carried: Array,
    rows: int,
    tolerance: float,
    budget: int,
    /,
) -> bool:
    """Exchanges until no entry of the distances pays; False if the budget ran out."""

def improve_flow(
    tail: Indices,
    head: Indices,
    length: Array,
    links: Indices,
    carried: Array,
    block: int,
    tolerance: float,
    budget: int,
    /,
) -> bool:
    """Exchanges until no arc of the list pays; False if the budget ran out."""

def tree_cost(
    links: Indices,
    carried: Array,
    root: int,
    supply: Array,
    /,
) -> tuple[float, float]:
    """What supplies cost on the tree, and how much of them would go against its arcs."""

