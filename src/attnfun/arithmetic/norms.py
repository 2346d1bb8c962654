"""L_p norms of step functions and p-means of samples, at any scale.

A step function with values `e_i` on boxes of volumes `v_i` has the norm `(Σ e_i^p v_i)^{1/p}`. The powers underflow and
overflow long before the norm does, so each box counts with its own norm, `q_i = e_i v_i^{1/p}`, and with the largest of
them, q,

    (Σ q_i^p)^{1/p} = q (Σ (q_i/q)^p)^{1/p},

where every quotient is at most one and the sum at least one.
"""

from __future__ import annotations

import numpy as np

from . import directed
from .directed import Floats
from .functions import divide, multiply, power
from .interval import Interval


def norms_on_boxes(values: Floats, low: Floats, high: Floats, p: float) -> Floats:
    """Upper bounds on `e v^{1/p}` for values e >= 0 (B, ...) on boxes with ends (B, D).

    Fractions and exponents are multiplied apart: no product on the way is too large or too small for a float.
    """
    sides = power(Interval(directed.add_up(high, -low)), divide(Interval(1.0), Interval(p))).hi  # (B, D)
    fraction, exponent = np.frexp(values)
    for side in sides.T:  # (B,)
        more, steps = (part.reshape(-1, *[1] * (values.ndim - 1)) for part in np.frexp(side))  # (B, 1, ...)
        fraction, carried = np.frexp(directed.above(fraction * more))
        exponent = exponent + steps + carried
    with np.errstate(over="ignore", under="ignore"):
        return np.where(values == 0, 0.0, directed.above(np.ldexp(fraction, exponent)))


def together(norms: Floats, p: float) -> Floats:
    """An upper bound on `(Σ q^p)^{1/p}` along the first axis, for q >= 0."""
    most = norms.max(axis=0, initial=0.0)
    ordinary = np.where((most > 0) & np.isfinite(most), most, 1.0)
    with np.errstate(invalid="ignore"):
        shares = Interval(np.minimum(divide(Interval(norms), Interval(ordinary)).hi, 1.0))
    total = power(shares, Interval(p)).sum(0)
    whole = multiply(Interval(ordinary), power(Interval(np.maximum(total.hi, 1.0)), divide(Interval(1.0), Interval(p))))
    return np.where(ordinary == most, whole.hi, most)


def mean(values: Floats, p: float) -> float:
    """The p-mean `(mean |e|^p)^{1/p}` of samples, to rounding; their largest size for p = inf."""
    sizes = np.abs(values)
    most = float(sizes.max(initial=0.0))
    if np.isinf(p) or most == 0 or not np.isfinite(most):
        return most
    return most * float(np.mean((sizes / most) ** p) ** (1 / p))
