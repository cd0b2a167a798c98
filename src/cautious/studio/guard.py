"""Who gets in: nobody without the token, nobody from another site, on every route and the WebSocket.

The token comes once in the address and is then kept in a cookie that scripts cannot read and other sites cannot send.
Host and Origin are compared with the addresses of this server: a name that somebody else's DNS points here, and a page
of somebody else's, are refused before anything else is looked at.
"""

import hmac
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

REFUSED = {
    401: b"This page needs the whole address that `cautious studio` printed, token included.",
    403: b"The studio answers only to its own page on this computer.",
}


class Guard:
    """Wraps an application; everything it answers carries the headers that keep browsers strict."""

    def __init__(self, app: App, port: int, token: str) -> None:
        self.app = app
        self.token = token
        self.cookie = f"cautious-studio-{port}"
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
        code = self._code(scope, given)
        if code is not None:
            await self._refuse(scope, code, send)
            return
        is_fresh = not self._is_token(given["cookie"])

        async def send_strictly(event: MutableMapping[str, Any]) -> None:
            if event["type"] == "http.response.start":
                event["headers"] = [*event.get("headers", []), *self.headers]
                if is_fresh:
                    kept = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Strict"
                    event["headers"].append((b"set-cookie", kept.encode()))
            await send(event)

        await self.app(scope, receive, send_strictly)

    def _code(self, scope: Scope, given: dict[str, str | None]) -> int | None:
        """The HTTP code of a refusal; None lets through."""
        host, origin = given["host"], given["origin"]
        if host not in self.hosts:
            return 403
        # a browser always says where a WebSocket comes from
        if origin != f"http://{host}" and (origin is not None or scope["type"] == "websocket"):
            return 403
        tokens = [given["cookie"]] if scope["type"] == "websocket" else [given["cookie"], given["query"]]
        return None if any(self._is_token(token) for token in tokens) else 401

    def _is_token(self, token: str | None) -> bool:
        return token is not None and hmac.compare_digest(token.encode(), self.token.encode())

    def _given(self, scope: Scope) -> dict[str, str | None]:
        """Host, origin and the two places of a token; None where missing, or said twice."""
        found: dict[str, str | None] = {}
        for name in ("host", "origin", "cookie"):
            values = [value.decode("latin-1") for key, value in scope["headers"] if key == name.encode()]
            found[name] = values[0] if len(values) == 1 else None if not values else ""
        query = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("token", [])
        found["query"] = query[0] if len(query) == 1 and scope["path"] == "/" else None
        found["cookie"] = self._cookie_of(found["cookie"])
        return found

    def _cookie_of(self, header: str | None) -> str | None:
        try:
            morsel = SimpleCookie(header or "").get(self.cookie)
        except CookieError:
            return None
        return None if morsel is None else morsel.value

    async def _refuse(self, scope: Scope, code: int, send: Send) -> None:
        if scope["type"] == "websocket":
            # before it is accepted, a closed WebSocket is an HTTP answer 403
            await send({"type": "websocket.close", "code": 1008})
            return
        headers = [*self.headers, (b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": code, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else REFUSED[code]})
