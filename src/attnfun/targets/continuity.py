"""How far a function reaches, and how far its values can be apart when its arguments are close: by boxes.

**Range.** Enclosures on boxes, cut where they stick out of what values at centres say, until they hardly do.

**Modulus.** `|f_j(s) - f_j(t)|` for points s, t of a box R with `|s_k - t_k| <= d_k`. R is covered by boxes. Each has a
number b that is either

- a *slope*, `Σ_k sup |∂_k f_j| d_k` over the box, from Taylor series of degree one, or
- a *width*, that of the range of f_j on all of R that is within d of the box (for kinks, and ends of unbounded slope).

The largest b bounds the modulus. If the segment from s to t meets no box of the second kind, integrate the slope along
it: f is continuous there, and differentiable on each closed box. If it meets one, at w, then s and t are within d of w
and so both in the range whose width was taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..arithmetic import Interval
from ..arithmetic.directed import dot_up, rounded_up
from ..arithmetic.jets import variables
from .base import Floats, Target


@dataclass(frozen=True)
class RangeTuning:
    """How far ranges and moduli are narrowed. They are enclosures whenever the cutting stops."""

    most_boxes: int = 20_000
    """Boxes for a range or a modulus, of few variables. For time."""
    few_boxes: int = 1000
    """Boxes in more than `most_variables` variables, where they say little. For time."""
    share: float = 1e-3
    """A range may stick out of what was found by this fraction of its width. A round number."""
    close: float = 1.05
    """A modulus may be this many times as large as what was found. A round number."""
    most_variables: int = 3
    """Beyond that, cutting boxes helps only where nothing else does. By trial."""


TUNING = RangeTuning()


def range_of(target: Target, within: Interval | None = None) -> Interval:
    """An enclosure (m,) of the values on the domain. Less care is taken of ends that lie in `within` (m,) surely."""
    domain = target.domain
    low, high = domain.starts()  # (B, D)
    settled, seen = _Hull(target.outputs), _Hull(target.outputs)
    done = 0
    while True:
        kept = ~domain.excludes(low, high)
        low, high = low[kept], high[kept]
        if not len(low):
            return settled.interval
        boxes, centres = Interval(low, high), Interval(low, high).mid
        ranges, done = target.enclose(boxes), done + len(low)
        seen.add(target.enclose(Interval(centres[domain.contains(centres)])))
        margin = TUNING.share * np.maximum(seen.hi - seen.lo, 0.0)
        lo, hi = seen.lo - margin, seen.hi + margin
        if within is not None:
            lo, hi = np.minimum(lo, within.lo), np.maximum(hi, within.hi)
        out = ~((ranges.lo >= lo) & (ranges.hi <= hi)).all(axis=1) & (low < high).any(axis=1)  # (B,)
        lost = within is not None and bool(((seen.lo < within.lo) | (seen.hi > within.hi)).any())
        settled.add(ranges[np.flatnonzero(~out)])
        rest = np.flatnonzero(out)
        if done > _most(domain.size) or lost:
            settled.add(ranges[rest])
            return settled.interval
        low, high = _halves(low[rest], high[rest], domain.hi.ravel() - domain.lo.ravel())


def _most(variables_: int) -> int:
    return TUNING.most_boxes if variables_ <= TUNING.most_variables else TUNING.few_boxes


class _Hull:
    """The smallest intervals (m,) that hold all that was added."""

    def __init__(self, outputs: int) -> None:
        self.lo, self.hi = np.full(outputs, np.inf), np.full(outputs, -np.inf)

    def add(self, ranges: Interval) -> None:
        """Intervals (B, m)."""
        if len(ranges):
            self.lo, self.hi = np.minimum(self.lo, ranges.lo.min(axis=0)), np.maximum(self.hi, ranges.hi.max(axis=0))

    @property
    def interval(self) -> Interval:
        return Interval(self.lo, self.hi)


def modulus(target: Target, region: Interval, distances: Floats) -> Floats:
    """Bounds on |f(s) - f(t)| for s, t in a box (D,) inside the domain: distances (P, D) -> (P, m)."""
    known = target.modulus(distances)
    if known is None:
        known = np.full((len(distances), target.outputs), np.inf)
    most = 1 if target.domain.size > TUNING.most_variables and np.isfinite(known).all() else _most(target.domain.size)
    return np.minimum(known, _by_boxes(target, region, distances, most))


def _by_boxes(target: Target, region: Interval, distances: Floats, most: int) -> Floats:
    """The largest of slopes and widths over a cover of the region, by about `most` boxes at most."""
    low, high = region.lo[None], region.hi[None]  # (B, D)
    settled = np.zeros((len(distances), target.outputs))  # (P, m)
    found, done = settled, 0
    while True:
        bounds, done = _bounds(target, low, high, region, distances), done + len(low)  # (B, P, m)
        centres = Interval(low, high).mid
        with np.errstate(invalid="ignore"):
            found = np.fmax(found, _slopes(target, Interval(centres), distances, unknown=0.0).max(axis=0))
        out = (bounds > TUNING.close * found).any(axis=(1, 2)) & (low < high).any(axis=1)
        settled = np.maximum(settled, bounds[~out].max(axis=0, initial=0.0))
        rest = np.flatnonzero(out)
        if not len(rest) or done >= most:
            return np.maximum(settled, bounds[rest].max(axis=0, initial=0.0))
        low, high = _halves(low[rest], high[rest], region.hi - region.lo)


def _bounds(target: Target, low: Floats, high: Floats, region: Interval, distances: Floats) -> Floats:
    """For each box the smaller of slope and width, (B, P, m)."""
    slopes = _slopes(target, Interval(low, high), distances, unknown=np.inf)
    lost = np.flatnonzero(~np.isfinite(slopes).all(axis=(1, 2)))
    for number, reach in enumerate(distances if len(lost) else ()):
        near = np.nextafter(low[lost] - reach, -np.inf), np.nextafter(high[lost] + reach, np.inf)
        range_ = target.enclose(Interval(np.maximum(near[0], region.lo), np.minimum(near[1], region.hi)))
        width = np.nextafter(range_.hi - range_.lo, np.inf)
        width = np.where(np.isnan(width), np.inf, width) if reach.any() else np.zeros_like(width)
        slopes[lost, number] = np.minimum(slopes[lost, number], width)
    return slopes


def _slopes(target: Target, boxes: Interval, distances: Floats, unknown: float) -> Floats:
    """`Σ_k sup |∂_k f_j| d_k` on each box, (B, P, m); `unknown` where f may not be differentiable."""
    shape = len(boxes), len(distances), target.outputs
    with np.errstate(all="ignore"):
        series = target.jets(variables(boxes, 1))  # (B, m)
    if series is None:
        return np.full(shape, unknown)
    size = rounded_up(np.abs(series.mid[..., 1:]) + series.rad[..., 1:], 1)  # (B, m, D)
    known = np.isfinite(size).all(axis=2) & np.isfinite(series.rad[..., 0])  # (B, m)
    slopes = dot_up(np.where(known[..., None], size, 0.0), distances.T)  # (B, m, P)
    return np.where(known[..., None], slopes, unknown).transpose(0, 2, 1)


def _halves(low: Floats, high: Floats, extent: Floats) -> tuple[Floats, Floats]:
    """Each box (B, D) in two, across its longest axis as measured by `extent`."""
    rows, axis = np.arange(len(low)), np.argmax((high - low) / extent, axis=1)
    middle = Interval(low, high).mid[rows, axis]
    left, right = high.copy(), low.copy()
    left[rows, axis] = right[rows, axis] = middle
    return np.concatenate([low, right]), np.concatenate([left, high])
