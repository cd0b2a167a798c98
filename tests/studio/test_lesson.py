"""The numbers of the lesson on the studio's page are those the studio shows."""

from dataclasses import replace
from pathlib import Path

import pytest

import cautious as ca
from cautious.studio.scenario import Limits
from cautious.studio.session import Session
from studio.conftest import statement

LESSON = (Path(__file__).parents[2] / "docs" / "studio.md").read_text().partition("five steps")[2]


def shown(asked):
    """(return, share of time in danger in percent)."""
    session = Session(time_limit_seconds=60.0)
    solution = session.solve(asked, lambda: False)
    return solution.expected_return, 100 * solution.occupancy[session.scenario(asked).danger].sum(), solution.status


def test_the_lesson():
    price = statement("bridge", "peak", 0.0)
    earned, danger, _ = shown(price)
    assert f"the return is {earned:.2f}, and {danger:.1f} % of the discounted time" in LESSON.replace("\n   ", " ")
    assert shown(replace(price, caution=0.7))[1] > 30
    turned, danger, _ = shown(replace(price, caution=1.0))
    assert f"the way round costs {earned - turned:.1f} points" in LESSON
    assert f"falls to {danger:.1f} %" in LESSON
    for caution in (2.0, 5.0):
        assert f"the share is {shown(replace(price, caution=caution))[1]:.1f} %" in LESSON
    dry = replace(price, grid=replace(price.grid, slip=0.0), caution=2.0)
    assert shown(dry)[1] < 1e-6
    limit = statement("bridge", "none", 0.0, Limits(0.05))
    session = Session(time_limit_seconds=60.0)
    solution = session.solve(limit, lambda: False)
    assert solution.constraints[0].value == pytest.approx(0.05, rel=1e-4)
    assert f"the return is {solution.expected_return:.2f}" in LESSON.partition("4. **")[2].replace("\n   ", " ")
    assert f"worth {solution.constraints[0].price / 100:.4f}" in LESSON.replace("\n   ", " ")
    anywhere = replace(limit.grid, rows=tuple(row.replace("S", ".") for row in limit.grid.rows))
    assert shown(replace(limit, grid=anywhere))[2] is ca.Status.SOLVED
    assert shown(replace(limit, grid=anywhere, limits=Limits(0.01)))[2] is ca.Status.INFEASIBLE
