"""Calls every kernel with random arguments, in a child process: ``python tests/core/kernel_fuzzer.py --calls 1000000``.

An answer or a typed error is right; a crash, a call that does not end or another exception is a failure, shown with the
kernel and its arguments. Entries of index arrays are kept within the shortest array of the call: they are the model's
promise, and kernels do not check them. Calls that were answered in a new way are varied further, as fuzzers do. Half of
the calls are real ones with other fractions and numbers in them: some kernels refuse almost everything else.
"""

import argparse
import math
import mmap
import random
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from recorded_calls import recorded_calls, varied

from cautious import _core

ERRORS = (TypeError, ValueError, OverflowError, MemoryError)
# of processor time
SECONDS_PER_CALL = 10.0
LONGEST = 40
MOST_KEPT = 40
MIRRORED = str.maketrans("<>", "><")
LAST_WORDS_BYTES = 4096
INTEGERS = (-1, 0, 1, 2, 3, 5, 8, 2**31, 2**62, -(2**62), 2**63 - 1, -(2**63))
NUMBERS = (0.0, 0.5, 0.9, 1.0, -1.0, 1e-300, 1e300, float("nan"), float("inf"), -float("inf"))
CONTENTS = ("zeros", "ones", "shares", "wild")


@dataclass(frozen=True)
class Slot:
    """What an argument must be: `kinds` has one type for each overload."""

    name: str
    kinds: tuple[str, ...]
    writable: bool = False
    table: bool = False

    @property
    def array(self) -> bool:
        """Whether it is an array."""
        return self.kinds[0] not in {"float", "int", "truth"}

    @property
    def index(self) -> bool:
        """Whether its entries may be indices."""
        return self.array and any(kind.startswith(("int", "uint")) for kind in self.kinds)

    @property
    def pointers(self) -> bool:
        """Whether its entries should ascend from 0: where rows begin."""
        return self.index and any(word in self.name for word in ("indptr", "pointer", "start", "first"))


@dataclass(frozen=True)
class Kernel:
    """A function of the core and its arguments."""

    name: str
    function: Callable[..., Any]
    slots: tuple[Slot, ...]

    @property
    def overloads(self) -> int:
        """How many functions the name stands for."""
        return len(self.slots[0].kinds) if self.slots else 1


def kernels() -> dict[str, Kernel]:
    """All kernels, by subject and name."""
    found = {}
    for subject, name, _, names, types in _core.DESCRIPTIONS:
        words = zip(names.split(), types.split("->")[0].split(), strict=True)
        slots = tuple(
            Slot(argument, tuple(word.split(":")[-1].split("/")), "out:" in word, "table:" in word)
            for argument, word in words
        )
        kernel = Kernel(f"{subject}.{name}", getattr(getattr(_core, subject), name), slots)
        found[kernel.name] = kernel
    return found


def error_of(kernel: Kernel, arguments: list[Any]) -> BaseException | None:
    """What a call raises."""
    try:
        kernel.function(*arguments)
    except ERRORS as error:
        return error
    return None


def plain(slot: Slot, overload: int) -> Any:
    """An argument of the right type: one zero."""
    if slot.array:
        return np.zeros((1, 1) if slot.table else 1, slot.kinds[min(overload, len(slot.kinds) - 1)])
    return {"float": 0.0, "int": 0, "truth": False}[slot.kinds[0]]


