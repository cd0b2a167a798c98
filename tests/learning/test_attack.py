"""What attacks on ``ca.learn`` found: very short runs, infinite estimates, changed checkpoints, risks that bind."""

from dataclasses import dataclass

import numpy as np
import pytest
from plain_simulators import Plain, small

import cautious as ca
from cautious import storage as _storage
from cautious.learning.checkpoints import Checkpoint
from cautious.learning.statements.affine_lower_bounds import sure_bound
from cautious.learning.task import make_task

METHODS = ["plug-in", "primal-dual", "paper"]


@pytest.mark.parametrize("risk", [ca.Variance(), ca.CVaR(0.9), ca.Variance() + ca.Entropy()])
@pytest.mark.parametrize("samples", [4, 5, 8, 12])
def test_legs_without_samples_make_no_sweep(risk, samples):
    learned = ca.learn(small(n_states=2, n_actions=2).simulator(), risk, 1.0, samples, "primal-dual")
    np.testing.assert_allclose(learned.policy.sum(axis=1), 1)
    assert learned.certificate.facts["samples"] <= samples


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("samples", [15, 30, 600])
def test_an_infinite_estimate_leaves_a_bound_that_is_a_number(method, samples):
    learned = ca.learn(small().simulator(), ca.SafeSet([4], 0.01), 1.0, samples, method)
    assert learned.objective == -np.inf
    assert not np.isnan(learned.upper_bound)
    assert learned.gap == np.inf


@pytest.mark.parametrize("method", METHODS)
def test_more_samples_than_can_be_counted_are_refused(method):
    with pytest.raises(ca.InputError, match="samples must be a whole number of at most 9007199254740992"):
        ca.learn(small().simulator(), samples=10**30, method=method)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("risk", [None, ca.Variance(), ca.Entropy()])
@pytest.mark.parametrize("size", [1e300, 1e-300])
def test_rewards_whose_squares_are_no_numbers_are_refused(method, risk, size):
    mdp = small()
    scaled = ca.MDP(mdp.transitions, size * mdp.rewards, mdp.discount, mdp.start)
    with pytest.raises(ca.InputError, match="rescale the rewards"):
        ca.learn(scaled.simulator(), risk, 1.0, 600, method)


def stopped(path, method, simulator=None):
    """A checkpoint in the middle of a run."""
    pieces = iter(range(10**9))
    return ca.learn(
        simulator or small().simulator(),
        samples=2500,
        method=method,
        checkpoint=path,
        callback=lambda _: next(pieces) >= 1,
    )


def changed(path, change):
    """The file with something else in it, otherwise well formed."""
    header, arrays = _storage.read(path, "checkpoint")
    change(header, arrays)
    _storage.write(path, "checkpoint", {k: v for k, v in header.items() if k not in ("format", "version")}, arrays)


def narrower(arrays):
    name = next(name for name in arrays if arrays[name].dtype == np.float64)
    arrays[name] = arrays[name].astype(np.float32)


def shorter(arrays):
    name = max(arrays, key=lambda name: arrays[name].size)
    arrays[name] = arrays[name].ravel()[:-1]


CHANGES = {
    "used": lambda header, arrays: header["counters"].update(used=-1),
    "calls": lambda header, arrays: header["counters"].update(calls=-5),
    "dtype": lambda header, arrays: narrower(arrays),
    "shape": lambda header, arrays: shorter(arrays),
    "missing": lambda header, arrays: arrays.pop(next(iter(arrays))),
    "part": lambda header, arrays: header["parts"]["learner"].update(done=True, sweep=99, count=10**9),
    "old": lambda header, arrays: header.pop("digest"),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("what", CHANGES)
def test_a_checkpoint_that_was_changed_is_refused(method, what, tmp_path):
    path = tmp_path / "run.npz"
    stopped(path, method)
    changed(path, CHANGES[what])
    with pytest.raises(ca.FileError, match=r"changed after it was written|incomplete or damaged"):
        stopped(path, method)


@pytest.mark.parametrize("method", METHODS)
def test_a_whole_checkpoint_of_other_code_is_refused(method, tmp_path):
    path = tmp_path / "run.npz"
    stopped(path, method)
    question = _storage.read(path, "checkpoint")[0]["question"]
    Checkpoint(question, {"used": 0, "calls": 0}, {"learner": ({"left": 3}, {"tables": np.zeros(3)})}).write(path)
    with pytest.raises(ca.FileError, match="cannot be continued"):
        stopped(path, method)


def test_another_model_is_refused_by_a_checkpoint(tmp_path):
    path = tmp_path / "run.npz"
    mdp = small()
    stopped(path, "plug-in", mdp.simulator())
    slower = ca.MDP(mdp.transitions[::-1], mdp.rewards, mdp.discount, mdp.start)
    with pytest.raises(ca.FileError, match=r"its (reward_range|model) is"):
        stopped(path, "plug-in", slower.simulator())
    path.unlink()
    masks = np.ones((2, 5, 3), dtype=bool)
    masks[0, 0, 0] = masks[1, 3, 2] = False
    for number, mask in enumerate(masks):
        simulator = Plain(ca.MDP(mdp.transitions, np.ones((5, 3)), mdp.discount, mdp.start, allowed=mask))
        simulator.known = simulator.inner.known
        if number == 0:
            stopped(path, "primal-dual", simulator)
        else:
            with pytest.raises(ca.FileError, match="its model is"):
                stopped(path, "primal-dual", simulator)


@dataclass(frozen=True)
class Bonus(ca.Risk):
    """A reward in disguise, known only once it is bound."""

    size: float = 0.0
    convex, smooth = True, True

    def bind(self, mdp):
        return Bonus(5.0)

    def value(self, d):
        return -self.size

    def gradient(self, d):
        return np.zeros_like(d)


def test_a_users_own_bind_may_give_a_negative_risk():
    mdp = small()
    optimum = ca.solve(ca.Problem(mdp, Bonus(), 2.0)).objective
    facts = ca.learn(mdp.simulator(), Bonus(), 2.0, 4000).certificate.facts
    assert facts["optimum_below"] >= optimum
    assert facts["optimum_below"] == np.inf


def test_the_sure_bound_covers_rewards_that_the_check_lets_through():
    class Generous(Plain):
        """Promises (-1e9, 0) and pays 0.5, which is within the rounding of that range."""

        def sample(self, states, actions, rng):
            next_states, _ = super().sample(states, actions, rng)
            return next_states, np.full(len(states), 0.5)

    simulator = Generous(small())
    simulator.reward_range = (-1e9, 0.0)
    assert sure_bound(make_task(simulator, None, 0.0, 1000, 0)) >= 0.5 / (1 - simulator.discount)


@pytest.mark.parametrize("method", ["plug-in", "primal-dual"])
@pytest.mark.parametrize("risk", [None, ca.SafeSet([0], 0.9), ca.Entropy()])
def test_rewards_that_are_all_zero(method, risk):
    """The rate of the bound was chosen by the range of the rewards alone, and that is 0 here."""
    rng = np.random.default_rng(0)
    mdp = ca.MDP(rng.dirichlet(np.ones(3), size=(3, 2)), np.zeros((3, 2)), 0.8)
    learned = ca.learn(mdp.simulator(), risk, 1.0, 6000, method)
    assert learned.certificate.kind == "estimated"
    assert learned.certificate.facts["optimum_below"] >= ca.solve(ca.Problem(mdp, risk, 1.0)).objective - 1e-9
