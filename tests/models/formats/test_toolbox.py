"""Arrays as MDP toolboxes have them: one matrix per action."""

import numpy as np
import pytest
import scipy.io as sio
import scipy.sparse as sp

import cautious as ca

P = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 3))
R = np.random.default_rng(1).normal(size=(2, 3, 3))
WANTED = ca.MDP(list(P), list(R), 0.9)


def assert_wanted(mdp, outcomes=True):
    assert np.array_equal(mdp.transitions.toarray(), WANTED.transitions.toarray())
    assert np.allclose(mdp.rewards, WANTED.rewards, rtol=0, atol=1e-15)
    assert (mdp.outcome_rewards is not None) == outcomes


def test_the_axes_are_action_state_next():
    for a, s in np.ndindex(2, 3):
        assert np.array_equal(WANTED.transitions.toarray()[s * 2 + a], P[a, s])
        assert WANTED.rewards[s, a] == pytest.approx(P[a, s] @ R[a, s])


def test_npz(tmp_path):
    path = tmp_path / "arrays.npz"
    np.savez(path, P=P, R=R)
    assert_wanted(ca.read_model(path, discount=0.9))
    with pytest.raises(ca.InputError, match="does not hold a discount"):
        ca.read_model(path)
    np.savez_compressed(path, P=P, R=WANTED.rewards, discount=0.9, notes=np.zeros(3))
    assert_wanted(ca.read_model(path, start=2), outcomes=False)
    np.savez(path, P=P, R=np.array([1.0, 2.0, 3.0]))
    assert np.array_equal(ca.read_model(path, discount=0.9).rewards, [[1, 1], [2, 2], [3, 3]])


def test_as_many_actions_as_states(tmp_path):
    """The file says which axis is which, so even a cube is read the right way."""
    cube = np.random.default_rng(2).dirichlet(np.ones(3), size=(3, 3))
    np.savez(tmp_path / "cube.npz", P=cube, R=np.zeros((3, 3)))
    mdp = ca.read_model(tmp_path / "cube.npz", discount=0.9)
    assert np.array_equal(mdp.transitions.toarray().reshape(3, 3, 3), np.moveaxis(cube, 0, 1))


def test_mat(tmp_path):
    path = tmp_path / "arrays.mat"
    sio.savemat(path, {"P": np.moveaxis(P, 0, 2), "R": np.moveaxis(R, 0, 2)})
    assert_wanted(ca.read_model(path, discount=0.9))
    cells = np.empty(2, dtype=object)
    cells[:] = [sp.csc_array(matrix) for matrix in P]
    sio.savemat(path, {"P": cells, "R": WANTED.rewards, "discount": 0.9})
    assert_wanted(ca.read_model(path), outcomes=False)


BAD = {
    "other axes": (
        {"P": np.moveaxis(P, 0, 1), "R": R},
        r"P has shape \(3, 2, 3\); expected \(A, S, S\); \(S, A, S\) is",
    ),
    "no P": ({"Q": P}, "P.npy|header|not a cautious file"),
    "no R": ({"P": P}, "the variable R is missing"),
    "other R": ({"P": P, "R": np.zeros((4, 4))}, "R has 1 matrices"),
    "words": ({"P": np.array([["a"]]), "R": R}, "expected matrices of numbers"),
    "not a number": ({"P": np.where(P > 0.5, np.nan, P), "R": R}, "must be finite"),
}


@pytest.mark.parametrize("name", BAD)
def test_refused(tmp_path, name):
    arrays, message = BAD[name]
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(ca.FileError, match=message):
        ca.read_model(tmp_path / "bad.npz", discount=0.9)
