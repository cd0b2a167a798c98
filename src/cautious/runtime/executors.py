"""``Workers``: numbered tasks on any ``concurrent.futures.Executor``, or in this process where there is none.

A task is ``function(content, task)``. The content (a simulator, a model) is sent to a worker once and kept there: a
task carries its key, and a worker that does not know the key says so and is given the content with the next
submission. A task that raises, hangs or loses its worker is tried again, and its answer counts once.
"""

import os
import pickle
import platform
import queue
import threading
import time
import traceback
import uuid
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import nullcontext
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from cautious.errors import IncompatibleError, WorkerError
from cautious.runtime.interruption import leaving_at_once

Content = TypeVar("Content")
Task = TypeVar("Task")
Value = TypeVar("Value")

POLL_SECONDS = 0.05
# contents of earlier runs that a worker keeps
KEPT_CONTENTS = 4
# tasks under way, so that no worker waits while the caller computes; and with answers that wait for an earlier one
TASKS_PER_WORKER, ANSWERS_PER_WORKER = 4, 16
COUNT_EVERY_SECONDS = 5.0
# of a task: how often it is tried if it raises or hangs, and how often its worker may be lost
ATTEMPTS, MOST_LOSSES = 2, 3
# a task that holds the interpreter's lock stops the thread that watches it; the caller gives up after this long silence
STALL_FACTOR, STALL_SECONDS = 2.0, 30.0


class StopRequested(Exception):
    """Ctrl-C while waiting for tasks: they are given up, and nothing of them counts."""


class TaskTimeout(WorkerError):
    """A task took too long."""


