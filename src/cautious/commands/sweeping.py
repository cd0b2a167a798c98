"""``sweep``: a study from a file, with its results in a folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cautious.commands import problems, shared
from cautious.commands.progress import SweepBar
from cautious.commands.workers import Cluster, Workers, chosen_executor

if TYPE_CHECKING:
    from cautious import Sweep

KEYS = ("problems", "methods", "cautions", "samples", "seeds", "risk", "discount", "at_end", "tolerance")
FORM = 'a list such as ["drift", "my_problem.toml"], or a table of names'


def sweep(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE.toml", help="Problems, methods, cautions, samples and seeds, each to be run with each."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the results; what is there is not computed again. Default: FILE without .toml."),
    ] = None,
    workers: Workers = 1,
    cluster: Cluster = None,
    table: Annotated[Path | None, typer.Option(help="Write a row for each run (.csv or .parquet).")] = None,
    plot: Annotated[Path | None, typer.Option(help="Draw the means and their bands (.png).")] = None,
    run_timeout: Annotated[float | None, typer.Option(help="Seconds one run may take.")] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run again what failed before.")] = False,
    quiet: shared.Quiet = False,
    as_json: shared.AsJson = False,
) -> None:
    """Run a study: problems, methods, cautions, samples, seeds.

    Results are kept as they come: after an interruption the same command goes on where it stopped. The exit code is 4
    if a run failed.

    Example: cautious sweep examples/study.toml --out study --workers 2 --table runs.csv --plot study.png
    """
    import cautious as ca
    from cautious.report.plots import save_figure

    shared.check_outputs([table], [plot])
    folder = file.with_suffix("") if out is None else out
    with (
        chosen_executor(workers, cluster, quiet or as_json) as executor,
        SweepBar(f"reading {file}", quiet or as_json) as bar,
    ):
        found = ca.sweep(
            **read_study(file),
            folder=folder,
            executor=executor,
            callback=bar,
            run_timeout_seconds=run_timeout,
            retry_failed=retry_failed,
        )
    number = "gap" if any(row["gap"] is not None for row in found.rows) else "objective"
    if table is not None:
        found.save(table)
    if plot is not None:
        save_figure(found.plot(), plot)
    if as_json:
        summary = {"number": number, "rows": found.summary(number)}
        rows = [
            {name: shared.plain(value) if isinstance(value, float) else value for name, value in row.items()}
            for row in found.rows
        ]
        shared.print_json({"folder": str(folder), "summary": summary, "rows": rows})
    else:
        print_summary(found, number)
        shared.print_files({"table": table, "plot": plot, "results": folder})
    raise typer.Exit(shared.LIMIT if found.failed else shared.SOLVED)


def read_study(file: Path) -> dict[str, Any]:
    """The arguments of ``ca.sweep`` in a file; files that it names are relative to its folder."""
    import cautious as ca
    from cautious.problem_files.keys import allow, require
    from cautious.problem_files.reading import parse

    tables = parse(file)
    try:
        allow(tables, "the study", KEYS)
        require(tables, "the study", ["problems"], f", {FORM}")
        named = tables.pop("problems")
        if isinstance(named, list):
            named = {str(name): name for name in named}
        if not isinstance(named, Mapping) or not named or not all(isinstance(name, str) for name in named.values()):
            raise ca.InputError(f"problems is {named!r:.80}; expected {FORM}")
        options: dict[str, Any] = {name: tables.pop(name) for name in ("discount", "at_end") if name in tables}
        risk = tables.pop("risk", None)
        if risk is not None and not isinstance(risk, str):
            raise ca.InputError(f"risk is {risk!r:.80}; expected a text such as 'variance': {shared.RISK_FORMS}")
        for name in ("samples", "seeds"):
            if name in tables:
                tables[name] = _whole(tables[name])
        found = {name: problems.read_problem(_beside(file, text), options, risk) for name, text in named.items()}
        return {"problems": found, **tables}
    except (ca.InputError, ca.IncompatibleError) as error:
        raise ca.FileError(f"{file}: {error}") from None


def _beside(file: Path, name: str) -> str:
    """A file beside the study, where there is one of this name."""
    return str(file.parent / name) if (file.parent / name).is_file() else name


def _whole(value: Any) -> Any:
    """Numbers such as 1e5 as the whole numbers that they are."""
    if isinstance(value, list):
        return [_whole(one) for one in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def print_summary(found: "Sweep", number: str) -> None:
    """A line for each problem, method, caution and number of samples."""
    from cautious.report.text_tables import Table

    lines = [
        (
            row["problem"],
            row["method"],
            f"{row['caution']:g}",
            f"{row['samples']:,}",
            f"{row['iqm']:.3g}",
            f"{row['low']:.2g} to {row['high']:.2g}",
        )
        for row in found.summary(number)
    ]
    headers = ("problem", "method", "caution", "samples", number, "95 %")
    shared.print_table(Table(f"{number}: interquartile means over seeds", headers, tuple(lines)))
    for row in found.failed:
        typer.echo(
            f"failed: {row['problem']}, {row['method']}, caution {row['caution']:g}, {row['samples']:,} samples, seed "
            f"{row['seed']}: {row['error']}"
        )
