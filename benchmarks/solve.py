"""Every risk, certified, against the solvers a user would pick, on the same problem in the same run.

    cautious bench solve [--quick] [--out rows.json] [--resume] [--risks KL,CVaR] [--states 1000] ...
    python benchmarks/solve.py ...                       the same

Peers: CVXPY with Clarabel, SCS, HiGHS and PIQP; without a risk also QuantEcon, MDPSolver and Storm. ``_rows.py`` says
how a row is measured, ``_targets.py`` what is required.
"""

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich.console import Console

import _case
import _solve_picture
import _solve_tables
from _rows import PEERS, PLANNERS, SUMS, Case, Limits, Row, Workers, compare
from _targets import NEAR_ONE, lines

PACKAGES = (
    "numpy",
    "scipy",
    "cvxpy",
    "clarabel",
    "scs",
    "highspy",
    "piqp",
    "quantecon",
    "mdpsolver",
    "stormpy",
)
SIZED = ("grid", "garnet")
MATRIX_STATES = 1000
LARGE_FRONTIERS = ("KL", "Entropy")
QUICK_LIMITS = Limits(peer_seconds=5.0, own_seconds=10.0)
QUICK_PEERS = ("QuantEcon MPI", "Storm", "CLARABEL 1e-10", "CLARABEL", "PIQP")


def numbers(text: str) -> list[float]:
    """Numbers separated by commas; nothing is none."""
    return [float(part) for part in text.split(",") if part]


def options(arguments: Sequence[str]) -> argparse.Namespace:
    """What to measure."""
    parser = argparse.ArgumentParser(
        prog="cautious bench solve", description="Every risk against the solvers a user would pick."
    )
    parser.add_argument("--quick", action="store_true", help="100 and 400 states and few peers, under two minutes")
    parser.add_argument("--states", default="100,1000,10000", help="sizes of the comparison")
    parser.add_argument(
        "--models",
        default="grid,garnet,shapes",
        help=f"grid, garnet, or shapes of one size each: {', '.join(_case.SHAPES)}; 'shapes' is all of these",
    )
    parser.add_argument("--discounts", default="0.95,0.99")
    parser.add_argument("--risks", default=",".join(PEERS), help="some risks only, separated by commas")
    parser.add_argument("--peers", help="some peers only, separated by commas; empty for none")
    parser.add_argument("--limit", type=float, default=100.0, help="seconds after which a peer is stopped")
    parser.add_argument("--own-limit", type=float, default=600.0, help="time limit of ca.solve, in seconds")
    parser.add_argument("--scale", default="100000,1000000", help="sizes of the rows without peers; empty for none")
    parser.add_argument("--near-one", default="0.999,0.9999", help="discounts at 10,000 states; empty for none")
    parser.add_argument("--frontier", action="store_true", help="30 points of a frontier against one solve")
    parser.add_argument("--threads", action="store_true", help="one thread against all cores at the sizes of --scale")
    parser.add_argument("--only-peers", action="store_true", help="leave our own side out")
    parser.add_argument("--out", type=Path, help="write the rows here after every case, as JSON")
    parser.add_argument("--resume", action="store_true", help="go on from the rows in --out")
    parser.add_argument(
        "--markdown", type=Path, help="write the tables here, between the marks of a page that has them"
    )
    parser.add_argument("--picture", type=Path, help="write time against states here, as PNG")
    given = parser.parse_args(arguments)
    if given.resume and given.out is None:
        parser.error("--resume needs --out: the rows to go on from")
    for what, found, known in (
        ("risks", given.risks, PEERS),
        ("models", given.models, (*SIZED, "shapes", *_case.SHAPES)),
    ):
        unknown = set(found.split(",")) - set(known)
        if unknown:
            parser.error(f"unknown {what} {sorted(unknown)}; there are {', '.join(known)}")
    return given


