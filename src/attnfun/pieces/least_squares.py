"""Nonlinear least squares, to the same last digit every time.

Levenberg-Marquardt: with the Jacobian J scaled to columns of norm one (D, the largest norms that its columns have had),

    (D⁻¹ JᵀJ D⁻¹ + μ I) D δ = -D⁻¹ Jᵀ r,

and Nielsen's rule for μ: a step that gains what the linear model promised divides it by three, one that gains nothing
multiplies it by 2, 4, 8, ... Normal equations are precise enough, because μ never falls below what they can resolve.

MINPACK's routine sums in an order that depends on where arrays lie in memory, so that equal calls differ; SciPy's
trust-region method repeats itself, but is slower on problems of this size and no better.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ..resources.deadline import NEVER, Deadline

Floats = npt.NDArray[np.float64]

FIRST_DAMPING, LEAST_DAMPING = 1e-6, 1e-13
EASIEST = 1 / 3
"""The factor of the damping after a step that gained as promised."""
LEAST_GAIN = 1e-4
"""A step is taken if it gains this share of what was promised."""
STAGNANT = 1e-15
"""Relative gains below this are rounding."""


class LeastSquaresPoint(Protocol):
    """A residual and its derivatives at one point."""

    residual: Floats  # (m,)

    def jacobian(self) -> Floats:
        """(m, n)."""
        ...


@np.errstate(over="ignore", invalid="ignore")  # a step that overflows is no improvement
def least_squares(
    at: Callable[[Floats], LeastSquaresPoint], start: Floats, evaluations: int, deadline: Deadline = NEVER
) -> Floats:
    """The best point (n,) met from `start` with so many evaluations of the residual; each O(m n²)."""
    point, place = start, at(start)
    size, damping, worse = float(np.linalg.norm(place.residual)), FIRST_DAMPING, 2.0
    scale: Floats = np.zeros(len(start))
    matrix: Floats = np.empty(0)
    slope: Floats = np.empty(0)
    unit = np.eye(len(start))
    moved = True
    for _ in range(evaluations - 1):
        if deadline.over:
            break
        if moved:
            jacobian = place.jacobian()  # (m, n)
            scale = np.maximum(scale, np.sqrt(np.einsum("ij,ij->j", jacobian, jacobian)))
            jacobian /= np.where(scale > 0, scale, 1.0)
            matrix, slope = jacobian.T @ jacobian, jacobian.T @ place.residual  # (n, n), (n,)
        step = -np.linalg.solve(matrix + damping * unit, slope)
        promised = -float(step @ (2 * slope + matrix @ step))
        if not promised > STAGNANT * size**2:
            break
        trial = point + step / np.where(scale > 0, scale, 1.0)
        there = at(trial)
        after = float(np.linalg.norm(there.residual))
        gain = (size - after) * (size + after) / promised
        moved = gain > LEAST_GAIN
        if moved:
            point, place, size = trial, there, after
            damping, worse = max(damping * max(EASIEST, 1 - (2 * gain - 1) ** 3), LEAST_DAMPING), 2.0
        else:
            damping, worse = damping * worse, worse * 2
    return point
