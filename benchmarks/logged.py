"""From a file of logged transitions to a policy: time, memory, and pandas for the reading and counting.

``cautious bench logged [--quick]``, or ``python benchmarks/logged.py``. The log has 1,000 states, 5 actions and a
million rows. Seconds are of one core. Memory is what reading and counting need on top of the process, as a multiple of
the columns that are read.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

import cautious as ca
from _memory import Watch

LIMIT_SECONDS, LIMIT_MEMORY = 10.0, 4.0
STATES, ACTIONS = 1000, 5
COLUMNS = 4


def write(path: Path, rows: int) -> None:
    """A log of a random behaviour; some actions lead far."""
    rng = np.random.default_rng(0)
    state, action = rng.integers(STATES, size=rows), rng.integers(ACTIONS, size=rows)
    next_state = (state + rng.integers(1, 6, size=rows) * (action + 1)) % STATES
    frame = pd.DataFrame({"state": state, "action": action, "reward": np.cos(state).round(3), "next_state": next_state})
    frame.to_parquet(path) if path.suffix == ".parquet" else frame.to_csv(path, index=False)


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of this process, and what the work returned."""
    started = time.process_time()
    found = work()
    return time.process_time() - started, found


def by_pandas(path: Path) -> Any:
    """The counts and mean rewards, as a user of pandas would get them."""
    frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
    return frame.groupby(["state", "action", "next_state"])["reward"].agg(["size", "mean"])


def measure(path: Path, rows: int) -> dict[str, Any]:
    """One file: reading and counting, two solves, a statement."""
    watch = Watch()
    reading, logged = timed(lambda: ca.from_transitions(path, 0.95, untried="forbid", reward_range=(-1, 1)))
    beyond = watch.beyond()
    kl, _ = timed(lambda: ca.solve(ca.Problem(logged, ca.KL(logged.logging_policy), caution=1.0)).require())
    safe, _ = timed(lambda: ca.solve(ca.Problem(logged, ca.SafeSet(range(900), 0.2), caution=1.0)).require())
    learning, _ = timed(lambda: ca.learn(logged, ca.SafeSet(range(900), 0.3), caution=1.0))
    peer, counted = timed(lambda: by_pandas(path))
    assert len(counted) == logged.outcome_counts.nnz
    return {
        "file": f"{path.suffix[1:]}, {rows:,} rows",
        "read and count": reading,
        "pandas": peer,
        "KL": kl,
        "SafeSet": safe,
        "learn": learning,
        "to a policy": reading + max(kl, safe),
        "memory": None if beyond is None else beyond * 1e6 / (8 * COLUMNS * rows),
    }


def main(quick: bool) -> dict[str, Any]:
    """Run everything, print a table, and return all numbers."""
    rows = 50_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        warm = Path(name) / "warm.csv"
        write(warm, 10_000)
        measure(warm, 10_000)
        found = []
        for suffix in ("csv", "parquet"):
            path = Path(name) / f"log.{suffix}"
            write(path, rows)
            found.append(measure(path, rows))
    table = Table(
        title=f"logged transitions to a policy; limits {LIMIT_SECONDS:g} s and {LIMIT_MEMORY:g} x the columns"
    )
    for column in found[0]:
        table.add_column(column, justify="left" if column == "file" else "right")
    for row in found:
        table.add_row(
            *(value if isinstance(value, str) else "" if value is None else f"{value:.2f}" for value in row.values())
        )
    # standard output belongs to --json
    Console(stderr=True, width=120).print(table)
    return {"rows": found, "limit_seconds": LIMIT_SECONDS, "limit_memory": LIMIT_MEMORY}


if __name__ == "__main__":
    main("--quick" in sys.argv[1:])
