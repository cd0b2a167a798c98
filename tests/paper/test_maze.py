"""Figures 1 and 2: paths against brute force, intervals of known numbers, claims that fail without an effect."""

import dataclasses

import numpy as np
import pytest

import cautious as ca
from cautious.certificate.policy_evaluation import evaluate_policy
from cautious.errors import InputError
from cautious.paper import figure_1, figure_2, maze_training
from cautious.paper.evidence import QUICK, Scale
from cautious.paper.maze_paths import (
    cell_rewards,
    draw_path,
    draw_rewards,
    first_entries,
    share_entering,
    spread_out,
    stops,
    walk,
)
from cautious.report.canvas import DARK, LIGHT, new_figure, png
from cautious.sweeps.statistics import interval
from cautious.worlds.grids import cells_marked

T_2, T_3 = 4.302652729911275, 3.182446305284263  # Student's t at 97.5 % with 2 and 3 degrees of freedom


@pytest.fixture(scope="module")
def walks():
    return figure_1.measure(ca.worlds.maze(), ca.worlds.maze(start_at_s=True), seeds=4)


@pytest.fixture(scope="module")
def flat():
    """A maze in which dark cells cost no more than light ones."""
    return ca.worlds.maze(dark=-0.05), ca.worlds.maze(dark=-0.05, start_at_s=True)


@pytest.fixture(scope="module")
def training():
    maze, from_s = ca.worlds.maze(), ca.worlds.maze(start_at_s=True)
    return maze_training.measure(maze, from_s, seeds=2, marks=(1_000,), rounds=3)


# exact returns where the goal pays: they are told, and decide nothing
PAYING = [(-1.0, 2.0), (-1.5, 0.5)]


def by_hand(grid, moves, turns):
    """The cells visited when every move goes where it should."""
    step = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
    i, j = next((i, row.index("S")) for i, row in enumerate(grid) if "S" in row)
    visited = [(i, j)]
    for _ in range(turns):
        di, dj = (0, 0) if grid[i][j] == "G" else step[moves[i, j]]
        if 0 <= i + di < len(grid) and 0 <= j + dj < len(grid[0]) and grid[i + di][j + dj] != "#":
            i, j = i + di, j + dj
        visited.append((i, j))
    return visited


def test_a_sure_path_is_the_one_found_by_hand():
    grid = ["S.#", ".DG", "..."]
    mdp = ca.worlds.from_grid(grid, {"S": 0, ".": 0, "D": -1, "G": 1}, p=1.0, absorbing="G", start="S")
    rng = np.random.default_rng(3)
    for _ in range(20):
        choice = rng.integers(4, size=mdp.n_states)
        policy = np.eye(4)[choice]
        cells = mdp.scene.cells
        moves = {cell: mdp.action_names[a] for cell, a in zip(cells, choice, strict=True)}
        paths = walk(mdp, policy, 3, 7, seed=0)
        expected = by_hand(grid, moves, 7)
        assert [[cells[state] for state in path] for path in paths] == [expected] * 3
        assert share_entering(paths, cells_marked(mdp, "D")) == float((1, 1) in expected)


def test_the_share_of_paths_is_the_chance_by_powers_of_the_chain():
    mdp, moves, count = ca.worlds.maze(start_at_s=True), 60, 4000
    policy = np.random.default_rng(0).dirichlet(np.ones(4), size=mdp.n_states)
    dark = cells_marked(mdp, "D")
    np.testing.assert_array_equal(dark, ca.worlds.dark_cells(mdp))
    chain = np.asarray(mdp.under(policy).todense())
    chain[dark] = np.eye(mdp.n_states)[dark]
    exact = float((mdp.start @ np.linalg.matrix_power(chain, moves))[dark].sum())
    found = share_entering(walk(mdp, policy, count, moves, seed=1), dark)
    assert 0.1 < exact < 0.99
    assert abs(found - exact) < 4 * np.sqrt(exact * (1 - exact) / count)


def test_same_seed_same_paths():
    mdp, policy = ca.worlds.maze(), np.full((92, 4), 0.25)
    assert np.array_equal(walk(mdp, policy, 5, 20, seed=2), walk(mdp, policy, 5, 20, seed=2))
    assert not np.array_equal(walk(mdp, policy, 5, 20, seed=2), walk(mdp, policy, 5, 20, seed=3))


def test_stops_and_first_entries():
    cells, lasted = stops(np.array([4, 4, 4, 7, 4, 9, 9]))
    assert cells.tolist() == [4, 7, 4, 9]
    assert lasted.tolist() == [3, 1, 1, 0]
    entries = first_entries(np.array([[0, 1, 2], [0, 0, 0], [2, 1, 1]]), np.array([2]))
    assert entries.tolist() == [2, 0]


def test_later_visits_of_a_cell_are_drawn_apart():
    points = spread_out(np.array([0, 1, 0, 1, 0]), np.array([[0.0, 0.0], [0.0, 1.0]]))
    assert len({tuple(point) for point in points.round(6)}) == 5
    assert np.abs(points - [[0, 0], [1, 0], [0, 0], [1, 0], [0, 0]]).max() < 0.5


