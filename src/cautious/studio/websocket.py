"""One page's conversation: statements come in as fast as a slider moves; the newest is answered, others are dropped.

At most one computation of a page runs at a time, in a thread. A solve that has taken longer than
``UNINTERRUPTED_SECONDS`` ends with its best policy so far when something newer is asked; a frontier ends at once and is
computed later.
"""

import asyncio
import contextlib
import json
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, MutableMapping
from concurrent.futures import Executor
from typing import Any, Protocol

from numpy.typing import NDArray

from cautious.errors import CautiousError, InputError
from cautious.studio import answers
from cautious.studio.messages import Control, Message, World, number_of, parse, parse_upload
from cautious.studio.opening import opened_words, opened_world
from cautious.studio.race import Race
from cautious.studio.returns import return_arrays
from cautious.studio.scenario import Statement
from cautious.studio.session import Session
from cautious.studio.uploads import Upload, read_upload

UNINTERRUPTED_SECONDS = 0.25
QUIET_SECONDS = 0.15
MAX_FILES = 3
URGENCY = ("solve", "walk", "returns")
MAX_RACES = 2
RACE_SEED = 0
FAULT = "something went wrong that should not; the terminal of the studio shows what"


class Socket(Protocol):
    """What a conversation needs of the line to its page."""

    async def receive(self) -> MutableMapping[str, Any]:
        """An event of ASGI."""

    async def send_text(self, data: str) -> None:
        """A message as text."""

    async def send_bytes(self, data: bytes) -> None:
        """A binary message."""


