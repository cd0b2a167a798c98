"""``--workers`` and ``--cluster``: where the tasks of a command run."""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from typing import Annotated

import typer

Workers = Annotated[int, typer.Option(help="Processes of this machine that share the work; needs the extra dask.")]
Cluster = Annotated[
    str | None, typer.Option(metavar="ADDRESS", help="Share the work with a Dask cluster, such as tls://10.0.0.7:8786.")
]


@contextmanager
def chosen_executor(workers: int, cluster: str | None, quiet: bool) -> Iterator[Executor | None]:
    """The executor that is asked for, or None; says where to watch it, on standard error."""
    from cautious import InputError
    from cautious.runtime.dask_cluster import joined_workers, local_workers

    if workers < 1:
        raise InputError(f"--workers is {workers}; expected at least 1")
    if cluster is not None and workers > 1:
        raise InputError("--workers are processes of this machine and --cluster is a running one; give one of them")
    if cluster is None and workers == 1:
        yield None
        return
    with local_workers(workers) if cluster is None else joined_workers(cluster) as found:
        if not quiet:
            typer.echo(f"{found.count} workers; dashboard: {found.dashboard}", err=True)
        yield found.executor
