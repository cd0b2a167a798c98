"""Damaged files, problem files, command lines and messages of the studio.

``python tests/input_fuzzer.py --calls 100000``, or ``make fuzz``, tries so many.
Good inputs of every kind are changed at random: bytes flipped, cut, repeated, and tokens replaced by odd ones. Archives
are also changed inside, so that their checksums are right. An answer or an error of ours is right; a crash, another
exception or a call that takes longer than ``SECONDS_PER_CALL`` is a failure, printed with its kind and seed.
``--kind KIND --only SEED`` repeats one.
"""

import argparse
import contextlib
import functools
import io
import json
import os
import random
import resource
import signal
import sys
import tarfile
import tempfile
import warnings
import zipfile
from pathlib import Path

import numpy as np
import typer.main

import cautious as ca
from cautious.cli import main as command_line
from cautious.studio.messages import parse
from cautious.studio.scenario import EXAMPLES

# of processor time
SECONDS_PER_CALL = 20
MEMORY = 8 * 2**30
# files are written there, if there is such a folder: it is memory
MEMORY_FOLDER = Path("/dev/shm")
TEXTS = "0|-1|1|2|0.5|nan|inf|-inf|1e400|1e-400|99999999999|2147483648|18446744073709551616|true|null|None|[]|{}|[[|{{"
MARKS = ",;:='#\"\n\0"
TOKENS = [
    b"",
    *(text.encode() for text in [*TEXTS.split("|"), *MARKS, "1/0", "../x.npy", "/dev/zero", "state", "prior"]),
    b"9" * 5001,
    b"-" + b"9" * 5001,
    b"[" * 3000,
    b"x" * 70_000,
    # not UTF-8: half a character, and a mark of UTF-16
    b"\xed\xa0\x80",
    b"\xff\xfe",
]


def mutated(content, rng):
    """The bytes, changed in one to four places."""
    changed = bytearray(content)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        way = rng.randrange(6)
        if way == 0 and changed:
            changed[at % len(changed)] = rng.randrange(256)
        elif way == 1:
            del changed[at : at + rng.choice((1, 2, 8, 100, 10**6))]
        elif way == 2:
            changed[at:at] = changed[at : at + rng.randint(1, 200)]
        elif way == 3:
            changed[at:at] = rng.choice(TOKENS)
        elif way == 4:
            end = at
            while end < len(changed) and chr(changed[end]).isalnum():
                end += 1
            changed[at : end or 1] = rng.choice(TOKENS)
        elif changed:
            changed[at % len(changed)] ^= 1 << rng.randrange(8)
    return bytes(changed)


