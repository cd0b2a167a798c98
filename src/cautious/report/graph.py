"""The graph of a model without a map: the most visited states, what is done there, and where it leads.

States stand in one column, in an order that keeps the flow between neighbours. Arrows down run on the right, arrows up
on the left, so that no line crosses a name; states beyond the busiest are one box at the bottom.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.report.accuracy import shares_of_time
from cautious.report.canvas import Theme
from cautious.report.text_tables import busiest_states, likeliest_actions
from cautious.report.words import percent, short, state_name
from cautious.solution import Solution

MAX_NODES = 12
# more arrows, and rarer ones, could not be told apart
MIN_TRANSITION_PROBABILITY = 0.05
MAX_ARROWS_PER_NODE = 3
# readers know the order of the states by number: another order must make the arrows shorter by this factor
MAX_RELATIVE_LENGTH = 0.7
BOX_LEFT, BOX_RIGHT, BOX_HALF_HEIGHT = 0.24, 0.76, 0.36


@dataclass(frozen=True)
class FlowGraph:
    """``share`` (k,) of discounted time per box, ``flow`` (k, k) of discounted time from box to box.

    ``states`` are the boxes from top to bottom; when ``others`` visited states are left, the last box is all of them.
    """

    states: tuple[int, ...]
    share: Array
    flow: Array
    others: int


def flow_graph(solution: Solution) -> FlowGraph:
    """The busiest states in the order they are drawn, and the flows between them."""
    mass = shares_of_time(solution)
    states = np.array(busiest_states(mass, MAX_NODES), dtype=np.int64)
    others = int(np.count_nonzero(mass > 0)) - states.size
    share, flow = _flows(solution, states, mass)
    order = _order(flow[: states.size, : states.size], states)
    boxes = [*order, states.size] if others else order
    chosen = tuple(int(state) for state in states[order])
    return FlowGraph(chosen, share[boxes], flow[np.ix_(boxes, boxes)], others)


def _flows(solution: Solution, states: Indices, mass: Array) -> tuple[Array, Array]:
    n = mass.size
    box = np.full(n, states.size)
    box[states] = np.arange(states.size)
    shape = (states.size + 1, n)
    member = sp.csr_array((np.ones(n), (box, np.arange(n))), shape=shape)
    weighted = sp.csr_array((mass, (box, np.arange(n))), shape=shape)
    flow = weighted @ sp.csr_array(solution.mdp.under(solution.policy)) @ member.T
    return np.asarray(member @ mass), np.asarray(flow.todense())


def _order(flow: Array, states: Indices) -> list[int]:
    """Indices from top to bottom with short arrows between them: one box is moved at a time, while that helps."""
    ties = flow + flow.T
    order: list[int] = np.argsort(states).tolist()
    numbered, best = order, _length(ties, order)
    enough = MAX_RELATIVE_LENGTH * best
    improved = True
    while improved:
        improved = False
        for one in list(order):
            rest = [other for other in order if other != one]
            trials = [[*rest[:place], one, *rest[place:]] for place in range(len(order))]
            lengths = [_length(ties, trial) for trial in trials]
            place = int(np.argmin(lengths))
            if lengths[place] < best - 1e-12:
                order, best, improved = trials[place], lengths[place], True
    if best > enough:
        return numbered
    # the order and its mirror image are equally good: the smaller numbers on top
    places = np.arange(len(order))
    return order if float(np.sum(places * (states[order] - states.mean()))) >= 0 else order[::-1]


def _length(ties: Array, order: Sequence[int]) -> float:
    places = np.arange(len(order))
    return float(np.sum(ties[np.ix_(order, order)] * np.abs(places[:, None] - places)))


def draw_graph(axes: Any, solution: Solution, graph: FlowGraph, theme: Theme) -> None:
    """Boxes filled by their share of time, arrows as thick as the flow."""
    count = graph.share.size
    axes.set(xlim=(0, 1), ylim=(count - 0.5, -0.5))
    axes.set_axis_off()
    for row in range(count):
        _box(axes, solution, graph, row, theme)
    shown = shown_transitions(graph)
    strongest = float(graph.flow[shown].max(initial=1e-300))
    ends = _arrow_ends(shown)
    for start, end in np.argwhere(shown).tolist():
        weight = float(np.sqrt(graph.flow[start, end] / strongest))
        _draw_arrow(axes, start, end, ends[start, end], count, weight, theme)


def shown_transitions(graph: FlowGraph) -> Mask:
    """(k, k): the likeliest transitions out of each box, and staying, where their probability is not too small."""
    likely = (graph.flow >= MIN_TRANSITION_PROBABILITY * graph.share[:, None]) & (graph.flow > 0)
    away = np.where(np.eye(graph.share.size, dtype=bool), 0.0, graph.flow)
    rank = np.argsort(np.argsort(-away, axis=1, kind="stable"), axis=1)
    return np.asarray(likely & ((rank < MAX_ARROWS_PER_NODE) | np.eye(graph.share.size, dtype=bool)))


def _box(axes: Any, solution: Solution, graph: FlowGraph, row: int, theme: Theme) -> None:
    from matplotlib.patches import Rectangle

    corner, width, height = (BOX_LEFT, row - BOX_HALF_HEIGHT), BOX_RIGHT - BOX_LEFT, 2 * BOX_HALF_HEIGHT
    named = row < len(graph.states)
    edge: dict[str, Any] = {"edgecolor": theme.wall, "linewidth": 0.8, "linestyle": "-" if named else "--"}
    axes.add_patch(Rectangle(corner, width, height, facecolor=theme.paper, zorder=3, **edge))
    name, action = f"{graph.others:,} other states", ""
    if named:
        filled = width * float(graph.share[row] / graph.share[: len(graph.states)].max())
        axes.add_patch(Rectangle(corner, filled, height, facecolor=theme.chosen, alpha=0.3, zorder=4, linewidth=0))
        name, action = (
            state_name(solution.mdp, graph.states[row]),
            likeliest_actions(solution.mdp, solution.policy, graph.states[row], 1),
        )
    style: dict[str, Any] = {"color": theme.ink, "fontsize": 9, "va": "center", "zorder": 5, "parse_math": False}
    axes.text(BOX_RIGHT - 0.012, row - 0.16, percent(float(graph.share[row])), ha="right", **style)
    # letters may be wide: the name must not run into the share, nor the action out of the box
    for text, shift, room in ((short(name, 26), -0.16, 0.77 * width), (short(action, 33), 0.16, width)):
        written = axes.text(BOX_LEFT + 0.012, row + shift, text, ha="left", **style)
        written.set_clip_path(Rectangle(corner, room, height, transform=axes.transData))


def _arrow_ends(shown: Mask) -> dict[tuple[int, int], tuple[float, float]]:
    """The heights where each arrow leaves its box and enters another, so that arrows on one side do not cross.

    Arrows down (right): those that end here, the nearest on top; staying; those that leave, the farthest on top. Arrows
    up (left) are the mirror image.
    """
    count = shown.shape[0]
    leaves: dict[tuple[int, int], float] = {}
    enters: dict[tuple[int, int], float] = {}
    for row in range(count):
        ended = [(start, row, enters) for start in range(row - 1, -1, -1) if shown[start, row]]
        left = [(row, end, leaves) for end in range(count - 1, row, -1) if shown[row, end]]
        # a loop needs room to be seen
        room = [None] * (1 + (len(ended) + len(left)) // 3)
        stay = [(row, row, leaves), *room, (row, row, enters)] if shown[row, row] else []
        _place_ends(row, [*ended, *stay, *left])
        up = [(row, end, leaves) for end in range(row - 1, -1, -1) if shown[row, end]]
        from_below = [(start, row, enters) for start in range(count - 1, row, -1) if shown[start, row]]
        _place_ends(row, [*up, *from_below])
    return {pair: (leaves[pair], enters[pair]) for pair in leaves}


def _place_ends(row: int, arrows: Sequence[tuple[int, int, dict[tuple[int, int], float]] | None]) -> None:
    for place, arrow in enumerate(arrows):
        if arrow is not None:
            start, end, heights = arrow
            heights[start, end] = row + BOX_HALF_HEIGHT * (2 * (place + 1) / (len(arrows) + 1) - 1)


def _draw_arrow(
    axes: Any, start: int, end: int, heights: tuple[float, float], count: int, weight: float, theme: Theme
) -> None:
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    far = abs(start - end)
    reach = 0.04 + 0.26 * np.sqrt(far / max(3, count - 1)) if far else 0.06
    side, sign = (BOX_RIGHT, 1) if end >= start else (BOX_LEFT, -1)
    bend = side + sign * reach
    points = [(side, heights[0]), (bend, heights[0]), (bend, heights[1]), (side, heights[1])]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    size = 5 + 3 * weight
    # without shrinking, an arrow stops two points before the box
    arrow = FancyArrowPatch(path=path, arrowstyle="-|>", mutation_scale=size, linewidth=0.4 + 1.8 * weight, shrinkB=0)
    arrow.set(color=theme.ink, alpha=0.25 + 0.5 * weight, zorder=2)
    axes.add_patch(arrow)
