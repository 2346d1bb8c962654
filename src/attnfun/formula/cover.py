"""Ranges of all operations of a formula over its domain, by boxes that cover it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..resources.deadline import NEVER, Deadline
from .program import Floats, Program

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class CoverTuning:
    """How many boxes the domain of a formula is cut into."""

    first: int = 4096
    """Boxes to begin with. A round number."""
    most: int = 65536
    """Boxes at most, where operations are not yet seen to be defined. For time."""
    numbers: int = 2**22
    """Boxes times operations, at most: long formulas get fewer boxes. For time and memory."""
    finest: float = 2.0**-24
    """Boxes narrower than this fraction of the domain are not cut further. A round number."""


TUNING = CoverTuning()


@dataclass(frozen=True, eq=False)
class OperationRanges:
    """Enclosures of all operations."""

    low: Floats  # (K,)
    high: Floats  # (K,)
    defined: bool

    @classmethod
    def of(cls, program: Program, low: Floats, high: Floats, deadline: Deadline = NEVER) -> OperationRanges | None:
        """Cut the domain evenly, then boxes where an operation is undefined or unbounded; None where one stays so."""
        low, high = low.reshape(1, -1), high.reshape(1, -1)
        extent = high - low
        first, most_boxes = (
            min(count, max(1, TUNING.numbers // len(program.nodes))) for count in (TUNING.first, TUNING.most)
        )
        while len(low) < first and 2 ** low.shape[1] <= first:
            low, high = _halved(low, high, extent)
        least, defined = np.full(len(program.nodes), np.inf), True
        most = -least
        while len(low):
            start, end, sure = _ranges(program, Interval(low, high), deadline)  # (K, B), (K, B), (B,)
            bounded = np.isfinite(start).all(axis=0) & np.isfinite(end).all(axis=0)  # (B,)
            small = ((high - low) / np.where(extent > 0, extent, 1.0)).max(axis=1) <= TUNING.finest
            again = ~(bounded & sure) & ~small
            if again.sum() > most_boxes:
                again[:] = False
            settled = ~again
            if (settled & ~bounded).any():
                return None
            least = np.minimum(least, start[:, settled].min(axis=1, initial=np.inf))
            most = np.maximum(most, end[:, settled].max(axis=1, initial=-np.inf))
            defined = defined and bool(sure[settled].all())
            low, high = _halved(low[again], high[again], extent)
        return cls(least, most, defined)

    def range(self, number: int) -> Interval:
        """Of one operation over the whole domain."""
        return Interval(self.low[number], self.high[number])


def _ranges(program: Program, boxes: Interval, deadline: Deadline) -> tuple[Floats, Floats, Flags]:
    """Ends of every operation on every box, and whether all are defined there."""
    steps = program.ranges(boxes, deadline)
    start, end, sure = (
        np.array([np.broadcast_to(getattr(step, name), (len(boxes),)) for step in steps])
        for name in ("lo", "hi", "defined")
    )
    return start, end, np.asarray(sure.all(axis=0))


def _halved(low: Floats, high: Floats, extent: Floats) -> tuple[Floats, Floats]:
    """Cut every box across its longest side."""
    if not len(low):
        return low, high
    rows, axis = np.arange(len(low)), np.argmax((high - low) / np.where(extent > 0, extent, 1.0), axis=1)
    middle = (low / 2 + high / 2)[rows, axis]
    left, right = high.copy(), low.copy()
    left[rows, axis] = right[rows, axis] = middle
    return np.concatenate([low, right]), np.concatenate([left, high])