def repacked_zip(content, rng):
    """A zip whose members were changed, or dropped, with right checksums."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(made, "w") as out:
        names = archive.namelist()
        chosen = rng.choice(names)
        for name in names:
            member = archive.read(name)
            if name == chosen:
                if rng.random() < 0.05:
                    continue
                member = mutated(member, rng)
            out.writestr(name, member)
    return made.getvalue()


def repacked_tar(content, rng):
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(content), mode="r:*") as archive,
        tarfile.open(fileobj=made, mode="w:gz") as out,
    ):
        members = archive.getmembers()
        chosen = rng.choice(members).name
        for member in members:
            raw = archive.extractfile(member).read()
            raw = mutated(raw, rng) if member.name == chosen else raw
            info = tarfile.TarInfo(member.name)
            info.size = len(raw)
            out.addfile(info, io.BytesIO(raw))
    return made.getvalue()


class Inputs:
    """Good inputs, made once in a folder of their own."""

    def __init__(self, folder):
        self.folder = folder
        mdp = ca.worlds.river_swim()
        for suffix in (".npz", ".umb", ".tra", ".csv", ".mat", ".parquet", ".arrow"):
            mdp.save(folder / f"model{suffix}")
        ca.solve(ca.Problem(mdp, ca.Entropy(), 0.1)).save(folder / "solution.npz")
        np.save(folder / "prior.npy", np.full(6, 1 / 6))
        np.savez(folder / "arrays.npz", P=np.stack([np.eye(3)] * 2), R=np.zeros((3, 2)), discount=0.9)
        (folder / "log.csv").write_text("state,action,reward,next_state\n" + "a,x,1.0,b\nb,y,0.5,a\n" * 4)
        (folder / "episodes.csv").write_text("episode,state,action\n" + "0,0,1\n0,1,1\n1,2,0\n")
        (folder / "problem.toml").write_text(
            'caution = 0.5\n[model]\nfile = "model.npz"\ntitle = "x"\n[[risk]]\nkind = "KL"\nprior = "prior.npy"\n'
            'weight = 2.0\n[[risk]]\nkind = "SafeSet"\nstates = [0, 1, 2, 3, 4]\nslack = 0.9\n'
        )
        (folder / "limits.toml").write_text(
            'horizon = 12\n[model]\nfile = "model.npz"\n[[risk]]\nkind = "Variance"\n[[constraints]]\n'
            'kind = "Exposure"\nstates = [0, 1]\nat_most = 0.9\n[[constraints]]\nkind = "KL"\nprior = "prior.npy"\n'
            "at_most = 3.0\n"
        )
        proved = ca.Problem(mdp, ca.Variance(), 0.1, constraints=[ca.Exposure([0, 1]) <= 0.9])
        ca.solve(proved).save(folder / "proof.npz", witness=True)
        self.learn(folder / "checkpoint.npz")
        self.good = {path.name: path.read_bytes() for path in folder.iterdir()}
        self.message = json.dumps({"type": "solve", "number": 1, "statement": EXAMPLES["maze"].plain()}).encode()
        self.arguments = b"solve\x1fmodel.npz\x1f--risk\x1fvariance\x1f--caution\x1f0.5\x1f--json\x1f--quiet"

    @staticmethod
    def learn(path):
        ca.learn(ca.worlds.river_swim().simulator(), samples=500, checkpoint=path)

    def readers(self):
        """What reads each of the files."""
        models = {name: ca.read_model for name in self.good if name.startswith("model.") and name.count(".") == 1}
        for name in ("model.lab", "model.srew", "model.trew", "model.tra.json", "model.csv.json", "model.mat.json"):
            if name in self.good:
                base = name.removesuffix(".json") if name.endswith(".json") else "model.tra"
                models[name] = lambda path, base=base: ca.read_model(path.with_name(base))
        return {
            **models,
            "arrays.npz": ca.read_model,
            "solution.npz": ca.load,
            "proof.npz": ca.verify,
            "problem.toml": ca.read_problem,
            "limits.toml": ca.read_problem,
            "prior.npy": lambda path: ca.read_problem(path.with_name("problem.toml")),
            "log.csv": lambda path: ca.from_transitions(path, discount=0.9, untried="forbid"),
            "episodes.csv": lambda path: ca.demonstrations(path, ca.worlds.river_swim(), smoothing=0.1, at_end="cut"),
            "checkpoint.npz": self.learn,
        }

    def kinds(self):
        return [*self.readers(), "message", "command line"]

    def call(self, kind, seed):
        """One changed input of a kind."""
        rng = random.Random(f"{kind} {seed}")
        if kind == "message":
            parse(mutated(self.message, rng).decode("utf-8", "replace"))
            return
        if kind == "command line":
            words = mutated(self.arguments, rng).decode("utf-8", "surrogateescape").split("\x1f")
            run_command([word.replace("\0", "") for word in words])
            return
        content = self.good[kind]
        pack = repacked_zip if kind.endswith(".npz") else repacked_tar if kind.endswith(".umb") else mutated
        changed = (mutated if rng.random() < 0.3 else pack)(content, rng)
        file = self.folder / kind
        file.write_bytes(changed)
        try:
            self.readers()[kind](file)
        finally:
            file.write_bytes(content)


def run_command(words):
    """The command line must end with one of its codes."""
    before = sys.argv
    sys.argv = ["cautious", *words]
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command_line()
    except SystemExit as end:
        if end.code not in (None, 0, 2, 3, 4, 130):
            raise RuntimeError(f"exit code {end.code!r}") from None
    finally:
        sys.argv = before


class TooLongError(Exception):
    """A call that did not end in time."""


def too_long(number, frame):
    raise TooLongError


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--calls", type=int, default=20_000)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--kind")
    options.add_argument("--only", type=int)
    asked = options.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, too_long)
    # the same for every command line, and most of its time
    typer.main.get_command = functools.cache(typer.main.get_command)
    failures = 0
    with tempfile.TemporaryDirectory(dir=MEMORY_FOLDER if MEMORY_FOLDER.is_dir() else None) as folder:
        os.chdir(folder)
        inputs = Inputs(Path(folder))
        kinds = inputs.kinds() if asked.kind is None else [asked.kind]
        seeds = range(asked.seed, asked.seed + asked.calls // len(kinds) + 1) if asked.only is None else [asked.only]
        for seed in seeds:
            for kind in kinds:
                print(f"\r{kind} {seed}\033[K", end="", file=sys.stderr, flush=True)
                signal.setitimer(signal.ITIMER_PROF, SECONDS_PER_CALL)
                try:
                    inputs.call(kind, seed)
                except ca.CautiousError:
                    pass
                except BaseException as error:
                    failures += 1
                    print(f"--kind {kind!r} --only {seed}: {type(error).__name__}: {error!s:.200}", flush=True)
                    if asked.only is not None:
                        raise
                finally:
                    signal.setitimer(signal.ITIMER_PROF, 0)
        os.chdir("/")
    print(f"\n{len(seeds) * len(kinds)} inputs, {failures} failures", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
