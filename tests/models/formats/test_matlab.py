"""Our reader of MATLAB files: SciPy's arrays from SciPy's files, and an error of ours whatever is damaged."""

import io
import struct

import numpy as np
import pytest
import scipy.io as sio
import scipy.sparse as sp

import cautious as ca
from cautious.models.formats.matlab import DamagedError, variables

KINDS = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "?")
WANTED = ("P", "R", "discount")


def written(values, compressed):
    made = io.BytesIO()
    sio.savemat(made, values, do_compression=compressed)
    return made.getvalue()


def read(content, limit=2**24):
    return variables(io.BytesIO(content), len(content), WANTED, limit)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_arrays_as_scipy(kind, compressed):
    rng = np.random.default_rng(0)
    for shape in ((3, 2, 4), (1, 1), (0, 3), (300, 2)):
        values = {"other": rng.random(5000), "P": rng.integers(0, 100, shape).astype(kind), "R": 1.5}
        content = written(values, compressed)
        wanted, found = sio.loadmat(io.BytesIO(content)), read(content)
        assert set(found) == {"P", "R"}
        for name, array in found.items():
            assert array.dtype == wanted[name].dtype
            np.testing.assert_array_equal(array, wanted[name])


@pytest.mark.parametrize("compressed", [False, True])
def test_the_same_sparse_matrices_and_cells_as_scipy(compressed):
    cells = np.empty(4, dtype=object)
    cells[:] = [
        sp.random_array((5, 7), density=density, format="csc", rng=np.random.default_rng(seed))
        for seed, density in enumerate((0.0, 0.2, 1.0, 0.6))
    ]
    content = written({"P": cells, "R": cells[1], "discount": np.eye(2)}, compressed)
    found = read(content)
    for matrix, wanted in zip([*found["P"], found["R"]], [*cells, cells[1]], strict=True):
        np.testing.assert_array_equal(matrix.toarray(), wanted.toarray())


def test_the_other_order_of_bytes():
    array = struct.pack(">II II II ii IHBB4s II 2d", *(6, 8, 6, 0), *(5, 8, 1, 2), 1, 1, 0, 0, b"", *(9, 16), 0.5, 2.0)
    # a name of one letter is an element of eight bytes
    array = array.replace(struct.pack(">IHBB4s", 1, 1, 0, 0, b""), struct.pack(">HHc3x", 1, 1, b"P"))
    content = b"MATLAB 5.0".ljust(124) + struct.pack(">H", 0x0100) + b"MI" + struct.pack(">II", 14, len(array)) + array
    wanted = sio.loadmat(io.BytesIO(content))["P"]
    np.testing.assert_array_equal(read(content)["P"], wanted)
    np.testing.assert_array_equal(wanted, [[0.5, 2.0]])


@pytest.mark.parametrize("compressed", [False, True])
def test_damaged_bytes_are_an_error_of_ours(compressed, tmp_path):
    """SciPy's reader ends the process at some of these."""
    mdp = ca.MDP(np.full((2, 2, 2), 0.5), np.eye(2), 0.9)
    path = tmp_path / "model.mat"
    rows = np.empty(2, dtype=object)
    rows[:] = [sp.csc_array(np.full((2, 2), 0.5))] * 2
    good = written({"P": rows, "R": mdp.rewards, "discount": 0.9}, compressed)
    refused = 0
    for place in range(128, len(good)):
        for value in (0, 0xFF, good[place] ^ 0x10, good[place] ^ 1):
            path.write_bytes(good[:place] + bytes([value]) + good[place + 1 :])
            try:
                ca.read_model(path)
            except ca.CautiousError:
                refused += 1
    assert refused > len(good)


def test_nothing_is_unpacked_beyond_the_limit():
    content = written({"P": np.zeros((1000, 1000))}, True)
    assert len(content) < 20_000
    with pytest.raises(DamagedError, match="too large"):
        read(content, limit=10**6)
    # what is not wanted is not unpacked at all
    assert read(written({"large": np.zeros((1000, 1000)), "R": 1.0}, True), limit=10**4)["R"] == 1


def test_what_is_not_read_is_named():
    for value, words in ((np.eye(2) * 1j, "complex"), ("text", "class 4"), ({"a": 1}, "class 2")):
        with pytest.raises(DamagedError, match=words):
            read(written({"P": value}, False))
    later = bytearray(written({"P": 1.0}, False))
    later[125] = 2
    with pytest.raises(DamagedError, match=r"7\.3"):
        read(bytes(later))
