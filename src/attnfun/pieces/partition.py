"""Max-affine partitions: the cells on which one affine score leads, and the softmax indicator of each ([A]) [T 1.1].

Scores `s_j(x) = a_j·x + b_j` cut space into convex cells. With slopes c_j and offsets `-|c_j|²/2` the score is, up to a
term in x alone, `-|x - c_j|²/2`: Voronoi cells; adding constants `w_j/2` gives power diagrams. Every family (a_j, b_j)
is a power diagram of its slopes.

*Indicator.* Where cell i leads by a gap δ, `softmax(β s)_i >= 1/(1 + (N-1) e^{-βδ})`, so the indicator of its cell is
off by at most `(N-1) e^{-βδ}/(1 + (N-1) e^{-βδ})`, with equality if all others tie. *Proof.* `1/w_i` is
`1 + Σ_{j≠i} e^{-β(s_i - s_j)}`. ∎

*Geometry.* The points above the scores, `z >= s_j(x)` for all j, x in the box, form one convex polytope in D + 1
dimensions. The facet on plane j, seen from above, is cell j: its corners are the cell's, cells whose facets share an
edge are neighbours, and a plane without a facet leads nowhere.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..domains.box import WIDEST, Box, as_box
from ..errors import InputError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MOST_AXES = 3
"""Volumes, neighbours and corners are computed up to this dimension."""
BLOCK = 2**20
"""Scores held at a time."""
SAME = 1e-9
"""Corners of cells closer than this fraction of the box are one."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells of a box on which `slopes[j]·x + offsets[j]` is the largest.

    >>> cells = partition([[0.0], [1.0]], domain=(-1, 3))
    >>> cells.cell_of([0.2, 0.9]), cells.volumes, cells.neighbours
    (array([0, 1]), array([1.5, 2.5]), [(0, 1)])
    """

    slopes: Floats  # (N, D)
    offsets: Floats  # (N,)
    domain: Box

    def __len__(self) -> int:
        return len(self.offsets)

    def scores(self, points: npt.ArrayLike) -> Floats:
        """Scores at points, (..., N)."""
        rows, lead = self._rows(points)
        return (rows @ self.slopes.T + self.offsets).reshape(*lead, len(self))

    def cell_of(self, points: npt.ArrayLike) -> Integers:
        """The cell that each point is in, the first one on a tie; O(N) a point, memory O(BLOCK)."""
        return self._leaders(points)[0]

    def gap(self, points: npt.ArrayLike) -> Floats:
        """By how much the leading score exceeds the second at each point; infinite with one cell."""
        return self._leaders(points)[1]

    def indicator(self, points: npt.ArrayLike, beta: float) -> Floats:
        """Softmax weights of all cells at points, `softmax(beta s)`, (..., N)."""
        beta = real_number("beta", beta, above=0.0)
        scores = beta * self.scores(points)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights / weights.sum(axis=-1, keepdims=True)

    def indicator_error(self, gap: npt.ArrayLike, beta: float) -> Floats:
        """How far the indicator can be off where the leading score exceeds all others by `gap`. Sharp."""
        beta = real_number("beta", beta, above=0.0)
        others = (len(self) - 1) * np.exp(-beta * real_array("gap", gap))
        return others / (1 + others)

    def beta_for(self, gap: float, error: float) -> float:
        """The smallest beta for which the indicator is off by at most `error` outside the boundary layer of `gap`."""
        gap, error = real_number("gap", gap, above=0.0), real_number("error", error, above=0.0)
        if not error < 1:
            raise InputError("error must lie between 0 and 1", got=error)
        return max(float(np.log(max(len(self) - 1, 1) * (1 - error) / error) / gap), 0.0)

    @cached_property
    def corners(self) -> tuple[Floats, ...]:
        """The corners of each cell, (corners, D) a cell, none for an empty one."""
        vertices, planes = self._envelope
        rows = self.domain.lo.ravel() + vertices * (self.domain.hi - self.domain.lo).ravel()
        touched: list[list[int]] = [[] for _ in range(len(self))]
        for vertex, touching in enumerate(planes):
            for cell in touching:
                if cell < len(self):  # others are walls of the box
                    touched[cell].append(vertex)
        return tuple(rows[vertices_of_it] for vertices_of_it in touched)

    @cached_property
    def volumes(self) -> Floats:
        """Length, area or volume of each cell inside the box, (N,)."""
        from scipy.spatial import ConvexHull, QhullError

        found = np.zeros(len(self))
        for cell, corners in enumerate(self.corners):
            if self.domain.size == 1:
                found[cell] = np.ptp(corners) if len(corners) else 0.0
            elif len(corners) > self.domain.size:
                try:
                    found[cell] = ConvexHull(corners).volume
                except QhullError:  # a cell without volume
                    found[cell] = 0.0
        return found

    @cached_property
    def neighbours(self) -> list[tuple[int, int]]:
        """Pairs of cells that share a wall (not merely a corner or an edge of it)."""
        vertices, planes = self._envelope
        shared: dict[tuple[int, int], list[int]] = {}
        for vertex, touching in enumerate(planes):
            cells = sorted(cell for cell in touching if cell < len(self))
            for place, first in enumerate(cells):
                for second in cells[place + 1 :]:
                    shared.setdefault((first, second), []).append(vertex)
        return sorted(pair for pair, wall in shared.items() if _dimension(vertices[wall]) == self.domain.size - 1)

    @cached_property
    def _envelope(self) -> tuple[Floats, list[set[int]]]:
        """Corners of the polytope above the scores, in the unit cube, (V, D), and the planes that meet at each."""
        from scipy.spatial import HalfspaceIntersection, QhullError

        size = self.domain.size
        if size > MOST_AXES:
            raise InputError(f"the geometry of cells is known up to {MOST_AXES} variables", got=size)
        low, extent = self.domain.lo.ravel(), (self.domain.hi - self.domain.lo).ravel()
        slopes, offsets = self.slopes * extent, self.offsets + self.slopes @ low  # x = low + extent u, u in [0, 1]^D
        steepest = float(np.abs(slopes).max()) or 1.0
        slopes, offsets = slopes / steepest, (offsets - offsets.max()) / steepest
        top = float((np.maximum(slopes, 0).sum(axis=1) + offsets).max()) + 2.0  # above every score on the box
        walls = np.vstack([np.eye(size), -np.eye(size)])  # (2D, D)
        halfspaces = np.vstack(
            [
                np.hstack([slopes, np.full((len(self), 1), -1.0), offsets[:, None]]),  # s_j(u) - z <= 0
                np.hstack([walls, np.zeros((2 * size, 1)), np.repeat([-1.0, 0.0], size)[:, None]]),
                np.append(np.zeros(size), [1.0, -top])[None],
            ]
        )
        inside = np.append(np.full(size, 0.5), top - 0.5)
        try:
            polytope = HalfspaceIntersection(halfspaces, inside)
        except QhullError as reason:
            raise InputError(
                "slopes and offsets must be of sizes that floats can compare", got=str(reason).splitlines()[0]
            ) from None
        points = polytope.intersections
        below = points[:, -1] < top - SAME
        planes = [set(facet) for facet in polytope.dual_facets]
        return points[below, :size], [touching for touching, keep in zip(planes, below, strict=True) if keep]

    def _rows(self, points: npt.ArrayLike) -> tuple[Floats, tuple[int, ...]]:
        """Points as rows (B, D), finite, and their leading axes."""
        return self.domain.flatten(real_array("points", points, most=WIDEST))

    def _leaders(self, points: npt.ArrayLike) -> tuple[Integers, Floats]:
        rows, lead = self._rows(points)
        cells, gaps = np.empty(len(rows), dtype=np.int64), np.full(len(rows), np.inf)
        step = max(1, BLOCK // len(self))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            scores = rows[part] @ self.slopes.T + self.offsets  # (b, N)
            cells[part] = scores.argmax(axis=1)
            if len(self) > 1:
                best = np.partition(scores, -2, axis=1)[:, -2:]
                gaps[part] = best[:, 1] - best[:, 0]
        return cells.reshape(lead), gaps.reshape(lead)

    def plot(self, path: str | os.PathLike[str] | None = None) -> Any:
        """A matplotlib figure of the cells (2-D) or of the scores and their maximum (1-D); saved if `path` is given."""
        from ..look.plots import plot_partition

        return plot_partition(self, path)

    def __repr__(self) -> str:
        return f"Partition({len(self)} cells of {self.domain!r})"


def partition(
    centres: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    *,
    slopes: npt.ArrayLike | None = None,
    offsets: npt.ArrayLike | None = None,
    domain: object,
) -> Partition:
    """A max-affine partition of a box.

    `centres` (N, D) alone give Voronoi cells; with `weights` (N,) the power diagram, where the cell of c is as large as
    if |x - c|² were less by its weight. `slopes` (N, D) and `offsets` (N,) give any other.
    """
    box = as_box(domain)
    if (centres is None) == (slopes is None) or (slopes is None) != (offsets is None):
        raise InputError("a partition needs centres, or slopes and offsets", remedy="Give one of the two.")
    if slopes is not None and weights is not None:
        raise InputError("weights go with centres", remedy="Add half of them to the offsets instead.")
    rows = _table("centres" if slopes is None else "slopes", centres if slopes is None else slopes, box.size)
    if slopes is not None:
        heights = _column("offsets", offsets, len(rows))
    else:
        heights = (_column("weights", 0.0 if weights is None else weights, len(rows)) - (rows**2).sum(axis=1)) / 2
    return Partition(rows, heights, box)


def _table(name: str, value: Any, size: int) -> Floats:
    table = np.array(real_array(name, value, most=WIDEST))
    if table.ndim == 1 and size == 1:
        table = table[:, None]
    if table.ndim != 2 or table.shape[1] != size or not len(table):
        raise InputError(f"{name} must be finite numbers of shape (N, {size})", got=f"shape {table.shape}")
    return table


def _column(name: str, value: Any, count: int) -> Floats:
    column = real_array(name, value, most=WIDEST**2)
    if column.shape not in ((), (count,)):
        raise InputError(f"{name} must be {count} finite numbers", got=f"shape {column.shape}")
    return np.broadcast_to(column, (count,)).copy()


def _dimension(points: Floats) -> int:
    """Dimension of the set that points (k, D) span."""
    return int((np.linalg.svd(points - points[0], compute_uv=False) > SAME).sum())
