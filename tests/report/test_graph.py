"""The graph: it covers all the time, follows the chain, and its words stay apart."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.canvas import DARK, png
from cautious.report.graph import MAX_NODES, flow_graph, shown_transitions
from cautious.report.plots import plot_graph

WORLDS = ("machine_replacement", "inventory", "queue", "forest", "clinic", "river_swim", "garnet", "liquidation")


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    return ca.solve(ca.worlds.problem(request.param))


def thousand():
    rng = np.random.default_rng(0)
    transitions = np.zeros((1000, 2, 1000))
    for state in range(1000):
        for action in range(2):
            transitions[state, action, rng.integers(1000, size=3)] += 1 / 3
    return ca.solve(ca.Problem(ca.MDP(transitions, rng.normal(size=(1000, 2)), 0.9, normalise=True)))


def test_boxes_cover_all_the_time_and_flows_what_leaves_them(world):
    graph = flow_graph(world)
    mass = world.occupancy.sum(axis=1)
    assert graph.share.sum() == pytest.approx(1)
    assert graph.flow.sum(axis=1) == pytest.approx(graph.share)
    assert len(graph.states) == min(MAX_NODES, np.count_nonzero(mass))
    assert len(graph.states) + graph.others == np.count_nonzero(mass)
    assert graph.share[: len(graph.states)] == pytest.approx(mass[list(graph.states)])
    # the shares are those of the occupancy: what flows in, discounted, and what starts
    start = np.array([world.mdp.start[state] for state in graph.states])
    inflow = graph.flow.sum(axis=0)[: len(graph.states)]
    balance = (1 - world.mdp.discount) * start + world.mdp.discount * inflow
    assert graph.share[: len(graph.states)] == pytest.approx(balance, abs=1e-9)


def test_flows_are_those_of_the_chain(world):
    graph = flow_graph(world)
    chain = np.einsum("sa,sat->st", world.policy, world.mdp.transitions.toarray().reshape(*world.mdp.shape, -1))
    flow = world.occupancy.sum(axis=1)[:, None] * chain
    named = list(graph.states)
    assert graph.flow[: len(named), : len(named)] == pytest.approx(flow[np.ix_(named, named)], abs=1e-12)


def test_the_rest_is_one_box():
    graph = flow_graph(thousand())
    assert graph.others > 900
    assert graph.share.size == MAX_NODES + 1
    assert graph.share.sum() == pytest.approx(1)


def test_shuffled_states_of_a_line_are_put_in_line():
    n = 8
    places = np.random.default_rng(5).permutation(n)
    transitions = np.zeros((n, 1, n))
    for place in range(n):
        for near in (max(0, place - 1), min(n - 1, place + 1)):
            transitions[places[place], 0, places[near]] += 0.5
    solution = ca.solve(ca.Problem(ca.MDP(transitions, np.zeros((n, 1)), 0.99)))
    order = list(flow_graph(solution).states)
    assert order in (places.tolist(), places[::-1].tolist())


def test_few_ways_leave_a_box_and_none_is_rare(world):
    graph = flow_graph(world)
    shown = shown_transitions(graph)
    assert (shown.sum(axis=1) - shown.diagonal()).max() <= 3
    assert (graph.flow[shown] / np.repeat(graph.share, shown.sum(axis=1))).min() >= 0.05


def test_no_word_touches_another(world):
    figure = plot_graph(world, theme=DARK)
    assert png(figure).startswith(b"\x89PNG")
    renderer = figure.canvas.get_renderer()
    boxes = [text.get_window_extent(renderer) for text in figure.axes[0].texts if text.get_text()]
    assert boxes
    overlaps = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if a.overlaps(b)]
    assert overlaps == []


def test_names_are_drawn_as_they_are(chain_solution):
    figure = plot_graph(chain_solution)
    texts = figure.axes[0].texts
    assert any(text.get_text() == "<script>alert(1)</script>" for text in texts)
    assert not any(text.get_parse_math() for text in texts)
    names = ["$" + "very long " * 30 + "\\frac{$", "状態", "$x^{$"]
    mdp = ca.MDP(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), 0.5, state_names=names)
    assert png(plot_graph(ca.solve(ca.Problem(mdp)))).startswith(b"\x89PNG")
