"""Heads buy precision: one line, cut into slices with a head each (THEORY 7.3).

A head of N tokens with a uniform mesh has scores of about γN²/8, and low precision cannot bear them. H heads, each with
its own slice of the mesh variable, its own origin and N/H tokens and ghosts, have scores smaller by H². Outside its
slice a head saturates. Values of all heads are solved jointly, for the rounded keys, so they need not
agree at the cuts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np
import numpy.typing as npt

from .lines import Axis, Search, representable
from .potentials import Mesh
from .rounding import COSTS
from .solve import solved

Floats = npt.NDArray[np.float64]

HEADS = (1, 2, 3, 4, 6, 8, 12, 16)
SIZES = (8, 10, 12, 16, 20, 24)
"""Tokens of each head."""
SHAPES = ((0.5, 1), (1.0, 2))
"""Sharpness γ and ghosts."""
RIDGE = 2.0
"""Penalty on values, in units of roundoff."""
POINTS = 12
"""Points a token; every other one is a check."""
FEWEST_POINTS = 257


@dataclass(frozen=True, eq=False)
class Slices:
    """Axes with origins of their own whose heads are added up, and a constant."""

    axes: tuple[Axis, ...]
    constant: Floats  # (C,)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return sum(axis.size for axis in self.axes)

    def solved(self, data: Floats) -> list[Floats]:
        """Values of the tokens of each axis (N_h, C) for data at the common samples (S, C)."""
        weights = np.hstack([axis.weights(axis.samples) for axis in self.axes])  # (S, ΣN_h)
        values = solved(weights, data - self.constant, self.axes[0].ridge, np.ones(1))
        return np.split(values, np.cumsum([axis.size for axis in self.axes])[:-1])


def sliced(search: Search, dtype: str) -> tuple[Slices, float]:
    """The fewest tokens in slices that reach the search's aim, or the best found; and the error, rounding estimated."""
    best, error = _of(search, HEADS[0], SIZES[0], SHAPES[0], dtype)
    for heads, size in sorted(product(HEADS, SIZES), key=prod):
        if error <= search.aim:
            break
        fits = [_of(search, heads, size, shape, dtype) for shape in SHAPES]
        best, error = min((best, error), *fits, key=lambda fit: fit[1])
    return best, error


def _of(search: Search, heads: int, size: int, shape: tuple[float, int], dtype: str) -> tuple[Slices, float]:
    points, values = search.sampled(max(FEWEST_POINTS, POINTS * heads * size))
    cuts = search.mesh.at(np.linspace(0.0, 1.0, heads + 1))  # (H+1,)
    axes = []
    for low, high in pairwise(cuts):
        mesh = Mesh.of(search.mesh.dense, float(low), float(high))
        tokens = mesh.tokens(size, *shape)
        axis = Axis(mesh, tokens, mesh.origin, RIDGE * COSTS[dtype].unit, points[::2], np.ones(1))
        axes += representable((axis,), dtype)
    slices = Slices(tuple(axes), (values.max(axis=0) + values.min(axis=0)) / 2)
    found = slices.solved(values[::2])
    costs, output, rounding, size_of = COSTS[dtype], slices.constant, 0.0, np.abs(slices.constant).max()
    for axis, own in zip(axes, found, strict=True):
        weights = axis.weights(points)
        output = output + weights @ own
        rounding = rounding + costs.of(weights, axis.sizes(points), own)
        size_of = size_of + np.abs(weights @ own).max(axis=1)
    rounding = rounding + costs.unit * (heads + 3) * size_of
    return slices, float((np.abs(output - values).max(axis=1) + rounding).max())
