"""``solve``, ``frontier``, ``evaluate`` and ``compare``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from cautious.commands import completion, problems, shared
from cautious.commands.progress import Bar, CompareBar, SolveBar
from cautious.commands.workers import Cluster, Workers, chosen_executor
from cautious.status import DEFAULT_TOLERANCE


@problems.with_model_options
def solve(
    problem: problems.ProblemName,
    caution: shared.Caution = None,
    risk: shared.RiskText = None,
    limit: shared.LimitTexts = None,
    horizon: shared.HorizonText = None,
    tolerance: shared.Tolerance = DEFAULT_TOLERANCE,
    time_limit: shared.TimeLimit = None,
    threads: shared.Threads = None,
    memory_limit: shared.MemoryLimit = None,
    deterministic: shared.Deterministic = None,
    memory: shared.WithMemory = None,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    report: shared.ReportFile = None,
    out: shared.SolutionFile = None,
    witness: shared.WithWitness = False,
    policy_csv: shared.PolicyCsv = None,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Find the best policy of a problem, with a proof.

    Example: cautious solve maze --caution 10 --report maze.html

    Example: cautious solve machine_replacement --limit 'time:broken<=0.4%' --horizon 24

    Example: cautious solve gym:FrozenLake-v1 --discount 0.99 --at-end absorb
    """
    import cautious as ca

    if witness and out is None:
        raise ca.InputError("--witness needs --out FILE: the witness is part of the saved solution")
    shared.check_outputs([out, policy_csv], [report])
    with SolveBar(quiet or as_json, time_limit) as bar:
        bar.show(f"reading {problem}")
        asked = problems.read_problem(problem, options, risk, caution, shared.horizon_of(horizon), limit or ())
        bar.show("solving")
        solution = ca.solve(
            asked,
            tolerance,
            time_limit,
            callback=bar,
            threads=threads,
            memory_limit=shared.as_bytes(memory_limit),
            deterministic=deterministic,
            memory=memory,
        )
        if report is not None:
            bar.show(f"writing {report}")
        shared.write_solution(solution, out, policy_csv, report, witness)
    if as_json:
        shared.print_json(shared.summary(solution))
    else:
        shared.print_solution(solution)
        note = problems.start_note(problem, options, asked.mdp)
        if note is not None:
            typer.echo(f"start: {note}")
        typer.echo(solution.certificate.statement)
        shared.print_files({"solution": out, "policy": policy_csv, "report": report})
    raise typer.Exit(shared.exit_code(solution))


