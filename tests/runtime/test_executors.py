"""Workers: order, content sent once, repeats, time-outs, lost workers, Ctrl-C; on pools of threads and processes."""

import os
import signal
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

from cautious.errors import WorkerError
from cautious.runtime import executors
from cautious.runtime.clock import Clock
from cautious.runtime.executors import StopRequested, TaskTimeout, Together, Workers, expect
from cautious.runtime.interruption import Interruption
from cautious.runtime.processes import process_pool


def processes(workers=2):
    return ProcessPoolExecutor(workers, get_context("forkserver"))


class Base:
    """A content that says how often it was sent: every unpickling is a line of a file."""

    def __init__(self, path=None, value=10):
        self.path, self.value = path, value

    def __setstate__(self, state):
        self.__dict__.update(state)
        if self.path is not None:
            with open(self.path, "a") as file:
                file.write(f"{os.getpid()}\n")


def add(base, task):
    return base.value + task


def slow_first(base, task):
    """The first task ends last."""
    time.sleep(0.3 if task == 0 else 0.0)
    return task


def fails_once(path, task):
    """Task 3 raises where it is tried first."""
    if task == 3 and not os.path.exists(path):
        open(path, "w").close()
        raise ValueError("a bad moment")
    return task


def fails(_, task):
    if task == 3:
        raise ValueError("never works")
    return task


