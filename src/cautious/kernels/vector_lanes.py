"""Numbers that change places between vectors of four, beside the operations of ``vectors``.

gathered(a, places, i)          the numbers of a at places[i : i+4]
add_at(a, places, i, p)         add the numbers of p there, one after the other: places may be the same
subtract_at(a, places, i, p)    subtract them
evens(p, q), odds(p, q)         (p0, q0, p2, q2) and (p1, q1, p3, q3)
fronts(p, q), backs(p, q)       (p0, p1, q0, q1) and (p2, p3, q2, q3)

Four vectors are the rows of a matrix; evens and odds of its first and its last two, then fronts and backs of those,
are its columns.
"""

from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic

from cautious.kernels.vectors import FOUR, LANES, operation

_NUMBERS = ir.IntType(32)


def _pointers(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """To the numbers of the first argument at the places, which are not negative, that the next two name."""
    numbers = context.make_array(signature.args[0])(context, builder, value=args[0]).data
    places = context.make_array(signature.args[1])(context, builder, value=args[1]).data
    found = []
    for k in range(LANES):
        at = builder.load(builder.gep(places, [builder.add(args[2], ir.Constant(args[2].type, k))]))
        found.append(builder.gep(numbers, [at if at.type.width == 64 else builder.zext(at, ir.IntType(64))]))
    return found


@intrinsic
def gathered(context: Any, array: Any, places: Any, at: Any) -> Any:
    """The numbers at four places."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.Constant(FOUR.vector, ir.Undefined)
        for k, place in enumerate(_pointers(context, builder, signature, args)):
            vector = builder.insert_element(vector, builder.load(place), ir.Constant(_NUMBERS, k))
        return vector

    return FOUR(array, places, types.intp), generate


def _changed(change: Any, array: Any, places: Any) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for k, place in enumerate(_pointers(context, builder, signature, args)):
            number = builder.extract_element(args[3], ir.Constant(_NUMBERS, k))
            builder.store(change(builder, builder.load(place), number), place)
        return context.get_dummy_value()

    return types.void(array, places, types.intp, FOUR), generate


@intrinsic
def add_at(context: Any, array: Any, places: Any, at: Any, vector: Any) -> Any:
    """Add four numbers at four places."""
    return _changed(lambda builder, old, number: builder.fadd(old, number), array, places)


@intrinsic
def subtract_at(context: Any, array: Any, places: Any, at: Any, vector: Any) -> Any:
    """Subtract four numbers at four places."""
    return _changed(lambda builder, old, number: builder.fsub(old, number), array, places)


def _shuffled(p: Any, q: Any, places: list[int]) -> tuple[Any, Any]:
    order = ir.Constant(ir.VectorType(_NUMBERS, LANES), places)
    return operation(lambda builder, p, q: builder.shuffle_vector(p, q, order), p, q)


@intrinsic
def evens(context: Any, p: Any, q: Any) -> Any:
    """(p0, q0, p2, q2)."""
    return _shuffled(p, q, [0, 4, 2, 6])


@intrinsic
def odds(context: Any, p: Any, q: Any) -> Any:
    """(p1, q1, p3, q3)."""
    return _shuffled(p, q, [1, 5, 3, 7])


@intrinsic
def fronts(context: Any, p: Any, q: Any) -> Any:
    """(p0, p1, q0, q1)."""
    return _shuffled(p, q, [0, 1, 4, 5])


@intrinsic
def backs(context: Any, p: Any, q: Any) -> Any:
    """(p2, p3, q2, q3)."""
    return _shuffled(p, q, [2, 3, 6, 7])
