"""Directed rounding without changing the processor's mode: the floats just below and above a real result.

Sums and products find the sign of their own rounding error exactly (Knuth's two-sum, Dekker's
two-product), so an exact result is not widened: `1 - 1` is `[0, 0]` and `sqrt(1 - x**2)` stays defined on
all of [-1, 1]. Library functions come with a relative allowance instead.

Bounds are mostly sums and products of numbers that are not negative. Those are computed to nearest and rounded up or
down once, by the number of roundings on the way [T 9.9]. Nothing is assumed of the order in which NumPy or a BLAS adds,
nor of fused products. Zero stays zero, so what is exact stays exact. What overflows becomes infinite, and a number that
is not known (NaN) stays so.
"""

from __future__ import annotations

from math import exp, inf, log1p, nextafter
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
T = TypeVar("T", float, npt.NDArray[np.float64])

ULP = 2.0**-52
LIBRARY_ULPS = 8
"""Allowance for NumPy's and SciPy's elementary functions, in units in the last place."""

ROUNDINGS = 2**20
"""Operations on the way to a result, at most."""

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
"""The smallest positive float. A product that underflows is off by at most half of it."""

LEAST_NORMAL = 2.0**-1022
"""Numbers below this have fewer digits: products that end there may lose some."""
RESTATED = 1e-12
"""The fraction by which a bound may differ when it is computed again: machines add in other orders."""
COMPARED = 1e-9
"""The fraction up to which numbers that were computed in different ways are taken as equal."""

_SPLIT = 2.0**27 + 1
_SAFE_LARGE, _SAFE_SMALL = 2.0**990, 2.0**-960


def below(value: Floats) -> Floats:
    """The next float downwards."""
    return np.nextafter(value, -np.inf)


def above(value: Floats) -> Floats:
    """The next float upwards."""
    return np.nextafter(value, np.inf)


def _low(result: Floats, error: Floats, trusted: npt.NDArray[np.bool_]) -> Floats:
    """The float at or just below `result + error`; where the error is not trusted, one step down."""
    return np.fmax(np.where(trusted & (error >= 0), result, below(result)), -np.inf)  # fmax: NaN becomes -inf


def _high(result: Floats, error: Floats, trusted: npt.NDArray[np.bool_]) -> Floats:
    """The float at or just above `result + error`; where the error is not trusted, one step up."""
    return np.fmin(np.where(trusted & (error <= 0), result, above(result)), np.inf)


def _two_sum(a: Floats | float, b: Floats | float) -> tuple[Floats, Floats]:
    """A rounded sum and what rounding took from it, which is exact where it is finite."""
    total = np.add(a, b)
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def add_down(a: Floats | float, b: Floats | float) -> Floats:
    """The largest float that is at most `a + b`, or one below it; -inf where that is not known."""
    with np.errstate(all="ignore"):
        total, error = _two_sum(a, b)
        return _low(total, error, np.isfinite(error))


def add_up(a: Floats | float, b: Floats | float) -> Floats:
    """The smallest float that is at least `a + b`, or one above it; inf where that is not known."""
    with np.errstate(all="ignore"):
        total, error = _two_sum(a, b)
        return _high(total, error, np.isfinite(error))


