"""Damaged files of every format: a model or a typed error, nothing else, and no more memory than the file deserves."""

import itertools
import warnings
from contextlib import suppress

import numpy as np
import pytest
from sample_models import example

import cautious as ca

SUFFIXES = [".npz", ".umb", ".tra", ".lab", ".srew", ".trew", ".json", ".csv", ".parquet", ".arrow", ".mat", ".sta"]
WORDS = [
    b"\0",
    b"\n",
    b",",
    b" ",
    b"-1",
    b"1e999",
    b"nan",
    b"99999999999",
    b"4294967295",
    b"\xff",
    b'"',
    b"#",
    b":",
    b"/",
]


def originals(folder):
    """A file of each format, and what to read to have it read."""
    mdp = example("forbidden and named", start=2)
    whole = example("rewards of outcomes", start=1)
    files = {}
    for suffix in (".npz", ".umb", ".csv", ".parquet", ".arrow"):
        mdp.save(folder / f"model{suffix}")
        files[suffix] = (folder / f"model{suffix}", folder / f"model{suffix}")
    whole.save(folder / "model.mat")
    files[".mat"] = (folder / "model.mat", folder / "model.mat")
    whole.save(folder / "ours.tra")
    files[".json"] = (folder / "ours.tra.json", folder / "ours.tra")
    # explicit files without a companion, so that the others matter
    whole.save(folder / "prism.tra")
    (folder / "prism.tra.json").unlink()
    (folder / "prism.sta").write_text("(x,y)\n" + "".join(f"{i}:({i},true)\n" for i in range(4)))
    for suffix in (".tra", ".lab", ".srew", ".trew", ".sta"):
        files[suffix] = (folder / f"prism{suffix}", folder / "prism.tra")
    return files


def damaged(rng, raw):
    """One of many kinds of damage."""
    kind, raw = rng.integers(6), bytearray(raw)
    at = int(rng.integers(len(raw) + 1))
    if kind == 0:
        return bytes(raw[:at])
    if kind == 1:
        for _ in range(rng.integers(1, 4)):
            raw[rng.integers(len(raw))] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        raw[at:at] = WORDS[rng.integers(len(WORDS))]
    elif kind == 3:
        word = WORDS[rng.integers(len(WORDS))]
        raw[at : at + len(word)] = word
    elif kind == 4:
        del raw[at : at + int(rng.integers(1, 40))]
    else:
        other = int(rng.integers(len(raw) + 1))
        raw[at:at] = raw[other : other + int(rng.integers(1, 60))]
    return bytes(raw)


def attack(folder, suffix, seeds):
    """How often a damaged file was still a model."""
    changed, opened = originals(folder)[suffix]
    raw, read = changed.read_bytes(), 0
    for seed in seeds:
        changed.write_bytes(damaged(np.random.default_rng(seed), raw))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ca.CautiousWarning)
                ca.read_model(opened, discount=0.93)
            read += 1
        except ca.CautiousError:
            pass
    return read


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_damage_is_an_error_of_ours(tmp_path, suffix):
    assert attack(tmp_path, suffix, range(200)) < 200


@pytest.mark.slow
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_much_damage(tmp_path, suffix):
    assert attack(tmp_path, suffix, range(200, 5_000)) > 0


@pytest.mark.parametrize("suffix", [".umb", ".tra", ".csv", ".mat", ".npz"])
def test_every_truncation(tmp_path, suffix):
    path = originals(tmp_path)[suffix][1]
    raw = path.read_bytes()
    for length in itertools.chain(range(0, min(len(raw), 600), 7), range(600, len(raw), 97)):
        path.write_bytes(raw[:length])
        with suppress(ca.CautiousError):
            ca.read_model(path, discount=0.93)
