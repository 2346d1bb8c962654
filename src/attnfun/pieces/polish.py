"""Better tokens by variable projection: slopes and offsets move, values are eliminated [T 6.2].

Any slopes and offsets make a legal head. For given ones the best values solve a linear problem (`solve.py`), so only
slopes and offsets p are unknowns of a nonlinear least-squares problem with residual `r(p) = W(p) v(p) - f`. Kaufman's
Jacobian `(I - Q Qᵀ) (∂W v)`, Q an orthonormal basis of the columns of W, leaves out a term that vanishes with the
residual; with `y = W v` a score moves the output by `∂y/∂s_j = w_j (v_j - y)`. Levenberg-Marquardt (`least_squares.py`)
does the rest; the directions that change nothing (a common slope, a common offset) are harmless to it.

Least squares is not the largest error. Between runs the samples are reweighted towards the worst ones (Lawson).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import Format
from ..resources.deadline import NEVER, Deadline
from .least_squares import least_squares
from .rounding import rounding_cost
from .solve import Solution, solved
from .tokens import Tokens

Floats = npt.NDArray[np.float64]

FARTHEST = 1e6
"""Largest move of a token, in spreads and in score."""
SMALLEST_WEIGHT = 0.05


@dataclass(frozen=True, eq=False)
class TokenFit:
    """Tokens, their values, and their errors."""

    tokens: Tokens
    values: Floats  # (N, C)
    at_samples: Floats  # (S,), the largest error over the functions
    task: TokenTask
    """What it solves."""
    error: float
    """The largest error at samples and checks, and about as much as rounding may add."""


@dataclass(frozen=True, eq=False)
class TokenTask:
    """C functions known at samples and at checks, to be followed by one bank of tokens."""

    samples: Floats  # (S, r)
    data: Floats  # (S, C)
    checks: Floats  # (R, r)
    at_checks: Floats  # (R, C)
    ridge: float
    format: Format
    """The deployed arithmetic."""
    level: Floats  # (r,), where slopes are zero on average
    emphasis: Floats = field(default_factory=lambda: np.ones(1))  # (S,) or (1,), mean 1

    def fit(self, tokens: Tokens) -> TokenFit:
        """Solve for the values and measure the errors."""
        weights = tokens.weights(self.samples)
        values = solved(weights, self.data, self.ridge, self.emphasis)
        output = weights @ values  # (S, C)
        at_samples = np.abs(output - self.data).max(axis=1)
        rounding = float(rounding_cost(tokens, self.samples, weights, values, self.format).max())
        beside = np.abs(tokens.weights(self.checks) @ values - self.at_checks).max(initial=0.0)
        return TokenFit(tokens, values, at_samples, self, float(max(at_samples.max(), beside)) + rounding)

    def polished(self, tokens: Tokens, steps: int, deadline: Deadline = NEVER) -> TokenFit:
        """At most `steps` evaluations of Levenberg-Marquardt; each O(S C (N r)²)."""
        start, free = Local.of(tokens, self.samples), tokens.size * (tokens.slopes.shape[1] + 1)
        if self.data.size < free:
            return self.fit(tokens)
        found = least_squares(lambda move: Moved(self, start, move), np.zeros(free), steps, deadline)
        return self.fit(start.moved(found).about(np.zeros_like(self.level), self.level))


class Moved:
    """Tokens after a move, with the values that fit them best."""

    def __init__(self, task: TokenTask, start: Local, move: Floats) -> None:
        self.task, self.start = task, start
        self.scale = np.sqrt(task.emphasis / len(task.samples))[:, None]  # (S, 1) or (1, 1)
        self.solution = Solution.of(self.scale * start.moved(move).weights(task.samples), task.ridge)
        data = self.scale * task.data  # (S, C)
        self.values = self.solution.values(data)  # (N, C)
        self.output = self.solution.weights @ self.values  # (S, C)
        self.residual = np.concatenate([self.output - data, task.ridge * self.values]).ravel()  # ((S+N) C,)

    def jacobian(self) -> Floats:
        """Kaufman's, ((S+N) C, N r + N)."""
        samples, weights = self.task.samples, self.solution.weights
        by_score = weights[:, None] * (self.values.T - (self.output / self.scale)[:, :, None])  # (S, C, N)
        by_slope = by_score[..., None] * self.start.reach(samples)[:, None]  # (S, C, N, r)
        moved = np.concatenate([by_slope.reshape(*by_score.shape[:2], -1), by_score], axis=2)  # (S, C, free)
        free, rows, left = moved.shape[2], len(samples), self.solution.left
        moved = moved.reshape(rows, -1)  # (S, C*free)
        across = -left @ (left[:rows].T @ moved)  # (S+N, C*free)
        across[:rows] += moved
        return across.reshape(-1, free)


@dataclass(frozen=True, eq=False)
class Local:
    """Tokens and moves of them, measured where each token matters.

    A move p = (δ, β) changes score j by `δ_j·(u - c_j)/d_j + β_j`, c_j and d_j the mean and the spread of the samples
    under the token's weight. Unit moves then change the function by similar amounts, whatever the mesh.
    """

    tokens: Tokens
    centres: Floats  # (N, r)
    spreads: Floats  # (N, r)

    @classmethod
    def of(cls, tokens: Tokens, samples: Floats) -> Local:
        """Measure the tokens' places on the samples (S, r)."""
        share = tokens.weights(samples) + 1e-30  # (S, N)
        share /= share.sum(axis=0)
        centres = share.T @ samples
        variances = np.maximum(share.T @ samples**2 - centres**2, 1e-12 * centres**2)
        return cls(tokens, centres, np.sqrt(variances) + 1e-9 * np.ptp(samples, axis=0) + 1e-300)

    def reach(self, samples: Floats) -> Floats:
        """How far samples are from the tokens, in spreads, (S, N, r)."""
        return (samples[:, None] - self.centres) / self.spreads

    def moved(self, p: Floats) -> Tokens:
        """The tokens after a move, which is limited to what floats can hold."""
        p = np.clip(p, -FARTHEST, FARTHEST)
        slopes = p[: self.centres.size].reshape(self.centres.shape) / self.spreads
        offsets = p[self.centres.size :] - (slopes * self.centres).sum(axis=1)
        return Tokens(self.tokens.slopes + slopes, self.tokens.offsets + offsets)


def lawson(emphasis: Floats, at_samples: Floats) -> Floats:
    """Emphasis that moves towards the samples with the largest errors."""
    new = emphasis * (SMALLEST_WEIGHT + at_samples / at_samples.max())
    return new / new.mean()
