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
Integers = npt.NDArray[np.int64]

NOISE = 20.0
BLOCK = 64
"""Tokens that are settled at a time where each sample sees a window of them."""


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


def solved_in_windows(first: Integers, weights: Floats, data: Floats, ridge: float, count: int) -> Floats:
    """The same values (N, C) where a sample has weights (S, w) for the tokens `first` (S,), `first` + 1, ... alone.

    Rows are taken in the order of their tokens, `BLOCK` tokens at a time. Householder's factorisation of the rows that
    touch a block, and of what earlier rows left behind, settles the block; the triangular rest goes on to the next one.
    So the factor is banded, the work O((S + N) (w + BLOCK)²/BLOCK w), and the precision that of the dense problem.
    Weights of tokens that do not exist (before 0 or from `count` on) must be zero.
    """
    from scipy.linalg import solve_triangular

    columns, width, scale = data.shape[1], weights.shape[1], 1 / np.sqrt(len(weights))
    order = np.argsort(first, kind="stable")
    starts = np.maximum(first[order], 0)
    left = np.zeros((0, columns))  # rows left behind: the tokens ahead, then the data
    blocks = list[tuple[int, int, Floats]]()
    for begin in range(0, count, BLOCK):
        end = min(begin + BLOCK, count)
        ahead = min(end + width, count) - begin
        rows = order[np.searchsorted(starts, begin) : np.searchsorted(starts, end)]
        places = first[rows, None] + np.arange(width) - begin  # (R, w)
        here, exists = np.zeros((len(rows), ahead + columns)), (places >= 0) & (places < ahead)
        here[np.nonzero(exists)[0], places[exists]] = scale * weights[rows][exists]
        here[:, ahead:] = scale * data[rows]
        carried, penalty = np.zeros((len(left), ahead + columns)), np.zeros((end - begin, ahead + columns))
        known = left.shape[1] - columns
        carried[:, :known], carried[:, ahead:] = left[:, :known], left[:, known:]
        np.fill_diagonal(penalty, ridge)
        factor = np.asarray(np.linalg.qr(np.vstack([carried, here, penalty]), mode="r"))[:ahead]
        blocks.append((begin, end, factor[: end - begin]))
        left = factor[end - begin :, end - begin :]
    values = np.zeros((count, columns))
    for begin, end, factor in reversed(blocks):
        size, ahead = end - begin, factor.shape[1] - columns
        right = factor[:, ahead:] - factor[:, size:ahead] @ values[end : begin + ahead]
        values[begin:end] = solve_triangular(factor[:, :size], right, check_finite=False)
    return values
