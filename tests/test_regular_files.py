"""Paths that are no regular files, for everything that reads or writes: a FileError that names the path, at once.

They are tried in a process of its own, with a limit of time and of memory: a reader that waits for a pipe or reads a
device without end fails the test instead of the machine.
"""

import functools
import io
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious import regular_files, storage
from cautious.errors import FileError

SECONDS = 120
MEMORY = 6 * 2**30
KINDS = (
    "pipe",
    "endless device",
    "link to an endless device",
    "link to a pipe",
    "socket",
    "folder",
    "dangling link",
    "link to itself",
    "null character",
    "long name",
    "long path",
    "lone surrogate",
    "missing",
    "missing folder",
    "inside a file",
    # from here on as another user than root
    "not permitted",
    "inside a locked folder",
)


def bad_path(kind, folder, name):
    """A path of this kind, made where that is needed, whose file is called ``name``."""
    path = folder / name
    if kind in ("pipe", "link to a pipe"):
        os.mkfifo(path)
    elif kind in ("endless device", "link to an endless device", "dangling link", "link to itself"):
        to = {"dangling link": folder / "nowhere", "link to itself": path}.get(kind, Path("/dev/zero"))
        path.symlink_to(to)
    elif kind == "socket":
        # names of sockets are short
        os.chdir(folder)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(name)
    elif kind == "folder":
        path.mkdir()
    elif kind == "null character":
        return f"{folder}/a\0{name}"
    elif kind == "long name":
        return folder / ("a" * 300 + name)
    elif kind == "long path":
        return folder / ("a/" * 3000 + name)
    elif kind == "lone surrogate":
        return folder / f"a\ud800{name}"
    elif kind == "missing folder":
        return folder / "none" / name
    elif kind == "inside a file":
        (folder / "file").touch()
        return folder / "file" / name
    elif kind == "not permitted":
        path.touch(0)
    elif kind == "inside a locked folder":
        (folder / "locked").mkdir(0)
        return folder / "locked" / name
    if kind == "link to a pipe":
        (folder / f"link{path.suffix}").symlink_to(path)
        return folder / f"link{path.suffix}"
    return path


def problem_with(folder, lines):
    """A problem file with these lines."""
    file = folder / "problem.toml"
    file.write_text('[model]\nworld = "river_swim"\n' + lines)
    return file


def in_problem(field, suffix=".npy", member=""):
    """A problem file whose risk has a field in another file."""
    kind = {"prior": "KL", "metric": "Wasserstein", "task_rewards": "WorstTask", "states": "SafeSet"}[field]
    rest = {"Wasserstein": 'prior = "uniform.npy"\n', "SafeSet": "slack = 0.5\n"}.get(kind, "")

    def read(path, folder):
        np.save(folder / "uniform.npy", np.full(6, 1 / 6))
        name = os.path.relpath(path, folder) if isinstance(path, Path) else path
        text = f'[risk]\nkind = "{kind}"\n{rest}{field} = {toml(name + member)}\n'
        ca.read_problem(problem_with(folder, text))

    return read, suffix


def toml(text):
    return '"' + text.replace("\0", "\\u0000").replace("\ud800", "\ufffd") + '"'


def modelled(key, suffix):
    def read(path, folder):
        name = os.path.relpath(path, folder) if isinstance(path, Path) else path
        file = folder / "problem.toml"
        file.write_text(f"[model]\n{key} = {toml(name)}\ndiscount = 0.9\n")
        ca.read_problem(file)

    return read, suffix


def learn(path, folder):
    ca.learn(ca.worlds.river_swim().simulator(), samples=2000, checkpoint=path)


def beside(name, suffix):
    """A good model whose other file is the bad path."""

    def read(path, folder):
        target = Path(path).with_name(name)
        if suffix == ".tra":
            target.write_text("2 2 2\n0 0 1 1.0\n1 0 1 1.0\n")
        else:
            target.write_text("state,action,next_state,probability,reward\n0,0,0,1,1\n")
        ca.read_model(target, discount=0.9, start=0)

    return read


