"""Refuse early a target that has a pole or is undefined inside its domain.

Boxes on which the enclosure is unbounded are halved, a few at a time. Where a box is still unbounded at the finest
width, no network can be close and the formula is refused with that box. Finding nothing proves nothing: the
certificate's own search covers the whole domain.
"""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from ..interval import Interval
from .base import Status, Target

KEPT = 64
"""Boxes followed at a time."""
FINEST = 2.0**-40
"""Fraction of the domain's width at which a box counts as a point."""


def refuse_poles(target: Target) -> None:
    """Raise InputError with the guilty part and box if the target is unbounded somewhere."""
    if target.status is not Status.PROVED:
        return
    extent = (target.domain.hi - target.domain.lo).reshape(1, -1)
    low, high = target.domain.lo.reshape(1, -1), target.domain.hi.reshape(1, -1)  # (B, D)
    while len(low):
        boxes = Interval(low, high)
        range_ = target.enclose(boxes)
        unbounded = ~(np.isfinite(range_.lo) & np.isfinite(range_.hi)).all(axis=1)
        width = (high - low) / extent
        point = unbounded & (width <= FINEST).all(axis=1)
        if point.any():
            box = boxes[int(np.flatnonzero(point)[0])].reshape(1, -1)
            raise InputError(
                f"the target must be defined and bounded on the whole domain, but {target.explain(box)}",
                remedy="Shrink the domain, or change the formula there.",
            )
        worst = np.flatnonzero(unbounded)[:KEPT]
        low, high, width, middle = low[worst], high[worst], width[worst], boxes.mid[worst]
        rows, axis = np.arange(len(worst)), np.argmax(width, axis=1) if len(worst) else np.arange(0)
        left, right = high.copy(), low.copy()
        left[rows, axis] = right[rows, axis] = middle[rows, axis]
        low, high = np.concatenate([low, right]), np.concatenate([left, high])
