"""Who gets in: every route and method is tried without a token, from another host, from another page, by odd paths."""

import contextlib
import itertools
import random
import re
import socket

import pytest

from cautious.studio.guard import folder_of
from cautious.studio.server import Studio, application

pytest.importorskip("starlette", reason="extra studio")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
TRAVERSALS = (
    "/../server.py",
    "/..%2fserver.py",
    "/%2e%2e/guard.py",
    "//etc/passwd",
    "/static/main.js",
    "/main.js/..",
    "/\\..",
)


def routes():
    """(path, whether it is a WebSocket) of every route, from the router."""
    from starlette.routing import Route, WebSocketRoute

    found = application(Studio(), 1).routes
    assert {type(route) for route in found} == {Route, WebSocketRoute}, "a kind of route that these tests do not know"
    return [(route.path, isinstance(route, WebSocketRoute)) for route in found]


PAGES = [path for path, is_socket in routes() if not is_socket]
SOCKETS = [path for path, is_socket in routes() if is_socket]


def own(site):
    return {"host": site.host, "cookie": site.cookie}


def attacks(site):
    mine = own(site)
    return {
        "no token": {"host": site.host},
        "wrong token": mine | {"cookie": site.cookie + "x"},
        "token of another port": mine | {"cookie": f"cautious-studio-1={site.token}"},
        "two cookies in one": mine | {"cookie": f"cautious-studio-{site.port}=x; {site.cookie}x"},
        "foreign host": mine | {"host": "evil.example"},
        "rebound name": mine | {"host": f"evil.example:{site.port}"},
        "other port": mine | {"host": "127.0.0.1:1"},
        "no port": mine | {"host": "127.0.0.1"},
        "null origin": mine | {"origin": "null"},
        "foreign origin": mine | {"origin": "http://evil.example"},
        "https origin": mine | {"origin": f"https://{site.host}"},
        "origin of the other name": mine | {"origin": f"http://localhost:{site.port}"},
    }


def test_there_are_routes():
    assert {"/", "/main.js", "/base.css"} <= set(PAGES)
    assert SOCKETS == ["/talk"]


@pytest.mark.parametrize("path", [path for path, _ in routes()])
def test_every_route_and_method_is_closed(site, path):
    places = (path, site.inside(path))
    for method, place, (attack, headers) in itertools.product(METHODS, places, attacks(site).items()):
        assert site.ask(method, place, **headers)[0] in (401, 403, 404), (method, place, attack)


@pytest.mark.parametrize("path", [path for path, _ in routes()])
def test_outside_its_folder_nothing_answers(site, path):
    """Not even to the cookie, which a browser would not send there."""
    for method, place in itertools.product(METHODS, (path, f"/x{site.inside(path)}", site.folder[:-1] + "x" + path)):
        assert site.ask(method, place, **own(site))[0] == 401, (method, place)


@pytest.mark.parametrize("path", SOCKETS)
def test_the_websocket_is_closed(site, path):
    from websockets.exceptions import InvalidStatus

    origins = {"no origin": {"origin": None}}
    for attack, headers in (attacks(site) | origins).items():
        sent = {"cookie": ""} | headers if attack == "no token" else headers
        with pytest.raises(InvalidStatus, match="403"), site.connect(site.inside(path), **sent):
            pytest.fail(f"let in: {attack}")
    with pytest.raises(InvalidStatus, match="403"), site.connect(path):
        pytest.fail("let in outside the folder")
    with site.connect(site.inside(path)) as line:
        assert line.recv(10)


def test_a_token_in_the_address_does_not_open_the_websocket(site):
    from websockets.exceptions import InvalidStatus

    for path in ("/talk", "/", site.inside("/talk"), site.folder):
        with pytest.raises(InvalidStatus, match="403"), site.connect(f"{path}?token={site.token}", cookie=""):
            pytest.fail("let in")


def test_odd_paths_lead_nowhere(site):
    for path, method in itertools.product(TRAVERSALS, METHODS):
        for place in (path, site.inside(path), site.folder[:-1] + path):
            assert site.ask(method, place, **own(site))[0] in (401, 403, 404), (place, method)


def test_nothing_but_reading_is_allowed(site):
    for path, method in itertools.product(PAGES, METHODS):
        assert site.ask(method, site.inside(path), **own(site))[0] == (200 if method in ("GET", "HEAD") else 405)


def test_only_the_entrance_takes_the_token_of_the_address(site):
    for path, method in itertools.product([*PAGES, *map(site.inside, PAGES)], METHODS):
        code, headers, _ = site.ask(method, f"{path}?token={site.token}", host=site.host)
        is_entrance = path == "/" and method in ("GET", "HEAD")
        assert code == (200 if is_entrance else 401), (path, method)
        assert ("set-cookie" in headers) == is_entrance


def test_the_way_in(site):
    code, headers, content = site.ask("GET", f"/?token={site.token}", host=site.host)
    assert code == 200
    # a browser sends it to no other path, whatever the port
    assert headers["set-cookie"] == f"{site.cookie}; Path={site.folder}; HttpOnly; SameSite=Strict"
    assert site.token.encode() not in content
    assert f'content="0;url={site.folder}"'.encode() in content
    code, headers, content = site.ask("GET", site.folder, **own(site))
    assert (code, "set-cookie" in headers) == (200, False)
    assert site.token.encode() not in content
    assert site.ask("GET", site.folder, host=f"localhost:{site.port}", cookie=site.cookie)[0] == 200


def test_the_name_of_the_folder_does_not_tell_the_token(site):
    assert re.fullmatch("/[0-9a-f]{32}/", site.folder)
    assert folder_of(site.token) == site.folder != folder_of(site.token + "x")
    assert site.folder.strip("/") not in site.token


@pytest.mark.parametrize("who", ["page", "nobody", "foreigner"])
def test_every_answer_keeps_browsers_strict(site, who):
    sent = {"page": own(site), "nobody": {"host": site.host}, "foreigner": {"host": "evil.example"}}[who]
    for path in [*map(site.inside, [*PAGES, *SOCKETS]), "/nothing", "/", f"/?token={site.token}"]:
        _, headers, _ = site.ask("GET", path, **sent)
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == "'self'"
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"


def test_the_page_needs_nothing_from_elsewhere(site):
    for path in PAGES:
        text = site.ask("GET", site.inside(path), **own(site))[2].decode()
        code = re.sub(r"^\s*//.*", "", text, flags=re.MULTILINE)
        assert set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+", code)) <= {"http://www.w3.org"}, path
        assert not re.search(r"\son\w+=|<script>|<style>|\sstyle=|eval\(|innerHTML", code), path


def test_garbage_on_the_line_changes_nothing(site):
    rng = random.Random(0)
    whole = f"GET /?token={site.token} HTTP/1.1\r\nHost: {site.host}\r\nCookie: {site.cookie}\r\n\r\n".encode()
    for _ in range(200):
        sent = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            at = rng.randrange(len(sent))
            sent[at : at + rng.randint(0, 4)] = rng.randbytes(rng.randint(0, 6))
        with socket.create_connection(("127.0.0.1", site.port), timeout=10) as line:
            line.sendall(bytes(sent))
            line.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                line.recv(200)
    assert site.ask("GET", site.folder, **own(site))[0] == 200


def test_tokens_are_long_and_never_the_same():
    tokens = {Studio().token for _ in range(5)}
    assert len(tokens) == 5
    assert min(map(len, tokens)) >= 43
