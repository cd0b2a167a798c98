"""Short vectors of numbers for compiled loops, where compilers' own vectors do not pay: short rows, sums in registers.

Four numbers of double precision, or eight of single precision: the array says which.

    p = load(a, i)              the numbers a[i : i+4], or a[i : i+8], of a flat array; nothing is checked
    store(a, i, p)
    lanes(a)                    how many numbers a vector of this array holds
    spread(x)                   four times the same number
    alike(a, x)                 the same number throughout a vector like those of this array
    plus(p, q), times(p, q), plus_product(p, q, r) = p + q r, minus_product(p, q, r) = p - q r
    total(p)                    the sum of its numbers
    fetch(a, i)                 ask for the numbers around a[i], which will be needed soon

They run on any processor, on those with wide vectors at full speed.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 4
_NUMBERS = ir.IntType(32)
# a product and a sum may be rounded together
_FUSED = ("contract",)


class _Vector(types.Type):  # type: ignore[misc]
    """The type of a vector in compiled code; it never leaves it."""

    def __init__(self, name: str, number: Any, lanes: int, kind: Any) -> None:
        super().__init__(name=name)
        self.number, self.lanes, self.kind = number, lanes, ir.VectorType(kind, lanes)


FOUR = _Vector("Four", types.float64, LANES, ir.DoubleType())
EIGHT = _Vector("Eight", types.float32, 2 * LANES, ir.FloatType())


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, kind.kind)


def _vector_of(array: Any) -> _Vector:
    return EIGHT if array.dtype == types.float32 else FOUR


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [at]), _vector_of(kind).kind.as_pointer())


def _bytes(array: Any) -> int:
    return int(array.dtype.bitwidth) // 8


@intrinsic
def lanes(context: Any, array: Any) -> Any:
    """How many numbers a vector holds."""
    count = _vector_of(array).lanes

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(types.intp, count)

    return types.intp(array), generate


@intrinsic
def load(context: Any, array: Any, at: Any) -> Any:
    """The numbers from ``at`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        return builder.load(_pointer(context, builder, kind, args[0], args[1]), align=_bytes(kind))

    return _vector_of(array)(array, types.intp), generate


@intrinsic
def store(context: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write a vector from ``at`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = signature.args[0]
        builder.store(args[2], _pointer(context, builder, kind, args[0], args[1]), align=_bytes(kind))
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
        # for reading, to be kept near but not nearest, where few wait at a time, as data
        builder.call(prefetch, [place, *(ir.Constant(_NUMBERS, number) for number in (0, 2, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


def _spread(builder: Any, vector: _Vector, number: Any) -> Any:
    nothing = ir.Constant(vector.kind, ir.Undefined)
    single = builder.insert_element(nothing, number, ir.Constant(_NUMBERS, 0))
    return builder.shuffle_vector(
        single, nothing, ir.Constant(ir.VectorType(_NUMBERS, vector.lanes), [0] * vector.lanes)
    )


@intrinsic
def spread(context: Any, number: Any) -> Any:
    """Four times the same number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, FOUR, args[0])

    return FOUR(types.float64), generate


@intrinsic
def alike(context: Any, array: Any, number: Any) -> Any:
    """The same number throughout a vector like those of an array."""
    vector = _vector_of(array)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _spread(builder, vector, args[1])

    return vector(array, vector.number), generate


@intrinsic
def total(context: Any, vector: Any) -> Any:
    """The sum of its numbers: halves are added until one is left."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = [builder.extract_element(args[0], ir.Constant(_NUMBERS, k)) for k in range(vector.lanes)]
        while len(parts) > 1:
            half = len(parts) // 2
            parts = [builder.fadd(a, b) for a, b in zip(parts[:half], parts[half:], strict=True)]
        return parts[0]

    return vector.number(vector), generate


def _operation(vector: Any, count: int, make: Callable[..., Any]) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make(builder, *args)

    return vector(*(vector,) * count), generate


@intrinsic
def plus(context: Any, p: Any, q: Any) -> Any:
    """p + q."""
    return _operation(p, 2, lambda builder, p, q: builder.fadd(p, q))


@intrinsic
def times(context: Any, p: Any, q: Any) -> Any:
    """p q."""
    return _operation(p, 2, lambda builder, p, q: builder.fmul(p, q))


@intrinsic
def plus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p + q r."""
    return _operation(p, 3, lambda builder, p, q, r: builder.fadd(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED))


@intrinsic
def minus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p - q r."""
    return _operation(p, 3, lambda builder, p, q, r: builder.fsub(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED))
