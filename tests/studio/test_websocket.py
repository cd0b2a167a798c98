"""Conversations with pages: answers, errors in words, floods, many pages at once."""

import contextlib
import json
import random
import socket
import struct
import threading
import time

import pytest

import cautious as ca
from cautious.studio import server
from cautious.studio import websocket as talk
from cautious.studio.server import Studio
from cautious.studio.session import Session
from cautious.studio.uploads import LARGEST_UPLOAD
from studio.conftest import running, solve_message, statement, unpack
from studio.test_page_messages import mutated

websockets = pytest.importorskip("websockets", reason="extra studio")
pytest.importorskip("starlette", reason="extra studio")


@pytest.fixture
def line(site):
    """A page's WebSocket, after the greeting."""
    with site.connect() as one:
        assert hear(one)[0]["type"] == "hello"
        yield one


def hear(line):
    """The next message: head and payload."""
    data = line.recv(60)
    return unpack(data) if isinstance(data, bytes) else (json.loads(data), None)


def hear_until(line, kind):
    while True:
        head, payload = hear(line)
        if head["type"] == kind:
            return head, payload


def test_a_page_is_greeted(site):
    with site.connect() as line:
        hello, _ = hear(line)
    assert (hello["type"], hello["first"], hello["opened"]) == ("hello", "maze", None)
    assert hello["examples"]["maze"] == json.loads(json.dumps(statement().plain()))


def test_a_page_is_answered_and_shown_the_curve(line):
    line.send(solve_message(3))
    answer, payload = hear(line)
    assert (answer["type"], answer["number"], answer["status"]) == ("solution", 3, "SOLVED")
    assert len(payload) == 2 * 4 * 92 * 4
    curve, _ = hear(line)
    assert (curve["type"], curve["number"], len(curve["points"])) == ("frontier", 3, 9)
    # another caution leaves the curve as it is
    line.send(solve_message(4, caution=1.0))
    line.send(json.dumps({"type": "open", "number": 5, "text": json.dumps(statement().plain())}))
    assert {hear(line)[0]["type"], hear(line)[0]["type"]} == {"solution", "opened"}


def test_mistakes_are_sentences_and_the_conversation_goes_on(line):
    line.send(solve_message(1, caution=-1))
    assert hear(line)[0] == {
        "type": "error",
        "number": 1,
        "message": "caution is -1; it must be a number from 0 to 1e+09",
    }
    line.send(b"\xff\x00")
    assert "the upload has no head" in hear(line)[0]["message"]
    line.send("{")
    assert "not JSON" in hear(line)[0]["message"]
    line.send(solve_message(2, grid=None))
    assert hear(line)[0]["message"] == "no model was opened; the statement needs a grid"
    line.send(solve_message(3))
    assert hear(line)[0]["number"] == 3


def test_a_fault_of_ours_is_no_traceback(line, monkeypatch, capsys):
    monkeypatch.setattr(Session, "solve", lambda *_: 1 / 0)
    line.send(solve_message(1))
    assert hear(line)[0]["message"] == talk.FAULT
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_the_newest_statement_wins(line, monkeypatch):
    entered, go_on, asked = threading.Event(), threading.Event(), []
    solve = Session.solve

    def slow(self, what, stop):
        asked.append(what.caution)
        entered.set()
        go_on.wait(10)
        return solve(self, what, stop)

    monkeypatch.setattr(Session, "solve", slow)
    for number in range(20):
        line.send(solve_message(number, caution=float(number)))
        entered.wait(10)
    # answered by the listener, so the twenty before it have been heard
    line.send("")
    hear_until(line, "error")
    go_on.set()
    assert [hear_until(line, "solution")[0]["number"] for _ in range(2)] == [0, 19]
    assert asked == [0.0, 19.0]


def test_a_long_solve_gives_way_with_what_it_has(line, monkeypatch):
    seen, entered = [], threading.Event()

    def long(self, what, stop):
        entered.set()
        started = time.perf_counter()
        while what.caution == 1.0 and not stop() and time.perf_counter() - started < 10:
            time.sleep(0.01)
        seen.append(time.perf_counter() - started)
        return ca.solve(ca.worlds.problem("maze"))

    monkeypatch.setattr(Session, "solve", long)
    line.send(solve_message(1, caution=1.0))
    assert entered.wait(10)
    line.send(solve_message(2, caution=2.0))
    assert [hear_until(line, "solution")[0]["number"] for _ in range(2)] == [1, 2]
    assert talk.UNINTERRUPTED_SECONDS <= seen[0] < 5


def test_files_are_made_and_not_forgotten(line):
    asked = {"type": "export", "statement": statement().plain(), "what": "policy"}
    line.send(json.dumps(asked | {"number": 1}))
    for number in range(2, 6):
        line.send(solve_message(number, caution=float(number)))
    head, content = hear_until(line, "file")
    assert (head["number"], head["name"]) == (1, "policy.csv")
    assert content.startswith(b"state,action,probability")


def test_a_flood_of_nonsense_never_ends_the_conversation(line, capsys, quick_pictures):
    rng = random.Random(1)
    for at in range(3000):
        line.send(mutated(rng).encode("utf-8", "replace").decode())
        if at % 100 == 99:
            # an answer to this one shows that everything before it was heard
            line.send("")
            while True:
                head, _ = hear(line)
                assert head["type"] in ("error", "solution", "frontier", "opened", "file")
                assert head.get("message") != talk.FAULT
                if head["type"] == "error" and "Expecting value: line 1 column 1 (char 0)" in head["message"]:
                    break
    assert capsys.readouterr().err == ""


def test_no_more_pages_than_the_limit(monkeypatch):
    monkeypatch.setattr(server, "MAX_PAGES", 1)
    with running(Studio()) as site:
        with site.connect() as first:
            hear(first)
            with site.connect() as second, pytest.raises(websockets.exceptions.ConnectionClosedError) as caught:
                hear(second)
        assert (caught.value.rcvd.code, "the limit" in caught.value.rcvd.reason) == (1013, True)
        with site.connect() as third:
            assert hear(third)[0]["type"] == "hello"


def test_pages_that_vanish_leave_nothing_behind(capfd):
    studio = Studio()
    with running(studio) as site:
        for number in range(12):
            with site.connect() as line:
                if number % 3:
                    hear(line)
                    line.send(solve_message(1) if number % 3 == 1 else "nonsense")
                # no farewell: the connection is reset
                line.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                line.socket.close()
        for _ in range(1000):
            if studio.pages == 0:
                break
            time.sleep(0.02)
        assert studio.pages == 0
        with site.connect() as line:
            assert hear(line)[0]["type"] == "hello"
    assert capfd.readouterr().err == ""


def test_fifty_pages_at_once(site):
    failures, bridge = [], statement("bridge").plain()["grid"]

    def visit(number):
        try:
            with site.connect() as line:
                assert hear(line)[0]["type"] == "hello"
                for step in range(3):
                    line.send(solve_message(step, caution=1.0 + number, risk={"kind": "none"}, grid=bridge))
                    head, _ = hear_until(line, "solution")
                    assert (head["number"], head["status"]) == (step, "SOLVED")
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=visit, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failures == []
    assert not any(thread.is_alive() for thread in threads)


def test_a_message_beyond_the_limit_closes_the_line(line):
    with contextlib.suppress(websockets.exceptions.ConnectionClosedError):
        line.send("x" * (LARGEST_UPLOAD + 1))
    with pytest.raises(websockets.exceptions.ConnectionClosedError) as caught:
        line.recv(10)
    # the rest of the message may still be under way when the line is closed
    assert caught.value.rcvd is None or caught.value.rcvd.code == 1009
