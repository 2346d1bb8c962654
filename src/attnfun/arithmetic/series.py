"""Taylor coefficients `f^(k)(x)/k!`, k = 0..n, of the elementary functions at an interval x.

Where f solves a differential equation with polynomial coefficients, its Taylor coefficients satisfy a recurrence, and
evaluating that in interval arithmetic encloses them at every point of x. Coefficients come as one `Interval` of shape
(K, *S), so that an operation on all of them costs one call; where K is less than n + 1, the others are zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from .directed import LARGEST, SMALLEST, Floats, above, below, rounded_up, sum_error, widen
from .interval import UFUNCS, Interval, implements, join

Coefficients = Interval
SERIES: dict[str, Callable[[Interval, int], Coefficients]] = {}
"""Coefficients by the ufunc's name, (K, *S) with K <= n + 1."""

LEAST = 1e-150
"""Sizes below this are taken for it, so that no product of two of them underflows."""
SINC_TERMS = 40
"""Degrees of the power series of sin(x)/x that are summed up."""


def series(name: str) -> Callable[[Callable[[Interval, int], Coefficients]], Callable[[Interval, int], Coefficients]]:
    """Register the coefficients of the ufunc called `name`."""

    def register(function: Callable[[Interval, int], Coefficients]) -> Callable[[Interval, int], Coefficients]:
        SERIES[name] = function
        return function

    return register


def on(name: str, *arguments: Interval) -> Interval:
    """A ufunc on intervals, by its name."""
    return UFUNCS[name](*arguments)


def whole(number: int) -> Interval:
    """The smallest interval with floats for ends that holds a whole number: 23! is none, nor is 171!."""
    if abs(number) > LARGEST:
        return Interval(LARGEST, np.inf) if number > 0 else Interval(-np.inf, -LARGEST)
    nearest = float(number)
    low = math.nextafter(nearest, -math.inf) if nearest > number else nearest  # Python compares exactly
    return Interval(low, math.nextafter(nearest, math.inf) if nearest < number else nearest)


def _rows(numbers: Interval, axes: int) -> Interval:
    """Numbers (K,) that stand beside arrays (K, *S) with so many axes in S."""
    return numbers.reshape(-1, *[1] * axes)


def stacked(parts: Sequence[Interval]) -> Coefficients:
    """Coefficients (*S,) one by one as (K, *S)."""
    return join(parts, function=np.stack)


@lru_cache(maxsize=64)
def _factorials(n: int) -> Interval:
    """0!, ..., n!, (n+1,)."""
    return stacked([whole(math.factorial(k)) for k in range(n + 1)])


def _cycle(values: Sequence[Interval], n: int) -> Coefficients:
    """Derivatives that repeat: the k-th is `values[k mod len]`."""
    derivatives = stacked([values[k % len(values)] for k in range(n + 1)])
    return derivatives / _rows(_factorials(n), derivatives.ndim - 1)


@series("exp")
def exp(x: Interval, n: int) -> Coefficients:
    """exp is its own derivative."""
    return _cycle([on("exp", x)], n)


@series("expm1")
def expm1(x: Interval, n: int) -> Coefficients:
    """exp - 1."""
    return join([stacked([on("expm1", x)]), exp(x, n)[1:]])


@series("sin")
def sin(x: Interval, n: int) -> Coefficients:
    """Sine."""
    s, c = on("sin", x), on("cos", x)
    return _cycle([s, c, -s, -c], n)


@series("cos")
def cos(x: Interval, n: int) -> Coefficients:
    """Cosine."""
    s, c = on("sin", x), on("cos", x)
    return _cycle([c, -s, -c, s], n)


