"""The inner loops, compiled by numba when they are first used and kept on disk after that.

Both take queries one by one and return, for each, the average value `mean`, the score `top` of a token near the
largest one and the `mass` `Σ_j e^{s_j - top}` of the tokens summed: shards of a bank combine exactly through these
three. Scores are computed as written and each difference is rounded once, as the rounding model has it; sums run in
any order. Neither starts threads or holds Python's lock.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

from .exponential import exponential

EXACT = {"contract"}
"""Products and sums may be fused, nothing else."""
ANY_ORDER = {"reassoc", "contract", "nsz"}
"""Sums may run in any order."""
STREAM = 512
"""Tokens that a streaming sum takes at a time."""


def _declare_at(typing: Any, array: Any, index: Any) -> Any:
    """`array[index]` for an index that is surely in range: without the test for negative ones, which stops vectors."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load(builder.gep(data, [arguments[1]]))

    return array.dtype(array, types.intp), generate


_at: Any = intrinsic(_declare_at)


@njit(nogil=True, fastmath=EXACT)
def _weight(slope, offset, query, top):
    return exponential(slope * query + offset - top)


@njit(nogil=True, fastmath=EXACT)
def _cell(query, low, scale, first, breaks):
    """The number of breaks that are <= query; O(1) where cells are of like size, O(log) otherwise."""
    place, last, bucket = (query - low) * scale, len(first) - 2, 0
    if place >= last:
        bucket = last
    elif place > 0:
        bucket = int(place)
    below, above = first[bucket], first[bucket + 1]
    while below < above:
        middle = (below + above) >> 1
        if breaks[middle] <= query:
            below = middle + 1
        else:
            above = middle
    while below < len(breaks) and breaks[below] <= query:  # rounding may have led to the bucket next door
        below += 1
    while below > 0 and breaks[below - 1] > query:
        below -= 1
    return below


@njit(cache=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def product(queries, axes, values, strides, along, mean, top, mass, centre):
    """A bank on a product of axes: queries (B, r), values (v, N) -> mean (B, v), top and mass (B,).

    `axes` holds the arrays of `Axes`. `along` >= 0 asks for the derivative of the mean by that coordinate of the query
    instead, and for the average slope along it, `centre` (B,). O(Π windows) a query.
    """
    slopes, offsets, tokens, low, scale, first, buckets, breaks, leader, start, stop, cells = axes
    rank, rows, longest = len(strides), 1, 1
    for k in range(rank):
        widest = 0
        for cell in range(cells[k], cells[k + 1]):
            widest = max(widest, stop[cell] - start[cell])
        longest = max(longest, widest)
        if k < rank - 1:
            rows *= widest
    weights, shares, places = np.empty(longest), np.empty(rows), np.empty(rows, dtype=np.int64)
    for i in range(len(queries)):
        filled, high, total = 1, 0.0, 1.0
        shares[0], places[0] = 1.0, 0
        count, begin = 0, 0
        for k in range(rank):
            query, here = queries[i, k], cells[k]
            own_first = first[buckets[k] : buckets[k + 1]]
            own_breaks = breaks[here - k : cells[k + 1] - k - 1]
            cell = here + _cell(query, low[k], scale[k], own_first, own_breaks)
            begin, count = start[cell], stop[cell] - start[cell]
            best = tokens[k] + leader[cell]
            peak = slopes[best] * query + offsets[best]
            source = tokens[k] + begin
            for j in range(count):
                weights[j] = _weight(_at(slopes, source + j), _at(offsets, source + j), query, peak)
            own = 0.0
            for j in range(count):
                own += weights[j]
            if k == along:
                middle = 0.0
                for j in range(count):
                    middle += weights[j] * slopes[source + j]
                middle /= own
                centre[i] = middle
                for j in range(count):
                    weights[j] *= slopes[source + j] - middle
            high, total = high + peak, total * own
            if k < rank - 1:
                for row in range(filled - 1, -1, -1):
                    share, place = shares[row], places[row] + begin * strides[k]
                    for j in range(count):
                        shares[row * count + j] = share * weights[j]
                        places[row * count + j] = place + j * strides[k]
                filled *= count
        for column in range(len(values)):
            row_values, summed = values[column], 0.0
            for row in range(filled):
                place, part = places[row] + begin, 0.0
                for j in range(count):
                    part += _at(row_values, place + j) * _at(weights, j)
                summed += shares[row] * part
            mean[i, column] = summed / total
        top[i], mass[i] = high, total


@njit(nogil=True, fastmath=EXACT)
def _scores(query, keys, offsets, begin, count, scores):
    for j in range(count):
        scores[j] = _at(offsets, begin + j)
    for feature in range(len(query)):
        factor, row = query[feature], keys[feature]
        for j in range(count):
            scores[j] += factor * _at(row, begin + j)


@njit(nogil=True, fastmath=EXACT)
def _exponentials(scores, count, top):
    for j in range(count):
        scores[j] = exponential(scores[j] - top)


@njit(cache=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def stream(queries, keys, offsets, values, tree, mean, top, mass):
    """Any bank: queries (B, r), keys (r, L), offsets (L,), values (v, L) -> mean (B, v), top and mass (B,).

    `tree` holds the arrays of `Tree`; a query asks the tokens of its leaf, in blocks with a running maximum.
    """
    axis, cut, child, begin, end = tree
    scores, sums = np.empty(STREAM), np.empty(len(values))
    for i in range(len(queries)):
        query, node = queries[i], 0
        while axis[node] >= 0:
            node = child[node] + (query[axis[node]] >= cut[node])
        high, total = -np.inf, 0.0
        sums[:] = 0.0
        for where in range(begin[node], end[node], STREAM):
            count = min(STREAM, end[node] - where)
            _scores(query, keys, offsets, where, count, scores)
            peak = high
            for j in range(count):
                peak = max(peak, scores[j])
            if peak > high:
                shrink = exponential(high - peak) if total > 0 else 0.0
                high, total = peak, total * shrink
                for column in range(len(values)):
                    sums[column] *= shrink
            _exponentials(scores, count, high)
            for j in range(count):
                total += scores[j]
            for column in range(len(values)):
                row, summed = values[column], 0.0
                for j in range(count):
                    summed += _at(row, where + j) * scores[j]
                sums[column] += summed
        for column in range(len(values)):
            mean[i, column] = sums[column] / total
        top[i], mass[i] = high, total
