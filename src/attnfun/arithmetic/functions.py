"""Interval versions of the elementary functions.

Three shapes cover almost all of them: increasing, decreasing, and the rest (even, periodic, powers).
Library values are widened by `LIBRARY_ULPS`; a function's own range (|sin| <= 1) trims the result back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import directed
from .directed import Floats
from .interval import UFUNCS, Interval, implements


def _both(a: Interval, b: Interval) -> Any:
    return a.defined & b.defined


def _ends(a: Interval, axes: int) -> Floats:
    """Both ends as one array (2, *S), or (1, *S) where they are the same, S padded with ones to so many axes."""
    shape = (1,) * (axes - a.ndim) + a.shape
    return a.lo.reshape(1, *shape) if a.lo is a.hi else np.stack([a.lo, a.hi]).reshape(2, *shape)


# ---------------------------------------------------------------- arithmetic: correctly rounded outwards


@implements("add")
def add(a: Interval, b: Interval) -> Interval:
    """Sum."""
    return Interval(directed.add_down(a.lo, b.lo), directed.add_up(a.hi, b.hi), _both(a, b))


@implements("subtract")
def subtract(a: Interval, b: Interval) -> Interval:
    """Difference."""
    return Interval(directed.add_down(a.lo, -b.hi), directed.add_up(a.hi, -b.lo), _both(a, b))


@implements("multiply")
def multiply(a: Interval, b: Interval) -> Interval:
    """Product: the extreme products of the ends. One argument twice is a square."""
    if a is b:
        return square(a)
    axes = max(a.ndim, b.ndim)
    low, high = directed.multiply(_ends(a, axes)[:, None], _ends(b, axes))  # (2, 2, *S)
    return Interval(low.min(axis=(0, 1)), high.max(axis=(0, 1)), _both(a, b))


@implements("divide", "true_divide")
def divide(a: Interval, b: Interval) -> Interval:
    """Quotient; not defined where the divisor contains zero, and unbounded on one side if that does not change sign.

    >>> whole = divide(Interval([1.0, 1.0]), Interval([0.0, -1.0], [0.5, 1.0]))
    >>> whole.lo.round(3), whole.hi, whole.defined
    (array([  2., -inf]), array([inf, inf]), array([False, False]))
    """
    pole, axes = (b.lo <= 0) & (b.hi >= 0), max(a.ndim, b.ndim)
    ends = _ends(b, axes)
    if pole.any():
        ends = np.where(pole, 1.0, ends)
    low, high = directed.divide(_ends(a, axes)[:, None], ends)  # (2, 2, *S)
    low, high = np.fmin.reduce(low, axis=(0, 1)), np.fmax.reduce(high, axis=(0, 1))
    if pole.any():
        above, below = _beside_zero(a, b)
        low, high = np.where(pole, above.lo, low), np.where(pole, above.hi, high)
        falls = pole & (b.hi <= 0)
        low, high = np.where(falls, below.lo, low), np.where(falls, below.hi, high)
    return Interval(low, high, _both(a, b) & ~pole)


def _beside_zero(a: Interval, b: Interval) -> tuple[Interval, Interval]:
    """Quotients by the positive numbers up to b.hi, and by the negative ones from b.lo; all numbers if b has both.

    `a/y` with 0 < y <= h is at least `a/h` for a >= 0 and at most `a/h` for a <= 0; it has no other bound.
    """
    sides = list[Interval]()
    for edge, sign, one_sided in ((b.hi, 1.0, (b.lo >= 0) & (b.hi > 0)), (b.lo, -1.0, (b.hi <= 0) & (b.lo < 0))):
        safe = np.where(one_sided, edge, sign)
        start, end = (a.lo, a.hi) if sign > 0 else (a.hi, a.lo)  # of the numerator that gives the least quotient first
        least, most = directed.divide(start, safe)[0], directed.divide(end, safe)[1]
        low = np.where(one_sided & (sign * start >= 0), least, -np.inf)
        high = np.where(one_sided & (sign * end <= 0), most, np.inf)
        sides.append(Interval(low, high))
    return sides[0], sides[1]


@implements("negative")
def negative(a: Interval) -> Interval:
    """Negation, exact."""
    return Interval(-a.hi, -a.lo, a.defined)


@implements("positive")
def positive(a: Interval) -> Interval:
    """The interval itself."""
    return a


@implements("reciprocal")
def reciprocal(a: Interval) -> Interval:
    """1 / a."""
    return divide(Interval(1.0), a)


@implements("square")
def square(a: Interval) -> Interval:
    """The square, never below zero."""
    ends = _ends(a, a.ndim)  # (2, *S)
    low, high = directed.multiply(ends, ends)
    straddles = (a.lo <= 0) & (a.hi >= 0)
    return Interval(np.where(straddles, 0.0, low.min(axis=0)), high.max(axis=0), a.defined)


@implements("absolute", "fabs")
def absolute(a: Interval) -> Interval:
    """Absolute value, exact."""
    straddles = (a.lo <= 0) & (a.hi >= 0)
    low = np.where(straddles, 0.0, np.minimum(np.abs(a.lo), np.abs(a.hi)))
    return Interval(low, a.magnitude, a.defined)


@implements("minimum", "fmin")
def minimum(a: Interval, b: Interval) -> Interval:
    """The smaller, exact."""
    return Interval(np.minimum(a.lo, b.lo), np.minimum(a.hi, b.hi), _both(a, b))


@implements("maximum", "fmax")
def maximum(a: Interval, b: Interval) -> Interval:
    """The larger, exact."""
    return Interval(np.maximum(a.lo, b.lo), np.maximum(a.hi, b.hi), _both(a, b))


@implements("sign")
def sign(a: Interval) -> Interval:
    """-1, 0 or 1; both sides where the interval contains zero."""
    return Interval(np.sign(a.lo), np.sign(a.hi), a.defined)


@implements("sqrt")
def sqrt(a: Interval) -> Interval:
    """Square root on the part of the interval that is not negative."""
    low, high = directed.root(np.maximum(a.lo, 0.0))[0], directed.root(np.maximum(a.hi, 0.0))[1]
    return _empty_where(a.hi < 0, Interval(low, high, a.defined & (a.lo >= 0)))


# ---------------------------------------------------------------- monotone library functions

Values = Callable[[Floats], Floats]


def monotone(
    function: Values,
    within: tuple[float, float] = (-np.inf, np.inf),
    domain: tuple[float, float] = (-np.inf, np.inf),
    falling: bool = False,
    pole: bool = False,
) -> Callable[[Interval], Interval]:
    """Enclosures of an increasing (or falling) function; `pole` says that the left edge of its domain is one.

    >>> monotone(np.exp, within=(0.0, np.inf))(Interval(0.0, 1.0))
    Interval[1, 2.71828]
    """

    def enclosure(a: Interval) -> Interval:
        left, right = np.clip(a.lo, *domain), np.clip(a.hi, *domain)
        with np.errstate(all="ignore"):
            ends = (function(right), function(left)) if falling else (function(left), function(right))
        low, high = directed.widen(*ends)
        inside = (a.lo > domain[0] if pole else a.lo >= domain[0]) & (a.hi <= domain[1])
        result = Interval(np.clip(low, *within), np.clip(high, *within), a.defined & inside)
        return _empty_where((a.hi < domain[0]) | (a.lo > domain[1]), result)

    return enclosure


def _erf(x: Floats) -> Floats:
    from scipy.special import erf

    return erf(x)


_TOP = np.nextafter(np.pi, 4.0)
implements("exp")(monotone(np.exp, within=(0.0, np.inf)))
implements("expm1")(monotone(np.expm1, within=(-1.0, np.inf)))
implements("exp2")(monotone(np.exp2, within=(0.0, np.inf)))
implements("log")(monotone(np.log, domain=(0.0, np.inf), pole=True))
implements("log2")(monotone(np.log2, domain=(0.0, np.inf), pole=True))
implements("log10")(monotone(np.log10, domain=(0.0, np.inf), pole=True))
implements("log1p")(monotone(np.log1p, domain=(-1.0, np.inf), pole=True))
implements("cbrt")(monotone(np.cbrt))
implements("arcsin")(monotone(np.arcsin, within=(-_TOP / 2, _TOP / 2), domain=(-1.0, 1.0)))
implements("arccos")(monotone(np.arccos, within=(0.0, _TOP), domain=(-1.0, 1.0), falling=True))
implements("arctan")(monotone(np.arctan, within=(-_TOP / 2, _TOP / 2)))
implements("sinh")(monotone(np.sinh))
implements("tanh")(monotone(np.tanh, within=(-1.0, 1.0)))
implements("arcsinh")(monotone(np.arcsinh))
implements("erf")(monotone(_erf, within=(-1.0, 1.0)))


def _empty_where(nowhere: Any, result: Interval) -> Interval:
    """Where the function is defined at no point of the interval: unbounded, so that no bound is claimed."""
    return Interval(
        np.where(nowhere, -np.inf, result.lo), np.where(nowhere, np.inf, result.hi), result.defined & ~nowhere
    )


# ---------------------------------------------------------------- even, periodic, powers


@implements("cosh")
def cosh(a: Interval) -> Interval:
    """cosh(|a|), increasing in |a|."""
    size = absolute(a)
    with np.errstate(over="ignore"):
        low, high = directed.widen(np.cosh(size.lo), np.cosh(size.hi))
    return Interval(np.maximum(low, 1.0), high, a.defined)


def _reaches(a: Interval, phase: float, period: float) -> Any:
    """Might [lo, hi] contain `phase + k * period`? Never a wrong no: the quotients are widened first."""
    with np.errstate(all="ignore"):
        left, right = (a.lo - phase) / period, (a.hi - phase) / period
        slack = 16 * directed.ULP * (np.maximum(np.abs(left), np.abs(right)) + 1)
        missed = np.ceil(left - slack) > np.floor(right + slack)
    return ~missed


def _wave(function: Values, crest: float) -> Callable[[Interval], Interval]:
    """Enclosure of sin or cos: the ends, plus 1 or -1 where a crest or a trough is inside."""

    def interval_version(a: Interval) -> Interval:
        bounded = np.isfinite(a.lo) & np.isfinite(a.hi)
        low, high = (np.where(bounded, end, 0.0) for end in (a.lo, a.hi))
        ends = function(low), function(high)
        least, most = directed.widen(np.minimum(*ends), np.maximum(*ends))
        top = _reaches(a, crest, 2 * np.pi) | ~bounded
        bottom = _reaches(a, crest + np.pi, 2 * np.pi) | ~bounded
        return Interval(
            np.where(bottom, -1.0, np.maximum(least, -1.0)),
            np.where(top, 1.0, np.minimum(most, 1.0)),
            a.defined,
        )

    return interval_version


implements("sin")(_wave(np.sin, np.pi / 2))
implements("cos")(_wave(np.cos, 0.0))


@implements("tan")
def tan(a: Interval) -> Interval:
    """Increasing between its poles; unbounded across one."""
    pole = _reaches(a, np.pi / 2, np.pi)
    low, high = directed.widen(np.tan(np.where(pole, 0.0, a.lo)), np.tan(np.where(pole, 0.0, a.hi)))
    return Interval(np.where(pole, -np.inf, low), np.where(pole, np.inf, high), a.defined & ~pole)


@implements("power", "float_power")
def power(a: Interval, b: Interval) -> Interval:
    """`a ** b`: whole constant exponents on any base, real exponents on bases that are not negative."""
    whole = (b.lo == b.hi) & (b.lo == np.round(b.lo)) & np.isfinite(b.lo)
    exponents = np.unique(b.lo[whole])
    if len(exponents) == 1 and whole.all():
        return _whole_power(a, float(exponents[0]))
    result = _real_power(a, b)
    for exponent in exponents:
        here, piece = whole & (b.lo == exponent), _whole_power(a, float(exponent))
        ends = (np.where(here, getattr(piece, end), getattr(result, end)) for end in ("lo", "hi", "defined"))
        result = Interval(*ends)
    return result


def _whole_power(a: Interval, exponent: float) -> Interval:
    """A power whose exponent is a whole number of any size; those that are odd are below 2^53."""
    if exponent < 0:
        return divide(Interval(1.0), _whole_power(a, -exponent))
    if exponent in (0, 1):
        return a if exponent else Interval(np.ones_like(a.lo), None, a.defined)
    if exponent == 2:
        return square(a)
    even = exponent % 2 == 0
    base = absolute(a) if even else a
    with np.errstate(over="ignore", under="ignore"):
        low, high = directed.widen(base.lo**exponent, base.hi**exponent)
    low, high = np.where(base.lo >= 0, np.maximum(low, 0.0), low), np.where(base.hi <= 0, np.minimum(high, 0.0), high)
    return Interval(low, high, a.defined)


def _real_power(a: Interval, b: Interval) -> Interval:
    """On x >= 0, `x**y` is monotone in each argument alone, so its extremes are at the corners.

    Zero is the edge of the natural domain for positive exponents and a pole for the others.
    """
    left, right = np.maximum(a.lo, 0.0), np.maximum(a.hi, 0.0)
    with np.errstate(all="ignore"):
        corners = [np.power(x, y) for x in (left, right) for y in (b.lo, b.hi)]
    low, high = directed.widen(np.minimum.reduce(corners), np.maximum.reduce(corners))
    pole = (a.lo <= 0) & (b.lo <= 0)
    defined = _both(a, b) & (a.lo >= 0) & ~pole
    result = Interval(np.where(pole, 0.0, np.maximum(low, 0.0)), np.where(pole, np.inf, high), defined)
    return _empty_where(a.hi < 0, result)


__all__ = ["UFUNCS"]
