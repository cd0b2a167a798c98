"""``solve``, ``frontier`` and ``evaluate``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cautious.commands import completion
from cautious.commands.problems import AtEnd, Discount, ProblemName, Said, Start, Untried, read_problem, start_note
from cautious.commands.progress import Bar, SolveBar
from cautious.commands.shared import (
    AsJson,
    Caution,
    MemoryLimit,
    PolicyCsv,
    Quiet,
    RiskText,
    Threads,
    TimeLimit,
    Tolerance,
    as_bytes,
    check_outputs,
    exit_code,
    plain,
    print_files,
    print_json,
    print_solution,
    print_table,
    summary,
    this_command,
)


def solve(
    problem: ProblemName,
    caution: Caution = None,
    risk: RiskText = None,
    tolerance: Tolerance = 1e-6,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    discount: Discount = None,
    at_end: AtEnd = None,
    start: Start = None,
    untried: Untried = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page about the solution.")] = None,
    out: Annotated[Path | None, typer.Option(help="Save the solution (.npz).")] = None,
    policy_csv: PolicyCsv = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find the best policy of a problem, with a proof.

    Example: cautious solve maze --caution 10 --report maze.html

    Example: cautious solve gym:FrozenLake-v1 --discount 0.99 --at-end absorb
    """
    import cautious as ca
    from cautious.report.solution_page import write_report
    from cautious.report.writing import write_policy

    check_outputs([out, policy_csv], [report])
    with SolveBar(quiet or as_json, time_limit) as bar:
        bar.show(f"reading {problem}")
        said = Said(discount, at_end, start, untried)
        asked = read_problem(problem, said, risk, caution)
        bar.show("solving")
        solution = ca.solve(
            asked, tolerance, time_limit, callback=bar, threads=threads, memory_limit=as_bytes(memory_limit)
        )
        if out is not None:
            solution.save(out)
        if policy_csv is not None:
            write_policy(solution, policy_csv)
        if report is not None:
            bar.show(f"writing {report}")
            write_report(solution, report, command=this_command())
    if as_json:
        print_json(summary(solution))
    else:
        print_solution(solution)
        note = start_note(problem, said, asked.mdp)
        if note is not None:
            typer.echo(f"start: {note}")
        typer.echo(solution.certificate.statement)
        print_files(solution=out, policy=policy_csv, report=report)
    raise typer.Exit(exit_code(solution))


def frontier(
    problem: ProblemName,
    cautions: Annotated[str | None, typer.Option(help="Comma-separated, such as 0,1,10. Default: chosen.")] = None,
    risk: RiskText = None,
    tolerance: Tolerance = 1e-6,
    time_limit: TimeLimit = None,
    threads: Threads = None,
    memory_limit: MemoryLimit = None,
    discount: Discount = None,
    at_end: AtEnd = None,
    start: Start = None,
    untried: Untried = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the frontier (.png).")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page about the frontier.")] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Trade expected return against risk: one problem, many cautions.

    Example: cautious frontier maze --cautions 0,1,10 --report frontier.html
    """
    import cautious as ca
    from cautious.frontiers import POINTS
    from cautious.report.frontier_page import write_overview
    from cautious.report.plots import plot_frontier, save_figure
    from cautious.report.text_tables import frontier_table

    check_outputs([], [plot, report])
    wanted = _cautions(cautions)
    with SolveBar(quiet or as_json, points=POINTS if wanted is None else len(wanted)) as bar:
        bar.show(f"reading {problem}")
        asked = read_problem(problem, Said(discount, at_end, start, untried), risk)
        if asked.unbound_risk is None:
            raise ca.InputError(f"{problem} has no risk; give one with --risk, such as --risk variance")
        bar.show("choosing cautions" if wanted is None else "solving")
        points = ca.frontier(
            asked.mdp,
            asked.unbound_risk,
            wanted,
            tolerance,
            time_limit,
            callback=bar,
            threads=threads,
            memory_limit=as_bytes(memory_limit),
        )
        if plot is not None:
            save_figure(plot_frontier(points), plot)
        if report is not None:
            bar.show(f"writing {report}")
            write_overview(points, report, command=this_command())
    if as_json:
        print_json([summary(one) | {"risk": plain(one.policy_risk)} for one in points])
    else:
        print_table(frontier_table(points))
        print_files(plot=plot, report=report)
    raise typer.Exit(max((exit_code(one) for one in points), default=0))


def evaluate(
    problem: ProblemName,
    policy: Annotated[
        Path,
        typer.Option(
            help="A solution saved by solve --out (.npz), the policy of --policy-csv (.csv), or an array (.npy).",
            autocompletion=completion.files,
        ),
    ],
    episodes: Annotated[int, typer.Option(help="How many to simulate.")] = 1000,
    horizon: Annotated[int | None, typer.Option(help="Steps per episode. Default: until 1e-4 is left.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same numbers.")] = 0,
    risk: RiskText = None,
    discount: Discount = None,
    at_end: AtEnd = None,
    start: Start = None,
    untried: Untried = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Simulate a saved policy, next to its exact figures and its risk.

    Example: cautious evaluate maze --policy solution.npz --episodes 10000
    """
    import cautious as ca
    from cautious.commands.policy_figures import risk_figures, watched_sets
    from cautious.commands.policy_files import read_policy
    from cautious.evaluation.policy_rows import policy_table
    from cautious.occupancy import check_policy
    from cautious.report.text_tables import evaluation_table
    from cautious.report.words import scene_of

    with Bar(f"reading {problem}", quiet or as_json) as bar:
        asked = read_problem(problem, Said(discount, at_end, start, untried), risk)
        table = check_policy(asked.mdp, policy_table(read_policy(policy, asked.mdp), asked.mdp))
        bar.show(f"simulating {episodes:,} episodes")
        found = ca.evaluate(asked.mdp, table, episodes, horizon, seed, watched_sets(asked))
        exact = risk_figures(asked, table)
    unit = scene_of(asked.mdp).reward_unit
    if not as_json:
        shown = evaluation_table(found)
        rows = shown.rows if exact is None else (*shown.rows, *exact.rows())
        print_table(replace(shown, title=f"{shown.title}, returns in {unit}", rows=rows))
        return
    names = ("mean", "variance", "standard_error", "exact_mean", "exact_variance", "truncation_error", "horizon")
    content: dict[str, Any] = {name: plain(getattr(found, name)) for name in names}
    content |= {"quantiles": found.quantiles, "episodes": found.episodes, "seed": found.seed, "reward_unit": unit}
    content |= {"exposure": found.exposure, "exact_exposure": found.exact_exposure}
    content |= {"risk_label": asked.risk_label, "exact_risk": None if exact is None else plain(exact.risk)}
    content["requirements"] = [] if exact is None else exact.demanded()
    print_json(content)


def _cautions(text: str | None) -> list[float] | None:
    from cautious import InputError

    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--cautions {text!r}: expected numbers separated by commas, such as 0,1,10") from None