@series("sinc")
def sinc(x: Interval, n: int) -> Coefficients:
    """y = sin(x)/x, y(0) = 1; the tightest of three enclosures of its coefficients.

    As `y(x) = ∫_0^1 cos(x t) dt`, `|y^(k)| <= 1/(k+1)` everywhere. Away from zero, `x y_k + y_{k-1} = s_k`, s the
    coefficients of sin. Near zero, `y_k = Σ_m (-1)^m C(2m, k) x^(2m-k)/(2m+1)!`, and what follows the terms below
    degree L in x is at most `|x|^L/(L! k! (k+L+1))`, by Taylor's theorem and the first bound.
    """
    away, squared, found = (x.lo > 0) | (x.hi < 0), on("square", x), list[Interval]()
    divisor = Interval(np.where(away, x.lo, 1.0), np.where(away, x.hi, 1.0))
    slopes = sin(x, n)  # (K, *S)
    for k in range(len(slopes)):
        slope, first = slopes[k], k + k % 2
        total, last = Interval(np.zeros_like(x.lo)), first + SINC_TERMS
        for m in reversed(range(first // 2, last // 2)):
            total = total * squared + _sinc_coefficient(m, k)
        total = total * x if k % 2 else total
        degree = last - k
        scale = whole(math.factorial(degree) * math.factorial(k) * (k + degree + 1))
        rest = (on("power", Interval(x.magnitude), Interval(float(degree))) / scale).hi
        crude = (1.0 / whole((k + 1) * math.factorial(k))).hi
        near, quotient = total + Interval(-rest, rest), (slope - found[-1] if k else slope) / divisor
        low, high = np.maximum(near.lo, -crude), np.minimum(near.hi, crude)
        low = np.where(away, np.maximum(low, quotient.lo), low)
        high = np.where(away, np.minimum(high, quotient.hi), high)
        found.append(Interval(low, high, x.defined))
    return stacked(found)


@lru_cache(maxsize=4096)
def _sinc_coefficient(m: int, k: int) -> Interval:
    """`(-1)^m C(2m, k)/(2m+1)!`."""
    return whole((-1) ** m * math.comb(2 * m, k)) / whole(math.factorial(2 * m + 1))


@implements("sinc")
def sinc_value(x: Interval) -> Interval:
    """sin(x)/x, 1 at 0."""
    return sinc(x, 0)[0]


@series("sinh")
def sinh(x: Interval, n: int) -> Coefficients:
    """Hyperbolic sine."""
    return _cycle([on("sinh", x), on("cosh", x)], n)


@series("cosh")
def cosh(x: Interval, n: int) -> Coefficients:
    """Hyperbolic cosine."""
    return _cycle([on("cosh", x), on("sinh", x)], n)


def power(x: Interval, exponent: Interval, n: int) -> Coefficients:
    """`binom(p, k) x^(p - k)`; a whole p >= 0 ends after p.

    Where `p - k` is no float its parity is lost, and with it the sign of a power of a negative number: unknown.
    """
    first = float(exponent.lo.flat[0])
    if not ((exponent.lo == first) & (exponent.hi == first) & exponent.defined).all():
        return _power_of_many(x, exponent, n)
    if first != round(first) or abs(first) >= MOST_WHOLE:
        less = Interval(first) - np.arange(n + 1.0)  # (K,)
        values = on("power", stacked([x]), _rows(less, x.ndim))  # (K, *S)
        lost = (_rows(less, x.ndim).lo < _rows(less, x.ndim).hi) & (first == round(first)) & (x.lo < 0)
        values = Interval(np.where(lost, -np.inf, values.lo), np.where(lost, np.inf, values.hi), values.defined)
    elif first < 0:
        values = _whole_powers(on("reciprocal", x), np.arange(n + 1.0) - first)
    else:
        values = _whole_powers(x, np.arange(first, max(first - n, 0.0) - 1.0, -1.0))
    return _rows(_binomials(first, len(values)), x.ndim) * values


MOST_WHOLE = 2.0**50
"""Beyond this, numbers that a few steps lead to need not be floats."""


def _whole_powers(x: Interval, exponents: Floats) -> Interval:
    """Powers of x with whole exponents (K,) >= 0, (K, *S)."""
    small = [on("power", x, Interval(exponent)) for exponent in exponents if exponent <= 2]
    most = exponents[exponents > 2].reshape(-1, *[1] * x.ndim)  # (K', 1, ...)
    even, size = most % 2 == 0, on("absolute", x)
    with np.errstate(over="ignore", under="ignore"):
        low, high = widen(np.where(even, size.lo, x.lo) ** most, np.where(even, size.hi, x.hi) ** most)
    large = Interval(np.where(even, np.maximum(low, 0.0), low), high, np.broadcast_to(x.defined, low.shape))
    if not small:
        return large
    rows = stacked(small)
    return join([large, rows] if exponents[0] > exponents[-1] else [rows, large])


@lru_cache(maxsize=256)
def _binomials(p: float, count: int) -> Interval:
    """`binom(p, k)` for k below `count`, (K,)."""
    found = [Interval(1.0)]
    for k in range(count - 1):
        found.append(found[-1] * (Interval(p) - float(k)) / float(k + 1))
    return stacked(found)


def _power_of_many(x: Interval, exponent: Interval, n: int) -> Coefficients:
    """The same for exponents that differ, or are known up to intervals."""
    coefficients, binomial = [], Interval(1.0)
    for k in range(n + 1):
        vanishes = bool(np.all((binomial.lo == 0) & (binomial.hi == 0)))
        less = exponent - float(k)
        lost = (exponent.lo == exponent.hi) & (less.lo < less.hi) & (x.lo < 0)
        value = on("power", x, less)
        value = Interval(np.where(lost, -np.inf, value.lo), np.where(lost, np.inf, value.hi), value.defined)
        coefficients.append(Interval(np.zeros_like(x.lo)) if vanishes else binomial * value)
        binomial = binomial * (exponent - float(k)) / float(k + 1)
    return stacked(coefficients)


@series("reciprocal")
def reciprocal(x: Interval, n: int) -> Coefficients:
    """x^-1."""
    return power(x, Interval(-1.0), n)


@series("square")
def square(x: Interval, n: int) -> Coefficients:
    """x^2."""
    return power(x, Interval(2.0), n)


@series("sqrt")
def sqrt(x: Interval, n: int) -> Coefficients:
    """x^(1/2)."""
    return join([stacked([on("sqrt", x)]), power(x, Interval(0.5), n)[1:]])


@series("log")
def log(x: Interval, n: int) -> Coefficients:
    """The derivative is 1/x."""
    return _integral(on("log", x), reciprocal(x, max(n - 1, 0)), n)


@series("log1p")
def log1p(x: Interval, n: int) -> Coefficients:
    """The derivative is 1/(1 + x)."""
    return _integral(on("log1p", x), reciprocal(x + 1.0, max(n - 1, 0)), n)


@series("tan")
def tan(x: Interval, n: int) -> Coefficients:
    """y' = 1 + y²."""
    return _riccati(on("tan", x), 1.0, n)


@series("tanh")
def tanh(x: Interval, n: int) -> Coefficients:
    """y' = 1 - y²."""
    return _riccati(on("tanh", x), -1.0, n)


@series("arctan")
def arctan(x: Interval, n: int) -> Coefficients:
    """y' = u with (1 + x²) u = 1, so `(1 + x²) u_k + 2x u_{k-1} + u_{k-2} = [k = 0]`."""
    scale, u = 1.0 + on("square", x), []
    for k in range(n):
        rest = Interval(1.0 if k == 0 else 0.0)
        if k >= 1:
            rest = rest - 2.0 * x * u[k - 1]
        if k >= 2:
            rest = rest - u[k - 2]
        u.append(rest / scale)
    return _integral(on("arctan", x), stacked(u), n) if u else stacked([on("arctan", x)])


def _arc_slopes(x: Interval, n: int) -> Coefficients:
    """w = (1 - x²)^(-1/2) solves (1 - x²) w' = x w: `(1 - x²)(k+1) w_{k+1} = x (2k+1) w_k + k w_{k-1}`."""
    room = 1.0 - on("square", x)
    w = [1.0 / on("sqrt", room)]
    for k in range(n - 1):
        rest = x * float(2 * k + 1) * w[k]
        w.append((rest + float(k) * w[k - 1] if k else rest) / (room * float(k + 1)))
    return stacked(w)


@series("arcsin")
def arcsin(x: Interval, n: int) -> Coefficients:
    """The derivative is (1 - x²)^(-1/2)."""
    return _integral(on("arcsin", x), _arc_slopes(x, n), n)


@series("arccos")
def arccos(x: Interval, n: int) -> Coefficients:
    """The derivative is -(1 - x²)^(-1/2)."""
    return _integral(on("arccos", x), -_arc_slopes(x, n), n)


@series("erf")
def erf(x: Interval, n: int) -> Coefficients:
    """y' = (2/√π) g with g = e^{-x²}, `(k+1) g_{k+1} = -2 (x g_k + g_{k-1})`."""
    root = np.float64(2 / math.sqrt(math.pi))
    scale = Interval(below(below(root)), above(above(root)))  # type: ignore[arg-type]
    g = [on("exp", -on("square", x))]
    for k in range(n - 1):
        rest = x * g[k]
        g.append(-2.0 * (rest + g[k - 1] if k else rest) / float(k + 1))
    return _integral(on("erf", x), scale * stacked(g), n)


def _integral(start: Interval, slopes: Coefficients, n: int) -> Coefficients:
    """Coefficients of a function from its value and the coefficients of its derivative."""
    higher = slopes[:n] / _rows(Interval(np.arange(1.0, n + 1.0)), slopes.ndim - 1)
    return join([stacked([start]), higher]) if n else stacked([start])


def _riccati(start: Interval, sign: float, n: int) -> Coefficients:
    """y' = 1 + sign y²: `(k+1) y_{k+1} = [k = 0] + sign Σ_i y_i y_{k-i}`, by midpoints m and radii.

    With sizes `|m_i|`, and `s_i` with the radius, the sum is off by at most `Σ s_i s_{k-i} - Σ |m_i| |m_{k-i}|`. No
    size is between zero and LEAST, so sums of sizes do not underflow; midpoints lose less than SMALLEST a term.
    """
    parts = np.zeros((3, n + 1, *start.shape))  # midpoints, their sizes, sizes with the radius
    mid, size, whole_size = parts
    radius = np.zeros((n + 1, *start.shape))
    mid[0], radius[0] = start.mid, start.radius
    with np.errstate(all="ignore"):
        for k in range(n + 1):
            size[k] = np.abs(mid[k])
            whole_size[k] = size[k] + radius[k]
            whole_size[k] = np.where(whole_size[k] > 0, np.maximum(whole_size[k], LEAST), whole_size[k])
            if k == n:
                break
            total, least, most = (parts[:, : k + 1] * parts[:, k::-1]).sum(axis=1)
            off = np.maximum(most - least, 0.0) + sum_error(most, 2 * k + 8) + (k + 1) * SMALLEST * (most > 0)
            mid[k + 1] = ((1.0 if k == 0 else 0.0) + sign * total) / (k + 1)
            radius[k + 1] = rounded_up(off / (k + 1) + sum_error(np.abs(mid[k + 1]), 2), 4) + SMALLEST * (off > 0)
        ends = below(mid - radius), above(mid + radius)
    low, high = np.concatenate([start.lo[None], ends[0][1:]]), np.concatenate([start.hi[None], ends[1][1:]])
    return Interval(low, high, np.broadcast_to(start.defined, start.shape)[None])
