"""Many users of one studio: ``python tests/studio/users.py --users 50 --seconds 300``.

Each user is a connection of its own that does what a page does: it drags the caution, paints, changes limits, horizons
and risks, watches walkers, compares the returns of two policies, opens worlds and files, exports, and sometimes loads
the page again. A fault is a connection that ends, a message about a fault of the program, or an answer that does not
come. The memory of the server is read every second.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import psutil

sys.path.append(str(Path(__file__).parents[1]))

import cautious as ca
from cautious.studio.messages import HABITS, RISKS
from cautious.studio.scenario import EXAMPLES, WORLDS
from cautious.studio.websocket import FAULT
from studio.conftest import Site, unpack

# the machine may be busy with other work
LONGEST_WAIT = 600.0
MARKS = ".#DGRS"
MEGABYTE = 2**20


def changed(statement, rng):
    """The statement after somebody has touched one of the controls."""
    kind = rng.choice(("caution", "caution", "caution", "cell", "limit", "horizon", "risk", "slip"))
    if kind == "caution":
        return statement | {"caution": round(10 ** rng.uniform(-2, 3), 3)}
    if kind == "limit":
        return statement | {"limits": statement["limits"] | {"time": rng.choice((None, 0.05, 0.2))}}
    if kind == "horizon":
        return statement | {"horizon": rng.choice((None, None, 12)), "step": 0}
    if kind == "risk":
        risks = [one for one in RISKS if one != "own"]
        return statement | {"risk": {"kind": rng.choice(risks), "level": 0.9, "habit": rng.choice(HABITS)}}
    grid = statement["grid"]
    if grid is None:
        return statement
    if kind == "slip":
        return statement | {"grid": grid | {"slip": rng.choice((0.0, 0.1, 0.3))}}
    rows = list(grid["rows"])
    i = rng.randrange(len(rows))
    j = rng.randrange(len(rows[i]))
    rows[i] = rows[i][:j] + rng.choice(MARKS) + rows[i][j + 1 :]
    return statement | {"grid": grid | {"rows": rows}}


class User:
    """One user; ``faults`` and ``counts`` say what happened."""

    def __init__(self, site, number, end, file):
        self.site, self.end, self.file = site, end, file
        self.rng = random.Random(number)
        self.counts, self.faults, self.number = Counter(), [], 0

    def run(self):
        """Use the studio until the end."""
        try:
            while time.monotonic() < self.end:
                self.visit()
        except Exception as error:
            self.faults.append(f"{type(error).__name__}: {error}")

    def visit(self):
        """Load the page, do some dozens of things, close it."""
        rng = self.rng
        with self.site.connect() as line:
            greeting = json.loads(line.recv(LONGEST_WAIT))
            statement = greeting["examples"][rng.choice(list(EXAMPLES))]
            self.counts["visits"] += 1
            for _ in range(rng.randrange(20, 60)):
                if time.monotonic() > self.end:
                    return
                action = rng.choice(("solve",) * 12 + ("walk", "returns", "report", "policy", "world", "file"))
                if action == "world":
                    statement = self.ask(line, {"type": "world", "name": rng.choice(list(WORLDS))}, "model", statement)
                elif action == "file":
                    statement = self.upload(line, statement)
                elif action == "solve":
                    statement = changed(statement, rng)
                    self.ask(line, {"type": "solve", "statement": statement}, "solution", statement)
                elif action in ("walk", "returns"):
                    side = rng.choice(("left", "right"))
                    self.ask(line, {"type": action, "statement": statement, "side": side}, action, statement)
                else:
                    self.ask(line, {"type": "export", "statement": statement, "what": action}, "file", statement)
                time.sleep(rng.expovariate(2.0))

    def ask(self, line, message, wanted, statement):
        """Send, and wait for the answer or a refusal; the statement of a model that was opened."""
        self.number += 1
        line.send(json.dumps({"number": self.number, **message}))
        return self.wait(line, wanted, statement)

    def upload(self, line, statement):
        """Open a file; what was asked before is then about another model."""
        self.number += 1
        head = {"number": self.number, "files": [["desk.npz", len(self.file)]], "options": {}}
        text = json.dumps(head).encode()
        line.send(len(text).to_bytes(4, "little") + text + self.file)
        return self.wait(line, "model", statement)

    def wait(self, line, wanted, statement):
        """The statement to go on with; curves that come in between are counted."""
        while True:
            data = line.recv(LONGEST_WAIT)
            head = json.loads(data) if isinstance(data, str) else unpack(data)[0]
            self.counts[head["type"]] += 1
            if head["type"] == "error" and FAULT in head["message"]:
                self.faults.append(head["message"])
            if head["type"] == "model" and head["number"] == self.number:
                return head["opened"]["statement"]
            if head["type"] in (wanted, "error") and head["number"] == self.number:
                return statement


def main():
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=300.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ca.worlds.machine_replacement().save(Path(folder) / "desk.npz")
        file = (Path(folder) / "desk.npz").read_bytes()
    code = "from cautious.cli import main; main()"
    command = [sys.executable, "-c", code, "studio", "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    complaints = []
    listening = threading.Thread(target=lambda: complaints.extend(server.stderr), daemon=True)
    try:
        told = json.loads(read_object(server.stdout))
        listening.start()
        token = parse_qs(urlsplit(told["address"]).query)["token"][0]
        site, process = Site(told["port"], token), psutil.Process(server.pid)
        begun = time.monotonic()
        users = [User(site, number, begun + asked.seconds, file) for number in range(asked.users)]
        threads = [threading.Thread(target=user.run) for user in users]
        for thread in threads:
            thread.start()
        memory = []
        while any(thread.is_alive() for thread in threads):
            memory.append((time.monotonic() - begun, process.memory_info().rss / MEGABYTE))
            time.sleep(1)
        used, faults = process.cpu_times(), [fault for user in users for fault in user.faults]
    finally:
        server.terminate()
        server.wait(30)
    counts = sum((user.counts for user in users), Counter())
    print(f"{asked.users} users, {asked.seconds:g} s: {dict(counts)}")
    for tenth in range(1, 11):
        part = [size for at, size in memory if (tenth - 1) / 10 <= at / asked.seconds < tenth / 10]
        print(f"memory in tenth {tenth}: {min(part):.0f} to {max(part):.0f} MB" if part else f"tenth {tenth}: not read")
    print(f"processor seconds of the server: {used.user + used.system:.0f}")
    print(f"faults: {len(faults)}; lines on the terminal: {len(complaints)}")
    print("".join(f"  {one}\n" for one in [*faults[:5], *complaints[-20:]]))
    sys.exit(1 if faults or complaints else 0)


def read_object(stream):
    """The first JSON object of a stream, which may have several lines."""
    text = ""
    for line in stream:
        text += line
        try:
            json.loads(text)
        except ValueError:
            continue
        return text
    raise RuntimeError("the studio did not start")


if __name__ == "__main__":
    main()
