"""A user's function of a few numbers, against the same risk written in another way."""

from dataclasses import dataclass

import numpy as np
import pytest

import cautious as ca
from cautious.risks.features import FeatureRisk
from cautious.testing import check_risk


@dataclass(frozen=True, eq=False)
class SquaredDistance(FeatureRisk):
    """Half the squared distance of some numbers from their targets."""

    features: np.ndarray
    targets: np.ndarray

    def outer(self, numbers):
        return 0.5 * float(np.sum((numbers - self.targets) ** 2))

    def outer_gradient(self, numbers):
        return numbers - self.targets


def shares_of_states(mdp):
    """The share of time in each state, as features."""
    return np.repeat(np.eye(mdp.n_states)[:, :, None], mdp.n_actions, axis=2)


@pytest.mark.parametrize("horizon", [None, 4])
def test_it_is_solved_as_the_same_risk_of_the_package(horizon):
    mdp = ca.worlds.garnet(12, 3, 3, 0.9, seed=1)
    prior = np.random.default_rng(2).dirichlet(np.ones(mdp.n_states))
    own = SquaredDistance(shares_of_states(mdp), prior)
    check_risk(own, mdp)
    ours = ca.solve(ca.Problem(mdp, own, 20.0, horizon=horizon)).require()
    theirs = ca.solve(ca.Problem(mdp, ca.Quadratic(prior), 20.0, horizon=horizon)).require()
    assert ours.certificate.kind == "optimal"
    assert abs(ours.objective - theirs.objective) <= ours.gap + theirs.gap
    assert ours.risk == pytest.approx(theirs.risk, rel=1e-3)


def test_it_stands_beside_other_risks_and_limits():
    mdp = ca.worlds.garnet(12, 3, 3, 0.9, seed=1)
    own = SquaredDistance(shares_of_states(mdp)[:1], np.array([0.2]))
    problem = ca.Problem(mdp, own + ca.Entropy(), 2.0, constraints=[ca.Exposure([3]) <= 0.1, own <= 0.01])
    found = ca.solve(problem).require()
    assert own.value(found.occupancy) <= 0.01
    assert found.occupancy[3].sum() <= 0.1


def test_features_of_another_model_are_refused():
    mdp = ca.worlds.garnet(12, 3, 3, 0.9, seed=1)
    own = SquaredDistance(np.ones((2, 3, 12)), np.zeros(2))
    with pytest.raises(
        ca.IncompatibleError, match=r"SquaredDistance.features has shape \(2, 3, 12\); expected \(m, 12"
    ):
        ca.Problem(mdp, own)
