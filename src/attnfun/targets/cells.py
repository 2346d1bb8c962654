"""The function that has one value on each cell of a max-affine partition, as a target."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arithmetic import Interval
from ..domains.box import Box
from ..domains.interiors import ahead_at_most, leaders
from ..errors import InputError
from .base import Floats, Status, Target


class CellValues(Target):
    """The value `levels[j]` wherever `slopes[j]·x + offsets[j]` is the largest score; any of them on a tie.

    >>> step = CellValues(np.array([[0.0], [1.0]]), np.array([0.0, -0.5]), np.array([[2.0], [5.0]]), Box(0, 1), ())
    >>> step.values(np.array([[0.2], [0.9]])).ravel(), step.enclose(Interval([[0.1], [0.4]], [[0.2], [0.6]])).hi.ravel()
    (array([2., 5.]), array([2., 5.]))
    """

    slopes: Floats
    offsets: Floats
    levels: Floats
    status = Status.PROVED
    kind = "cell values"

    def __init__(
        self, slopes: Floats, offsets: Floats, levels: Floats, domain: Box, output_shape: tuple[int, ...]
    ) -> None:
        arrays = {"slopes": slopes, "offsets": offsets, "levels": levels}  # (N, D), (N,), (N, m)
        vars(self).update(**arrays, domain=domain, output_shape=output_shape)
        fits = levels.ndim == 2 and offsets.ndim == 1 and slopes.shape == (len(offsets), domain.size)
        if not fits or len(levels) != len(offsets) or levels.shape[1] != self.outputs or not len(offsets):
            raise InputError(
                "cells need a slope, an offset and a value each",
                got=f"{slopes.shape}, {offsets.shape} and {levels.shape}",
            )

    def values(self, rows: Floats) -> Floats:
        """The value of the cell that each row is in."""
        return self.levels[leaders(self.slopes, self.offsets, rows)[0]]

    def enclose(self, boxes: Interval) -> Interval:
        """The values of all cells that a box may meet: those whose score is nowhere surely below the centre's."""
        first, _ = leaders(self.slopes, self.offsets, boxes.mid)
        met = ahead_at_most(self.slopes, self.offsets, first, boxes.lo, boxes.hi) >= 0  # (B, N)
        met[np.arange(len(boxes)), first] = True
        low, high = (
            np.stack([edge(np.where(met, column, far), axis=1) for column in self.levels.T], axis=1)
            for edge, far in ((np.min, np.inf), (np.max, -np.inf))
        )  # (B, m)
        return Interval(low, high)

    def as_dict(self) -> dict[str, Any]:
        """Kind and name; the numbers are in `arrays`."""
        return {"kind": self.kind, "name": f"values of {len(self.offsets)} cells"}

    def arrays(self) -> dict[str, Floats]:
        """Scores and values."""
        return {"slopes": self.slopes, "offsets": self.offsets, "levels": self.levels}

    @classmethod
    def restored(
        cls, description: dict[str, Any], arrays: dict[str, Floats], domain: Box, output_shape: tuple[int, ...]
    ) -> CellValues:
        """The target of a saved network."""
        del description
        if set(arrays) != {"slopes", "offsets", "levels"} or not all(
            np.isfinite(each).all() for each in arrays.values()
        ):
            raise InputError("values of cells must have finite slopes, offsets and levels", got=", ".join(arrays))
        return cls(arrays["slopes"], arrays["offsets"], arrays["levels"], domain, output_shape)

    def __repr__(self) -> str:
        return f"values of {len(self.offsets)} cells of {self.domain!r}"
