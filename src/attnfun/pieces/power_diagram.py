"""Max-affine partitions: the cells on which one affine score leads, and the softmax indicator of each ([A]) [T 1.1].

Scores `s_j(x) = a_j·x + b_j` cut space into convex cells. With slopes c_j and offsets `-|c_j|²/2` the score is, up to a
term in x alone, `-|x - c_j|²/2`: Voronoi cells; adding constants `w_j/2` gives power diagrams. Every family (a_j, b_j)
is a power diagram of its slopes.

*Indicator.* Where cell i leads by a gap δ, `softmax(β s)_i >= 1/(1 + (N-1) e^{-βδ})`, so the indicator of its cell is
off by at most `(N-1) e^{-βδ}/(1 + (N-1) e^{-βδ})`, with equality if all others tie. *Proof.* `1/w_i` is
`1 + Σ_{j≠i} e^{-β(s_i - s_j)}`. ∎

*Boundaries.* Across the boundary of cells i and j their scores part at the rate `|a_i - a_j|`, so the weight of the one
among both falls from 1 - s to s over a distance of `2 log((1-s)/s) / |a_i - a_j|`.

*Geometry.* The points above the scores, `z >= s_j(x)` for all j, x in the box, form one convex polytope in D + 1
dimensions. The facet on plane j, seen from above, is cell j: its corners are the cell's, cells whose facets share an
edge are neighbours, and a plane without a facet leads nowhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..arguments import real_array, real_number
from ..domains.box import WIDEST, Box
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
class Boundary:
    """The wall between two cells."""

    cells: tuple[int, int]
    corners: Floats  # (V, D)
    width: float
    """The distance over which the weight of one cell among both falls from 1 - share to share."""


@dataclass(frozen=True, eq=False)
class PowerDiagram:
    """Cells of a box on which `slopes[j]·x + offsets[j]` is the largest.

    >>> cells = PowerDiagram(np.array([[0.0], [1.0]]), np.array([0.0, -0.5]), Box(-1, 3))
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
        rows, planes = self._in_domain, self._envelope[1]
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
        return list(self._walls)

    @cached_property
    def _walls(self) -> dict[tuple[int, int], list[int]]:
        """Pairs of neighbours, and the corners of the wall between them."""
        vertices, planes = self._envelope
        shared: dict[tuple[int, int], list[int]] = {}
        for vertex, touching in enumerate(planes):
            cells = sorted(cell for cell in touching if cell < len(self))
            for place, first in enumerate(cells):
                for second in cells[place + 1 :]:
                    shared.setdefault((first, second), []).append(vertex)
        size = self.domain.size
        return {pair: wall for pair, wall in sorted(shared.items()) if _dimension(vertices[wall]) == size - 1}

    @property
    def _in_domain(self) -> Floats:
        """The corners of the polytope in the domain, (V, D)."""
        return self.domain.lo.ravel() + self._envelope[0] * (self.domain.hi - self.domain.lo).ravel()

    def boundaries(self, beta: float = 1.0, share: float = 0.01) -> list[Boundary]:
        """The walls between neighbours, and how soft they are under scores that `beta` multiplies.

        >>> cells = PowerDiagram(np.array([[0.0], [1.0]]), np.array([0.0, -0.5]), Box(-1, 3))
        >>> round(cells.boundaries(beta=10.0)[0].width, 3)
        0.919
        """
        beta, share = real_number("beta", beta, above=0.0), real_number("share", share, above=0.0)
        if not share < 0.5:
            raise InputError("share must lie between 0 and 1/2", got=share)
        rows, found = self._in_domain, list[Boundary]()
        for (first, second), wall in self._walls.items():
            steep = float(np.linalg.norm(self.slopes[first] - self.slopes[second]))
            width = 2 * float(np.log((1 - share) / share)) / (beta * steep) if steep else np.inf
            found.append(Boundary((first, second), rows[wall], width))
        return found

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


def _dimension(points: Floats) -> int:
    """Dimension of the set that points (k, D) span."""
    return int((np.linalg.svd(points - points[0], compute_uv=False) > SAME).sum())
