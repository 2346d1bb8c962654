"""Elementwise functions of given networks: enclosures of values and slopes, and the lines that follow from them.

A function is a record: its value on intervals, its slope on intervals, and its corners if it is piecewise linear. A
line `slope x + offset` with a bound on its distance from the function over [lo, hi] follows without any further
knowledge of the function [T 12.3]: corners and ends decide where it is piecewise linear, and elsewhere pieces of the
interval, on each of which values at both ends and a range of slopes bound the function from both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import pi, sqrt
from typing import Any

import numpy as np
from scipy import special

from ..arithmetic import Interval
from ..arithmetic.directed import Floats, above, add_up, below, rounded_up

PIECES = 12
"""Pieces of an interval on which slopes are bounded."""
SMALL_ENOUGH = 2.0**-30
"""Intervals narrower than this fraction of their size are taken as one piece: there is nothing to gain."""


Enclosed = Any
"""An interval, on which NumPy's functions run; type checkers know them on arrays only."""


@dataclass(frozen=True)
class IntervalFunction:
    """A function of one number, by what it does to intervals."""

    value: Callable[[Enclosed], Enclosed]
    slope: Callable[[Enclosed], Enclosed]
    corners: tuple[float, ...] | None = None
    """Where a piecewise linear function changes its slope; None for others."""
    error_scale: Callable[[Enclosed, Enclosed], Floats] | None = None
    """By argument and value: the size that its rounding is relative to; None where it is exact [T 12.6]."""


def _result(x: Enclosed, y: Enclosed) -> Floats:
    return y.magnitude


def _one(x: Enclosed, y: Enclosed) -> Floats:
    return np.maximum(y.magnitude, 1.0)


def _argument(x: Enclosed, y: Enclosed) -> Floats:
    return np.maximum(y.magnitude, x.magnitude)


def _steps(low: float, high: float, corner: float = 0.0) -> Callable[[Enclosed], Enclosed]:
    """Slopes `low` below the corner, `high` above it."""

    def slope(x: Enclosed) -> Enclosed:
        ends = [np.where(x.hi > corner, high, low), np.where(x.lo < corner, low, high)]
        return Interval(np.minimum(*ends), np.maximum(*ends))

    return slope


def _clip_slope(low: float, high: float) -> Callable[[Enclosed], Enclosed]:
    def slope(x: Enclosed) -> Enclosed:
        inside, outside = (x.hi > low) & (x.lo < high), (x.lo < low) | (x.hi > high)
        return Interval(np.where(outside, 0.0, 1.0), np.where(inside, 1.0, 0.0))

    return slope


def _logistic(x: Enclosed) -> Enclosed:
    return _known(1.0 / (1.0 + np.exp(-x)), 0.0, 1.0)


def _logistic_slope(x: Enclosed) -> Enclosed:
    return _known(1.0 / (2.0 + 2.0 * np.cosh(x)), 0.0, 0.25)


def _known(y: Enclosed, lo: float, hi: float) -> Enclosed:
    """Trimmed to the range of the function."""
    return Interval(np.clip(y.lo, lo, hi), np.clip(y.hi, lo, hi), y.defined)


def _normal(x: Enclosed) -> Enclosed:
    """Φ, the distribution function of the normal distribution."""
    return _known(0.5 * (1.0 + special.erf(x * ROOT_HALF)), 0.0, 1.0)


def _density(x: Enclosed) -> Enclosed:
    return np.exp(-0.5 * np.square(x)) * DENSITY


def _tanh_argument(x: Enclosed) -> Enclosed:
    return CUBIC_SCALE * (x + CUBIC * (x * np.square(x)))


def _gelu_tanh_slope(x: Enclosed) -> Enclosed:
    t = np.tanh(_tanh_argument(x))
    inner = CUBIC_SCALE * (1.0 + 3.0 * CUBIC * np.square(x))
    return 0.5 * (1.0 + t) + 0.5 * (x * (1.0 - np.square(t)) * inner)


def _elu(alpha: float) -> IntervalFunction:
    def value(x: Enclosed) -> Enclosed:
        return np.maximum(x, 0.0) + alpha * np.expm1(np.minimum(x, 0.0))

    def slope(x: Enclosed) -> Enclosed:
        left = alpha * np.exp(np.minimum(x, 0.0))
        lo = np.where(x.hi <= 0, left.lo, np.where(x.lo >= 0, 1.0, np.minimum(left.lo, 1.0)))
        hi = np.where(x.hi <= 0, left.hi, np.where(x.lo >= 0, 1.0, np.maximum(left.hi, 1.0)))
        return Interval(lo, hi)

    return IntervalFunction(value, slope, None, lambda x, y: np.maximum(y.magnitude, abs(alpha)))


def _softplus(beta: float) -> IntervalFunction:
    def value(x: Enclosed) -> Enclosed:
        z = beta * x
        return (np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z)))) / beta

    return IntervalFunction(
        value, lambda x: _logistic(beta * x), None, lambda x, y: np.maximum(y.magnitude, 1.0 / beta)
    )