def test_cells_have_rewards_and_marks():
    assert set(cell_rewards(ca.worlds.maze(light=-2, dark=-3, goal=5)).tolist()) == {-2.0, -3.0, 5.0}
    transitions = np.full((2, 1, 2), 0.5)
    with pytest.raises(InputError, match=r"scene\.grid is empty, so no cell is marked 'D'"):
        cells_marked(ca.MDP(transitions, np.zeros((2, 1)), 0.9), "D")


def test_the_drawn_map_shows_every_reward_and_the_walls():
    figure = new_figure(LIGHT, 3, 3)
    axes = figure.subplots()
    mdp = ca.worlds.maze(start_at_s=True)
    _, levels = draw_rewards(axes, mdp, LIGHT)
    picture = axes.images[0].get_array()
    assert levels.tolist() == [-1.0, -0.05, 0.0]
    shades = {mark: set() for mark in "#D.GS"}
    for (i, j), mark in np.ndenumerate([list(row) for row in mdp.scene.grid]):
        shades[mark].add(tuple(picture[i, j]))
    assert all(len(found) == 1 for found in shades.values())
    assert len(set.union(*shades.values())) == 4
    draw_path(axes, mdp, np.array([0, 0, 1]), LIGHT.chosen)
    draw_path(axes, mdp, np.array([0, 0, 0]), LIGHT.chosen)
    assert png(figure)


def hand_made(walks, shares):
    """Walks with given shares per caution: (dark, goal), one number per seed."""
    rows = [
        dict(walks.rows[0]) | {"caution": caution, "seed": seed, figure_1.DARK_SHARE: d, figure_1.GOAL_SHARE: g}
        for caution, (dark, goal) in shares.items()
        for seed, (d, g) in enumerate(zip(dark, goal, strict=True))
    ]
    return dataclasses.replace(walks, rows=tuple(rows))


def test_intervals_of_known_numbers(walks):
    ones = (1.0, 1.0, 1.0)
    known = hand_made(walks, {0.0: ((0.2, 0.3, 0.4), ones), 10.0: ((0.1, 0.1, 0.1), ones), 50.0: ((0.0,) * 3, ones)})
    avoids, reaches = figure_1.claims(known)
    change = avoids.numbers["difference"]
    assert change.mean == pytest.approx(-0.2)
    assert change.high == pytest.approx(-0.2 + T_2 * 0.1 / np.sqrt(3))
    assert not avoids.holds
    assert reaches.holds
    four = interval([1.0, 2.0, 3.0, 4.0])
    assert four.high - four.mean == pytest.approx(T_3 * np.sqrt(5 / 3) / 2)


def test_claims_follow_the_intervals(walks):
    ones, some, less, none = (1.0,) * 3, (0.2, 0.21, 0.22), (0.1, 0.11, 0.1), (0.0,) * 3

    def outcome(neutral, averse, more, goal):
        shares = {0.0: (neutral, ones), 10.0: (averse, goal), 50.0: (more, ones)}
        return tuple(claim.holds for claim in figure_1.claims(hand_made(walks, shares)))

    assert outcome(some, less, none, ones) == (True, True)
    assert outcome(some, less, none, (1.0, 0.9, 1.0)) == (True, False)
    assert outcome(less, some, none, ones) == (False, True)
    assert outcome(some, less, less, ones) == (False, True)


def test_figure_1_on_the_maze(walks):
    part_claims = figure_1.claims(walks)
    assert all(claim.holds is True for claim in part_claims)
    assert len({tuple(row) for row in walks.rows}) == 1
    assert len(walks.rows) == 3 * 4
    # the worlds' docstring, computed elsewhere
    assert walks.per_seed(10.0, "exact variance of the return")[0] == pytest.approx(0.0181, abs=1e-4)


def test_figure_1_without_dark_cells_to_avoid(flat):
    avoids, reaches = figure_1.claims(figure_1.measure(*flat, seeds=4))
    assert not avoids.holds
    assert reaches.holds


def test_where_the_goal_pays_a_larger_caution_stays_away():
    paying = ca.worlds.maze(goal=1.0), ca.worlds.maze(goal=1.0, start_at_s=True)
    found = figure_1.staying(*paying)
    assert found.caution == 100
    assert found.reach == 0
    assert abs(found.variance) < 1e-12
    assert found.goal_pays == 1
    assert figure_1.staying(*paying, cautions=(1.0,)) is None
    # it does move, but only among the light cells
    policy = ca.solve(ca.Problem(paying[0], ca.Variance(), 100.0)).policy
    visited = np.unique(walk(paying[1], policy, 10, 50, seed=0))
    assert visited.size > 1
    assert set(cell_rewards(paying[1])[visited]) == {-0.05}


