"""UMB archives: what other tools may write, and what damaged or hostile files look like."""

import gzip
import io
import json
import lzma
import tarfile

import numpy as np
import pytest
from sample_models import assert_same, example

import cautious as ca


def unpacked(path):
    with tarfile.open(path) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}


def packed(members, names=None):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo((names or {}).get(name, name))
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
def parts(tmp_path):
    example("names", start=2).save(tmp_path / "model.umb")
    return unpacked(tmp_path / "model.umb")


def read(folder, raw, **options):
    (folder / "other.umb").write_bytes(raw)
    return ca.read_model(folder / "other.umb", **options)


@pytest.mark.parametrize("compress", [bytes, gzip.compress, lzma.compress], ids=["tar", "gzip", "xz"])
def test_three_kinds_of_archive(tmp_path, parts, compress):
    assert_same(read(tmp_path, compress(packed(parts))), example("names", start=2))


def test_the_index_may_come_last_and_paths_may_be_spelt_otherwise(tmp_path, parts):
    turned = {name: parts[name] for name in reversed(parts)}
    assert_same(read(tmp_path, packed(turned, {name: f"./{name}" for name in turned})), example("names", start=2))


def changed(parts, **system):
    index = json.loads(parts["index.json"])
    index["transition-system"].update(
        {key.replace("_", "-").replace("n-", "#", 1): value for key, value in system.items()}
    )
    return parts | {"index.json": json.dumps(index).encode()}


def test_rewards_on_states_choices_and_branches_add_up(tmp_path, parts):
    index = json.loads(parts["index.json"])
    index["annotations"]["rewards"]["reward"]["applies-to"] = ["states", "choices", "branches"]
    place, n_branches = "annotations/rewards/reward", index["transition-system"]["#branches"]
    pays = np.arange(n_branches, dtype=float)
    members = parts | {
        "index.json": json.dumps(index).encode(),
        f"{place}/states/values.bin": np.array([1.0, 2.0, 3.0, 4.0]).tobytes(),
        f"{place}/branches/values.bin": pays.tobytes(),
    }
    mdp, plain = read(tmp_path, packed(members)), example("names", start=2)
    row = np.repeat(np.arange(8), np.diff(plain.transitions.indptr))
    wanted = pays + plain.rewards.ravel()[row] + np.array([1.0, 2.0, 3.0, 4.0])[row // 2]
    assert np.allclose(mdp.outcome_rewards, wanted)


def test_labels(tmp_path, parts):
    index = json.loads(parts["index.json"])
    index["annotations"]["aps"] = {"g": {"alias": "goal", "applies-to": ["states"], "type": {"type": "bool"}}}
    bits = (0b1010).to_bytes(8, "little")
    members = parts | {"index.json": json.dumps(index).encode(), "annotations/aps/g/states/values.bin": bits}
    (tmp_path / "labels.umb").write_bytes(packed(members))
    labels = ca.read_labels(tmp_path / "labels.umb")
    assert {name: mask.nonzero()[0].tolist() for name, mask in labels.items()} == {"init": [2], "goal": [1, 3]}


def test_what_is_missing_is_asked_for(tmp_path, parts):
    index = json.loads(parts["index.json"])
    del index["file-data"]
    bare = parts | {"index.json": json.dumps(index).encode()}
    with pytest.raises(ca.InputError, match="does not hold a discount"):
        read(tmp_path, packed(bare))
    assert read(tmp_path, packed(bare), discount=0.9).discount == 0.9
    bare.pop("state-is-initial.bin")
    with pytest.raises(ca.InputError, match="it marks 0 states as initial, not one; give the first state"):
        read(tmp_path, packed(bare), discount=0.9)
    index["annotations"]["rewards"]["other"] = {"alias": "fuel", "applies-to": ["states"], "type": {"type": "double"}}
    two = parts | {"index.json": json.dumps(index).encode()}
    with pytest.raises(ca.InputError, match=r"several rewards; give reward= one of \['reward', 'fuel'\]"):
        read(tmp_path, packed(two), discount=0.9)


REFUSED = {
    "a game": ({"n_players": 2}, "#players is 2"),
    "continuous time": ({"time": "stochastic"}, "time is 'stochastic'"),
    "partial observation": ({"n_observations": 3}, "#observations is 3"),
    "rationals": ({"branch_probability_type": {"type": "rational"}}, "export the model with type double"),
    "many states": ({"n_states": 2**39}, r"has 8 bytes; \d+ entries take \d+|has 40 bytes"),
    "more branches": ({"n_branches": 10**9}, r"branch-to-target.bin has \d+ bytes; 1000000000 entries take"),
    "negative": ({"n_choices": -1}, "#choices is -1; expected a whole number"),
    "words": ({"n_states": "many"}, "#states is 'many'; expected a whole number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_models_and_lies_are_refused(tmp_path, parts, name):
    system, message = REFUSED[name]
    with pytest.raises(ca.FileError, match=message):
        read(tmp_path, packed(changed(parts, **system)))


def test_damaged_members(tmp_path, parts):
    target = np.frombuffer(parts["branch-to-target.bin"], "<u8").copy()
    target[3] = 2**63
    pointer = np.frombuffer(parts["state-to-choices.bin"], "<u8")[::-1]
    cases = {
        "branch 3 leads to state 9223372036854775808": {"branch-to-target.bin": target.tobytes()},
        "does not divide 8 entries into 4 intervals": {"state-to-choices.bin": pointer.tobytes()},
        "index.json is damaged": {"index.json": b"{"},
        "UMB of version 2": {"index.json": b'{"format-version": 2}'},
        "not UTF-8": {"actions/choices/strings.bin": b"\xff" * len(parts["actions/choices/strings.bin"])},
        "a choice has action 4294967295": {"actions/choices/values.bin": b"\xff" * 32},
        r"must be finite|expected 0 to 1": {
            "branch-to-probability.bin": b"\xff" * len(parts["branch-to-probability.bin"])
        },
    }
    for message, change in cases.items():
        with pytest.raises(ca.FileError, match=message):
            read(tmp_path, packed(parts | change))


def test_hostile_archives(tmp_path, parts):
    bomb = packed({"index.json": parts["index.json"], "valuations/states/valuations.bin": bytes(2**25)})
    for compress in (gzip.compress, lzma.compress):
        with pytest.raises(ca.FileError, match="unpacks to more than 200 times its size"):
            read(tmp_path, compress(bomb))
    raw = bytearray(packed(parts))
    at = raw.index(b"branch-to-target.bin") + 124
    raw[at : at + 12] = b"77777777777\0"
    raw[at + 24 : at + 32] = b" " * 8
    header = raw[at - 124 : at - 124 + 512]
    raw[at + 24 : at + 32] = b"%06o\0 " % sum(header)
    with pytest.raises(ca.FileError, match=r"claims 8589934591 bytes|damaged"):
        read(tmp_path, bytes(raw))
    outside = packed(parts, {"branch-to-target.bin": "../../branch-to-target.bin"})
    with pytest.raises(ca.FileError, match="has no branches"):
        read(tmp_path, outside)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.umb", "other.umb"]
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        link = tarfile.TarInfo("index.json")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    with pytest.raises(ca.FileError, match=r"no usable index\.json"):
        read(tmp_path, stream.getvalue())