def multiply(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Floats `(low, high)` with `low <= a * b <= high` in real arithmetic; zero times infinity is zero."""
    with np.errstate(all="ignore"):
        product = a * b
        a_high, b_high = _head(a), _head(b)
        a_low, b_low = a - a_high, b - b_high
        error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
        size = np.abs(product)
        trusted = (np.abs(a) < _SAFE_LARGE) & (np.abs(b) < _SAFE_LARGE) & (size < _SAFE_LARGE) & (size > _SAFE_SMALL)
        low, high = _low(product, error, trusted), _high(product, error, trusted)
        zero = (a == 0) | (b == 0)
        if zero.any():
            low, high = np.where(zero, 0.0, low), np.where(zero, 0.0, high)
        return low, high


def divide(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Floats `(low, high)` with `low <= a / b <= high` in real arithmetic, for nonzero b."""
    with np.errstate(all="ignore"):
        quotient = a / b
        exact = (a == 0) | (np.abs(b) == 1.0)
        return np.where(exact, quotient, below(quotient)), np.where(exact, quotient, above(quotient))


def root(a: Floats) -> tuple[Floats, Floats]:
    """Floats around `sqrt(a)` for a >= 0; perfect squares are exact."""
    value = np.sqrt(a)
    low, high = multiply(value, value)
    exact = (low == a) & (high == a)
    return np.where(exact, value, np.maximum(below(value), 0.0)), np.where(exact, value, above(value))


def widen(low: Floats, high: Floats, ulps: float = LIBRARY_ULPS) -> tuple[Floats, Floats]:
    """Push both ends out by a relative `ulps` units in the last place and a few denormals."""
    slack, tiny = (ulps + 1) * ULP, (ulps + 1) * SMALLEST
    low, high = np.minimum(low, LARGEST), np.maximum(high, -LARGEST)
    with np.errstate(over="ignore"):
        return low - (slack * np.abs(low) + tiny), high + (slack * np.abs(high) + tiny)


def rounded_up(value: T, roundings: int) -> T:
    """An upper bound on a number >= 0 that was computed to nearest as `value`, with so many roundings [T 9.9].

    A float has none; a product, quotient or sum of two has those of both and one more, of n terms in any order those of
    the one that has most and n - 1 more. Products may not underflow, or what they lose is added (`SMALLEST` each).
    """
    return value * (1 + (roundings + 1) * ULP)


def above_real(value: float) -> float:
    """`rounded_up` for at most ROUNDINGS roundings, library functions counted as LIBRARY_ULPS [T 9.9]."""
    return rounded_up(value, ROUNDINGS) + ROUNDINGS * SMALLEST


def rounded_down(value: T, roundings: int) -> T:
    """A lower bound on a finite number >= 0 that was computed to nearest as `value`, with so many roundings [T 9.9]."""
    return value * (1 - (roundings + 1) * ULP)


def sum_error(sizes: T, roundings: int) -> T:
    """A bound on the rounding error of a sum whose terms have absolute values that add up to `sizes`, as computed.

    A sum of n products has n roundings, one of n floats n - 1 [T 9.10]. Products that underflow lose up to half of
    `SMALLEST` each, which is not counted here.
    """
    return sizes * (roundings * ULP)


def sum_up(a: Floats, axis: int | None = None, keepdims: bool = False) -> Floats:
    """An upper bound on the sum of numbers >= 0 along an axis.

    >>> sum_up(np.array([0.1, 0.2, 0.3])) > 0.6
    np.True_
    """
    total = a.sum(axis=axis, keepdims=keepdims)
    return rounded_up(total, _terms(a, total))


def sum_down(a: Floats, axis: int | None = None, keepdims: bool = False) -> Floats:
    """A lower bound on the sum of numbers >= 0 along an axis; the largest float where the sum overflows."""
    total = a.sum(axis=axis, keepdims=keepdims)
    return rounded_down(np.minimum(total, LARGEST), _terms(a, total))


def _terms(a: Floats, total: Floats) -> int:
    return a.size // max(total.size, 1)


def dot_up(a: Floats, b: Floats) -> Floats:
    """An upper bound on the matrix product of arrays of numbers >= 0, entry by entry; sums of nothing but zeros are 0.

    A sum of n products has n roundings, and underflow takes less than `n SMALLEST` from it.
    """
    count = a.shape[-1]
    product = np.asarray(a @ b)
    bound = rounded_up(product, count) + count * SMALLEST
    nothing = product == 0
    if nothing.any():
        met = (a != 0).astype(np.float64) @ (b != 0)
        bound = np.where(nothing & (met == 0), 0.0, bound)
    return bound


def times_up(a: Floats | float, b: Floats | float) -> Floats:
    """An upper bound on a product of numbers >= 0; zero times anything is zero."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where((np.asarray(a) == 0) | (np.asarray(b) == 0), 0.0, above(np.multiply(a, b)))


def quotient_up(a: Floats | float, b: Floats | float) -> Floats:
    """An upper bound on a / b for a >= 0 and b > 0."""
    with np.errstate(over="ignore"):
        return np.where(np.asarray(a) == 0, 0.0, above(np.divide(a, b)))


def norm_up(a: Floats, axis: int, keepdims: bool = False) -> Floats:
    """An upper bound on the Euclidean length along an axis, at any scale.

    Divided by a power of two, the largest number is in [1/2, 1), so squares that underflow lose nothing beside it. The
    sum of n squares has n roundings; its root has half of them and one more.
    """
    sizes = np.abs(a)
    with np.errstate(under="ignore", over="ignore", invalid="ignore"):
        shift = np.frexp(sizes.max(axis=axis, keepdims=True, initial=0.0))[1]
        scaled = np.ldexp(sizes, -shift)
        length = np.sqrt((scaled * scaled).sum(axis=axis, keepdims=True))
        length = rounded_up(length, a.shape[axis] // 2 + 3)
        length = np.where(length == 0, 0.0, above(np.ldexp(length, shift)))
    return length if keepdims else length.squeeze(axis)


def exp_up(x: Floats, roundings: int = 0) -> Floats:
    """An upper bound on e^x, for an x that was computed with so many roundings of numbers of its size [T 9.11]."""
    with np.errstate(over="ignore", under="ignore"):
        return np.exp(x) * (1 + _exp_units(x, roundings) * ULP) + (LIBRARY_ULPS + 1) * SMALLEST


def exp_down(x: Floats, roundings: int = 0) -> Floats:
    """A lower bound on e^x, for an x that was computed with so many roundings of numbers of its size [T 9.11]."""
    with np.errstate(over="ignore", under="ignore"):
        bound = np.minimum(np.exp(x), LARGEST) * (1 - _exp_units(x, roundings) * ULP) - (LIBRARY_ULPS + 1) * SMALLEST
        return np.maximum(bound, 0.0)


def _exp_units(x: Floats, roundings: int) -> Floats | int:
    """Units in the last place that a computed e^x is off; at most all of it."""
    return np.minimum(LIBRARY_ULPS + 2 + roundings * np.abs(x), 1 / ULP) if roundings else LIBRARY_ULPS + 2


def expm1_up(x: Floats) -> Floats:
    """An upper bound on e^x - 1 for x >= 0 [T 9.11]."""
    with np.errstate(over="ignore", under="ignore"):
        return np.expm1(x) * (1 + (LIBRARY_ULPS + 2) * ULP) + (LIBRARY_ULPS + 1) * SMALLEST


def lambert_up(x: float) -> float:
    """An upper bound on W(x), x >= 0, where W(x) is the w with `w e^w = x`.

    Newton's method comes close; `w e^w` grows, so w is a bound as soon as a lower bound on `w e^w` is x or more.

    >>> round(lambert_up(exp(-1)), 5)
    0.27846
    """
    w = log1p(x)
    for _ in range(50):
        w -= (w * exp(w) - x) / (exp(w) * (1 + w))
    while rounded_down(w * float(exp_down(np.array(w))), 1) < x:
        w = nextafter(rounded_up(w, 1), inf)
    return w


def restated(bound: T) -> T:
    """The largest bound that counts as this one, computed again in another order."""
    return bound * (1 + RESTATED)


def with_room(number: T) -> T:
    """A number with room for the rounding of what it is compared with. For checks of consistency, never in a bound."""
    return number * (1 + COMPARED)


def about_at_most(part: float, whole: float) -> bool:
    """Is one number at most another, up to the rounding of both? For checks of consistency, never in a bound."""
    return part <= with_room(whole) + LEAST_NORMAL


def whole_root(number: int, degree: int) -> int:
    """The largest whole number whose power is at most `number` >= 0.

    >>> whole_root(1000, 3), whole_root(999, 3)
    (10, 9)
    """
    root = round(number ** (1 / degree))
    while root**degree > number:
        root -= 1
    while (root + 1) ** degree <= number:
        root += 1
    return root


def _head(a: Floats) -> Floats:
    scaled = _SPLIT * a
    return scaled - (scaled - a)
