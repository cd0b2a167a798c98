"""The studio in a notebook: the same page in a frame, and a conversation with the kernel in place of a server."""

import asyncio
import atexit
import base64
import contextlib
import json
import re
import threading
from collections.abc import Callable
from typing import Any

from cautious.checks import as_count
from cautious.errors import InputError, MissingExtraError
from cautious.problem import Problem
from cautious.solution import Solution
from cautious.studio.opening import check_opened
from cautious.studio.server import FILES, PAGE, Studio
from cautious.studio.session import Session
from cautious.studio.websocket import Conversation

IMPORTED = re.compile(r'(from|import) "\./([a-z_]+\.js)"')
LEAST_HEIGHT, MOST_HEIGHT = 300, 10_000
LONGEST_CLOSE_SECONDS = 1.0
# the widget's own part: it hands messages on between the kernel and the page in its frame
HANDING_ON = """
function render({ model, el }) {
  const line = Math.random().toString(36).slice(2);
  const frame = document.createElement("iframe");
  frame.title = "cautious studio";
  frame.style.cssText = "width: 100%; border: 1px solid #8886; border-radius: 8px";
  frame.style.height = `${model.get("height")}px`;
  frame.srcdoc = model.get("page");
  const hear = ({ source, data }) => {
    if (source !== frame.contentWindow) return;
    if (data instanceof ArrayBuffer) model.send({ line, what: "bytes" }, undefined, [data]);
    else model.send({ line, what: data === null ? "open" : "text", text: data });
  };
  const tell = (content, buffers) => {
    if (content.line !== line) return;
    const [view] = buffers ?? [];
    const bytes = view && view.buffer.slice(view.byteOffset, view.byteOffset + view.byteLength);
    frame.contentWindow?.postMessage(bytes ?? content.text, "*");
  };
  window.addEventListener("message", hear);
  model.on("msg:custom", tell);
  el.append(frame);
  return () => {
    window.removeEventListener("message", hear);
    model.off("msg:custom", tell);
    model.send({ line, what: "close" });
  };
}
export default { render };
"""


class Line:
    """What a conversation has in place of a WebSocket."""

    def __init__(self, tell: Callable[[str | bytes], None]) -> None:
        self.tell = tell
        self.inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    async def send_text(self, data: str) -> None:
        """To the page."""
        self.tell(data)

    async def send_bytes(self, data: bytes) -> None:
        """To the page."""
        self.tell(data)

    async def receive(self) -> dict[str, Any]:
        """From the page, as a server says it."""
        return await self.inbox.get()


class Kernel:
    """The conversations of the pages of one widget, in a thread with its own loop."""

    def __init__(self, studio: Studio) -> None:
        self.studio, self.lines = studio, dict[str, Line]()
        self.tasks: set[asyncio.Task[None]] = set()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        atexit.register(self.close)

    def hear(self, line: str, event: dict[str, Any], tell: Callable[[str | bytes], None]) -> None:
        """What the page of a line says, from any thread; "open" begins its conversation."""
        self.loop.call_soon_threadsafe(self._hear, line, event, tell)

    def _hear(self, line: str, event: dict[str, Any], tell: Callable[[str | bytes], None]) -> None:
        if event["type"] == "open":
            self._end(line)
            self.lines[line] = Line(tell)
            task = self.loop.create_task(self._converse(self.lines[line]))
            self.tasks.add(task)
            task.add_done_callback(self.tasks.discard)
        elif event["type"] == "websocket.disconnect":
            self._end(line)
        elif line in self.lines:
            self.lines[line].inbox.put_nowait(event)

    def _end(self, line: str) -> None:
        if line in self.lines:
            self.lines.pop(line).inbox.put_nowait({"type": "websocket.disconnect"})

    def close(self) -> None:
        """End all conversations."""
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._close(), self.loop).result(LONGEST_CLOSE_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)

    async def _close(self) -> None:
        for line in list(self.lines):
            self._end(line)
        if self.tasks:
            await asyncio.wait(self.tasks)

    async def _converse(self, line: Line) -> None:
        studio = self.studio
        session = Session(studio.opened, studio.time_limit_seconds)
        await Conversation(line, session, studio.pool, studio.hello(), studio.race_slots).run()


def explorer(problem: Problem, name: str, height: int, time_limit_seconds: float = 5.0) -> Any:
    """A widget that shows a problem in the studio (extra ``notebook``)."""
    try:
        from anywidget import AnyWidget
        from traitlets import Int, Unicode
    except ImportError:
        raise MissingExtraError(
            'exploring in a notebook needs anywidget; install it with: pip install "cautious[notebook]"'
        ) from None
    height = as_count("height, in pixels,", height, LEAST_HEIGHT, MOST_HEIGHT)
    kernel = Kernel(Studio(problem, name, time_limit_seconds))

    class Explorer(AnyWidget):  # type: ignore[misc]
        """The studio in a frame."""

        _esm = HANDING_ON
        page = Unicode(whole_page()).tag(sync=True)
        height = Int(860).tag(sync=True)

    widget = Explorer(height=height)

    def hear(_: Any, content: dict[str, Any], buffers: list[Any]) -> None:
        line, what = str(content.get("line")), content.get("what")

        def tell(message: str | bytes) -> None:
            if isinstance(message, str):
                widget.send({"line": line, "text": message})
            else:
                widget.send({"line": line}, [message])

        kinds = {"open": "open", "close": "websocket.disconnect"}
        event: dict[str, Any] = {"type": kinds.get(str(what), "websocket.receive")}
        event |= {"bytes": bytes(buffers[0])} if what == "bytes" and buffers else {"text": content.get("text")}
        kernel.hear(line, event, tell)

    widget.on_msg(hear)
    return widget


def explore_solution(solution: Solution, height: int) -> Any:
    """The widget of ``Solution.explore``."""
    if solution.problem is None:
        raise InputError(
            "this solution came from a file and does not know its problem; ca.solve it again to explore it"
        )
    solution.mdp.require_matrix("exploring")
    check_opened(solution.problem, "the problem")
    return explorer(solution.problem, "solution", height)


def whole_page() -> str:
    """The page of the studio with all of its files in it, for a frame that has no server."""
    text = {name: path.read_text(encoding="utf-8") for name, path in FILES.items()}
    modules = {
        f"studio/{name}": _address("text/javascript", IMPORTED.sub(r'\1 "studio/\2"', content))
        for name, content in text.items()
        if name.endswith(".js")
    }
    page = text[PAGE]
    for name in ("base.css", "studio.css"):
        page = page.replace(f'<link rel="stylesheet" href="{name}">', f"<style>{text[name]}</style>")
    main = f'<script type="importmap">{json.dumps({"imports": modules})}</script>\n'
    main += '<script type="module">globalThis.inNotebook = true; await import("studio/main.js");</script>'
    page = page.replace('<script type="module" src="main.js"></script>', main)
    return page.replace("icon.svg", _address("image/svg+xml", text["icon.svg"]))


def _address(media: str, content: str) -> str:
    return f"data:{media};base64,{base64.b64encode(content.encode()).decode()}"
