"""WHERE: the interiors of cells, all points of a box at which one of several affine scores is ahead by a gap."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..arithmetic.directed import SMALLEST, below, sum_error
from ..errors import InputError
from .box import WIDEST, Box, Flags, Floats, Outside, admit_not_excluded

ROUNDS = 64
"""Draws after which interiors are given up as too thin to be sampled."""


class Interiors(Box):
    """The points of a box at which one of the scores `slopes[j]·x + offsets[j]` is ahead of all others by a gap.

    >>> inside = Interiors([[0.0], [1.0]], [0.0, -0.5], 0.25, Box(0, 1))
    >>> inside, inside.contains(np.array([[0.2], [0.4], [0.9]]))
    (Box(x=0:1) where one of 2 scores is ahead by 0.25, array([ True, False,  True]))
    """

    kind: ClassVar[str] = "interiors"
    fills_box = False
    slopes: Floats  # (N, D)
    offsets: Floats  # (N,)
    gap: float

    def __init__(self, slopes: npt.ArrayLike, offsets: npt.ArrayLike, gap: float, box: Box) -> None:
        super().__init__(box.lo, box.hi, box.names)
        planes, heights = (np.array(real_array("scores", part, most=WIDEST**2)) for part in (slopes, offsets))
        if planes.shape != (len(heights), box.size) or heights.ndim != 1 or not len(heights) or box.kind != Box.kind:
            raise InputError(
                f"interiors of cells need a box and N scores in its {box.size} variables",
                got=f"{box!r}, slopes {planes.shape} and offsets {heights.shape}",
            )
        for array in (planes, heights):
            array.setflags(write=False)
        object.__setattr__(self, "slopes", planes)
        object.__setattr__(self, "offsets", heights)
        object.__setattr__(self, "gap", real_number("gap", gap, above=0.0))

    def contains(self, rows: Floats) -> Flags:
        """Rows at which the first score is surely ahead of every other one by the gap."""
        if len(self.offsets) == 1:
            return super().contains(rows)
        first, _ = leaders(self.slopes, self.offsets, rows)
        behind = ahead_at_most(self.slopes, self.offsets, first, rows, rows)  # (B, N), of s_j - s_first
        behind[np.arange(len(rows)), first] = -np.inf
        return super().contains(rows) & (below(-behind.max(axis=1)) >= self.gap)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Boxes on which no score is ahead of all others by the gap: none is ahead of both that lead at the centre."""
        if len(self.offsets) == 1:
            return np.zeros(len(low), dtype=bool)
        first, second = leaders(self.slopes, self.offsets, low / 2 + high / 2)
        here = np.arange(len(low))
        ahead = ahead_at_most(self.slopes, self.offsets, first, low, high)
        ahead[here, first] = ahead_at_most(self.slopes, self.offsets, second, low, high)[here, first]
        return ahead.max(axis=1) < self.gap

    def admit(self, rows: Floats, outside: Outside) -> Floats:
        """Points that do not surely fail the condition."""
        return admit_not_excluded(self, rows, outside)

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points that surely belong to the interiors, uniform on them."""
        found = list[Floats]()
        for _ in range(ROUNDS):
            tries = super().sample(count, rng)
            found.append(tries[self.contains(tries)])
            if sum(map(len, found)) >= count:
                break
        rows = np.concatenate(found)
        if not len(rows):
            raise InputError(
                "interiors of cells must hold points that can be found",
                got=f"none of {ROUNDS * count} in {self!r}",
                remedy="Choose a smaller gap.",
            )
        return np.resize(rows, (count, self.size)) if len(rows) < count else rows[:count]

    def renamed(self, names: tuple[str, ...]) -> Interiors:
        """The same with named axes."""
        return Interiors(self.slopes, self.offsets, self.gap, super().renamed(names))

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        scores = {"slopes": self.slopes.tolist(), "offsets": self.offsets.tolist(), "gap": self.gap}
        return {"kind": self.kind, **scores, "box": super().as_dict()}

    def __repr__(self) -> str:
        return f"{super().__repr__()} where one of {len(self.offsets)} scores is ahead by {self.gap:g}"


def leaders(slopes: Floats, offsets: Floats, rows: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Which scores are the largest and the second at rows (B, D), as floats tell them; (B,) each."""
    with np.errstate(invalid="ignore", over="ignore"):
        scores = rows @ slopes.T + offsets  # (B, N)
    first = scores.argmax(axis=1)
    scores[np.arange(len(rows)), first] = -np.inf
    return first, scores.argmax(axis=1)


def ahead_at_most(slopes: Floats, offsets: Floats, others: npt.NDArray[np.intp], low: Floats, high: Floats) -> Floats:
    """Upper bounds on `s_j - s_i` over boxes (B, D), i the score named for each box, for all j: (B, N)."""
    count = 2 * slopes.shape[1] + 8
    with np.errstate(invalid="ignore", over="ignore"):
        most, size = offsets - offsets[others, None], np.abs(offsets) + np.abs(offsets[others, None])  # (B, N)
        for axis in range(slopes.shape[1]):
            apart = slopes[:, axis] - slopes[others, axis, None]  # (B, N)
            ends = low[:, axis, None], high[:, axis, None]
            most = most + np.maximum(apart * ends[0], apart * ends[1])
            steep = np.abs(slopes[:, axis]) + np.abs(slopes[others, axis, None])
            size = size + steep * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        most = most + sum_error(size, count) + count * SMALLEST
    return np.where(np.isnan(most), np.inf, most)  # of what overflows nothing is known
