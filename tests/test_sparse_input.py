"""Sparse matrices with broken index arrays: an InputError that names the datum, and never a crash.

The cases run in a process of their own for each format, so that a segmentation fault fails a test and nothing else.
"""

import subprocess
import sys

import numpy as np
import psutil
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.sparse_input import as_rows

P = np.array(
    [[[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]], [[1.0, 0.0, 0.0], [0.3, 0.3, 0.4]], [[0.0, 0.0, 1.0], [0.1, 0.9, 0.0]]]
)
R = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 0.0]])
PATH = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 0.0]])
FORMATS = ("csr", "csc", "coo", "bsr", "dia", "dok", "lil")
WILD = (-1, -(2**31), 99, 2**31 - 1, 2**31, 2**40, 2**63 - 1, 2**64, 2**80)


def put(attribute, change):
    """A breakage: an attribute of the matrix is replaced by a changed copy."""

    def breakage(matrix):
        setattr(matrix, attribute, change(np.array(getattr(matrix, attribute))))

    return breakage


def entry(place, value):
    """A change of one entry, in a wider type if the value needs one."""

    def change(array):
        wide = array.astype(np.int64 if -(2**63) <= value < 2**63 else object)
        wide[place] = value
        return wide

    return change


def other_forms(attribute):
    """Index arrays that are no index arrays at all."""
    return {
        f"{attribute} cut": put(attribute, lambda array: array[:-1]),
        f"{attribute} empty": put(attribute, lambda array: array[:0]),
        f"{attribute} floats": put(attribute, lambda array: array + 0.5),
        f"{attribute} NaN": put(attribute, lambda array: np.full(array.shape, np.nan)),
        f"{attribute} texts": put(attribute, lambda array: array.astype(str)),
        f"{attribute} two-dimensional": put(attribute, lambda array: array[None]),
        f"{attribute} None": lambda matrix: setattr(matrix, attribute, None),
        f"{attribute} a number": lambda matrix: setattr(matrix, attribute, np.array(0)),
    }


def pointer_breakages():
    found = {f"indptr {place} {value}": put("indptr", entry(place, value)) for place in (0, 1, -1) for value in WILD}
    found["indptr falls"] = put("indptr", lambda array: array[::-1].copy())
    found["indptr long"] = put("indptr", lambda array: np.append(array, array[-1]))
    return found | other_forms("indptr")


def data_breakages(add_axis=True):
    found = {
        "data complex": put("data", lambda array: array + 1j),
        "data texts": put("data", lambda array: np.full(array.shape, "x")),
        "data objects": put("data", lambda array: np.full(array.shape, None)),
        "data dates": put("data", lambda array: np.zeros(array.shape, "M8[s]")),
        "data short": put("data", lambda array: array[:1]),
        "data missing": lambda matrix: setattr(matrix, "data", None),
    }
    return found | ({"data with an axis": put("data", lambda array: array[None])} if add_axis else {})


def list_breakages():
    def columns(value):
        return lambda matrix: matrix.rows.__setitem__(1, value)

    def numbers(value):
        return lambda matrix: matrix.data.__setitem__(1, value)

    found = {f"column {value}": columns([value]) for value in WILD}
    found |= {
        f"columns {value!r}": columns(value)
        for value in ([], [0] * 1000, [0.5], ["x"], [None], [[0]], None, (0,), 0, "x", np.array([0]))
    }
    found |= {f"numbers {value!r}": numbers(value) for value in ([], [1.0] * 1000, ["x"], [None], [1j], None, 1.0)}
    found["rows cut"] = put("rows", lambda rows: rows[:-1])
    found["rows of numbers"] = lambda matrix: setattr(matrix, "rows", np.zeros(matrix.shape[0]))
    found["rows None"] = lambda matrix: setattr(matrix, "rows", None)
    found["data cut"] = put("data", lambda data: data[:-1])
    return found


def key_breakages():
    def key(value):
        return lambda matrix: matrix._dict.__setitem__(value, 1.0)

    keys = [(value, 0) for value in WILD] + [(0, value) for value in WILD]
    keys += [(0,), (0, 0, 0), 0, "x", (0.5, 0), ("x", 0), (None, 0), ()]
    found = {f"key {value!r}": key(value) for value in keys}
    return found | {
        f"number {value!r}": lambda matrix, value=value: matrix._dict.__setitem__((0, 0), value)
        for value in ("x", None, 1j, [1.0])
    }


def coordinate_breakages():
    found = {}
    for axis in (0, 1):
        for value in WILD:

            def breakage(matrix, axis=axis, value=value):
                changed = entry(0, value)(np.array(matrix.coords[axis]))
                matrix.coords = tuple(changed if a == axis else matrix.coords[a] for a in (0, 1))

            found[f"coords {axis} {value}"] = breakage
    found["coords of one axis"] = lambda matrix: setattr(matrix, "coords", matrix.coords[:1])
    found["coords of unequal lengths"] = lambda matrix: setattr(
        matrix, "coords", (matrix.coords[0], matrix.coords[1][:-1])
    )
    found["coords floats"] = lambda matrix: setattr(matrix, "coords", tuple(axis + 0.5 for axis in matrix.coords))
    found["coords None"] = lambda matrix: setattr(matrix, "coords", None)
    return found | data_breakages()


