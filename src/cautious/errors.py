"""Every error the package raises on purpose, and its warnings."""


class CautiousError(Exception):
    """Base of all errors raised by this package."""


class InputError(CautiousError, ValueError):
    """The data given are wrong; the message names the first bad entry, the value found and the value allowed."""


class IncompatibleError(CautiousError, TypeError):
    """Parts that are fine by themselves do not fit together (a risk and a model, a risk and a solver)."""


class SolveError(CautiousError, RuntimeError):
    """A solution was required, and the solver did not deliver one (raised by ``Solution.require``)."""


class MemoryLimitError(CautiousError, MemoryError):
    """No method fits into the ``memory_limit``; the message says what the leanest one needs."""


class SimulatorError(CautiousError, RuntimeError):
    """A simulator raised, hung, or returned something impossible; the message names the call and its seed."""


class FileError(InputError):
    """A file cannot be read: truncated, of another kind, of a newer version, or too large for what it claims."""


class MissingExtraError(CautiousError, ImportError):
    """An optional dependency is needed; the message names the extra to install."""


class CautiousWarning(UserWarning):
    """Something legal that is probably not what was meant."""
