"""``compare``: one problem by many methods."""

from typing import Annotated

import typer

from cautious.commands.problems import AtEnd, Discount, ProblemName, Said, Start, Untried, read_problem
from cautious.commands.progress import CompareBar
from cautious.commands.shared import (
    INFEASIBLE,
    INTERRUPTED,
    LIMIT,
    SOLVED,
    AsJson,
    Caution,
    Quiet,
    RiskText,
    Tolerance,
    print_json,
    print_table,
    whole_number,
)


def compare(
    problem: ProblemName,
    caution: Caution = None,
    risk: RiskText = None,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names of methods or packages, such as 'cautious,CLARABEL,QuantEcon'. Default: all that fit."
        ),
    ] = None,
    samples: Annotated[
        str | None, typer.Option(help="Our learners take part, with so many transitions each, such as 1e6.")
    ] = None,
    tolerance: Tolerance = 1e-6,
    time_limit: Annotated[float, typer.Option(help="Seconds for each method.")] = 60.0,
    discount: Discount = None,
    at_end: AtEnd = None,
    start: Start = None,
    untried: Untried = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Solve a problem by every method that fits, ours and others'.

    All answers are judged alike: the objective of a row is computed from its policy. Seconds are those of one thread.

    Example: cautious compare drift --methods cautious,CLARABEL
    """
    import cautious as ca
    from cautious.comparison.results import HEADERS, label
    from cautious.report.text_tables import Table

    with CompareBar(f"reading {problem}", quiet or as_json) as bar:
        asked = read_problem(problem, Said(discount, at_end, start, untried), risk, caution)
        found = ca.compare(
            asked,
            None if methods is None else methods.split(","),
            tolerance,
            time_limit,
            None if samples is None else whole_number("--samples", samples),
            callback=bar,
        )
    fastest = found.fastest
    if as_json:
        print_json({"tolerance": tolerance, "time_limit_seconds": time_limit, "rows": found.table()})
    else:
        # narrow enough for eighty columns: the package is part of the name, notes stand below
        rows = tuple((label(row[0], row[1]), *row[2:-1]) for row in found.cells())
        print_table(Table("", (HEADERS[0], *HEADERS[2:-1]), rows))
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
        raise typer.Exit(INTERRUPTED)
    if any(row.status == "INFEASIBLE" for row in found.rows):
        raise typer.Exit(INFEASIBLE)
    raise typer.Exit(SOLVED if fastest is not None else LIMIT)
