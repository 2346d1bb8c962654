"""How fast a target varies, by sampling, and the size that the paper's bound needs."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import norm_up
from ..domains.box import Box
from ..targets import Target

Floats = npt.NDArray[np.float64]

MOST_CELLS = 1e300
"""Cells along an axis that are counted."""


@dataclass(frozen=True)
class SlopeTuning:
    """How slopes are sampled. They are estimates, and what is made of them is proved or called an estimate."""

    samples: int = 2048
    """Points at which slopes are taken, at most. A round number."""
    fewest: int = 32
    """Points at least, where there are many variables. A round number."""
    slopes: int = 2**16
    """Slopes in all, about. For time."""
    rows: int = 4096
    """Points evaluated at a time. For memory."""


TUNING = SlopeTuning()


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
    count = min(TUNING.samples, max(TUNING.fewest, TUNING.slopes // domain.size))
    rows = domain.sample(count, rng)  # (S, D)
    corners = rng.integers(0, 2, (min(2**domain.size, 64, count // 2), domain.size))
    if at_corners:
        rows[: len(corners)] = np.where(corners == 1, high, low)
    base = target.values(rows)  # (S, m)
    slopes, together = np.empty_like(rows), max(1, TUNING.rows // count)  # axes at a time
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