@problems.with_model_options
def frontier(
    problem: problems.ProblemName,
    cautions: Annotated[str | None, typer.Option(help="Comma-separated, such as 0,1,10. Default: chosen.")] = None,
    limits: Annotated[
        str | None,
        typer.Option(help="Bounds of the only constraint, such as .01,.02,.05. Default without a risk: chosen."),
    ] = None,
    risk: shared.RiskText = None,
    limit: shared.LimitTexts = None,
    horizon: shared.HorizonText = None,
    tolerance: shared.Tolerance = DEFAULT_TOLERANCE,
    time_limit: shared.TimeLimit = None,
    threads: shared.Threads = None,
    memory_limit: shared.MemoryLimit = None,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    workers: Workers = 1,
    cluster: Cluster = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the frontier (.png).")] = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page about the frontier.")] = None,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Trade expected return against risk: one problem, many cautions; or many bounds of its only constraint.

    Example: cautious frontier maze --cautions 0,1,10 --report frontier.html

    Example: cautious frontier examples/limits.toml --limits 0.002,0.004,0.01
    """
    import cautious as ca
    from cautious.frontiers import DEFAULT_POINTS
    from cautious.report.frontier_page import write_overview
    from cautious.report.limit_page import limits_table, plot_limits, write_limit_page
    from cautious.report.plots import plot_frontier, save_figure
    from cautious.report.text_tables import frontier_table

    shared.check_outputs([], [plot, report])
    expected = "numbers separated by commas, such as 0,1,10"
    wanted = None if cautions is None else shared.numbers_in("--cautions", cautions, expected)
    bounds = (
        None if limits is None else shared.numbers_in("--limits", limits, "numbers such as .01,.02,.05 or 1%,2%,5%")
    )
    count = len(bounds) if bounds is not None else DEFAULT_POINTS if wanted is None else len(wanted)
    with (
        chosen_executor(workers, cluster, quiet or as_json) as executor,
        SolveBar(quiet or as_json, points=count) as bar,
    ):
        bar.show(f"reading {problem}")
        asked = problems.read_problem(problem, options, risk, None, shared.horizon_of(horizon), limit or ())
        problems.warn_of_deterministic(asked, problem)
        chooses_limits = asked.unbound_risk is None and bounds is None and wanted is None
        if chooses_limits and len(asked.constraints) != 1:
            raise ca.InputError(f"{problem} has no risk; give one with --risk, such as --risk variance")
        over_limit = bounds is not None or chooses_limits
        bar.show("choosing limits" if chooses_limits else "choosing cautions" if not (wanted or bounds) else "solving")
        points = ca.frontier(
            asked.mdp.without_memory,
            asked.unbound_risk,
            wanted,
            tolerance,
            time_limit,
            callback=bar,
            threads=threads,
            memory_limit=shared.as_bytes(memory_limit),
            constraints=asked.constraints,
            limits=bounds,
            caution=asked.caution,
            horizon=asked.mdp.horizon,
            executor=executor,
        )
        if plot is not None:
            save_figure((plot_limits if over_limit else plot_frontier)(points), plot)
        if report is not None:
            bar.show(f"writing {report}")
            (write_limit_page if over_limit else write_overview)(points, report, command=shared.this_command())
    if as_json:
        shared.print_json([shared.summary(one) | {"risk": shared.plain(one.policy_risk)} for one in points])
    else:
        shared.print_table(limits_table(points) if over_limit else frontier_table(points))
        shared.print_files({"plot": plot, "report": report})
    raise typer.Exit(max((shared.exit_code(one) for one in points), default=0))


@problems.with_model_options
def evaluate(
    problem: problems.ProblemName,
    policy: Annotated[
        Path,
        typer.Option(
            help="A solution saved by solve --out (.npz), the policy of --policy-csv (.csv), or an array (.npy).",
            autocompletion=completion.files,
        ),
    ],
    episodes: Annotated[int, typer.Option(help="How many to simulate.")] = 1000,
    horizon: Annotated[
        str | None,
        typer.Option(
            metavar="STEPS|average|total",
            help="Steps per episode. Default: those of the policy, or until 1e-4 is left. With discount 1 the horizon.",
        ),
    ] = None,
    seed: shared.Seed = 0,
    risk: shared.RiskText = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Simulate a saved policy, next to its exact figures and its risk.

    A solution for a horizon is evaluated as that horizon says.

    Example: cautious evaluate maze --policy solution.npz --episodes 10000
    """
    import cautious as ca
    from cautious.commands.policies import (
        evaluated_risk,
        problem_horizon,
        read_policy,
        risk_of_returns,
        watched_sets,
    )
    from cautious.evaluation.evaluate import TAIL_LEVEL
    from cautious.evaluation.policy_rows import policy_table
    from cautious.occupancy import check_policy
    from cautious.report.text_tables import evaluation_table
    from cautious.report.words import number, scene_of

    with (
        chosen_executor(workers, cluster, quiet or as_json) as executor,
        Bar(f"reading {problem}", quiet or as_json) as bar,
    ):
        steps, mdp = shared.horizon_of(horizon), problems.read_any(problem, options)[0]
        given = read_policy(policy, mdp)
        asked = problems.read_problem(problem, options, risk, horizon=problem_horizon(given, mdp, steps))
        table = check_policy(asked.mdp, policy_table(given, asked.mdp))
        bar.show(f"simulating {episodes:,} episodes")
        remembers = isinstance(given, ca.Solution) and given.memory_policy is not None
        played = given if remembers else table
        found = ca.evaluate(asked.mdp, played, episodes, steps, seed, watched_sets(asked), executor)
        exact_risk, requirements = (None, []) if remembers and asked.is_of_return else evaluated_risk(asked, table)
        if remembers and asked.risk_label == given.risk_label:
            exact_risk = given.risk
        elif remembers and asked.return_risk is not None and found.exact_returns is not None:
            exact_risk = risk_of_returns(asked.return_risk, asked.risk_label, found.exact_returns)
    unit = scene_of(asked.mdp).reward_unit
    if not as_json:
        shown = evaluation_table(found)
        rows = list(shown.rows)
        if exact_risk is not None:
            rows.append((f"risk ({asked.risk_label})", "", number(exact_risk)))
        for one in requirements:
            rows.append((f"{one.plain_name} (must exceed {number(one.limit)})", "", number(one.reached)))
        shared.print_table(replace(shown, title=f"{shown.title}, returns in {unit}", rows=tuple(rows)))
        return
    names = ("mean", "variance", "standard_error", "exact_mean", "exact_variance", "truncation_error", "horizon")
    content: dict[str, Any] = {name: shared.plain(getattr(found, name)) for name in names}
    content |= {"criterion": found.criterion}
    content |= {"quantiles": found.quantiles, "episodes": found.episodes, "seed": found.seed, "reward_unit": unit}
    content["quantile_intervals"] = {
        percent: [shared.plain(end) for end in ends] for percent, ends in found.quantile_intervals.items()
    }
    if (known := found.exact_returns) is not None:
        content["exact_quantiles"] = {percent: known.quantile(percent / 100) for percent in found.quantiles}
        low, high = known.cvar(TAIL_LEVEL)
        content["exact_mean_of_worst_5_percent"] = [-high, -low]
    content |= {"exposure": found.exposure, "exact_exposure": found.exact_exposure}
    content |= {"risk_label": asked.risk_label, "exact_risk": shared.plain(exact_risk)}
    content["requirements"] = [
        {"name": one.name, "must_exceed": one.limit, "reached": one.reached} for one in requirements
    ]
    shared.print_json(content)


