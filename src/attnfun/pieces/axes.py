"""One axis of a smooth bank: tokens on a line, their weights, and values solved by least squares.

With potential `φ = β x²/2` token j has the score `β c_j x - β c_j²/2`; its weight is a normalised Gaussian of width
about `β^{-1/2}` around c_j, wider than the spacing, so sums of weights times values can follow a smooth function to
many digits. A few *ghost* tokens beyond each end keep the ends as good as the middle.

The least squares problem is badly conditioned on purpose. Directions whose singular value is below a threshold are
dropped; the largest threshold that reaches the tolerance gives the smallest values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..dtypes import round_to

Floats = npt.NDArray[np.float64]

THRESHOLDS = 10.0 ** -np.arange(2, 15)
"""Relative singular values to try, largest first."""
SHAPES = ((0.25, 4), (0.4, 3), (0.7, 2), (1.2, 2))
"""Sharpness γ = β h² and ghosts to try."""
SAMPLES, CHECKS = 4, 7
"""Sample and check points a token."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Slopes and offsets of the tokens along one axis, in the coordinate `x - origin`."""

    low: float
    high: float
    origin: float
    slopes: Floats  # (n,)
    offsets: Floats  # (n,)
    threshold: float = 1e-13

    @classmethod
    def uniform(cls, low: float, high: float, tokens: int, gamma: float, ghosts: int) -> Axis:
        """`tokens` equally spaced tokens, `ghosts` of them beyond each end."""
        inner = max(tokens - 2 * ghosts, 2)
        step = (high - low) / (inner - 1)
        origin = low + (high - low) / 2
        centres: Floats = (low - origin) + step * np.arange(-ghosts, inner + ghosts, dtype=np.float64)  # (n,)
        beta = gamma / step**2
        return cls(low, high, origin, beta * centres, -beta * centres**2 / 2)

    @property
    def size(self) -> int:
        """Number of tokens."""
        return len(self.slopes)

    def rounded(self, dtype: str, quantum: float) -> Axis:
        """Slopes and origin in `dtype`, offsets in multiples of `quantum`, so that sums of offsets are exact."""
        return replace(
            self,
            origin=float(round_to(self.origin, dtype)),
            slopes=round_to(self.slopes, dtype),
            offsets=np.round(self.offsets / quantum) * quantum,
        )

    def points(self, count: int) -> Floats:
        """Chebyshev-distributed points from end to end, (count,)."""
        turns = (1 - np.cos(np.linspace(0, np.pi, count))) / 2
        return np.clip(self.low + (self.high - self.low) * turns, self.low, self.high)

    def weights(self, points: Floats) -> Floats:
        """Softmax weights of the tokens at points, (S, n)."""
        scores = (points[:, None] - self.origin) * self.slopes + self.offsets
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def solver(self, points: Floats) -> Floats:
        """The truncated pseudo-inverse that turns values at points into values of tokens, (n, S)."""
        u, sigma, vt = np.linalg.svd(self.weights(points), full_matrices=False)
        kept = sigma > self.threshold * sigma[0]
        return (vt[kept].T / sigma[kept]) @ u[:, kept].T

    def fitted(self, at_points: Floats, at_checks: Floats, aim: float, amplification: float) -> tuple[Axis, float]:
        """The axis with the largest threshold that reaches `aim` on lines of data, and the error it reaches.

        `at_points` (S, L) and `at_checks` (R, L) hold L functions at `SAMPLES n` and `CHECKS n` Chebyshev points.
        Values may be at most `amplification` times as large as the data.
        """
        u, sigma, vt = np.linalg.svd(self.weights(self.points(len(at_points))), full_matrices=False)
        checks = self.weights(self.points(len(at_checks))) @ vt.T  # (R, n)
        data = u.T @ at_points  # (n, L)
        best = (np.inf, self)
        for threshold in THRESHOLDS:
            kept = sigma > threshold * sigma[0]
            values = vt[kept].T @ (data[kept] / sigma[kept, None])  # (n, L)
            if best[0] < np.inf and np.abs(values).max() > amplification * np.abs(at_points).max():
                break
            error = float(np.abs((checks[:, kept] / sigma[kept]) @ data[kept] - at_checks).max())
            best = min(best, (error, replace(self, threshold=float(threshold))), key=lambda pair: pair[0])
            if error <= aim:
                break
        return best[1], best[0]
