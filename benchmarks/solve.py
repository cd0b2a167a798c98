"""Every risk at one size, certified, against CVXPY with Clarabel, SCS and HiGHS on the same problem in the same run.

Clarabel runs twice: its default precision is the fastest, but its answers often miss the tolerance.

``cautious bench solve --quick``, or ``python benchmarks/solve.py [--quick] [--risks KL,CVaR] [--out rows.json]``.
Every solver runs in a process of its own. A peer counts as best when it is the fastest one whose answer our own
certificate proves within the tolerance; it is stopped after 60 s, or once a better peer is known to be faster.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

CHILD = Path(__file__).resolve().with_name("_case.py")
TOLERANCE = 1e-6
LIMIT_SECONDS = 60.0
OWN_LIMIT_SECONDS = 300.0
# the judgement of a peer's answer by our certificate comes on top of its own time
GRACE_SECONDS = 4.0
DENSE_PLAN_STATES = 1000

CONES = ("CLARABEL", "CLARABEL 1e-10", "SCS")
LINEAR = (*CONES, "HIGHS")
NOT_CONVEX = "not convex"
PEERS: dict[str, tuple[str, ...]] = {
    "none": LINEAR,
    "SafeSet": CONES,
    "TaskFloors": CONES,
    "PeakExposure": LINEAR,
    "WorstTask": LINEAR,
    "Variance": (),
    "CVaR": (),
    "KL": CONES,
    "KL (states)": CONES,
    "TotalVariation": LINEAR,
    "TotalVariation (states)": LINEAR,
    "Quadratic": CONES,
    "Quadratic (states)": CONES,
    "Wasserstein (graph)": LINEAR,
    "Wasserstein (matrix)": LINEAR,
    "Entropy": CONES,
}


@dataclass(frozen=True)
class Case:
    """One problem of the table."""

    model: str
    n_states: int
    discount: float
    risk: str

    @property
    def peers(self) -> tuple[str, ...]:
        """Solvers that can take the problem, the likely fastest first."""
        too_dense = self.risk == "Wasserstein (matrix)" and self.n_states >= DENSE_PLAN_STATES
        return () if too_dense else PEERS[self.risk]

    @property
    def no_peer(self) -> str:
        """Why there is none."""
        return NOT_CONVEX if not PEERS[self.risk] else f"skipped: a plan of {self.n_states**2:,} entries"


def cases(quick: bool, risks: Sequence[str]) -> list[Case]:
    """The grid (at two discounts, unless quick) and a garnet, with every risk."""
    models = [("grid", 2500, 0.95), ("grid", 2500, 0.99), ("garnet", 2500, 0.95)]
    if quick:
        models = [("grid", 400, 0.95), ("garnet", 200, 0.95)]
    return [Case(*model, risk) for model in models for risk in risks]


def one(case: Case, solver: str, limit_seconds: float) -> dict[str, Any]:
    """A case by one solver in a child process; what went wrong is in ``status``."""
    request = {"model": case.model, "n_states": case.n_states, "discount": case.discount, "risk": case.risk}
    command = [sys.executable, str(CHILD), json.dumps(request | {"solver": solver})]
    empty = {"solver": solver, "seconds": None, "gap": None, "objective": None, "megabytes": None}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        try:
            answer, errors = child.communicate(timeout=limit_seconds + GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return empty | {"status": f"over {limit_seconds:.0f} s"}
    if child.returncode != 0:
        last = errors.strip().splitlines()[-1:] or [f"exit code {child.returncode}"]
        return empty | {"status": f"failed: {last[0][:200]}"}
    return dict(json.loads(answer.strip().splitlines()[-1]))


def proved(row: dict[str, Any]) -> bool:
    """Whether our certificate accepts the answer."""
    return row["gap"] is not None and row["gap"] <= TOLERANCE


def compare(case: Case, limit_seconds: float = LIMIT_SECONDS) -> dict[str, Any]:
    """Our row, every peer's row, the best of them, and the ratio of times."""
    own = one(case, "cautious", OWN_LIMIT_SECONDS)
    peers: list[dict[str, Any]] = []
    for solver in case.peers:
        fastest = min((row["seconds"] for row in peers if proved(row)), default=limit_seconds)
        peers.append(one(case, solver, min(limit_seconds, fastest)))
    best = best_of(peers)
    ratio = best["seconds"] / own["seconds"] if best is not None and own["seconds"] else None
    return {
        "model": case.model,
        "n_states": case.n_states,
        "discount": case.discount,
        "risk": case.risk,
        "own": own,
        "peers": peers,
        "best_peer": best,
        "ratio": ratio,
        "note": "" if case.peers else case.no_peer,
    }