READERS = {
    **{
        f"read_model {suffix}": (lambda path, folder: ca.read_model(path, discount=0.9), suffix)
        for suffix in ("", ".npz", ".umb", ".tra", ".csv", ".parquet", ".pq", ".arrow", ".feather", ".mat")
    },
    **{f"read_labels {suffix}": (lambda path, folder: ca.read_labels(path), suffix) for suffix in (".tra", ".umb")},
    **{
        f"from_transitions {suffix}": (lambda path, folder: ca.from_transitions(path, discount=0.9), suffix)
        for suffix in (".csv", ".parquet", ".arrow")
    },
    **{
        f"demonstrations {suffix}": (
            lambda path, folder: ca.demonstrations(path, ca.worlds.maze(), smoothing=0.1, at_end="absorb"),
            suffix,
        )
        for suffix in (".csv", ".parquet", ".arrow")
    },
    "load": (lambda path, folder: ca.load(path), ".npz"),
    "verify": (lambda path, folder: ca.verify(path), ".npz"),
    "read_problem": (lambda path, folder: ca.read_problem(path), ".toml"),
    "prior .npy": in_problem("prior"),
    "prior .npz": in_problem("prior", ".npz"),
    "prior member": in_problem("prior", ".npz", ":x"),
    "metric": in_problem("metric"),
    "task rewards": in_problem("task_rewards"),
    "states": in_problem("states"),
    "model of a problem": modelled("file", ".npz"),
    "csv of a problem": modelled("file", ".csv"),
    "log of a problem": modelled("transitions", ".csv"),
}
# what makes a folder for its files
FOLDERS = {
    "TensorBoard": lambda path, folder: ca.TensorBoard(path),
    "results of a sweep": lambda path, folder: swept(folder=path),
}
WRITERS = {
    **{
        f"save {suffix}": (lambda path, folder: ca.worlds.river_swim().save(path), suffix)
        for suffix in (".npz", ".umb", ".tra", ".csv", ".parquet", ".arrow", ".mat")
    },
    "save solution": (lambda path, folder: solved().save(path), ".npz"),
    "save with its witness": (lambda path, folder: solved().save(path, witness=True), ".npz"),
    "report": (lambda path, folder: solved().report(path), ".html"),
    "policy as csv": (lambda path, folder: solved().to_csv(path), ".csv"),
    "policy as a workbook": (lambda path, folder: solved().to_excel(path), ".xlsx"),
    "page of a frontier": (lambda path, folder: followed().report(path), ".html"),
    "runs of a sweep": (lambda path, folder: swept().save(path), ".csv"),
    "runs of a sweep as Parquet": (lambda path, folder: swept().save(path), ".parquet"),
    **{name: (make, "") for name, make in FOLDERS.items()},
}
# where nothing is yet, a file or folder may be made
CREATED = ("missing", "dangling link")


@functools.cache
def solved():
    return ca.solve(ca.Problem(ca.worlds.river_swim()))


@functools.cache
def followed():
    return ca.frontier(ca.worlds.river_swim(), ca.Entropy(), [0.1, 0.2])


def swept(**given):
    problem = ca.Problem(ca.worlds.river_swim())
    return ca.sweep(problem, methods=["exact"], cautions=[0.0], samples=100, seeds=1, **given)


def attempt(label, call, path, folder):
    """Prints what happened, unless it was a FileError."""
    label = f"{folder.parent.name}, {label}"
    print(f"{label} {str(path)[:80]!r}", file=sys.stderr, flush=True)
    try:
        call(path, folder)
    except FileError as error:
        if len(str(error)) > 2000:
            print(f"{label}: a message of {len(str(error))} characters")
    except ca.MissingExtraError:
        pass
    except BaseException as error:
        print(f"{label}: {error!r:.300}")
    else:
        print(f"{label}: accepted")


def attack(kind, folder):
    """Every reader and writer with paths of one kind. Permissions mean something to other users than root only."""
    if os.getuid() == 0 and kind == "not permitted":
        # another user may not be able to import what is needed only now
        for call, suffix in (READERS | WRITERS).values():
            with suppress(ca.CautiousError):
                call(folder / f"missing{suffix}", folder)
        learn(folder / "checkpoint.npz", folder)
        for path in folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        os.setuid(65534)
    for number, (label, (call, suffix)) in enumerate(READERS.items()):
        place = folder / f"r{number}"
        place.mkdir()
        attempt(label, call, bad_path(kind, place, f"x{suffix}"), place)
    if kind not in CREATED:
        for number, name in enumerate(("model.tra", "model.csv")):
            for suffix in (".lab", ".srew", ".trew", ".sta") if name == "model.tra" else (".csv.json",):
                if kind in ("null character", "long name", "long path", "lone surrogate", "missing folder"):
                    continue
                if kind in ("inside a file", "link to a pipe", "inside a locked folder"):
                    continue
                place = folder / f"b{number}{suffix}"
                place.mkdir()
                path = bad_path(kind, place, f"model{suffix}")
                attempt(f"{suffix} beside {name}", beside(name, Path(name).suffix), path, place)
        place = folder / "checkpoint"
        place.mkdir()
        attempt("checkpoint", learn, bad_path(kind, place, "x.npz"), place)
        for number, (label, (call, suffix)) in enumerate(WRITERS.items()):
            if label in FOLDERS and kind in ("folder", "missing folder", "lone surrogate"):
                continue
            # the permissions of a file do not matter where it is replaced
            if kind != "not permitted":
                place = folder / f"w{number}"
                place.mkdir()
                attempt(label, call, bad_path(kind, place, f"x{suffix}"), place)
                if list(place.rglob("*.part")):
                    print(f"{label}: left {list(place.rglob('*.part'))}")


