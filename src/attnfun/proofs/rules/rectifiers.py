"""A proof for any target and a network that computes one hidden layer of rectifiers [T 11.15].

Read the units off the weights. They make a function R, and `|f - net| <= |f - R| + |R - net|`: the second is the proof
by structure (`structure.py`), the first is bounded here on boxes. R is only a go-between: if it were misread, one of
the two terms would be large, never the bound wrong.

On a box with centre p and half widths r a unit `max(0, z)`, z in [l, u], is `λ z` up to `[0, m]`: λ = 1 and m = 0 where
l >= 0, both are 0 where u <= 0, and for every other λ from 0 to 1 `m = max(-λ l, (1 - λ) u)`. So R is affine up to half
of `Σ |c_k| m_k`. The target is its Taylor polynomial of degree one with an enclosed remainder, or, where it has none,
in the interval that encloses it; the difference is at most its value at p, its slope times r, and what was left out.

Data: `axes` and `series`, a cover (`proof.Cover`); no leaf uses further series.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np
import numpy.typing as npt

from ...arithmetic import Interval, directed
from ...arithmetic.directed import LIBRARY_ULPS, SMALLEST, rounded_up, sum_error
from ...arithmetic.jets import variables
from ...network import Affine, Attention, Network
from ...pieces.ridges import Rectifiers
from ...resources.deadline import NEVER, Deadline
from ...targets import Target
from ..claim import Claim
from ..proof import Conclusion, Integers, Proof
from .planes import over_cover
from .structure import bound_by_structure, whole

Floats = npt.NDArray[np.float64]

NAME = "rectifiers"
ENTRIES = 2**20
"""Numbers in the largest temporary array."""


def bound_by_rectifiers(claim: Claim, proof: Proof, deadline: Deadline = NEVER) -> Conclusion | None:
    """A bound on `|target - network|` over the domain; None where the network is of another kind."""
    target, units = claim.imitated, read_rectifiers(claim.network)
    if units is None or units.shape != (target.domain.size, target.outputs):
        return None
    network = bound_by_structure(units.on(target.domain, target.output_shape, NAME), claim.network)
    if network is None:
        return None
    distance = RectifiersDistance(target, units)
    largest, defined = over_cover(NAME, distance, proof, deadline)
    parts = {**network.parts, "construction": rounded_up(network.parts["construction"] + largest, 1)}
    return Conclusion(rounded_up(network.bound + largest, 1), parts, defined, whole(target))


def read_rectifiers(network: Network) -> Rectifiers | None:
    """The units that two self-attention layers gather and rectify (`constructions/two_layer.py`); None for others."""
    match network.layers:
        case (Affine() as rows, Attention() as first, Attention() as second, Affine() as last, *_) if (
            rows.left is not None and last.left is not None and first.attends_data and second.attends_data
        ):
            pass
        case _:
            return None
    count, width = len(rows.constant), rows.width_in
    length, units = count - 1, first.width_out - count
    if length < 1 or units < 1 or first.heads != length + 1 or first.value.shape[2] <= width:
        return None
    inner = first.output[:length, :width, :units].reshape(length * width, units)
    bias = first.output[0, width, :units]
    if second.heads == units and second.width_out == units == last.width_in:
        return Rectifiers(inner, bias, last.right[0], last.constant[0])
    if second.heads != length * units + 1 or second.value.shape[1] != units + count:
        return None
    outputs = second.value.shape[2]
    by_token = second.value[:-1].reshape(length, units, units + count, outputs)
    outer = by_token[:, np.arange(units), np.arange(units)].transpose(1, 0, 2).reshape(units, -1)  # (M, n w)
    return Rectifiers(inner, bias, outer, second.value[-1, units + 1 :].ravel())


@dataclass(frozen=True, eq=False)
class RectifiersDistance:
    """Bounds `|f - R|` on boxes."""

    target: Target
    units: Rectifiers

    def batches(self, rows: Integers) -> list[Integers]:
        """Rows in batches whose temporary arrays are small."""
        step = max(1, ENTRIES // max(self.units.outer.size, self.units.inner.size))
        return [rows[k : k + step] for k in range(0, len(rows), step)]

    def defined(self, low: Floats, high: Floats) -> bool:
        """Is the target proved to be defined on these boxes?"""
        return bool(np.all(self.target.enclose(Interval(low, high)).defined))

    def on(self, low: Floats, high: Floats) -> tuple[Floats, Floats, npt.NDArray[np.integer]]:
        """A bound for each box (B, D), the error at its centre, and the axis along which to halve it."""
        centre = low / 2 + high / 2
        radius = directed.above(np.maximum(high - centre, centre - low))
        inner, outer = self.units.inner, self.units.outer
        M, D = len(self.units.bias), low.shape[1]
        z = centre @ inner + self.units.bias  # (B, M)
        reach = np.abs(centre) @ np.abs(inner) + np.abs(self.units.bias)
        off = sum_error(reach, D + 2) + SMALLEST  # (B, M)
        spread = rounded_up(radius @ np.abs(inner), D + 2) + D * SMALLEST
        least, most = directed.below(z - spread - off), directed.above(z + spread + off)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(least >= 0, 1.0, np.where(most <= 0, 0.0, np.clip(most / (most - least), 0.0, 1.0)))
        bend = np.where((least >= 0) | (most <= 0), 0.0, np.maximum(-share * least, (1 - share) * most))
        bend = rounded_up(bend, 3)  # (B, M)
        sizes = np.abs(outer)  # (M, m)
        value = (share * z + bend / 2) @ outer + self.units.rest  # (B, m)
        slope = np.einsum("bk,ko,dk->bod", share, outer, inner, optimize=True)  # (B, m, D)
        slack = rounded_up((bend / 2 + off) @ sizes, M + 2)  # (B, m)
        terms = (np.abs(z) + bend + spread + off) @ sizes + np.abs(self.units.rest)  # (B, m)
        known = self._by_range(low, high, value, slope, radius)
        smooth = self._by_series(low, high, centre, value, slope, radius)
        better = smooth[0] < known[0]  # (B, m)
        bound, size, error = (np.where(better, a, b) for a, b in zip(smooth[:3], known[:3], strict=True))
        along = np.where(better[:, :, None], smooth[3], known[3])  # (B, m, D)
        bound = rounded_up(bound + slack + sum_error(terms + size, 2 * M + 8 * D + 32), 3)
        with np.errstate(invalid="ignore", divide="ignore"):
            shares = np.where(spread > 0, bend / spread, 0.0) @ np.abs(inner).T * radius  # (B, D), up to weights
        worst = np.where(np.isnan(bound), inf, bound)
        rows, output = np.arange(len(low)), worst.argmax(axis=1)
        axis = (along[rows, output] + shares * sizes[:, output].max(axis=0)[:, None]).argmax(axis=1)
        found = np.nan_to_num((error - slack - sum_error(terms, 2 * M + 8 * D + 32)).max(axis=1))
        return worst.max(axis=1), np.maximum(found, 0.0), axis

    def _by_range(self, low: Floats, high: Floats, value: Floats, slope: Floats, radius: Floats) -> tuple[Floats, ...]:
        """With the target in an interval: bound, sizes of terms, error found, and what each axis adds."""
        box = self.target.enclose(Interval(low, high))
        with np.errstate(invalid="ignore", over="ignore"):
            middle, half = box.lo / 2 + box.hi / 2, directed.above(box.hi / 2 - box.lo / 2)  # (B, m)
            each = np.abs(slope) * radius[:, None]  # (B, m, D)
            apart, spread = np.abs(middle - value), half + each.sum(axis=2)
            bound, error = apart + spread, apart - spread
            size = np.abs(middle) + half + np.abs(value)
        wide = (half[:, :, None] + each) * (radius / radius.max(axis=1, keepdims=True))[:, None]  # (B, m, D)
        bound = np.where(np.isnan(bound), inf, bound)
        error = np.where(np.isfinite(error), error, 0.0)
        return bound, np.where(np.isfinite(size), size, inf), error, wide

    def _by_series(
        self, low: Floats, high: Floats, centre: Floats, value: Floats, slope: Floats, radius: Floats
    ) -> tuple[Floats, ...]:
        """With the target's Taylor polynomial: the same; infinite where it has none."""
        point = self.target.jets(variables(Interval(centre), 1))
        box = self.target.jets(variables(Interval(low, high), 2))
        if point is None or box is None:
            none = np.full(value.shape, inf)
            return none, none, np.zeros_like(none), np.zeros(slope.shape)
        size, base = low.shape[1], box.basis
        second = slice(base.count(1), None)
        with np.errstate(invalid="ignore", over="ignore"):
            apart = point.mid[:, :, 0] - value  # (B, m)
            slopes = point.mid[:, :, 1 : 1 + size] - slope  # (B, m, D)
            each = np.abs(slopes) * radius[:, None]
            off = point.rad[:, :, 0] + (point.rad[:, :, 1 : 1 + size] * radius[:, None]).sum(axis=2)
            powers = (radius[:, None] ** base.exponents[second]).prod(axis=2)  # (B, C)
            powers = rounded_up(powers, (2 * LIBRARY_ULPS + 1) * size) + 16 * SMALLEST
            bends = (np.abs(box.mid[:, :, second]) + box.rad[:, :, second]) * powers[:, None]  # (B, m, C)
            rest = rounded_up(bends.sum(axis=2), bends.shape[2] + 4)
            sizes = np.abs(point.mid[:, :, 0]) + np.abs(value) + rest + off
            sizes = sizes + (np.abs(point.mid[:, :, 1 : 1 + size]) * radius[:, None]).sum(axis=2)
            bound = np.abs(apart) + each.sum(axis=2) + rest + rounded_up(off, size + 4)
            along = each + np.stack(
                [(bends * (base.exponents[second, k] > 0)).sum(axis=2) for k in range(size)], axis=2
            )
            error = np.abs(apart) - off
        bound = np.where(np.isnan(bound), inf, bound)
        sizes = np.where(np.isfinite(sizes), sizes, inf)
        return bound, sizes, np.nan_to_num(error, posinf=0.0, neginf=0.0), np.nan_to_num(along)
