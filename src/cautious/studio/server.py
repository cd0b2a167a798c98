"""The server: fixed files, one WebSocket, all behind the guard; on this computer only (extra ``studio``)."""

import json
import os
import secrets
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cautious.errors import FileError, MissingExtraError
from cautious.problem import Problem
from cautious.studio import messages
from cautious.studio.guard import Guard
from cautious.studio.opening import opened_words
from cautious.studio.scenario import EXAMPLES, LARGEST_SIDE, WORLDS
from cautious.studio.session import Session
from cautious.studio.uploads import LARGEST_UPLOAD
from cautious.studio.websocket import MAX_RACES, Conversation

HOST = "127.0.0.1"
MAX_PAGES = 64
MAX_CLOSE_SECONDS = 1.0
PAGE = "index.html"
MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
# read once: a request can name no other file
FILES = {path.name: path for path in sorted((Path(__file__).parent / "static").iterdir()) if path.suffix in MEDIA}


def require_server() -> None:
    """Raise now, before any work, when serving would fail later."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
        import websockets  # noqa: F401
    except ImportError:
        raise MissingExtraError(
            'the studio needs starlette, uvicorn and websockets; install them with: pip install "cautious[studio]"'
        ) from None


@dataclass
class Studio:
    """What all pages share: the problem that was opened (None: only grids), limits, the token and the threads."""

    opened: Problem | None = None
    name: str = "maze"
    time_limit_seconds: float = 5.0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(max(2, os.cpu_count() or 1)))
    # a problem as the page writes it into a link, which the page opens
    shared: str = ""
    pages: int = 0
    race_slots: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MAX_RACES))

    def preload(self) -> None:
        """Load what the first answer needs while the browser still opens."""
        session = Session(time_limit_seconds=self.time_limit_seconds)
        self.pool.submit(session.solve, EXAMPLES["maze"], lambda: False)

    def hello(self) -> str:
        """What a page is told first."""
        examples = {name: statement.plain() for name, statement in EXAMPLES.items()}
        head = {
            "type": "hello",
            "examples": examples,
            "worlds": list(WORLDS),
            "first": self.name if self.opened is None else None,
            "opened": None if self.opened is None else opened_words(self.opened, self.name),
            "shared": self.shared,
            "largest_side": LARGEST_SIDE,
            "largest_pay": messages.LARGEST_PAY,
            "largest_caution": messages.LARGEST_CAUTION,
            "largest_discount": messages.LARGEST_DISCOUNT,
            "largest_horizon": messages.LARGEST_HORIZON,
            "largest_upload": LARGEST_UPLOAD - messages.LARGEST_HEAD,
        }
        return json.dumps(head)


def application(studio: Studio, port: int) -> Any:
    """The ASGI application."""
    require_server()
    from starlette.applications import Starlette
    from starlette.middleware import Middleware
    from starlette.responses import Response
    from starlette.routing import Route, WebSocketRoute

    def fixed(path: Path) -> Any:
        content, media = path.read_bytes(), MEDIA[path.suffix]

        async def answer(request: Any) -> Any:
            return Response(content, media_type=media)

        return answer

    async def converse(page: Any) -> None:
        await page.accept()
        if studio.pages >= MAX_PAGES:
            await page.close(1013, f"{MAX_PAGES} pages are open, which is the limit; close one")
            return
        studio.pages += 1
        try:
            session = Session(studio.opened, studio.time_limit_seconds)
            await Conversation(page, session, studio.pool, studio.hello(), studio.race_slots).run()
        finally:
            studio.pages -= 1

    routes = [Route("/" if name == PAGE else f"/{name}", fixed(path)) for name, path in FILES.items()]
    guard = Middleware(Guard, port=port, token=studio.token)
    return Starlette(routes=[*routes, WebSocketRoute("/talk", converse)], middleware=[guard])


def listen(port: int) -> socket.socket:
    """A socket of this computer, not of its network; port 0 takes a free one."""
    place = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        place.bind((HOST, port))
    except (OSError, OverflowError) as error:
        place.close()
        raise FileError(f"port {port} cannot be used: {getattr(error, 'strerror', None) or error}") from None
    place.listen(128)
    return place


def address(studio: Studio, place: socket.socket) -> str:
    """The address with the token, without which every request is refused."""
    return f"http://{HOST}:{place.getsockname()[1]}/?token={studio.token}"


def configuration(app: Any) -> Any:
    """How uvicorn serves it: no log of requests, which would show the token, and no large messages."""
    import uvicorn

    return uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        server_header=False,
        ws_max_size=LARGEST_UPLOAD,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=2,
    )


def serve(studio: Studio, place: socket.socket) -> None:
    """Answer until Ctrl-C."""
    import uvicorn

    studio.preload()
    try:
        uvicorn.Server(configuration(application(studio, place.getsockname()[1]))).run(sockets=[place])
    except KeyboardInterrupt:
        pass
    finally:
        place.close()


def close(studio: Studio) -> bool:
    """End the threads; False where one is in the middle of a long step and may take a while."""
    ending = threading.Thread(target=studio.pool.shutdown, kwargs={"cancel_futures": True}, daemon=True)
    ending.start()
    ending.join(MAX_CLOSE_SECONDS)
    return not ending.is_alive()
