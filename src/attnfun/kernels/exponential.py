"""The exponential function for inner loops: straight-line code that becomes vector instructions.

**Bound.** With `k` the integer nearest to `x / log 2` and `r = x - k log 2`, `|r| <= 0.3466`, the Taylor polynomial of
degree 13 leaves a remainder of at most `r^14/14! e^r <= 6e-18`, a twentieth of a unit u = 2⁻⁵³. `k` times the upper
part of log 2 (its last 21 bits are zero, `|k| < 2^11`) is exact and so is the difference; r is then off by at most
`u |r| + 2⁻⁷⁵ |k|`, and Horner's rule ends with `1 + r(1 + ...)`, whose rounding errors add up to less than `2u`.
Altogether the relative error is below 3u for `-708 <= x <= 700`, products fused or not. Smaller x give `e^-708`, which
is below the numbers that the rounding model allows to vanish.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

LOG2E = 1.4426950408889634
LOG2_UPPER = float.fromhex("0x1.62e42fee00000p-1")
LOG2_LOWER = float.fromhex("0x1.a39ef35793c76p-33")
MAGIC = 1.5 * 2.0**52
"""Adding this rounds to the nearest integer and leaves it in the last bits."""
LEAST = -708.0
ONE = 1023 << 52
"""The bits of 1.0."""


def _bitcast(source: Any, result: Any, form: ir.Type) -> Any:
    """A function that reads the bits of one type as another."""

    def declare(typing: Any, number: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.bitcast(arguments[0], form)

        return result(source), generate

    return intrinsic(declare)


_bits: Any = _bitcast(types.float64, types.int64, ir.IntType(64))
_float: Any = _bitcast(types.int64, types.float64, ir.DoubleType())


@njit(fastmath={"contract"})
def exponential(x: float) -> float:
    """e^x for x <= 700, to within 3 units of roundoff; e^-708 for smaller x than that."""
    x = x if x > LEAST else LEAST
    shifted = x * LOG2E + MAGIC
    k = shifted - MAGIC
    r = (x - k * LOG2_UPPER) - k * LOG2_LOWER
    p = 1 / 6227020800.0
    p = p * r + 1 / 479001600.0
    p = p * r + 1 / 39916800.0
    p = p * r + 1 / 3628800.0
    p = p * r + 1 / 362880.0
    p = p * r + 1 / 40320.0
    p = p * r + 1 / 5040.0
    p = p * r + 1 / 720.0
    p = p * r + 1 / 120.0
    p = p * r + 1 / 24.0
    p = p * r + 1 / 6.0
    p = p * r + 0.5
    p = p * r + 1.0
    p = p * r + 1.0
    return p * _float((_bits(shifted) << 52) + ONE)
