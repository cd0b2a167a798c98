"""What people wait for: pages, the paper's quick run, demonstrations read from a file.

``cautious bench report [--quick]``, or ``python benchmarks/report.py``. Each line is a ratio to a limit in seconds, or
to a peer: for a csv file, Python's own csv module that reads every row and keeps nothing.
"""

import csv
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cautious as ca
from cautious.paper.evidence import QUICK
from cautious.paper.reproduce import PARTS, reproduce

REPORT_LIMIT, FRONTIER_LIMIT, PAPER_LIMIT = 3.0, 10.0, 60.0


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The best of a few."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - started)
    return best


def pages(folder: Path, quick: bool) -> list[dict[str, Any]]:
    """Reports of solutions, and of a frontier."""
    rows = []
    problems = {name: ca.worlds.problem(name) for name in ("maze", "machine_replacement", "inventory")}
    if not quick:
        problems["garnet of 5,000 states"] = ca.Problem(ca.worlds.garnet(5000), ca.Variance(), caution=1.0)
    for name, problem in problems.items():
        solution, path = ca.solve(problem).require(), folder / "page.html"
        taken = seconds(lambda solution=solution, path=path: solution.report(path))
        rows.append({"what": f"report, {name}", "seconds": taken, "limit": REPORT_LIMIT, "bytes": path.stat().st_size})
    points, path = ca.frontier(ca.worlds.maze(), ca.Variance(), [0, 1, 10, 50]), folder / "frontier.html"
    taken = seconds(lambda: points.report(path))
    rows.append(
        {"what": "report, frontier of 4", "seconds": taken, "limit": FRONTIER_LIMIT, "bytes": path.stat().st_size}
    )
    return rows


def demonstrations(folder: Path, quick: bool) -> dict[str, Any]:
    """A csv file of episodes of 100 steps."""
    mdp, path, count = ca.worlds.drift(), folder / "demos.csv", 100_000 if quick else 1_000_000
    rng = np.random.default_rng(0)
    states, actions = rng.integers(100, size=count), rng.integers(4, size=count)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("episode", "step", "state", "action"))
        writer.writerows(zip(np.arange(count) // 100, np.arange(count) % 100, states, actions, strict=True))

    def plain() -> None:
        with path.open(newline="") as file:
            for _ in csv.reader(file):
                pass

    taken = seconds(lambda: ca.demonstrations(path, mdp, smoothing=0.05, at_end="cut"))
    return {"what": f"demonstrations, csv of {count:,} rows", "seconds": taken, "limit": seconds(plain)}


def main(quick: bool) -> dict[str, Any]:
    """Run everything, print a table, and return all numbers."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = [*pages(folder, quick), demonstrations(folder, quick)]
        parts = ("3",) if quick else tuple(PARTS)
        taken = seconds(lambda: reproduce(folder, parts, QUICK), repeats=1)
        rows.append(
            {"what": f"paper, quick, {len(parts)} of {len(PARTS)} parts", "seconds": taken, "limit": PAPER_LIMIT}
        )
    table = Table("what", "seconds", "limit or peer", "ratio", "kB", title="pages, paper, demonstrations")
    for row in rows:
        size = f"{row['bytes'] / 1000:.0f}" if "bytes" in row else ""
        ratio = f"{row['seconds'] / row['limit']:.2f}"
        table.add_row(row["what"], f"{row['seconds']:.2f}", f"{row['limit']:.2f}", ratio, size)
    # standard output belongs to --json
    Console(stderr=True, width=120).print(table)
    return {"rows": rows}


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
