"""Special functions on arrays: values from SciPy, enclosures and Taylor coefficients from `judge/special.py` [T 9.12].

The engine has no series of its own for them. Each interval is enclosed by itself, in ball arithmetic, and remembered: a
proof needs the same ones when it is searched for and when it is checked.

>>> enclosure("gamma")(Interval([1.0, -0.5], [3.0, 0.5])).hi, enclosure("gamma")(Interval(-0.5, 0.5)).defined
(array([ 2., inf]), array(False))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter
from typing import Any

import numpy as np
from flint import arb, fmpq

from ..arithmetic import Interval, Jet, as_interval
from ..arithmetic.jet_functions import compose
from ..arithmetic.series import Coefficients
from ..judge.ranges import Range, precision
from ..judge.special import LARGEST_ORDER, SPECIAL, Special, bessel, coefficients, range_of


@dataclass(frozen=True)
class SpecialTuning:
    """How much is kept."""

    remembered: int = 2**15
    """Enclosures of special functions that are kept. For memory."""


TUNING = SpecialTuning()

Order = tuple[float, float] | None
"""Ends of an interval that holds the order of a Bessel function."""


def enclosure(name: str) -> Callable[[Interval], Interval]:
    """Enclosures of a function of one variable."""
    return lambda x: _enclosed(name, None, x)


def series(name: str) -> Callable[[Interval, int], Coefficients]:
    """Its Taylor coefficients."""
    return lambda x, degree: _coefficients(name, None, x, degree)


def enclosure_of_order(name: str) -> Callable[[Any, Any], Interval]:
    """Enclosures of a function of an order, a number, and a variable."""

    def enclosed(order: Any, x: Any) -> Interval:
        ends = _order(as_interval(order))
        x = as_interval(x)
        return _unknown(x.shape) if ends is None else _enclosed(name, ends, x)

    return enclosed


def jets_of_order(name: str) -> Callable[[Any, Any], Jet]:
    """The same on Taylor series; the order is a number, as `ProgramBuilder` sees to, so only its value counts."""

    def composed(order: Any, x: Any) -> Jet:
        base = x.basis if isinstance(x, Jet) else order.basis
        inner = x if isinstance(x, Jet) else Jet.constant(base, as_interval(x))
        ends = _order(order.value if isinstance(order, Jet) else as_interval(order))
        shape = (base.degree + 1, *inner.shape)
        return compose(inner, _unknown(shape) if ends is None else _coefficients(name, ends, inner.value, base.degree))

    return composed


def _order(order: Interval) -> Order:
    """One number for all points, or None."""
    low, high = np.unique(order.lo), np.unique(order.hi)
    one = len(low) == len(high) == 1 and np.all(order.defined) and max(abs(low[0]), abs(high[0])) <= LARGEST_ORDER
    return (float(low[0]), float(high[0])) if one else None


def _unknown(shape: tuple[int, ...]) -> Interval:
    return Interval(np.full(shape, -np.inf), np.full(shape, np.inf), np.zeros(shape, dtype=bool))


def _enclosed(name: str, order: Order, x: Interval) -> Interval:
    ends = [_range(name, order, low, high) for low, high in zip(x.lo.flat, x.hi.flat, strict=True)]
    low, high, defined = (np.array([each[k] for each in ends]).reshape(x.shape) for k in range(3))
    return Interval(low, high, x.defined & defined.astype(bool))


def _coefficients(name: str, order: Order, x: Interval, degree: int) -> Coefficients:
    """(degree + 1, *S)."""
    found = [_series(name, order, low, high, degree) for low, high in zip(x.lo.flat, x.hi.flat, strict=True)]
    ends = np.array(found, dtype=np.float64).reshape(*x.shape, degree + 1, 2)
    low, high = (np.moveaxis(ends[..., k], -1, 0) for k in range(2))  # (degree + 1, *S)
    return Interval(low, high, x.defined & np.isfinite(low).all(axis=0) & np.isfinite(high).all(axis=0))


@lru_cache
def _function(name: str, order: Order) -> Special:
    if order is None:
        return SPECIAL[name]
    low, high = order
    exact = Fraction(low)
    return bessel(name, fmpq(exact.numerator, exact.denominator) if low == high else arb(low).union(arb(high)))


@lru_cache(maxsize=TUNING.remembered)
def _range(name: str, order: Order, low: float, high: float) -> tuple[float, float, bool]:
    """Ends of an interval with all values on [low, high], and whether it is defined there."""
    with precision():
        found = range_of(_function(name, order), Range(arb(low), arb(high)))
        return _down(found.low), _up(found.high), found.defined


@lru_cache(maxsize=TUNING.remembered)
def _series(name: str, order: Order, low: float, high: float, degree: int) -> tuple[tuple[float, float], ...]:
    """Ends of the coefficients 0..degree on [low, high]."""
    with precision():
        x = arb(low).union(arb(high)) if low < high else arb(low)
        known = coefficients(_function(name, order), x, degree)
        return tuple((-inf, inf) if each.is_nan() else (_down(each.lower()), _up(each.upper())) for each in known)


def _down(number: arb) -> float:
    return nextafter(float(number), -inf)


def _up(number: arb) -> float:
    return nextafter(float(number), inf)
