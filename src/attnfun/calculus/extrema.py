"""Enclosures of extreme values and of where they may be taken, by branch and bound [T 13.3].

The best value known at a point is a lower bound on the maximum; the largest upper end over all boxes that are left is
an upper one. A box whose upper end is below the best value holds no maximiser. Nor does one that has a neighbourhood in
which the slope along an axis has one sign, unless it touches the end of the domain to which the function rises: then
its face there stands for it.

The network is within b of the target, so its maximum is within b of the target's; where it is taken, the target is at
least the best value less 2b.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import isinf

import numpy as np

from ..arithmetic import Interval, join
from ..arithmetic.directed import above, below, rounded_up
from ..domains.box import Box
from ..errors import InputError
from ..resources.deadline import Deadline
from ..targets import Status
from .answers import Enclosure, Extremum, Place
from .estimates import estimated_extremum
from .functions import Flags, Floats, Function, Subject, enclosures, halves, longest_axis, relative_width

DEGREES = {1: 4, 2: 3}
"""Degree of the remainder by the number of variables; 2 beyond."""


@dataclass(frozen=True)
class ExtremumTuning:
    """How boxes are cut for extreme values. Enclosures hold whatever is cut."""

    rounds: int = 400
    """Rounds of cutting, at most. By trial."""
    at_a_time: int = 2**11
    """Boxes that are cut in one round, those with the largest values first. For memory."""
    most_boxes: int = 2**15
    """Boxes that may be left. For memory."""
    most_calls: int = 2**18
    """Boxes that are looked at, at most. For time."""
    settled: float = 2.0**-30
    """Boxes this small, as a share of the domain, are not cut for the sake of the place alone. A round number."""
    few: int = 128
    """More boxes than this are not cut for the sake of the place alone. A round number."""
    coarse: float = 2.0**-7
    """Boxes where only the network may take its extreme value are cut down to this share of the domain, and slopes do
    away with no larger ones. A round number."""
    most_places: int = 512
    """More boxes than this are shown as one. A round number."""


TUNING = ExtremumTuning()


def extremum(subject: Subject, kind: str, tolerance: float, deadline: Deadline) -> Extremum:
    """The maximum or the minimum; its enclosure is about as wide as `tolerance` says, relative to the values."""
    if not isinf(subject.certificate.norm):
        raise InputError(
            "extreme values need a certificate in the sup norm",
            got=f"L_{subject.certificate.norm:g}",
            remedy='Compile with norm="inf".',
        )
    sign, bound = (1.0 if kind == "maximum" else -1.0), subject.bound
    sure = subject.certificate.status is not Status.ESTIMATED
    if not subject.target.enclosable:
        return estimated_extremum(subject, kind)
    found = maximum(replace(subject.function, sign=sign), tolerance, 2 * bound if sure else 0.0, deadline)
    ends = sorted((sign * found.low, sign * found.high))
    target = Enclosure(ends[0], ends[1], subject.target_status(found.defined))
    network = Enclosure(
        float(below(np.float64(ends[0] - bound))),  # type: ignore[arg-type]
        float(above(np.float64(ends[1] + bound))),  # type: ignore[arg-type]
        subject.network_status(found.defined),
    )
    if not sure:
        network = Enclosure(target.mid, target.mid, Status.ESTIMATED)
    domain = subject.function.domain
    return Extremum(
        subject.box,
        kind,
        target,
        network,
        places(found.boxes, domain),
        places(found.near, domain),
        subject.assumptions(found.defined),
    )


@dataclass(frozen=True)
class Maximum:
    """What is known of the largest value of a function on a box."""

    low: float
    high: float
    boxes: Interval
    """Where it may be taken, (K, D)."""
    near: Interval
    """Where the function may come within the slack of it, (K', D)."""
    defined: bool


def maximum(function: Function, tolerance: float, slack: float, deadline: Deadline) -> Maximum:
    """Branch and bound; boxes where the function may come within `slack` of its maximum are kept beside."""
    low, high = function.domain.starts()
    whole, degree = Interval(low, high), DEGREES.get(function.domain.size, 2)
    slack = rounded_up(slack, 2)
    search = _Search(function, whole, degree, TUNING.coarse if slack else 1.0)
    leaves = search.look(whole)
    calls, defined = 1, True
    for _ in range(TUNING.rounds):
        best, upper = search.best, leaves.upper
        open_, near = upper >= best, _not_below(upper, best - slack) & (slack > 0)
        done = float(upper.max(initial=best)) - best <= tolerance * max(search.scale, abs(best))
        width = relative_width(leaves.boxes, whole)
        cut = open_ & (width > TUNING.settled) & (np.count_nonzero(open_) <= TUNING.few) if done else open_
        cut = (cut | (near & ~open_ & (width > TUNING.coarse))) & (leaves.boxes.mid > leaves.boxes.lo).any(axis=1)
        defined &= bool(leaves.defined[~open_ & ~near].all())
        leaves, cut = leaves.take(open_ | near), cut[open_ | near]
        if not cut.any() or len(cut) > TUNING.most_boxes or calls > TUNING.most_calls or deadline.over:
            break
        chosen = np.flatnonzero(cut)
        chosen = chosen[np.argsort(-leaves.upper[chosen], kind="stable")[: TUNING.at_a_time]]
        keep = np.ones(len(cut), dtype=bool)
        keep[chosen] = False
        boxes = leaves.boxes[chosen]
        parts = halves(boxes, longest_axis(boxes, whole))
        leaves = _Leaves.joined([leaves.take(keep), search.look(parts)])
        calls += len(parts)
    best, defined = search.best, defined and bool(leaves.defined.all())
    left = leaves.take(leaves.upper >= best)
    near = _Leaves.joined([leaves, *search.cut_off])
    near = near.take(_not_below(near.upper, best - slack)) if slack else left
    return Maximum(best, float(left.upper.max(initial=best)), left.boxes, near.boxes, defined)


@dataclass(frozen=True)
class _Leaves:
    """Boxes that are left, (K, D), upper ends of the function on them, and whether it is surely defined there."""

    boxes: Interval
    upper: Floats
    defined: Flags

    @classmethod
    def joined(cls, parts: list[_Leaves]) -> _Leaves:
        """Several one after the other."""
        upper, defined = (np.concatenate([getattr(part, name) for part in parts]) for name in ("upper", "defined"))
        return cls(join([part.boxes for part in parts]), upper, defined)

    def take(self, chosen: Flags) -> _Leaves:
        """Some of them."""
        return _Leaves(self.boxes[chosen], self.upper[chosen], self.defined[chosen])


def _not_below(upper: Floats, level: float) -> Flags:
    """Which ends are not surely below a level that was computed with one rounding."""
    return upper >= np.nextafter(level, -np.inf)


class _Search:
    """Looks at boxes; remembers the best value at a point, and the boxes that slopes did away with."""

    def __init__(self, function: Function, whole: Interval, degree: int, widest: float) -> None:
        self.function, self.whole, self.degree, self.widest = function, whole, degree, widest
        self.best, self.scale = -np.inf, 0.0
        self.cut_off: list[_Leaves] = []

    def look(self, boxes: Interval) -> _Leaves:
        """The boxes that may hold a maximiser, as faces where the slope says so, and upper ends of the function."""
        wider = self._widened(boxes)
        models = self.function.models(wider, self.degree)
        values = enclosures(self.function, wider, models)
        leaves = _Leaves(boxes, values.hi, np.broadcast_to(values.defined, values.shape))
        if models is not None:
            ready = leaves.defined & (relative_width(boxes, self.whole) <= self.widest)  # (B,)
            slopes, wide = models.slopes(), (boxes.hi > boxes.lo) & ready[:, None]  # (B, D)
            rising, falling = (slopes.lo > 0) & wide, (slopes.hi < 0) & wide
            inside = (rising & (boxes.hi < self.whole.hi)) | (falling & (boxes.lo > self.whole.lo))
            self.cut_off.append(leaves.take(np.any(rising | falling, axis=1).reshape(-1)))
            faces = Interval(np.where(rising, boxes.hi, boxes.lo), np.where(falling, boxes.lo, boxes.hi))
            leaves = _Leaves(faces, leaves.upper, leaves.defined).take(~np.any(inside, axis=1).reshape(-1))
        if len(leaves.boxes):
            centres = self.function.enclose(Interval(leaves.boxes.mid))
            self.best = max(self.best, float(np.where(centres.defined, centres.lo, -np.inf).max()))
            self.scale = max(self.scale, float(np.abs(centres.mid).max()))
            leaves = _Leaves(
                leaves.boxes,
                np.minimum(leaves.upper, self.function.enclose(leaves.boxes).hi),
                leaves.defined,
            )
        return leaves

    def _widened(self, boxes: Interval) -> Interval:
        """Neighbourhoods of boxes in the domain; along axes where a box has no width, the box itself."""
        wide = boxes.hi > boxes.lo
        low, high = np.maximum(below(boxes.lo), self.whole.lo), np.minimum(above(boxes.hi), self.whole.hi)
        return Interval(np.where(wide, low, boxes.lo), np.where(wide, high, boxes.hi))


def places(boxes: Interval, domain: Box) -> tuple[Place, ...]:
    """Boxes (K, D) that touch put together, each as one range a variable."""
    low, high = boxes.lo, boxes.hi
    if len(low) > TUNING.most_places:
        low, high = low.min(axis=0, keepdims=True), high.max(axis=0, keepdims=True)
    groups: list[tuple[Floats, Floats]] = []
    for k in np.argsort(low[:, 0], kind="stable"):
        start, end = low[k], high[k]
        touching = [each for each in groups if bool(((each[0] <= end) & (each[1] >= start)).all())]
        groups = [each for each in groups if not any(each is one for one in touching)]
        starts, ends = [start, *(one for one, _ in touching)], [end, *(one for _, one in touching)]
        groups.append((np.min(starts, axis=0), np.max(ends, axis=0)))
    axes = domain.axes
    if len(set(axes)) < domain.size or domain.size != len(axes):
        axes = tuple(f"x{k}" for k in range(domain.size))
    return tuple(
        {name: (float(a), float(b)) for name, a, b in zip(axes, start, end, strict=True)} for start, end in groups
    )
