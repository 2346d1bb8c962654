"""The inner loops, compiled by numba when they are first used and kept on disk after that.

Both take queries one by one and return, for each, the average value `mean`, the score `top` of a token near the
largest one and the `mass` `Σ_j e^{s_j - top}` of the tokens summed: shards of a bank combine exactly through these
three. Scores are computed as written and each difference is rounded once, as the rounding model has it; sums run in
any order. Neither starts threads or holds Python's lock.

What is kept on disk is found by the date of this file: change it along with `exponential.py` or `vectors.py`.
"""

from __future__ import annotations

import numpy as np

from ...resources.kernels import njit
from .exponential import exponential
from .vectors import VECTOR, at, combine, weigh

EXACT = {"contract"}
"""Products and sums may be fused, nothing else."""
ANY_ORDER = {"reassoc", "contract", "nsz"}
"""Sums may run in any order."""
STREAM = 512
"""Tokens that a streaming sum takes at a time."""
EIGHT, TWELVE, SIXTEEN, MANY = (0,) * 8, (0,) * 12, (0,) * 16, (0,) * 24
"""Widths of `combine`."""
SORTED = 512
"""Queries that are worth sorting by cell, so that neighbours find their values in the cache."""


@njit(nogil=True, fastmath=EXACT)
def _weights(weights, slopes, offsets, source, count, query, peak):
    for j in range(0, count, VECTOR):
        weigh(weights, j, slopes, offsets, source + j, query, peak)


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


@njit(nogil=True)
def _located(queries, axes):
    """The cell of each query on each axis, counted over all axes, (B, r)."""
    _, _, _, low, scale, first, buckets, breaks, _, _, _, cells = axes
    found = np.empty(queries.shape, dtype=np.int64)
    for k in range(queries.shape[1]):
        own_first, here = first[buckets[k] : buckets[k + 1]], cells[k]
        own_breaks = breaks[here - k : cells[k + 1] - k - 1]
        for i in range(len(queries)):
            found[i, k] = here + _cell(queries[i, k], low[k], scale[k], own_first, own_breaks)
    return found


@njit(nogil=True)
def _order(located, cells):
    """Queries by their cells on the first axes, as many axes as there are queries for; counting sort, O(B)."""
    count, rank = located.shape
    key, kinds = np.zeros(count, dtype=np.int64), 1
    if rank > 2 and count >= SORTED:
        for k in range(rank - 1):
            here = cells[k + 1] - cells[k]
            if kinds * here > 2 * count:
                break
            kinds *= here
            for i in range(count):
                key[i] = key[i] * here + located[i, k] - cells[k]
    if kinds == 1:
        return np.arange(count)
    start = np.zeros(kinds + 1, dtype=np.int64)
    for i in range(count):
        start[key[i] + 1] += 1
    for kind in range(kinds):
        start[kind + 1] += start[kind]
    order = np.empty(count, dtype=np.int64)
    for i in range(count):
        order[start[key[i]]] = i
        start[key[i]] += 1
    return order


@njit(nogil=True)
def _stretch(out, values, shift, places, shares, rows, lanes):
    """Σ_row shares[row] values[places[row] + shift ...], as many lanes as are given."""
    if lanes == 8:
        combine(out, 0, 0.0, values, shift, places, 0, shares, 0, rows, EIGHT)
    elif lanes == 12:
        combine(out, 0, 0.0, values, shift, places, 0, shares, 0, rows, TWELVE)
    elif lanes == 16:
        combine(out, 0, 0.0, values, shift, places, 0, shares, 0, rows, SIXTEEN)
    else:
        combine(out, 0, 0.0, values, shift, places, 0, shares, 0, rows, MANY)


@njit(cache=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def product(queries, axes, values, shape, places, along, results):
    """A bank on a product of axes: queries (B, r) -> mean (B, v), top and mass (B,), by the windows of their cells.

    `axes` holds the arrays of `Axes`; values (v N,) are stretches along the last axis; `shape` is (sizes, widths,
    lanes): tokens and window on each axis, the last window in stretches of `lanes`. `places` are those of the window's
    rows, from its first token. `along` >= 0 requests the derivative of the mean by that coordinate of the query
    instead, and for the average slope along it, `centre` (B,). O(Π windows) a query.
    """
    (mean, top, mass, centre), (sizes, widths, lanes) = results, shape
    slopes, offsets, tokens, _, _, _, _, _, leader, start, stop, cells = axes
    rank, rows, last = len(sizes), len(places), len(sizes) - 1
    longest, whole = 0, 1
    for k in range(rank):
        longest, whole = max(longest, widths[k] + VECTOR), whole * sizes[k]
    weights, shares, sums = np.empty(longest), np.empty(rows), np.empty(lanes)
    located = _located(queries, axes)
    for i in _order(located, cells):
        filled, high, total, place, count, stride = 1, 0.0, 1.0, 0, 0, whole
        shares[0] = 1.0
        for k in range(rank):
            query, cell = queries[i, k], located[i, k]
            stride //= sizes[k]
            count = widths[k]
            if k == last:
                count = (stop[cell] - start[cell] + lanes - 1) // lanes * lanes
            begin = min(start[cell], sizes[k] - count)
            place += begin * stride
            best, source = tokens[k] + leader[cell], tokens[k] + begin
            peak = slopes[best] * query + offsets[best]
            _weights(weights, slopes, offsets, source, count, query, peak)
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
            if k < last:
                for row in range(filled - 1, -1, -1):
                    share = shares[row]
                    for j in range(count):
                        shares[row * count + j] = share * weights[j]
                filled *= count
        for column in range(mean.shape[1]):
            summed = 0.0
            for begin in range(0, count, lanes):
                _stretch(sums, values, column * whole + place + begin, places, shares, rows, lanes)
                for j in range(lanes):
                    summed += sums[j] * weights[begin + j]
            mean[i, column] = summed / total
        top[i], mass[i] = high, total


@njit(nogil=True, fastmath=EXACT)
def _scores(query, keys, offsets, begin, count, scores):
    for j in range(count):
        scores[j] = at(offsets, begin + j)
    for feature in range(len(query)):
        factor, row = query[feature], keys[feature]
        for j in range(count):
            scores[j] += factor * at(row, begin + j)


@njit(nogil=True, fastmath=EXACT)
def _exponentials(scores, count, top):
    for j in range(count):
        scores[j] = exponential(scores[j] - top)


@njit(cache=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def stream(queries, keys, offsets, values, tree, mean, top, mass):
    """Any bank: queries (B, r), keys (r, L), offsets (L,), values (v, L) -> mean (B, v), top and mass (B,).

    `tree` holds the arrays of `Tree`; a query attends to the tokens of its leaf, in blocks with a running maximum.
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
                    summed += at(row, where + j) * scores[j]
                sums[column] += summed
        for column in range(len(values)):
            mean[i, column] = sums[column] / total
        top[i], mass[i] = high, total
