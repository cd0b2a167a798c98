"""Compiled code on disk, when several processes write it at the same time."""

import subprocess
import sys

from numba.core import caching

from cautious.kernels.compiled_files import LockedFiles

WRITERS, VERSIONS = 4, 40
WRITE = """
import sys
from cautious.kernels.compiled_files import LockedFiles
files = LockedFiles(sys.argv[1], "loop", "stamp")
print("ready", flush=True)
sys.stdin.readline()
for number in range(int(sys.argv[3])):
    key = f"{sys.argv[2]}, {number}"
    files.save(key, key)
    assert files.load(key) == key
"""


def test_kernels_are_kept_that_way():
    assert caching.IndexDataCacheFile is LockedFiles


def test_writers_do_not_take_each_others_places(tmp_path):
    command = [sys.executable, "-c", WRITE, str(tmp_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    writers = [subprocess.Popen([*command, str(k), str(VERSIONS)], **pipes) for k in range(WRITERS)]
    for writer in writers:
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        writer.stdin.write("\n")
        writer.stdin.flush()
    assert [writer.wait() for writer in writers] == [0] * WRITERS
    for writer in writers:
        writer.stdin.close()
        writer.stdout.close()
    files = LockedFiles(str(tmp_path), "loop", "stamp")
    keys = [f"{k}, {number}" for k in range(WRITERS) for number in range(VERSIONS)]
    assert [files.load(key) for key in keys] == keys


def test_a_folder_that_cannot_be_written_is_read(tmp_path):
    LockedFiles(str(tmp_path), "loop", "stamp").save("key", "data")
    lock = tmp_path / "loop.nbi.lock"
    lock.unlink()
    # nobody can open a folder for writing
    lock.mkdir()
    assert LockedFiles(str(tmp_path), "loop", "stamp").load("key") == "data"
