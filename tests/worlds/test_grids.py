import numpy as np
import pytest

from cautious import worlds
from cautious.errors import InputError
from cautious.occupancy import policy_occupancy, policy_values
from cautious.planning import plan
from cautious.risks.scalar import Variance

STEPS = {"up": (-1, 0), "right": (0, 1), "down": (1, 0), "left": (0, -1)}
SIDES = {"up": ("left", "right"), "right": ("up", "down"), "down": ("right", "left"), "left": ("down", "up")}


def dense(mdp):
    return mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)


def outcome_table(mdp):
    """(S, A, S) rewards of the stored outcomes."""
    table = mdp.transitions.copy()
    table.data = mdp.outcome_rewards.copy()
    return table.toarray().reshape(*mdp.shape, mdp.n_states)


def by_hand(grid, pays, p, absorbing):
    """The rules told again, cell by cell with a dictionary."""
    cells = [(i, j) for i, row in enumerate(grid) for j, mark in enumerate(row) if mark != "#"]
    probability = np.zeros((len(cells), 4, len(cells)))
    for s, (i, j) in enumerate(cells):
        for a, move in enumerate(STEPS):
            ways = [(move, p), (SIDES[move][0], (1 - p) / 2), (SIDES[move][1], (1 - p) / 2)]
            for way, chance in ways:
                there = (i + STEPS[way][0], j + STEPS[way][1])
                stays = grid[i][j] in absorbing or there not in cells
                probability[s, a, s if stays else cells.index(there)] += chance
    pay = np.array([pays[grid[i][j]] for i, j in cells])
    return probability, pay


def return_moments(mdp, policy):
    """Mean and variance (S,) of the discounted return from every state: two linear systems, outcome by outcome."""
    chance = np.einsum("sa,sat->st", policy, dense(mdp))
    joint = np.einsum("sa,sat,sat->st", policy, dense(mdp), outcome_table(mdp))
    square = np.einsum("sa,sat,sat->s", policy, dense(mdp), outcome_table(mdp) ** 2)
    gamma, eye = mdp.discount, np.eye(mdp.n_states)
    mean = np.linalg.solve(eye - gamma * chance, joint.sum(axis=1))
    second = np.linalg.solve(eye - gamma**2 * chance, square + 2 * gamma * joint @ mean)
    return mean, second - mean**2


def variance_policy(mdp, caution):
    """The best policy for per-step variance by a scan over its scalar."""
    risk, best, warm = Variance().bind(mdp), (-np.inf, None), None
    for t in np.linspace(*risk.interval(), 201):
        warm = plan(mdp, mdp.rewards - caution * (1 - mdp.discount) * risk.table(t), warm=warm)
        policy = warm.policy(mdp.n_actions)
        d = policy_occupancy(mdp, policy).occupancy
        best = max(
            best, (np.sum(d * mdp.rewards) / (1 - mdp.discount) - caution * risk.value(d), policy), key=lambda x: x[0]
        )
    return best[1]


@pytest.mark.parametrize("p", [0.8, 1.0, 0.0])
def test_a_small_map_follows_the_rules_told_by_hand(p):
    grid, pays = ("S.#", ".DG"), {"S": -1, ".": -1, "D": -7, "G": 2}
    mdp = worlds.from_grid(grid, pays, p=p, absorbing="G", start="S")
    probability, pay = by_hand(grid, pays, p, "G")
    np.testing.assert_allclose(dense(mdp), probability, atol=1e-15)
    np.testing.assert_array_equal(outcome_table(mdp), np.where(probability > 0, pay, 0))
    assert mdp.start.tolist() == [1, 0, 0, 0, 0]
    assert mdp.state_names == ("r0c0", "r0c1", "r1c0", "r1c1", "r1c2")


def test_the_maze_follows_the_rules_told_by_hand():
    mdp = worlds.maze()
    pays = {".": -0.05, "S": -0.05, "D": -1.0, "G": 0.0}
    probability, pay = by_hand(mdp.scene.grid, pays, 0.8, "G")
    np.testing.assert_allclose(dense(mdp), probability, atol=1e-15)
    np.testing.assert_allclose(mdp.rewards, probability @ pay, atol=1e-15)
    np.testing.assert_array_equal(mdp.start, np.full(92, 1 / 92))
    assert mdp.scene.action_arrows == mdp.action_names == ("up", "right", "down", "left")
    goal = mdp.state_names.index("r6c9")
    assert dense(mdp)[goal, :, goal].tolist() == [1, 1, 1, 1]