class Odd(Exception):
    """Cannot be unpickled: its constructor wants two arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} {two}")


def fails_oddly(_, task):
    raise Odd("strange", "thing")


def hangs_once(path, task):
    if task == 2 and not os.path.exists(path):
        open(path, "w").close()
        time.sleep(60)
    return task


def hangs(_, task):
    if task == 2:
        time.sleep(60)
    return task


def says_what(_, task):
    for part in range(4):
        expect(0.4, lambda part=part: f"part {part} did not end")
        time.sleep(60 if (task, part) == (1, 2) else 0.2)
    return task


def dies(_, task):
    if task == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def values(workers, function, content, tasks, **options):
    return [value for _, value in workers.run(function, content, tasks, **options)]


@pytest.mark.parametrize("kind", ["alone", "threads", "processes"])
def test_answers_come_in_the_order_of_the_tasks(kind):
    pools = {"alone": lambda: None, "threads": lambda: ThreadPoolExecutor(4), "processes": processes}
    pool = pools[kind]()
    found = list(Workers(pool).run(add, Base(), range(50)))
    assert found == [(number, 10 + number) for number in range(50)]
    assert values(Workers(pool), slow_first, None, range(8)) == list(range(8))
    assert list(Workers(pool).run(add, Base(), [])) == []


def test_answers_as_they_come():
    with ThreadPoolExecutor(4) as pool:
        found = list(Workers(pool).run(slow_first, None, range(8), ordered=False))
    assert sorted(found) == [(number, number) for number in range(8)]
    assert found[-1] == (0, 0)


def test_the_content_is_sent_once_to_each_worker(tmp_path):
    path = tmp_path / "sent"
    with processes(2) as pool:
        assert values(Workers(pool), add, Base(path), range(200)) == [10 + task for task in range(200)]
    sent = path.read_text().split()
    # what one worker lacks may reach the other one: then it asks again
    assert 1 <= len(set(sent)) <= 2
    assert len(sent) <= 5


def adds_both(contents, task):
    one, other = contents
    return one.value + other.value + task


def test_of_several_contents_only_the_new_one_is_sent(tmp_path):
    kept, first, second = Base(tmp_path / "kept"), Base(tmp_path / "first", 5), Base(tmp_path / "second", 7)
    with processes(1) as pool:
        workers = Workers(pool)
        assert values(workers, add, kept, range(20)) == [10 + task for task in range(20)]
        assert values(workers, adds_both, Together((kept, first)), range(20)) == [15 + task for task in range(20)]
        assert values(workers, adds_both, Together((second, kept)), range(20)) == [17 + task for task in range(20)]
        assert values(workers, add, kept, range(20)) == [10 + task for task in range(20)]
    assert [len(one.path.read_text().split()) for one in (kept, first, second)] == [1, 1, 1]


@pytest.mark.parametrize("kind", ["alone", "threads", "processes"])
def test_tasks_that_depend_on_answers(kind):
    """Chains of tasks: each begins with the answer of the one before."""
    pool = {"alone": lambda: None, "threads": lambda: ThreadPoolExecutor(4), "processes": processes}[kind]()
    ready, ended, begun = [0, 100, 200], [], {}

    def tasks():
        while len(ended) < 3:
            if not ready:
                yield None
                continue
            begun[len(begun)] = ready.pop(0)
            yield begun[len(begun) - 1]

    for number, value in Workers(pool).run(add, Base(value=1), tasks(), ordered=False):
        assert value == begun[number] + 1
        (ended if value % 100 == 7 else ready).append(value)
    assert sorted(ended) == [7, 107, 207]
    assert len(begun) == 21


def test_threads_share_the_content_itself():
    content = Base()
    content.lock = threading.Lock()
    with ThreadPoolExecutor(2) as pool:
        assert all(value is content for _, value in Workers(pool).run(lambda base, task: base, content, range(5)))


def test_a_worker_forgets_old_contents():
    for value in range(2 * executors.KEPT_CONTENTS):
        with ThreadPoolExecutor(1):
            executors._received({f"key {value}": (value,)}, False)
    assert len(executors._kept) == executors.KEPT_CONTENTS
    # one that was forgotten is asked for again
    assert executors._received({"key 0": ()}, False).missing == ("key 0",)


def test_tasks_are_taken_when_there_is_room():
    taken = []

    def tasks():
        for task in range(1000):
            taken.append(task)
            yield task

    with ThreadPoolExecutor(2) as pool:
        running = Workers(pool).run(add, Base(), tasks())
        next(running)
        assert len(taken) <= 2 * executors.ANSWERS_PER_WORKER
        running.close()
    alone = Workers().run(add, Base(), tasks())
    taken.clear()
    next(alone)
    assert len(taken) == 1


def test_what_raises_is_tried_once_more(tmp_path):
    with processes() as pool:
        workers = Workers(pool)
        assert values(workers, fails_once, tmp_path / "tried", range(6)) == list(range(6))
    assert workers.repeated == 1


@pytest.mark.parametrize(("apart", "tried"), [(False, 1), (True, 2)])
def test_what_raises_again_is_raised_with_the_task(apart, tried):
    pool = processes() if apart else None
    with pytest.raises(ValueError, match="never works") as caught:
        values(Workers(pool), fails, None, range(6))
    assert caught.value.__notes__[-1] == f"task 3, tried {tried} times"
    if apart:
        # where it was raised, in the other process
        assert "in fails" in caught.value.__notes__[0]


def test_an_exception_that_cannot_be_sent_does_not_break_the_pool():
    with processes() as pool:
        with pytest.raises(WorkerError, match="Odd: strange thing"):
            values(Workers(pool), fails_oddly, None, range(2))
        assert values(Workers(pool), add, Base(), [1]) == [11]


@pytest.mark.parametrize("kind", ["content", "task", "value"])
def test_what_cannot_be_sent_is_named(kind):
    lock = threading.Lock()
    content, tasks = (lock if kind == "content" else 0), [1, lock if kind == "task" else 1]
    with processes() as pool, pytest.raises(WorkerError, match=r"task [01] or its answer could not be sent: TypeError"):
        values(Workers(pool), make_lock if kind == "value" else max_of, content, tasks)


def make_lock(_, task):
    return threading.Lock()


def max_of(content, task):
    return 0


def test_what_hangs_is_given_up_and_tried_again(tmp_path):
    started = time.monotonic()
    with processes() as pool:
        workers = Workers(pool, timeout_seconds=0.5)
        assert values(workers, hangs_once, tmp_path / "tried", range(6)) == list(range(6))
    # the pool ends too: what hangs does so in a daemon thread
    assert time.monotonic() - started < 30
    assert workers.repeated == 1


@pytest.mark.parametrize("kind", ["alone", "threads", "processes"])
def test_what_hangs_again_is_named(kind):
    pool = {"alone": lambda: None, "threads": lambda: ThreadPoolExecutor(2), "processes": processes}[kind]()
    with pytest.raises(TaskTimeout, match=r"task 2 did not return within 0\.3 seconds"):
        values(Workers(pool, timeout_seconds=0.3), hangs, None, range(6))


def test_a_task_says_what_to_wait_for():
    with pytest.raises(TaskTimeout, match="part 2 did not end"):
        values(Workers(timeout_seconds=0.4), says_what, None, [0, 1])
    # without anybody to listen
    expect(0.0, lambda: "nothing")


def test_nothing_arrives(monkeypatch):
    monkeypatch.setattr(executors, "STALL_SECONDS", 0.0)
    released = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(released.wait, 30)
        with pytest.raises(WorkerError, match=r"no worker has answered .* tasks 0 to 2"):
            values(Workers(pool, timeout_seconds=0.1), add, Base(), range(3))
        released.set()


def test_a_pool_that_lost_a_worker_is_named():
    with processes() as pool, pytest.raises(WorkerError, match=r"refused task \d with BrokenProcessPool"):
        values(Workers(pool), dies, None, range(6))


def dies_once(path, task):
    """Each of three tasks kills its worker where it is tried first."""
    if task in (2, 5, 6) and not os.path.exists(f"{path} {task}"):
        open(f"{path} {task}", "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    return task


def test_a_pool_of_our_own_goes_on_after_losses(tmp_path):
    with process_pool(2) as pool:
        workers = Workers(pool)
        assert values(workers, dies_once, tmp_path / "died", range(12)) == list(range(12))
    assert workers.repeated >= 1


def test_a_task_that_always_ends_its_worker_is_named():
    with process_pool(2) as pool, pytest.raises(WorkerError, match="task 2 lost its worker 3 times"):
        values(Workers(pool), dies, None, range(6))


def test_an_executor_that_was_shut_down_is_named():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(WorkerError, match="refused task 0 with RuntimeError: cannot schedule new futures"):
        values(Workers(pool), add, Base(), range(6))


@pytest.mark.parametrize("kind", ["alone", "threads", "processes"])
def test_a_stop_is_heard_at_once(kind):
    pool = {"alone": lambda: None, "threads": lambda: ThreadPoolExecutor(2), "processes": processes}[kind]()
    workers = Workers(pool, timeout_seconds=60.0)
    # start the processes first
    assert values(workers, add, Base(), range(2)) == [10, 11]
    pressed = time.monotonic() + 0.2
    workers.stopping = lambda: time.monotonic() > pressed
    with pytest.raises(StopRequested):
        values(workers, sleeps, None, range(6))
    assert time.monotonic() - pressed < 2


def sleeps(_, task):
    time.sleep(5)


def thread_of(_, task):
    return threading.get_ident()


@pytest.mark.parametrize(("limit", "here"), [(np.inf, True), (60.0, False)])
def test_without_an_executor_and_a_limit_tasks_are_calls_of_the_caller(limit, here):
    (found,) = values(Workers(timeout_seconds=limit), thread_of, None, [0])
    assert (found == threading.get_ident()) is here


def test_ctrl_c_ends_a_call_in_the_thread_of_the_caller():
    clock = Clock(None)
    workers = Workers(stopping=lambda: clock.stop_requested)
    pressing = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    started = time.monotonic()
    with Interruption(clock):
        pressing.start()
        with pytest.raises(StopRequested):
            values(workers, sleeps, None, range(6))
    assert time.monotonic() - started < 2
    pressing.join()


def test_threads_do_not_pile_up():
    values(Workers(), add, Base(), range(3))
    before = threading.active_count()
    for _ in range(5):
        values(Workers(), add, Base(), range(3))
    assert threading.active_count() == before


def test_seconds_are_added_up():
    with ThreadPoolExecutor(2) as pool:
        workers = Workers(pool)
        values(workers, slow_first, None, range(3))
    assert workers.busy_seconds >= 0.3
    assert workers.waited_seconds >= 0.2


class Deserted(Executor):
    """As Dask's when its client has given up the scheduler: what was submitted is never answered."""

    num_workers = 1

    class _Client:
        status = "closed"

        def nthreads(self):
            return {"one": 1}

    _client = _Client()

    def submit(self, function, /, *args, **keywords):
        return Future()


def test_an_executor_that_has_lost_its_scheduler_is_named():
    with pytest.raises(WorkerError, match="has lost its scheduler; tasks 0 to 1 are under way"):
        list(Workers(Deserted()).run(divmod, 7, [1, 2]))
