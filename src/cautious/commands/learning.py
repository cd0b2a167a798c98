"""``learn``: a policy from samples alone."""

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cautious.commands.problems import (
    GYM,
    AtEnd,
    Discount,
    ProblemName,
    Said,
    Start,
    Untried,
    gym_table,
    read_problem,
)
from cautious.commands.progress import Bar
from cautious.commands.shared import (
    AsJson,
    Caution,
    PolicyCsv,
    Quiet,
    RiskText,
    check_outputs,
    exit_code,
    plain,
    print_json,
    print_solution,
    summary,
    this_command,
    whole_number,
)

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from cautious import LearningProgress, LoggedMDP, Risk, Simulator, Solution


def learn(
    problem: ProblemName,
    caution: Caution = None,
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
    discount: Discount = None,
    at_end: AtEnd = None,
    start: Start = None,
    untried: Untried = None,
    reward_range: Annotated[
        str | None, typer.Option(help="Of a log: the least and the largest reward that can be paid, such as -10,5.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the course of the run (.png).")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write the course of the run to this folder.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page about the solution.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the solution (.npz).")] = None,
    policy_csv: PolicyCsv = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Learn a policy from samples, and say how sure it is.

    Example: cautious learn river_swim --caution 10 --samples 1e6 --checkpoint run.npz --plot history.png

    Example: cautious learn log.csv --discount 0.9 --untried forbid --reward-range -10,5
    """
    import cautious as ca

    check_outputs([out, checkpoint, policy_csv], [report, plot])
    budget = whole_number("--samples", samples)
    if workers < 1:
        raise ca.InputError(f"--workers is {workers}; expected at least 1")
    board = None if tensorboard is None else ca.TensorBoard(tensorboard)
    with LearningBar("learning", quiet or as_json) as bar, _pool(workers) as executor:
        bar.show(f"reading {problem}")
        said = Said(discount, at_end, start, untried, reward_range)
        source, chosen, price = sampled(problem, said, risk, caution)
        bar.show("learning")
        solution = ca.learn(
            source,
            chosen,
            price,
            budget,
            method,
            seed,
            checkpoint,
            # nothing is drawn from a log, so that there is no progress to report
            None if isinstance(source, ca.LoggedMDP) else _both(bar, board),
            executor,
            checkpoint_seconds=checkpoint_every,
            call_timeout_seconds=call_timeout,
        )
    if board is not None:
        board.close()
    files = _write(solution, out, policy_csv, report, plot)
    if checkpoint is not None:
        files["checkpoint (the same command continues it)"] = checkpoint
    if as_json:
        print_json(summary(solution) | {"facts": _plain_facts(solution)})
    else:
        _print(solution, files)
    raise typer.Exit(exit_code(solution))


def sampled(
    name: str, said: Said, risk: str | None, caution: float | None
) -> tuple["Simulator | LoggedMDP", "Risk | None", float]:
    """What a problem's samples come from, its risk and its caution; environments are sampled as they are."""
    from cautious import GymSimulator, InputError, LoggedMDP
    from cautious.commands.risk_spec import parse_risk
    from cautious.problem_files.model_entries import gym_environment

    if not name.startswith(GYM):
        found = read_problem(name, said, risk, caution)
        source = found.mdp if isinstance(found.mdp, LoggedMDP) else found.mdp.simulator()
        return source, found.unbound_risk, found.caution
    given = gym_table(name, said)
    if said.start is not None:
        raise InputError(f"--start means nothing here: {name} is sampled, and starts where it starts")
    chosen = None if risk is None else parse_risk(risk)
    price = (0.0 if chosen is None else 1.0) if caution is None else caution
    return GymSimulator(gym_environment(given["gym"]), given["discount"], given["at_end"]), chosen, price


class LearningBar(Bar):
    """The callback of a learner."""

    def __call__(self, progress: "LearningProgress") -> None:
        """After every piece of work."""
        self.show(f"{progress.method}, {progress.phase}", progress.samples, progress.total, figures(progress))


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


def _write(
    solution: "Solution", out: Path | None, policy_csv: Path | None, report: Path | None, plot: Path | None
) -> dict[str, Path]:
    """Write what was asked for; gives what was written."""
    from cautious.report.plots import plot_history, save_figure
    from cautious.report.solution_page import write_report
    from cautious.report.writing import write_policy

    files = {}
    if out is not None:
        solution.save(out)
        files["solution"] = out
    if policy_csv is not None:
        write_policy(solution, policy_csv)
        files["policy"] = policy_csv
    if plot is not None and solution.history is not None:
        save_figure(plot_history(solution.history), plot)
        files["plot"] = plot
    if report is not None:
        write_report(solution, report, command=this_command())
        files["report"] = report
    return files


def _print(solution: "Solution", files: dict[str, Path]) -> None:
    print_solution(solution)
    facts = solution.certificate.facts
    typer.echo(f"method: {facts['method']}")
    if "rows as evidence" in facts:
        chose, evidence = facts["rows for the policy"], facts["rows as evidence"]
        of = f"{chose:,} of {facts['samples']:,} rows"
        typer.echo(f"log: {of} chose the policy, {evidence:,} of the others are the evidence")
    typer.echo(solution.certificate.statement)
    for label, path in files.items():
        typer.echo(f"{label}: {path}")


def _plain_facts(solution: "Solution") -> dict[str, Any]:
    """The facts of the certificate that are one word or one number each."""
    facts = solution.certificate.facts.items()
    words = {name: value for name, value in facts if isinstance(value, str | int)}
    return words | {name: plain(value) for name, value in facts if isinstance(value, float)}
