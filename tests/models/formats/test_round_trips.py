"""What is written in any format is read back bit for bit, or refused when it is written."""

import subprocess
import sys

import numpy as np
import pytest
from sample_models import OPTIONS, assert_same, example

import cautious as ca
from cautious.models.files import FORMATS

SUFFIXES = [suffix for one in FORMATS for suffix in one.suffixes if suffix]
SPREAD = dict.fromkeys(("spread", "hardly any spread"), r"reward_square, which at \(0, 0\) is .* above")
REFUSED = {
    ".tra": SPREAD,
    ".csv": SPREAD,
    ".mat": {
        **SPREAD,
        **dict.fromkeys(("forbidden", "never allowed", "forbidden and named"), "forbids action 0 in state 0"),
    },
    **dict.fromkeys((".parquet", ".pq", ".arrow", ".arr", ".feather", ".ipc"), SPREAD),
}


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("name", OPTIONS)
def test_one_start_state(tmp_path, suffix, name):
    mdp, path = example(name, start=2), tmp_path / f"model{suffix}"
    refusal = REFUSED.get(suffix, {}).get(name)
    if refusal is None:
        mdp.save(path)
        assert_same(ca.read_model(path), mdp)
        mdp.save(path)
        assert_same(ca.read_model(path, discount=0.93, start=2), mdp)
    else:
        with pytest.raises(ca.IncompatibleError, match=refusal):
            mdp.save(path)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_distribution_of_start_states(tmp_path, suffix):
    mdp, path = example(), tmp_path / f"model{suffix}"
    if suffix == ".tra":
        with pytest.raises(ca.IncompatibleError, match=r"one state, this model in 4; save as \.umb or \.npz"):
            mdp.save(path)
    else:
        mdp.save(path)
        assert_same(ca.read_model(path), mdp)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_random_models(tmp_path, suffix):
    for seed in range(20):
        mdp = example("rewards of outcomes" if seed % 2 else "names", start=seed % 4, seed=seed)
        mdp.save(tmp_path / f"model{suffix}")
        assert_same(ca.read_model(tmp_path / f"model{suffix}"), mdp)


@pytest.mark.parametrize("suffix", [".umb", ".tra", ".csv", ".npz"])
def test_same_model_same_bytes(tmp_path, suffix):
    for stem in ("one", "two"):
        example("names", start=1).save(tmp_path / f"{stem}{suffix}")
    assert (tmp_path / f"one{suffix}").read_bytes() == (tmp_path / f"two{suffix}").read_bytes()


def test_a_large_mat_file_has_sparse_cells(tmp_path, monkeypatch):
    monkeypatch.setattr("cautious.models.formats.toolbox.LARGEST_DENSE", 0)
    for name in ("plain", "rewards of outcomes"):
        mdp = example(name, start=0)
        mdp.save(tmp_path / "model.mat")
        assert_same(ca.read_model(tmp_path / "model.mat"), mdp)


@pytest.mark.parametrize("suffix", [".umb", ".tra", ".csv", ".mat", ".npz"])
def test_contradictions_are_refused(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    example(start=2).save(path)
    with pytest.raises(ca.InputError, match=r"holds the discount 0\.93, and discount=0\.9 was given"):
        ca.read_model(path, discount=0.9)
    with pytest.raises(ca.InputError, match=r"starts \(state 2\), and start= says otherwise"):
        ca.read_model(path, start=1)
    with pytest.raises(ca.InputError, match=r"keyword outcome is not supported|no column tells"):
        ca.read_model(path, outcome=3)


def test_a_companion_of_another_model_is_refused(tmp_path):
    example(start=0).save(tmp_path / "model.csv")
    ca.worlds.river_swim().save(tmp_path / "other.csv")
    (tmp_path / "other.csv.json").replace(tmp_path / "model.csv.json")
    with pytest.raises(ca.FileError, match=r"4 states and 2 actions, but model\.csv\.json beside it is about 6 and 2"):
        ca.read_model(tmp_path / "model.csv")


def test_unknown_suffixes(tmp_path):
    with pytest.raises(ca.InputError, match=r"suffix says the format, one of \.npz, \.umb"):
        example().save(tmp_path / "model.xyz")
    with pytest.raises(ca.InputError, match=r"suffix says the format, one of \.npz, \.umb"):
        ca.read_model(tmp_path / "model.xyz")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_no_such_file(tmp_path, suffix):
    with pytest.raises(ca.FileError, match=r"(?i)no such file"):
        ca.read_model(tmp_path / f"model{suffix}", discount=0.9)


def test_every_format_says_what_it_holds():
    assert len({suffix for one in FORMATS for suffix in one.suffixes}) == sum(len(one.suffixes) for one in FORMATS)
    assert all(one.name and one.holds for one in FORMATS)


def test_equal_outcomes_that_pay_differently_become_moments(tmp_path):
    (tmp_path / "twice.csv").write_text(
        "state,action,next_state,probability,reward\na,go,b,0.25,4\na,go,b,0.25,0\na,go,a,0.5,1\nb,go,b,1,0\n"
    )
    mdp = ca.read_model(tmp_path / "twice.csv", discount=0.5, start="a")
    assert mdp.outcome_rewards is None
    assert mdp.rewards[0, 0] == pytest.approx(0.25 * 4 + 0.5 * 1)
    assert mdp.reward_square[0, 0] == pytest.approx(0.25 * 16 + 0.5 * 1)
    assert np.array_equal(mdp.transitions.toarray(), [[0.5, 0.5], [0.0, 1.0]])


def test_formats_are_loaded_when_they_are_needed():
    code = "import sys, cautious.models.tabular; print('scipy.io' in sys.modules, *sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    has_scipy_io, *modules = done.stdout.split()
    formats = [name for name in modules if name.startswith("cautious.models.formats.")]
    assert (has_scipy_io, formats) == ("False", ["cautious.models.formats.reader_options"])
