"""Piecewise polynomials of SciPy as programs: PPoly, CubicSpline and its kin, BSpline, UnivariateSpline, interp1d.

On each piece the operations are those that SciPy does there; which piece it is, comparisons with the breakpoints say.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from .program import Floats, Program, ProgramBuilder


@dataclass(frozen=True)
class PolynomialTuning:
    """How many pieces are written out."""

    most: int = 500
    """Pieces of a function that is written down. For time."""


TUNING = PolynomialTuning()


def is_spline(function: Any) -> bool:
    """Is it an object of SciPy that can be written down?"""
    return _pieces(ProgramBuilder(), 0, function) is not None if _of_scipy(function) else False


def _of_scipy(function: Any) -> bool:
    return type(function).__module__.startswith("scipy.interpolate")


def piecewise_polynomial(function: Any, variables: int, name: str) -> Program | None:
    """The program of a piecewise polynomial in one variable with numbers as values; None for anything else."""
    if variables != 1 or not _of_scipy(function):
        return None
    builder = ProgramBuilder((0, len(name.encode())))
    x = builder.variable(0)
    pieces = _pieces(builder, x, function)
    return None if pieces is None else builder.program(name, [pieces.joined(builder, x)], False)


def spline(builder: ProgramBuilder, x: int, function: Any) -> int:
    """A piecewise polynomial of SciPy (`is_spline`) of an operation x."""
    pieces = _pieces(builder, x, function)
    if pieces is None:
        raise ValueError(f"{type(function).__name__} is no piecewise polynomial")
    return pieces.joined(builder, x)


@dataclass(frozen=True)
class Pieces:
    """Polynomials between knots."""

    knots: Floats
    polynomials: list[int]
    beyond: bool
    """Do the first and the last go on outside of the knots?"""

    def joined(self, builder: ProgramBuilder, x: int) -> int:
        """The piece on which x lies."""
        result = self.polynomials[-1]
        for knot, piece in reversed(list(zip(self.knots[1:-1], self.polynomials[:-1], strict=True))):
            below = builder.apply("<", [x, builder.constant(float(knot))])
            result = builder.apply("where", [below, piece, result])
        if self.beyond:
            return result
        low, high = (builder.constant(float(knot)) for knot in self.knots[[0, -1]])
        inside = builder.apply("and", [builder.apply(">=", [x, low]), builder.apply("<=", [x, high])])
        return builder.apply("where", [inside, result, builder.substitute("sqrt(0 - 1)", [])])  # no number


def _pieces(builder: ProgramBuilder, x: int, function: Any) -> Pieces | None:
    """The polynomials of an object of SciPy; None for what is not piecewise polynomial, or of too many pieces."""
    from scipy.interpolate import BSpline, PPoly, UnivariateSpline, interp1d

    beyond = True
    if isinstance(function, UnivariateSpline):
        inner, degree, ext = (
            function.get_knots(),
            function.get_coeffs().size - function.get_knots().size + 1,
            function.ext,
        )
        if ext not in (0, "extrapolate"):
            return None
        knots = np.concatenate([[inner[0]] * degree, inner, [inner[-1]] * degree])
        function = BSpline(knots, function.get_coeffs(), degree)
    if isinstance(function, PPoly) and function.c.ndim == 2 and function.extrapolate != "periodic":
        knots, beyond = np.asarray(function.x, dtype=np.float64), bool(function.extrapolate)
        pieces = [
            _powers(builder, x, float(knots[k]), function.c[:, k]) for k in range(min(len(knots) - 1, TUNING.most + 1))
        ]
    elif isinstance(function, BSpline) and function.c.ndim == 1 and function.extrapolate is True:
        degree, count = int(function.k), len(function.t) - 2 * int(function.k) - 1
        spans = [k for k in range(degree, degree + count) if function.t[k] < function.t[k + 1]]
        knots = np.array([*(function.t[k] for k in spans), function.t[degree + count]], dtype=np.float64)
        pieces = [_de_boor(builder, x, function.t, function.c, degree, k) for k in spans[: TUNING.most + 1]]
    elif isinstance(function, interp1d) and getattr(function, "_kind", "") == "linear" and np.ndim(function.y) == 1:
        knots, values, beyond = np.asarray(function.x, dtype=np.float64), function.y, False
        count = min(len(knots) - 1, TUNING.most + 1)
        pieces = [_chord(builder, x, knots[k : k + 2], values[k : k + 2]) for k in range(count)]
    else:
        return None
    rising = len(pieces) <= TUNING.most and bool((np.diff(knots) > 0).all())
    return Pieces(knots, pieces, beyond) if rising else None


def _chord(builder: ProgramBuilder, x: int, ends: Floats, values: Floats) -> int:
    """`y_0 + (y_1 - y_0)/(t_1 - t_0) (x - t_0)`."""
    (t0, t1), (y0, y1) = ([builder.constant(float(end)) for end in pair] for pair in (ends, values))
    slope = builder.apply("/", [builder.apply("-", [y1, y0]), builder.apply("-", [t1, t0])])
    return builder.apply("+", [builder.apply("*", [slope, builder.apply("-", [x, t0])]), y0])


def _powers(builder: ProgramBuilder, x: int, knot: float, coefficients: Floats) -> int:
    """`Σ_k c_k s^k` with s = x - knot, lowest power first, as SciPy adds it up."""
    offset = builder.apply("-", [x, builder.constant(knot)])
    total = builder.constant(float(coefficients[-1]))
    power = offset
    for k, coefficient in enumerate(coefficients[-2::-1]):
        power = builder.apply("*", [power, offset]) if k else power
        total = builder.apply("+", [total, builder.apply("*", [builder.constant(float(coefficient)), power])])
    return total


def _de_boor(builder: ProgramBuilder, x: int, knots: Floats, coefficients: Floats, degree: int, span: int) -> int:
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
