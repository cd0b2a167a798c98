"""Vectors of numbers for compiled loops, where compilers' own vectors do not pay: short rows, registers.

    p = load(a, i)              the numbers a[i : i+4] of a flat array, a[i : i+8] if it is of single precision;
                                nothing is checked
    p = load_four(a, i)         the numbers a[i : i+4] of an array of either precision
    p = load_eight(a, i)        the numbers a[i : i+8] of an array of double precision
    p = load_sixteen(a, i)      the numbers a[i : i+16] of an array of single precision
    lanes(a)                    how many numbers ``load`` takes of this array
    store(a, i, p)              of any kind, as everything below that takes one
    spread(x), spread_eight(x), spread_sixteen(x)   four, eight, sixteen times the same number
    alike(a, x), alike_four(a, x)   the same number throughout a vector that ``load``, ``load_four`` takes of this array
    plus(p, q), times(p, q), plus_product(p, q, r) = p + q r, minus_product(p, q, r) = p - q r
    total(p)                    the sum of its numbers
    fetch(a, i)                 ask for the numbers around a[i], which will be needed soon

They run on any processor, on those with wide vectors at full speed.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
import numpy as np
from numba import types
from numba.extending import intrinsic, models, register_model

from cautious.arrays import Array

LANES, EIGHT_LANES, SIXTEEN_LANES = 4, 8, 16
_NUMBERS = ir.IntType(32)
# a product and a sum may be rounded together
_FUSED = ("contract",)


def aligned(count: int) -> Array:
    """Room for ``count`` eights of numbers, (8 count,), from a boundary of 64 bytes on: one access to memory each."""
    room = np.empty(EIGHT_LANES * (count + 1))
    first = -(room.ctypes.data // room.itemsize) % EIGHT_LANES
    return room[first : first + EIGHT_LANES * count]


class Vector(types.Type):  # type: ignore[misc]
    """The type of a vector in compiled code; it never leaves it."""

    def __init__(self, lanes: int, number: Any = types.float64) -> None:
        super().__init__(name=f"Vector({lanes}, {number})")
        self.number = number
        self.vector = ir.VectorType(ir.DoubleType() if number is types.float64 else ir.FloatType(), lanes)


FOUR, EIGHT, SIXTEEN = Vector(LANES), Vector(EIGHT_LANES), Vector(SIXTEEN_LANES, types.float32)
# of single precision, as long in memory as four of double precision
EIGHT_SINGLES = Vector(EIGHT_LANES, types.float32)
FOUR_SINGLES = Vector(LANES, types.float32)


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.vector)


def pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, vector: Any) -> Any:
    """To the vector of an array that begins at ``at``."""
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())


def _loaded(kind: Vector, array: Any) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = pointer(context, builder, signature.args[0], args[0], args[1], kind.vector)
        return builder.load(place, align=kind.number.bitwidth // 8)

    return kind(array, types.intp), generate


def _vector_of(array: Any) -> Vector:
    return EIGHT_SINGLES if array.dtype == types.float32 else FOUR


def _four_of(array: Any) -> Vector:
    return FOUR_SINGLES if array.dtype == types.float32 else FOUR


@intrinsic
def lanes(context: Any, array: Any) -> Any:
    """How many numbers ``load`` takes of this array."""
    count = _vector_of(array).vector.count

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.intp, count)

    return types.intp(array), generate


@intrinsic
def load(context: Any, array: Any, at: Any) -> Any:
    """The numbers from ``at`` on: four, or eight of single precision."""
    return _loaded(_vector_of(array), array)


@intrinsic
def load_four(context: Any, array: Any, at: Any) -> Any:
    """The four numbers from ``at`` on, of either precision."""
    return _loaded(_four_of(array), array)


@intrinsic
def load_eight(context: Any, array: Any, at: Any) -> Any:
    """The eight numbers from ``at`` on."""
    return _loaded(EIGHT, array)


@intrinsic
def load_sixteen(context: Any, array: Any, at: Any) -> Any:
    """The sixteen numbers from ``at`` on."""
    return _loaded(SIXTEEN, array)


@intrinsic
def store(context: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write the numbers of a vector from ``at`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[2]
        place = pointer(context, builder, signature.args[0], args[0], args[1], kind.vector)
        builder.store(args[2], place, align=kind.number.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, vector), generate


@intrinsic
def fetch(context: Any, array: Any, at: Any) -> Any:
    """Ask for the numbers at ``at``: they are on their way while others are worked on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, value=args[0]).data
        place = builder.bitcast(builder.gep(data, [args[1]]), ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [place.type, *[_NUMBERS] * 3])
        prefetch = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # for reading, to be kept near, as data
        builder.call(prefetch, [place, *(ir.Constant(_NUMBERS, number) for number in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _same(builder: Any, kind: Vector, number: Any) -> Any:
    nothing = ir.Constant(kind.vector, ir.Undefined)
    single = builder.insert_element(nothing, number, ir.Constant(_NUMBERS, 0))
    places = ir.Constant(ir.VectorType(_NUMBERS, kind.vector.count), [0] * kind.vector.count)
    return builder.shuffle_vector(single, nothing, places)


def _spread(kind: Vector) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _same(builder, kind, args[0])

    return kind(kind.number), generate


def _alike(kind: Vector, array: Any) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _same(builder, kind, args[1])

    return kind(array, kind.number), generate


@intrinsic
def alike(context: Any, array: Any, number: Any) -> Any:
    """The same number throughout a vector that ``load`` takes of this array."""
    return _alike(_vector_of(array), array)


@intrinsic
def alike_four(context: Any, array: Any, number: Any) -> Any:
    """The same number throughout a vector that ``load_four`` takes of this array."""
    return _alike(_four_of(array), array)


@intrinsic
def spread(context: Any, number: Any) -> Any:
    """Four times the same number."""
    return _spread(FOUR)


@intrinsic
def spread_eight(context: Any, number: Any) -> Any:
    """Eight times the same number."""
    return _spread(EIGHT)


@intrinsic
def spread_sixteen(context: Any, number: Any) -> Any:
    """Sixteen times the same number."""
    return _spread(SIXTEEN)


@intrinsic
def total(context: Any, vector: Any) -> Any:
    """The sum of its numbers: halves are added until one is left."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        count = vector.vector.count
        parts = [builder.extract_element(args[0], ir.Constant(_NUMBERS, k)) for k in range(count)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        return parts[0]

    return vector.number(vector), generate


def operation(make: Callable[..., Any], *vectors: Any) -> tuple[Any, Any]:
    """What ``make`` builds of vectors of one kind, which is one of that kind."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make(builder, *args)

    return vectors[0](*vectors), generate


@intrinsic
def plus(context: Any, p: Any, q: Any) -> Any:
    """p + q."""
    return operation(lambda builder, p, q: builder.fadd(p, q), p, q)


@intrinsic
def times(context: Any, p: Any, q: Any) -> Any:
    """p q."""
    return operation(lambda builder, p, q: builder.fmul(p, q), p, q)


@intrinsic
def plus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p + q r."""
    return operation(lambda builder, p, q, r: builder.fadd(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED), p, q, r)


@intrinsic
def minus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p - q r."""
    return operation(lambda builder, p, q, r: builder.fsub(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED), p, q, r)