def breakages(form):
    """What can be wrong with a matrix of this format, by name."""
    if form == "lil":
        return list_breakages()
    if form == "dok":
        return key_breakages()
    if form == "coo":
        return coordinate_breakages()
    if form == "dia":
        # the first offset of the metric is -1
        found = {f"offset {value}": put("offsets", entry(0, value)) for value in WILD[1:]}
        found["offsets repeated"] = put("offsets", lambda array: np.zeros_like(array))
        return found | other_forms("offsets") | data_breakages()
    found = {f"index {value}": put("indices", entry(0, value)) for value in WILD}
    found |= other_forms("indices") | pointer_breakages() | data_breakages(add_axis=form != "bsr")
    if form == "bsr":
        found["blocks that do not divide"] = put("data", lambda array: np.ones((len(array), 2, 2)))
        found["blocks of nothing"] = put("data", lambda array: np.ones((len(array), 0, 1)))
        found["blocks without an axis"] = put("data", lambda array: array.reshape(-1))
    return found


def made(table, form, matrix_class=False):
    """A table in a sparse format; arrays and matrices of SciPy are different classes."""
    sparse = getattr(sp, f"{form}_{'matrix' if matrix_class else 'array'}")
    return sparse(table, blocksize=(1, 1)) if form == "bsr" else sparse(table)


def places(form, matrix_class, broken):
    """The arguments that take a sparse matrix; ``broken`` breaks the one that it is given."""

    def bad(table):
        matrix = made(table, form, matrix_class)
        broken(matrix)
        return matrix

    rewards = np.repeat(R.reshape(6, 1), 3, axis=1) + 1.0
    yield "transitions", lambda: ca.MDP(bad(P.reshape(6, 3)), R)
    yield "transitions", lambda: ca.MDP([made(P[:, 0], form), bad(P[:, 1])], R)
    yield "rewards", lambda: ca.MDP(P, bad(rewards))
    yield "rewards", lambda: ca.MDP(P, [made(rewards[::2], form), bad(rewards[1::2])])
    yield (
        "Wasserstein.metric",
        lambda: ca.solve(ca.Problem(ca.MDP(P, R), ca.Wasserstein(np.full(3, 1 / 3), bad(PATH)))),
    )


def attack(form):
    """Every breakage in every place; prints what was not refused as it should be."""
    for matrix_class in (False, True):
        for name, broken in breakages(form).items():
            for argument, call in places(form, matrix_class, broken):
                print(f"{form} {name} {argument}", file=sys.stderr, flush=True)
                try:
                    call()
                except ca.InputError as error:
                    if argument not in str(error):
                        print(f"{form}, {name}: {argument} is not named in {error}")
                except Exception as error:
                    print(f"{form}, {name}, {argument}: {error!r}")
                else:
                    print(f"{form}, {name}, {argument}: accepted")


