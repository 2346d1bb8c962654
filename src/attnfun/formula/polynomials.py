"""Piecewise polynomials of SciPy as programs: PPoly, CubicSpline and its kin, and BSpline.

On each piece the operations are those that SciPy does there; which piece it is, comparisons with the breakpoints say.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .program import Builder, Floats, Program

MOST = 500
"""Pieces of a function that is written down."""


def piecewise_polynomial(function: Any, variables: int, name: str) -> Program | None:
    """The program of a piecewise polynomial in one variable with numbers as values; None for anything else."""
    if variables != 1 or not type(function).__module__.startswith("scipy.interpolate"):
        return None
    from scipy.interpolate import BSpline, PPoly

    builder = Builder((0, len(name.encode())))
    x = builder.variable(0)
    if isinstance(function, PPoly) and function.c.ndim == 2 and function.extrapolate is not False:
        if function.extrapolate == "periodic":
            return None
        knots = np.asarray(function.x, dtype=np.float64)
        pieces = [_powers(builder, x, float(knots[k]), function.c[:, k]) for k in range(min(len(knots) - 1, MOST + 1))]
    elif isinstance(function, BSpline) and function.c.ndim == 1 and function.extrapolate is True:
        degree, count = int(function.k), len(function.t) - 2 * int(function.k) - 1
        spans = [k for k in range(degree, degree + count) if function.t[k] < function.t[k + 1]]
        knots = np.array([*(function.t[k] for k in spans), function.t[degree + count]], dtype=np.float64)
        pieces = [_de_boor(builder, x, function.t, function.c, degree, k) for k in spans[: MOST + 1]]
    else:
        return None
    if len(pieces) > MOST or not (np.diff(knots) > 0).all():
        return None
    result = pieces[-1]
    for knot, piece in reversed(list(zip(knots[1:-1], pieces[:-1], strict=True))):
        below = builder.apply("<", [x, builder.constant(float(knot))])
        result = builder.apply("where", [below, piece, result])
    return builder.program(name, [result], False)


def _powers(builder: Builder, x: int, knot: float, coefficients: Floats) -> int:
    """`Σ_k c_k s^k` with s = x - knot, lowest power first, as SciPy adds it up."""
    offset = builder.apply("-", [x, builder.constant(knot)])
    total = builder.constant(float(coefficients[-1]))
    power = offset
    for k, coefficient in enumerate(coefficients[-2::-1]):
        power = builder.apply("*", [power, offset]) if k else power
        total = builder.apply("+", [total, builder.apply("*", [builder.constant(float(coefficient)), power])])
    return total


def _de_boor(builder: Builder, x: int, knots: Floats, coefficients: Floats, degree: int, span: int) -> int:
    """De Boor on a span: `d_j <- (1 - α) d_{j-1} + α d_j` with `α = (x - t_j)/(t_{j+1+k-r} - t_j)`."""
    d = [builder.constant(float(coefficients[span - degree + j])) for j in range(degree + 1)]
    for r in range(1, degree + 1):
        for j in range(degree, r - 1, -1):
            low, high = float(knots[span - degree + j]), float(knots[span + 1 + j - r])
            gap = builder.apply("-", [builder.constant(high), builder.constant(low)])
            share = builder.apply("/", [builder.apply("-", [x, builder.constant(low)]), gap])
            step = builder.apply("*", [share, builder.apply("-", [d[j], d[j - 1]])])
            d[j] = builder.apply("+", [d[j - 1], step])
    return d[degree]
