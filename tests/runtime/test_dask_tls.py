"""Dask with TLS, with the settings that the page on workers shows: the same bytes, and strangers are refused."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_dask_cluster import ENVIRONMENT, learn, same, scheduler_process, worker_process

import cautious as ca
from cautious.runtime.dask_cluster import joined_workers

dask = pytest.importorskip("dask", reason="extra dask")
pytest.importorskip("distributed", reason="extra dask")

OPENSSL = shutil.which("openssl")
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "workers.md"

pytestmark = [
    pytest.mark.skipif(OPENSSL is None, reason="no openssl on this machine"),
    pytest.mark.skipif(not PAGE.exists(), reason="not a source checkout"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning"),
]


def commands_of_the_page():
    """What the page says to type, without the prompt of a shell."""
    (block,) = re.findall(r"```sh\n(openssl .*?)```", PAGE.read_text(), re.DOTALL)
    return [line for line in block.replace("\\\n", " ").splitlines() if line.strip()]


def settings_of_the_page(folder):
    """The environment variables that the page shows, with certificates in ``folder``."""
    shown = dict(line.strip().split("=", 1) for line in PAGE.read_text().splitlines() if "DASK_DISTRIBUTED__" in line)
    assert len(shown) == 8
    return {name: value.replace("/tls", str(folder)) for name, value in shown.items()}


def certificates(folder):
    folder.mkdir()
    for command in commands_of_the_page():
        subprocess.run(command, shell=True, cwd=folder, check=True, capture_output=True)
    return settings_of_the_page(folder)


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    return certificates(tmp_path_factory.mktemp("ours") / "tls")


@pytest.fixture(scope="module")
def cluster(ours):
    environment = ENVIRONMENT | ours
    scheduler, address = scheduler_process("--protocol", "tls", environment=environment)
    worker = worker_process(address, environment)
    yield address
    for process in (worker, scheduler):
        process.kill()
        process.wait()
    scheduler.stderr.close()


def client_settings(variables):
    """As Dask sets them from the variables when it is imported."""
    names = {name: name.removeprefix("DASK_").lower().replace("__", ".") for name in variables}
    return dask.config.set({names[name]: dask.config.interpret_value(value) for name, value in variables.items()})


def test_learning_through_tls_gives_the_same_bytes(cluster, ours):
    assert cluster.startswith("tls://127.0.0.1:")
    with client_settings(ours), joined_workers(cluster) as found:
        same(learn(found.executor), learn())


def test_a_certificate_of_another_authority_is_refused(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr("cautious.runtime.dask_cluster.CONNECT_SECONDS", 3)
    with (
        client_settings(certificates(tmp_path / "tls")),
        pytest.raises(ca.WorkerError, match="no scheduler answers at tls://"),
        joined_workers(cluster),
    ):
        pass


def test_who_has_no_certificate_is_refused(cluster, monkeypatch):
    monkeypatch.setattr("cautious.runtime.dask_cluster.CONNECT_SECONDS", 3)
    for address in (cluster, cluster.replace("tls://", "tcp://")):
        with pytest.raises(ca.WorkerError, match="no scheduler answers at t"), joined_workers(address):
            pass
