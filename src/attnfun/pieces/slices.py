"""Heads buy precision: one line, cut into slices with a head each [T 6.3].

A head of N tokens with a uniform mesh has scores of about γN²/8, and low precision cannot bear them. H heads, each with
its own slice of the mesh variable, its own origin and N/H tokens and ghosts, have scores smaller by H². Outside its
slice a head saturates. Values of all heads are solved jointly, for the rounded keys, so they need not agree at the
cuts.

Two ways to meet at a cut. *Open* heads saturate at any value: each passes on what it has reached, which is cheap for a
function that rises, but for one that swings many large constants are added up, and round. *Closed* heads end in a token
of value zero: two neighbours share the function near a cut, at the cost of more spread values there.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise, product
from math import prod

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import FORMATS, Format
from .lines import Axis, Search, representable
from .potentials import Mesh
from .rounding import rounding_cost
from .solve import solved

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class SliceTuning:
    """How a sum of heads on slices is sized. Its error is sampled and proved later."""

    heads: tuple[int, ...] = (1, 2, 3, 4, 6, 8, 12, 16)
    """Numbers of heads that are tried. By trial."""
    sizes: tuple[int, ...] = (9, 12, 16, 20)
    """Tokens of each head. By trial."""
    most: int = 240
    """Tokens of all heads. For time."""
    ridge: float = 1.0
    """Penalty on values, in units of roundoff. The least that keeps values from noise."""
    points: int = 8
    """Points a token; every other one is a check. By trial."""
    fewest_points: int = 257
    """Points at least. A round number."""


TUNING = SliceTuning()


@dataclass(frozen=True)
class Shape:
    """How the tokens of a slice are laid out."""

    gamma: float
    ghosts: int
    closed: bool


SHAPES = (Shape(1.0, 2, False), Shape(0.7, 2, False), Shape(1.0, 3, True))


@dataclass(frozen=True, eq=False)
class Slices:
    """Axes with origins of their own whose heads are added up, and a constant."""

    axes: tuple[Axis, ...]
    constant: Floats  # (C,)
    closed: bool

    @property
    def size(self) -> int:
        """Number of tokens."""
        return sum(axis.size for axis in self.axes)

    def solved(self, data: Floats) -> list[Floats]:
        """Values of the tokens of each axis (N_h, C) for data at the common samples (S, C)."""
        weights = np.hstack([axis.weights(axis.samples) for axis in self.axes])  # (S, ΣN_h)
        free, starts = np.ones(self.size, dtype=bool), np.cumsum([axis.size for axis in self.axes])[:-1]
        if self.closed:
            free[starts] = free[starts - 1] = False
        values = np.zeros((self.size, data.shape[1]))
        values[free] = solved(weights[:, free], data - self.constant, self.axes[0].ridge, np.ones(1))
        return np.split(values, starts)


def sliced(search: Search, dtype: str) -> tuple[Slices, float]:
    """The fewest tokens in slices that reach the search's aim, or the best found; and the error, rounding estimated."""
    best, error = _of(search, TUNING.heads[0], TUNING.sizes[0], SHAPES[0], dtype)
    for heads, size in sorted(product(TUNING.heads, TUNING.sizes), key=prod):
        if error <= search.aim or heads * size > TUNING.most or search.deadline.over:
            break
        fits = [_of(search, heads, size, shape, dtype) for shape in SHAPES]
        best, error = min((best, error), *fits, key=lambda fit: fit[1])
    return best, error


def _of(search: Search, heads: int, size: int, shape: Shape, dtype: str) -> tuple[Slices, float]:
    points, values = search.sampled(max(TUNING.fewest_points, TUNING.points * heads * size))
    cuts = search.mesh.at(np.linspace(0.0, 1.0, heads + 1))  # (H+1,)
    axes = []
    for low, high in pairwise(cuts):
        mesh = Mesh.of(search.mesh.dense, float(low), float(high))
        tokens = mesh.tokens(size, shape.gamma, shape.ghosts)
        axis = Axis(mesh, tokens, mesh.origin, TUNING.ridge * FORMATS[dtype].grain, points[::2], np.ones(1))
        axes += representable((axis,), dtype)
    slices = Slices(tuple(axes), (values.max(axis=0) + values.min(axis=0)) / 2, shape.closed)
    return slices, float(_errors(slices, points, values, FORMATS[dtype]).max())


def _errors(slices: Slices, points: Floats, values: Floats, format_: Format) -> Floats:
    """Errors at points (S,), with what rounding the input, the heads and their sum may add."""
    outputs, rounding = [], 0.0
    for axis, own in zip(slices.axes, slices.solved(values[::2]), strict=True):
        weights = axis.weights(points)
        outputs.append(weights @ own)
        rounding = rounding + rounding_cost(axis.tokens, (points - axis.origin)[:, None], weights, own, format_)
    sizes = np.abs(np.stack(outputs)).max(axis=2)  # (H, S)
    total = sizes.sum(axis=0) + np.abs(slices.constant).max()
    added = format_.grain * (sizes > format_.grain * sizes.max(axis=0)).sum(axis=0) * total
    slopes = np.abs(np.gradient(values, points, axis=0)).max(axis=1)
    moved = format_.grain * np.abs(points) * slopes
    return np.abs(sum(outputs, slices.constant) - values).max(axis=1) + rounding + added + moved
