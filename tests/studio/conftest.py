"""What the tests of the studio share: statements, an application to ask, and a server of its own thread."""

import contextlib
import http.client
import json
import socket
import threading
import time
from dataclasses import dataclass, replace

import pytest

import cautious as ca
from cautious.studio.guard import folder_of
from cautious.studio.scenario import EXAMPLES, Limits, RiskChoice, Statement
from cautious.studio.server import Studio, application, configuration, listen
from studio.browser import BROWSER, FLAGS, LONGEST, driver

NO_LIMITS = Limits()


def statement(name="maze", kind="variance", caution=10.0, limits=NO_LIMITS, horizon=None, **parameters):
    return Statement(EXAMPLES[name].grid, RiskChoice(kind, **parameters), caution, (), limits, horizon)


def nameless(mdp):
    """The model without names of its states: it is shown as a graph, where names would make it a board."""
    parts = (mdp.transitions, mdp.rewards, mdp.discount, mdp.start)
    return ca.MDP(*parts, allowed=mdp.allowed, action_names=mdp.action_names)


def from_anywhere(time):
    """The maze when episodes also start in danger, so that no policy keeps off it, with a limit on the time there."""
    maze = EXAMPLES["maze"].grid
    rows = tuple(row.replace("S", ".") for row in maze.rows)
    return Statement(replace(maze, rows=rows), RiskChoice(), 0.0, limits=Limits(time))


def solve_message(number=1, **changes):
    return json.dumps({"type": "solve", "number": number, "statement": statement().plain() | changes})


def unpack(data):
    """Head and payload of a binary message."""
    size = int.from_bytes(data[:4], "little")
    return json.loads(data[4 : 4 + size]), data[4 + size :]


@dataclass
class Site:
    """A studio that is being served."""

    port: int
    token: str

    @property
    def host(self):
        return f"127.0.0.1:{self.port}"

    @property
    def cookie(self):
        return f"cautious-studio-{self.port}={self.token}"

    @property
    def folder(self):
        return folder_of(self.token)

    def inside(self, path):
        """A route as the page asks for it."""
        return self.folder + path.removeprefix("/")

    @property
    def address(self):
        return f"http://{self.host}/?token={self.token}"

    def ask(self, method, path, **headers):
        """Status, headers and content; path and headers are sent as they are."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        line.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in headers.items():
            line.putheader(name, value)
        line.endheaders()
        answer = line.getresponse()
        content = answer.read()
        line.close()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, content

    def connect(self, path=None, **headers):
        """A WebSocket; by default one with all that the page sends."""
        from websockets.sync.client import connect

        path = self.inside("/talk") if path is None else path

        sent = {"host": self.host, "origin": f"http://{self.host}", "cookie": self.cookie} | headers
        address, origin = f"ws://{sent.pop('host')}{path}", sent.pop("origin")
        line = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        return connect(
            address, sock=line, origin=origin, additional_headers=sent, compression=None, max_size=None, max_queue=None
        )


@contextlib.contextmanager
def running(studio, port=0):
    """A studio that is served in a thread; port 0 is a free one."""
    import uvicorn

    place = listen(port)
    port = place.getsockname()[1]
    server = uvicorn.Server(configuration(application(studio, port)))
    thread = threading.Thread(target=server.run, args=([place],), daemon=True)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield Site(port, studio.token)
    finally:
        server.should_exit = True
        thread.join(10)
        place.close()
        studio.pool.shutdown(wait=True, cancel_futures=True)


@pytest.fixture(scope="module")
def site():
    """A studio with nothing opened."""
    pytest.importorskip("starlette", reason="extra studio")
    pytest.importorskip("websockets", reason="extra studio")
    with running(Studio()) as one:
        yield one


@pytest.fixture(scope="package")
def browser():
    """A Chromium."""
    pytest.importorskip("starlette", reason="extra studio")
    with driver() as started:
        one = started.chromium.launch(executable_path=BROWSER, args=FLAGS)
        yield one
        one.close()


@pytest.fixture
def visit(browser):
    """Open the page of a site; nothing may go wrong in it. Nothing moves unless a test asks for it."""
    contexts, problems = [], []

    def open_page(site, width=1280, height=800, moving=False, toured=True, **options):
        motion = "no-preference" if moving else "reduce"
        context = browser.new_context(viewport={"width": width, "height": height}, reduced_motion=motion, **options)
        contexts.append(context)
        if toured:
            context.add_cookies([{"name": "cautious-studio-toured", "value": "1", "url": f"http://{site.host}"}])
        page = context.new_page()
        page.set_default_timeout(LONGEST)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.goto(site.address)
        page.wait_for_selector("#timing[data-number]")
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert problems == []
