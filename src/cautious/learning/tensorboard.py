"""``TensorBoard``: a callback that writes the course of a learning run for TensorBoard (extra ``tensorboard``)."""

import math
import os
import time
import uuid
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from cautious.errors import FileError, MissingExtraError
from cautious.learning.loop import LearningProgress
from cautious.regular_files import make_folder

SCALARS = ("objective", "risk", "gap", "violation", "samples_per_second")
FLUSH_SECONDS = 1.0


class TensorBoard:
    """Writes objective, risk, gap, violation and speed against the samples drawn; numbers not known yet are skipped.

    ``tensorboard --logdir folder`` follows a run as it happens, one second behind. Every object writes a file of its
    own: a run that is continued adds one to the folder, and TensorBoard joins them.

    Examples
    --------
    >>> import cautious as ca
    >>> simulator = ca.worlds.river_swim().simulator()
    >>> learned = ca.learn(simulator, samples=5_000, callback=ca.TensorBoard("runs"))
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            # the writer itself: SummaryWriter hands rows to a thread, and its flush does not wait for them
            from tensorboardX.event_file_writer import EventsWriter
        except ImportError:
            raise MissingExtraError(
                'TensorBoard needs tensorboardX; install it with: pip install "cautious[tensorboard]"'
            ) from None
        self.folder = make_folder(folder)
        with self._writing():
            # names have a resolution of one second, and an existing file would be overwritten
            self._writer = EventsWriter(str(self.folder / "events"), f".{uuid.uuid4().hex}")
        self._flushed = -math.inf
        self._close = weakref.finalize(self, self._writer.close)

    def __call__(self, progress: LearningProgress) -> None:
        """Write one row."""
        from tensorboardX.proto.event_pb2 import Event
        from tensorboardX.proto.summary_pb2 import Summary

        numbers = {name: float(getattr(progress, name)) for name in SCALARS}
        values = [Summary.Value(tag=name, simple_value=x) for name, x in numbers.items() if math.isfinite(x)]
        with self._writing():
            self._writer.write_event(Event(wall_time=time.time(), step=progress.samples, summary=Summary(value=values)))
            if time.monotonic() - self._flushed >= FLUSH_SECONDS or progress.samples >= progress.total:
                self._writer.flush()
                self._flushed = time.monotonic()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FileError(f"cannot write to the folder {self.folder}: {error.strerror}") from None

    def close(self) -> None:
        """Write what is left and close the file; happens by itself when the object is gone."""
        self._close()
