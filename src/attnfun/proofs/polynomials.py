"""Polynomials on boxes: how large one gets, and its coefficients at other points of the box [T 9.8].

**Bernstein's bound.** On [-1, 1] the monomial `τ^k` is `Σ_i b_ki B_i` with the M + 1 Bernstein polynomials of degree M,
which are not negative and add up to one, and

    b_ki = Σ_l (-1)^{k-l} C(i, l) C(M-i, k-l) / C(M, k),        |b_ki| <= 1.

So a polynomial `Σ c_α τ^α` on [-1, 1]^D lies between the least and the largest of the `Σ_α c_α Π_k b_{α_k i_k}`: never
more than `Σ |c_α|`, and for a wave `cos ωτ` about `e^{ω²/2M}` instead of `e^ω`.
"""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np
import numpy.typing as npt

from ..arithmetic import Jet
from ..arithmetic.basis import Basis
from ..arithmetic.directed import LIBRARY_ULPS, rounded_up, sum_error
from ..arithmetic.jets import TINY

Floats = npt.NDArray[np.float64]

MOST_CONTROLS = 2048
"""Bernstein coefficients of one polynomial, at most; where there would be more, sizes of coefficients are added up."""


@lru_cache
def _controls(base: Basis) -> Floats:
    """The matrix from coefficients to Bernstein coefficients, (C, (M+1)^D), correct to (D + 1) units."""
    top, degree = range(base.degree + 1), base.degree
    signed = [
        [[(-1) ** (k - j) * comb(i, j) * comb(degree - i, k - j) for j in range(k + 1)] for i in top] for k in top
    ]
    table = np.array([[sum(terms) / comb(degree, k) for terms in row] for k, row in enumerate(signed)])  # (M+1, M+1)
    rows = []
    for exponents in base.exponents:
        row = np.ones(1)
        for exponent in exponents:
            row = np.multiply.outer(row, table[exponent]).ravel()
        rows.append(row)
    return np.stack(rows)


def largest_value(base: Basis, coefficients: Floats) -> Floats:
    """Bound on `|Σ c_α τ^α|` over [-1, 1]^D for float coefficients (..., C); (...). O(C (M+1)^D) each."""
    total = np.abs(coefficients).sum(axis=-1)
    slack = sum_error(total, base.size + 2 * base.variables + 8)
    if (base.degree + 1) ** base.variables > MOST_CONTROLS:
        return total + slack
    with np.errstate(invalid="ignore", under="ignore"):
        controls = coefficients @ _controls(base)  # (..., K)
    return np.maximum(controls.max(axis=-1), -controls.min(axis=-1)) + slack


def reaches(base: Basis, radius: Floats) -> Floats:
    """`r^α`, rounded up, for half-widths r (B, D); (B, C).

    Fractions and exponents of r apart: a power of one axis may underflow while the product with another's does not.
    """
    fraction, exponent = (part[:, None, :] for part in np.frexp(radius))  # (B, 1, D)
    powers = np.prod(fraction**base.exponents, axis=2)  # (B, C)
    powers = rounded_up(powers, (2 * LIBRARY_ULPS + 1) * base.variables)
    with np.errstate(under="ignore", over="ignore"):
        return np.ldexp(powers, (exponent * base.exponents).sum(axis=2)) + TINY


def recentred(at: Jet, reach: Floats) -> Jet:
    """Enclosures, over boxes with reaches (B, C), of the coefficients of the polynomials `at` (B, ..., C).

    At a point p + ξ the coefficient of index α is `Σ_γ C(α+γ, α) a_{α+γ} ξ^γ`.
    """
    base, shape = at.basis, (len(reach), *[1] * (at.ndim - 1))
    with np.errstate(invalid="ignore", under="ignore"):
        size = np.moveaxis(np.abs(at.mid) + at.rad, -1, 0)  # (C, B, ...)
        rad = np.moveaxis(at.rad, -1, 0).copy()
        for k in range(1, base.size):
            places = base.products[k]
            ways = base.choices[k].reshape(-1, *[1] * len(shape))
            rad[: len(places)] += ways * size[places] * reach[:, k].reshape(shape)
        rad = rounded_up(rad, 4 * base.size + 8) + TINY
    return Jet(base, at.mid, np.moveaxis(rad, 0, -1), at.degree)
