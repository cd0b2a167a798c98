"""``worlds``, ``warmup`` and ``bench``."""

import inspect
import runpy
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from io import TextIOWrapper
from itertools import product
from pathlib import Path
from typing import Annotated

import typer

from cautious.commands import completion
from cautious.commands.progress import Bar
from cautious.commands.shared import AsJson, Quiet, print_json, print_table


def worlds(
    name: Annotated[str | None, typer.Argument(help="Show this world only.", autocompletion=completion.worlds)] = None,
    as_json: AsJson = False,
) -> None:
    """List the built-in worlds, or show one.

    Example: cautious worlds maze
    """
    import cautious as ca
    from cautious.report.tables import Table

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


def warmup(quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Compile the kernels now instead of during the first solve.

    Example: cautious warmup
    """
    started = time.perf_counter()
    with Bar("loading", quiet or as_json) as bar:
        jobs = list(_kernel_users())
        for number, (what, job) in enumerate(jobs):
            bar.show(what, number, len(jobs))
            job()
    seconds = time.perf_counter() - started
    if as_json:
        print_json({"seconds": seconds})
    else:
        typer.echo(f"kernels are ready ({seconds:.1f} s)")


def _kernel_users() -> Iterator[tuple[str, Callable[[], object]]]:
    """Calls that together use every kernel, and what to say meanwhile."""
    import numpy as np
    import scipy.sparse as sp

    import cautious as ca
    from cautious.solvers.base import Clock, Target, run
    from cautious.solvers.interior import Interior
    from cautious.solvers.proximal import Proximal

    # more states than the dense limit, so that the sparse kernels of planning are compiled as well
    mdp = ca.worlds.garnet(n_states=400)
    even = np.full(mdp.n_states, 1 / mdp.n_states)
    halves = [np.arange(200), np.arange(200, 400)]
    entropies = (ca.Entropy(), ca.Entropy() + ca.PeakExposure(halves))
    features = (ca.SafeSet(halves[0], 1.0), ca.PeakExposure(halves))
    for risk in (None, *entropies, *features, ca.Variance(), ca.CVaR(0.9), ca.Quadratic(even)):
        yield "solvers", partial(ca.solve, ca.Problem(mdp, risk), tolerance=1e-3)
    yield "frontiers", partial(ca.frontier, mdp, ca.Entropy(), np.geomspace(0.5, 2.0, 4), tolerance=1e-3)
    ring = sp.csr_array((np.ones(400), (np.arange(400), (np.arange(400) + 1) % 400)), shape=(400, 400))
    distances = (ca.TotalVariation(even), ca.Quadratic(even), ca.KL(even), ca.Wasserstein(even, ring))
    for solver, distance in product((Interior(), Proximal()), distances):
        yield solver.name, partial(run, solver, ca.Problem(mdp, distance), Target(1e-3, Clock(None)), None)
    # small factors are of another precision than large ones, and one state is not in a group of four
    small = ca.Problem(ca.worlds.garnet(n_states=101), ca.Quadratic(np.full(101, 1 / 101)))
    yield Interior.name, partial(run, Interior(), small, Target(1e-3, Clock(None)), None)
    # a tight tolerance takes every kind of step
    yield "solvers", partial(ca.solve, ca.Problem(mdp, ca.Quadratic(even), 100.0))
    yield from _large_models()
    yield "evaluation", partial(ca.evaluate, mdp, np.full(mdp.shape, 1 / mdp.n_actions), episodes=2)
    for method in ("plug-in", "primal-dual", "paper"):
        samples = 4 * mdp.allowed.size
        yield method, partial(ca.learn, mdp.simulator(), ca.Entropy(), 1.0, samples, method)


def _large_models() -> Iterator[tuple[str, Callable[[], object]]]:
    """The same for models of thousands of states, which are looked at, priced and carried in other ways."""
    import numpy as np
    import scipy.sparse as sp

    import cautious as ca

    marks = np.random.default_rng(0).integers(3, size=(60, 60)).astype(str)
    grid = ca.worlds.from_grid(["".join(row) for row in marks], {str(k): float(k) for k in range(3)})
    rows, n = np.divmod(np.arange(grid.n_states), 60)[0], grid.n_states
    line = sp.csr_array((np.ones(n - 1), (np.arange(n - 1), np.arange(1, n))), shape=(n, n))
    zones = [np.flatnonzero(rows < 20), np.flatnonzero(rows >= 40)]
    safe, worst = ca.SafeSet(np.flatnonzero(rows >= 20), 0.5), ca.PeakExposure(zones)
    tasks = np.random.default_rng(1).random((3, *grid.shape))
    features = (safe, worst, ca.TaskFloors(tasks, np.ones(3)), ca.WorstTask(tasks))
    for risk in (None, *features, ca.Wasserstein(np.full(n, 1 / n), line)):
        yield "large models", partial(ca.solve, ca.Problem(grid, risk, 10.0), time_limit_seconds=20.0)


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
