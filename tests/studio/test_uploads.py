"""Models from the page: the same readers as for files, plain names only, nothing outside of the upload."""

import io
import json
import random
import zipfile

import numpy as np
import pytest

import cautious as ca
from cautious.studio import messages, uploads
from cautious.studio.messages import parse_upload
from cautious.studio.server import Studio
from cautious.studio.uploads import Upload, read_upload
from studio.browser import LONGEST, reads, shown
from studio.conftest import nameless, running, unpack

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")

TRA = "3 3 4\n0 0 1 0.5\n0 0 2 0.5\n1 0 1 1\n2 0 2 1\n"
TOML = 'caution = 2.0\n[model]\nfile = "desk.npz"\n[risk]\nkind = "Variance"\n'


def packed(content, options=None, number=1, **changes):
    """The message that a page sends."""
    head = {
        "number": number,
        "files": [[name, len(one)] for name, one in content.items()],
        "options": options or {},
    }
    text = json.dumps(head | changes).encode()
    return len(text).to_bytes(4, "little") + text + b"".join(content.values())


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    path = tmp_path_factory.mktemp("desk") / "desk.npz"
    nameless(ca.worlds.queue()).save(path)
    return path.read_bytes()


def test_what_a_page_sends_is_what_is_read(desk):
    found = parse_upload(packed({"desk.npz": desk, "p.toml": TOML.encode()}, {"start": None}))
    assert found == Upload(1, {"desk.npz": desk, "p.toml": TOML.encode()}, {})
    problem = read_upload(found)
    assert (problem.caution, problem.mdp.n_states, problem.risk_label) == (2.0, 16, "Variance")
    assert read_upload(Upload(1, {"desk.npz": desk})).mdp.action_names == ca.worlds.queue().action_names


def test_companions_and_options():
    files = {"m.lab": b'0="init" 1="deadlock"\n0: 0\n', "m.tra": TRA.encode(), "m.srew": b"3 1\n0 1\n"}
    problem = read_upload(Upload(1, files, {"discount": 0.9}))
    assert (problem.mdp.n_states, problem.mdp.discount, problem.mdp.start.tolist()) == (3, 0.9, [1, 0, 0])
    # without a discount the first horizon that fits
    table = b"state,action,next_state,probability,reward\na,go,b,1,1\nb,go,b,1,0\n"
    whole = read_upload(Upload(1, {"way.csv": table}, {"discount": 1.0, "start": "a"}))
    assert whole.mdp.horizon == "total"
    with pytest.raises(ca.InputError, match=r"^way\.csv: the file does not hold a discount"):
        read_upload(Upload(1, {"way.csv": table}))


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"x.npz": b"PK\x03\x04nothing"}, r"x\.npz"),
        ({"x.npz": b"\x93NUMPY"}, r"x\.npz"),
        ({"x.tra": b"0 0 1"}, r"x\.tra"),
        ({"x.csv": b"a;b\n1;2\n"}, r"x\.csv: neither a model"),
        ({"x.toml": b"[model"}, r"x\.toml: not valid TOML"),
        ({"x.toml": b'[model]\nfile = "/etc/passwd"\n'}, "'/etc/passwd' has a slash"),
        ({"x.toml": b'[model]\nfile = "../secret.npz"\n'}, "has a slash"),
        ({"x.toml": b'[model]\nfile = "..\\\\secret.npz"\n'}, "has a slash"),
        ({"x.toml": b'[model]\nfile = "C:secret.npz"\n'}, "is on a drive"),
        ({"x.toml": b'[model]\nfile = "other.npz"\n'}, "'other.npz' is missing; upload it together"),
        ({"x.toml": b'[model]\nfile = "passwd"\n'}, "no such file"),
        ({"x.toml": b'[model]\ngym = "FrozenLake-v1"\ndiscount = 0.9\n'}, "runs no environment"),
        ({"x.toml": b'[model]\nworld = "maze"\n[risk]\nkind = "KL"\nprior = "/tmp/p.npy"\n'}, "has a slash"),
        ({"x.txt": b"hello"}, "none of the files is a model"),
    ],
)
def test_hostile_files_are_refused_by_a_sentence(files, words):
    with pytest.raises(ca.CautiousError, match=words) as caught:
        read_upload(Upload(1, files))
    assert "cautious-studio-" not in str(caught.value)