@dataclass(frozen=True)
class Plan:
    """From which the arguments of a call are made: shapes and contents of arrays, values of numbers."""

    overload: int
    choices: tuple[Any, ...]
    seed: int

    def arguments(self, kernel: Kernel) -> list[Any]:
        """Fresh arrays, the same each time."""
        rng = np.random.default_rng(self.seed)
        bound = index_bound(kernel, self.choices)
        made: list[Any] = []
        for at, (slot, choice) in enumerate(zip(kernel.slots, self.choices, strict=True)):
            if not slot.array:
                made.append(choice)
                continue
            shape, contents = choice
            dtype = slot.kinds[self.overload]
            if slot.pointers:
                after = [*self.choices, None][at + 1]
                most = 0 if not bound else int(np.prod(after[0])) if isinstance(after, tuple) else LONGEST
                steps = np.sort(rng.integers(0, most + 1, shape)) if contents != "zeros" else np.zeros(shape)
                steps[:1] = 0
                made.append(steps.astype(dtype))
            elif slot.index:
                # how many actions a state has is a ratio of lengths
                all_zeros = contents == "zeros" or "action" in slot.name
                small = np.zeros(shape) if all_zeros else rng.integers(0, max(bound, 1), shape)
                made.append(small.astype(dtype))
            else:
                with np.errstate(over="ignore", invalid="ignore"):
                    made.append(fractions(shape, contents, rng).astype(dtype))
        return made


def index_bound(kernel: Kernel, choices: Sequence[Any]) -> int:
    """Indices below it point into every array: the least length, number of rows, or count among the numbers."""
    bounds = [choice for choice in choices if type(choice) is int and choice > 0]
    for slot, choice in zip(kernel.slots, choices, strict=True):
        if slot.array:
            bounds += [max(length - slot.pointers, 0) for length in choice[0]]
    return min(bounds, default=1)


def fractions(shape: tuple[int, ...], contents: str, rng: np.random.Generator) -> Any:
    """Numbers of an array that holds no indices."""
    if contents == "wild":
        return rng.choice([*NUMBERS, *rng.normal(size=8)], shape)
    return {"zeros": np.zeros(shape), "ones": np.ones(shape), "shares": rng.random(shape)}[contents]


