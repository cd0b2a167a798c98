"""Workers by Dask (extra ``dask``): a cluster of this machine, or one that runs already."""

import gc
import ipaddress
import signal
import warnings
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from cautious.errors import CautiousWarning, InputError, MissingExtraError, WorkerError

CONNECT_SECONDS = 10


@dataclass(frozen=True)
class DaskWorkers:
    """An executor on ``count`` workers, and the address of the page that shows them at work."""

    executor: Executor
    count: int
    dashboard: str


@contextmanager
def local_workers(count: int) -> Iterator[DaskWorkers]:
    """So many processes with one thread each, which listen on the loopback interface only and end with the context."""
    distributed = _distributed()
    with (
        # why a worker ended is reported by the errors of its tasks
        distributed.LocalCluster(
            n_workers=count,
            threads_per_worker=1,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            silence_logs="CRITICAL",
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(_deaf_to_interrupts(distributed))
        yield DaskWorkers(client.get_executor(), count, client.dashboard_link)


@contextmanager
def joined_workers(address: str) -> Iterator[DaskWorkers]:
    """The workers of a scheduler that runs already, such as ``tls://10.0.0.7:8786``.

    The certificates of ``tls://`` are those of Dask's own settings.
    """
    distributed = _distributed()
    protocol, _, place = address.partition("://")
    if protocol not in ("tcp", "tls") or ":" not in place:
        raise InputError(f"a cluster is given as tcp://HOST:PORT or tls://HOST:PORT, found {address!r}")
    if protocol == "tcp" and not _loopback(place.rpartition(":")[0]):
        warnings.warn(
            f"{address} is not encrypted, and whoever reaches it can run code on its workers: use tls:// outside of a "
            "network that you trust",
            CautiousWarning,
            stacklevel=3,
        )
    client, problem = None, ""
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:
        problem = str(error)
    if client is None:
        # the one that failed is closed when it is collected, and that waits for ever while another one begins
        gc.collect()
        raise WorkerError(f"no scheduler answers at {address}: {problem}")
    with client:
        yield DaskWorkers(client.get_executor(), len(client.nthreads()), client.dashboard_link)


def _deaf_to_interrupts(distributed: Any) -> Any:
    """Ctrl-C on a terminal reaches all of its processes; only the calling one may act on it."""

    class Deaf(distributed.WorkerPlugin):  # type: ignore[misc]
        name = "deaf to interrupts"

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise MissingExtraError('a cluster needs Dask; install it with: pip install "cautious[dask]"') from None
    return distributed