def test_what_is_no_regular_file_is_refused_at_once():
    # not in tmp_path, which other users may not enter
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        done = subprocess.run([sys.executable, __file__, folder], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout == ""


@pytest.mark.parametrize("path", [None, 3, 0.5, b"x.npz", ["x.npz"], np.array(["x"]), object(), True, io.BytesIO()])
def test_what_is_no_path_is_refused(path):
    calls = (
        ca.read_model,
        ca.read_labels,
        ca.load,
        ca.read_problem,
        ca.TensorBoard,
        ca.worlds.maze().save,
        solved().save,
        solved().report,
    )
    for call in calls:
        with pytest.raises(ca.CautiousError):
            call(path)
    if path is not None:
        with pytest.raises(ca.CautiousError):
            ca.learn(ca.worlds.river_swim().simulator(), samples=2000, checkpoint=path)


def test_a_device_is_never_replaced(tmp_path):
    link = tmp_path / "null.npz"
    link.symlink_to("/dev/null")
    with pytest.raises(ca.FileError, match="it is a device"):
        ca.worlds.maze().save(link)
    assert link.is_symlink()


def test_a_line_without_end_is_refused(tmp_path):
    log = tmp_path / "log.csv"
    with log.open("wb") as stream:
        stream.write(b"state,action,reward,next_state\n")
        # a hole, which takes no room on the disk
        stream.truncate(2**26)
    with pytest.raises(ca.FileError, match="longer than"):
        ca.from_transitions(log, discount=0.9)


def test_an_array_larger_than_the_memory_is_refused(tmp_path):
    file = tmp_path / "prior.npy"
    with file.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
        stream.truncate(stream.tell() + 2**43)
    with pytest.raises(ca.FileError, match="memory of this machine"):
        storage.read_npy(file)


HEADERS = [
    b"",
    b"\x93NUMPY",
    b"\x93NUMPY\x03\x00\x02\x00{}",
    *(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text
        for text in (
            b"",
            b"{",
            b"(" * 5000,
            b"[" * 9000,
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}\n",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (0, 1208925819614629174706176)}\n",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (9223372036854775807, 9223372036854775807)}\n",
            b"{'descr': '<f8', 'fortran_order': 1, 'shape': (1,)}\n",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': 'x'}\n",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (True,)}\n",
            b"{'descr': 'V0', 'fortran_order': False, 'shape': (1,)}\n",
            b"{'descr': '<U0', 'fortran_order': False, 'shape': (3,)}\n",
            b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}\n",
            b"{'descr': 'no such', 'fortran_order': False, 'shape': (1,)}\n",
            b"{'descr': '<M8[s]', 'fortran_order': False, 'shape': (0,)}\n",
            b"{'descr': '|O', 'fortran_order': False, 'shape': (1,)}\n",
            b"__import__('os').system('true')",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (" + b"1," * 3000 + b")}\n",
            b"\xff\xfe\x00",
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (2,), 'more': 1}\n",
            b"1L",
        )
    ),
]


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_damaged_headers_of_arrays_are_refused(tmp_path, header):
    (tmp_path / "prior.npy").write_bytes(header)
    for name in ("data.npz", "model.npz"):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("prior.npy" if name == "data.npz" else "P.npy", header)
    file = tmp_path / "problem.toml"
    for source in ("prior.npy", "data.npz:prior"):
        file.write_text(f'[model]\nworld = "river_swim"\n[risk]\nkind = "KL"\nprior = "{source}"\n')
        with pytest.raises(ca.FileError):
            ca.read_problem(file)
    with pytest.raises(ca.FileError):
        ca.read_model(tmp_path / "model.npz", discount=0.9)