@problems.with_model_options
def compare(
    problem: problems.ProblemName,
    caution: shared.Caution = None,
    risk: shared.RiskText = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names of methods or packages, such as 'cautious,CLARABEL,QuantEcon'. Default: all that fit."
        ),
    ] = None,
    limit: shared.LimitTexts = None,
    horizon: shared.HorizonText = None,
    samples: Annotated[
        str | None, typer.Option(help="Our learners take part, with so many transitions each, such as 1e6.")
    ] = None,
    tolerance: shared.Tolerance = DEFAULT_TOLERANCE,
    time_limit: Annotated[float, typer.Option(help="Seconds for each method.")] = 60.0,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Solve a problem by every method that fits, ours and others'.

    All answers are judged alike: the objective of a row is computed from its policy. Seconds are those of one thread.

    Example: cautious compare drift --methods cautious,CLARABEL
    """
    import cautious as ca
    from cautious.comparison.results import HEADERS, label
    from cautious.report.text_tables import Table

    with CompareBar(f"reading {problem}", quiet or as_json) as bar:
        asked = problems.read_problem(problem, options, risk, caution, shared.horizon_of(horizon), limit or ())
        problems.warn_of_deterministic(asked, problem)
        found = ca.compare(
            asked,
            None if methods is None else methods.split(","),
            tolerance,
            time_limit,
            None if samples is None else shared.whole_number("--samples", samples),
            callback=bar,
        )
    fastest = found.fastest
    if as_json:
        shared.print_json({"tolerance": tolerance, "time_limit_seconds": time_limit, "rows": found.table()})
    else:
        # narrow enough for eighty columns: the package is part of the name, notes stand below
        rows = tuple((label(row[0], row[1]), *row[2:-1]) for row in found.cells())
        shared.print_table(Table("", (HEADERS[0], *HEADERS[2:-1]), rows))
        for row in found.rows:
            if row.note:
                typer.echo(f"{label(row.method, row.whose)}: {row.status}, {row.note}")
        # the gaps of the table are in units of the objective
        within = f"{tolerance:g} of the objective's size"
        if fastest is None:
            typer.echo(f"No method proved its answer within {within}.")
        else:
            typer.echo(f"Fastest with a gap within {within}: {fastest.method} ({fastest.seconds:.3g} s).")
    if found.interrupted:
        raise typer.Exit(shared.INTERRUPTED)
    if any(row.status == "INFEASIBLE" for row in found.rows):
        raise typer.Exit(shared.INFEASIBLE)
    raise typer.Exit(shared.SOLVED if fastest is not None else shared.LIMIT)
