"""Frontiers over the bound of a limit: points, tables, drawings, pages and the words for shares and money."""

import itertools

import numpy as np
import pytest

import cautious as ca
from cautious.report.limit_words import limit_words

BOUNDS = [0.001, 0.002, 0.004, 0.05]


def machine(**words):
    mdp = ca.worlds.machine_replacement()
    scene = ca.Scene("Pumps", step="month", reward_unit="EUR", **words)
    names = {"state_names": mdp.state_names, "action_names": mdp.action_names}
    return ca.MDP(mdp.transitions, mdp.rewards, mdp.discount, mdp.start, allowed=mdp.allowed, scene=scene, **names)


@pytest.fixture(scope="module")
def points():
    return ca.frontier(machine(), constraints=[ca.Exposure("broken") <= 0], limits=BOUNDS)


def test_points_are_the_solutions_of_their_limits(points):
    assert points.limits == BOUNDS
    for bound, point in zip(BOUNDS, points, strict=True):
        alone = ca.solve(ca.Problem(machine(), constraints=[ca.Exposure("broken") <= bound]))
        assert point.status is alone.status is ca.Status.SOLVED
        assert point.objective == pytest.approx(alone.objective, rel=2e-6)
    # concave in the bound, with the prices as slopes
    for first, second in itertools.pairwise(points):
        gained, room = second.objective - first.objective, second.constraints[0].bound - first.constraints[0].bound
        assert -1e-3 <= gained <= first.constraints[0].price * room + 1e-3
    rows = points.table()
    assert [row["limit"] for row in rows] == BOUNDS
    assert all(row["value"] <= row["limit"] for row in rows)


def test_words_are_shares_and_money(points):
    words = limit_words(points[1].constraints[0], points[1].mdp, points[1].gap)
    assert words.startswith("time in broken 0.2 %, at most 0.2 %: kept; one more percentage point is worth ")
    assert "EUR per month)" in words
    assert limit_words(points[-1].constraints[0], points[-1].mdp, points[-1].gap).endswith("more room is worth nothing")
    # a price times what rounding leaves of the slack is small; the room is worth something all the same
    assert "one more percentage point is worth" in limit_words(points[2].constraints[0], points[2].mdp, points[2].gap)


def test_plot_and_page(points, tmp_path):
    pytest.importorskip("matplotlib")
    axes = points.plot().axes[0]
    assert axes.get_xlabel() == "time in broken, at most (%)"
    points.report(tmp_path / "limits.html")
    text = (tmp_path / "limits.html").read_text(encoding="utf-8")
    assert "what the limit costs" in text
    assert "at most 0.2&nbsp;%" in text


def test_out_of_reach_and_returns():
    mdp = machine()
    best = ca.solve(ca.Problem(mdp)).expected_return
    found = ca.frontier(
        mdp,
        ca.Exposure("broken"),
        constraints=[ca.Return(mdp.rewards) >= 0],
        limits=[0.9 * best, 1.1 * best],
        caution=1e5,
    )
    assert [one.status for one in found] == [ca.Status.SOLVED, ca.Status.INFEASIBLE]
    assert found[0].caution == 1e5
    assert found[0].constraints[0].name.startswith("Return >= ")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda mdp: ca.frontier(mdp, limits=[0.1]), "constraints has 0"),
        (lambda mdp: ca.frontier(mdp, ca.Entropy(), [1.0], limits=[0.1]), "along cautions or along limits"),
        (lambda mdp: ca.frontier(mdp, constraints=[ca.Exposure([0]) <= 0.1], limits=[]), "limits is empty"),
        (lambda mdp: ca.frontier(mdp, constraints=[ca.Exposure([0]) <= 0.1], limits=[np.nan]), "limits[0] is nan"),
    ],
)
def test_wrong_requests(call, message):
    with pytest.raises(ca.InputError) as raised:
        call(machine())
    assert message in str(raised.value)
