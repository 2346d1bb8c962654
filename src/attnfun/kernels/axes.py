"""Tokens along a line: which of them matter for a query.

Tokens are sorted by slope. The line of queries is cut into cells, each with a *leader*, the token whose score
`a_c q + b_c` is the largest there or nearly so. For a query of a cell the weight of token j is at most

    e^{s_j(q) - s_c(q)} <= e^{M_jc},      M_jc = the larger of s_j - s_c at the two ends of the cell,

because differences of scores are affine in q. (A cell without end: the leader of the last cell has the largest
slope, so that differences fall towards infinity, and likewise at the other side.) The *window* of a cell leaves out
tokens from both ends of the list as long as their `e^M` add up to at most half of what may be dropped, each side. So
the dropped share of the mass is bounded for **every** real query, and it does not matter whether leaders are exactly
the largest.

**Rounding.** M is computed with an error of at most `8u ((|a_j| + |a_c|)|q| + |b_j| + |b_c|)`, which is added to it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

UNIT = 2.0**-53
FLUSHED = 2.0**-1020
"""Masses that the rounding model allows to vanish from float64 sums."""
ENTRIES = 2**21
"""Numbers in the largest temporary array."""
MOST_PAIRS = 2**24
"""Pairs of cells and tokens that are looked at; longer lines have windows only if every token leads somewhere."""
BUCKETS = 4
"""Buckets a cell, for finding cells."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Sorted tokens, cells and windows."""

    slopes: Floats  # (N,), ascending
    offsets: Floats  # (N,)
    order: Integers  # (N,), the given tokens in this order
    breaks: Floats  # (C - 1,), between cells
    leader: Integers  # (C,)
    start: Integers  # (C,)
    stop: Integers  # (C,)

    @classmethod
    def of(cls, slopes: Floats, offsets: Floats, tail: float) -> Axis:
        """Cells for tokens given in any order, and windows that drop a share of at most `tail`; O(N log N) or O(N²).

        >>> centres = np.arange(100.0)
        >>> axis = Axis.of(centres, -(centres**2) / 2, tail=1e-8)
        >>> int((axis.stop - axis.start).max())
        13
        """
        order = np.lexsort((offsets, slopes))
        slopes, offsets = slopes[order], offsets[order]
        leader = _leaders(slopes, offsets)
        breaks = _crossings(slopes, offsets, leader)
        start, stop = _windows(slopes, offsets, leader, breaks, tail)
        return cls(slopes, offsets, order, breaks, leader, start, stop)

    @property
    def width(self) -> int:
        """Tokens in the widest window."""
        return int((self.stop - self.start).max())

    def buckets(self) -> tuple[float, float, Integers]:
        """Uniform buckets over the breaks: where they start, how many a unit, and the first cell of each."""
        count = BUCKETS * len(self.leader)
        if len(self.breaks) == 0 or not np.isfinite(span := self.breaks[-1] - self.breaks[0]) or span <= 0:
            return 0.0, 0.0, np.array([0, len(self.breaks)])
        scale = count / span
        edges = self.breaks[0] + np.arange(count + 1) / scale
        first = np.searchsorted(self.breaks, edges, side="right")
        first[0], first[-1] = 0, len(self.breaks)
        return float(self.breaks[0]), float(scale), first


@dataclass(frozen=True, eq=False)
class Axes:
    """Several axes one after the other in flat arrays, as the loops want them."""

    arrays: tuple[npt.NDArray[np.generic], ...]

    @classmethod
    def of(cls, axes: tuple[Axis, ...]) -> Axes:
        """Concatenate."""
        lows, scales, firsts = zip(*(axis.buckets() for axis in axes), strict=True)

        def joined(name: str) -> npt.NDArray[np.generic]:
            return np.concatenate([getattr(axis, name) for axis in axes])

        def ends(lengths: list[int]) -> Integers:
            return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

        return cls(
            (
                joined("slopes"),
                joined("offsets"),
                ends([len(axis.slopes) for axis in axes]),
                np.array(lows),
                np.array(scales),
                np.concatenate(firsts).astype(np.int64),
                ends([len(first) for first in firsts]),
                joined("breaks"),
                joined("leader"),
                joined("start"),
                joined("stop"),
                ends([len(axis.leader) for axis in axes]),
            )
        )