DTYPES = ["O", "V8", "M8[s]", "m8[s]", "c16", "U3", "S3", "f2", ">f8", ">i4", "u8", "g", "f8,i4", "?"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_dtypes_are_refused_or_read(tmp_path, dtype):
    """In files of others and in our own: whatever kind of numbers an array claims to hold."""
    mdp = ca.worlds.river_swim()
    solution = ca.solve(ca.Problem(mdp))
    eye = np.stack([np.eye(3)] * 2)
    with np.errstate(all="ignore"):
        other = np.zeros((3, 2), dtype) if "," in dtype or dtype[0] in "OV" else np.zeros((3, 2)).astype(dtype)
    np.savez(tmp_path / "given.npz", P=eye, R=other, discount=0.9)
    taken(lambda: ca.read_model(tmp_path / "given.npz"))
    np.savez(tmp_path / "given.npz", P=other, R=other, discount=other)
    taken(lambda: ca.read_model(tmp_path / "given.npz"))
    np.savez(tmp_path / "given.npz", P=eye, R=np.zeros((3, 2)), discount=other[:1, 0])
    taken(lambda: ca.read_model(tmp_path / "given.npz"))
    mdp.save(tmp_path / "model.npz")
    solution.save(tmp_path / "solution.npz")
    for file, read in (("model.npz", ca.read_model), ("solution.npz", ca.load)):
        with zipfile.ZipFile(tmp_path / file) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        for name in members:
            if not name.endswith(".npy"):
                continue
            array = np.load(io.BytesIO(members[name]))
            changed = io.BytesIO()
            with np.errstate(all="ignore"):
                odd = np.zeros(array.shape, dtype) if "," in dtype or dtype[0] in "OVMm" else array.astype(dtype)
            np.save(changed, odd, allow_pickle=True)
            with zipfile.ZipFile(tmp_path / f"odd-{file}", "w") as archive:
                for member, raw in members.items():
                    archive.writestr(member, changed.getvalue() if member == name else raw)
            taken(lambda read=read, file=file: read(tmp_path / f"odd-{file}"))


def taken(call):
    """A call that answers, or raises an error of ours."""
    try:
        return call()
    except ca.CautiousError:
        return None


KILLED = """
import sys, time
from cautious.regular_files import replacing
with replacing(sys.argv[1]) as stream:
    stream.write(b"half")
    stream.flush()
    print("writing", flush=True)
    time.sleep(60)
"""


def test_files_of_killed_processes_are_removed_by_the_next_write_and_others_are_not(tmp_path):
    target = tmp_path / "model.npz"
    writers = [
        subprocess.Popen([sys.executable, "-c", KILLED, str(target)], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        for writer in writers:
            assert writer.stdout.readline() == "writing\n"
        assert len(list(tmp_path.glob(".*.part"))) == 2
        writers[0].send_signal(signal.SIGKILL)
        writers[0].wait()
        # the temporary files of other targets, and what only looks like one, are left alone
        unlike = [tmp_path / name for name in (".model.npz.x.part", ".other.npz.0123456789abcdef.part")]
        for path in unlike:
            path.touch()
        ca.worlds.maze().save(target)
        left = sorted(tmp_path.glob(".*.part"))
        assert len(left) == 3
        assert set(unlike) < set(left)
        assert ca.read_model(target).n_states
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
            writer.stdout.close()


AT_ONCE = """
import sys
import cautious as ca
mdp = ca.worlds.river_swim()
for _ in range(60):
    mdp.save(sys.argv[1])
"""


def test_processes_that_write_the_same_file_at_once_do_not_disturb_each_other(tmp_path):
    target = tmp_path / "model.npz"
    writers = [
        subprocess.Popen([sys.executable, "-c", AT_ONCE, str(target)], stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for writer in writers:
        _, err = writer.communicate(timeout=SECONDS)
        assert writer.returncode == 0, err
    assert ca.read_model(target).n_states == 6
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_a_full_disk_keeps_the_old_file_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands for a full disk: writing fails in the middle."""
    target = tmp_path / "model.npz"
    ca.worlds.river_swim().save(target)
    before = target.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
        for suffix in (".npz", ".csv", ".umb", ".mat", ".parquet", ".arrow", ".tra"):
            with pytest.raises(ca.FileError, match="cannot write"):
                ca.worlds.river_swim().save(target.with_suffix(suffix))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["model.npz"]


def test_a_pipe_put_in_the_place_of_a_file_is_not_waited_for(tmp_path, monkeypatch):
    """Between looking at a path and opening it, the file is exchanged for a pipe."""
    file = tmp_path / "model.npz"
    ca.worlds.river_swim().save(file)
    look = os.stat

    def exchange(path, *arguments, **keywords):
        found = look(path, *arguments, **keywords)
        if str(path) == str(file):
            monkeypatch.setattr(os, "stat", look)
            file.unlink()
            os.mkfifo(file)
        return found

    monkeypatch.setattr(os, "stat", exchange)
    began = time.monotonic()
    with pytest.raises(ca.FileError, match="a pipe"):
        regular_files.opened(file)
    assert time.monotonic() - began < 5


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    warnings.simplefilter("ignore")
    for one in KINDS:
        (Path(sys.argv[1]) / one).mkdir()
        (Path(sys.argv[1]) / one).chmod(0o777)
    for one in KINDS:
        attack(one, Path(sys.argv[1]) / one)
