"""One target, one network: what a box says about their difference. Pure work that any worker can do [T 10.3]."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np

from ..arithmetic import Interval
from ..arithmetic.directed import above, below
from ..arithmetic.formats import round_to
from ..arithmetic.jets import variables
from ..arithmetic.rounding import OWN
from ..domain import Box
from ..errors import InputError
from ..executors import resident
from ..network import Network
from ..targets import Target, Unanswerable
from ..targets.base import BOUNDED
from .boxes import PARTS, Boxes, Flags, Floats
from .enclosure import Encloser
from .heads import Focus, Region
from .taylor import TaylorBounds

STIFF = 0.9
"""If halving a box leaves more than this fraction of its rounding part, and so does its centre alone, cutting it
further is no remedy."""
TRIALS = 32
"""Boxes on which Taylor series are tried before a whole batch is done with them."""


@dataclass(frozen=True, eq=False)
class Problem:
    """Bounds the error of `network` as an imitation of `target` on batches of boxes."""

    target: Target
    network: Network
    goal: float | None = None
    """The bound that would do: it says how precise tails must be."""
    key: str = field(default_factory=lambda: uuid4().hex, init=False, repr=False)
    """Under which workers keep it."""

    @cached_property
    def encloser(self) -> Encloser:
        """Natural enclosures of the network."""
        return Encloser(self.network, self.goal)

    @cached_property
    def taylor(self) -> TaylorBounds:
        """Taylor series of the difference."""
        return TaylorBounds(self.target, self.network, self.encloser.banks)

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (self.key, self.target, self.network, self.goal)

    def root(self) -> Boxes:
        """Boxes that cover the domain, about which nothing is known."""
        low, high = self.target.domain.starts()
        count = len(low)
        unknown, no = (np.full((count, len(PARTS)), np.inf), np.zeros(count)), np.zeros(count, dtype=bool)
        focus = tuple(layer.take(np.zeros(count, dtype=np.int64)) for layer in self.encloser.start())
        return Boxes(low, high, *unknown, no, no, focus)

    def bounded(self, boxes: Boxes, easy: float) -> Boxes:
        """The boxes with bounds of their own. No series are tried where a bound with its rounding is at most `easy`.

        A box that surely holds no point of the domain has no error.
        """
        rows = self._with_neighbours(Interval(boxes.lo, boxes.hi))
        region, focus, errors = self._enclosed(rows, boxes.focus)
        network, target = region.tokens.reshape(len(rows), -1), self.target.enclose(rows)  # (B, m)
        bound = np.maximum(network.hi - target.lo, target.hi - network.lo)
        bound = above(np.where(np.isnan(bound), np.inf, bound).max(axis=1))  # (B,)
        bound, errors = np.minimum(bound, boxes.parts[:, 0]), _smaller(errors, boxes.parts[:, 1:])
        parts = np.concatenate([bound[:, None], errors], axis=1)  # (B, 3)
        empty = self.target.domain.excludes(boxes.lo, boxes.hi)
        parts[empty] = 0.0
        parts[:, 0] = self._by_series(rows, focus, parts[:, 0], easy - parts[:, 1:].sum(axis=1))
        return replace(
            boxes,
            parts=parts,
            seen=self._at_centres(Interval(rows.mid), region.points.reshape(len(rows), -1)),
            defined=np.broadcast_to(target.defined, target.shape).all(axis=1) | empty,
            stiff=self._stiff(rows, focus, parts[:, 1:].sum(axis=1), boxes.parts[:, 1:].sum(axis=1)),
            focus=focus,
        )

    def _stiff(self, rows: Interval, focus: tuple[Focus, ...], rounding: Floats, before: Floats) -> Flags:
        """Is rounding, which halving the box did not lessen, as large at the centre alone?"""
        stiff = rounding > STIFF * before  # (B,)
        pick = np.flatnonzero(stiff)
        if len(pick):
            centres = self._with_neighbours(Interval(rows.mid[pick]))
            *_, alone = self._enclosed(centres, tuple(layer.take(pick) for layer in focus))
            stiff[pick] = alone.sum(axis=1) > STIFF * rounding[pick]
        return stiff

    @cached_property
    def _keeps(self) -> bool:
        """Is the dtype coarse, and does rounding to it leave no point of the domain outside?

        Rounding is monotone, so it is enough that the ends are numbers of the dtype that are not flushed to zero.
        """
        ends, tiny = np.stack([self.target.domain.lo, self.target.domain.hi]), self.encloser.arithmetic.tiny
        flushed = (ends != 0) & (np.abs(ends) < 2 * tiny)
        exact = np.array_equal(round_to(ends, self.network.dtype), ends) and not flushed.any()
        return self.encloser.arithmetic.coarse and type(self.target.domain) is Box and exact

    def _with_neighbours(self, rows: Interval) -> Interval:
        """Boxes (B, D) and where rounding to a coarse dtype may move their points, within the domain."""
        if not self._keeps:
            return rows
        moved, domain = self.encloser.moved(rows) * (1 + 1e-9), self.target.domain
        low = np.maximum(below(rows.lo - moved), np.minimum(rows.lo, domain.lo.ravel()))
        return Interval(low, np.minimum(above(rows.hi + moved), np.maximum(rows.hi, domain.hi.ravel())))

    def _enclosed(self, rows: Interval, focus: tuple[Focus, ...]) -> tuple[Region, tuple[Focus, ...], Floats]:
        """The network over boxes (B, D) with their neighbours, and the parts `input` and `rounding` (B, 2) there.

        Rounding moves x to x'. Either the network's own sensitivity says what that costs, or, where x' is in the domain
        and so in the same box, `|net(x') - f(x)| <= |net(x') - f(x')| + |f(x') - f(x)|`: then it is what the target's
        slope, or its range, says.
        """
        shape = (len(rows), *self.network.shape_in)
        region, narrowed = self.encloser(rows.reshape(shape), focus)
        errors = region.error.reshape(len(rows), -1, 2).max(axis=1)  # (B, 2)
        if self._keeps:
            exact, _ = self.encloser(rows.reshape(shape), focus, np.zeros(shape))
            own = exact.error[..., OWN].reshape(len(rows), -1).max(axis=1)  # (B,)
            errors = _smaller(np.stack([self._change(rows), own], axis=1), errors)
        return region, narrowed, errors * (1 + 1e-9)

    def _change(self, rows: Interval) -> Floats:
        """How much the target changes over boxes (B, D) when x moves as far as rounding moves it, (B,)."""
        range_ = self.target.enclose(rows)
        change = above(range_.hi - range_.lo)  # (B, m)
        try:
            slopes = self.target.jets(variables(rows, 1))  # (B, m)
            steepest = np.abs(slopes.mid[..., 1:]) + slopes.rad[..., 1:]  # (B, m, D)
            by_slope = (steepest * self.encloser.moved(rows)[:, None]).sum(axis=2) * (1 + 1e-9)
            change = np.fmin(change, np.where(np.isnan(by_slope), np.inf, by_slope))
        except Unanswerable:
            pass
        return np.where(np.isnan(change), np.inf, change).max(axis=1)

    def _by_series(self, rows: Interval, focus: tuple[Focus, ...], bound: Floats, easy: Floats) -> Floats:
        """Improve bounds (B,) by Taylor series, unless a few trials say that the boxes are still too large for them."""
        wanted = np.flatnonzero(bound > easy)
        trial = wanted[np.linspace(0, len(wanted) - 1, min(TRIALS, len(wanted))).astype(np.int64)]
        for pick in (trial, np.setdiff1d(wanted, trial)):
            if not len(pick):
                break
            try:
                series = self.taylor(rows[pick], tuple(layer.take(pick) for layer in focus))
            except Unanswerable:
                break
            if not (series < bound[pick]).any():
                break
            bound[pick] = np.minimum(bound[pick], series)
        return bound

    def least_error(self, point: Floats) -> float:
        """A lower bound on the error at a point (1, D), in real arithmetic; 0 outside of the domain."""
        at = Interval(point)
        if not self.target.domain.contains(point)[0]:
            return 0.0
        region, _ = self.encloser(at.reshape(1, *self.network.shape_in), self.encloser.start())
        network, target = region.tokens.reshape(1, -1), self.target.enclose(at)  # (1, m)
        return max(0.0, *(network - target).lo.ravel(), *(target - network).lo.ravel())

    def _at_centres(self, centres: Interval, values: Floats) -> Floats:
        """Errors at centres (B, D) with network values (B, m), the target enclosed there; 0 outside the domain."""
        target, inside = self.target.enclose(centres), self.target.domain.contains(centres.lo)
        lost = inside & ~(np.isfinite(target.lo) & np.isfinite(target.hi)).all(axis=1)
        if lost.any():
            point = centres[int(np.flatnonzero(lost)[0])].reshape(1, -1)
            raise InputError(
                f"the target must be defined and finite on the whole domain, but {self.target.explain(point)}",
                remedy=BOUNDED,
            )
        return np.where(inside, np.maximum(values - target.lo, target.hi - values).max(axis=1), 0.0)


def _smaller(first: Floats, second: Floats) -> Floats:
    """For each box the pair of parts (B, 2) with the smaller sum: parts of different pairs do not add up to a bound."""
    return np.where((first.sum(axis=1) < second.sum(axis=1))[:, None], first, second)


def _arrived(key: str, target: Target, network: Network, goal: float | None) -> Problem:
    """The problem on a worker, with what has been prepared for it there."""
    return resident(key, lambda: Problem(target, network, goal))
