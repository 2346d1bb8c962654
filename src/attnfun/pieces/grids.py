"""Uniform cell-centred grids with a count of their own on each axis."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np
import numpy.typing as npt

from ..domains.box import Box

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Grid:
    """The box cut into `counts[k]` equal cells along axis k; centres are cell centres.

    >>> grid = Grid(Box([0, 0], [1, 4]), (1, 2))
    >>> grid.centres()
    array([[0.5, 1. ],
           [0.5, 3. ]])
    """

    domain: Box
    counts: tuple[int, ...]

    @classmethod
    def with_spacing(cls, domain: Box, spacing: Floats) -> Grid:
        """The coarsest grid whose cells are no wider than `spacing` on each axis (infinite: one cell)."""
        widths = (domain.hi - domain.lo).ravel()
        with np.errstate(over="ignore"):
            cells = np.clip(widths / spacing, 1.0, 1e300)
        return cls(domain, tuple(ceil(count) for count in cells))

    @property
    def size(self) -> int:
        """Number of cells, N."""
        return prod(self.counts)

    @property
    def spacing(self) -> Floats:
        """Cell widths, (D,)."""
        return (self.domain.hi - self.domain.lo).ravel() / np.array(self.counts, dtype=np.float64)

    @property
    def cells(self) -> tuple[Floats, Floats]:
        """Low and high ends of all cells, (N, D) each."""
        low, high, centres = self.domain.lo.ravel(), self.domain.hi.ravel(), self.centres()
        return np.clip(centres - self.spacing / 2, low, high), np.clip(centres + self.spacing / 2, low, high)

    def axis_centres(self, axis: int) -> Floats:
        """Centres along one axis."""
        low, high = self.domain.lo.ravel()[axis], self.domain.hi.ravel()[axis]
        count = self.counts[axis]
        return np.clip(low + (high - low) * (np.arange(count) + 0.5) / count, low, high)

    def centres(self) -> Floats:
        """All cell centres, (N, D), the last axis fastest."""
        mesh = np.meshgrid(*(self.axis_centres(k) for k in range(self.domain.size)), indexing="ij")
        return np.stack([axis.ravel() for axis in mesh], axis=1)  # (N, D)
