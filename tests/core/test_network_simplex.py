"""The tree of the network simplex stays one, and exchanges end, whatever the numbers; optima are in test_transport."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from cautious._core import network_simplex as kernels

PARENT, CHILD, NEXT, PREVIOUS, DEPTH, UPWARD = range(6)
COST, FLOW = range(2)


def random_tree(rng, n):
    """``parent`` and ``order`` of a tree whose numbers are shuffled."""
    label = rng.permutation(n)
    parent = np.full(n, kernels.NO_NODE)
    for i in range(1, n):
        parent[label[i]] = label[rng.integers(i)]
    return parent, label


def children(links, i):
    found, child = [], links[i, CHILD]
    while child != kernels.NO_NODE:
        found.append(int(child))
        child = links[child, NEXT]
    return found


def check_tree(links, carried, scale):
    """Children and parents agree, every node is reached once, and potentials are those of the arcs."""
    n = len(links)
    (root,) = np.flatnonzero(links[:, PARENT] == kernels.NO_NODE)
    seen, waiting = [], [int(root)]
    while waiting:
        i = waiting.pop()
        seen.append(i)
        for child in children(links, i):
            assert links[child, PARENT] == i
            assert links[child, DEPTH] == links[i, DEPTH] + 1
            sign = 1 if links[child, UPWARD] else -1
            expected = carried[kernels.PI, i] + sign * carried[COST, child]
            assert_allclose(carried[kernels.PI, child], expected, atol=1e-12 * scale)
            waiting.append(child)
    assert sorted(seen) == list(range(n))


@pytest.mark.parametrize("seed", range(10))
def test_flows_of_a_tree_balance(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 30))
    parent, order = random_tree(rng, n)
    supply = rng.standard_normal(n)
    supply -= supply.mean()
    flow = np.empty(n)
    kernels.tree_flow(parent, order, supply, flow)
    arriving = np.zeros(n)
    np.add.at(arriving, parent[order[1:]], flow[order[1:]])
    assert_allclose(np.delete(flow - arriving, order[0]), np.delete(supply, order[0]), atol=1e-12)
    assert_allclose(flow[order[0]], 0.0, atol=1e-12)
    length = rng.random(n)
    links, carried = kernels.tree_with_flow(parent, order, length, supply)
    check_tree(links, carried, 1.0)
    assert_allclose(np.where(links[:, UPWARD] == 1, carried[FLOW], -carried[FLOW]), flow)
    cost, against = kernels.tree_cost(links, carried, int(order[0]), supply)
    assert_allclose(cost, np.abs(np.delete(flow, order[0])) @ np.delete(length, order[0]), atol=1e-12)
    assert against <= 1e-12


def hostile(rng, kind, size):
    """Finite numbers that a solver hardly meets."""
    return {
        "normal": rng.standard_normal(size),
        "ties": rng.integers(-2, 3, size).astype(float),
        "zero": np.zeros(size),
        "largest": rng.choice([-1.7e308, 1.7e308, 0.0], size),
        "smallest": rng.choice([-5e-324, 5e-324, 0.0], size),
        "mixed": rng.choice([-1.0, 1.0], size) * 10.0 ** rng.uniform(-308, 308, size),
    }[kind]


KINDS = ["normal", "ties", "zero", "largest", "smallest", "mixed"]


@pytest.mark.parametrize("supplies", KINDS)
@pytest.mark.parametrize("costs", KINDS)
def test_exchanges_end_and_leave_a_tree_whatever_the_numbers(costs, supplies):
    """Costs may be negative around a cycle and supplies need not balance: then the answer means nothing."""
    rng = np.random.default_rng([KINDS.index(costs), KINDS.index(supplies)])
    for _ in range(30):
        n, m = rng.integers(1, 9, 2)
        parent, order = random_tree(rng, n + m)
        links, carried = kernels.tree_with_flow(
            parent, order, hostile(rng, costs, n + m), hostile(rng, supplies, n + m)
        )
        distance, tail, head = hostile(rng, costs, (n, m)), *rng.integers(0, n + m, (2, 20))
        for _ in range(3):
            kernels.improve_plan(distance, links, carried, int(rng.integers(1, n + 1)), 0.0, 2000)
            kernels.improve_flow(tail, head, hostile(rng, costs, 20), links, carried, 4, 0.0, 2000)
        # the next call would refuse what is not a tree
        kernels.tree_cost(links, carried, int(np.flatnonzero(links[:, PARENT] < 0)[0]), np.zeros(n + m))


def test_an_arc_that_nothing_blocks_is_left_out():
    """A cycle of negative cost: the flow could grow for ever."""
    links, carried = kernels.tree_with_flow(np.array([-1, 0]), np.arange(2), np.zeros(2), np.array([-1.0, 1.0]))
    assert kernels.improve_flow(np.array([0]), np.array([1]), np.array([-1.0]), links, carried, 1, 0.0, 100)
    assert links[1, PARENT] == 0


def test_what_is_no_tree_is_refused():
    rng = np.random.default_rng(0)
    parent, order = random_tree(rng, 6)
    ones = np.ones(6)
    for wrong in (np.zeros(6, np.int64), order[::-1].copy(), order + 1):
        with pytest.raises(ValueError, match="tree_with_flow needs is_order"):
            kernels.tree_with_flow(parent, wrong, ones, ones)
    links, carried = kernels.tree_with_flow(parent, order, ones, ones)
    for _ in range(200):
        broken = links.copy()
        i, what = rng.integers(6), rng.integers(5)
        broken[i, what] = rng.choice([-(2**62), -2, -1, *range(7), 2**62])
        if (broken == links).all():
            continue
        with pytest.raises(ValueError, match="improve_plan needs is_tree"):
            kernels.improve_plan(np.ones((3, 3)), broken, carried, 1, 0.0, 100)
        with pytest.raises(ValueError, match="tree_cost needs is_tree"):
            kernels.tree_cost(broken, carried, int(order[0]), ones)


def test_bad_arguments_are_refused():
    links, carried = kernels.tree_with_flow(np.array([-1, 0, 0]), np.arange(3), np.ones(3), np.ones(3))
    distance, arcs = np.ones((1, 2)), np.array([0, 1])
    for rows in (0, 2, -1, 2**62):
        with pytest.raises(ValueError, match="improve_plan needs 0 < rows"):
            kernels.improve_plan(distance, links, carried, rows, 0.0, 10)
    with pytest.raises(ValueError, match="improve_plan needs fit_together"):
        kernels.improve_plan(np.ones((2, 2)), links, carried, 1, 0.0, 10)
    with pytest.raises(ValueError, match="improve_plan needs fit_together"):
        kernels.improve_plan(distance, links, carried[:2], 1, 0.0, 10)
    for block in (0, 3, 2**62):
        with pytest.raises(ValueError, match="improve_flow needs 0 < block"):
            kernels.improve_flow(arcs, arcs, np.ones(2), links, carried, block, 0.0, 10)
    with pytest.raises(ValueError, match="improve_flow needs all_within"):
        kernels.improve_flow(arcs, arcs + 2, np.ones(2), links, carried, 1, 0.0, 10)
    with pytest.raises(ValueError, match="tree_cost needs 0 <= root"):
        kernels.tree_cost(links, carried, 3, np.ones(3))
    with pytest.raises(TypeError, match="`links` must be int64"):
        kernels.improve_plan(distance, links.astype(np.int32), carried, 1, 0.0, 10)
    assert not kernels.improve_plan(distance, links, carried, 1, 0.0, 0)
    assert not kernels.improve_plan(distance, links, carried, 1, 0.0, -(2**63))


def test_no_arcs_need_no_exchange():
    links, carried = kernels.tree_with_flow(np.array([-1]), np.arange(1), np.ones(1), np.zeros(1))
    nothing = np.empty(0, np.int64)
    assert kernels.improve_flow(nothing, nothing, np.empty(0), links, carried, 1, 0.0, 10)
    assert kernels.improve_plan(np.empty((1, 0)), links, carried, 1, 0.0, 10)
    assert kernels.tree_cost(links, carried, 0, np.zeros(1)) == (0.0, 0.0)