class Conversation:
    """Reads, works and answers until the page is gone."""

    def __init__(
        self, socket: Socket, session: Session, pool: Executor, greeting: str, race_slots: threading.Semaphore
    ) -> None:
        self.socket, self.session, self.pool, self.race_slots = socket, session, pool, race_slots
        self.greeting = greeting
        # of each kind and side only the newest is answered
        self.newest: dict[str, Message] = {}
        self.files: deque[Message | Upload | World] = deque()
        self.race: Race | None = None
        self.racing: asyncio.Task[None] | None = None
        self.wake = asyncio.Event()
        self.closed = False
        # what was solved last, and the statement whose curve the page has, without its caution
        self.solved: Message | None = None
        self.drawn: Statement | None = None

    async def run(self) -> None:
        """The whole conversation."""
        await self._send(self.greeting)
        worker = asyncio.create_task(self._work())
        try:
            await self._listen()
        finally:
            # a thread cannot be ended from outside: it is asked to stop, and its result is dropped
            self.closed = True
            worker.cancel()
            if self.race is not None:
                self.race.control("stop")
            await asyncio.wait([worker] if self.racing is None else [worker, self.racing])

    async def _listen(self) -> None:
        while not self.closed:
            event = await self.socket.receive()
            if event["type"] == "websocket.disconnect":
                return
            text = event.get("text") or ""
            try:
                if event.get("bytes") is not None:
                    self._queue(parse_upload(event["bytes"]))
                else:
                    await self._take(parse(text))
            except CautiousError as error:
                await self._send(answers.error_message(number_of(text), str(error)))

    async def _take(self, message: Message | Control | World) -> None:
        if isinstance(message, Control):
            if self.race is not None:
                self.race.control(message.what)
            return
        if isinstance(message, World):
            self._queue(message)
            return
        if message.kind == "race":
            self._begin_race(message)
            return
        if message.kind == "open":
            statement = message.statement.plain()
            await self._send(json.dumps({"type": "opened", "statement": statement}))
            return
        if message.kind in URGENCY:
            self.newest[message.kind + message.side] = message
        else:
            self._queue(message)
        self.wake.set()

    def _queue(self, message: Message | Upload | World) -> None:
        """Files are made and read one after the other."""
        if len(self.files) >= MAX_FILES:
            raise InputError(f"{MAX_FILES} files are waiting already; wait for them")
        self.files.append(message)
        self.wake.set()

    def _begin_race(self, message: Message) -> None:
        if self.race is not None:
            raise InputError("a race is running already; stop it first")
        if not self.race_slots.acquire(blocking=False):
            raise InputError(f"{MAX_RACES} races are running in this studio; try again when one has ended")
        loop = asyncio.get_running_loop()

        def tell(head: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
            if not self.closed:
                asyncio.run_coroutine_threadsafe(self._send(answers.pack_arrays(head, arrays)), loop).result()

        # a session of its own: two threads must not share one
        session = Session(self.session.opened, self.session.time_limit_seconds)
        self.race = Race(session, message.statement, message.samples, RACE_SEED, message.number, tell)
        self.racing = asyncio.create_task(self._race(self.race, message))

    async def _race(self, race: Race, message: Message) -> None:
        ends: list[str] = []
        try:
            # not in the pool, where solutions would wait for it
            await self._try(lambda _: ends.append(race.run()), message, None)
        finally:
            self.race = None
            self.race_slots.release()
        # a page that receives this may start another race
        for why in ends:
            await self._send(answers.pack_arrays(race.words("end", {"why": why}), {}))

    async def _work(self) -> None:
        while not self.closed:
            await self.wake.wait()
            self.wake.clear()
            while self._has_work() and not self.closed:
                await self._answer(self._next())
                if self.solved is not None and not self._has_work():
                    await self._draw(self.solved)

    def _next(self) -> Message | Upload | World:
        """Solutions first, then files, walkers, and in the end what takes longer."""
        if "solve" not in self.newest and self.files:
            return self.files.popleft()
        return self.newest.pop(min(self.newest, key=lambda slot: URGENCY.index(self.newest[slot].kind)))

    async def _answer(self, message: Message | Upload | World) -> None:
        if isinstance(message, Upload | World):
            self.solved = None
            await self._try(lambda _: self._open(message), message, self.pool)
            return
        work = {"solve": self._solution, "walk": self._walk, "returns": self._returns}.get(message.kind, self._file)
        self.solved = None if message.kind == "solve" else self.solved
        if await self._try(work, message, self.pool) and message.kind == "solve":
            self.solved = message

    async def _try(
        self, work: Callable[[Any], str | bytes | None], message: Message | Upload | World, pool: Executor | None
    ) -> bool:
        """Send what the work makes of a message, or what is wrong with it; whether all went well."""
        try:
            answer = await asyncio.get_running_loop().run_in_executor(pool, work, message)
        except CautiousError as error:
            answer, went_well = answers.error_message(message.number, str(error)), False
        except Exception:
            traceback.print_exc()
            answer, went_well = answers.error_message(message.number, FAULT), False
        else:
            went_well = True
        if answer is not None:
            await self._send(answer)
        return went_well

    async def _draw(self, message: Message) -> None:
        """The curve of what was solved last, unless something is asked meanwhile."""
        key = message.statement.curve_key
        if key == self.drawn or not await self._is_quiet():
            return
        await self._try(self._curve, message, self.pool)

    async def _send(self, message: str | bytes) -> None:
        """Send, unless the page is gone."""
        if self.closed:
            return
        try:
            if isinstance(message, str):
                await self.socket.send_text(message)
            else:
                await self.socket.send_bytes(message)
        except Exception:
            # whatever error the server's libraries raise, the page is gone
            self.closed = True

    async def _is_quiet(self) -> bool:
        """Whether nothing more was asked for a moment: a curve is not drawn while the user still paints."""
        if not self._has_work():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.wake.wait(), QUIET_SECONDS)
        return not self._has_work()

    def _has_work(self) -> bool:
        return self.closed or bool(self.newest) or bool(self.files)

    def _solution(self, message: Message) -> bytes:
        started = time.perf_counter()
        statement = message.statement

        def stop() -> bool:
            return self.closed or ("solve" in self.newest and time.perf_counter() - started > UNINTERRUPTED_SECONDS)

        solution = self.session.solve(statement, stop)
        seconds = time.perf_counter() - started
        return answers.solution_message(message.number, solution, self.session, statement, seconds)

    def _open(self, wanted: Upload | World) -> str:
        if isinstance(wanted, World):
            problem, words = opened_world(wanted.name)
        else:
            problem = read_upload(wanted)
            words = opened_words(problem, wanted.main)
        self.session, self.drawn = Session(problem, self.session.time_limit_seconds), None
        return json.dumps({"type": "model", "number": wanted.number, "opened": words})

    def _curve(self, message: Message) -> str | None:
        points = self.session.frontier(message.statement, self._has_work)
        if points is None:
            return None
        self.drawn = message.statement.curve_key
        return answers.frontier_message(message.number, points, message.statement)

    def _walk(self, message: Message) -> bytes:
        solution = self.session.solve(message.statement, lambda: self.closed or "solve" in self.newest)
        return answers.walk_message(message, solution, self.session.scenario(message.statement))

    def _returns(self, message: Message) -> bytes | None:
        solution = self.session.solve(message.statement, lambda: self.closed or "solve" in self.newest)
        if "solve" in self.newest:
            # the page asks again when it has the next answer
            return None
        facts, arrays = return_arrays(solution)
        head = {"type": "returns", "number": message.number, "side": message.side}
        return answers.pack_arrays(head | facts, arrays)

    def _file(self, message: Message) -> bytes:
        statement = message.statement
        solution = self.session.solve(statement, lambda: self.closed)
        name, media, content = answers.export(message.kind, statement, self.session.scenario(statement), solution)
        head = {"type": "file", "number": message.number, "name": name, "media": media}
        return answers.pack(head, content)
