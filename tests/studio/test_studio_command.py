"""``cautious studio``: it says where it is, answers there only, and ends on Ctrl-C."""

import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from cautious.studio import server
from studio.conftest import Site, solve_message

pytest.importorskip("uvicorn", reason="extra studio")


SLOW = """
import time
from cautious.studio.session import Session
Session.solve = lambda *_: time.sleep(120)
"""


def start(*arguments, before=""):
    """The process of a studio, and its address."""
    code = f"{before}\nfrom cautious.cli import main\nmain()"
    command = [sys.executable, "-c", code, "studio", *arguments, "--no-browser", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    text = ""
    while "}" not in text:
        line = process.stdout.readline()
        assert line, process.stderr.read()
        text += line
    return process, json.loads(text)["address"]


def test_it_serves_until_interrupted():
    process, where = start()
    try:
        with urllib.request.urlopen(where, timeout=20) as answer:
            assert b"cautious studio" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(where.split("?")[0], timeout=20)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")


def test_a_long_solve_does_not_delay_the_end():
    pytest.importorskip("websockets", reason="extra studio")
    process, where = start(before=SLOW)
    try:
        port, token = re.search(r":(\d+)/\?token=(.*)", where).groups()
        with Site(int(port), token).connect() as line:
            line.recv(20)
            line.send(solve_message())
            time.sleep(0.5)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=15)
    finally:
        process.kill()
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
        (["queue", "--horizon", "100000"], "queue has 100,000 steps; the studio shows at most 1,000"),
        (["queue", "--horizon", "average"], "does not discount"),
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
