"""How finely functions of one variable must be resolved, place by place: piecewise polynomials.

An interval is halved until, on each piece, the polynomial through `TUNING.degree + 1` Chebyshev points follows the
functions to within a tolerance: its last coefficients are small, and it agrees with the functions on a fine grid of the
whole interval. The pieces are short where the functions oscillate, peak or bend, and say how many tokens will be needed
before any is placed. The cost is that of the samples, about 40 a piece.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import ULP
from ..resources.deadline import NEVER, Deadline
from .singularities import Line

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ResolutionTuning:
    """How dense tokens must be. A plan, which is checked on samples and proved later."""

    degree: int = 16
    """Degree of the polynomials. By trial."""
    last: int = 3
    """Coefficients at the end that must be small. Odd and even functions have one of two that is zero."""
    grid: int = 2**13
    """Intervals of the grid on which polynomials are compared with the functions: narrower peaks may be missed. A round
    number."""
    agree: float = 4.0
    """Multiples of the tolerance by which they may differ there. By trial."""
    level: int = 4
    """Pieces over which numbers of pieces are levelled out. By trial."""
    first_cut: float = 0.4871
    """The first cut, as a fraction of the interval. A corner at a cut would not be seen, and corners like round
    numbers. Any number that nobody writes."""
    narrowest: float = 2.0**-44
    """Pieces are not halved below this fraction of the interval. 256 units of roundoff."""
    fewest_floats: int = 128
    """Nor where the halves would hold fewer floats than about half as many: tokens have places between them. A round
    number."""
    tokens_a_piece: float = 4.2
    """About the tokens that a bank needs for a piece. By trial."""
    least_share: float = 0.55
    """A piece needs this share of them at the least: pieces come in powers of two, so some are shorter than need be.
    Just above a half."""
    ratio: float = 4.1
    """Neighbours are no more uneven than this. Just above 4, two halvings."""


TUNING = ResolutionTuning()

NOISE = 64 * ULP
"""Functions are not known better than to this fraction of their largest value."""

_TURNS = -np.cos(np.pi * np.arange(TUNING.degree + 1) / TUNING.degree)  # (degree+1,)
_COEFFICIENTS = np.linalg.inv(np.polynomial.chebyshev.chebvander(_TURNS, TUNING.degree)).T  # values -> coefficients


@dataclass(frozen=True, eq=False)
class Resolution:
    """Pieces, end to end, on which polynomials follow functions."""

    edges: Floats  # (P+1,)
    lengths: Floats  # (P,), coefficients that matter, as a share of all
    scale: float
    """Largest absolute value, or 1 if there is none but zero."""

    @property
    def low(self) -> float:
        """Where the first piece begins."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """Where the last piece ends."""
        return float(self.edges[-1])

    @property
    def count(self) -> int:
        """Number of pieces."""
        return len(self.edges) - 1

    @property
    def tokens(self) -> int:
        """About the tokens of a bank that follows the functions."""
        return int(TUNING.tokens_a_piece * float(self.share.sum()))

    @property
    def tokens_each(self) -> Floats:
        """About the tokens that each piece needs, (P,)."""
        return TUNING.tokens_a_piece * self.share

    @property
    def share(self) -> Floats:
        """The tokens that each piece needs beside a full one, (P,)."""
        return levelled(np.maximum(self.lengths, TUNING.least_share))

    @property
    def divisible(self) -> Flags:
        """Which pieces can be cut in two, (P,)."""
        return ~_indivisible(self.edges[:-1], self.edges[1:])

    def halved(self, which: Flags) -> Resolution:
        """The same with some divisible pieces (P,) cut in two."""
        middles = self.edges[:-1] + np.diff(self.edges) / 2
        edges, lengths = np.sort(np.append(self.edges, middles[which])), np.repeat(self.lengths, 1 + which)
        return Resolution(edges, lengths, self.scale)

    def balanced(self) -> Resolution:
        """The same with pieces cut that are more than `TUNING.ratio` times as wide as a neighbour."""
        found = self
        while True:
            widths = np.diff(found.edges)
            least = np.minimum(np.append(np.inf, widths[:-1]), np.append(widths[1:], np.inf))
            uneven = (widths > TUNING.ratio * least) & found.divisible
            if not uneven.any():
                return found
            found = found.halved(uneven)


def _indivisible(starts: Floats, ends: Floats) -> Flags:
    """Which pieces hold few floats, (P,)?"""
    return ends - starts < TUNING.fewest_floats * np.spacing(np.maximum(np.abs(starts), np.abs(ends)))


def levelled(numbers: Floats) -> Floats:
    """Numbers of pieces (P,), not far below the largest nearby and smooth from piece to piece.

    Rough densities cost digits (`lattices.py`).
    """
    wide = np.pad(numbers, TUNING.level, mode="edge")
    largest = np.lib.stride_tricks.sliding_window_view(wide, TUNING.level + 1).max(axis=1)  # (P+level,)
    return np.lib.stride_tricks.sliding_window_view(largest, TUNING.level + 1).mean(axis=1)


def resolution(line: Line, low: float, high: float, aim: float, most: int, deadline: Deadline = NEVER) -> Resolution:
    """Pieces on which functions are polynomials to within `aim`.

    It stops, with pieces that are not, where there are so many of them that a bank takes more than `most` tokens.

    >>> found = resolution(lambda x: np.sin(100 * x)[:, None], 0.0, 1.0, 1e-6, 10**6)
    >>> found.count
    16
    """
    grid = np.clip(low + (high - low) * np.arange(TUNING.grid + 1) / TUNING.grid, low, high)
    at_grid = line(grid)  # (G, C)
    scale = float(np.abs(at_grid).max())
    tolerance = max(aim, NOISE * scale)
    first = low + TUNING.first_cut * (high - low)
    starts: Floats = np.array([low, first])
    ends: Floats = np.array([first, high])
    done, lengths = list[Floats](), list[Floats]()
    while len(starts):
        middles = starts + (ends - starts) / 2
        points = np.clip(middles[:, None] + (ends - starts)[:, None] / 2 * _TURNS, low, high)  # (P, degree+1)
        values = line(points.ravel()).reshape(*points.shape, -1)
        scale = max(scale, float(np.abs(values).max()))
        coefficients = np.einsum("pdc,dk->pkc", values, _COEFFICIENTS)  # (P, degree+1, C)
        good = np.abs(coefficients[:, -TUNING.last :]).max(axis=(1, 2)) <= tolerance
        good &= ~_disagree(grid, at_grid, starts, ends, coefficients, good, TUNING.agree * tolerance)
        good |= (ends - starts <= TUNING.narrowest * (high - low)) | _indivisible(starts, ends)
        matters = np.abs(coefficients).max(axis=2) > tolerance  # (P, degree+1)
        length = (TUNING.degree + 1 - np.argmax(matters[:, ::-1], axis=1)) * matters.any(axis=1) / (TUNING.degree + 1)
        length = np.maximum(length, 1 / (TUNING.degree + 1))
        done.append(starts[good])
        lengths.append(length[good])
        starts, middles, ends = starts[~good], middles[~good], ends[~good]
        if TUNING.tokens_a_piece * (len(starts) + sum(map(len, done))) > most or deadline.over:
            done.append(starts)
            lengths.append(length[~good])
            break
        starts, ends = np.sort(np.concatenate([starts, middles])), np.sort(np.concatenate([middles, ends]))
    edges, order = np.concatenate([*done, [high]]), np.argsort(np.concatenate(done), kind="stable")
    return Resolution(np.sort(edges), np.concatenate(lengths)[order], scale or 1.0).balanced()


def _disagree(
    grid: Floats, at_grid: Floats, starts: Floats, ends: Floats, coefficients: Floats, candidates: Flags, allowed: float
) -> Flags:
    """On which of the pieces do polynomials differ from the functions at a point of the grid, (P,)?"""
    piece = np.clip(np.searchsorted(ends, grid), 0, len(starts) - 1)  # (G,)
    inside = np.flatnonzero((grid >= starts[piece]) & (grid <= ends[piece]) & candidates[piece])
    piece = piece[inside]
    half = (ends - starts)[piece] / 2
    turns = np.clip((grid[inside] - starts[piece]) / half - 1, -1, 1)  # (G',)
    basis = np.polynomial.chebyshev.chebvander(turns, TUNING.degree)  # (G', degree+1)
    found = np.einsum("gk,gkc->gc", basis, coefficients[piece])
    wrong = ~(np.abs(found - at_grid[inside]).max(axis=1) <= allowed)
    return np.bincount(piece[wrong], minlength=len(starts)) > 0
