"""``demo``: the built-in maze for four cautions, a table and a page."""

from pathlib import Path
from typing import Annotated

import typer

from cautious.commands.progress import SolveBar
from cautious.commands.shared import AsJson, Quiet, exit_code, print_json, print_table, summary

CAUTIONS = (0.0, 1.0, 10.0, 50.0)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pages; made when missing.")] = Path("demo"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Solve the maze with more and more caution; write pages.

    Example: cautious demo --out demo
    """
    import cautious as ca
    from cautious.report.canvas import require_matplotlib
    from cautious.report.frontier_page import write_overview
    from cautious.report.solution_page import write_report
    from cautious.report.text_tables import frontier_table
    from cautious.report.writing import make_folder

    require_matplotlib()
    make_folder(out)
    # one start cell, where the short way and the safe way part: each map then shows one way through the maze
    mdp = ca.worlds.maze(start_at_s=True)
    index, pages = out / "report.html", {}
    with SolveBar(quiet or as_json, points=len(CAUTIONS)) as bar:
        points = ca.frontier(mdp, ca.Variance(), CAUTIONS, callback=bar)
        for number, one in enumerate(points):
            pages[one.caution] = f"caution-{one.caution:g}.html"
            bar.show(f"writing {pages[one.caution]}", number, len(points) + 1)
            write_report(one, out / pages[one.caution])
        bar.show("writing report.html", len(points), len(points) + 1)
        write_overview(points, index, pages=pages, command=f"cautious demo --out {out}")
    if as_json:
        print_json({"report": str(index), "solutions": [summary(one) for one in points]})
    else:
        print_table(frontier_table(points))
        typer.echo(f"The page to open: {index.resolve()}")
    raise typer.Exit(max(exit_code(one) for one in points))
