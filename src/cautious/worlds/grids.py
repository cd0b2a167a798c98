"""Grid worlds: a map of characters, four moves that may slip sideways, rewards paid on entering a cell.

A move goes forward with probability p, left and right of its direction with (1-p)/2 each, never back; a wall or the
edge of the map means staying. The two worlds of the paper's section 6 are here, on maps we publish.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices
from cautious.checks import as_flag, as_number
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.occupancy import policy_occupancy
from cautious.planning import plan

WALL = "#"
MOVES = ("up", "right", "down", "left")
STEPS = ((-1, 0), (0, 1), (1, 0), (0, -1))
# values this close are the same
TIE_TOLERANCE = 1e-9

MAZE_MAP = (
    "..........",
    "..........",
    "..........",
    "..........",
    ".########.",
    ".DDDDDDDD.",
    "S........G",
    ".DDDDDDDD.",
    "..........",
    "..........",
)
DRIFT_MAP = (*("..........",) * 4, *("...DDDDDDD",) * 2, *("..........",) * 3, ".........G")


def from_grid(
    grid: Sequence[str],
    pays: Mapping[str, float],
    *,
    p: float = 0.8,
    discount: float = 0.95,
    absorbing: str = "",
    start: str | None = None,
    title: str = "Grid world",
    story: str = "",
    reward_unit: str = "points",
) -> MDP:
    """A grid world from a map you paint.

    Parameters
    ----------
    grid
        One string per row, all of one length; ``#`` is a wall, every other character is a state, numbered row by row.
    pays
        Reward, in points, for entering (or staying in) a cell with this mark.
    p
        Probability in [0, 1] of moving as intended; the rest is shared by left and right.
    discount
        Per move.
    absorbing
        Marks of cells that are never left; they pay their reward at every step.
    start
        Mark of the cells where episodes start, all equally likely; None: every cell.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.from_grid(["S.G", ".#."], {".": -1, "S": -1, "G": 0}, absorbing="G")
    >>> mdp.n_states, mdp.state_names[-1]
    (5, 'r1c2')
    """
    rows = _checked_map(grid, pays, absorbing, start)
    forward = as_number("p", p, 0.0, 1.0)
    marks = np.array([list(row) for row in rows])
    floor = marks != WALL
    mark_of = marks[floor]
    target = _targets(floor)
    n_states = mark_of.size
    target[np.isin(mark_of, list(absorbing))] = np.flatnonzero(np.isin(mark_of, list(absorbing)))[:, None]
    # columns: ahead, to the right, to the left of each of the four moves
    reached = np.stack([target, np.roll(target, -1, axis=1), np.roll(target, 1, axis=1)], axis=2)
    chance = np.broadcast_to([forward, (1 - forward) / 2, (1 - forward) / 2], reached.shape)
    pair = np.repeat(np.arange(n_states * 4), 3)
    shape = (n_states * 4, n_states)
    transitions = sp.csr_array(sp.coo_array((chance.ravel(), (pair, reached.ravel())), shape=shape))
    pay = np.array([as_number(f"pays[{mark!r}]", pays[mark]) for mark in mark_of.tolist()])
    rewards = sp.csr_array((pay[transitions.indices], transitions.indices, transitions.indptr), shape=shape)
    return MDP(
        transitions,
        rewards,
        discount,
        None if start is None else (mark_of == start) / np.count_nonzero(mark_of == start),
        state_names=[f"r{i}c{j}" for i, j in np.argwhere(floor)],
        action_names=MOVES,
        scene=Scene(title, story, "move", reward_unit, tuple(rows), MOVES),
    )


def maze(
    p: float = 0.8,
    discount: float = 0.95,
    light: float = -0.05,
    dark: float = -1.0,
    goal: float = 0.0,
    start_at_s: bool = False,
) -> MDP:
    """The paper's 10x10 maze: a short corridor between dark cells, or a longer way round.

    Entering a light cell pays ``light`` points, a dark one ``dark``, the goal ``goal``; the goal is never left and
    pays ``goal`` for ever, so keep it 0 unless standing still is meant to pay. Episodes start anywhere, or at the
    cell marked S. The paper's map is missing from its text; this one reproduces its claims. From S, the discounted
    return has mean -0.807 and variance 0.1605 when risk-neutral, -0.831 and 0.0181 with ``Variance`` and caution 10.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.maze()
    >>> mdp.n_states, mdp.action_names
    (92, ('up', 'right', 'down', 'left'))
    """
    light = as_number("light", light)
    pays = {".": light, "S": light, "D": as_number("dark", dark), "G": as_number("goal", goal)}
    start = "S" if as_flag("start_at_s", start_at_s) else None
    story = (
        f"Walk from {'S' if start_at_s else 'anywhere'} to the goal G. The corridor in row 6 is short, but a slip ends "
        "in a dark cell; the way round the dark cells is longer and safe."
    )
    return from_grid(
        MAZE_MAP,
        pays,
        p=p,
        discount=discount,
        absorbing="G",
        start=start,
        title="Maze with a dark corridor",
        story=story,
    )


def drift(p: float = 0.6, discount: float = 0.9, light: float = 0.3, dark: float = 0.0, goal: float = 1.0) -> MDP:
    """The paper's drifted world: a 10x10 grid in which dark cells no longer hurt, they only pay nothing.

    Entering a light cell pays ``light`` points, a dark one ``dark``, the bottom right corner ``goal`` (it can be left
    again). Dark cells: rows 4-5, columns 3-9, counted from 0. The risk-neutral policy spends 7.0 % of its time there;
    with ``KL(drift_prior())`` and caution 1 it is 2.7 %, at 97.1 % of the return.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.drift().shape
    (100, 4)
    """
    story = "The world has drifted since the prior was learned: dark cells used to cost 5, now they only pay nothing."
    return _drift_world(p, discount, light, dark, goal, "Drifted world", story)


def drift_prior_world(
    p: float = 0.4, discount: float = 0.9, light: float = 0.3, dark: float = -5.0, goal: float = 1.0
) -> MDP:
    """The world before the drift, in which the prior is learned: dark cells cost 5 points, moves slip more often.

    Same map as ``drift``; only 40 % of the moves go where intended.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.drift_prior_world().reward_range
    (-5.0, 1.0)
    """
    story = "Dark cells cost 5 points, and six moves in ten slip sideways: experience here teaches to keep well clear."
    return _drift_world(p, discount, light, dark, goal, "World before the drift", story)


def drift_prior(mix: float = 0.05, dark: float = -5.0) -> Array:
    """What was learned before the drift, as a prior (S, A) for ``drift``.

    The occupancy of the risk-neutral policy in ``drift_prior_world(dark=dark)``, mixed with the share ``mix`` in (0, 1]
    of the uniform distribution: without it the prior would forbid most pairs.

    Examples
    --------
    >>> import cautious as ca
    >>> prior = ca.worlds.drift_prior()
    >>> prior.shape, bool(prior.min() > 0)
    ((100, 4), True)
    """
    mix = as_number("mix", mix, 0.0, 1.0, open_ends="(")
    mdp = drift_prior_world(dark=dark)
    worth = mdp.rewards + mdp.discount * mdp.expect_next(plan(mdp, mdp.rewards).values)
    # where actions tie, the first: which one a planner finds is chance
    first = np.argmax(worth >= worth.max(axis=1, keepdims=True) - TIE_TOLERANCE, axis=1)
    learned = policy_occupancy(mdp, np.eye(mdp.n_actions)[first]).occupancy
    return np.asarray((1 - mix) * learned + mix / learned.size)


def dark_cells(mdp: MDP) -> Indices:
    """States (k,) whose cell is marked D on the map of a grid world.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.dark_cells(ca.worlds.drift()).size
    14
    """
    return cells_marked(mdp, "D")


def cells_marked(mdp: MDP, mark: str) -> Indices:
    """States (k,) whose cell has this mark on the map of a grid world; there may be none."""
    if not isinstance(mdp, MDP):
        raise IncompatibleError(f"the cells of a grid world need a ca.MDP, found {type(mdp).__name__}")
    if mdp.scene is None or not mdp.scene.grid:
        raise InputError(f"this model has no map: scene.grid is empty, so no cell is marked {mark!r}")
    grid = mdp.scene.grid
    return np.flatnonzero([grid[i][j] == mark for i, j in mdp.scene.cells]).astype(np.int64)


def _drift_world(p: float, discount: float, light: float, dark: float, goal: float, title: str, story: str) -> MDP:
    pays = {".": as_number("light", light), "D": as_number("dark", dark), "G": as_number("goal", goal)}
    return from_grid(DRIFT_MAP, pays, p=p, discount=discount, title=title, story=story)


def _checked_map(grid: Sequence[str], pays: Mapping[str, float], absorbing: str, start: str | None) -> list[str]:
    if isinstance(grid, str) or not isinstance(grid, Sequence) or not all(isinstance(row, str) for row in grid):
        raise InputError(f"grid must be a sequence of strings, one per row, found {shown(grid)}")
    if not isinstance(pays, Mapping):
        raise InputError(f"pays must map marks to rewards, found {shown(pays)}")
    if not isinstance(absorbing, str):
        raise InputError(f"absorbing must be a text of marks, found {shown(absorbing)}")
    if start is not None and not isinstance(start, str):
        raise InputError(f"start must be one mark of the map or None, found {shown(start)}")
    rows = list(grid)
    if not rows or not rows[0]:
        raise InputError("grid is empty; it needs at least one row with one cell")
    for i, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise InputError(f"grid[{i}] has {len(row)} cells; every row must have {len(rows[0])}, like grid[0]")
        for j, mark in enumerate(row):
            if mark != WALL and mark not in pays:
                raise InputError(f"grid[{i}][{j}] is {mark!r}, which is neither a wall '#' nor a mark in pays")
    present = set("".join(rows)) - {WALL}
    if not present:
        raise InputError("grid has only walls; it needs at least one cell")
    for name, wanted in (("absorbing", absorbing), ("start", "" if start is None else start)):
        for mark in wanted:
            if mark not in present:
                raise InputError(f"{name} names the mark {mark!r}, which is not on the map")
    if start is not None and len(start) != 1:
        raise InputError(f"start must be one mark of the map, found {shown(start)}")
    return rows


def _targets(floor: Array) -> Indices:
    """(S, 4): the state each of the four moves leads to when it does not slip."""
    number = np.full((floor.shape[0] + 2, floor.shape[1] + 2), -1, dtype=np.int64)
    inside = number[1:-1, 1:-1]
    inside[floor] = np.arange(np.count_nonzero(floor))
    i, j = np.nonzero(number >= 0)
    columns = [number[i + di, j + dj] for di, dj in STEPS]
    here = number[i, j]
    return np.stack([np.where(there >= 0, there, here) for there in columns], axis=1)
