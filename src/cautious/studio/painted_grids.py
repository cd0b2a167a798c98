"""A painted grid: what the page may paint, the model it means, and grids to start from."""

from dataclasses import dataclass

import numpy as np
from scipy import ndimage

from cautious.arrays import Indices
from cautious.models.tabular import MDP
from cautious.worlds.grids import DRIFT_MAP, MAZE_MAP, WALL, from_grid

LARGEST_SIDE = 60
FLOOR, DANGER, GOAL, REWARD, START = ".", "D", "G", "R", "S"
MARKS = (FLOOR, WALL, DANGER, GOAL, REWARD, START)


@dataclass(frozen=True)
class Pays:
    """Points for entering a cell: any step, danger, the goal (which is never left), a reward (which can be left)."""

    step: float = -0.05
    danger: float = -1.0
    goal: float = 0.0
    reward: float = 1.0


@dataclass(frozen=True)
class Grid:
    """What is painted; ``slip`` is the chance that a move goes to one of its two sides."""

    rows: tuple[str, ...]
    pays: Pays = Pays()
    slip: float = 0.2
    discount: float = 0.95

    def model(self) -> MDP:
        """The grid as a model. Episodes start at the cells marked as start, or anywhere when there is none."""
        painted = "".join(self.rows)
        pays = self.pays
        return from_grid(
            self.rows,
            {FLOOR: pays.step, START: pays.step, DANGER: pays.danger, GOAL: pays.goal, REWARD: pays.reward},
            p=1 - self.slip,
            discount=self.discount,
            absorbing=GOAL if GOAL in painted else "",
            start=START if START in painted else None,
            title="A painted grid",
        )


def areas(mdp: MDP, states: Indices) -> list[Indices]:
    """States on a map that touch each other side by side form one area; without a map all of them do."""
    if mdp.scene is None or len(mdp.scene.cells) != mdp.n_states:
        return [states]
    cells = np.array(mdp.scene.cells)[states]
    marked = np.zeros((len(mdp.scene.grid), len(mdp.scene.grid[0])), dtype=np.int64)
    marked[tuple(cells.T)] = 1
    labels, count = ndimage.label(marked)
    return [states[labels[tuple(cells.T)] == area] for area in range(1, count + 1)]


BRIDGE_MAP = ("..........", ".########.", "SDDDDDDDDG", ".########.", "..........")
ROOMS_MAP = (
    "S....D...#..........",
    ".....D...#..........",
    ".....D.......DDDDDDD",
    ".....D...#...DDDDDDD",
    ".....D...#..........",
    ".........#..........",
    "####..####....#.....",
    "..............#.....",
    "..DDDD........#.....",
    "..DDDD........######",
    "..DDDD..............",
    "..DDDD....DDDDDD....",
    "..........DDDDDD....",
    "######....DDDDDD....",
    ".....#....DDDDDD....",
    ".....#..............",
    ".........#..........",
    ".........#DDDDDDDD..",
    ".........#DDDDDDDD..",
    ".........#.........G",
)

EXAMPLES: dict[str, Grid] = {
    "maze": Grid(MAZE_MAP),
    "drift": Grid(tuple(row.replace(GOAL, REWARD) for row in DRIFT_MAP), Pays(0.3, 0.0, 0.0, 1.0), 0.4, 0.9),
    "bridge": Grid(BRIDGE_MAP, Pays(step=-0.1, danger=-0.1)),
    "rooms": Grid(ROOMS_MAP, Pays(danger=-0.05), discount=0.98),
    "blank": Grid(("." * 12,) * 12),
}
