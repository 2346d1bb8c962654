"""How fast a target varies, by sampling, and the size that the paper's bound needs."""

from __future__ import annotations

from math import ceil, prod, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import norm_up
from ..domains.box import Box
from ..targets import Target

Floats = npt.NDArray[np.float64]

SLOPE_SAMPLES, FEWEST, SLOPES = 2048, 32, 2**16
"""Points at which slopes are taken, fewer where there are many variables; the slopes in all, about."""
MOST_CELLS = 1e300
"""Cells along an axis that are counted."""
ROWS = 4096
"""Points evaluated at a time."""


def paper_tokens(domain: Box, slope: float, eps: float) -> int:
    """[A] with r = 2 r_0 on a uniform grid, β as large as it takes: spacing h = eps / (L √D)."""
    widths = (domain.hi - domain.lo).ravel()
    cells = [width * slope * sqrt(widths.size) / eps if width else 1.0 for width in widths.tolist()]
    return prod(max(1, ceil(min(each, MOST_CELLS))) for each in cells)


def steepest(slopes: Floats) -> float:
    """The length of the longest gradient, (..., D), at any scale."""
    return float(norm_up(slopes, axis=-1).max())


def sampled_slopes(target: Target, at_corners: bool = True) -> Floats:
    """Difference quotients along each axis at random points and at the corners of the box, (S, D)."""
    domain, rng = target.domain, np.random.default_rng(0)
    low, high = domain.lo.ravel(), domain.hi.ravel()
    count = min(SLOPE_SAMPLES, max(FEWEST, SLOPES // domain.size))
    rows = domain.sample(count, rng)  # (S, D)
    corners = rng.integers(0, 2, (min(2**domain.size, 64, count // 2), domain.size))
    if at_corners:
        rows[: len(corners)] = np.where(corners == 1, high, low)
    base = target.values(rows)  # (S, m)
    slopes, together = np.empty_like(rows), max(1, ROWS // count)  # axes at a time
    for first in range(0, domain.size, together):
        axes = np.arange(first, min(first + together, domain.size))  # (A,)
        step = (high - low)[axes] * 2.0**-10
        moved = np.repeat(rows[None], len(axes), axis=0)  # (A, S, D)
        there = rows[:, axes].T  # (A, S)
        ahead = there + step[:, None] <= high[axes, None]
        moved[np.arange(len(axes)), :, axes] = there + np.where(ahead, 1, -1) * step[:, None]
        values = target.values(moved.reshape(-1, domain.size)).reshape(*moved.shape[:2], -1)  # (A, S, m)
        slopes[:, axes] = (np.abs(values - base).max(axis=2) / step[:, None]).T
    return slopes
