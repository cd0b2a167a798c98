"""Peak memory of a piece of work in this process, read from /proc; None where there is no /proc."""

import ctypes
import gc
from pathlib import Path

import cautious as ca

STATUS, PEAK_RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")


def _kilobytes(field: str) -> float:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(field))
    return float(line.split()[1])


class Watch:
    """Starts at what is in use now; ``beyond`` is the peak since then on top of it, in MB."""

    def __init__(self) -> None:
        self.base: float | None = None
        gc.collect()
        if PEAK_RESET.exists():
            # freed memory that the allocator kept would hide what the work needs
            ctypes.CDLL(None).malloc_trim(0)
            PEAK_RESET.write_text("5")
            self.base = _kilobytes("VmRSS")

    def beyond(self) -> float | None:
        """Megabytes on top of those in use at the start."""
        return None if self.base is None else (_kilobytes("VmHWM") - self.base) / 1000


def model_megabytes(mdp: ca.MDP) -> float:
    """What the model's own arrays take."""
    rows = mdp.transitions
    arrays = (rows.data, rows.indices, rows.indptr, mdp.rewards, mdp.start, mdp.allowed)
    return float(sum(array.nbytes for array in arrays)) / 1e6
