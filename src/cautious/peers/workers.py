"""Processes in which others' solvers run: their memory is their own, and they can be killed.

Compiled solvers ignore Ctrl-C and time limits for minutes, and some end the process. A worker is sent requests, each a
line of JSON and as many bytes as its "payload" says, and says for each: "ready" when the clock starts, "answered" when
the answer is there and only its judgement is left, and then the row as JSON. Every stage has its time limit.
"""

import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Event, Timer
from typing import Any

# what is not the solver's time is bounded by so many limits, within (least, most) seconds, or by the most alone
SET_UP_LIMITS, SET_UP_SECONDS = 10.0, (60.0, 600.0)
JUDGEMENT_LIMITS, JUDGEMENT_SECONDS = 5.0, (30.0, 300.0)
EXIT_SECONDS = 20.0
PINNED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS")

Row = dict[str, Any]
Say = Callable[[str], object]
# a request and its payload to the row
Answer = Callable[[Row, bytes, Say], Row]


def stage_limits(limit_seconds: float, patient: bool) -> dict[str, float]:
    """Seconds for each stage, by the last word said: preparation, the timed part, judgement."""
    unit = math.inf if patient else limit_seconds
    return {
        "": min(max(SET_UP_LIMITS * unit, SET_UP_SECONDS[0]), SET_UP_SECONDS[1]),
        "ready": limit_seconds,
        "answered": min(max(JUDGEMENT_LIMITS * unit, JUDGEMENT_SECONDS[0]), JUDGEMENT_SECONDS[1]),
    }


class Worker:
    """A child process that runs a ``command`` of Python; ``pinned`` to one thread, or free to use all cores.

    ``patient``: preparation and judgement have their longest time however short the limit is.
    """

    def __init__(self, command: Sequence[str], pinned: bool = True, patient: bool = True) -> None:
        self.patient = patient
        environment = os.environ | (dict.fromkeys(PINNED, "1") if pinned else {})
        pipe = subprocess.PIPE
        # a session of its own: Ctrl-C is for this process, which then kills the child
        self.child = subprocess.Popen(
            [sys.executable, *command],
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        self.alive = True

    def ask(self, request: Row, limit_seconds: float, payload: bytes = b"") -> Row:
        """The row of a request, or what went wrong as its ``status``; ``limit_seconds`` is for the timed part."""
        limits, stage = stage_limits(limit_seconds, self.patient), ""
        try:
            self._send(request, payload)
            while True:
                line, killed = self._line(limits[stage])
                if line.startswith(b"{"):
                    return dict(json.loads(line))
                if not line:
                    return {"status": self._death(stage, killed, limits[stage])}
                stage = line.decode().strip()
        except BaseException:
            self.close()
            raise

    def _send(self, request: Row, payload: bytes) -> None:
        assert self.child.stdin is not None
        # writing to a child that has ended fails; reading from it then says how it ended
        with suppress(BrokenPipeError):
            self.child.stdin.write(json.dumps(request | {"payload": len(payload)}).encode() + b"\n")
            self.child.stdin.write(payload)
            self.child.stdin.flush()

    def _line(self, limit_seconds: float) -> tuple[bytes, bool]:
        """The next line, nothing if the child is dead, and whether it was killed at the limit."""
        assert self.child.stdout is not None
        late = Event()

        def give_up() -> None:
            late.set()
            self.child.kill()

        timer = Timer(limit_seconds, give_up)
        timer.daemon = True
        timer.start()
        try:
            return self.child.stdout.readline(), late.is_set()
        finally:
            timer.cancel()

    def _death(self, stage: str, killed: bool, limit_seconds: float) -> str:
        if not killed:
            # it ended by itself; its exit code says why
            with suppress(subprocess.TimeoutExpired):
                self.child.wait(EXIT_SECONDS)
        self.close()
        what = {"": "preparation ", "ready": "", "answered": "judgement "}[stage]
        return f"{what}over {limit_seconds:.3g} s" if killed else f"failed: exit code {self.child.returncode}"

    def close(self) -> None:
        """End the process."""
        self.alive = False
        self.child.kill()
        self.child.wait()
        for stream in (self.child.stdin, self.child.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()


def serve(answer: Answer) -> None:
    """The child's side: rows on the first standard output; whatever solvers print goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)

        def say(line: str) -> None:
            answers.write(line + "\n")
            answers.flush()

        for line in sys.stdin.buffer:
            request = json.loads(line)
            say(json.dumps(_safely(answer, request, sys.stdin.buffer.read(request.pop("payload")), say)))


def _safely(answer: Answer, request: Row, payload: bytes, say: Say) -> Row:
    """An error of a solver is a row that says so (some packages call ``sys.exit``)."""
    empty = {"solver": request["solver"], "seconds": None, "gap": None, "objective": None}
    try:
        return empty | answer(request, payload, say)
    except (Exception, SystemExit) as error:
        said = str(error).strip().splitlines()[:1] or [""]
        return empty | {"status": f"failed: {type(error).__name__}: {said[0][:200]}"}