def test_the_maze_shows_the_published_means_and_variances_of_the_return():
    mdp = worlds.maze()
    start = mdp.state_names.index("r6c0")
    neutral = plan(mdp, mdp.rewards).policy(4)
    mean, variance = return_moments(mdp, neutral)
    assert (round(mean[start], 3), round(variance[start], 4)) == (-0.807, 0.1605)
    mean, variance = return_moments(mdp, variance_policy(mdp, 10.0))
    assert (round(mean[start], 3), round(variance[start], 4)) == (-0.831, 0.0181)
    assert worlds.maze(start_at_s=True).start[start] == 1


def test_a_goal_that_pays_makes_large_caution_sit_still():
    mdp = worlds.maze(goal=1.0)
    policy = variance_policy(mdp, 1000.0)
    reached = policy_occupancy(mdp, policy).occupancy.sum(axis=1)[mdp.state_names.index("r6c9")]
    assert reached < 0.05


def test_the_drifted_world_shows_the_published_dark_shares():
    cp = pytest.importorskip("cvxpy", reason="the reference program is written in CVXPY")
    mdp, prior = worlds.drift(), worlds.drift_prior()
    dark = worlds.dark_cells(mdp)
    assert [mdp.state_names[s] for s in dark] == [f"r{i}c{j}" for i in (4, 5) for j in range(3, 10)]
    neutral = policy_occupancy(mdp, plan(mdp, mdp.rewards).policy(4)).occupancy
    assert round(100 * neutral[dark].sum(), 1) == 7.0
    d = cp.Variable(mdp.shape, nonneg=True)
    flow = mdp.discount * (mdp.transitions.T @ cp.vec(d, order="C")) + (1 - mdp.discount) * mdp.start
    gain = cp.sum(cp.multiply(d, mdp.rewards)) / (1 - mdp.discount)
    program = cp.Problem(cp.Maximize(gain - cp.sum(cp.rel_entr(d, prior))), [cp.sum(d, axis=1) == flow])
    program.solve(solver="CLARABEL")
    share = np.sum(d.value * mdp.rewards) / np.sum(neutral * mdp.rewards)
    assert (round(100 * d.value[dark].sum(), 1), round(100 * share, 1)) == (2.7, 97.1)


def test_the_prior_is_the_behaviour_of_the_world_before_the_drift():
    mdp, prior = worlds.drift_prior_world(), worlds.drift_prior(mix=0.2)
    assert prior.sum() == pytest.approx(1)
    assert prior.min() == pytest.approx(0.2 / 400)
    learned = (prior - 0.2 / 400) / 0.8
    value = np.sum(learned * mdp.rewards) / (1 - mdp.discount)
    policy = plan(mdp, mdp.rewards).policy(4)
    assert value == pytest.approx(mdp.start @ policy_values(mdp, policy, mdp.rewards))
    assert worlds.drift_prior(mix=1.0) == pytest.approx(np.full((100, 4), 1 / 400))


@pytest.mark.parametrize(
    ("grid", "pays", "options", "message"),
    [
        ("S.", {}, {}, "grid must be a sequence of strings"),
        ([], {}, {}, "grid is empty"),
        (["..", "."], {".": 0}, {}, r"grid\[1\] has 1 cells; every row must have 2"),
        ([".x"], {".": 0}, {}, r"grid\[0\]\[1\] is 'x'"),
        (["##"], {}, {}, "only walls"),
        (["."], {".": np.nan}, {}, r"pays\['.'\] is nan"),
        (["."], {".": 0}, {"p": 1.2}, "p is 1.2"),
        (["."], {".": 0}, {"absorbing": "G"}, "absorbing names the mark 'G'"),
        ([".."], {".": 0}, {"start": "S"}, "start names the mark 'S'"),
        ([".S"], {".": 0, "S": 0}, {"start": ".S"}, "start must be one mark"),
    ],
)
def test_a_wrong_map_is_refused_by_name(grid, pays, options, message):
    with pytest.raises(InputError, match=message):
        worlds.from_grid(grid, pays, **options)


def test_other_wrong_input_is_refused_by_name():
    with pytest.raises(InputError, match="dark is inf"):
        worlds.maze(dark=np.inf)
    with pytest.raises(InputError, match="light must be a number"):
        worlds.drift(light="bright")
    with pytest.raises(InputError, match=r"mix is 0\.0"):
        worlds.drift_prior(mix=0)
    with pytest.raises(InputError, match="no map"):
        worlds.dark_cells(worlds.river_swim())
