"""Vectors of four numbers for compiled loops, where compilers' own vectors do not pay: short rows, sums in registers.

    p = load(a, i)              the numbers a[i : i+4] of a flat array; nothing is checked
    store(a, i, p)
    spread(x)                   four times the same number
    plus(p, q), times(p, q), plus_product(p, q, r) = p + q r, minus_product(p, q, r) = p - q r
    total(p)                    the sum of the four
    fetch(a, i)                 ask for the numbers around a[i], which will be needed soon

They run on any processor, on those with wide vectors at full speed.
"""

from collections.abc import Callable
from typing import Any

import llvmlite.ir as ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic, models, register_model

LANES = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_NUMBERS = ir.IntType(32)
# a product and a sum may be rounded together
_FUSED = ("contract",)


class _Four(types.Type):  # type: ignore[misc]
    """The type of a vector in compiled code; it never leaves it."""

    def __init__(self) -> None:
        super().__init__(name="Four")


FOUR = _Four()


@register_model(_Four)
class _FourModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, value=array).data
    return builder.bitcast(builder.gep(data, [at]), _VECTOR.as_pointer())


@intrinsic
def load(context: Any, array: Any, at: Any) -> Any:
    """The four numbers from ``at`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, signature.args[0], args[0], args[1]), align=8)

    return FOUR(array, types.intp), generate


@intrinsic
def store(context: Any, array: Any, at: Any, vector: Any) -> Any:
    """Write four numbers from ``at`` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, signature.args[0], args[0], args[1]), align=8)
        return context.get_dummy_value()

    return types.void(array, types.intp, FOUR), generate


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


@intrinsic
def spread(context: Any, number: Any) -> Any:
    """Four times the same number."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        nothing = ir.Constant(_VECTOR, ir.Undefined)
        single = builder.insert_element(nothing, args[0], ir.Constant(_NUMBERS, 0))
        return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(_NUMBERS, LANES), [0] * LANES))

    return FOUR(types.float64), generate


@intrinsic
def total(context: Any, vector: Any) -> Any:
    """The sum of the four: first and third, second and fourth, then both."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        a, b, c, d = (builder.extract_element(args[0], ir.Constant(_NUMBERS, k)) for k in range(LANES))
        return builder.fadd(builder.fadd(a, c), builder.fadd(b, d))

    return types.float64(FOUR), generate


def _operation(count: int, make: Callable[..., Any]) -> tuple[Any, Any]:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return make(builder, *args)

    return FOUR(*(FOUR,) * count), generate


@intrinsic
def plus(context: Any, p: Any, q: Any) -> Any:
    """p + q."""
    return _operation(2, lambda builder, p, q: builder.fadd(p, q))


@intrinsic
def times(context: Any, p: Any, q: Any) -> Any:
    """p q."""
    return _operation(2, lambda builder, p, q: builder.fmul(p, q))


@intrinsic
def plus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p + q r."""
    return _operation(3, lambda builder, p, q, r: builder.fadd(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED))


@intrinsic
def minus_product(context: Any, p: Any, q: Any, r: Any) -> Any:
    """p - q r."""
    return _operation(3, lambda builder, p, q, r: builder.fsub(p, builder.fmul(q, r, flags=_FUSED), flags=_FUSED))
