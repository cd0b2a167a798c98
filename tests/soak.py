"""Mixed load with faults, and one page of results: ``python tests/soak.py --seconds 3600``, or ``make soak``.

Worker processes solve random problems under time limits and callbacks that stop, save, load and verify the solutions,
learn from simulators that fail, kill learning processes and resume them, follow frontiers, evaluate policies, talk to
the studio, read files that were cut, and write to a disk that is nearly full. A fault is a false proof, an error that
is not ours, a resumed run that differs from the undisturbed one, a temporary file left behind, memory or descriptors
that grow, and a process that crashes or does not end. ``--kind KIND --only SEED`` repeats one operation.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

# pytest has this folder from its settings
sys.path.append(str(Path(__file__).parent / "learning"))

from soak_operations import MAX_LATE_SECONDS, ROUND, Tally, Worker

# of one worker, from a tenth of its time to its end
MAX_GROWTH_BYTES = 200 * 2**20
MAX_NEW_DESCRIPTORS = 10
# after its time a worker may end the operation that it has begun
MAX_LAST_OPERATION_SECONDS = 180.0


def soak(seconds, seed, workers, folder):
    """The tallies of worker processes; one that crashes or does not end is a fault of its operation."""
    places = [Path(folder) / str(number) for number in range(workers)]
    processes, tallies = [], []
    end = time.monotonic() + seconds + MAX_LAST_OPERATION_SECONDS
    try:
        for number, place in enumerate(places):
            place.mkdir()
            numbers = ["--seconds", str(seconds), "--seed", str(seed + number * 10**7)]
            command = [sys.executable, __file__, "--worker", str(place), *numbers]
            processes.append(subprocess.Popen(command, start_new_session=True))
        for process, place in zip(processes, places, strict=True):
            try:
                code = process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                code = "none: it did not end"
            file = place / "tally.json"
            tally = Tally(**json.loads(file.read_text())) if file.exists() else Tally()
            if code != 0:
                tally.faults.append(("Crash", tally.doing, f"a worker ended with code {code}"))
            tallies.append(tally)
    finally:
        for process in processes:
            if process.poll() is None:
                # with the learning process that it may have started
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return tallies


def all_faults(tallies):
    """Those of operations, and growth."""
    faults = [tuple(fault) for tally in tallies for fault in tally.faults]
    for number, tally in enumerate(tallies):
        if len(tally.memory) == 2 and tally.memory[1] - tally.memory[0] > MAX_GROWTH_BYTES:
            faults.append(("Growth", f"worker {number}", f"memory in bytes: {tally.memory}"))
        if len(tally.descriptors) == 2 and tally.descriptors[1] - tally.descriptors[0] > MAX_NEW_DESCRIPTORS:
            faults.append(("Growth", f"worker {number}", f"open descriptors: {tally.descriptors}"))
    return faults


def page(tallies, seconds, seed):
    """One page of results, in Markdown."""
    names = ("done", "refused", "statuses")
    done, refused, statuses = (sum((Counter(getattr(tally, name)) for tally in tallies), Counter()) for name in names)
    late, faults = [one for tally in tallies for one in tally.late], all_faults(tallies)
    lines = [
        "# Soak",
        "",
        f"{len(tallies)} workers, {seconds:g} s, seed {seed}, {time.strftime('%Y-%m-%d %H:%M', time.gmtime())} UTC: "
        f"{sum(done.values())} operations, {len(faults)} faults.",
        "",
        "| operation | done | ended with an error of ours | slowest (s) |",
        "|---|---|---|---|",
    ]
    for kind in ROUND:
        slowest = max(tally.slowest.get(kind, 0.0) for tally in tallies)
        lines.append(f"| {kind} | {done[kind]} | {refused[kind]} | {slowest:.2f} |")
    lines += [
        "",
        f"- Solves by status: {', '.join(f'{name} {count}' for name, count in statuses.most_common())}.",
        f"- False proofs: {sum(fault[0] == 'FalseProofError' for fault in faults)}.",
        f"- Solves that ended more than {MAX_LATE_SECONDS:g} s after their time limit: {len(late)}.",
        *(f"- Late by {over:.1f} s: `{where}`" for where, over in late),
        "",
        "| worker | memory at a tenth and at the end (MB) | open descriptors |",
        "|---|---|---|",
    ]
    for number, tally in enumerate(tallies):
        memory = ", ".join(f"{size / 2**20:.0f}" for size in tally.memory)
        lines.append(f"| {number} | {memory} | {', '.join(map(str, tally.descriptors))} |")
    lines += ["", *(f"- Fault: {name} in `{where}`: {text}" for name, where, text in faults)]
    return "\n".join(lines).rstrip() + "\n"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=3600.0)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--workers", type=int, default=os.cpu_count())
    options.add_argument("--page", type=Path, help="where the results are written; standard output if not given")
    options.add_argument("--worker", help=argparse.SUPPRESS)
    options.add_argument("--kind", choices=list(ROUND))
    options.add_argument("--only", type=int)
    asked = options.parse_args()
    if asked.worker is not None:
        Worker(asked.worker).work(asked.seconds, asked.seed)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        if asked.only is not None:
            worker = Worker(folder)
            worker.perform(asked.kind, asked.only)
            print(worker.tally)
            return 1 if worker.tally.faults else 0
        tallies = soak(asked.seconds, asked.seed, asked.workers, folder)
    results = page(tallies, asked.seconds, asked.seed)
    if asked.page is None:
        print(results, end="")
    else:
        asked.page.write_text(results)
    return 1 if all_faults(tallies) else 0


if __name__ == "__main__":
    sys.exit(main())
