"""Arithmetic of Taylor series: products, quotients, composition with a function of one variable.

Each rule works on all coefficients of a batch at once and carries rounding in the radii.
"""

from __future__ import annotations

import sys
from functools import lru_cache, partial
from importlib import import_module
from types import ModuleType

import numpy as np

from .basis import Basis
from .directed import ULP, Floats
from .jets import TINY, UFUNCS, Jet, compared, pick
from .series import LEAST, SERIES, Coefficients, power
from .truth import less, less_equal

FLOOR = 1e-200
"""Radii of the series of `e^{g - g_0}`, whose first coefficient is 1, are at least so large: products of radii that
underflow would take a hundred times as long."""
MUCH, SOME = 2**18, 2**12
"""Products of coefficients from which on the compiled loops are used: before numba is there, and once it is."""
Rows = Floats
"""Coefficients first, (C, *S): where series are multiplied, each coefficient of a batch lies in one piece of memory."""


def rows_of(coefficients: Floats, axes: int) -> Rows:
    """Coefficients (*S, C) as rows (C, *S), S padded with ones to so many axes."""
    shape = coefficients.shape
    return np.moveaxis(coefficients.reshape(*[1] * (axes + 1 - len(shape)), *shape), -1, 0)


def convolve(base: Basis, a: Rows, b: Rows, degree_a: int, degree_b: int) -> Rows:
    """Coefficients of a product, terms beyond the basis dropped; O(count a · count b) a series."""
    if degree_a > degree_b:
        return convolve(base, b, a, degree_b, degree_a)
    out = np.zeros((base.size, *np.broadcast_shapes(a.shape[1:], b.shape[1:])))  # (C, *S)
    rows, known = base.count(degree_a), base.count(degree_b)
    if _is_much(base, out):
        flat = out.reshape(base.size, -1)
        _loops().convolve(*base.table, _flat(a, out), _flat(b, out), rows, known, flat)
        return out
    for k in range(rows):
        places = base.products[k][:known]
        out[places] += a[k] * b[: len(places)]
    return out


def multiply(a: Jet, b: Jet) -> Jet:
    """Product. With sizes |mid| + rad, the radius is the excess of the product of sizes, rounding added."""
    axes = max(a.ndim, b.ndim)
    return _product(a.basis, _factor(a, axes), _factor(b, axes), a.degree, b.degree)


def _factor(a: Jet, axes: int) -> Rows:
    """What a product needs of a series: coefficients, their sizes without and with the radius; (C, 3, *S)."""
    mid, rad = rows_of(a.mid, axes), rows_of(a.rad, axes)
    size = np.abs(mid)
    return np.stack([mid, size, _normal(size + rad)], axis=1)


def _product(base: Basis, a: Rows, b: Rows, degree_a: int, degree_b: int) -> Jet:
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        out = np.moveaxis(convolve(base, a, b, degree_a, degree_b), 0, -1)  # (3, *S, C)
        mid, least, most = out[0], out[1], out[2]
        rad = np.maximum(most - least, 0.0) + (2 * base.size + 8) * ULP * most + TINY * (most > 0)
        return Jet(base, mid, rad, degree_a + degree_b)


def _normal(size: Floats) -> Floats:
    """Sizes, none of them between zero and LEAST."""
    return np.where(size > 0, np.maximum(size, LEAST), size)


def divide(a: Jet, b: Jet) -> Jet:
    """`y = a / b` from `b_0 y_α = a_α - Σ_{β > 0} b_β y_{α-β}`; nothing is known where b_0 may be zero."""
    base, slack, axes = a.basis, (2 * a.basis.size + 8) * ULP, max(a.ndim, b.ndim)
    step = 2 * ULP  # more than one operation on midpoints costs; `slack` is for all operations on radii
    shape = (base.size, *np.broadcast_shapes(a.shape, b.shape))
    rest, doubt = (np.broadcast_to(rows_of(part, axes), shape).copy() for part in (a.mid, a.rad))  # (C, *S)
    others, spread = rows_of(b.mid, axes), rows_of(b.rad, axes)
    size, first = np.abs(others), others[0]
    mid, rad = np.zeros(shape), np.zeros(shape)
    with np.errstate(all="ignore"):
        room = size[0] - spread[0] * (1 + slack)
        room = np.where(room > 0, room * (1 - slack), np.nan)
        if _is_much(base, rest):
            flat = [part.reshape(base.size, -1) for part in (mid, rad, rest, doubt)]
            divisor = _flat(others, rest), _flat(spread, rest), _flat(room[None], rest)[0]
            _loops().divide(*base.table, *flat[2:], *divisor, base.count(b.degree), (slack, step, TINY), *flat[:2])
            return Jet(base, np.moveaxis(mid, 0, -1), np.moveaxis(rad, 0, -1))
        reach = (size + spread) * (1 + slack)
        for k in range(base.size):
            mid[k] = rest[k] / first
            known = np.abs(mid[k])
            rad[k] = ((doubt[k] + known * spread[0] + TINY) / room + step * known) * (1 + slack) + TINY
            places = base.products[k][1 : base.count(b.degree)]
            count = len(places) + 1
            left = rest[places] - mid[k] * others[1:count]
            rest[places] = left
            off = known * spread[1:count] * (1 + slack) + step * (known * size[1:count] + np.abs(left))
            doubt[places] += rad[k] * reach[1:count] + off
    return Jet(base, np.moveaxis(mid, 0, -1), np.moveaxis(rad, 0, -1))


