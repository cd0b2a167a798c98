"""``worlds`` and ``bench``."""

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
from cautious.commands.shared import AsJson, print_json, print_table


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


# options of a benchmark are its own: they are passed on as they are
PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def bench(
    given: typer.Context,
    name: Annotated[str, typer.Argument(help="Which benchmark: a file of benchmarks/ without .py.")] = "solve",
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes only.")] = False,
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
    if name not in known:
        raise ca.InputError(f"there is no benchmark {name!r}; benchmarks/ has {', '.join(known)}")
    # benchmarks share helpers, as scripts of one folder do
    sys.path.insert(0, str(folder))
    run = runpy.run_path(str(folder / f"{name}.py"), run_name="cautious_benchmark")["main"]
    if given.args and len(inspect.signature(run).parameters) < 2:
        raise ca.InputError(f"the benchmark {name!r} takes no further options, found {' '.join(given.args)}")
    if isinstance(sys.stdout, TextIOWrapper):
        # a line appears when it is measured, in a pipe or a file as well
        sys.stdout.reconfigure(line_buffering=True)
    started = time.perf_counter()
    result = run(quick, given.args) if given.args else run(quick)
    if as_json:
        print_json({"benchmark": name, "quick": quick, "seconds": time.perf_counter() - started, "result": result})
