"""Values of tokens by least squares, no larger than the deployed arithmetic can bear.

Weights computed in an arithmetic of unit roundoff u from scores of size L are off by about u L of themselves. Values v
turn this into an error of about `u L |v|`, so what is to be minimised is

    mean over samples |W v - f|²  +  λ² |v|²,       λ = NOISE u L / √N,

a ridge problem. It is solved by an orthogonal factorisation of the stacked matrix (W/√S; λ I), never by its normal
equations: W is nearly singular on purpose, which is what makes smooth functions cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

NOISE = 20.0


@dataclass(frozen=True, eq=False)
class Solution:
    """The ridge problem of one weight matrix, factored."""

    weights: Floats  # (S, N), rows scaled
    left: Floats  # (S + N, N), orthonormal columns
    right: Floats  # (N, N), triangular

    @classmethod
    def of(cls, weights: Floats, ridge: float) -> Solution:
        """Factor a scaled weight matrix; O(S N²)."""
        count = weights.shape[1]
        left, right = np.linalg.qr(np.concatenate([weights, ridge * np.eye(count)]))
        return cls(weights, left, right)

    def values(self, data: Floats) -> Floats:
        """The values for data scaled like the weights, (S, C) -> (N, C)."""
        from scipy.linalg import solve_triangular

        return solve_triangular(self.right, self.left[: len(self.weights)].T @ data, check_finite=False)


def solved(weights: Floats, data: Floats, ridge: float, emphasis: Floats) -> Floats:
    """Values (N, C) for data (S, C) at samples that matter as much as `emphasis` (S,) or (1,).

    No inverse is formed: its rounding errors would be multiplied by the condition of the weights.
    """
    scale = np.broadcast_to(np.sqrt(emphasis / len(weights)), len(weights))[:, None]
    return Solution.of(scale * weights, ridge).values(scale * data)
