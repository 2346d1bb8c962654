"""Which bank a head's tokens make, and how much of it a query may leave out.

**What may be dropped.** Let `y` be the real average at the query as computed, and osc the spread of the values.
Leaving out tokens that carry a share λ of the mass moves the average by at most `λ osc`. Changing scores by at most ρ
moves it by at most `(e^{2ρ} - 1) osc`. Both, and the rounding of the loop, must fit into the `room` of the bank;
the certificate accounts for it as its part `windows`. (On a line only λ counts: scores, weights and sums over a window
are those of dense attention, and the certificate's rounding part covers them.) Without room nothing is changed: a line
leaves out masses below 2⁻¹⁰²⁰ at most, and streams leave out nothing; the rounding part covers both.
"""

from __future__ import annotations

from math import expm1, prod

import numpy as np
import numpy.typing as npt

from ...arithmetic.directed import sum_error
from ...arithmetic.formats import FORMATS
from ...arithmetic.rounding import all_orders, storage_error
from .axes import FLUSHED, SortedAxis
from .banks import MANY_LANES, Bank, HeadMemory, Listed, ProductBank, Stream, spread_of
from .trees import Tree

Floats = npt.NDArray[np.float64]

SMALL = 32
"""Banks of so few tokens are read as a whole."""
WORTH = 0.4
"""Windows on a line are worth it if they hold less than this share of the tokens."""
NARROW = FORMATS["float32"]
"""In which large banks may hold their values."""
LARGEST_TAIL = 2.0**-10
"""More than this share of the mass is never dropped."""
GUARD = 8
"""Roundings charged to each term of a score and to its weight."""
SURE = 0.03
"""Weights of a line that are off by less than this factor: what is dropped of the computed mass is then at most 1.1
times what is dropped of the real one."""
MANY = 2**15
"""Banks of so many tokens do not fit a processor's own cache: their values are better held in float32."""


def recognised(tokens: HeadMemory, room: float, low: Floats, high: Floats) -> Bank:
    """The bank for these tokens, with `room` for errors, and queries that are expected in [low, high]."""
    rank, reach = tokens.slopes.shape[1], np.maximum(np.abs(low), np.abs(high))  # (r,)
    if rank == 1:
        tail = min(room / max(1.1 * tokens.osc, 1e-300), LARGEST_TAIL)
        sure = _score_doubt(tokens.offsets, tokens.steepest, reach) < SURE
        if len(tokens.offsets) > SMALL:
            line = ProductBank.line(tokens, max(tail, FLUSHED) if sure else FLUSHED)
            if line.reached <= WORTH * len(tokens.offsets):
                return line
        return Stream.of(tokens)
    if room > 0 and rank > 1:
        merged = tokens.merged()
        found = _product(merged, room, reach)
        if found is not None:
            return found
        if len(tokens.offsets) > SMALL:
            own = expm1(min(2 * _score_doubt(merged.offsets, merged.steepest, reach), 1.0)) * merged.osc
            own += _sums_error(2 * len(merged.offsets), float(np.abs(merged.values).max(initial=0.0)))
            tail = min((room - own) / max(1.1 * merged.osc, 1e-300), LARGEST_TAIL)
            tree = Tree.grown(merged.slopes, merged.offsets, low, high, tail) if tail > 0 else None
            if tree is not None:
                return Listed.of(merged, tree)
    return Stream.of(tokens)


def _product(tokens: HeadMemory, room: float, reach: Floats) -> ProductBank | None:
    """Slopes on a product of axes, offsets that are sums over them up to ρ."""
    columns = [np.unique(column) for column in tokens.slopes.T]
    sizes = [len(column) for column in columns]
    if prod(sizes) != len(tokens.offsets):
        return None
    grid = tokens.offsets.reshape(sizes)  # `np.unique` has sorted the rows like this
    parts, rest = [], grid
    for k, size in enumerate(sizes):
        part = rest.mean(axis=tuple(m for m in range(len(sizes)) if m != k))
        rest = rest - part.reshape([size if m == k else 1 for m in range(len(sizes))])
        parts.append(part)
    off = float(np.abs(rest).max()) + sum_error(float(np.abs(grid).max()), GUARD)
    return _windowed(columns, parts, tokens.values, room, reach, off)


def factored(slopes: list[Floats], offsets: list[Floats], values: Floats, room: float, reach: Floats) -> ProductBank:
    """The bank of axes with these slopes and offsets, values (ΠN, v) with the last axis fastest.

    Without enough room its windows leave out masses below 2⁻¹⁰²⁰ at most.
    """
    found = _windowed(slopes, offsets, values, room, reach, 0.0) if room > 0 else None
    if found is not None:
        return found
    axes = (SortedAxis.of(slope, offset, FLUSHED) for slope, offset in zip(slopes, offsets, strict=True))
    return ProductBank.of(tuple(axes), values)


def _windowed(
    slopes: list[Floats], offsets: list[Floats], values: Floats, room: float, reach: Floats, off: float
) -> ProductBank | None:
    """Windows on every axis, for scores that are known up to `off`.

    An eighth of the room is for the rounding of sums: a value is multiplied by a weight for each axis and added to
    those of all rows of the window, then to those along the last axis; masses are sums over axes. Large banks hold
    their values in float32 if that takes no more than three quarters. The rest is for `off`, weights and windows.
    """
    osc, most = spread_of(values), float(np.abs(values).max(initial=0.0))
    steepest = np.array([np.abs(column).max() for column in slopes])
    doubt = off + _score_doubt(np.concatenate(offsets), steepest, reach)
    narrowing = storage_error(most, NARROW)
    narrow = len(values) >= MANY and narrowing <= 0.75 * room
    left = 0.875 * room - expm1(2 * min(doubt, 1.0)) * osc - narrow * narrowing
    tail = min(left / max(1.1 * osc * len(slopes), 1e-300), LARGEST_TAIL)
    if tail <= 0:
        return None
    axes = tuple(SortedAxis.of(column, part, tail) for column, part in zip(slopes, offsets, strict=True))
    widths = [axis.width for axis in axes]
    if _sums_error(prod(widths[:-1]) + 2 * (sum(widths) + MANY_LANES) + 2 * len(slopes), most) > room / 8:
        return None
    return ProductBank.of(axes, values.astype(NARROW.name) if narrow else values)


def _sums_error(terms: int, most: float) -> float:
    """Rounding of sums and products with values up to `most`, so many of them one after the other."""
    return all_orders((terms + 8) * FORMATS["float64"].unit * most)


def _score_doubt(offsets: Floats, steepest: Floats, reach: Floats) -> float:
    """How far the logarithm of a computed weight may be off, for slopes and queries up to `steepest` and `reach`."""
    size = float((steepest * reach).sum() + len(reach) * np.abs(offsets).max())
    return sum_error(size + len(reach), GUARD)
