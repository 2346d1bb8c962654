"""How fast a target varies, by sampling, and the size that the paper's bound asks for."""

from __future__ import annotations

from math import ceil, prod, sqrt

import numpy as np
import numpy.typing as npt

from ..domains.box import Box
from ..targets import Target

Floats = npt.NDArray[np.float64]

SLOPE_SAMPLES = 2048


def paper_tokens(domain: Box, slope: float, eps: float) -> int:
    """[A] with r = 2 r_0 on a uniform grid, β as large as it takes: spacing h = eps / (L √D)."""
    widths = (domain.hi - domain.lo).ravel()
    step = eps / max(slope * sqrt(widths.size), 1e-300)
    return prod(max(1, ceil(min(width / step, 1e300))) for width in widths)


def sampled_slopes(target: Target, at_corners: bool = True) -> Floats:
    """Difference quotients along each axis at random points and at the corners of the box, (S, D)."""
    domain, rng = target.domain, np.random.default_rng(0)
    low, high = domain.lo.ravel(), domain.hi.ravel()
    rows = domain.sample(SLOPE_SAMPLES, rng)  # (S, D)
    corners = rng.integers(0, 2, (min(2**domain.size, 64), domain.size))
    if at_corners:
        rows[: len(corners)] = np.where(corners == 1, high, low)
    base = target.values(rows)  # (S, m)
    slopes = np.empty_like(rows)
    for axis in range(domain.size):
        step = (high[axis] - low[axis]) * 2.0**-10
        moved = rows.copy()
        moved[:, axis] += np.where(rows[:, axis] + step <= high[axis], step, -step)
        slopes[:, axis] = np.abs(target.values(moved) - base).max(axis=1) / step
    return slopes
