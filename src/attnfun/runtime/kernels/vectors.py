"""The one operation that everything fast is made of, in vector instructions: a combination of stretches of memory,

    out[at : at + W] = constant + Σ_e shares[s + e] * values[places[p + e] + shift : ... + W],     e = 0 .. count - 1.

The width W is the length of a tuple, known when code is generated, so that sums stay in registers and no loop runs over
lanes. Several sums run side by side, because a sum waits for its last addition. Numbers are added in float64 in an
order that depends on W and `count` only; values may be held in float32.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from .exponential import FUSED, emit

VECTOR = 4
"""Numbers in a vector register, as they are requested; the compiler joins or splits them where registers differ."""
REGISTERS = 12
"""Vector registers that hold sums."""


DOUBLES = ir.VectorType(ir.DoubleType(), VECTOR)


def _spread(builder: Any, number: Any) -> Any:
    """A vector of equal numbers."""
    undefined = ir.Constant(DOUBLES, ir.Undefined)
    one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), None))


def _vector(builder: Any, array: Any, index: Any, form: Any = DOUBLES) -> Any:
    """Where the vector that starts at an index is."""
    return builder.bitcast(builder.gep(array, [index]), form.as_pointer())


def _declare(
    typing: Any,
    out: Any,
    at: Any,
    constant: Any,
    values: Any,
    shift: Any,
    places: Any,
    first_place: Any,
    shares: Any,
    first_share: Any,
    count: Any,
    lanes: Any,
) -> Any:
    size = types.int64
    arguments = out, size, types.float64, values, size, places, size, shares, size, size, lanes
    return types.void(*arguments), _generate


def _generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    def data(number: int) -> Any:
        return context.make_array(signature.args[number])(context, builder, arguments[number]).data

    def plus(one: Any, other: int) -> Any:
        return builder.add(one, ir.Constant(one.type, other))

    out, values, places, shares = (data(number) for number in (0, 3, 5, 7))
    at, constant, shift, first_place, first_share, count = (arguments[number] for number in (1, 2, 4, 6, 8, 9))
    wide = signature.args[3].dtype == types.float64
    loaded = DOUBLES if wide else ir.VectorType(ir.FloatType(), VECTOR)
    parts = signature.args[-1].count // VECTOR
    rows = max(1, min(4, REGISTERS // parts))

    def add_row(number: Any, sums: list[Any]) -> None:
        share = _spread(builder, builder.load(builder.gep(shares, [builder.add(first_share, number)])))
        place = builder.add(builder.load(builder.gep(places, [builder.add(first_place, number)])), shift)
        for part, total in enumerate(sums):
            found = builder.load(_vector(builder, values, plus(place, VECTOR * part), loaded), align=8 if wide else 4)
            product = builder.fmul(found if wide else builder.fpext(found, DOUBLES), share, flags=FUSED)
            builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)

    totals = [[cgutils.alloca_once(builder, DOUBLES) for _ in range(parts)] for _ in range(rows)]
    zero = ir.Constant(DOUBLES, [0.0] * VECTOR)
    for row, sums in enumerate(totals):
        start = _spread(builder, constant) if row == 0 else zero
        for total in sums:
            builder.store(start, total)
    step = ir.Constant(count.type, rows)
    whole = builder.sub(count, builder.srem(count, step))
    with cgutils.for_range_slice(builder, ir.Constant(count.type, 0), whole, step) as (number, _):
        for row, sums in enumerate(totals):
            add_row(plus(number, row), sums)
    with cgutils.for_range_slice(builder, whole, count, ir.Constant(count.type, 1)) as (number, _):
        add_row(number, totals[0])
    for part in range(parts):
        result = builder.load(totals[0][part])
        for sums in totals[1:]:
            result = builder.fadd(result, builder.load(sums[part]))
        builder.store(result, _vector(builder, out, plus(at, VECTOR * part)), align=8)
    return context.get_dummy_value()


combine: Any = intrinsic(_declare)
"""`combine(out, at, constant, values, shift, places, p, shares, s, count, lanes)`, W = len(lanes), a multiple of 4."""


def _declare_weigh(
    typing: Any, out: Any, at: Any, slopes: Any, offsets: Any, source: Any, query: Any, peak: Any
) -> Any:
    """`out[at + j] = exp(slopes[source + j] * query + offsets[source + j] - peak)` for j < 4."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        out, slopes, offsets = (
            context.make_array(signature.args[number])(context, builder, arguments[number]).data for number in (0, 2, 3)
        )
        _, at, _, _, source, query, peak = arguments
        slope, offset = (builder.load(_vector(builder, array, source), align=8) for array in (slopes, offsets))
        product = builder.fmul(slope, _spread(builder, query), flags=FUSED)
        apart = builder.fsub(builder.fadd(product, offset, flags=FUSED), _spread(builder, peak))
        builder.store(emit(builder, apart), _vector(builder, out, at), align=8)
        return context.get_dummy_value()

    size, number = types.int64, types.float64
    return types.void(out, size, slopes, offsets, size, number, number), generate


weigh: Any = intrinsic(_declare_weigh)


def _declare_at(typing: Any, array: Any, index: Any) -> Any:
    """`array[index]` for an index that is surely in range: without the test for negative ones, which stops vectors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return array.dtype(array, types.intp), generate


at: Any = intrinsic(_declare_at)
