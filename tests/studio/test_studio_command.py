"""``cautious studio``: it says where it is, answers there only, and ends on Ctrl-C."""

import json
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request

import pytest

from cautious.studio import server

pytest.importorskip("uvicorn", reason="extra studio")


def start(*arguments):
    code = "from cautious.cli import main; main()"
    command = [sys.executable, "-c", code, "studio", *arguments, "--no-browser"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_serves_until_interrupted():
    process = start("--json")
    try:
        text = ""
        while "}" not in text:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            text += line
        where = json.loads(text)["address"]
        with urllib.request.urlopen(where, timeout=20) as answer:
            assert b"cautious studio" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(where.split("?")[0], timeout=20)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


def test_it_listens_on_this_computer_only():
    place = server.listen(0)
    try:
        assert place.getsockname()[0] == "127.0.0.1"
    finally:
        place.close()


def test_a_port_in_use(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, out, err = run("studio", "--port", port, "--no-browser")
    assert (code, out) == (2, "")
    assert err == f"cautious: port {port} cannot be used: Address already in use\n"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "neither a world nor a file"),
        (["maze", "--time-limit", "0"], "--time-limit is 0; it must be"),
        (["maze", "--port", "70000"], "less than or equal to 65535"),
        (["maze", "--discount", "0.9"], "--discount is for"),
    ],
)
def test_wrong_input(run, arguments, words):
    code, _, err = run("studio", *arguments, "--no-browser")
    assert code == 2
    assert words in err


@pytest.mark.parametrize("name", ["starlette", "uvicorn", "websockets"])
def test_a_missing_extra_is_named(run, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    code, _, err = run("studio", "--no-browser")
    assert code == 2
    assert 'pip install "cautious[studio]"' in err
