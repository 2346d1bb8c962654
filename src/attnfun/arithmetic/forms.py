"""Affine functions of bounded variables, with a slack for everything that is not affine about them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import csr_array

from .directed import LEAST_NORMAL, SMALLEST, ULP, Floats, above, dot_up, rounded_up, times_up
from .interval import Interval

HALF_ULP = ULP / 2
"""A sum or product rounded to nearest is off by at most this fraction of it."""
LARGE, FEW = 2**16, 16
"""In matrices of so many numbers, of which one in FEW at most is not zero, zeros are left out of products."""


@dataclass(frozen=True, eq=False)
class Frame:
    """The variables: a range for each of `(1, r_1, ..., r_P)`."""

    lo: Floats  # (1+P,)
    hi: Floats  # (1+P,)

    @classmethod
    def of(cls, low: Floats, high: Floats) -> Frame:
        """Variables with these ranges, (P,) each."""
        return cls(np.concatenate([[1.0], low]), np.concatenate([[1.0], high]))

    @cached_property
    def mid(self) -> Floats:
        """A point inside, (1+P,)."""
        return np.clip(self.lo / 2 + self.hi / 2, self.lo, self.hi)

    @cached_property
    def radius(self) -> Floats:
        """Distance from `mid` to the ends, rounded up, (1+P,)."""
        return np.maximum(above(self.hi - self.mid), above(self.mid - self.lo)) * (self.hi > self.lo)

    @cached_property
    def sizes(self) -> Floats:
        """Largest absolute values, (1+P,)."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))