class Workers:
    """An executor and how to use it.

    ``timeout_seconds``: a task that takes longer is given up, unless it says by ``expect`` what to wait for. Without an
    executor and without this limit, tasks are calls in the thread of the caller.
    ``stopping`` is asked while waiting; when it says yes, ``StopRequested`` is raised. ``busy_seconds`` adds up what
    the tasks took where they ran, ``waited_seconds`` what was spent waiting for them here; ``repeated`` counts the
    tasks that were tried again.

    Examples
    --------
    >>> def power(base, exponent):
    ...     return base**exponent
    >>> [value for number, value in Workers().run(power, 2, [1, 2, 3])]
    [2, 4, 8]
    """

    def __init__(
        self,
        executor: Executor | None = None,
        *,
        timeout_seconds: float = np.inf,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.executor = _InProcess() if executor is None else executor
        self.timeout_seconds, self.stopping = timeout_seconds, stopping
        self.busy_seconds, self.waited_seconds, self.repeated = 0.0, 0.0, 0
        self._count, self._counted = 1, -np.inf
        # Dask would give a task that was seen before its earlier answer
        self.options: dict[str, Any] = {} if _dask_client(self.executor) is None else {"pure": False}
        # contents of this object's runs, and their keys
        self._known: list[tuple[Any, str]] = []

    @property
    def apart(self) -> bool:
        """Whether tasks run beside the caller, so that several may be under way."""
        return not isinstance(self.executor, _InProcess)

    @property
    def count(self) -> int:
        """How many tasks can run at the same time, as of a few seconds ago: workers come and go."""
        if not self.apart:
            return 1
        if time.monotonic() - self._counted > COUNT_EVERY_SECONDS:
            self._count, self._counted = worker_count(self.executor), time.monotonic()
        return self._count

    def run(
        self,
        function: Callable[[Content, Task], Value],
        content: Content,
        tasks: Iterable[Task | None],
        ordered: bool = True,
    ) -> Iterator[tuple[int, Value]]:
        """(number, value) of every task, in the order of the tasks or as they come.

        Tasks are taken from the iterable when there is room for them; None says that the next one depends on answers
        that are still to come. What the function raises twice is raised here, with a note that names the task;
        ``WorkerError`` says that the executor failed. What waits when the iterator is closed is cancelled.
        """
        run = _TaskRun(self, function, self._share(content), tasks)
        try:
            yield from run.values(ordered)
        finally:
            run.cancel()

    def _share(self, content: Any) -> "_Shared":
        several = isinstance(content, Together)
        contents = {self._key(one): (one,) for one in (content if several else (content,))}
        return _Shared(contents, several, self.stopping)

    def _key(self, content: Any) -> str:
        """The same one for the same object, so that workers keep it from one run to the next."""
        for known, key in self._known:
            if known is content:
                return key
        self._known = [*self._known[1 - KEPT_CONTENTS :], (content, uuid.uuid4().hex)]
        return self._known[-1][1]


class Together(tuple[Any, ...]):
    """Several objects as the content of tasks; a worker that knows one of them is sent the others only."""


def checked_executor(executor: Any) -> None:
    """Refuse what cannot run tasks."""
    if executor is not None and not isinstance(executor, Executor):
        raise IncompatibleError(f"executor must be a concurrent.futures.Executor, found {type(executor).__name__}")


def _dask_client(executor: Executor) -> Any:
    return getattr(executor, "_client", None)


def worker_count(executor: Executor) -> int:
    """The number of workers of an executor; of one that does not tell, the cores of this machine."""
    client = _dask_client(executor)
    if client is not None:
        return max(1, sum(int(threads) for threads in client.nthreads().values()))
    # of the standard library, and of mpi4py
    for name in ("_max_workers", "num_workers"):
        found = getattr(executor, name, None)
        if isinstance(found, int):
            return max(1, found)
    return os.cpu_count() or 1


def is_closed(executor: Executor) -> bool:
    """Whether this is an executor of Dask whose client has given up its scheduler."""
    client = getattr(executor, "_client", None)
    return client is not None and client.status == "closed"


@dataclass
class _Job:
    """A task without an answer. ``supplies``: the worker that had no contents yet; ``sends``: the keys of the contents
    that are sent to it with the task; ``failures``: how often it raised or hung.
    """

    number: int
    task: Any
    supplies: str = ""
    sends: frozenset[str] = frozenset()
    failures: int = 0
    future: "Future[Any] | None" = None


class _TaskRun:
    """One call of ``Workers.run``.

    ``open``: the jobs by number. Of these ``lost`` lost their worker and ``waiting`` wait for their worker's content,
    which is under way: ``supplied`` are such workers. ``losses``: how often workers were lost since the last answer.
    """

    def __init__(
        self, workers: Workers, function: Callable[[Any, Any], Any], shared: "_Shared", tasks: Iterable[Any]
    ) -> None:
        self.workers, self.function, self.shared = workers, function, shared
        self.tasks, self.taken = iter(tasks), 0
        self.open: dict[int, _Job] = {}
        self.lost: list[_Job] = []
        self.waiting: list[_Job] = []
        self.supplied: set[str] = set()
        self.losses = 0
        self.ready: dict[int, Any] = {}
        self.arrived: queue.SimpleQueue[tuple[_Job, Future[Any]]] = queue.SimpleQueue()
        self.heard = time.monotonic()

    def values(self, ordered: bool) -> Iterator[tuple[int, Any]]:
        following = 0
        while True:
            self._fill()
            number = following if ordered else next(iter(self.ready), -1)
            if number in self.ready:
                following += 1
                yield number, self.ready.pop(number)
            elif self.open:
                self._receive()
            else:
                return

    def cancel(self) -> None:
        for job in self.open.values():
            if job.future is not None:
                job.future.cancel()

    def _fill(self) -> None:
        if self.lost:
            self._resume()
            return
        if not self.workers.apart:
            room = most = 1
        else:
            room, most = TASKS_PER_WORKER * self.workers.count, ANSWERS_PER_WORKER * self.workers.count
        for task in islice(self.tasks, max(0, min(room, most - len(self.ready)) - len(self.open))):
            if task is None:
                return
            number, self.taken = self.taken, self.taken + 1
            self.open[number] = _Job(number, task)
            self._submit(self.open[number])

    def _resume(self) -> None:
        """After a loss the oldest job goes alone, so that a task that ends its worker is known."""
        if len(self.lost) < len(self.open):
            return
        self.lost.sort(key=lambda job: job.number)
        oldest = self.lost[0]
        self.losses += 1
        if self.losses == MOST_LOSSES:
            lost = WorkerError(f"task {oldest.number} lost its worker {self.losses} times; its process ended each time")
            lost.task = oldest.number
            raise lost
        self.workers.repeated += 1
        self._submit(self.lost.pop(0))

    def _submit(self, job: _Job) -> None:
        shared = replace(self.shared, sends=job.sends)
        arguments = shared, self.function, job.task, self.workers.timeout_seconds
        work = _work if self.workers.apart or np.isfinite(self.workers.timeout_seconds) else _work_here
        try:
            with warnings.catch_warnings() if job.supplies else nullcontext():
                if job.supplies:
                    # Dask's advice for large arguments is to send them once to each worker, as is done here
                    warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
                job.future = self.workers.executor.submit(work, *arguments, **self.workers.options)
        except Exception as error:
            self._check_stop()
            raise WorkerError(f"the executor refused task {job.number} with {type(error).__name__}: {error}") from error
        job.future.add_done_callback(lambda done: self.arrived.put((job, done)))

    def _receive(self) -> None:
        """The next answer of any job, and what it calls for."""
        began = time.monotonic()
        job, future = self._next()
        self.heard = time.monotonic()
        self.workers.waited_seconds += self.heard - began
        if job.future is not future:
            # an earlier attempt, given up meanwhile
            return
        # what a pool raises after Ctrl-C, which reaches its processes as well, is no failure of a task
        self._check_stop()
        if job.supplies:
            self.supplied.discard(job.supplies)
            job.supplies, job.sends, waiting, self.waiting = "", frozenset(), self.waiting, []
            for one in waiting:
                self._submit(one)
        problem = CancelledError() if future.cancelled() else future.exception()
        if isinstance(problem, BrokenExecutor | CancelledError):
            self.lost.append(job)
        elif problem is not None:
            said = f"task {job.number} or its answer could not be sent: {type(problem).__name__}: {problem}"
            self._again(job, WorkerError(said), problem)
        else:
            self._take(job, future.result())

    def _take(self, job: _Job, answer: "_Answer") -> None:
        self.workers.busy_seconds += answer.seconds
        if answer.kind == "done":
            # the future holds its value, and an executor may keep it for as long
            del self.open[job.number]
            job.future = None
            self.ready[job.number] = answer.value
            self.losses = 0
            for lost in self.lost:
                self._submit(lost)
            self.lost = []
        elif answer.kind == "missing" and answer.worker in self.supplied:
            self.waiting.append(job)
        elif answer.kind == "missing":
            # the caller cannot choose the worker: it may supply another one, and this one will ask again
            job.supplies, job.sends = answer.worker, frozenset(answer.value)
            self.supplied.add(answer.worker)
            self._submit(job)
        elif answer.kind == "hung":
            said = answer.value or f"task {job.number} did not return within {self.workers.timeout_seconds:g} seconds"
            self._again(job, TaskTimeout(said))
        elif answer.kind == "stopped":
            raise StopRequested
        else:
            self._again(job, answer.value)

    def _again(self, job: _Job, error: BaseException, cause: BaseException | None = None) -> None:
        job.failures += 1
        if self.workers.apart and job.failures < ATTEMPTS:
            self.workers.repeated += 1
            self._submit(job)
            return
        error.add_note(f"task {job.number}, tried {job.failures} times")
        if isinstance(error, WorkerError):
            error.task = job.number
        raise error from (cause or error.__cause__)

    def _next(self) -> "tuple[_Job, Future[Any]]":
        stall = STALL_FACTOR * self.workers.timeout_seconds + STALL_SECONDS
        while True:
            self._check_stop()
            try:
                return self.arrived.get(timeout=POLL_SECONDS)
            except queue.Empty:
                numbers = sorted(self.open)
                waiting = f"tasks {numbers[0]} to {numbers[-1]} are under way"
                if is_closed(self.workers.executor):
                    # what was submitted while Dask looked for its scheduler is never answered
                    raise WorkerError(f"the executor has lost its scheduler; {waiting}") from None
                if time.monotonic() - self.heard > stall:
                    raise WorkerError(f"no worker has answered for {stall:.0f} seconds; {waiting}") from None

    def _check_stop(self) -> None:
        if self.workers.stopping():
            raise StopRequested from None


# ---- what runs in a worker


@dataclass(frozen=True)
class _Shared:
    """The contents of a run by their keys: as they are within one process, otherwise only those that it ``sends``.

    Each is a tuple, which is empty where a worker does not know its content.
    """

    contents: dict[str, tuple[Any, ...]]
    several: bool
    stopping: Callable[[], bool]
    sends: frozenset[str] = frozenset()

    @property
    def content(self) -> Any:
        """What the function of the tasks is given."""
        found = Together(one for (one,) in self.contents.values())
        return found if self.several else found[0]

    @property
    def missing(self) -> tuple[str, ...]:
        """The keys of what is not known here."""
        return tuple(key for key, content in self.contents.items() if not content)

    def __reduce__(self) -> Any:
        sent = {key: content if key in self.sends else () for key, content in self.contents.items()}
        return _received, (sent, self.several)


_kept: OrderedDict[str, tuple[Any, ...]] = OrderedDict()
_lock = threading.Lock()


def _received(sent: dict[str, tuple[Any, ...]], several: bool) -> _Shared:
    found = {}
    with _lock:
        for key, content in sent.items():
            found[key] = content or _kept.get(key, ())
            if found[key]:
                _kept[key] = found[key]
                _kept.move_to_end(key)
        while len(_kept) > KEPT_CONTENTS:
            _kept.popitem(last=False)
    # a scheduler between here and the worker passes on what it was given
    return _Shared(found, several, lambda: False, frozenset(key for key, content in sent.items() if content))


@dataclass(frozen=True)
class _Answer:
    """``kind``: done (value), raised (an exception), hung (what was waited for, a text), missing (keys) or stopped."""

    kind: str
    value: Any = None
    seconds: float = 0.0
    worker: str = ""

    def __reduce__(self) -> Any:
        value = _sendable(self.value) if self.kind == "raised" else self.value
        return _Answer, (self.kind, value, self.seconds, self.worker)


def _sendable(error: BaseException) -> BaseException:
    """An exception that survives pickling, with its traceback as a note."""
    try:
        found: BaseException = pickle.loads(pickle.dumps(error))
    except Exception:
        found = WorkerError(f"{type(error).__name__}: {error}")
    found.add_note("".join(traceback.format_exception(error)))
    return found


@dataclass
class _Watch:
    """Until when a task may take, and what is waited for."""

    until: float
    what: Callable[[], str] = str


_current = threading.local()


def expect(seconds: float, what: Callable[[], str]) -> None:
    """Called by a task: what follows, until the next call, takes at most so long; otherwise ``what()`` is said."""
    watch: _Watch | None = getattr(_current, "watch", None)
    if watch is not None:
        watch.what, watch.until = what, time.monotonic() + seconds


class _Caller:
    """A daemon thread that makes the calls of one other thread, so that a call that hangs can be given up."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.answers: queue.SimpleQueue[_Answer] = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(self.requests, self.answers), daemon=True).start()
        # the thread knows the queues only, so it ends with its owner
        weakref.finalize(self, self.requests.put, None)


def _serve(requests: "queue.SimpleQueue[Any]", answers: "queue.SimpleQueue[_Answer]") -> None:
    while (request := requests.get()) is not None:
        function, content, task, _current.watch = request
        began = time.monotonic()
        try:
            value = function(content, task)
            answers.put(_Answer("done", value, time.monotonic() - began))
            del value
        except BaseException as error:
            answers.put(_Answer("raised", error, time.monotonic() - began))
        # waiting for the next call must not keep the content of the last one alive
        del request, function, content, task


def _work(shared: _Shared, function: Callable[[Any, Any], Any], task: Any, seconds: float) -> _Answer:
    """One task, wherever it runs."""
    if shared.missing:
        return _Answer("missing", shared.missing, worker=f"{platform.node()} {os.getpid()}")
    caller: _Caller | None = getattr(_current, "caller", None)
    if caller is None or caller.process != os.getpid():
        # threads do not survive a fork
        caller = _current.caller = _Caller()
    watch, began = _Watch(time.monotonic() + seconds), time.monotonic()
    caller.requests.put((function, shared.content, task, watch))
    while True:
        try:
            return caller.answers.get(timeout=POLL_SECONDS)
        except queue.Empty:
            stopped = shared.stopping()
            if not stopped and time.monotonic() <= watch.until:
                continue
        _current.caller = None
        # a lock that the hanging call holds must not stop the next one
        with _lock:
            for key in shared.contents:
                _kept.pop(key, None)
        return _Answer("stopped" if stopped else "hung", watch.what(), time.monotonic() - began)


def _work_here(shared: _Shared, function: Callable[[Any, Any], Any], task: Any, seconds: float) -> _Answer:
    """One task in the thread of the caller, which some libraries insist on; Ctrl-C ends it wherever it is."""
    began = time.monotonic()
    try:
        with leaving_at_once():
            value = function(shared.content, task)
    except BaseException as error:
        return _Answer("raised", error, time.monotonic() - began)
    return _Answer("done", value, time.monotonic() - began)


class _InProcess(Executor):
    """Does a task when it is submitted."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> "Future[Any]":
        """The future is done already."""
        future: Future[Any] = Future()
        future.set_result(function(*args, **keywords))
        return future
