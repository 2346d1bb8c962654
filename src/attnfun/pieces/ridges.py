"""Any function as one hidden layer of rectifiers: a sum of functions of one variable along directions [T 5.4].

Kinks of one hidden layer are whole hyperplanes, so a triangulation does not help. Write f as `Σ_k g_k(a_k·x)` instead,
g_k piecewise linear with equally spaced corners. For given directions a_k this is linear in the values of the g_k at
their corners, which are solved by least squares over sampled points; corners then become rectifiers,

    g(u) = g(t_0) + s_1 (u - t_0) + Σ_i (s_{i+1} - s_i) max(0, u - t_i),    s_i the slopes.

Directions: all angles alike in two variables; in more those in which f varies most, the axes, sums and differences of
two variables, then random ones. Nothing is claimed of the error: the certificate decides.

>>> from ..targets import Expression
>>> found = fitted(Expression("sin(x + y)", Box([0, 0], [1, 1], ("x", "y"))), 0.01, 200)
>>> found.error < 0.01
True
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..domains.box import Box
from ..resources.deadline import NEVER, Deadline
from ..targets import Target
from ..targets.piecewise import PiecewiseLinear, Stage

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RidgeTuning:
    """How rectifiers are placed along directions. Their error is proved later."""

    first: int = 4
    """Pieces along a direction in the first attempt. A round number."""
    samples: int = 4
    """Points for each number that is solved for. The usual oversampling of least squares."""
    ridge: float = 1e-10
    """Weight of the values' own squares, relative to the mean square of the columns. Far above roundoff, far below what
    matters."""
    step: float = 2.0**-16
    """Of the differences that say in which directions f varies, relative to the domain. About the cube root of
    roundoff, where differences are most exact."""


TUNING = RidgeTuning()


@dataclass(frozen=True, eq=False)
class Rectifiers:
    """`f = max(0, vec(X) inner + bias) outer + rest`."""

    inner: Floats  # (D, M)
    bias: Floats  # (M,)
    outer: Floats  # (M, m)
    rest: Floats  # (m,)

    @property
    def shape(self) -> tuple[int, int]:
        """Inputs and outputs."""
        return len(self.inner), len(self.rest)

    def on(self, domain: Box, output_shape: tuple[int, ...], name: str) -> PiecewiseLinear:
        """The same as a target."""
        hidden = Stage.affine(self.inner, self.bias).clipped(0.0, np.inf)
        return PiecewiseLinear([hidden, Stage.affine(self.outer, self.rest)], domain, output_shape, name)


@dataclass(frozen=True, eq=False)
class RidgeFit:
    """Rectifiers, and the largest error found at points that they were not solved for."""

    rectifiers: Rectifiers
    error: float
    directions: int


def fitted(target: Target, aim: float, units: int, seed: int = 0, deadline: Deadline = NEVER) -> RidgeFit:
    """A sum of ridge functions whose sampled error is at most `aim`, or the best one found with so many units."""
    sample = _Sample(target, seed)
    directions, pieces = min(2, target.domain.size), TUNING.first
    best = sample.solved(directions, pieces)
    while best.error > aim and not deadline.over:
        more = [(directions, pieces * 3 // 2), (directions * 3 // 2 + 1, pieces)]
        tried = more[: 1 if target.domain.size == 1 else 2]
        tried = [(K, N) for K, N in tried if units >= K * N]
        if not tried:
            break
        fits = [sample.solved(*sizes) for sizes in tried]
        least = int(np.argmin([fit.error for fit in fits]))
        directions, pieces = tried[least]
        best = min(best, fits[least], key=lambda fit: fit.error)
    return best


class _Sample:
    """A target on points of [-1, 1]^D, drawn as they are needed."""

    def __init__(self, target: Target, seed: int) -> None:
        self.target, self.rng = target, np.random.default_rng(seed)
        low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
        self.centre, self.radius = low / 2 + high / 2, high / 2 - low / 2  # (D,)
        self.fresh = self._points(2048)
        self.fresh_values = self._values(self.fresh)
        self.directions = np.zeros((0, len(low)))

    def _points(self, count: int) -> Floats:
        """Random points, a tenth of them on faces; in one variable equally spaced ones."""
        size = len(self.centre)
        if size == 1:
            return np.linspace(-1, 1, count)[:, None] if count != 2048 else self.rng.uniform(-1, 1, (count, 1))
        points = self.rng.uniform(-1, 1, (count, size))
        rows = np.arange(0, count, 4)
        points[rows, self.rng.integers(size, size=len(rows))] = self.rng.choice([-1.0, 1.0], size=len(rows))
        return points

    def _ends(self, along: Floats, count: int) -> Floats:
        """Points towards the corners in which a direction ends: random ones hardly come there in many variables."""
        signs = np.sign(along[self.rng.integers(len(along), size=count)])  # (B, D)
        return self.rng.uniform(-1, 1, (count, 1)) * np.where(signs == 0, self.rng.uniform(-1, 1, signs.shape), signs)

    def _values(self, points: Floats) -> Floats:
        low, high = self.target.domain.lo.ravel(), self.target.domain.hi.ravel()
        return self.target.values(np.clip(self.centre + self.radius * points, low, high))

    def _chosen(self, count: int) -> Floats:
        """Directions a with Σ|a_k| = 1, (K, D): the first ones are the same for every K."""
        size = len(self.centre)
        if size == 1:
            return np.ones((1, 1))
        if size == 2:
            angles = np.pi * np.arange(count) / count
            found = np.stack([np.cos(angles), np.sin(angles)], axis=1)
        else:
            if len(self.directions) == 0:
                self.directions = self._varying()
            if len(self.directions) < count:
                more = self.rng.normal(size=(count - len(self.directions), size))
                self.directions = np.concatenate([self.directions, more])
            found = self.directions[:count]
        found = np.where(np.abs(found) < 1e-12 * np.abs(found).max(axis=1, keepdims=True), 0.0, found)
        return found / np.abs(found).sum(axis=1, keepdims=True)

    def _varying(self) -> Floats:
        """Directions in which f varies most, the axes, and sums and differences of two variables."""
        size = len(self.centre)
        points = self.rng.uniform(-1, 1, (64, size)) * (1 - TUNING.step)
        slopes = np.stack(
            [
                self._values(points + TUNING.step * axis) - self._values(points - TUNING.step * axis)
                for axis in np.eye(size)
            ],
            axis=2,
        ).reshape(-1, size)  # (64 m, D)
        sizes, axes = np.linalg.eigh(slopes.T @ slopes)
        leading = axes.T[::-1][sizes[::-1] > 1e-9 * sizes[-1]] if sizes[-1] > 0 else axes.T[:1]
        pairs = [np.eye(size)[i] + sign * np.eye(size)[j] for i in range(size) for j in range(i) for sign in (1, -1)]
        return np.concatenate([leading, np.eye(size), np.array(pairs).reshape(-1, size)])

    def solved(self, directions: int, pieces: int) -> RidgeFit:
        """Values at the corners by least squares, and as rectifiers."""
        along = self._chosen(directions)  # (K, D)
        corners = np.linspace(-1, 1, pieces + 1)  # (N + 1,)
        count = max(1024, TUNING.samples * len(along) * (pieces + 1))
        points = np.concatenate([self._points(count), self._ends(along, count // 4)])
        columns = _hats(points, along, pieces)  # (B, K (N + 1))
        products = columns.T @ columns
        products[np.diag_indices_from(products)] += TUNING.ridge * np.trace(products) / len(products)
        values = np.linalg.solve(products, columns.T @ self._values(points))  # (K (N + 1), m)
        ends = self._ends(along, 512)
        error = max(
            float(np.abs(_hats(at, along, pieces) @ values - wanted).max())
            for at, wanted in ((self.fresh, self.fresh_values), (ends, self._values(ends)))
        )
        values = values.reshape(len(along), pieces + 1, -1)
        slopes = np.diff(values, axis=1) * (pieces / 2)  # (K, N, m)
        outer = np.diff(slopes, axis=1, prepend=0.0)  # (K, N, m): the first one is a slope
        inner = np.repeat(along / self.radius, pieces, axis=0).T  # (D, K N)
        bias = -np.tile(corners[:-1], len(along)) - self.centre @ inner
        rest = values[:, 0].sum(axis=0)
        weights = np.asarray(outer.reshape(-1, outer.shape[2]), dtype=np.float64)  # (K N, m)
        return RidgeFit(Rectifiers(inner, bias, weights, rest), error, len(along))


def _hats(points: Floats, along: Floats, pieces: int) -> Floats:
    """Piecewise linear functions of a_k·x that are 1 at one corner and 0 at the others, (B, K (N + 1))."""
    place = np.clip((points @ along.T + 1) * (pieces / 2), 0.0, pieces)  # (B, K)
    hats = np.maximum(0.0, 1 - np.abs(place[:, :, None] - np.arange(pieces + 1)))
    return hats.reshape(len(points), -1)