@dataclass(frozen=True, eq=False)
class Forms:
    """Functions `a · (1, r)` of the variables of a frame, each within `slack` everywhere.

    Every operation adds its own rounding to the slack, coefficient by coefficient (`product_rounding`). What is exact
    costs nothing: a product with a power of two, a sum with zero, a difference of equal numbers.

    >>> frame = Frame.of(np.array([-1.0]), np.array([3.0]))
    >>> f = Forms.exact(np.array([[1.0, 2.0]]), frame)  # 1 + 2 r
    >>> f.range.lo, f.range.hi, f.size
    (array([-1.]), array([7.]), array([7.]))
    """

    coefficients: Floats  # (..., 1+P)
    slack: Floats  # (...)
    frame: Frame

    @classmethod
    def exact(cls, coefficients: Floats, frame: Frame) -> Forms:
        """Affine functions with these very coefficients."""
        return cls(coefficients, np.zeros(coefficients.shape[:-1]), frame)

    @classmethod
    def constants(cls, values: Floats, frame: Frame) -> Forms:
        """Functions that do not vary."""
        coefficients = np.zeros((*values.shape, len(frame.lo)))
        coefficients[..., 0] = values
        return cls.exact(coefficients, frame)

    @cached_property
    def size(self) -> Floats:
        """An upper bound on the largest absolute value."""
        return self.range.magnitude

    @cached_property
    def terms(self) -> Floats:
        """The sum of the sizes of the terms, without cancellation."""
        return rounded_up(dot_up(np.abs(self.coefficients), self.frame.sizes) + self.slack, 1)

    @cached_property
    def range(self) -> Interval:
        """An enclosure of the values; constants without slack are exact."""
        centre = self.coefficients @ self.frame.mid
        spread = np.abs(self.coefficients) @ self.frame.radius
        count = (self.coefficients != 0).sum(axis=-1) + 4
        spread = (spread + self.slack) * (1 + count * ULP) + count * (ULP * self.terms + 2 * SMALLEST)
        low, high = np.nextafter(centre - spread, -np.inf), np.nextafter(centre + spread, np.inf)
        exact, value = ~self.varies & (self.slack == 0), self.coefficients[..., 0]
        return Interval(np.where(exact, value, low), np.where(exact, value, high))

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Does the affine part vary at all?"""
        return (self.coefficients[..., 1:] != 0).any(axis=-1)

    def __getitem__(self, index: Any) -> Forms:
        return Forms(self.coefficients[index], self.slack[index], self.frame)

    def __sub__(self, other: Forms) -> Forms:
        return self + Forms(-other.coefficients, other.slack, other.frame)

    def __add__(self, other: Forms) -> Forms:
        total = self.coefficients + other.coefficients
        meet = (self.coefficients != 0) & (other.coefficients != 0)
        rounding = dot_up(np.where(meet, HALF_ULP * np.abs(total), 0.0), self.frame.sizes)
        return Forms(total, rounded_up(self.slack + other.slack + rounding, 2), self.frame)

    def scaled(self, factor: Floats | float) -> Forms:
        """Each function times a float."""
        factor = np.asarray(factor)
        coefficients = self.coefficients * factor[..., None]
        inexact = (_odd(self.coefficients) & _odd(factor)[..., None]) | (np.abs(coefficients) < LEAST_NORMAL)
        inexact &= (self.coefficients != 0) & (factor != 0)[..., None]
        rounding = dot_up(np.where(inexact, HALF_ULP * np.abs(coefficients) + SMALLEST, 0.0), self.frame.sizes)
        return Forms(coefficients, rounded_up(times_up(self.slack, np.abs(factor)) + rounding, 3), self.frame)

    def mapped(self, weight: Floats, bias: Floats) -> Forms:
        """`f weight + bias` over the last axis of functions: (..., d) -> (..., m)."""
        by_variable = np.swapaxes(self.coefficients, -1, -2)  # (..., 1+P, d)
        coefficients = _product(by_variable, weight)  # (..., 1+P, m)
        rounding = product_rounding(by_variable, weight)
        constant = coefficients[..., 0, :] + bias  # (..., m)
        meet = (coefficients[..., 0, :] != 0) & (bias != 0)
        rounding[..., 0, :] += np.where(meet, HALF_ULP * np.abs(constant), 0.0)
        coefficients[..., 0, :] = constant
        slack = dot_up(self.slack, np.abs(weight)) + dot_up(np.swapaxes(rounding, -1, -2), self.frame.sizes)
        return Forms(np.swapaxes(coefficients, -1, -2), rounded_up(slack, 2), self.frame)

    def after(self, inner: Forms) -> Forms:
        """These functions of variables that are themselves functions: (...) over V, (V,) over P -> (...) over P."""
        flat = self.coefficients.reshape(-1, self.coefficients.shape[-1])  # (F, 1+V)
        mapped = inner.mapped(flat[:, 1:].T, flat[:, 0])  # (F,)
        coefficients = mapped.coefficients.reshape(*self.slack.shape, -1)
        return Forms(coefficients, rounded_up(mapped.slack.reshape(self.slack.shape) + self.slack, 1), inner.frame)

    @classmethod
    def join(cls, parts: list[Forms], axis: int = 0) -> Forms:
        """Functions of one frame, side by side."""
        slack = np.concatenate([part.slack for part in parts], axis=axis)
        return cls(np.concatenate([part.coefficients for part in parts], axis=axis), slack, parts[0].frame)


def product_rounding(a: Floats, b: Floats) -> Floats:
    """A bound on the rounding error of the matrix product `a @ b`, entry by entry, for any order of summation.

    A sum of c products is off by at most `(c + 1) ULP/2` times the sum of their absolute values, for c below 2^25. A
    single product with a power of two that does not underflow is exact; so is a sum of nothing.
    """
    terms = _product((a != 0).astype(np.float64), (b != 0).astype(np.float64))
    inexact = _product(_odd(a).astype(np.float64), _odd(b).astype(np.float64)) > 0
    size = _product(np.abs(a), np.abs(b))
    exact = (terms == 0) | ((terms == 1) & ~inexact & (size >= LEAST_NORMAL))
    return np.where(exact, 0.0, (terms + 1) * (HALF_ULP * size + SMALLEST))


def _product(a: Floats, b: Floats) -> Floats:
    """`a @ b`, (..., d) and (d, m), in any order of summation; zeros of a large b are left out where they are many.

    What a zero would be multiplied with does not matter, be it infinite: zero times a real number is zero.
    """
    if b.ndim != 2 or b.size < LARGE or FEW * np.count_nonzero(b) > b.size:
        return a @ b
    rows = a.reshape(-1, a.shape[-1])  # (R, d)
    return np.ascontiguousarray((csr_array(b.T) @ rows.T).T).reshape(*a.shape[:-1], b.shape[1])


def _odd(numbers: Floats) -> npt.NDArray[np.bool_]:
    """Neither zero nor a power of two."""
    mantissa = np.abs(np.frexp(numbers)[0])
    return (mantissa != 0) & (mantissa != 0.5)
