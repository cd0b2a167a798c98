"""``learn``: a policy from samples alone."""

import math
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from cautious.commands.shared import (
    AsJson,
    Quiet,
    RiskText,
    check_outputs,
    exit_code,
    plain,
    print_json,
    print_table,
    read_problem,
    summary,
    this_command,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from rich.console import Console

    from cautious import LearningProgress, Risk, Simulator, Solution

GYM = "gym:"

SampledName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="A world's name, a model file (.npz), a problem file (.toml): their models are sampled; or gym:NAME, a "
        "Gymnasium environment.",
    ),
]


def learn(
    problem: SampledName,
    caution: Annotated[float | None, typer.Option(help="Units of return one unit of risk is worth.")] = None,
    risk: RiskText = None,
    samples: Annotated[str, typer.Option(help="Transitions that may be drawn, such as 1e6.")] = "1e6",
    method: Annotated[str, typer.Option(help="auto, plug-in, primal-dual, or paper.")] = "auto",
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the run in this file, and continue it when the file exists.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    call_timeout: Annotated[float, typer.Option(help="Seconds one call of the simulator may take.")] = 600.0,
    workers: Annotated[int, typer.Option(help="Processes that draw samples; for slow gym: environments.")] = 1,
    discount: Annotated[float | None, typer.Option(help="Of a gym: environment.")] = None,
    at_end: Annotated[
        str | None, typer.Option(help="What follows the end of an episode of a gym: environment: absorb or restart.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the course of the run (.png).")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write the course of the run to this folder.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page about the solution.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the solution (.npz).")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn a policy by drawing samples, and say how sure the result is.

    Example: cautious learn river_swim --caution 10 --samples 1e6 --checkpoint run.npz --plot history.png
    """
    import cautious as ca

    check_outputs([out, checkpoint], [report, plot])
    budget = whole_number("--samples", samples)
    if workers < 1:
        raise ca.InputError(f"--workers is {workers}; expected at least 1")
    simulator, chosen, price = sampled(problem, risk, caution, discount, at_end)
    board = None if tensorboard is None else ca.TensorBoard(tensorboard)
    with LearningBar(quiet or as_json) as bar, _pool(workers) as executor:
        solution = ca.learn(
            simulator,
            chosen,
            price,
            budget,
            method,
            seed,
            checkpoint,
            _both(bar, board),
            executor,
            checkpoint_seconds=checkpoint_every,
            call_timeout_seconds=call_timeout,
        )
    if board is not None:
        board.close()
    files = _write(solution, out, report, plot)
    if checkpoint is not None:
        files["checkpoint (the same command continues it)"] = checkpoint
    if as_json:
        print_json(summary(solution) | {"facts": _plain_facts(solution)})
    else:
        _print(solution, files)
    raise typer.Exit(exit_code(solution))


def sampled(
    name: str, risk: str | None, caution: float | None, discount: float | None, at_end: str | None
) -> tuple["Simulator", "Risk | None", float]:
    """The simulator of a problem, its risk and its caution."""
    from cautious import GymSimulator, InputError
    from cautious.commands.risk_spec import parse_risk

    if not name.startswith(GYM):
        for option, value in (("--discount", discount), ("--at-end", at_end)):
            if value is not None:
                raise InputError(f"{option} is for gym: environments; {name} says itself what it is")
        found = read_problem(name, risk, caution)
        return found.mdp.simulator(), found.recipe, found.caution
    if discount is None or at_end is None:
        missing = "--discount" if discount is None else "--at-end"
        raise InputError(f"{name} needs {missing}, such as --discount 0.99 --at-end absorb")
    chosen = None if risk is None else parse_risk(risk)
    price = (0.0 if chosen is None else 1.0) if caution is None else caution
    env = _environment(name.removeprefix(GYM))
    # the simulator refuses any other word
    ending = cast('Literal["absorb", "restart"]', at_end)
    return GymSimulator(env, discount, ending), chosen, price


def whole_number(option: str, text: str) -> int:
    """``1e6``, ``1_000_000`` or ``1000000``."""
    from cautious import InputError

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 1 or number != int(number):
        raise InputError(f"{option} {text!r}: expected a whole number of at least 1, such as 1000000 or 1e6")
    return int(number)


class LearningBar:
    """A progress bar on standard error; silent when it is not a terminal or not wanted."""

    def __init__(self, quiet: bool, console: "Console | None" = None) -> None:
        self.wanted = not quiet and (console is not None or sys.stderr.isatty())
        self._console = console

    def __enter__(self) -> "LearningBar":
        if self.wanted:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            self._bar = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=20),
                TextColumn("{task.fields[figures]}"),
                console=self._console or Console(stderr=True),
                transient=True,
            )
            self._task = self._bar.add_task("learning", total=None, figures="")
            self._bar.start()
        return self

    def __call__(self, progress: "LearningProgress") -> None:
        """The learner's callback."""
        if self.wanted:
            self._bar.update(
                self._task,
                description=f"{progress.method}, {progress.phase}",
                total=progress.total,
                completed=progress.samples,
                figures=figures(progress),
            )

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.wanted:
            self._bar.stop()


def figures(progress: "LearningProgress") -> str:
    """What the bar says: samples, speed, objective, gap, time left."""
    parts = [f"{progress.samples:,} of {progress.total:,}", f"{progress.samples_per_second:,.0f}/s"]
    parts += [
        f"{name} {value:.4g}"
        for name, value in (("objective", progress.objective), ("gap", progress.gap))
        if math.isfinite(value)
    ]
    if progress.samples_per_second > 0:
        parts.append(f"{(progress.total - progress.samples) / progress.samples_per_second:,.0f} s left")
    return "  ".join(parts)


def _both(bar: LearningBar, board: "Callable[[LearningProgress], None] | None") -> "Callable[[LearningProgress], None]":
    if board is None:
        return bar

    def tell(progress: "LearningProgress") -> None:
        bar(progress)
        board(progress)

    return tell


@contextmanager
def _pool(workers: int) -> "Iterator[Executor | None]":
    """Processes that draw samples; None when one is enough."""
    if workers == 1:
        yield None
        return
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import active_children, get_context

    others = set(active_children())
    # spawned, because this process has threads; Ctrl-C is for this process alone
    pool = ProcessPoolExecutor(workers, get_context("spawn"), signal.signal, (signal.SIGINT, signal.SIG_IGN))
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        # a call that hangs would keep the command from ending
        for child in set(active_children()) - others:
            child.terminate()


def _environment(name: str) -> Any:
    from cautious import InputError, MissingExtraError

    try:
        import gymnasium
    except ImportError:
        raise MissingExtraError("gym: problems need gymnasium; install it with: pip install cautious[gym]") from None
    try:
        return gymnasium.make(name)
    except (gymnasium.error.Error, ImportError) as error:
        raise InputError(f"gym:{name} cannot be made: {error}") from None


def _write(solution: "Solution", out: Path | None, report: Path | None, plot: Path | None) -> dict[str, Path]:
    """Write what was asked for; gives what was written."""
    from cautious.report.page import write_report
    from cautious.report.plots import plot_history, save_figure

    files = {}
    if out is not None:
        solution.save(out)
        files["solution"] = out
    if plot is not None and solution.history is not None:
        save_figure(plot_history(solution.history), plot)
        files["plot"] = plot
    if report is not None:
        write_report(solution, report, command=this_command())
        files["report"] = report
    return files


def _print(solution: "Solution", files: dict[str, Path]) -> None:
    from cautious.report.tables import solution_table

    print_table(solution_table(solution))
    typer.echo(f"method: {solution.certificate.facts['method']}")
    typer.echo(solution.certificate.statement)
    for label, path in files.items():
        typer.echo(f"{label}: {path}")


def _plain_facts(solution: "Solution") -> dict[str, Any]:
    """The facts of the certificate that are one word or one number each."""
    facts = solution.certificate.facts.items()
    words = {name: value for name, value in facts if isinstance(value, str | int)}
    return words | {name: plain(value) for name, value in facts if isinstance(value, float)}
