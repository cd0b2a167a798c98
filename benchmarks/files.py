"""Reading models: every format, time and memory, beside Storm on the formats that it reads too.

``cautious bench files [--quick]``, or ``python benchmarks/files.py``. A model of 200,000 states with 4 actions and 5
successors each (4,000,000 transitions; a tenth of that with --quick) is written in each format, and read by a process
of its own: processor seconds, and the most memory beyond the start of reading as a multiple of the model's arrays.
Nothing is compiled while the clock runs. Storm has no PRISM headers: it reads a copy with its own.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import cautious as ca

HERE = Path(__file__).resolve()
SUFFIXES = (".tra", ".umb", ".csv", ".parquet", ".npz")
LIMIT_SECONDS, LIMIT_MEMORY = 10.0, 4.0


def model(n_states: int) -> ca.MDP:
    """A random model that starts in one state."""
    base = ca.worlds.garnet(n_states)
    return ca.MDP(base.transitions, base.rewards, base.discount, np.eye(1, n_states)[0])


def storm_copy(path: Path) -> Path:
    """The explicit files in the form that Storm reads."""
    copy = path.with_name("storm.tra")
    with path.open() as source, copy.open("w") as target:
        target.write("mdp\n")
        for number, line in enumerate(source):
            if number >= 2:
                target.write(line)
    copy.with_suffix(".lab").write_text("#DECLARATION\ninit deadlock\n#END\n0 init\n")
    with path.with_suffix(".trew").open() as source, copy.with_suffix(".trew").open("w") as target:
        target.writelines(line for number, line in enumerate(source) if number >= 3)
    return copy


def read_by_us(path: Path) -> dict[str, Any]:
    """One reading, after a small one that compiles everything."""
    from _memory import Watch, model_megabytes

    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / f"small{path.suffix}"
        model(50).save(small)
        ca.read_model(small)
    watch, started = Watch(), time.process_time()
    mdp = ca.read_model(path)
    seconds = time.process_time() - started
    return {"seconds": seconds, "megabytes": watch.beyond(), "arrays": model_megabytes(mdp)}


def read_by_storm(path: Path) -> dict[str, Any]:
    """One reading by Storm."""
    import stormpy

    from _memory import Watch

    watch, started = Watch(), time.process_time()
    if path.suffix == ".umb":
        found = stormpy.build_model_from_umb(str(path))
    else:
        lab, trew = str(path.with_suffix(".lab")), str(path.with_suffix(".trew"))
        found = stormpy.build_model_from_explicit(str(path), lab, transition_rewards=trew)
    assert found.nr_states > 0
    return {"seconds": time.process_time() - started, "megabytes": watch.beyond()}


def in_a_child(reader: str, path: Path) -> dict[str, Any]:
    """What one reading took, in a process of its own."""
    command = [sys.executable, str(HERE), "--child", reader, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    if done.returncode != 0:
        return {"status": done.stderr.strip().splitlines()[-1:] or ["ended"]}
    row: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def rows(n_states: int) -> list[dict[str, Any]]:
    """All readings."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder, mdp = Path(name), model(n_states)
        for suffix in SUFFIXES:
            path = folder / f"model{suffix}"
            started = time.process_time()
            mdp.save(path)
            writing = time.process_time() - started
            ours = in_a_child("cautious", path)
            found.append(
                {"format": suffix, "reader": "cautious", "size": path.stat().st_size / 1e6, "writing": writing, **ours}
            )
            if suffix in (".tra", ".umb"):
                peer = in_a_child("storm", storm_copy(path) if suffix == ".tra" else path)
                found.append({"format": suffix, "reader": "Storm", "size": path.stat().st_size / 1e6, **peer})
    return found


def main(quick: bool) -> dict[str, Any]:
    """Run everything, print a table, and return all numbers."""
    n_states = 20_000 if quick else 200_000
    found = rows(n_states)
    headers = ("format", "read by", "MB", "seconds", "MB beyond", "times the arrays", "seconds to write")
    table = Table(*headers, title=f"model files, {n_states:,} states, {20 * n_states:,} transitions")
    for row in found:
        if "seconds" not in row:
            table.add_row(row["format"], row["reader"], f"{row['size']:.0f}", str(row["status"]), "", "", "")
            continue
        beyond = row["megabytes"]
        ratio = f"{beyond / row['arrays']:.1f}" if beyond is not None and "arrays" in row else ""
        writing = f"{row['writing']:.1f}" if "writing" in row else ""
        memory = "" if beyond is None else f"{beyond:.0f}"
        table.add_row(
            row["format"], row["reader"], f"{row['size']:.0f}", f"{row['seconds']:.2f}", memory, ratio, writing
        )
    # standard output belongs to --json
    Console(stderr=True, width=120).print(table)
    return {"rows": found, "limit_seconds": LIMIT_SECONDS, "limit_memory": LIMIT_MEMORY}


if __name__ == "__main__":
    if "--child" in sys.argv:
        reader, path = sys.argv[-2:]
        read = read_by_us if reader == "cautious" else read_by_storm
        print(json.dumps(read(Path(path))))
    else:
        main("--quick" in sys.argv[1:])
