"""The exponential function for inner loops: straight-line code, for one number or a vector of them.

**Bound.** With `k` the integer nearest to `x / log 2` and `r = x - k log 2`, `|r| <= 0.3466`, the Taylor polynomial of
degree 13 leaves a remainder of at most `r^14/14! e^r <= 6e-18`, a twentieth of a unit u = 2⁻⁵³. `k` times the upper
part of log 2 (its last 21 bits are zero, `|k| < 2^11`) is exact and so is the difference; r is then off by at most
`u |r| + 2⁻⁷⁵ |k|`, and Horner's rule ends with `1 + r(1 + ...)`, whose rounding errors add up to less than `2u`.
Altogether the relative error is below 3u for `-708 <= x <= 700`, products fused or not. Smaller x give `e^-708`, which
is below the numbers that the rounding model allows to vanish.
"""

from __future__ import annotations

from math import factorial
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from ...resources.kernels import njit

LOG2E = 1.4426950408889634
LOG2_UPPER = float.fromhex("0x1.62e42fee00000p-1")
LOG2_LOWER = float.fromhex("0x1.a39ef35793c76p-33")
MAGIC = 1.5 * 2.0**52
"""Adding this rounds to the nearest integer and leaves it in the last bits."""
LEAST = -708.0
ONE = 1023 << 52
"""The bits of 1.0."""
COEFFICIENTS = [1 / factorial(degree) for degree in range(13, -1, -1)]
FUSED = ("contract",)
"""Products and sums may be fused, nothing else."""


def emit(builder: Any, x: Any) -> Any:
    """The instructions for e^x, x a double or a vector of doubles.

    They may be fused, not reordered: numba's `fastmath` goes to all instructions of the function they stand in.
    """
    lanes = x.type.count if isinstance(x.type, ir.VectorType) else 0
    bits = ir.VectorType(ir.IntType(64), lanes) if lanes else ir.IntType(64)

    def constant(number: float) -> Any:
        form = bits if isinstance(number, int) else x.type
        return ir.Constant(form, [number] * lanes if lanes else number)

    def fma(one: Any, other: Any, added: Any) -> Any:
        return builder.fadd(builder.fmul(one, other, flags=FUSED), added, flags=FUSED)

    x = builder.select(builder.fcmp_ordered(">", x, constant(LEAST)), x, constant(LEAST))
    shifted = fma(x, constant(LOG2E), constant(MAGIC))
    k = builder.fsub(shifted, constant(MAGIC))
    r = fma(k, constant(-LOG2_LOWER), fma(k, constant(-LOG2_UPPER), x))
    p = constant(COEFFICIENTS[0])
    for coefficient in COEFFICIENTS[1:]:
        p = fma(p, r, constant(coefficient))
    power = builder.add(builder.shl(builder.bitcast(shifted, bits), constant(52)), constant(ONE))
    return builder.fmul(p, builder.bitcast(power, x.type), flags=FUSED)


def _declare(typing: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return emit(builder, arguments[0])

    return types.float64(types.float64), generate


_emitted: Any = intrinsic(_declare)


@njit(fastmath=set(FUSED))  # said here, or it would be inherited from whichever function is compiled first
def exponential(x: float) -> float:
    """e^x for x <= 700, to within 3 units of roundoff; e^-708 for smaller x than that."""
    return _emitted(x)
