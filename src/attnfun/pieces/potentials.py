"""Where the tokens of a line go: convex potentials from mesh densities [T 2.2].

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
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .tokens import Tokens

Floats = npt.NDArray[np.float64]
Density = Callable[[Floats], Floats]


@dataclass(frozen=True)
class PotentialTuning:
    """How tokens are spread by a density. Their error is sampled and proved later."""

    beyond: float = 4.0
    """How far beyond each end, in units of τ(high) - τ(low), ghosts may lie. By trial."""
    even: int = 257
    """Equidistant nodes. A round number."""
    halvings: int = 64
    """Distances from a cluster halve so often. Below, places are equal as floats."""
    per_halving: int = 12
    """Nodes for each halving. By trial."""
    graded: float = 1e3
    """Ratio of densities from which on the digits of x near the finest point matter. Where two digits of x are lost at
    the fine end, a third follows."""
    levels: int = 65
    """Points among which the level of slopes is chosen. A round number."""
    resolved: float = 1e-13
    """Nodes closer than this in the mesh variable, as a fraction of all of it, are one. A thousand units of roundoff,
    about."""


TUNING = PotentialTuning()


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
        away = width * 2.0 ** -np.arange(0, TUNING.halvings, 1 / TUNING.per_halving)
        around = np.concatenate([[low, high], [] if clusters is None else clusters])
        near = np.stack([around + away[:, None], around - away[:, None]])
        nodes = np.concatenate([np.linspace(low, high, TUNING.even), near.ravel()])
        nodes = np.unique(np.clip(nodes, low, high))
        dense = density(nodes)
        variable = _integral(dense, nodes)
        apart = np.diff(np.floor(variable / (TUNING.resolved * variable[-1])), prepend=-1) > 0
        apart[-2:] = [False, True]
        nodes, dense, variable = nodes[apart], dense[apart], variable[apart]
        total = variable[-1]
        return cls(
            low,
            high,
            np.concatenate(
                [[low - TUNING.beyond * total / dense[0]], nodes, [high + TUNING.beyond * total / dense[-1]]]
            ),
            np.concatenate([dense[:1], dense, dense[-1:]]),
            np.concatenate([[-TUNING.beyond * total], variable, [(1 + TUNING.beyond) * total]]),
        )

    @classmethod
    def uniform(cls, low: float, high: float) -> Mesh:
        """Equal resolution everywhere: φ is quadratic."""
        return cls.of(np.ones_like, low, high)

    @cached_property
    def origin(self) -> float:
        """Where scores should be small: the middle, or the finest point of a strongly graded mesh."""
        inner = self.density[1:-1]
        if inner.max() < TUNING.graded * inner.min():
            return self.low + (self.high - self.low) / 2
        return float(self.nodes[1 + int(np.argmax(inner))])

    @cached_property
    def level(self) -> float:
        """Where slopes should be zero, so that no token that matters at x has a large slope while x is far away.

        It minimises the largest `|x - origin| |φ'(x) - φ'(level)|`. For a mesh that is finest at one end, it is the
        other end: steep tokens then matter near the origin only.
        """
        points, rise = self.points(TUNING.levels), _integral(self.density**2, self.nodes)
        slopes = np.interp(points, self.nodes, rise)  # (L,), φ' but for a factor
        worst = (np.abs(points - self.origin) * np.abs(slopes[:, None] - slopes)).max(axis=1)
        return float(points[np.argmin(worst)])

    def points(self, count: int) -> Floats:
        """Chebyshev points of the mesh variable, from end to end, (count,)."""
        return self.at((1 - np.cos(np.linspace(0, np.pi, count))) / 2)

    def at(self, shares: Floats) -> Floats:
        """Where the mesh variable has come so far, as shares of the whole; within [low, high]."""
        return np.clip(np.interp(shares * self.variable[-2], self.variable, self.nodes), self.low, self.high)

    def dense(self, points: Floats) -> Floats:
        """The density at points (S,)."""
        return np.interp(points, self.nodes, self.density)

    def tokens(self, count: int, gamma: float, ghosts: int) -> Tokens:
        """Tangents of the potential at `count` centres, of which `ghosts` lie beyond each end; O(K).

        Scores are written in `x - origin`, and φ and φ' are integrated from the level: where slopes are steep nearby
        and flat far away, no digits of the flat ones are lost.
        """
        step = self.variable[-2] / max(count - 1 - 2 * ghosts, 1)
        spread = step * (np.arange(count) - (count - 1) / 2)
        centres = np.interp(self.variable[-2] / 2 + spread, self.variable, self.nodes)  # (N,)
        bend, width = gamma * (self.density / step) ** 2, np.diff(self.nodes)  # φ'' at the nodes (K,), (K-1,)
        level = int(np.searchsorted(self.nodes, self.level))
        rise = sums_from((bend[1:] + bend[:-1]) / 2 * width, level)  # φ'
        height = sums_from((rise[:-1] + (bend[:-1] / 3 + bend[1:] / 6) * width) * width, level)  # φ
        left = np.clip(np.searchsorted(self.nodes, centres, side="right") - 1, 0, len(width) - 1)  # (N,)
        t, twist = centres - self.nodes[left], np.diff(bend)[left] / width[left]
        slopes = rise[left] + (bend[left] + twist * t / 2) * t
        heights = height[left] + (rise[left] + (bend[left] / 2 + twist * t / 6) * t) * t
        tokens = Tokens(slopes[:, None], heights - slopes * (centres - self.origin))
        return tokens.about(np.zeros(1), np.array([self.level - self.origin]))


def _integral(values: Floats, nodes: Floats) -> Floats:
    """The integral from the first node to each, of a function linear between them."""
    return sums_from((values[1:] + values[:-1]) / 2 * np.diff(nodes), 0)


def sums_from(steps: Floats, start: int) -> Floats:
    """Sums of steps (K-1,) from place `start` to each of the K places, negative to the left."""
    return np.concatenate([-np.cumsum(steps[:start][::-1])[::-1], [0.0], np.cumsum(steps[start:])])