class Planner:
    """Makes plans for one kernel: at random at first, then variations of those that were answered in a new way."""

    def __init__(self, kernel: Kernel, rng: random.Random):
        self.kernel = kernel
        self.rng = rng
        self.kept: list[Plan] = []
        self.seen: set[str] = set()
        self.answered = 0
        self.refused: tuple[Plan, str] | None = None

    def plan(self) -> Plan:
        """The next one."""
        if self.refused is not None and self.rng.random() < 0.5:
            better = self.fitting(self.repaired(*self.refused))
            if better != self.refused[0]:
                return better
        if not self.kept or self.rng.random() < 0.1:
            return self.fitting(self.new())
        plan = self.kept[int(len(self.kept) * self.rng.random() ** 0.5)]
        other, choices = self.new(), list(plan.choices)
        lengths = [length for c in choices if isinstance(c, tuple) for length in c[0]]
        for at in self.rng.choices(range(len(choices)), k=self.rng.randint(1, 3)) if choices else ():
            choices[at] = other.choices[at]
            slot = self.kernel.slots[at]
            if slot.array and lengths and self.rng.random() < 0.7:
                shape = tuple(max(0, self.rng.choice(lengths) + self.rng.choice((0, 0, 1, -1))) for _ in choices[at][0])
                choices[at] = (shape, choices[at][1])
            elif slot.kinds[0] == "int" and lengths and self.rng.random() < 0.5:
                choices[at] = self.rng.choice(lengths)
        return self.fitting(replace(plan, choices=tuple(choices), seed=other.seed))

    def new(self) -> Plan:
        """One at random, with sizes like those of a small model."""
        rng = self.rng
        states, actions, entries = rng.randint(1, 6), rng.randint(1, 4), rng.randrange(LONGEST)
        pairs = states * actions
        lengths = (
            states,
            actions,
            pairs,
            entries,
            states,
            pairs,
            states + 1,
            pairs + 1,
            0,
            1,
            pairs * states,
            16,
            LONGEST,
        )
        choices: list[Any] = []
        for slot in self.kernel.slots:
            if slot.array:
                shape = tuple(min(rng.choice(lengths), LONGEST) for _ in range(2 if slot.table else 1))
                choices.append((shape, rng.choice(CONTENTS)))
            elif slot.kinds[0] == "int":
                choices.append(rng.choice(lengths if rng.random() < 0.7 else INTEGERS))
            elif slot.kinds[0] == "float":
                choices.append(rng.choice(NUMBERS) if rng.random() < 0.7 else rng.gauss())
            else:
                choices.append(bool(rng.random() < 0.5))
        return Plan(rng.randrange(self.kernel.overloads), tuple(choices), rng.randrange(2**31))

    def repaired(self, plan: Plan, message: str) -> Plan:
        """With what a message asks for, as "f needs x.size == y.size", as far as it can be read."""
        choices = list(plan.choices)
        names = {slot.name: at for at, slot in enumerate(self.kernel.slots)}
        for clause in message.partition(" needs ")[2].replace("/", "//").split("&&"):
            parts = re.fullmatch(r"\(*(.+?) (==|>=|<=|<|>) (.+?)\)*", clause.strip())
            if parts is None:
                continue
            left, sign, right = parts.groups()
            for place, rest, change in ((left, right, sign), (right, left, sign.translate(MIRRORED))):
                found = re.fullmatch(r"(\w+)(?:\.(size|rows|columns))?", place)
                if found is None or found[1] not in names:
                    continue
                try:
                    value = int(eval(rest, {"__builtins__": {}}, Values(self.kernel, choices, self.rng)))
                except Exception:
                    continue
                value += {"<": -1, ">": 1}.get(change, 0)
                at = names[found[1]]
                if not self.kernel.slots[at].array:
                    choices[at] = float(value) if self.kernel.slots[at].kinds[0] == "float" else value
                elif found[2] is not None:
                    choices[at] = (resized(choices[at][0], found[2], min(max(value, 0), 1000)), choices[at][1])
                break
        return replace(plan, choices=tuple(choices))

    def fitting(self, plan: Plan) -> Plan:
        """With as many column indices as numbers, mostly, and no index where an array has no entry to point at."""
        choices = list(plan.choices)
        for at, slot in enumerate(self.kernel.slots):
            after = at + 2 < len(choices) and self.kernel.slots[at + 2].name.endswith("data")
            if slot.pointers and after and self.rng.random() < 0.95:
                choices[at + 2] = (choices[at + 1][0], choices[at + 2][1])
        if index_bound(self.kernel, choices) == 0:
            for at, slot in enumerate(self.kernel.slots):
                if slot.index and not slot.pointers:
                    choices[at] = ((0,) * len(choices[at][0]), choices[at][1])
        return replace(plan, choices=tuple(choices))

    def learn(self, plan: Plan, error: BaseException | None) -> None:
        """Keep a plan that was answered, or refused for a new reason."""
        word = "" if error is None else str(error)
        self.answered += error is None
        if word not in self.seen or (error is None and self.rng.random() < 0.1):
            self.kept = [*self.kept[-MOST_KEPT:], plan]
        self.refused = (plan, word) if isinstance(error, ValueError) else None
        self.seen.add(word)


