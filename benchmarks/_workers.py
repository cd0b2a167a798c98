"""Processes that measure: one for every solver, so that its memory is its own and it can be killed.

A worker is sent requests and says for each: "ready" when the clock starts, "answered" when the answer is there and only
its judgement is left, and then the row as JSON. Every stage has its time limit. In a full run every request gets a new
process; a quick run keeps them, because most of its time would be the import of packages.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event, Timer
from types import TracebackType
from typing import Any

CHILD = Path(__file__).resolve().with_name("_child.py")
SET_UP_SECONDS = 600.0
JUDGEMENT_SECONDS = 300.0
EXIT_SECONDS = 20.0
PINNED = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "NUMBA_NUM_THREADS")

Row = dict[str, Any]


class Worker:
    """A child process; ``pinned`` to one thread, or free to use all cores."""

    def __init__(self, pinned: bool) -> None:
        environment = os.environ | (dict.fromkeys(PINNED, "1") if pinned else {})
        pipe, command = subprocess.PIPE, [sys.executable, str(CHILD)]
        self.child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self.alive = True

    def ask(self, request: Row, limit_seconds: float) -> Row:
        """The row of a request, or what went wrong as its ``status``; ``limit_seconds`` is for the timed part."""
        assert self.child.stdin is not None
        self.child.stdin.write(json.dumps(request) + "\n")
        self.child.stdin.flush()
        limits, stage = {"": SET_UP_SECONDS, "ready": limit_seconds, "answered": JUDGEMENT_SECONDS}, ""
        while True:
            line, killed = self._line(limits[stage])
            if line.startswith("{"):
                return dict(json.loads(line))
            if not line:
                return {"status": self._death(stage, killed, limits[stage])}
            stage = line.strip()

    def _line(self, limit_seconds: float) -> tuple[str, bool]:
        """The next line, nothing if the child is dead, and whether it was killed at the limit."""
        assert self.child.stdout is not None
        late = Event()

        def give_up() -> None:
            late.set()
            self.child.kill()

        timer = Timer(limit_seconds, give_up)
        timer.start()
        try:
            return self.child.stdout.readline(), late.is_set()
        finally:
            timer.cancel()

    def _death(self, stage: str, killed: bool, limit_seconds: float) -> str:
        if not killed:
            # it died of itself; its exit code says how
            self.child.wait(EXIT_SECONDS)
        self.close()
        what = {"": "preparation ", "ready": "", "answered": "judgement "}[stage]
        return f"{what}over {limit_seconds:.3g} s" if killed else f"failed: exit code {self.child.returncode}"

    def close(self) -> None:
        """End the process."""
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.alive = False
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


class Workers:
    """Workers by solver; ``keep`` them between requests or make a new one each time."""

    def __init__(self, keep: bool) -> None:
        self.keep, self.kept = keep, dict[tuple[str, bool], Worker]()

    def ask(self, solver: str, request: Row, limit_seconds: float, pinned: bool) -> Row:
        """What ``Worker.ask`` says."""
        key = solver, pinned
        if key not in self.kept or not self.kept[key].alive:
            self.kept[key] = Worker(pinned)
        found = self.kept[key].ask(request, limit_seconds)
        if not self.keep:
            self.kept.pop(key).close()
        return found

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.kept.values():
            if worker.alive:
                worker.close()