def compose(inner: Jet, outer: Coefficients) -> Jet:
    """`Σ_k c_k (g - g_0)^k` with the Taylor coefficients c_k of the outer function at g_0, by Horner's rule."""
    base = inner.basis
    if inner.degree <= 1:
        return _compose_affine(inner, outer)
    nilpotent = _factor(inner, inner.ndim)  # (C, 3, *S)
    nilpotent[0] = 0.0
    result = Jet.constant(base, outer[-1])
    for k in reversed(range(len(outer) - 1)):
        result = _product(base, _factor(result, inner.ndim), nilpotent, result.degree, inner.degree)
        result = add(result, Jet.constant(base, outer[k]))
    return result


def _compose_affine(inner: Jet, outer: Coefficients) -> Jet:
    """For affine g, `(g - g_0)^k = Σ_{|α| = k} (k!/α!) g^α t^α` with the slopes g: one product a coefficient."""
    base, mid, rad = inner.basis, rows_of(inner.mid, inner.ndim), rows_of(inner.rad, inner.ndim)
    centre, off = outer.mid, np.where(outer.defined, outer.radius, np.inf)  # (K, *S)
    degree = min(len(outer) - 1, base.degree)
    known = base.count(degree)
    powers, most = np.zeros(mid.shape), np.zeros(mid.shape)  # (C, *S), values and sizes
    powers[0] = most[0] = 1.0
    first = slice(1, 1 + base.variables)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        reach = _normal(np.abs(mid[first]) + rad[first])  # (D, *S)
        if degree:
            powers[first], most[first] = mid[first], reach
        for k, (before, axis) in enumerate(base.parents[base.variables : known - 1], start=first.stop):
            count = float(base.degrees[k]) / float(base.exponents[k, axis])
            powers[k] = powers[before] * (mid[1 + axis] * count)
            most[k] = _normal(most[before]) * (reach[axis] * count)
        degrees = base.degrees[:known]
        powers[:known] *= centre[degrees]
        most[:known] = _normal(most[:known]) * _normal(np.abs(centre) + off)[degrees]
        spread = np.maximum(most - np.abs(powers), 0.0) + (8 * base.degree + 16) * ULP * most + TINY * (most > 0)
    return Jet(base, np.moveaxis(powers, 0, -1), np.moveaxis(spread, 0, -1), degree)


def add(a: Jet, b: Jet) -> Jet:
    """Sum."""
    mid = a.mid + b.mid
    with np.errstate(invalid="ignore"):
        rad = (a.rad + b.rad) * (1 + 2 * ULP) + np.where((a.mid == 0) | (b.mid == 0), 0.0, ULP * np.abs(mid))
    return Jet(a.basis, mid, rad, max(a.degree, b.degree))


def exp(a: Jet) -> Jet:
    """`e^{g_0} z` with `z = e^{g - g_0}`: from `t·∇z = z t·∇g`, `|α| z_α = Σ_{β > 0} |β| g_β z_{α-β}` and `z_0 = 1`."""
    if a.degree <= 1:
        return elementary("exp", a)
    base, slack = a.basis, (2 * a.basis.size + 16) * ULP
    known, degrees = base.count(a.degree), base.degrees.reshape(-1, *[1] * a.ndim)
    start = Jet.constant(base, np.exp(a.value))  # type: ignore[arg-type]
    centre, off = start.mid[..., 0], start.rad[..., 0]
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        steps, doubt = rows_of(a.mid, a.ndim) * degrees, rows_of(a.rad, a.ndim) * degrees  # (C, *S)
        mid, rad = np.zeros(steps.shape), np.zeros(steps.shape)
        mid[0] = 1.0
        if _is_much(base, mid):
            flat = [part.reshape(base.size, -1) for part in (mid, rad)]
            grown = _flat(steps, mid), _flat(doubt, mid)
            _loops().exponential(*base.table, base.degrees.astype(np.float64), *grown, known, (slack, FLOOR), *flat)
        else:
            _exponential(base, steps, doubt, known, slack, mid, rad)
        size, scale = np.abs(mid), np.abs(centre)
        rad = rad * (scale + off) + size * off + slack * (size * scale)
        mid *= centre
    return Jet(base, np.moveaxis(mid, 0, -1), np.moveaxis(rad * (1 + slack) + TINY, 0, -1))


