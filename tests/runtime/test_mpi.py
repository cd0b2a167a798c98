"""``mpi4py.futures.MPIPoolExecutor`` as the executor: two ranks draw for a third one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mpi4py", reason="group dev")
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")


@pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")
def test_learning_on_ranks_gives_the_same_bytes():
    loading = "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI"
    if subprocess.run([sys.executable, "-c", loading], capture_output=True).returncode != 0:
        pytest.skip("mpi4py finds no MPI library in this environment")
    here = Path(__file__).parent
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(here / "mpi_program.py")]
    found = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": str(here)}, capture_output=True, text=True, timeout=200
    )
    assert found.stdout.split() == ["2", "True", "True"], found.stderr