@pytest.mark.parametrize("form", FORMATS)
def test_broken_index_arrays_are_refused_in_every_place(form):
    done = subprocess.run([sys.executable, __file__, form], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"ended by {done.returncode} at {done.stderr[-300:]}"
    assert done.stdout == ""


@pytest.mark.parametrize("matrix_class", [False, True])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_gives_the_same_model(form, matrix_class):
    table = P.reshape(6, 3)
    expected = ca.MDP(P, R).transitions.toarray()
    assert np.array_equal(ca.MDP(made(table, form, matrix_class), R).transitions.toarray(), expected)
    by_action = [made(P[:, action], form, matrix_class) for action in (0, 1)]
    assert np.array_equal(ca.MDP(by_action, R).transitions.toarray(), expected)
    outcomes = np.where(P > 0, np.arange(18.0).reshape(P.shape), 0.0)
    paid = ca.MDP(P, made(outcomes.reshape(6, 3), form, matrix_class)).rewards
    assert np.allclose(paid, (P * outcomes).sum(axis=2))
    problem = ca.Problem(ca.MDP(P, R), ca.Wasserstein([0.2, 0.3, 0.5], made(PATH, form, matrix_class)))
    dense = ca.Problem(ca.MDP(P, R), ca.Wasserstein([0.2, 0.3, 0.5], [[0, 1, 3], [1, 0, 2], [3, 2, 0.0]]))
    assert ca.solve(problem).objective == pytest.approx(ca.solve(dense).objective, abs=1e-5)


def test_blocks_larger_than_one_entry_are_read():
    table = np.kron(np.eye(2), np.full((4, 2), 0.5))
    assert np.array_equal(as_rows("x", sp.bsr_array(table, blocksize=(2, 2))).toarray(), table)


def test_flags_of_scipy_are_not_believed():
    rows = sp.csr_array(([0.5, 0.5, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    rows.has_canonical_format = True
    assert ca.MDP(rows, [[0.0], [1.0]]).transitions.nnz == 2
    entries = sp.coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    entries.has_canonical_format = True
    assert ca.MDP(entries, [[0.0], [1.0]]).transitions.nnz == 2


def test_matrices_of_the_caller_are_not_changed():
    rows = sp.csr_array(([0.2, 0.3, 0.5, 1.0], [1, 0, 0, 1], [0, 3, 4]), shape=(2, 2))
    ca.MDP(rows, [[0.0], [1.0]])
    assert rows.indices.tolist() == [1, 0, 0, 1]
    assert rows.data.tolist() == [0.2, 0.3, 0.5, 1.0]


@pytest.mark.parametrize("shape", [(3,), (2, 3, 3)])
def test_other_numbers_of_dimensions_are_refused(shape):
    flat = sp.coo_array(np.ones(shape))
    with pytest.raises(ca.InputError, match="transitions"):
        ca.MDP(flat, R)
    with pytest.raises(ca.InputError, match="rewards"):
        ca.MDP(P, flat)
    with pytest.raises(ca.InputError, match="transitions"):
        ca.MDP([flat, flat], R)


@pytest.mark.parametrize("shape", [(2**40, 2**20), (2**40, 2), (2**50, 1)])
def test_shapes_that_no_memory_holds_are_refused(shape):
    with pytest.raises(ca.InputError, match="transitions"):
        ca.MDP(sp.coo_array(([1.0], ([0], [0])), shape=shape), R)


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("shape", [(6, -1), (-6, 3), (-6, -3)])
def test_negative_shapes_are_refused(kind, shape):
    rows, rewards, metric = (sp.csr_array(dense).asformat(kind) for dense in (P.reshape(6, 3), P.reshape(6, 3), PATH))
    for matrix in (rows, rewards, metric):
        matrix._shape = shape
    with pytest.raises(ca.InputError, match="transitions"):
        ca.MDP(rows, R)
    with pytest.raises(ca.InputError, match="rewards"):
        ca.MDP(P, rewards)
    with pytest.raises(ca.InputError, match="metric"):
        ca.Problem(ca.MDP(P, R), ca.Wasserstein(np.full(3, 1 / 3), metric))


def test_rows_that_fit_once_but_not_as_often_as_they_are_copied_are_refused():
    rows = psutil.virtual_memory().total // 16
    with pytest.raises(ca.InputError, match="this machine has"):
        ca.MDP(sp.dok_array((8 * (rows // 8), 8)), R)


SPOIL = """
import sys, numpy as np, scipy.sparse as sp, cautious as ca
P = np.array([[[.5, .5], [.2, .8]], [[.9, .1], [.3, .7]]])
rows = sp.csr_array(P.reshape(4, 2))
mdp = ca.MDP(rows, np.zeros((2, 2)), 0.9)
problem = ca.Problem(mdp, ca.Entropy())
policy = np.full((2, 2), 0.5)
part, value, call = sys.argv[1], int(sys.argv[2]), sys.argv[3]
getattr(rows, part)[1] = value
calls = {
    "solve": lambda: ca.solve(problem),
    "frontier": lambda: ca.frontier(mdp, ca.Entropy(), [0.0, 1.0]),
    "evaluate": lambda: ca.evaluate(mdp, policy, episodes=10),
    "learn": lambda: ca.learn(mdp.simulator(), ca.Entropy(), caution=1.0, samples=1000),
    "prior": lambda: ca.Problem(mdp, ca.KL(policy)),
    "save": lambda: mdp.save("model.npz"),
    "csv": lambda: mdp.save("model.csv"),
    "umb": lambda: mdp.save("model.umb"),
    "tra": lambda: mdp.save("model.tra"),
    "mat": lambda: mdp.save("model.mat"),
    "inspect": lambda: ca.inspect_model(mdp),
    "to_gym": lambda: ca.to_gym(mdp).reset(seed=0),
    "compare": lambda: ca.compare(problem, ["cautious"]),
    "check": lambda: ca.testing.check_model(mdp),
}
try:
    calls[call]()
except (ca.CautiousError, AssertionError) as error:
    print("refused", error)
"""
CALLS = ("solve", "frontier", "evaluate", "learn", "prior", "save", "csv", "umb", "tra", "mat", "inspect", "to_gym")
CALLS += ("compare", "check")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(("part", "value"), [("indices", 2**30), ("indptr", 2**30), ("indptr", -(2**30))])
def test_a_shared_matrix_that_was_changed_afterwards_is_refused(part, value, call, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SPOIL, part, str(value), call], capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0, done.stderr[-1500:]
    assert done.stdout.startswith("refused")


if __name__ == "__main__":
    attack(sys.argv[1])
