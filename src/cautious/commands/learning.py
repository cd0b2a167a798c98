"""``learn``: a policy from samples alone."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cautious.commands import problems, shared
from cautious.commands.progress import LearningBar
from cautious.commands.workers import Cluster, Workers, chosen_executor

if TYPE_CHECKING:
    from cautious import LearningProgress, LoggedMDP, Risk, Simulator


@problems.with_model_options
def learn(
    problem: problems.ProblemName,
    caution: shared.Caution = None,
    risk: shared.RiskText = None,
    samples: Annotated[str, typer.Option(help="Transitions that may be drawn, such as 1e6.")] = "1e6",
    method: Annotated[str, typer.Option(help="auto, plug-in, primal-dual, or paper.")] = "auto",
    seed: shared.Seed = 0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Keep the run in this file, and continue it when the file exists.")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(help="Seconds between two checkpoints.")] = 60.0,
    call_timeout: Annotated[
        float | None, typer.Option(help="Seconds that a draw may take; by default 600 on workers, else no limit.")
    ] = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    reward_range: Annotated[
        str | None, typer.Option(help="Of a log: the least and the largest reward that can be paid, such as -10,5.")
    ] = None,
    robust: Annotated[
        bool, typer.Option(help="Of a log: take the policy about which the rows prove most, not the counted optimum.")
    ] = True,
    plot: Annotated[Path | None, typer.Option(help="Draw the course of the run (.png).")] = None,
    tensorboard: Annotated[Path | None, typer.Option(help="Write the course of the run to this folder.")] = None,
    report: shared.ReportFile = None,
    out: shared.SolutionFile = None,
    policy_csv: shared.PolicyCsv = None,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Learn a policy from samples, and say how sure it is.

    Example: cautious learn river_swim --caution 10 --samples 1e6 --checkpoint run.npz --plot history.png

    Example: cautious learn log.csv --discount 0.9 --untried forbid --reward-range -10,5
    """
    import cautious as ca
    from cautious.report.plots import plot_history, save_figure

    shared.check_outputs([out, checkpoint, policy_csv], [report, plot])
    budget = shared.whole_number("--samples", samples)
    if reward_range is not None:
        limits = shared.numbers_in("--reward-range", reward_range, "two numbers such as -10,5", 2)
        options = {**options, "reward_range": limits}
    board = None if tensorboard is None else ca.TensorBoard(tensorboard)
    with (
        chosen_executor(workers, cluster, quiet or as_json) as executor,
        LearningBar("learning", quiet or as_json) as bar,
    ):

        def tell(progress: "LearningProgress") -> None:
            bar(progress)
            if board is not None:
                board(progress)

        bar.show(f"reading {problem}")
        source, chosen, price = sampled(problem, options, risk, caution)
        bar.show("learning")
        solution = ca.learn(
            source,
            chosen,
            price,
            budget,
            method,
            seed,
            checkpoint,
            # nothing is sampled from a log, so there is no progress to report
            None if isinstance(source, ca.LoggedMDP) else tell,
            executor,
            robust=robust,
            checkpoint_seconds=checkpoint_every,
            call_timeout_seconds=call_timeout,
        )
    if board is not None:
        board.close()
    shared.write_solution(solution, out, policy_csv, report)
    if plot is not None and solution.history is not None:
        save_figure(plot_history(solution.history), plot)
    facts = solution.certificate.facts
    if as_json:
        words = {name: value for name, value in facts.items() if isinstance(value, str | int)}
        numbers = {name: shared.plain(value) for name, value in facts.items() if isinstance(value, float)}
        shared.print_json(shared.summary(solution) | {"facts": words | numbers})
        raise typer.Exit(shared.exit_code(solution))
    shared.print_solution(solution)
    typer.echo(f"method: {facts['method']}")
    if "pairs tried" in facts:
        typer.echo(f"log: {facts['rows']:,} rows, policy from the {facts['policy from']}")
    typer.echo(solution.certificate.statement)
    drawn = plot if solution.history is not None else None
    files = {"solution": out, "policy": policy_csv, "plot": drawn, "report": report}
    shared.print_files(files | {"checkpoint (the same command continues it)": checkpoint})
    raise typer.Exit(shared.exit_code(solution))


def sampled(
    name: str, options: problems.ModelOptions, risk: str | None, caution: float | None
) -> tuple["Simulator | LoggedMDP", "Risk | None", float]:
    """What a problem's samples come from, its risk and its caution; environments are sampled as they are."""
    from cautious import GymSimulator, InputError, LoggedMDP
    from cautious.commands.risk_spec import parse_risk
    from cautious.problem_files.model_entries import gym_environment

    if not name.startswith(problems.GYM):
        found = problems.read_problem(name, options, risk, caution)
        if found.constraints:
            raise InputError(f"{name} has constraints, which learning does not take; solve it, or leave them out")
        source = found.mdp if isinstance(found.mdp, LoggedMDP) else found.mdp.simulator()
        return source, found.unbound_risk, found.caution
    given = problems.gym_table(name, options)
    if "start" in options:
        raise InputError(f"--start means nothing here: {name} is sampled, and starts where it starts")
    chosen = None if risk is None else parse_risk(risk)
    price = (0.0 if chosen is None else 1.0) if caution is None else caution
    return GymSimulator(gym_environment(given["gym"]), given["discount"], given["at_end"]), chosen, price
