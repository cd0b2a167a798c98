"""Where grids of targets are refined."""

import numpy as np
import pytest

import cautious as ca
from cautious._core import targets as kernels
from cautious.returns.backward import Grid, Utility, plan_targets
from cautious.returns.earnings import earnings_of
from cautious.returns.refinement import chord_parts, refined


@pytest.fixture(scope="module")
def earnings():
    return earnings_of(ca.worlds.garnet(5, 2, 3, discount=0.8, seed=4)).with_steps(6)


def planned(earnings, utility, grids):
    return plan_targets(earnings, utility, grids, with_errors=True)


def uneven_grids(earnings, nodes):
    """Around what is left of a target of 2, with nodes that are not alike."""
    rng = np.random.default_rng(1)
    return [Grid(np.array([2.0])), *(Grid(np.sort(rng.uniform(-4, 4, nodes))) for _ in range(earnings.n_steps))]


def test_mass_is_shared_as_chords_share_values(earnings):
    """What a step of planning adds to a linear value is its mean under the mass that is split."""
    mdp, rng = earnings.mdp, np.random.default_rng(0)
    own, behind = np.array([-1.0, 0.0, 0.7]), np.array([-3.0, -2.2, -0.5, 0.1, 1.0, 2.5])
    mass, actions = rng.random((5, 3)), rng.integers(2, size=(5, 3)).astype(np.int32)
    arrived = np.zeros((5, behind.size))
    kernels.split_step(*mdp.csr, earnings.paid, 1.0, actions, own, 0.0, mass, 0.0, behind, 0.0, arrived)
    assert arrived.sum() == pytest.approx(mass.sum())
    left = own[None, :] - np.take_along_axis(earnings.rewards, actions, axis=1)
    assert np.sum(arrived * behind) == pytest.approx(np.sum(mass * left))
    kernels.split_step(*mdp.csr, earnings.paid, 1.0, actions, own, 0.0, mass, 2.0, behind, 0.0, nothing := 0 * arrived)
    assert not nothing.any()


@pytest.mark.parametrize("utility", [Utility("variance"), Utility("entropic", 0.5, 2.0)], ids=lambda one: one.kind)
def test_the_parts_say_what_chords_leave_open(earnings, utility):
    """Grids that are refined by them come close to the value on grids that are very fine."""
    fine = [Grid(np.array([2.0])), *(Grid.even(-4.0, 1e-3, 8001) for _ in range(earnings.n_steps))]
    truth = float(earnings.mdp.start @ planned(earnings, utility, fine).values[:, 0])
    grids, errors, sizes = uneven_grids(earnings, 12), [], []
    for _ in range(6):
        found = planned(earnings, utility, grids)
        parts = chord_parts(earnings, found, 0)
        errors.append(float(earnings.mdp.start @ found.values[:, 0]) - truth)
        sizes.append(sum(grid.count for grid in grids))
        # the parts are an estimate from above, but for what is not convex in values that are not exact
        assert errors[-1] <= 2 * sum(float(part.sum()) for part in parts) + 1e-6
        grids = refined(earnings, found, parts, 2.0, 2.0, sum(float(part.sum()) for part in parts) / 30)
    assert errors[-1] < 2e-3 * errors[0]
    assert min(errors) > -1e-9
    assert sizes[-1] < 0.1 * 8001 * earnings.n_steps


def test_refined_grids_keep_nodes_that_still_matter(earnings):
    grids = uneven_grids(earnings, 30)
    found = planned(earnings, Utility("variance"), grids)
    finer = refined(earnings, found, chord_parts(earnings, found, 0), 1.9, 2.1, 1e-3)
    assert finer[0].count == 129
    assert (finer[0].low, finer[0].high) == (1.9, pytest.approx(2.1))
    for old, new in zip(grids[1:], finer[1:], strict=True):
        assert (np.diff(new.nodes) > 0).all()
        kept = old.nodes[(old.nodes >= new.nodes[0]) & (old.nodes <= new.nodes[-1])]
        assert np.isin(kept, new.nodes).all()
