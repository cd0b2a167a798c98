"""``worlds``, ``demo``, ``paper`` and ``bench``: what comes with the package and needs no problem."""

import inspect
import runpy
import sys
import time
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated

import typer

from cautious.commands import completion
from cautious.commands.progress import Bar, SolveBar
from cautious.commands.shared import AsJson, Quiet, exit_code, print_json, print_table, summary, this_command
from cautious.commands.workers import Cluster, Workers, chosen_executor

DEMO_CAUTIONS = (0.0, 1.0, 10.0, 50.0)
# a benchmark reads its own options: they are passed on unchanged
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def worlds(
    name: Annotated[str | None, typer.Argument(help="Show this world only.", autocompletion=completion.worlds)] = None,
    as_json: AsJson = False,
) -> None:
    """List the built-in worlds, or show one.

    Example: cautious worlds maze
    """
    import cautious as ca
    from cautious.report.text_tables import Table

    if name is not None:
        one = ca.worlds.describe(name)
        if as_json:
            print_json(asdict(one))
            return
        scene = ca.worlds.problem(name).mdp.scene
        rows = [("title", one.title), ("states", f"{one.n_states:,}"), ("actions", f"{one.n_actions:,}")]
        rows += [("risk", one.risk), ("caution", f"{one.caution:g}")]
        print_table(Table(name, ("fact", "value"), tuple(rows)))
        story = "" if scene is None else scene.story
        typer.echo("\n".join(part for part in (story, "" if scene is None else "\n".join(scene.grid), one.why) if part))
        return
    found = [ca.worlds.describe(each) for each in ca.worlds.names()]
    if as_json:
        print_json([asdict(each) for each in found])
        return
    # states and actions share a column, so that no word is cut at eighty columns
    lines = [(w.name, w.title, f"{w.n_states:,} x {w.n_actions:,}", w.risk, f"{w.caution:g}") for w in found]
    print_table(Table("", ("name", "title", "states x actions", "risk", "caution"), tuple(lines)))


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the pages; made when missing.")] = Path("demo"),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Solve the maze with more and more caution; write pages.

    Example: cautious demo --out demo
    """
    import cautious as ca
    from cautious.regular_files import make_folder
    from cautious.report.canvas import require_matplotlib
    from cautious.report.frontier_page import write_overview
    from cautious.report.solution_page import write_report
    from cautious.report.text_tables import frontier_table

    require_matplotlib()
    make_folder(out)
    # with one start cell, at the fork of the short and the safe route, each map shows a single route
    mdp = ca.worlds.maze(start_at_s=True)
    index, pages = out / "report.html", {}
    with SolveBar(quiet or as_json, points=len(DEMO_CAUTIONS)) as bar:
        points = ca.frontier(mdp, ca.Variance(), DEMO_CAUTIONS, callback=bar)
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


def paper(
    figure: Annotated[
        list[str] | None, typer.Option(help="1, 2, 3, 4 or theorems; may be given again. Default: all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and samples: under a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and numbers; made when missing.")] = Path(
        "paper"
    ),
    workers: Workers = 1,
    cluster: Cluster = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper: each claim, and whether it holds.

    Its section 6 and its theorems, with the evidence, as a page, figures and numbers.

    Example: cautious paper --figure 3 --quick --out paper
    """
    from cautious.paper.evidence import FULL, QUICK, claims_held
    from cautious.paper.reproduce import PARTS, claims_for_machines, reproduce
    from cautious.report.text_tables import Table

    wanted = tuple(dict.fromkeys(figure or PARTS))
    with chosen_executor(workers, cluster, quiet or as_json) as executor, Bar("reproducing", quiet or as_json) as bar:

        def tell(name: str) -> None:
            what = name if name == "theorems" else f"figure {name}"
            bar.show(what, wanted.index(name), len(wanted))

        parts = reproduce(out, wanted, QUICK if quick else FULL, this_command(), tell, executor)
    if as_json:
        print_json({"page": str(out / "index.html"), "claims": claims_for_machines(parts)})
        return
    rows = tuple(
        (claim.place, claim.said, "holds" if claim.holds else "does not hold")
        for part in parts
        for claim in part.claims
    )
    print_table(Table("", ("where", "what is claimed", "here"), rows))
    typer.echo("{} of {} claims of the paper hold.".format(*claims_held(parts)))
    typer.echo(f"The page to open: {(out / 'index.html').resolve()}")


def bench(
    given: typer.Context,
    name: Annotated[str, typer.Argument(help="Which benchmark: a file of benchmarks/ without .py.")] = "solve",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
    workers: Workers = 1,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark of the source checkout in the current folder.

    Further options go to the benchmark; python benchmarks/solve.py --help lists those of "solve".

    Example: cautious bench solve --quick

    Example: cautious bench solve --states 1000 --risks KL,CVaR --out rows.json
    """
    import cautious as ca

    folder = Path("benchmarks")
    known = sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_"))
    if not known:
        raise ca.InputError(
            "there is no benchmarks/ folder here: benchmarks are part of the source checkout, not of the installed "
            "package; run this command from the root of a checkout"
        )
    # options and commands are written with hyphens
    stem = name.replace("-", "_")
    if stem not in known:
        raise ca.InputError(f"there is no benchmark {name!r}; benchmarks/ has {', '.join(known)}")
    # benchmarks import helpers from their own folder
    sys.path.insert(0, str(folder))
    run = runpy.run_path(str(folder / f"{stem}.py"), run_name="cautious_benchmark")["main"]
    takes = inspect.signature(run).parameters
    if given.args and "arguments" not in takes:
        raise ca.InputError(f"the benchmark {name!r} takes no further options, found {' '.join(given.args)}")
    if isinstance(sys.stdout, TextIOWrapper):
        # each line is written when it is measured, also to a pipe or a file
        sys.stdout.reconfigure(line_buffering=True)
    if (workers != 1 or cluster is not None) and "executor" not in takes:
        raise ca.InputError(f"the benchmark {name!r} measures this process: it takes neither --workers nor --cluster")
    started = time.perf_counter()
    with chosen_executor(workers, cluster, as_json) as executor:
        options = {"arguments": given.args} if given.args else {}
        result = run(quick, **options) if executor is None else run(quick, **options, executor=executor)
    if as_json:
        print_json({"benchmark": name, "quick": quick, "seconds": time.perf_counter() - started, "result": result})
