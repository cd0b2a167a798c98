"""Runs whose time is that of computing: the first call of a kernel on a machine waits until it is compiled."""

from collections.abc import Callable
from typing import TypeVar

from numba.core import event

Found = TypeVar("Found")


def once_compiled(run: Callable[[], Found], stopped: Callable[[Found], bool]) -> Found:
    """What the first run gives in which nothing is compiled, or the first one that the user ``stopped``.

    A run that its time limit ended may have left kernels that a later one comes to.
    """
    while True:
        with event.install_recorder("numba:compile") as compiled:
            found = run()
        if not compiled.buffer or stopped(found):
            return found