def test_a_bomb_is_not_unpacked():
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        array = io.BytesIO()
        np.save(array, np.zeros(10_000_000))
        archive.writestr("transitions_data.npy", array.getvalue())
    assert len(content.getvalue()) < 100_000
    with pytest.raises(ca.FileError):
        read_upload(Upload(1, {"bomb.npz": content.getvalue()}))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "has no head"),
        (b"\xff\xff\xff\xff{}", "has no head"),
        (b"\x02\x00\x00\x00{}", "the head of the upload needs number"),
        (packed({"../x.npz": b""}), "no plain name of a file"),
        (packed({"/etc/x.npz": b""}), "no plain name"),
        (packed({".hidden.npz": b""}), "no plain name"),
        (packed({"x.npz": b"12"}, files=[["x.npz", 3]]), "should have"),
        (packed({"x.npz": b"12"}, files=[["x.npz", 1], ["x.npz", 1]]), "the same name"),
        (packed({"x.npz": b""}, files=[]), "a list of 1 to 20 files"),
        (packed({"x.npz": b""}, files=[["x.npz"]]), r"files\[0\] must be a name"),
        (packed({"x.npz": b""}, {"discount": 2}), "options.discount is 2"),
        (packed({"x.npz": b""}, {"code": "1"}), "unknown key 'code'"),
        (packed({"x.npz": b""}, {"start": "x" * 300}), "options.start must be a text of at most 200"),
    ],
)
def test_uploads_that_are_none(data, words):
    with pytest.raises(ca.InputError, match=words):
        parse_upload(data)


def test_sizes_are_limited(monkeypatch, desk):
    monkeypatch.setattr(messages, "LARGEST_UPLOAD", 1000)
    with pytest.raises(ca.InputError, match="the studio opens at most 1,000"):
        parse_upload(packed({"x.npz": bytes(2000)}))
    monkeypatch.setattr(uploads, "LARGEST_MODEL", 10)
    with pytest.raises(ca.InputError, match="the studio opens 10"):
        read_upload(Upload(1, {"desk.npz": desk}))


def test_damaged_uploads_never_break_a_conversation(site, desk):
    rng = random.Random(0)
    whole = packed({"desk.npz": desk, "p.toml": TOML.encode()})
    with site.connect() as line:
        line.recv(10)
        for _ in range(60):
            sent = bytearray(whole)
            for _ in range(rng.randint(1, 6)):
                at = rng.randrange(len(sent))
                sent[at : at + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 4))
            line.send(bytes(sent))
            heard = json.loads(line.recv(30))
            assert heard["type"] in ("error", "model")
            assert "terminal" not in heard.get("message", "")
        line.send(whole)
        assert json.loads(line.recv(30))["opened"]["n_states"] == 16
        asked = {"grid": None, "risk": {"kind": "own"}, "caution": 1.0}
        line.send(json.dumps({"type": "solve", "number": 2, "statement": asked}))
        head, _ = unpack(line.recv(30))
        assert len(head["graph"]["nodes"]) == 16
        assert [one["layer"] for one in head["graph"]["nodes"]] == list(range(16))


def test_bring_mark_lose_the_server_and_go_on(visit, tmp_path, desk):
    (tmp_path / "desk.npz").write_bytes(desk)
    (tmp_path / "bad.npz").write_bytes(desk[: len(desk) // 2])
    studio = Studio()
    with running(studio) as site:
        page, port = visit(site), site.port
        page.locator("#files summary").click()
        page.locator("#bring-open").click()
        page.locator("#bring-files").set_input_files(tmp_path / "bad.npz")
        page.locator("#bring-send").click()
        playwright.expect(page.locator("#bring-error")).to_contain_text("bad.npz", timeout=LONGEST)
        page.locator("#bring-files").set_input_files(tmp_path / "desk.npz")
        page.locator("#bring-send").click()
        playwright.expect(page.locator("#graph .node")).to_have_count(16, timeout=LONGEST)
        page.locator("#risk").select_option("none")
        mdp = ca.worlds.queue()
        reads(page, "#return", shown(ca.solve(ca.Problem(mdp)).expected_return))
        # a state is marked as danger by keyboard, and limited
        page.locator("#graph .node").nth(15).press("Enter")
        page.locator("#limit-time-counts").check()
        page.locator("#limit-time").fill("1")
        limited = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([15]) <= 0.01]))
        reads(page, "#return", shown(limited.expected_return))
    playwright.expect(page.locator("#banner")).to_contain_text("trying again", timeout=LONGEST)
    with running(Studio(token=studio.token), port):
        playwright.expect(page.locator("#banner")).to_be_hidden(timeout=LONGEST)
        page.locator("#limit-time").fill("0.5")
        tighter = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure([15]) <= 0.005]))
        reads(page, "#return", shown(tighter.expected_return))
        # and when the page is loaded again
        page.wait_for_timeout(1700)
        page.reload()
        reads(page, "#return", shown(tighter.expected_return))
        playwright.expect(page.locator("#graph .node.risky")).to_have_count(1)
        # dropped on the page
        drop = """async (toml) => {
          const files = new DataTransfer();
          files.items.add(new File([toml], "swim.toml"));
          document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: files }));
        }"""
        page.evaluate(drop, '[model]\nworld = "river_swim"\n')
        playwright.expect(page.locator("#graph .node")).to_have_count(6, timeout=LONGEST)
        # side by side there are no maps to show
        page.locator("#tab-sides").click()
        playwright.expect(page.locator("#right-figures")).to_contain_text("expected return", timeout=LONGEST)
        playwright.expect(page.locator("#right-map")).to_be_hidden()
