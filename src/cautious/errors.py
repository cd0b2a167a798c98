"""Every error the package raises on purpose, and its warnings."""

from typing import Any

LONGEST_NUMBER_BITS = 10_000


class CautiousError(Exception):
    """Base of all errors raised by this package.

    Examples
    --------
    >>> import cautious as ca
    >>> try:
    ...     ca.CVaR(1.0).bind(ca.worlds.maze())
    ... except ca.CautiousError as error:
    ...     print(type(error).__name__)
    InputError
    """


class InputError(CautiousError, ValueError):
    """The data given are wrong; the message names the first bad entry, the value found and the value allowed.

    Examples
    --------
    >>> import cautious as ca
    >>> try:
    ...     ca.MDP([[[0.5, 0.6]], [[0.0, 1.0]]], rewards=[[1.0], [0.0]])
    ... except ca.InputError as error:
    ...     print(str(error).split(" (normalise")[0])
    transition row (state 0, action 0) sums to 1.1; it must sum to 1 within 1e-09
    """


class IncompatibleError(CautiousError, TypeError):
    """Parts that are fine by themselves do not fit together (a risk and a model, a risk and a solver).

    Examples
    --------
    >>> import cautious as ca
    >>> ca.solve(ca.worlds.maze())
    Traceback (most recent call last):
    cautious.errors.IncompatibleError: ca.solve needs a ca.Problem, found MDP
    """


class SolveError(CautiousError, RuntimeError):
    """A solution was required, and the solver did not deliver one (raised by ``Solution.require``).

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.Problem(ca.worlds.maze(), ca.SafeSet(["r0c0"], slack=0.01)))
    >>> try:
    ...     solution.require()
    ... except ca.SolveError as error:
    ...     print(str(error).split(";")[0])
    infeasible: no policy meets all requirements
    """


class MemoryLimitError(CautiousError, MemoryError):
    """No method fits into the ``memory_limit``; the message says what the leanest one needs.

    Examples
    --------
    >>> import cautious as ca
    >>> try:
    ...     ca.solve(ca.worlds.problem("drift"), memory_limit=1000.0)
    ... except ca.MemoryLimitError as error:
    ...     print(str(error).split(", and ")[1])
    memory_limit is 0.001 MB
    """


class SimulatorError(CautiousError, RuntimeError):
    """A simulator raised, hung, or returned something impossible; the message names the call and its seed.

    Examples
    --------
    >>> import cautious as ca
    >>> liar = ca.FunctionSimulator(lambda state, action, rng: (0, 2.0), 1, 1, 0.9, reward_range=(0.0, 1.0))
    >>> try:
    ...     ca.learn(liar, samples=100)
    ... except ca.SimulatorError as error:
    ...     print("reward_range" in str(error))
    True
    """


class WorkerError(CautiousError, RuntimeError):
    """An executor failed: it lost its workers or does not answer, or a task could not be sent; the message names it.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import cautious as ca
    >>> from cautious.runtime.executors import Workers
    >>> pool = ThreadPoolExecutor(2)
    >>> pool.shutdown()
    >>> try:
    ...     list(Workers(pool).run(max, 0, [1, 2]))
    ... except ca.WorkerError as error:
    ...     print(error)
    the executor refused task 0 with RuntimeError: cannot schedule new futures after shutdown
    """

    # the number of the one task that is to blame, where that is known
    task: int | None = None


class FileError(InputError):
    """A file cannot be read: truncated, of another kind, of a newer version, or too large for what it claims.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.maze().save("maze.npz")
    >>> try:
    ...     ca.load("maze.npz")
    ... except ca.FileError as error:
    ...     print(error)
    maze.npz: expected a 'cautious solution' file, found 'cautious model'
    """


class MissingExtraError(CautiousError, ImportError):
    """An optional dependency is needed; the message names the extra to install.

    Examples
    --------
    >>> import cautious as ca
    >>> try:
    ...     figure = ca.solve(ca.worlds.problem("maze")).plot()
    ... except ca.MissingExtraError as error:  # where matplotlib is not installed
    ...     print(error)
    """


class CautiousWarning(UserWarning):
    """Something legal that is probably not what was meant.

    Examples
    --------
    >>> import warnings, cautious as ca
    >>> with warnings.catch_warnings(record=True, action="always") as caught:
    ...     mdp = ca.MDP([[[1.0]]], rewards=[[1.0]], discount=0.9999999)
    >>> caught[0].category.__name__
    'CautiousWarning'
    """


def shown(value: Any, width: int = 80) -> str:
    """A value for a message: its beginning, and never an error of its own."""
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER_BITS:
        # Python refuses to write such numbers
        return f"a whole number of {value.bit_length()} bits"
    try:
        return repr(value)[:width]
    except Exception:
        # a list of such numbers, or a class whose texts cannot be made
        return f"something of type {type(value).__name__}"