def cases(given: argparse.Namespace) -> Iterator[Case]:
    """The rows to measure, the cheap ones first."""
    risks, wanted_models = given.risks.split(","), given.models.split(",")
    models = [model for model in wanted_models if model in SIZED]
    shapes = [shape for shape in _case.SHAPES if shape in wanted_models or "shapes" in wanted_models]
    if given.quick:
        sizes = [("grid", 100), ("grid", 400)]
        for model, size in sizes:
            wanted = [risk for risk in risks if size <= 100 or risk != "Wasserstein (matrix)"]
            yield from (Case("compare", model, size, 0.95, risk) for risk in wanted)
        yield from (Case("compare", "garnet", 400, 0.95, risk) for risk in ("none", "KL") if risk in risks)
        return
    discounts = numbers(given.discounts)
    for n_states in map(int, numbers(given.states)):
        for model in models:
            for discount in discounts:
                yield from (Case("compare", model, n_states, discount, risk) for risk in fitting(risks, n_states))
    for shape in shapes:
        size = _case.SHAPES[shape].n_states
        yield from (Case("compare", shape, size, discounts[0], risk) for risk in fitting(risks, size))
    if given.frontier:
        wanted = [risk for risk in risks if risk not in ("none", "Wasserstein (matrix)")]
        yield from (Case("frontier", model, 1000, discounts[0], risk) for model in models for risk in wanted)
        large = [risk for risk in wanted if risk in LARGE_FRONTIERS]
        yield from (Case("frontier", model, 10_000, discounts[0], risk) for model in models for risk in large)
    for discount in numbers(given.near_one):
        wanted = [risk for risk in risks if risk in NEAR_ONE]
        yield from (Case("near one", model, 10_000, discount, risk) for model in models for risk in wanted)
    for n_states in map(int, numbers(given.scale)):
        for model in models:
            yield from (Case("scale", model, n_states, discounts[0], risk) for risk in fitting(risks, n_states))
            if given.threads:
                yield from (Case("threads", model, n_states, discounts[0], "none", cores) for cores in (1, None))


def fitting(risks: Sequence[str], n_states: int) -> list[str]:
    """Risks that make sense at a size: no full matrix of distances, and no sums at a million states."""
    left_out: tuple[str, ...] = ("Wasserstein (matrix)",) if n_states > MATRIX_STATES else ()
    left_out += SUMS if n_states > 100_000 else ()
    return [risk for risk in risks if risk not in left_out]


def machine() -> dict[str, Any]:
    """Where and with what the rows were measured."""
    found: dict[str, Any] = {"date": time.strftime("%Y-%m-%d"), "system": platform.system(), "cores": os.cpu_count()}
    found["python"] = platform.python_version()
    found["load"] = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def written(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    return list(json.loads(path.read_text())["rows"]) if path.exists() else []


def left(wanted: Sequence[Case], rows: Sequence[Row]) -> list[Case]:
    """The cases without a row."""
    names = tuple(asdict(wanted[0])) if wanted else ()
    done = {tuple(row[name] for name in names) for row in rows}
    return [case for case in wanted if case.key not in done]


def result(rows: Sequence[Row]) -> dict[str, Any]:
    """All of a run."""
    return {"machine": machine(), "rows": list(rows), "targets": [asdict(line) for line in lines(rows)]}


def store(path: Path, rows: Sequence[Row]) -> None:
    """In one go, so that a run stopped while writing leaves the file before it."""
    partial = path.with_name(path.name + ".part")
    partial.write_text(json.dumps(result(rows), indent=1) + "\n")
    partial.replace(path)


def run(given: argparse.Namespace) -> dict[str, Any]:
    """Measure, print, and write after every case."""
    # standard output belongs to --json
    console = Console(stderr=True, width=180)
    peers = (
        QUICK_PEERS if given.quick else tuple(dict.fromkeys([*PLANNERS, *(p for all_ in PEERS.values() for p in all_)]))
    )
    if given.peers is not None:
        peers = tuple(part for part in given.peers.split(",") if part)
    limits = QUICK_LIMITS if given.quick else Limits(given.limit, given.own_limit)
    rows = written(given.out) if given.resume else []
    wanted = left(list(cases(given)), rows)
    started = time.perf_counter()
    with Workers(keep=given.quick) as workers:
        for count, case in enumerate(wanted, 1):
            rows.append(compare(workers, case, limits, peers, given.only_peers))
            said = "  ".join(_solve_tables.compared_cells(rows[-1]))
            console.print(f"{count}/{len(wanted)} {time.perf_counter() - started:.0f} s {case.table}: {said}")
            if given.out is not None:
                store(given.out, rows)
    targets = lines(rows)
    _solve_tables.show(console, rows, targets)
    if given.markdown is not None:
        text = f"{_solve_tables.said(machine())}\n\n{_solve_tables.markdown(rows, targets)}"
        page = given.markdown.read_text() if given.markdown.exists() else ""
        given.markdown.write_text(_solve_tables.into_page(page, text))
    if given.picture is not None:
        _solve_picture.draw(rows, given.picture, given.models.split(",")[0], numbers(given.discounts)[0])
    return result(rows)


def main(quick: bool, arguments: Sequence[str] = ()) -> dict[str, Any]:
    """``cautious bench solve``."""
    return run(options([*arguments, *(["--quick"] if quick else [])]))


if __name__ == "__main__":
    import sys

    run(options(sys.argv[1:]))