class Values(dict[str, Any]):
    """Names in a requirement: arguments, sparse rows under any name, and other names by guessing."""

    def __init__(self, kernel: Kernel, choices: list[Any], rng: random.Random):
        super().__init__(evenly=lambda pairs, states: pairs // states if states and pairs % states == 0 else 0)
        shapes = {}
        for slot, choice in zip(kernel.slots, choices, strict=True):
            self[slot.name] = choice
            if slot.array:
                shape = shapes[slot.name] = choice[0]
                self[slot.name] = SimpleNamespace(size=math.prod(shape), rows=shape[0], columns=shape[-1])
        rows = [at for at, slot in enumerate(kernel.slots) if slot.name.endswith("indptr")]
        self.guesses: list[Any] = [length for shape in shapes.values() for length in shape] or [1]
        if rows:
            at = rng.choice(rows)
            pointers, entries = (SimpleNamespace(size=c[0][0]) for c in choices[at : at + 2])
            self.rows = SimpleNamespace(indptr=pointers, indices=entries, count=lambda: pointers.size - 1)
        self.rng = rng

    def __missing__(self, name: str) -> Any:
        return self.rows if len(name) <= 2 and hasattr(self, "rows") else self.rng.choice(self.guesses)


def resized(shape: tuple[int, ...], which: str, value: int) -> tuple[int, ...]:
    """A shape with a new size, or a new number of rows or columns."""
    if which == "size" and len(shape) == 2:
        return (value // max(shape[1], 1), shape[1])
    return (*shape[:-1], value) if which in {"size", "columns"} else (value, *shape[1:])


def call_many(kernel: Kernel, real: list[Any], calls: int, seed: int, say: Callable[[str], None]) -> int:
    """Call one kernel, also as its ``real`` calls did; how often it answered."""
    planner, answered = Planner(kernel, random.Random(f"{kernel.name} {seed}")), 0
    for number in range(calls):
        if real and number % 2:
            given = real[number // 2 % len(real)]
            say(f"call {number}: real call {number // 2 % len(real)} varied")
            answered += timed(kernel, varied(given, np.random.default_rng([seed, number]), NUMBERS)) is None
            continue
        plan = planner.plan()
        words = ", ".join(f"{s.name}={c}" for s, c in zip(kernel.slots, plan.choices, strict=True))
        say(f"call {number}: overload {plan.overload}, arrays by random_state {plan.seed}: {words}")
        planner.learn(plan, timed(kernel, plan.arguments(kernel)))
    return planner.answered + answered


def timed(kernel: Kernel, arguments: list[Any]) -> BaseException | None:
    """What a call raises; one that takes too long ends the process."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CALL)
    error = error_of(kernel, arguments)
    signal.setitimer(signal.ITIMER_PROF, 0)
    return error


def child(names: list[str], calls: int, seed: int, last_words: Path) -> None:
    """Call the named kernels one after the other; prints each that is through."""
    with last_words.open("r+b") as file, mmap.mmap(file.fileno(), LAST_WORDS_BYTES) as memory:

        def say(words: str) -> None:
            memory[:] = words.encode()[:LAST_WORDS_BYTES].ljust(LAST_WORDS_BYTES)

        known = kernels()
        say("recording real calls")
        real = recorded_calls()
        for name in names:
            print(name, call_many(known[name], real[name], calls, seed, say), flush=True)


def fuzz(names: list[str], calls: int, seed: int) -> tuple[dict[str, int], dict[str, str]]:
    """How often each kernel answered, and for those that failed how; a new child goes on after a failure."""
    answered: dict[str, int] = {}
    failed: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        last_words = Path(folder) / "last words"
        while len(answered) + len(failed) < len(names):
            rest = [name for name in names if name not in answered and name not in failed]
            last_words.write_bytes(b" " * LAST_WORDS_BYTES)
            command = [sys.executable, __file__, "--calls", str(calls), "--seed", str(seed), "--child", str(last_words)]
            done = subprocess.run([*command, *rest], capture_output=True, text=True)
            for line in done.stdout.splitlines():
                name, _, count = line.partition(" ")
                answered[name] = int(count)
            if done.returncode:
                missing = next(name for name in rest if name not in answered)
                words = last_words.read_text().strip()
                failed[missing] = f"{ending(done.returncode)}, seed {seed}, {words}\n{done.stderr[-3000:]}"
    return answered, failed


def ending(code: int) -> str:
    """How a child ended."""
    if code == -signal.SIGPROF:
        return f"no end within {SECONDS_PER_CALL:g} s of processor time"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"


def chosen(words: list[str]) -> Iterator[str]:
    """Kernels whose name has one of the words in it; all if there are none."""
    return (f"{s}.{n}" for s, n, *_ in _core.DESCRIPTIONS if not words or any(word in f"{s}.{n}" for word in words))


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Call kernels with random arguments.")
    parser.add_argument("kernels", nargs="*", help="parts of the names of kernels; all if none is given")
    parser.add_argument("--calls", type=int, default=1000, help="for each kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(given.kernels, given.calls, given.seed, given.child)
        return
    answered, failed = fuzz(list(chosen(given.kernels)), given.calls, given.seed)
    for name, count in answered.items():
        print(f"{name}: {count} of {given.calls} calls answered")
    for name, words in failed.items():
        print(f"FAILED {name}: {words}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
