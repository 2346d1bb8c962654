"""Where the tokens of a line go: convex potentials from mesh densities (THEORY 2.2).

Let `m > 0` be a density on the line and `τ(x) = ∫ m` the *mesh variable*. Centres c_j are equidistant in τ, spacing h,
and the potential φ has `φ'' = γ (m/h)²`. The tangents of φ at the centres,

    s_j(x) = φ(c_j) + φ'(c_j) (x - c_j),        s_j(x) - φ(x) = -D_φ(x, c_j),

are affine scores whose softmax is a normalised kernel of width about `φ''^{-1/2} = h / (m √γ)` around c_j: 1/√γ token
spacings wide everywhere, however fine the mesh is there. With m = 1 the kernel is a Gaussian.
A few *ghost* centres lie beyond each end, where m is continued by its value at the end.

φ'' is taken piecewise linear between nodes that gather where the density is large, so φ' and φ follow by exact
integration and φ is convex to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .tokens import Tokens

Floats = npt.NDArray[np.float64]
Density = Callable[[Floats], Floats]

BEYOND = 4.0
"""How far beyond each end, in units of τ(high) - τ(low), ghosts may lie."""
EVEN = 257
"""Equidistant nodes."""
HALVINGS, PER_HALVING = 64, 12
"""Nodes at distances from a cluster that halve so often, so many for each halving."""
GRADED = 1e3
"""Ratio of densities from which on the digits of x near the finest point matter."""
RESOLVED = 1e-13
"""Nodes closer than this in the mesh variable, as a fraction of all of it, are one."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh variable on [low, high] and a little beyond, by quadrature."""

    low: float
    high: float
    nodes: Floats  # (K,)
    density: Floats  # (K,)
    variable: Floats  # (K,), the integral of the density from `low`

    @classmethod
    def of(cls, density: Density, low: float, high: float, clusters: Floats | None = None) -> Mesh:
        """The mesh of a density, which may be large near the points `clusters` (P,)."""
        width = high - low
        away = width * 2.0 ** -np.arange(0, HALVINGS, 1 / PER_HALVING)
        around = np.concatenate([[low, high], [] if clusters is None else clusters])
        near = np.stack([around + away[:, None], around - away[:, None]])
        nodes = np.concatenate([np.linspace(low, high, EVEN), near.ravel()])
        nodes = np.unique(np.clip(nodes, low, high))
        dense = density(nodes)
        variable = _integral(dense, nodes)
        apart = np.diff(np.floor(variable / (RESOLVED * variable[-1])), prepend=-1) > 0
        apart[-2:] = [False, True]
        nodes, dense, variable = nodes[apart], dense[apart], variable[apart]
        total = variable[-1]
        return cls(
            low,
            high,
            np.concatenate([[low - BEYOND * total / dense[0]], nodes, [high + BEYOND * total / dense[-1]]]),
            np.concatenate([dense[:1], dense, dense[-1:]]),
            np.concatenate([[-BEYOND * total], variable, [(1 + BEYOND) * total]]),
        )

    @classmethod
    def uniform(cls, low: float, high: float) -> Mesh:
        """Equal resolution everywhere: φ is quadratic."""
        return cls.of(np.ones_like, low, high)

    @property
    def origin(self) -> float:
        """Where scores should be small: the middle, or the finest point of a strongly graded mesh."""
        inner = self.density[1:-1]
        if inner.max() < GRADED * inner.min():
            return self.low + (self.high - self.low) / 2
        return float(self.nodes[1 + int(np.argmax(inner))])

    def points(self, count: int) -> Floats:
        """Chebyshev points of the mesh variable, from end to end, (count,)."""
        turns = (1 - np.cos(np.linspace(0, np.pi, count))) / 2
        return np.clip(np.interp(turns * self.variable[-2], self.variable, self.nodes), self.low, self.high)

    def tokens(self, count: int, gamma: float, ghosts: int) -> Tokens:
        """Tangents of the potential at `count` centres, of which `ghosts` lie beyond each end; O(K)."""
        step = self.variable[-2] / max(count - 1 - 2 * ghosts, 1)
        spread = step * (np.arange(count) - (count - 1) / 2)
        centres = np.interp(self.variable[-2] / 2 + spread, self.variable, self.nodes)  # (N,)
        bend, width = gamma * (self.density / step) ** 2, np.diff(self.nodes)  # φ'' at the nodes (K,), (K-1,)
        rise = _integral(bend, self.nodes)  # φ'
        grown = (rise[:-1] + (bend[:-1] / 3 + bend[1:] / 6) * width) * width
        height = np.concatenate([[0.0], np.cumsum(grown)])  # φ
        left = np.clip(np.searchsorted(self.nodes, centres, side="right") - 1, 0, len(width) - 1)  # (N,)
        t, twist = centres - self.nodes[left], np.diff(bend)[left] / width[left]
        slopes = rise[left] + (bend[left] + twist * t / 2) * t
        heights = height[left] + (rise[left] + (bend[left] / 2 + twist * t / 6) * t) * t
        return Tokens(slopes[:, None], heights - slopes * centres)


def _integral(values: Floats, nodes: Floats) -> Floats:
    """The integral from the first node to each, of a function linear between them."""
    return np.concatenate([[0.0], np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(nodes))])