def _power(exponent: float) -> IntervalFunction:
    def value(x: Enclosed) -> Enclosed:
        return np.power(x, exponent)

    def slope(x: Enclosed) -> Enclosed:
        return exponent * np.power(x, exponent - 1.0)

    def scale(x: Enclosed, y: Enclosed) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.maximum(np.abs(np.log(np.abs(x.lo))), np.abs(np.log(np.abs(x.hi))))
        whole = exponent == round(exponent) and 0 <= exponent <= 4
        return y.magnitude * (1.0 + (exponent if whole else abs(exponent) * np.where(np.isfinite(logs), logs, np.inf)))

    return IntervalFunction(value, slope, None, scale)


ROOT_HALF = Interval(below(np.array(sqrt(0.5))), above(np.array(sqrt(0.5))))
DENSITY = Interval(below(np.array(1 / sqrt(2 * pi))) - 1e-16, above(np.array(1 / sqrt(2 * pi))) + 1e-16)
CUBIC_SCALE = Interval(below(np.array(sqrt(2 / pi))) - 1e-15, above(np.array(sqrt(2 / pi))) + 1e-15)
ERF_SLOPE = Interval(below(np.array(2 / sqrt(pi))) - 1e-15, above(np.array(2 / sqrt(pi))) + 1e-15)
CUBIC = 0.044715
"""Of the approximation of GELU by tanh."""


def _relu(x: Enclosed) -> Enclosed:
    return np.maximum(x, 0.0)


FUNCTIONS: Mapping[str, Callable[..., IntervalFunction]] = {
    "relu": lambda: IntervalFunction(_relu, _steps(0.0, 1.0), (0.0,)),
    "leaky_relu": lambda slope: IntervalFunction(
        lambda x: np.maximum(x, 0.0) + slope * np.minimum(x, 0.0), _steps(slope, 1.0), (0.0,), _result
    ),
    "clip": lambda low, high: IntervalFunction(
        lambda x: Interval(np.clip(x.lo, low, high), np.clip(x.hi, low, high)), _clip_slope(low, high), (low, high)
    ),
    "abs": lambda: IntervalFunction(np.abs, _steps(-1.0, 1.0), (0.0,)),
    "sigmoid": lambda: IntervalFunction(_logistic, _logistic_slope, None, _one),
    "tanh": lambda: IntervalFunction(np.tanh, lambda x: _known(1.0 - np.square(np.tanh(x)), 0.0, 1.0), None, _one),
    "gelu": lambda: IntervalFunction(lambda x: x * _normal(x), lambda x: _normal(x) + x * _density(x), None, _argument),
    "gelu_tanh": lambda: IntervalFunction(
        lambda x: 0.5 * x * (1.0 + np.tanh(_tanh_argument(x))), _gelu_tanh_slope, None, _argument
    ),
    "silu": lambda: IntervalFunction(
        lambda x: x * _logistic(x), lambda x: _logistic(x) + x * _logistic_slope(x), None, _argument
    ),
    "softplus": _softplus,
    "elu": _elu,
    "exp": lambda: IntervalFunction(np.exp, np.exp, None, _result),
    "log": lambda: IntervalFunction(np.log, np.reciprocal, None, _one),
    "sqrt": lambda: IntervalFunction(np.sqrt, lambda x: 0.5 / np.sqrt(x), None, _result),
    "erf": lambda: IntervalFunction(special.erf, lambda x: np.exp(-np.square(x)) * ERF_SLOPE, None, _one),
    "square": lambda: IntervalFunction(np.square, lambda x: 2.0 * x, None, _result),
    "reciprocal": lambda: IntervalFunction(np.reciprocal, lambda x: -np.reciprocal(np.square(x)), None, _result),
    "power": _power,
    "inverse_root": lambda: IntervalFunction(
        lambda x: np.reciprocal(np.sqrt(x)), lambda x: -0.5 * np.reciprocal(x * np.sqrt(x)), None, _result
    ),
}
"""By operation, with the numbers in its data as arguments."""


@dataclass(frozen=True, eq=False)
class Line:
    """`|f(x) - (slope x + offset)| <= off` and `f(x)` in [lo, hi] on an interval, element by element."""

    slope: Floats
    offset: Floats
    off: Floats
    lo: Floats
    hi: Floats


