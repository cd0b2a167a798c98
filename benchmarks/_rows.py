"""Cases of the benchmark, the solvers that take part in each, and how a row is measured.

A case is measured by us and by every peer that can take it, each in a process of its own, pinned to one thread and
stopped at a time limit. The best peer is the fastest whose answer our certificate proves within the tolerance; where
none is, the one with the smallest gap. Once a peer has proved its answer, others of its group are stopped when they
have taken clearly longer. A peer that is not installed is a row that says so.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from cautious.peers.roster import CONES, LINEAR, QUADRATIC, missing, owner
from cautious.peers.workers import Row, Worker

CHILD = Path(__file__).resolve().with_name("_child.py")
TOLERANCE = 1e-6
# a solver of ours looks at its clock between steps, and is killed only when it does not
OVERTIME_SECONDS = 60.0
DENSE_PLAN_STATES = 1000

PLANNERS = ("QuantEcon MPI", "QuantEcon PI", "Storm", "Storm PI", "MDPSolver VI", "MDPSolver MPI")
PEERS: dict[str, tuple[str, ...]] = {
    "none": (*PLANNERS, *LINEAR),
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
    "Quadratic": QUADRATIC,
    "Quadratic (states)": QUADRATIC,
    "Wasserstein (graph)": LINEAR,
    "Wasserstein (matrix)": LINEAR,
    "Entropy": CONES,
    "KL + PeakExposure": CONES,
    "SafeSet + Quadratic": CONES,
    "Variance + PeakExposure": (),
}
SUMS = tuple(name for name in PEERS if " + " in name)
NOT_CONVEX = "not convex"


@dataclass(frozen=True)
class Case:
    """One problem of the benchmark; ``table`` says which of its tables the row belongs to.

    Tables: "compare" with every peer, "scale" without peers, "near one" with the risk-neutral peers, "frontier" thirty
    points against one solve, "threads" with ``threads`` cores (None: all).
    """

    table: str
    model: str
    n_states: int
    discount: float
    risk: str
    threads: int | None = 1

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells rows apart."""
        return tuple(asdict(self).values())

    @property
    def peers(self) -> tuple[str, ...]:
        """Solvers that can take the problem, the likely fastest of each group first."""
        if self.table == "near one" and self.risk == "none":
            return PLANNERS
        too_dense = self.risk == "Wasserstein (matrix)" and self.n_states >= DENSE_PLAN_STATES
        return PEERS[self.risk] if self.table == "compare" and not too_dense else ()

    @property
    def no_peer(self) -> str:
        """Why there is none."""
        if self.peers or self.table != "compare":
            return ""
        return NOT_CONVEX if not PEERS[self.risk] else f"skipped: a plan of {self.n_states**2:,} entries"


@dataclass(frozen=True)
class Limits:
    """When a peer is stopped, and the time limit of ``ca.solve``."""

    peer_seconds: float
    own_seconds: float


class Workers:
    """Processes that measure, one for every solver.

    A full run makes a new one for every request; a quick run keeps them (``keep``), because most of its time would be
    the import of packages.
    """

    def __init__(self, keep: bool) -> None:
        self.keep, self.kept = keep, dict[tuple[str, bool], Worker]()

    def ask(self, solver: str, request: Row, limit_seconds: float, pinned: bool) -> Row:
        """What ``Worker.ask`` says."""
        key = solver, pinned
        if key not in self.kept or not self.kept[key].alive:
            self.kept[key] = Worker([str(CHILD)], pinned)
        found = self.kept[key].ask(request, limit_seconds)
        if not self.keep:
            self.kept.pop(key).close()
        return found

    def __enter__(self) -> "Workers":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.kept.values():
            if worker.alive:
                worker.close()


def measure(workers: Workers, case: Case, solver: str, limit_seconds: float) -> Row:
    """A case by one solver in its own process; what went wrong is in ``status``."""
    empty = {"solver": solver, "seconds": None, "gap": None, "objective": None}
    if solver != "cautious" and missing(solver) is not None:
        return empty | {"status": "not installed"}
    work = "frontier" if case.table == "frontier" else "solve"
    request = asdict(case) | {"work": work, "solver": solver, "limit_seconds": limit_seconds}
    deadline_seconds = limit_seconds + (OVERTIME_SECONDS if solver == "cautious" else 0.0)
    return empty | workers.ask(solver, request, deadline_seconds, pinned=case.threads == 1)


def proved(row: Row | None) -> bool:
    """Whether our certificate accepts the answer."""
    return row is not None and row["gap"] is not None and row["gap"] <= TOLERANCE


def best_of(peers: Iterable[Row]) -> Row | None:
    """The fastest proved answer; without one, the one with the smallest gap."""
    finished = [row for row in peers if row["gap"] is not None]
    if any(proved(row) for row in finished):
        return min((row for row in finished if proved(row)), key=lambda row: row["seconds"])
    return min(finished, key=lambda row: row["gap"], default=None)


def best_of_group(row: Row, group: str) -> Row | None:
    """The best peer of one group."""
    return best_of(peer for peer in row["peers"] if owner(peer["solver"]) == group)


def ratio(own: Row, peer: Row | None) -> float | None:
    """The peer's time over ours."""
    return peer["seconds"] / own["seconds"] if peer is not None and own["seconds"] else None


def compare(workers: Workers, case: Case, limits: Limits, peers_wanted: Sequence[str], skip_own: bool = False) -> Row:
    """Our row, the row of every peer that is wanted and can take the case, the best of them, and the ratio of times."""
    unmeasured = {"solver": "cautious", "status": "not measured", "seconds": None, "gap": None, "objective": None}
    own = unmeasured if skip_own else measure(workers, case, "cautious", limits.own_seconds)
    peers: list[Row] = []
    for solver in (solver for solver in case.peers if solver in peers_wanted):
        rivals = [row["wall_seconds"] for row in peers if proved(row) and owner(row["solver"]) == owner(solver)]
        # a rival's time, and a little more: both are measured with some noise
        peers.append(
            measure(workers, case, solver, min([limits.peer_seconds, *(1.0 + 1.5 * seconds for seconds in rivals)]))
        )
    best = best_of(peers)
    return asdict(case) | {
        "own": own,
        "peers": peers,
        "best_peer": best,
        "ratio": ratio(own, best),
        "note": case.no_peer,
    }
