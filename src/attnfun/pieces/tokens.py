"""Tokens with affine scores, and the weights that softmax gives them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tokens:
    """Scores `s_j(u) = a_j·u + b_j` in r coordinates.

    A common slope or a common offset changes no weight; `about` uses that to keep scores small.

    >>> Tokens(np.array([[0.0], [100.0]]), np.zeros(2)).weights(np.array([[-1.0], [0.0]])).round(3)
    array([[1. , 0. ],
           [0.5, 0.5]])
    """

    slopes: Floats  # (N, r)
    offsets: Floats  # (N,)

    @classmethod
    def product(cls, axes: list[Tokens]) -> Tokens:
        """All combinations of tokens of single coordinates, the last fastest; scores are sums."""
        slopes, offsets = (
            np.stack(np.meshgrid(*(getattr(axis, name).ravel() for axis in axes), indexing="ij"), axis=-1)
            for name in ("slopes", "offsets")
        )  # (N_1, ..., N_r, r)
        return cls(slopes.reshape(-1, len(axes)), offsets.sum(axis=-1).ravel())

    @property
    def size(self) -> int:
        """Number of tokens, N."""
        return len(self.offsets)

    def scores(self, points: Floats) -> Floats:
        """(S, r) -> (S, N)."""
        return points @ self.slopes.T + self.offsets

    def weights(self, points: Floats) -> Floats:
        """Softmax of the scores, (S, r) -> (S, N)."""
        scores = self.scores(points)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def without(self, gone: Integers) -> Tokens:
        """All but some of the tokens."""
        return Tokens(np.delete(self.slopes, gone, axis=0), np.delete(self.offsets, gone))

    def merged(self, one: int, other: int) -> Tokens:
        """A token between two, as heavy as both together, in their place."""
        pair = np.array([one, other])
        rest = self.without(pair)
        slope, offset = self.slopes[pair].mean(axis=0), self.offsets[pair].mean() + np.log(2.0)
        return Tokens(np.vstack([rest.slopes, slope]), np.append(rest.offsets, offset))

    def about(self, origin: Floats, level: Floats | None = None) -> Tokens:
        """The same weights, scores written in `u - origin`, their average slope and size zero at `level` (the origin).

        Rounding of a score grows with |a_j·(u - origin)| + |b_j| of the tokens that matter at u. The average of all
        scores, with the weights at `level`, is then zero everywhere, so the largest is never negative.
        """
        weights = self.weights((origin if level is None else level)[None])[0]  # (N,)
        offsets = self.offsets + self.slopes @ origin
        return replace(self, slopes=self.slopes - weights @ self.slopes, offsets=offsets - weights @ offsets)