def line(function: IntervalFunction, lo: Floats, hi: Floats) -> Line:
    """The chord of a function over [lo, hi], moved to the middle of what it leaves open [T 12.3]."""
    known = np.isfinite(lo) & np.isfinite(hi) & (lo <= hi)
    low, high = np.where(known, lo, 0.0), np.where(known, hi, 0.0)
    points, slopes = _cut(function, low, high)  # (P + 1, ...), (P, ...)
    with np.errstate(all="ignore"):
        values = function.value(Interval(points))
        chord = (values.mid[-1] - values.mid[0]) / (high - low)
        least, most = slopes.lo.min(axis=0), slopes.hi.max(axis=0)
        chord = np.where(np.isfinite(chord), chord, np.where(np.isfinite(least + most), (least + most) / 2, 0.0))
        chord = np.clip(chord, least, most)
        chord = np.where(np.isfinite(chord), chord, 0.0)
        distance = values - Interval(chord) * Interval(points)  # f(x) - slope x at the points
        if function.corners is None:
            floor, ceiling = _between(distance, slopes - Interval(chord), points)
            f_lo, f_hi = _between(values, slopes, points)
            natural = function.value(Interval(points[:-1], points[1:]))
            f_lo, f_hi = np.maximum(f_lo, natural.lo.min(axis=0)), np.minimum(f_hi, natural.hi.max(axis=0))
            flat = natural - Interval(chord) * Interval(points[:-1], points[1:])
            floor = np.maximum(floor, flat.lo.min(axis=0))
            ceiling = np.minimum(ceiling, flat.hi.max(axis=0))
        else:
            floor, ceiling = distance.lo.min(axis=0), distance.hi.max(axis=0)
            f_lo, f_hi = values.lo.min(axis=0), values.hi.max(axis=0)
        whole = function.value(Interval(low, high))
        good = known & whole.defined & np.isfinite(floor) & np.isfinite(ceiling)
        middle = np.where(good, floor / 2 + ceiling / 2, 0.0)
        off = np.maximum(add_up(ceiling, -middle), add_up(middle, -floor))
        unknown = function.value(Interval(lo, hi)) if not known.all() else whole
    return Line(
        np.where(good, chord, 0.0),
        middle,
        np.where(good, off, np.inf),
        np.where(good, f_lo, np.where(known, -np.inf, unknown.lo)),
        np.where(good, f_hi, np.where(known, np.inf, unknown.hi)),
    )


def slope_range(function: IntervalFunction, lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """All slopes of a function on [lo, hi]: bounds on (f(b) - f(a))/(b - a) for a, b there [T 12.5]."""
    known = np.isfinite(lo) & np.isfinite(hi)
    with np.errstate(all="ignore"):
        if function.corners is not None:
            slopes = function.slope(Interval(lo, hi))
            return slopes.lo, slopes.hi
        low, high = np.where(known, lo, 0.0), np.where(known, hi, 0.0)
        slopes = _cut(function, low, high)[1]
        least, most = slopes.lo.min(axis=0), slopes.hi.max(axis=0)
        good = known & function.value(Interval(low, high)).defined
    return np.where(good, least, -np.inf), np.where(good, most, np.inf)


def _cut(function: IntervalFunction, lo: Floats, hi: Floats) -> tuple[Floats, Interval]:
    """Points from lo to hi in order, the corners among them, and slopes in between."""
    if function.corners is not None:
        inner = [np.clip(corner, lo, hi) for corner in function.corners]
        points = np.stack([lo, *inner, hi])
    else:
        wide = bool(((hi - lo) > SMALL_ENOUGH * np.maximum(np.abs(lo), np.abs(hi))).any())
        pieces = PIECES if wide else 1
        shares = np.linspace(0.0, 1.0, pieces + 1).reshape(-1, *(1,) * lo.ndim)
        points = np.clip(lo + shares * (hi - lo), lo, hi)
        points[0], points[-1] = lo, hi
        points = np.maximum.accumulate(points, axis=0)
    with np.errstate(all="ignore"):
        return points, function.slope(Interval(points[:-1], points[1:]))


def _between(values: Interval, slopes: Interval, points: Floats) -> tuple[Floats, Floats]:
    """The least and largest value on all pieces, from values at the points and slopes on the pieces.

    From the left end it rises at most with the largest slope, towards the right end it falls at least with the least
    one; the two lines meet above the function.
    """
    width = add_up(points[1:], -points[:-1])
    ceiling = _tent(values.hi[:-1], values.hi[1:], slopes.lo, slopes.hi, width).max(axis=0)
    floor = -_tent(-values.lo[:-1], -values.lo[1:], -slopes.hi, -slopes.lo, width).max(axis=0)
    return floor, ceiling


def _tent(left: Floats, right: Floats, least: Floats, most: Floats, width: Floats) -> Floats:
    """The height at which `left + most t` and `right - least (width - t)` meet, or the higher end if one is monotone.

    Every t gives an upper bound on the part left of it by the first line if that rises, and right of it by the second
    if that falls, so where they are thought to meet matters little; both are taken there.
    """
    monotone = (least >= 0) | (most <= 0)
    with np.errstate(all="ignore"):
        meet = np.clip((right - left - least * width) / (most - least), 0.0, width)
        meet = np.where(np.isfinite(meet), meet, width / 2)
        peak = np.maximum(_line_up(left, most, meet), _line_up(right, -least, add_up(width, -meet)))
    bound = np.maximum(np.maximum(left, right), np.where(monotone, -np.inf, peak))
    return np.where(np.isnan(bound), np.inf, bound)


def _line_up(start: Floats, slope: Floats, way: Floats) -> Floats:
    """An upper bound on `start + slope way` for slope, way >= 0."""
    with np.errstate(all="ignore"):
        rise = np.where(way == 0, 0.0, rounded_up(slope * way, 1) + np.finfo(np.float64).smallest_subnormal)
        return add_up(start, rise)


def with_data(operation: str, data: Mapping[str, Any]) -> IntervalFunction:
    """The function of a node."""
    return FUNCTIONS[operation](**data)
