"""Directed rounding without changing the processor's mode: the floats just below and above a real result.

Sums and products find the sign of their own rounding error exactly (Knuth's two-sum, Dekker's
two-product), so an exact result is not widened: `1 - 1` is `[0, 0]` and `sqrt(1 - x**2)` stays defined on
all of [-1, 1]. Library functions come with a relative allowance instead.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

ULP = 2.0**-52
LIBRARY_ULPS = 8
"""Allowance for NumPy's and SciPy's elementary functions, in units in the last place."""

ROUNDINGS = 2**20
"""Operations on the way to a result, at most."""

LARGEST = float(np.finfo(np.float64).max)
SMALLEST = 5e-324
"""The smallest positive float. A product that underflows is off by at most half of it."""

_SPLIT = 2.0**27 + 1
_SAFE_LARGE, _SAFE_SMALL = 2.0**990, 2.0**-960


def below(value: Floats) -> Floats:
    """The next float downwards."""
    return np.nextafter(value, -np.inf)


def above(value: Floats) -> Floats:
    """The next float upwards."""
    return np.nextafter(value, np.inf)


def _steer(result: Floats, error: Floats, trusted: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Floats around `result + error`; where the error is not trusted, one step both ways."""
    low = np.where(trusted & (error >= 0), result, below(result))
    high = np.where(trusted & (error <= 0), result, above(result))
    low = np.where(np.isnan(low), -np.inf, low)
    return low, np.where(np.isnan(high), np.inf, high)


def add(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Floats `(low, high)` with `low <= a + b <= high` in real arithmetic."""
    with np.errstate(all="ignore"):
        total = a + b
        shadow = total - a
        error = (a - (total - shadow)) + (b - shadow)
        return _steer(total, error, np.isfinite(error))


def multiply(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Floats `(low, high)` with `low <= a * b <= high` in real arithmetic; zero times infinity is zero."""
    with np.errstate(all="ignore"):
        product = a * b
        a_high, b_high = _head(a), _head(b)
        a_low, b_low = a - a_high, b - b_high
        error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
        trusted = (
            (np.abs(a) < _SAFE_LARGE)
            & (np.abs(b) < _SAFE_LARGE)
            & (np.abs(product) < _SAFE_LARGE)
            & (np.abs(product) > _SAFE_SMALL)
        )
        zero = (a == 0) | (b == 0)
        low, high = _steer(product, error, trusted)
        return np.where(zero, 0.0, low), np.where(zero, 0.0, high)


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


def above_real(value: float) -> float:
    """A bound on the real value of an expression that floats, rounded to nearest, evaluate to `value`.

    For sums, products, quotients and roots of numbers >= 0 without underflow, with at most n = ROUNDINGS operations on
    the way from any number to the result, library functions counted as LIBRARY_ULPS. *Proof.* Each of them keeps at
    least `1 - u` of its result, so that `value >= (1 - u)^n real >= (1 - n u) real`, and `1/(1 - n u) <= 1 + 2 n u`. ∎
    """
    end = np.array(value)
    return float(widen(end, end, ROUNDINGS)[1])


def _head(a: Floats) -> Floats:
    scaled = _SPLIT * a
    return scaled - (scaled - a)
