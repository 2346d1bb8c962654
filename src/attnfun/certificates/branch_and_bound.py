"""Bound the largest error over a domain by cutting it into boxes, worst first.

On each box the target lies in [F_lo, F_hi] and the network, in real arithmetic, in [Y_lo, Y_hi], so its error is at
most `max(Y_hi - F_lo, F_hi - Y_lo)`; what rounding adds on that box comes on top. At the centre the same formula, with
the target enclosed at that one point, says how large a bound any proof must be left with (`found`). Boxes are cut until
no bound exceeds the goal, or until the bound is within 5 % of `found`. At every moment the largest bound over all boxes
is a valid bound over the domain, so stopping early is sound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..interval import Interval
from ..interval.directed import ULP, above
from ..network import Network
from ..targets import Target, Unanswerable
from .enclosure import Encloser
from .heads import Focus
from .rounding import INPUT, OWN
from .taylor import TaylorBounds

Floats = npt.NDArray[np.float64]

BATCH = 4096
"""Boxes cut at a time, at least; a quarter of those waiting when they are many."""
MAX_BOXES = 1_000_000
"""Boxes waiting at a time; beyond that the search stops with the bound it has."""
WITHIN = 1.05
"""Without a goal, stop when the bound is this close to the largest error found."""
FINEST = 2.0**-44
"""Boxes narrower than this fraction of the domain on every axis are not cut further."""
TRIALS = 32
"""Boxes on which Taylor series are tried before a whole batch is done with them."""
EDGE = 2.0**-8
"""Wider boxes are cut even if their bound is good, while the target is not proved to be defined on all of them."""


@dataclass(frozen=True)
class Progress:
    """What a long proof tells its caller after each round."""

    bound: float
    found: float
    boxes: int
    waiting: int


@dataclass(frozen=True, eq=False)
class Outcome:
    """A bound that holds on the whole domain, and how it was reached."""

    bound: float
    parts: dict[str, float]
    """The largest value of each part over the boxes; the bound is at most their sum."""
    found: float
    """Largest error met at a centre of a box, in real arithmetic."""
    boxes: int
    defined: bool
    """Was the target proved to be defined everywhere?"""
    worst: Interval
    """The box with the largest bound, (1, D)."""


PARTS = ("construction", "input", "rounding")


@dataclass(frozen=True, eq=False)
class _Boxes:
    """A batch of boxes with what is known on each."""

    lo: Floats  # (B, D)
    hi: Floats  # (B, D)
    parts: Floats  # (B, 3), in the order of PARTS
    defined: npt.NDArray[np.bool_]  # (B,)
    focus: tuple[Focus, ...]

    def take(self, rows: npt.NDArray[np.int64]) -> _Boxes:
        focus = tuple(layer.take(rows) for layer in self.focus)
        return _Boxes(self.lo[rows], self.hi[rows], self.parts[rows], self.defined[rows], focus)

    @property
    def bound(self) -> Floats:
        """Bound on the error of the deployed network, (B,)."""
        return self.parts.sum(axis=1) * (1 + 4 * ULP)

    @classmethod
    def join(cls, parts: list[_Boxes]) -> _Boxes:
        focus = zip(*(part.focus for part in parts), strict=True)
        return cls(
            np.concatenate([part.lo for part in parts]),
            np.concatenate([part.hi for part in parts]),
            np.concatenate([part.parts for part in parts]),
            np.concatenate([part.defined for part in parts]),
            tuple(Focus.join(list(layer)) for layer in focus),
        )


class _Search:
    """The running state of one proof."""

    def __init__(self, target: Target, network: Network) -> None:
        self.target, self.network = target, network
        self.encloser = Encloser(network)
        self.taylor: TaylorBounds | None = TaylorBounds(target, network, self.encloser.banks)
        self.easy = 0.0
        self.low, self.high = target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1)
        self.found, self.boxes, self.defined = 0.0, 0, True
        self.settled, self.parts, self.worst = 0.0, np.zeros(len(PARTS)), Interval(self.low, self.high)

    def root(self) -> _Boxes:
        """The whole domain as one box."""
        unknown = np.full((1, len(PARTS)), np.inf), np.array([False])
        return self.bounded(_Boxes(self.low, self.high, *unknown, self.encloser.start()))

    def bounded(self, boxes: _Boxes) -> _Boxes:
        """Bound the error on each box and look at its centre."""
        rows = Interval(boxes.lo, boxes.hi)
        region, focus = self.encloser(rows.reshape(len(rows), *self.network.shape_in), boxes.focus)
        network, target = region.tokens.reshape(len(rows), -1), self.target.enclose(rows)  # (B, m)
        bound = np.maximum(network.hi - target.lo, target.hi - network.lo)
        bound = above(np.where(np.isnan(bound), np.inf, bound).max(axis=1))  # (B,)
        bound = self._by_series(rows, focus, bound, boxes.parts[:, 0])
        errors = region.error.reshape(len(rows), -1, 2).max(axis=1) * (1 + 1e-9)  # (B, 2)
        parts = np.concatenate([bound[:, None], errors[:, [INPUT, OWN]]], axis=1)  # (B, 3)
        self._look(Interval(rows.mid), region.points.reshape(len(rows), -1))
        self.boxes += len(rows)
        defined = np.broadcast_to(target.defined, target.shape).all(axis=1)
        return replace(boxes, parts=np.minimum(parts, boxes.parts), defined=defined, focus=focus)

    def _by_series(self, rows: Interval, focus: tuple[Focus, ...], bound: Floats, before: Floats) -> Floats:
        """Improve bounds (B,) by Taylor series, unless a few trials say that the boxes are still too large for them."""
        wanted = np.flatnonzero(np.minimum(bound, before) > self.easy)
        if self.taylor is None or not len(wanted):
            return bound
        trial = wanted[np.linspace(0, len(wanted) - 1, min(TRIALS, len(wanted))).astype(np.int64)]
        rest = np.setdiff1d(wanted, trial)
        try:
            for pick in (trial, rest):
                series = self.taylor(rows[pick], tuple(layer.take(pick) for layer in focus)) if len(pick) else bound[:0]
                helped = series < bound[pick]
                bound[pick] = np.minimum(bound[pick], series)
                if not helped.any():
                    break
        except Unanswerable:
            self.taylor = None
        return bound

    def _look(self, centres: Interval, values: Floats) -> None:
        """Note the largest error at centres (B, D) with network values (B, m); refuse an undefined target."""
        target = self.target.enclose(centres)
        lost = ~(np.isfinite(target.lo) & np.isfinite(target.hi)).all(axis=1)
        if lost.any():
            point = centres[int(np.flatnonzero(lost)[0])].reshape(1, -1)
            raise InputError(
                f"the target must be defined and finite on the whole domain, but {self.target.explain(point)}",
                remedy="Shrink the domain, or change the formula there.",
            )
        error = np.maximum(values - target.lo, target.hi - values).max(axis=1)  # (B,)
        peak = int(np.argmax(error))
        if error[peak] > self.found:
            self.found = float(error[peak])

    def halves(self, boxes: _Boxes) -> _Boxes:
        """Cut each box in two across its longest axis, measured by the domain."""
        extent = (self.target.domain.hi - self.target.domain.lo).ravel()
        axis = np.argmax((boxes.hi - boxes.lo) / extent, axis=1)  # (B,)
        rows = np.arange(len(axis))
        middle = Interval(boxes.lo, boxes.hi).mid[rows, axis]
        left, right = boxes.hi.copy(), boxes.lo.copy()
        left[rows, axis] = right[rows, axis] = middle
        both = boxes.take(np.concatenate([rows, rows]))
        return replace(both, lo=np.concatenate([boxes.lo, right]), hi=np.concatenate([left, boxes.hi]))

    def still_open(self, boxes: _Boxes, goal: float | None) -> _Boxes:
        """Settle the boxes that are good enough or too small to cut; return the others."""
        width = ((boxes.hi - boxes.lo) / (self.high - self.low)).max(axis=1)
        stays = self.unfinished(boxes, goal) & (width > FINEST)
        self.settle(boxes.take(np.flatnonzero(~stays)))
        return boxes.take(np.flatnonzero(stays))

    def unfinished(self, boxes: _Boxes, goal: float | None) -> npt.NDArray[np.bool_]:
        """Boxes whose bound is above the goal and not yet close to the largest error found, or doubtful boxes."""
        width = ((boxes.hi - boxes.lo) / (self.high - self.low)).max(axis=1)
        far = boxes.parts[:, 0] > WITHIN * self.found
        over = far if goal is None else far & (boxes.bound > goal)
        return over | (~boxes.defined & (width > EDGE))

    def settle(self, boxes: _Boxes) -> None:
        """Take these boxes as they are."""
        if len(boxes.bound):
            peak = int(np.argmax(boxes.bound))
            self.defined &= bool(boxes.defined.all())
            self.parts = np.maximum(self.parts, boxes.parts.max(axis=0))
            if boxes.bound[peak] > self.settled:
                self.settled = float(boxes.bound[peak])
                self.worst = Interval(boxes.lo[peak : peak + 1], boxes.hi[peak : peak + 1])


def bound_error(
    target: Target,
    network: Network,
    goal: float | None,
    time_limit: float = np.inf,
    progress: Callable[[Progress], None] | None = None,
) -> Outcome:
    """Prove a bound on `max |target - network|` over the domain, for the network in its own arithmetic.

    Stops at `bound <= goal`, at a point whose error exceeds the goal (no proof is possible), within 5 % of the
    largest error found, or at a limit. Work per box is O(tokens in play there).
    """
    search, began = _Search(target, network), time.monotonic()
    waiting = search.root()
    while len(waiting.bound):
        order = np.lexsort((-waiting.bound, waiting.defined))  # doubtful boxes first, then the worst
        if progress is not None:
            highest = max(search.settled, float(waiting.bound.max()))
            progress(Progress(highest, search.found, search.boxes, len(order)))
        hopeless = goal is not None and search.found > goal
        spent = time.monotonic() - began > time_limit or len(order) > MAX_BOXES
        if hopeless or spent or not search.unfinished(waiting, goal).any():
            break
        search.easy = max(goal or 0.0, WITHIN * search.found)
        now, later = np.split(order, [max(BATCH, len(order) // 4)])
        halves = search.bounded(search.halves(waiting.take(now)))
        waiting = _Boxes.join([search.still_open(halves, goal), waiting.take(later)])
    search.settle(waiting)
    parts = {name: float(part) for name, part in zip(PARTS, search.parts, strict=True)}
    return Outcome(search.settled, parts, search.found, search.boxes, search.defined, search.worst)
