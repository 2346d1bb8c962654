"""Tokens along a line: which of them matter for a query.

Tokens are sorted by slope. The line of queries is cut into cells, each with a *leader*, the token whose score
`a_c q + b_c` is the largest there or nearly so. For a query of a cell the weight of token j is at most

    e^{s_j(q) - s_c(q)} <= e^{M_jc},      M_jc = the larger of s_j - s_c at the two ends of the cell,

because differences of scores are affine in q. (A cell without end: the leader of the last cell has the largest
slope, so that differences fall towards infinity, and likewise at the other side.) With the smaller differences at the
two ends, `m_jc`, the mass of all tokens is at least `Σ_j e^{m_jc}`, in units of the leader's weight; 1 counts for the
leader itself, and 0 for the others in a cell without end. The *window* of a cell leaves out tokens from both ends of
the list as long as their `e^M` add up to at most half of what may be dropped of that mass, each side. So the dropped
share of the mass is bounded for **every** real query, and it does not matter whether leaders are exactly the largest.
Cells are cut in halves, because windows of halves are shorter.

**Rounding.** M and m are signed sums of `a_j q`, `a_c q`, b_j and b_c with at most four roundings of each term. What
they are off [T 9.10] is added to M and subtracted from m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...arithmetic.directed import exp_down, exp_up, rounded_down, rounded_up, sum_down, sum_error
from ...arithmetic.formats import FORMATS

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

FLUSHED = FORMATS["float64"].tiny
"""Masses that the rounding model allows to vanish from float64 sums."""
ENTRIES = 2**21
"""Numbers in the largest temporary array."""
MOST_PAIRS = 2**24
"""Pairs of cells and tokens that are looked at; longer lines have windows only if every token leads somewhere."""
BUCKETS = 2
"""Buckets a cell, for finding cells."""
SPARE = 64
"""Tokens of weight zero behind the last one, so that loops may read whole vectors."""
NOTHING = -1e300
"""Their offset."""


@dataclass(frozen=True, eq=False)
class SortedAxis:
    """Sorted tokens, cells and windows."""

    slopes: Floats  # (N,), ascending
    offsets: Floats  # (N,)
    order: Integers  # (N,), the given tokens in this order
    breaks: Floats  # (C - 1,), between cells
    leader: Integers  # (C,)
    start: Integers  # (C,)
    stop: Integers  # (C,)

    @classmethod
    def of(cls, slopes: Floats, offsets: Floats, tail: float) -> SortedAxis:
        """Cells for tokens given in any order, and windows that drop a share of at most `tail`; O(N log N) or O(N²).

        >>> centres = np.arange(100.0)
        >>> axis = SortedAxis.of(centres, -(centres**2) / 2, tail=1e-8)
        >>> int((axis.stop - axis.start).max())
        13
        """
        order = np.lexsort((offsets, slopes))
        slopes, offsets = slopes[order], offsets[order]
        leader = _leaders(slopes, offsets)
        leader, breaks = _halved(leader, _crossings(slopes, offsets, leader))
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
    def of(cls, axes: tuple[SortedAxis, ...]) -> Axes:
        """Concatenate."""
        lows, scales, firsts = zip(*(axis.buckets() for axis in axes), strict=True)

        def joined(name: str, *more: Floats) -> npt.NDArray[np.generic]:
            return np.concatenate([*(getattr(axis, name) for axis in axes), *more])

        def ends(lengths: list[int]) -> Integers:
            return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

        return cls(
            (
                joined("slopes", np.zeros(SPARE)),
                joined("offsets", np.full(SPARE, NOTHING)),
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


def _halved(leader: Integers, breaks: Floats) -> tuple[Integers, Floats]:
    """Each cell that has two ends cut in halves, because windows of halves are shorter."""
    if not np.isfinite(breaks).all():
        return leader, breaks
    middles = breaks[:-1] + np.diff(breaks) / 2
    twice = np.repeat(leader, 2)[1:-1] if len(leader) > 1 else leader  # cells at the ends are not cut
    return twice, np.sort(np.concatenate([breaks, middles]))


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
        every = len(np.unique(leader)) == count
        return _windows_by_bisection(slopes, offsets, leader, ends, tail) if every else whole
    start, stop = whole
    rows = max(1, ENTRIES // count)
    for begin in range(0, cells, rows):
        part = slice(begin, begin + rows)
        cell = np.arange(begin, min(begin + rows, cells))
        lead = leader[part, None]  # (c, 1)
        token = np.arange(count)[None]
        least, most = _apart(slopes, offsets, token, lead, ends[cell, None], ends[cell + 1, None])  # (c, N)
        bound = exp_up(most)
        mass = np.maximum(sum_down(exp_down(least), axis=1, keepdims=True), 1.0)  # (c, 1)
        limit = rounded_down(tail / 2 * mass, 1)
        left, right = (rounded_up(np.cumsum(part, axis=1), count) for part in (bound, bound[:, ::-1]))
        start[part] = np.minimum((left <= limit).sum(axis=1), leader[part])
        stop[part] = np.maximum(count - (right <= limit).sum(axis=1), leader[part] + 1)
    return start, stop


def _windows_by_bisection(
    slopes: Floats, offsets: Floats, leader: Integers, ends: Floats, tail: float
) -> tuple[Integers, Integers]:
    """Where every token leads, scores fall away from the leader: a token below `-log(2N/tail)` ends the window.

    They fall up to rounding: a break is off by a few units, so a score may rise by `16u` of its size from one token to
    the next, N times at most; that much is added.
    """
    count = len(slopes)
    reach = np.abs(ends[1:-1]).max() * np.abs(slopes).max() + np.abs(offsets).max()
    limit = -np.log(2 * count / tail) - sum_error(reach, 8 * count)

    def far(token: Integers) -> npt.NDArray[np.bool_]:
        return _apart(slopes, offsets, token, leader, ends[:-1], ends[1:])[1] <= limit

    near, beyond = leader, np.full(len(leader), count)  # far(near) is false, beyond counts as far
    low, before = np.full(len(leader), -1), leader  # the other side
    for _ in range(int(count).bit_length() + 1):
        middle = (near + beyond) // 2
        away = far(middle)
        near, beyond = np.where(away, near, middle), np.where(away, middle, beyond)
        middle = (low + before) // 2
        away = far(np.maximum(middle, 0)) | (middle < 0)
        low, before = np.where(away, middle, low), np.where(away, before, middle)
    return before, beyond


def _apart(
    slopes: Floats, offsets: Floats, token: Integers, lead: Integers, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Bounds on s_j - s_c over cells [low, high], from below and from above; broadcast."""
    slope, offset = slopes[token] - slopes[lead], offsets[token] - offsets[lead]
    size, rest = np.abs(slopes[token]) + np.abs(slopes[lead]), np.abs(offsets[token]) + np.abs(offsets[lead])
    shape = np.broadcast_shapes(slope.shape, low.shape)
    least, most = np.full(shape, np.inf), np.full(shape, -np.inf)
    for end in (low, high):
        finite = np.isfinite(end)
        place = np.where(finite, end, 0.0)
        at, doubt = slope * place + offset, sum_error(size * np.abs(place) + rest, 4)
        least = np.minimum(least, np.where(finite, at - doubt, -np.inf))
        most = np.where(finite, np.maximum(most, at + doubt), most)
    return least, most
