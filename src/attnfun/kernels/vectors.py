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

VECTOR = 4
"""Numbers in a vector register, as we ask for them; the compiler joins or splits them where registers differ."""
REGISTERS = 12
"""Vector registers that hold sums."""


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
    vector = ir.VectorType(ir.DoubleType(), VECTOR)
    loaded = vector if wide else ir.VectorType(ir.FloatType(), VECTOR)
    parts = signature.args[-1].count // VECTOR
    rows = max(1, min(4, REGISTERS // parts))

    def spread(number: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        one = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
        return builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), VECTOR), None))

    def add_row(number: Any, sums: list[Any]) -> None:
        share = spread(builder.load(builder.gep(shares, [builder.add(first_share, number)])))
        place = builder.add(builder.load(builder.gep(places, [builder.add(first_place, number)])), shift)
        for part, total in enumerate(sums):
            where = builder.bitcast(builder.gep(values, [plus(place, VECTOR * part)]), loaded.as_pointer())
            found = builder.load(where, align=8 if wide else 4)
            found = found if wide else builder.fpext(found, vector)
            product = builder.fmul(found, share, flags=("contract",))
            builder.store(builder.fadd(builder.load(total), product, flags=("contract",)), total)

    totals = [[cgutils.alloca_once(builder, vector) for _ in range(parts)] for _ in range(rows)]
    zero = ir.Constant(vector, [0.0] * VECTOR)
    for row, sums in enumerate(totals):
        start = spread(constant) if row == 0 else zero
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
        where = builder.bitcast(builder.gep(out, [plus(at, VECTOR * part)]), vector.as_pointer())
        builder.store(result, where, align=8)
    return context.get_dummy_value()


combine: Any = intrinsic(_declare)
"""`combine(out, at, constant, values, shift, places, p, shares, s, count, lanes)`, W = len(lanes), a multiple of 4."""


def _declare_at(typing: Any, array: Any, index: Any) -> Any:
    """`array[index]` for an index that is surely in range: without the test for negative ones, which stops vectors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return array.dtype(array, types.intp), generate


at: Any = intrinsic(_declare_at)