def _leaders(slopes: Floats, offsets: Floats) -> Integers:
    """Tokens that have the largest score somewhere, ascending; a few may be missing or superfluous."""
    kept = np.flatnonzero(np.append(np.diff(slopes) > 0, True))  # of equal slopes the largest offset comes last
    while True:
        breaks = _crossings(slopes, offsets, kept)
        under = np.zeros(len(kept), dtype=bool)
        under[1:-1] = breaks[1:] <= breaks[:-1]
        under[1:] &= ~under[:-1]  # of neighbours one at a time
        if not under.any():
            return kept
        kept = kept[~under]


def _crossings(slopes: Floats, offsets: Floats, kept: Integers) -> Floats:
    """Where each leader overtakes the one before."""
    with np.errstate(over="ignore"):
        return -np.diff(offsets[kept]) / np.diff(slopes[kept])


def _windows(
    slopes: Floats, offsets: Floats, leader: Integers, breaks: Floats, tail: float
) -> tuple[Integers, Integers]:
    """First token and end of each cell's window."""
    count, cells = len(slopes), len(leader)
    ends = np.concatenate([[-np.inf], breaks, [np.inf]])
    whole = np.zeros(cells, dtype=np.int64), np.full(cells, count, dtype=np.int64)
    if not np.isfinite(breaks).all() or cells == 1:
        return whole
    if cells * count > MOST_PAIRS:
        return _windows_by_bisection(slopes, offsets, ends, tail) if cells == count else whole
    start, stop = whole
    rows = max(1, ENTRIES // count)
    for begin in range(0, cells, rows):
        part = slice(begin, begin + rows)
        cell = np.arange(begin, min(begin + rows, cells))
        lead = leader[part, None]  # (c, 1)
        excess = _excess(slopes, offsets, np.arange(count)[None], lead, ends[cell, None], ends[cell + 1, None])
        bound = np.exp(excess) * (1 + 1e-12)  # (c, N)
        limit = tail / 2 * (1 - 4 * count * UNIT)
        left, right = np.cumsum(bound, axis=1), np.cumsum(bound[:, ::-1], axis=1)
        start[part] = np.minimum((left <= limit).sum(axis=1), leader[part])
        stop[part] = np.maximum(count - (right <= limit).sum(axis=1), leader[part] + 1)
    return start, stop


def _windows_by_bisection(slopes: Floats, offsets: Floats, ends: Floats, tail: float) -> tuple[Integers, Integers]:
    """Where every token leads, scores fall away from the leader: a token below `-log(2N/tail)` ends the window.

    They fall up to rounding: a break is off by a few units, so a score may rise by `16u` of its size from one token to
    the next, N times at most; that much is added.
    """
    count = len(slopes)
    cell = np.arange(count)
    reach = np.abs(ends[1:-1]).max() * np.abs(slopes).max() + np.abs(offsets).max()
    limit = -np.log(2 * count / tail) - 16 * UNIT * count * reach

    def far(token: Integers) -> npt.NDArray[np.bool_]:
        return _excess(slopes, offsets, token, cell, ends[:-1], ends[1:]) <= limit

    near, beyond = cell, np.full(count, count)  # far(near) is false, beyond counts as far
    low, before = np.full(count, -1), cell  # the other side
    for _ in range(int(count).bit_length() + 1):
        middle = (near + beyond) // 2
        away = far(middle)
        near, beyond = np.where(away, near, middle), np.where(away, middle, beyond)
        middle = (low + before) // 2
        away = far(np.maximum(middle, 0)) | (middle < 0)
        low, before = np.where(away, middle, low), np.where(away, before, middle)
    return before, beyond


def _excess(slopes: Floats, offsets: Floats, token: Integers, lead: Integers, low: Floats, high: Floats) -> Floats:
    """An upper bound on s_j - s_c over cells [low, high]; broadcast."""
    slope, offset = slopes[token] - slopes[lead], offsets[token] - offsets[lead]
    size, rest = np.abs(slopes[token]) + np.abs(slopes[lead]), np.abs(offsets[token]) + np.abs(offsets[lead])
    found = np.full(np.broadcast_shapes(slope.shape, low.shape), -np.inf)
    for end in (low, high):
        place = np.where(np.isfinite(end), end, 0.0)
        at = slope * place + offset + 8 * UNIT * (size * np.abs(place) + rest)
        found = np.where(np.isfinite(end), np.maximum(found, at), found)
    return found
