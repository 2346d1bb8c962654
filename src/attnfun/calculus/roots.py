"""Roots in one variable: intervals with exactly one, intervals that are undecided, and none elsewhere [T 13.4].

An interval is left out where the range of the target does not hold 0. Where the slope has one sign on an interval, the
target is monotone: values of opposite signs at its ends mean exactly one root, which the interval Newton method then
encloses closely, values of one sign none. All else is cut, at a point where the target is surely not 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, join
from ..errors import InputError
from ..resources.deadline import Deadline
from .answers import Enclosure, Roots
from .estimates import estimated_roots
from .functions import Flags, Floats, Function, Subject, enclosures

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class RootTuning:
    """How intervals are cut for roots. What is said of an interval is proved, whatever is cut."""

    degree: int = 6
    """Degree of the remainder. By trial."""
    rounds: int = 64
    """Rounds of cutting, at most. More than it takes to the narrowest interval."""
    narrowest: float = 2.0**-36
    """Intervals this narrow, as a share of the domain, are not cut. A round number."""
    most_intervals: int = 2**13
    """Intervals that may be open at a time. For memory."""
    cuts: tuple[float, ...] = (0.5, 0.46875, 0.546875, 0.390625, 0.640625)
    """Where an interval may be cut, as a share of its width. Where one is a root, the next is not."""
    newton: int = 60
    """Steps of Newton's method, at most. More than it takes to double digits from one to all."""


TUNING = RootTuning()


def roots(subject: Subject, deadline: Deadline) -> Roots:
    """The roots of the target on its interval."""
    if subject.function.domain.size != 1:
        raise InputError(
            "roots need a function of one variable",
            got=repr(subject.function.domain),
            remedy="Fix the other variables: compile the formula with numbers in their places.",
        )
    if not subject.target.enclosable:
        return estimated_roots(subject)
    single, undecided, defined = isolated(subject.function, deadline)
    status = subject.target_status(defined)
    found, open_ = (
        tuple(Enclosure(float(low), float(high), status) for low, high in zip(each.lo, each.hi, strict=True))
        for each in (single, undecided)
    )
    return Roots(subject.box, found, open_, status, subject.assumptions(defined))


def isolated(function: Function, deadline: Deadline) -> tuple[Interval, Interval, bool]:
    """Intervals (K,) with exactly one root each, undecided ones (K',), and whether the target is surely defined."""
    low, high = (end[:, 0] for end in function.domain.starts())
    least, intervals = float(high[0] - low[0]) * TUNING.narrowest, Interval(low, high)
    single, undecided, defined = [Interval(np.empty(0))], [Interval(np.empty(0))], True
    for _ in range(TUNING.rounds):
        one, none, sure = _decided(function, intervals)
        single.append(intervals[one])
        rest = ~one & ~none
        narrow = rest & ~(intervals.hi - intervals.lo > least)
        undecided.append(intervals[narrow])
        defined &= bool(sure[~rest | narrow].all())
        intervals = intervals[rest & ~narrow]
        if not len(intervals) or deadline.over or len(intervals) > TUNING.most_intervals:
            break
        intervals = _cut(function, intervals)
    defined &= not len(intervals)
    left = _merged(join([*undecided, intervals]))
    if len(left):  # what was cut at a place where the sign is not known
        one, none, _ = _decided(function, left)
        single.append(left[one])
        left = left[~one & ~none]
    found = _narrowed(function, join(single))
    _, first = np.unique(found.lo, return_index=True)  # a cut that is a root itself ends two intervals
    return found[first], left, defined


def _decided(function: Function, intervals: Interval) -> tuple[Flags, Flags, Flags]:
    """Which intervals (K,) hold exactly one root, which hold none, and on which the target is surely defined."""
    boxes = intervals.reshape(-1, 1)
    models = function.models(boxes, TUNING.degree)
    values = enclosures(function, boxes, models)
    defined = np.broadcast_to(values.defined, values.shape)
    none = (values.lo > 0) | (values.hi < 0)
    if models is None:
        return np.zeros(len(none), dtype=bool), none, defined
    slopes = models.slopes()[:, 0]
    monotone = ((slopes.lo > 0) | (slopes.hi < 0)) & defined
    starts, ends = _signs(function, intervals.lo), _signs(function, intervals.hi)
    one = monotone & ~none & ((starts * ends == -1) | (starts == EXACT) | (ends == EXACT))
    return one, none | (monotone & (starts * ends == 1)), defined


EXACT = 9
"""The sign of a value that is surely 0."""


def _signs(function: Function, points: Floats) -> Integers:
    """1 or -1 where the target is surely positive or negative, 0 where nothing is known, EXACT where it is surely 0."""
    values = function.enclose(Interval(points[:, None]))
    signs = np.where(values.lo > 0, 1, np.where(values.hi < 0, -1, 0))
    return np.where(values.defined, np.where((values.lo == 0) & (values.hi == 0), EXACT, signs), 0)


def _cut(function: Function, intervals: Interval) -> Interval:
    """Intervals cut where the target is surely not 0, if there is such a place near the middle."""
    width = intervals.hi - intervals.lo
    places, waiting = intervals.mid, np.ones(len(intervals), dtype=bool)
    for share in TUNING.cuts:
        tried = intervals.lo + share * width
        found = waiting & (np.abs(_signs(function, tried)) == 1)
        places, waiting = np.where(found, tried, places), waiting & ~found
        if not waiting.any():
            break
    places = np.clip(places, intervals.lo, intervals.hi)
    return Interval(np.concatenate([intervals.lo, places]), np.concatenate([places, intervals.hi]))


def _narrowed(function: Function, intervals: Interval) -> Interval:
    """Intervals with one root each, as narrow as the interval Newton method makes them.

    The root x satisfies `f(m) + f'(ξ) (x - m) = 0` for any m of the interval, so it is in `m - f(m)/f'(interval)`.
    """
    if not len(intervals):
        return intervals
    for point in (intervals.lo, intervals.hi):
        exact = _signs(function, point) == EXACT
        intervals = Interval(np.where(exact, point, intervals.lo), np.where(exact, point, intervals.hi))
    for _ in range(TUNING.newton):
        models, middle = function.models(intervals.reshape(-1, 1), TUNING.degree), intervals.mid
        if models is None:
            break
        slopes = models.slopes()[:, 0]
        step = Interval(middle) - function.enclose(Interval(middle[:, None])) / slopes
        low, high = np.maximum(intervals.lo, step.lo), np.minimum(intervals.hi, step.hi)
        better = (high >= low) & (high - low < 0.9 * (intervals.hi - intervals.lo))
        if not better.any():
            break
        intervals = Interval(np.where(better, low, intervals.lo), np.where(better, high, intervals.hi))
    return intervals


def _merged(intervals: Interval) -> Interval:
    """Intervals that touch put together, by rising ends."""
    order = np.argsort(intervals.lo, kind="stable")
    lows, highs = list[float](), list[float]()
    for low, high in zip(intervals.lo[order].tolist(), intervals.hi[order].tolist(), strict=True):
        if highs and low <= highs[-1]:
            highs[-1] = max(highs[-1], high)
        else:
            lows.append(low)
            highs.append(high)
    return Interval(np.array(lows), np.array(highs))