def test_a_quick_figure_1():
    part = figure_1.make(Scale(seeds=3, quick=True))
    assert part.key == "figure-1"
    assert all(claim.holds for claim in part.claims)
    assert "+1 a step" in part.claims[1].caveat
    assert len({tuple(row) for row in part.rows}) == 1
    assert png(part.draw(LIGHT)).startswith(b"\x89PNG")


def test_rows_of_figure_2_against_the_solvers(training):
    assert len({tuple(row) for row in training.rows}) == 1
    at, objective = training.table(maze_training.ASCENT, maze_training.AVERSE, "objective")
    assert at.tolist() == [0, 1, 2, 3]
    assert objective[0, 0] == pytest.approx(training.uniform_objective)
    expected = [one.objective for one in training.ascent.rounds]
    assert objective[0, 1:] == pytest.approx(expected, abs=1e-6)
    assert all(float(row["gap"]) >= -1e-9 for row in training.rows)
    drawn = [row for row in training.rows if row["method"] in maze_training.LEARNERS]
    assert all((row["mean"] == "") == (row not in drawn) for row in training.rows)
    # a hundred trajectories scatter around the exact mean
    off = [(row["mean"] - row["exact mean"]) / np.sqrt(row["exact variance"] / 100) for row in drawn]
    assert max(np.abs(off)) < 4
    learned = ca.learn(ca.worlds.maze().simulator(), ca.Variance(), 10.0, samples=1_000, seed=1)
    worth = evaluate_policy(training.problem, learned.policy).objective
    # a run of ca.learn keeps a tenth of the samples to try its policy: close to ours, not equal
    assert training.last(maze_training.PLUG_IN, maze_training.AVERSE, "objective")[1] == pytest.approx(worth, abs=0.6)


def test_a_seed_of_figure_2_does_not_depend_on_the_others(training):
    alone = maze_training.measure(ca.worlds.maze(), ca.worlds.maze(start_at_s=True), 1, (1_000,), 3)
    kept = [row for row in training.rows if row["seed"] == 0]
    assert list(alone.rows) == kept


def changed(training, columns):
    """The same training with (method, policy, name) -> one number per seed at the end."""
    rows = []
    for row in training.rows:
        new = dict(row)
        for (method, policy, name), values in columns.items():
            if row["method"] == method and row["policy"] == policy and row["at"] == training.samples:
                new[name] = values[int(row["seed"])]
        rows.append(new)
    return dataclasses.replace(training, rows=tuple(rows))


def test_claims_of_figure_2_follow_the_intervals(training):
    plug_in, neutral, averse = maze_training.PLUG_IN, maze_training.NEUTRAL, maze_training.AVERSE

    def holds(neutral_mean, averse_mean, neutral_variance, averse_variance):
        columns = {}
        for prefix in ("", "exact "):
            columns |= {
                (plug_in, neutral, f"{prefix}mean"): neutral_mean,
                (plug_in, averse, f"{prefix}mean"): averse_mean,
                (plug_in, neutral, f"{prefix}variance"): neutral_variance,
                (plug_in, averse, f"{prefix}variance"): averse_variance,
            }
        return [claim.holds for claim in figure_2.claims(changed(training, columns), PAYING)[-2:]]

    assert holds((-1.0, -1.0), (-1.09, -1.09), (2.0, 3.0), (1.0, 2.0)) == [True, True]
    assert holds((-1.0, -1.0), (-1.11, -1.11), (2.0, 2.0), (2.0, 2.0)) == [False, False]
    # a difference that two seeds do not agree on
    assert holds((-1.0, -1.0), (-1.2, -0.8), (2.0, 2.0), (1.0, 1.9)) == [False, False]


def test_figure_2_on_few_samples_says_that_algorithm_2_is_far_off(training):
    sampled, ascent, *_ = figure_2.claims(training, PAYING)
    assert not sampled.holds
    assert sampled.numbers["gap"].low > 1
    assert ascent.numbers["gap of the risk-neutral policy"] == pytest.approx(0.0037, abs=1e-4)
    assert not ascent.holds  # three rounds are too few
    assert png(figure_2.draw(training, DARK)).startswith(b"\x89PNG")


def test_figure_2_where_dark_cells_are_like_light_ones(flat):
    training = maze_training.measure(*flat, seeds=3, marks=(1_000,), rounds=2)
    *_, lower = figure_2.claims(training, PAYING)
    assert not lower.holds
    neutral, averse = figure_2.compare_exactly(*flat)
    assert averse[1] == pytest.approx(neutral[1], rel=0.01)


@pytest.mark.slow
def test_a_quick_figure_2():
    part = figure_2.make(QUICK)
    sampled, ascent, plug_in, _, comparable, lower = part.claims
    assert not sampled.holds
    assert all(claim.holds for claim in (ascent, plug_in, comparable, lower))
    assert "+1 a step" in lower.caveat
    assert len({tuple(row) for row in part.rows}) == 1
    assert all(len(video.content) < 400_000 for video in part.videos)
