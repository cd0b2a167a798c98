"""Access control: every route and the WebSocket refuse requests without the token and those from other sites.

The token comes once in the address and is then kept in a cookie that scripts cannot read and other sites cannot send.
Browsers send cookies of a host to all its ports, so that of any other server on this computer would get it. Therefore
everything lies in a folder whose name nobody else can know, and the cookie is for that folder only.
Host and Origin are compared with the addresses of this server: a name that a foreign DNS server points here, and a page
of somebody else's, are refused before anything else is looked at.
"""

import hashlib
import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

ENTRANCE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>cautious studio</title>
<meta http-equiv="refresh" content="0;url={folder}"></head>
<body><p><a href="{folder}">To the studio</a></p></body></html>
"""
REFUSED = {
    401: b"This page needs the whole address that `cautious studio` printed, token included.",
    403: b"The studio answers only to its own page on this computer.",
}


def folder_of(token: str) -> str:
    """The path below which everything lies; it is computed from the token, which cannot be computed from it."""
    return f"/{hashlib.sha256(b'folder ' + token.encode()).hexdigest()[:32]}/"


class Guard:
    """Wraps an application; every answer carries headers that forbid browsers to load or embed other content."""

    def __init__(self, app: App, port: int, token: str) -> None:
        self.app = app
        self.token = token
        self.cookie = f"cautious-studio-{port}"
        self.folder = folder_of(token)
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        sockets = " ".join(f"ws://{host}" for host in self.hosts)
        policy = (
            f"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self' {sockets}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        self.headers = [
            (b"content-security-policy", policy.encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"x-frame-options", b"DENY"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
            (b"cache-control", b"no-store"),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse, or let through."""
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        given = self._given(scope)
        host, origin = given["host"], given["origin"]
        # a browser always says where a WebSocket comes from
        is_foreign = origin != f"http://{host}" and (origin is not None or scope["type"] == "websocket")
        if host not in self.hosts or is_foreign:
            await self._refuse(scope, 403, send)
        elif self._is_token(given["query"]):
            await self._let_in(scope, send)
        elif self._is_inside(scope["path"]) and self._is_token(given["cookie"]):
            await self.app({**scope, "path": scope["path"][len(self.folder) - 1 :]}, receive, self._strictly(send))
        else:
            await self._refuse(scope, 401, send)

    def _strictly(self, send: Send) -> Send:
        async def send_strictly(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", []), *self.headers]
            await send(event)

        return send_strictly

    def _is_inside(self, path: str) -> bool:
        return hmac.compare_digest(path[: len(self.folder)].encode(), self.folder.encode())

    def _is_token(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def _given(self, scope: Scope) -> dict[str, str | None]:
        """Host, origin and the two places of a token; None where missing, or said twice.

        A token in an address counts where a browser first comes in, and nowhere else.
        """
        found: dict[str, str | None] = {}
        for name in ("host", "origin", "cookie"):
            values = [value.decode("latin-1") for key, value in scope["headers"] if key == name.encode()]
            found[name] = values[0] if len(values) == 1 else None if not values else ""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        is_entrance = scope["path"] == "/" and scope.get("method") in ("GET", "HEAD")
        found["query"] = query[0] if len(query) == 1 and is_entrance else None
        found["cookie"] = self._cookie_of(found["cookie"])
        return found

    def _cookie_of(self, header: str | None) -> str | None:
        try:
            morsel = SimpleCookie(header or "").get(self.cookie)
        except CookieError:
            return None
        return None if morsel is None else morsel.value

    async def _let_in(self, scope: Scope, send: Send) -> None:
        """Give the cookie, and a page that leads on: browsers send no strict cookies along a redirect."""
        kept = f"{self.cookie}={self.token}; Path={self.folder}; HttpOnly; SameSite=Strict"
        page = ENTRANCE.format(folder=self.folder).encode()
        headers = [*self.headers, (b"content-type", b"text/html; charset=utf-8"), (b"set-cookie", kept.encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else page})

    async def _refuse(self, scope: Scope, code: int, send: Send) -> None:
        if scope["type"] == "websocket":
            # before it is accepted, a closed WebSocket is an HTTP answer 403
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [*self.headers, (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else REFUSED[code]})
