"""WHERE: a cloud of points, or all that is close to one of them.

A certificate on such a domain holds on exactly that set. Proofs cut the enclosing box and discard the parts that are
*proved* to lie outside (by distances), never parts that merely look empty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..arithmetic import directed
from ..arithmetic.directed import above, below, norm_up, rounded_down, rounded_up, with_room
from ..errors import InputError
from .box import WIDEST, Box, Flags, Floats, Outside, admit_inside_box, refuse_first

MOST_SHOWN = 16
"""Variables whose names are shown."""
FEW = 8
"""Roundings of a distance beside one for each coordinate."""


class Points(Box):
    """A cloud of points, or everything within the distance `fill` of one of them.

    `points` has the shape (S,), (S, D) or (S, n, d). Without `fill` a certificate holds at these points only. With
    it, the certificate covers every point within that distance of a given one: `fill` is the fill distance of the set.

    >>> cloud = Points([[0.0, 0.0], [1.0, 2.0]], fill=0.5, names=("x", "y"))
    >>> cloud, cloud.contains(np.array([[0.3, 0.3], [0.5, 0.5]]))
    (Points(2 points in x, y and all within 0.5), array([ True, False]))
    """

    def __init__(self, points: npt.ArrayLike, fill: float = 0.0, names: Sequence[str] | None = None) -> None:
        cloud = np.array(real_array("points", points, most=WIDEST))
        if cloud.ndim not in (1, 2, 3) or not cloud.size:
            raise InputError("points must be finite numbers of shape (S,), (S, D) or (S, n, d)", got=cloud.shape)
        fill = real_number("fill, a distance,", fill, least=0.0, most=WIDEST)
        low, high = directed.add_down(cloud.min(axis=0), -fill), directed.add_up(cloud.max(axis=0), fill)
        flat = np.where(low == high, 0.5, 0.0)
        super().__init__(low - flat, high + flat, names)
        cloud.setflags(write=False)
        object.__setattr__(self, "points", cloud.reshape(len(cloud), -1))  # (S, D)
        object.__setattr__(self, "_fill", fill)

    points: Floats
    _fill: float
    fills_box = False
    kind = "points"

    @property
    def cloud(self) -> Floats:
        """The points, (S, D)."""
        return self.points

    @property
    def fill(self) -> float:
        """How far points may be from those of the cloud."""
        return self._fill

    def starts(self) -> tuple[Floats, Floats]:
        """The points themselves, or a cube around each."""
        if self.fill == 0:
            return self.points, self.points
        return below(self.points - self.fill), above(self.points + self.fill)

    def contains(self, rows: Floats) -> Flags:
        """Which rows surely belong to the set."""
        distance, _ = self.tree.query(rows)
        return (distance == 0) if self.fill == 0 else (rounded_up(distance, self.size + FEW) + self._grain <= self.fill)

    def excludes(self, low: Floats, high: Floats) -> Flags:
        """Boxes whose centre is farther from every point than half their diagonal and the fill."""
        distance, _ = self.tree.query(low / 2 + high / 2)
        diagonal = norm_up(high - low, axis=1) / 2
        return rounded_down(distance, self.size + FEW) > rounded_up(diagonal + self.fill, FEW) + self._grain

    def admit(self, rows: Floats, outside: Outside) -> Floats:
        """Points of the cloud or within its fill."""
        rows = admit_inside_box(self, rows, outside)
        if outside == "raise":
            distance, _ = self.tree.query(rows)
            refuse_first(
                distance > (with_room(self.fill) + self._grain if self.fill else 0.0),
                rows,
                f"points must be those of {self!r}",
            )
        return rows

    def sample(self, count: int, rng: np.random.Generator) -> Floats:
        """Random points of the cloud, moved by less than the fill."""
        rows = self.points[rng.integers(0, len(self.points), count)]
        move = rng.normal(size=rows.shape)
        length = np.maximum(np.sqrt((move**2).sum(axis=1, keepdims=True)), 1e-300)
        inside = rounded_down(max(self.fill - 2 * self._grain, 0.0), 2 * (self.size + FEW))
        reach = inside * rng.uniform(size=(count, 1)) ** (1 / self.size)
        return rows + move / length * reach if self.fill else rows

    def renamed(self, names: tuple[str, ...]) -> Points:
        """The same cloud with named axes."""
        return Points(self.points, self.fill, names)

    def as_dict(self) -> dict[str, Any]:
        """A JSON-ready description."""
        shape = self.points.reshape(-1, *self.shape)
        names = None if self.names is None else list(self.names)
        return {"kind": self.kind, "points": shape.tolist(), "fill": self.fill, "names": names}

    def as_code(self, most: int) -> str | None:
        """A cloud of few points."""
        cloud, names = self.points.reshape(-1, *self.shape).tolist(), None if self.names is None else list(self.names)
        return f"af.Points({cloud}, fill={self.fill}, names={names})" if self.points.size <= most else None

    @cached_property
    def _grain(self) -> float:
        """More than rounding can change in a distance."""
        return 64 * self.size * float(np.spacing(np.maximum(np.abs(self.lo), np.abs(self.hi)).max()))

    @cached_property
    def tree(self) -> Any:
        """A k-d tree of the points."""
        from scipy.spatial import KDTree

        return KDTree(self.points)

    def __repr__(self) -> str:
        within = f" and all within {self.fill:g}" if self.fill else ""
        axes = ", ".join(self.shown_axes) if self.size <= MOST_SHOWN else f"{self.size} variables"
        return f"Points({len(self.points)} {'points' if len(self.points) > 1 else 'point'} in {axes}{within})"