def best_of(peers: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """The fastest proved answer; without one, the one with the smallest gap."""
    finished = [row for row in peers if row["gap"] is not None]
    if any(proved(row) for row in finished):
        return min((row for row in finished if proved(row)), key=lambda row: row["seconds"])
    return min(finished, key=lambda row: row["gap"], default=None)


OWN_HEADINGS = ("model", "risk", "status", "gap", "seconds", "MB")
HEADINGS = (*OWN_HEADINGS, "best peer", "its gap", "its seconds", "solver alone", "its MB", "ratio")


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """A row of the table, as text."""
    own, best = row["own"], row["best_peer"]
    name = f"{row['model']} {row['n_states']:,}, {row['discount']:g}"
    mine = (own["status"], number(own["gap"], ".1e"), number(own["seconds"], ".2f"), number(own["megabytes"], ".0f"))
    if best is None:
        ends = (f"{peer['solver']} {peer['status'].split(':')[0]}" for peer in row["peers"])
        return (name, row["risk"], *mine, row["note"] or "; ".join(ends), "", "", "", "", "")
    forms = (("gap", ".1e"), ("seconds", ".2f"), ("solver_seconds", ".2f"), ("megabytes", ".0f"))
    theirs = (number(best[key], form) for key, form in forms)
    return (name, row["risk"], *mine, best["solver"], *theirs, number(row["ratio"], ".1f"))


def number(value: float | None, form: str) -> str:
    """A number, or a dash."""
    return "-" if value is None else format(value, form)


def markdown(rows: Iterable[dict[str, Any]]) -> str:
    """The table of docs/benchmarks.md."""
    lines = ["| " + " | ".join(HEADINGS) + " |", "|" + "---|" * len(HEADINGS)]
    return "\n".join([*lines, *("| " + " | ".join(cells(row)) + " |" for row in rows)]) + "\n"


def main(
    quick: bool,
    out: Path | None = None,
    risks: Sequence[str] = tuple(PEERS),
    models: Sequence[str] = ("grid", "garnet"),
) -> list[dict[str, Any]]:
    """Run, print the table, and write the rows to ``out`` after every case, so that a stopped run loses nothing."""
    # standard output belongs to --json
    console = Console(stderr=True, width=150)
    rows: list[dict[str, Any]] = []
    started = time.perf_counter()
    chosen = [case for case in cases(quick, risks) if case.model in models]
    for count, case in enumerate(chosen, 1):
        rows.append(compare(case))
        console.print(f"{count}/{len(chosen)} {time.perf_counter() - started:.0f} s: {'  '.join(cells(rows[-1]))}")
        if out is not None:
            out.write_text(json.dumps(rows, indent=1) + "\n")
    table = Table(*HEADINGS, title=f"certified to {TOLERANCE:g}; ratio = time of the best peer / ours")
    for row in rows:
        table.add_row(*cells(row))
    console.print(table)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--out", type=Path, help="write the rows here, as JSON")
    parser.add_argument("--risks", default=",".join(PEERS), help="some risks only, separated by commas")
    parser.add_argument("--models", default="grid,garnet", help="some models only")
    parser.add_argument("--markdown", type=Path, help="write the table here, as Markdown")
    given = parser.parse_args()
    result = main(given.quick, given.out, given.risks.split(","), given.models.split(","))
    if given.markdown is not None:
        given.markdown.write_text(markdown(result))
