"""Compiled loops on arrays: one module per header beside this file, for the level of this processor.

``CAUTIOUS_CPU_LEVEL`` (2, 3 or 4) asks for a lower level than the processor's own, and ``CAUTIOUS_CORE`` for the
extensions in another folder: both for tests.
"""

import os
import sys
from importlib import import_module

if "CAUTIOUS_CORE" in os.environ:
    __path__.insert(0, os.environ["CAUTIOUS_CORE"])

from cautious._core import _cpu


def _level() -> int:
    """The x86-64 level to load, 0 elsewhere."""
    own = _cpu.LEVEL
    if own == 1:
        raise ImportError("cautious needs a processor of level x86-64-v2 (2009) or later")
    wanted = os.environ.get("CAUTIOUS_CPU_LEVEL", "")
    return min(own, int(wanted)) if wanted in {"2", "3", "4"} else own


LEVEL = _level()
_kernels = import_module(f"cautious._core._v{LEVEL}" if LEVEL else "cautious._core._baseline")
# name of the module, of the kernel, its docstring, its arguments' names and all types: what the stubs are written from
DESCRIPTIONS: list[tuple[str, str, str, str, str]] = _kernels.DESCRIPTIONS

for _subject in sorted({description[0] for description in DESCRIPTIONS}):
    globals()[_subject] = sys.modules[f"{__name__}.{_subject}"] = getattr(_kernels, _subject)
