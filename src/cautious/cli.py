"""The command line: ``cautious solve maze --caution 10 --report maze.html``.

Exit codes: 0 solved, learned or proved, 1 a fault of ours, 2 wrong input, 3 infeasible, 4 limit reached, no proof, or
a simulator that failed, 130 interrupted. An error is one line on standard error; with --json standard output has
``{"error": {"kind": ..., "message": ..., "exit_code": ...}}`` as well.
The library is imported inside the commands, so that ``--help`` answers at once.
"""

import os
import re
import shlex
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import wraps
from itertools import takewhile
from typing import Annotated, Any

import typer

import cautious
from cautious.commands import (
    built_in,
    completion,
    learning,
    model_files,
    shared,
    solving,
    studio,
    sweeping,
    verification,
)
from cautious.errors import CautiousError, SimulatorError, SolveError, WorkerError

# typer brings its own copy of click: the base of its errors about the command line is reached through a public one
USAGE_ERROR: type[Exception] = typer.BadParameter.__bases__[0]
# options that take several values, separated by commas, and those whose one value may hold blanks
LIST_OPTIONS = ("--cautions", "--methods", "--reward-range")
TEXT_OPTIONS = ("--risk", "--start")
# errors that follow when the shell splits a value: a part is left over, or looks like an option
SPLIT_VALUE_ERROR = re.compile(r"unexpected extra argument|No such option: -[0-9.]")


class Interrupted(Exception):
    """Ctrl-C in a command; typer itself would exit without a message."""


def _interruptible(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def call(*arguments: Any, **options: Any) -> None:
        try:
            command(*arguments, **options)
        except KeyboardInterrupt:
            raise Interrupted from None

    return call


app = typer.Typer(
    name="cautious",
    help="Risk-aware policies for Markov decision processes, each with a proof of how good it is.",
    epilog="Exit codes: 0 solved, 2 wrong input, 3 infeasible, 4 limit reached or simulator failed, 130 interrupted.",
    # help drawn by rich takes twice the time of the plain one
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (
    solving.solve,
    learning.learn,
    solving.frontier,
    solving.evaluate,
    solving.compare,
    sweeping.sweep,
    verification.verify,
    model_files.check,
    model_files.convert,
    built_in.worlds,
    built_in.demo,
    studio.studio,
    built_in.paper,
):
    app.command()(_interruptible(command))
app.command(context_settings=built_in.PASS_ON)(_interruptible(built_in.bench))


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cautious {cautious.__version__}")
        raise typer.Exit


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options before the command; ``main`` has read --debug already, wherever it stood."""


def main() -> None:
    """Run the command line; errors are one line on standard error, and an exit code."""
    completion.rejoin(os.environ)
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            code = app(arguments or ["--help"], prog_name="cautious", standalone_mode=False)
        # a full disk shows here, where it can still be reported
        sys.stdout.flush()
    except (Interrupted, KeyboardInterrupt):
        code = _fail("Interrupted", "interrupted", shared.INTERRUPTED)
    except USAGE_ERROR as error:
        code = _fail("UsageError", usage_message(error, arguments), shared.WRONG_INPUT)
    except (SolveError, SimulatorError, WorkerError) as error:
        code = _fail(type(error).__name__, str(error), shared.LIMIT)
    except (CautiousError, OSError) as error:
        code = _fail(type(error).__name__, str(error), shared.WRONG_INPUT)
    except Exception as error:
        code = _fail(type(error).__name__, f"unexpected {type(error).__name__}: {error} (--debug shows where)", 1)
    sys.exit(code)


def _fail(kind: str, text: str, code: int) -> int:
    """Report an error to people and to programs; returns the exit code."""
    if "--debug" in sys.argv[1:]:
        traceback.print_exc()
    line = " ".join(text.split())
    if "--json" in sys.argv[1:]:
        # a full disk or a closed pipe is reported on standard error
        with suppress(OSError):
            shared.print_json({"error": {"kind": kind, "message": line, "exit_code": code}})
    sys.stderr.write(f"cautious: {line}\n")
    try:
        sys.stdout.flush()
    except OSError:
        # otherwise Python tries to write the rest again when it exits, and fails with an exit code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


def _warn(message: Warning | str, *place: Any, **more: Any) -> None:
    """Print a warning in one line, without its place in the library."""
    sys.stderr.write(f"cautious: warning: {' '.join(str(message).split())}\n")


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """What is wrong with the command that was typed, and which help to read."""
    place = "cautious" if error.ctx is None else error.ctx.command_path
    message = error.format_message().rstrip(".")
    hint = split_value(arguments) if SPLIT_VALUE_ERROR.search(message) else ""
    return f"{message}{hint} ({place} --help shows how)"


def split_value(arguments: Sequence[str]) -> str:
    """How to write a value that the shell split, as in ``--cautions 0 1 10``; empty where none was split."""
    for at, word in enumerate(arguments):
        if word not in (*LIST_OPTIONS, *TEXT_OPTIONS):
            continue
        parts = _parts(word, arguments[at + 1 :])
        if len(parts) > 1 and word in LIST_OPTIONS:
            return f"; separate values by commas, as in {word} {','.join(part.strip(',') for part in parts)}"
        if len(parts) > 1:
            return f"; a value with blanks needs quotes, as in {word} {shlex.quote(' '.join(parts))}"
    return ""


def _parts(option: str, rest: Sequence[str]) -> list[str]:
    """The words after an option that may all belong to its value: up to the next option, or the first non-number."""
    only_numbers = option in ("--cautions", "--reward-range")
    return list(takewhile(lambda word: _is_number(word) or not (only_numbers or word.startswith("-")), rest))


def _is_number(word: str) -> bool:
    try:
        return bool([float(part) for part in word.strip(",").split(",")])
    except ValueError:
        return False
