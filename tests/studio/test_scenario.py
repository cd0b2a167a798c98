"""A painted grid means the model that the worlds mean, and its danger falls into the areas one sees."""

import numpy as np
import pytest

import cautious as ca
from cautious.studio.scenario import EXAMPLES, LARGEST_SIDE, Grid, areas


def assert_same_model(one, other):
    assert np.array_equal(one.transitions.toarray(), other.transitions.toarray())
    assert np.array_equal(one.rewards, other.rewards)
    assert np.array_equal(one.reward_square, other.reward_square)
    assert np.array_equal(one.start, other.start)
    assert one.discount == other.discount


def test_the_painted_maze_is_the_maze():
    assert_same_model(EXAMPLES["maze"].grid.model(), ca.worlds.maze(start_at_s=True))


def test_the_painted_drift_is_the_drifted_world():
    assert_same_model(EXAMPLES["drift"].grid.model(), ca.worlds.drift())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_solved_and_fits_the_limit(name):
    grid = EXAMPLES[name].grid
    assert max(len(grid.rows), len(grid.rows[0])) <= LARGEST_SIDE
    assert ca.solve(ca.Problem(grid.model())).status is ca.Status.SOLVED


def test_without_a_painted_start_episodes_start_anywhere():
    assert np.array_equal(Grid(("..", "#G")).model().start, np.full(3, 1 / 3))
    assert np.array_equal(Grid(("S.", "#G")).model().start, [1, 0, 0])


def flooded(cells):
    """Areas by hand: cells that touch side by side."""
    left, found = set(cells), []
    while left:
        area, edge = set(), [left.pop()]
        while edge:
            i, j = edge.pop()
            area.add((i, j))
            near = {(i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)} & left
            left -= near
            edge += near
        found.append(area)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_areas_are_those_of_a_flood(seed):
    rng = np.random.default_rng(seed)
    rows = tuple("".join(row) for row in rng.choice([".", "D", "#"], size=(7, 9)))
    mdp = Grid((*rows, "." * 9)).model()
    cells = mdp.scene.cells
    danger = np.flatnonzero([mdp.scene.grid[i][j] == "D" for i, j in cells])
    found = [{cells[state] for state in area} for area in areas(mdp, danger)]
    assert sorted(map(sorted, found)) == sorted(map(sorted, flooded([cells[state] for state in danger])))


def test_without_a_map_there_is_one_area():
    states = np.array([0, 2])
    assert [area.tolist() for area in areas(ca.worlds.queue(), states)] == [[0, 2]]
