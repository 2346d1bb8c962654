"""Refuse early a target that no network can imitate: a pole, an undefined place, or (in the sup norm) a jump.

Boxes on which the enclosure is wide are halved, the widest few at a time. An enclosure that is still unbounded on a box
of the finest width, or on one without a float between its ends, is a pole. One that is wider than twice the tolerance,
and has hardly shrunk while its box shrank by a factor of a million, is a jump: a network is continuous, so it is wrong
by half a jump on one side of it. There is none where a formula of continuous operations is defined. Finding nothing
proves nothing: the certificate's own search covers the whole domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..errors import InputError
from .base import BOUNDED, Floats, Status, Target, describe
from .expression import Expression


@dataclass(frozen=True)
class DefectTuning:
    """How jumps are looked for. What is refused is shown by values or enclosures of the target."""

    kept: int = 64
    """Boxes followed at a time. For time."""
    finest: float = 2.0**-40
    """The fraction of the domain's width where a box counts as a point. A round number."""
    coarse: float = 2.0**-20
    """The fraction of the domain's width where the enclosure of a box is remembered. A round number."""
    cut: float = 0.4857
    """Where boxes are cut: not in the middle, where jumps like to be, of which both halves would show only a part. Any
    number that nobody writes."""
    unshrunk: float = 0.9
    """An enclosure that falls by less than this factor from box to box does not shrink. By trial."""
    probes: int = 256
    """Points in a smallest box that say whether the target itself varies as much as its enclosure. A round number."""


TUNING = DefectTuning()


def jumps(target: Target, least: float) -> bool:
    """Is there a place where the target jumps by more than `least`, as far as its enclosures can tell?"""
    try:
        refuse_defects(target, least)
    except InputError:
        return True
    return False


def refuse_defects(target: Target, jump: float = inf, norm: float = inf) -> None:
    """Raise InputError with the box and the part of the target at a pole, or where it jumps by more than `jump`.

    In L_p, p the norm, at a pole at which the target is not known to be integrable.
    """
    declared = target.status is not Status.PROVED and not isinstance(target, Expression)
    if declared or target.continuous:
        return
    extent = (target.domain.hi - target.domain.lo).reshape(1, -1)
    low: Floats
    high: Floats
    before: Floats
    low, high = target.domain.starts()  # (B, D)
    before, formula = np.full(len(low), inf), not target.may_jump  # (B,): width of the enclosure on a coarse box
    while len(low):
        inside = ~target.domain.excludes(low, high)
        low, high, before = low[inside], high[inside], before[inside]
        if not len(low):
            return
        boxes = Interval(low, high)
        range_ = target.enclose(boxes)
        with np.errstate(invalid="ignore"):
            spread = np.nan_to_num(range_.hi - range_.lo, nan=inf, posinf=inf).max(axis=1)  # (B,)
        sure = formula & np.isfinite(spread) & np.broadcast_to(range_.defined, range_.shape).all(axis=1)
        spread = np.where(sure | _integrable(target, boxes, np.isinf(spread), norm), 0.0, spread)
        width = ((high - low) / extent).max(axis=1)
        before = np.where(width > TUNING.coarse, spread, before)
        rows, axis = np.arange(len(low)), np.argmax((high - low) / extent, axis=1)
        middle = low[rows, axis] + TUNING.cut * (high - low)[rows, axis]
        divisible = (low[rows, axis] < middle) & (middle < high[rows, axis])  # is there a float between the ends?
        point = (width <= TUNING.finest) | ~divisible
        unshrunk = np.isinf(spread) | ((width <= TUNING.finest) & (spread >= TUNING.unshrunk * before))
        for row in np.flatnonzero(point & (np.isinf(spread) | (spread > jump)) & unshrunk)[:1]:
            box = boxes[int(row)].reshape(1, -1)
            if np.isinf(spread[row]):
                raise _unbounded(target, box, norm)
            inside = np.random.default_rng(0).uniform(box.lo, box.hi, (TUNING.probes, target.domain.size))
            if np.ptp(target.values(np.concatenate([box.lo, inside, box.hi])), axis=0).max() < spread[row] / 2:
                raise InputError(
                    "in the sup norm the target must be proved to be continuous, which was not possible at "
                    f"{describe(box, target.domain)}",
                    got=f"an enclosure of width {spread[row]:.6g} on a box as small as floats allow",
                    remedy="Write nested conditions as min, max and abs, or measure the error in L_1: norm=1.",
                )
            raise InputError(
                f"in the sup norm the target must be continuous, but it jumps at {describe(box, target.domain)}",
                got=f"a jump of at least {spread[row]:.6g}",
                remedy=f"Allow an eps above {spread[row] / 2:.6g}, half the jump, or measure the error in L_1: norm=1.",
            )
        wide = np.flatnonzero(((spread > jump) | np.isinf(spread)) & ~point)
        wide = wide[np.argsort(-spread[wide], kind="stable")[: TUNING.kept]]
        left, right = high[wide], low[wide]
        left[rows[: len(wide)], axis[wide]] = right[rows[: len(wide)], axis[wide]] = middle[wide]
        low, high = np.concatenate([low[wide], right]), np.concatenate([left, high[wide]])
        before = np.concatenate([before[wide], before[wide]])


def refuse_large_values(target: Target) -> None:
    """Raise InputError where values at random points are too large for sums of them.

    Black boxes are refused when they are sampled.
    """
    if target.evaluable and target.evaluations is None:
        target.values(target.domain.sample(TUNING.kept, np.random.default_rng(0)))


def axes_towards_poles(
    target: Target, low: Floats, high: Floats, otherwise: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp]:
    """For boxes (B, D) the axis whose cut leaves the target bounded on a half, as far as enclosures tell.

    The axis `otherwise` where all are alike, (B,). Cuts are tried beside the middle, where poles like to be.
    """
    middle = low + TUNING.cut * (high - low)  # (B, D)
    bounded = np.zeros(low.shape, dtype=np.int64)  # halves, for each axis
    for axis in range(low.shape[1]):
        for lower in (True, False):
            ends = low.copy(), high.copy()
            ends[lower][:, axis] = middle[:, axis]
            bounded[:, axis] += np.isfinite(target.enclose(Interval(*ends)).magnitude).all(axis=1)
    bounded[(middle <= low) | (middle >= high)] = -1  # there is no float between the ends
    bounded *= 2
    bounded[np.arange(len(low)), otherwise] += 1
    return np.argmax(bounded, axis=1)


def _integrable(target: Target, boxes: Interval, unbounded: npt.NDArray[np.bool_], p: float) -> npt.NDArray[np.bool_]:
    """On which of the boxes on which its enclosure is unbounded is the target known to be in L_p, (B,)? Not for inf."""
    known, pick = np.zeros(len(boxes), dtype=bool), np.flatnonzero(unbounded)
    if not isinf(p) and len(pick):
        means = target.p_means(boxes[pick], p)
        if means is not None:
            known[pick] = np.isfinite(means[0])
    return known


def _unbounded(target: Target, box: Interval, p: float) -> InputError:
    """The error for a smallest box (1, D) on which the target is neither bounded nor, in L_p, integrable."""
    reason = "" if isinf(p) else target.not_integrable(box, p)
    if not reason:
        text = f"the target must be defined and bounded on the whole domain, but {target.explain(box)}"
        return InputError(text, remedy=BOUNDED)
    where = describe(box, target.domain)
    return InputError(
        f"in L_{p:g} the target must be integrable with the power {p:g}, which is not known at {where}: {reason}",
        remedy=f"Use a smaller p, or a domain without that place. {BOUNDED}",
    )
