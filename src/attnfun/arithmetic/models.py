"""Taylor models: functions on boxes as polynomials with interval coefficients; ranges, slopes, integrals [T 13.1].

On a box with centre p let `c_α` be the Taylor coefficients at p of degree below m, and enclosures over the whole box of
those of degree m. Then `f(p + t) = Σ_α c_α t^α` for every p + t in the box, the last coefficients being numbers that
depend on t and lie in their intervals [T 9.5].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .basis import Basis
from .directed import Floats, above, sum_up, times_up
from .interval import Interval, join
from .jets import Jet, variables


@dataclass(frozen=True)
class TaylorModels:
    """A real function on B boxes (B, D); coefficients `mid ± rad`, (B, C). What is not known has an infinite radius.

    >>> unit = Interval([[0.0]], [[1.0]])
    >>> models = TaylorModels.of(lambda x: np.exp(x[:, 0]), unit, degree=12)
    >>> models.integral().lo.round(9), models.slopes().hi.round(3)
    (array([1.71828183]), array([[2.718]]))
    """

    basis: Basis
    mid: Floats
    rad: Floats
    boxes: Interval

    @classmethod
    def of(cls, function: Callable[[Jet], Jet | None], boxes: Interval, degree: int) -> TaylorModels | None:
        """From a function on series, (B, D) -> (B,); None if it has none."""
        count = len(boxes)
        both = variables(join([Interval(boxes.mid), boxes]), degree)  # (2B, D)
        with np.errstate(all="ignore"):
            series = function(both)
        if series is None:
            return None
        last = series.basis.degrees == degree  # (C,)
        mid = np.where(last, series.mid[count:], series.mid[:count])  # (B, C)
        rad = np.where(last, series.rad[count:], series.rad[:count])
        return cls(series.basis, mid, rad, boxes)

    def value(self) -> Interval:
        """Ranges on the boxes, (B,): the constant term and at most the sizes of the others."""
        spread = above(_spread(self.mid[:, 1:], self.rad[:, 1:], self._monomials()[:, 1:]) + self.rad[:, 0])
        return Interval(self.mid[:, 0]) + Interval(-spread, spread)

    def slopes(self) -> Interval:
        """Ranges of the partial derivatives, (B, D): `∂_k f(p + t) = Σ_{α_k > 0} α_k c_α t^(α - e_k)` [T 13.1]."""
        monomials, exponents = self._monomials(), self.basis.exponents
        position = {tuple(row): number for number, row in enumerate(exponents.tolist())}
        columns = []
        for axis in range(exponents.shape[1]):
            chosen = np.flatnonzero(exponents[:, axis])  # e_axis comes first
            lower = exponents[chosen].copy()
            lower[:, axis] -= 1
            places = [position[tuple(row)] for row in lower.tolist()]
            times = exponents[chosen, axis].astype(np.float64)
            mid, rad = self.mid[:, chosen], self.rad[:, chosen]
            first = Interval(mid[:, 0]) + Interval(-rad[:, 0], rad[:, 0])
            sizes = times_up(times_up(above(np.abs(mid[:, 1:]) + rad[:, 1:]), times[1:]), monomials[:, places[1:]])
            spread = sum_up(sizes, axis=1)
            columns.append(first + Interval(-spread, spread))
        return join(columns, axis=1, function=np.stack)

    def integral(self) -> Interval:
        """Integrals over the boxes, (B,).

        A coefficient that is `mid` within `rad` contributes `mid ∫ t^α dt`, and at most `rad ∫ |t^α| dt` more.
        """
        mid, exponents = self.boxes.mid, self.basis.exponents
        above_, below_ = Interval(self.boxes.hi) - mid, Interval(self.boxes.lo) - mid  # (B, D)
        signed, sizes = [], []
        high, low = above_, below_
        for order in range(1, self.basis.degree + 2):
            signed.append((high - low) / float(order))
            sizes.append(above(above(high.magnitude + low.magnitude) / order))
            high, low = high * above_, low * below_
        moments, size = Interval(np.ones_like(self.mid)), np.ones_like(self.mid)  # (B, C)
        for axis, orders in enumerate(exponents.T):
            lo, hi = (np.stack([getattr(each, end)[:, axis] for each in signed], axis=1) for end in ("lo", "hi"))
            moments = moments * Interval(lo[:, orders], hi[:, orders])
            size = times_up(size, np.stack([each[:, axis] for each in sizes], axis=1)[:, orders])
        off = times_up(self.rad, size)
        return (Interval(self.mid) * moments + Interval(-off, off)).sum(axis=1)

    def _monomials(self) -> Floats:
        """Upper bounds on |t^α| over the boxes, (B, C)."""
        radius = self.boxes.radius  # (B, D)
        sizes = [np.ones(len(radius))]
        for parent, axis in self.basis.parents:
            sizes.append(times_up(sizes[parent], radius[:, axis]))
        return np.stack(sizes, axis=1)


def _spread(mid: Floats, rad: Floats, monomials: Floats) -> Floats:
    """At most how large a polynomial gets, (B,)."""
    return sum_up(times_up(above(np.abs(mid) + rad), monomials), axis=1)
