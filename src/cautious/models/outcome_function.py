"""The function that ``from_kernel`` is given, called and checked: the outcomes of some states and one action."""

import ctypes
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from cautious._core.outcomes import store_outcomes
from cautious.arrays import Array, Indices
from cautious.checks import as_array
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.encodings import read_only_view

Outcomes = Callable[[Indices, int], Any]

# by how much answers to the same question may differ: rounding, as where a sum is computed in another order
MAX_RELATIVE_ROUNDING = 1e-9
# successors, probabilities and rewards of the states, written row by row, n x k; returns n
_PROTOTYPE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_void_p,
    ctypes.c_void_p,
)
_FunctionPointer: Any = _PROTOTYPE.__mro__[1]


def is_compiled(outcomes: Any) -> bool:
    """Whether it is the address of a compiled function, or a pointer to one."""
    whole = isinstance(outcomes, int | np.integer) and not isinstance(outcomes, bool)
    return whole or isinstance(outcomes, _FunctionPointer)


class CompiledFunction:
    """A compiled function at an address, called as a Python function is.

    At first its arrays are ``blank``, filled with what is refused, so that it has to write all of them.
    """

    def __init__(self, outcomes: Any, n_outcomes: int) -> None:
        # a function pointer made by ctypes lives as long as it is kept
        self.given, self.n_outcomes, self.blank = outcomes, n_outcomes, True
        address = ctypes.cast(outcomes, ctypes.c_void_p).value if isinstance(outcomes, _FunctionPointer) else outcomes
        if not address or address < 0:
            raise InputError(f"outcomes is the address {address}; a compiled function has another one")
        self.call = _PROTOTYPE(int(address))

    def __call__(self, states: Indices, action: int) -> tuple[Indices, Array, Array]:
        """What it writes: three arrays (n, k)."""
        shape = (states.size, self.n_outcomes)
        successors, probabilities, rewards = np.empty(shape, np.int64), np.empty(shape), np.empty(shape)
        if self.blank:
            successors.fill(-1)
            probabilities.fill(np.nan)
            rewards.fill(np.nan)
        arrays = (array.ctypes.data for array in (successors, probabilities, rewards))
        count = self.call(states.ctypes.data, states.size, action, *arrays)
        if count != states.size:
            raise InputError(f"it returned {count} for {states.size} states, which it returns when all is well")
        return successors, probabilities, rewards

    def __reduce__(self) -> NoReturn:
        raise IncompatibleError(
            "outcomes is the address of a function in this process: it cannot be sent to another one"
        )


class OutcomeError(InputError):
    """Outcomes of a pair that are none."""

    def __init__(self, state: int, action: int, fault: str) -> None:
        super().__init__(f"outcomes (state {state}, action {action}) {fault}")
        self.pair = state, action


class OutcomeFunction:
    """The user's ``function``, asked for the outcomes of some states and one action; every answer is checked."""

    def __init__(self, function: Outcomes, n_states: int) -> None:
        self.function, self.n_states = function, n_states
        self.n_outcomes = self._first_answer()

    def _first_answer(self) -> int:
        """How many outcomes there are, by the first answer."""
        successors = as_array("outcomes: successors", self._ask(np.zeros(1, np.int64), 0)[0])
        if successors.ndim != 2 or 0 in successors.shape:
            raise InputError(
                f"outcomes(states, 0) gave successors of shape {successors.shape} for 1 state; expected (n, k), k > 0"
            )
        return int(successors.shape[1])

    def _ask(self, states: Indices, action: int) -> Any:
        """The three arrays of an answer, as they are given."""
        where = f"outcomes for {states_in_words(states)}, action {action}"
        try:
            answer = self.function(read_only_view(states), action)
        except Exception as error:
            raise InputError(f"{where}: {type(error).__name__}: {error}") from error
        if not isinstance(answer, tuple | list) or len(answer) != 3:
            raise InputError(f"{where}: expected (successors, probabilities, rewards), found {shown(answer)}")
        return answer

    def answer(self, states: Indices, action: int) -> tuple[Indices, Array, Array]:
        """An answer as three arrays (n, k) of the types that compiled loops take."""
        kinds, names = ("iu", "iuf", "iuf"), ("successors", "probabilities", "rewards")
        given = zip(names, self._ask(states, action), strict=True)
        arrays = [as_array(f"outcomes: {name}", part) for name, part in given]
        for array, kind, name in zip(arrays, kinds, names, strict=True):
            if array.shape != (states.size, self.n_outcomes):
                raise InputError(
                    f"outcomes for {states_in_words(states)}, action {action}: {name} have the shape {array.shape}; "
                    f"expected (n, k) = {(states.size, self.n_outcomes)}"
                )
            if array.dtype.kind not in kind:
                wanted = "integers" if kind == "iu" else "numbers"
                raise InputError(f"outcomes: {name} must be {wanted}, found an array of {array.dtype}")
        return (
            np.ascontiguousarray(arrays[0], np.int64),
            np.ascontiguousarray(arrays[1], np.float64),
            np.ascontiguousarray(arrays[2], np.float64),
        )

    def store(
        self, states: Indices, action: int, at: Indices, indices: Any, data: Array, mean: Array
    ) -> tuple[float, float]:
        """Outcomes of states as the rows ``at`` of ``indices`` and ``data``; two sums to compare other answers with."""
        answer = self.answer(states, action)
        bad, moves, pay = store_outcomes(*answer, self.n_states, at, indices, data, mean)
        if bad >= 0:
            raise OutcomeError(int(states[bad]), action, _fault(self.n_states, *(part[bad] for part in answer)))
        return moves, pay

    def successors(self, states: Indices, action: int) -> Indices:
        """The states that follow with a positive probability; (n,)."""
        successors, probabilities, rewards = self.answer(states, action)
        outside = (successors < 0) | (successors >= self.n_states)
        if outside.any():
            i = int(np.argmax(outside.any(axis=1)))
            outcome = successors[i], probabilities[i], rewards[i]
            raise OutcomeError(int(states[i]), action, _fault(self.n_states, *outcome))
        return successors[probabilities > 0]


def states_in_words(states: Indices) -> str:
    """States in a message."""
    if states.size == 1:
        return f"state {states[0]}"
    return f"the {states.size} states {states[0]} to {states[-1]}"


def _fault(n_states: int, successors: Indices, probabilities: Array, rewards: Array) -> str:
    """What is wrong with the outcomes (k,) of a pair."""
    outside = (successors < 0) | (successors >= n_states)
    if outside.any():
        return f"has the successor {successors[np.argmax(outside)]}; states are numbered 0 to {n_states - 1}"
    beyond = ~((probabilities >= 0) & (probabilities <= 1 + MAX_RELATIVE_ROUNDING))
    if beyond.any():
        return f"has the probability {probabilities[np.argmax(beyond)]}; it must be in [0, 1]"
    if not np.isfinite(rewards).all():
        return f"has the reward {rewards[np.argmax(~np.isfinite(rewards))]}; it must be finite"
    return (
        f"has probabilities that sum to {probabilities.sum():.12g}; they must sum to 1 within {MAX_RELATIVE_ROUNDING:g}"
    )
