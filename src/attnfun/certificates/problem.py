"""One target, one network: what a box says about their difference. Pure work that any worker can do."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np

from ..errors import InputError
from ..executors import resident
from ..interval import Interval
from ..interval.directed import above
from ..network import Network
from ..targets import Target, Unanswerable
from ..targets.base import BOUNDED
from .boxes import PARTS, Boxes, Flags, Floats
from .enclosure import Encloser
from .heads import Focus
from .rounding import INPUT, OWN
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
        rows = Interval(boxes.lo, boxes.hi)
        region, focus = self.encloser(rows.reshape(len(rows), *self.network.shape_in), boxes.focus)
        network, target = region.tokens.reshape(len(rows), -1), self.target.enclose(rows)  # (B, m)
        bound = np.maximum(network.hi - target.lo, target.hi - network.lo)
        bound = above(np.where(np.isnan(bound), np.inf, bound).max(axis=1))  # (B,)
        errors = region.error.reshape(len(rows), -1, 2).max(axis=1) * (1 + 1e-9)  # (B, 2)
        parts = np.concatenate([bound[:, None], errors[:, [INPUT, OWN]]], axis=1)  # (B, 3)
        parts = np.minimum(parts, boxes.parts)
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
            centres = Interval(rows.mid[pick]).reshape(len(pick), *self.network.shape_in)
            region, _ = self.encloser(centres, tuple(layer.take(pick) for layer in focus))
            alone = region.error.reshape(len(pick), -1, 2).max(axis=1).sum(axis=1)
            stiff[pick] = alone > STIFF * rounding[pick]
        return stiff

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


def _arrived(key: str, target: Target, network: Network, goal: float | None) -> Problem:
    """The problem on a worker, with what has been prepared for it there."""
    return resident(key, lambda: Problem(target, network, goal))