def _exponential(base: Basis, steps: Rows, doubt: Rows, known: int, slack: float, mid: Rows, rad: Rows) -> None:
    """Series of `e^{g - g_0}` into mid ± rad, which hold 1 and zeros, from `|β| g_β` as steps ± doubt; (C, *S) all."""
    reach = np.abs(steps) + doubt
    for k in range(base.size):
        if k:
            mid[k] /= float(base.degrees[k])
            rad[k] = rad[k] * ((1 + slack) / float(base.degrees[k])) + FLOOR
        places = base.products[k][1:known]
        rows = slice(1, len(places) + 1)
        mid[places] += mid[k] * steps[rows]
        own = np.abs(mid[k])
        rad[places] += rad[k] * reach[rows] + own * doubt[rows] + slack * (own * reach[rows])


def _is_much(base: Basis, rows: Rows) -> bool:
    """Is this work for the compiled loops? They return the same floats, but numba takes long to be imported."""
    return rows[0].size * len(base.table[1]) >= (SOME if "numba" in sys.modules else MUCH)


def _flat(part: Rows, out: Rows) -> Rows:
    """Rows (C, *S) in the shape of a result, end to end, (C, X)."""
    shape = (len(part), *out.shape[1:])
    whole = part if part.shape == shape else np.broadcast_to(part.reshape(_padded(part.shape, out.ndim)), shape)
    return np.ascontiguousarray(whole).reshape(len(part), -1)


def _padded(shape: tuple[int, ...], axes: int) -> tuple[int, ...]:
    return (shape[0], *[1] * (axes - len(shape)), *shape[1:])


@lru_cache
def _loops() -> ModuleType:
    """`compiled.py`, when there is need of it: numba takes long to be imported."""
    return import_module(".compiled", __package__)


def minimum(a: Jet, b: Jet) -> Jet:
    """The smaller, where it is certain which one that is."""
    return pick(a.value.hi <= b.value.lo, b.value.hi <= a.value.lo, a, b)


def elementary(name: str, a: Jet) -> Jet:
    """A function of one variable by its own series."""
    return compose(a, SERIES[name](a.value, a.basis.degree))


def general_power(a: Jet, b: Jet) -> Jet:
    """`a ** b`: a constant exponent by its binomial series, others as `e^{b log a}`.

    A number to the power of an array of exponents is an array.
    """
    if b.degree == 0:
        size = a.basis.size
        mid, rad = (np.broadcast_to(part, (*np.broadcast_shapes(a.shape, b.shape), size)) for part in (a.mid, a.rad))
        a = Jet(a.basis, mid, rad, a.degree)
        return compose(a, power(a.value, b.value, a.basis.degree))
    return exp(multiply(b, elementary("log", a)))


UFUNCS.update(
    {name: partial(elementary, name) for name in SERIES}
    | {
        "add": add,
        "subtract": lambda a, b: add(a, -b),
        "multiply": multiply,
        "divide": divide,
        "true_divide": divide,
        "negative": lambda a: -a,
        "positive": lambda a: a,
        "less": partial(compared, less),
        "less_equal": partial(compared, less_equal),
        "greater": lambda a, b: compared(less, b, a),
        "greater_equal": lambda a, b: compared(less_equal, b, a),
        "exp": exp,
        "power": general_power,
        "float_power": general_power,
        "minimum": minimum,
        "maximum": lambda a, b: -minimum(-a, -b),
        "absolute": lambda a: pick(a.value.lo >= 0, a.value.hi <= 0, a, -a),
        "fabs": lambda a: pick(a.value.lo >= 0, a.value.hi <= 0, a, -a),
        "sign": lambda a: pick(a.value.lo > 0, a.value.hi < 0, a * 0.0 + 1.0, a * 0.0 - 1.0),
    }
)
