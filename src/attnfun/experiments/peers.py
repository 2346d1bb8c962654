"""What others need for functions of one variable: polynomials, splines, rational functions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Chebyshev
from scipy.interpolate import AAA, CubicSpline

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats], Floats]
"""(S,) -> (S,) on [-1, 1]."""

CHECKS = np.cos(np.linspace(0, np.pi, 1001))
MOST_COEFFICIENTS, MOST_KNOTS = 2**11, 2**14


def _shortest(errors: Callable[[int], Floats], eps: float, start: int, largest: int) -> int | None:
    """The first size whose errors are at most eps, sizes growing by a tenth; None beyond the largest."""
    size = start
    while size <= largest:
        if errors(size).max() <= eps:
            return size
        size += max(1, size // 10)
    return None


def chebyshev(function: Function, eps: float) -> int | None:
    """Coefficients of a Chebyshev interpolant."""
    truth = function(CHECKS)

    def errors(size: int) -> Floats:
        series = Chebyshev.interpolate(function, size - 1)
        return np.abs(series(CHECKS) - truth)

    return _shortest(errors, eps, 2, MOST_COEFFICIENTS)


def spline(function: Function, eps: float) -> int | None:
    """Knots of a cubic spline, equidistant."""
    truth = function(CHECKS)

    def errors(size: int) -> Floats:
        knots = np.linspace(-1, 1, size)
        return np.abs(CubicSpline(knots, function(knots))(CHECKS) - truth)

    return _shortest(errors, eps, 4, MOST_KNOTS)


def rational(function: Function, eps: float) -> int:
    """Support points of a rational interpolant found by AAA."""
    points = CHECKS
    values = function(points)
    return len(AAA(points, values, rtol=eps / np.abs(values).max(), max_terms=150).support_points)
