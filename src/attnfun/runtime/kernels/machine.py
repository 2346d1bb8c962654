"""The loop that runs a program (`programs.py`) on many inputs, compiled by numba when it is first used.

Inputs go through in groups of `LANES`, one lane each, so that every operation is done in vector instructions for the
whole group and its registers stay in the first cache. The last group is filled up with copies, so that what comes out
for one input does not depend on the others. Sums run in float64, in any order; the loop holds no lock of Python's.
What is kept on disk is found by the date of this file: change it along with `exponential.py` or `vectors.py`.
"""

from __future__ import annotations

import numpy as np

from ...resources.kernels import njit
from .exponential import exponential
from .operations import AFFINE, HEAD
from .vectors import combine

LANES = 64
"""Inputs that go through together."""
PART = (0,) * 16
"""Lanes whose sums are in registers at a time."""
CHUNK = 64
"""Tokens whose scores are held at a time."""
NOTHING = 3.4e-308
"""Weights up to this count as zero: all scores too small for `exponential` have one, and products with it are slow."""
EXACT = {"contract"}
"""Products and sums may be fused, nothing else."""


@njit(nogil=True, fastmath=EXACT)
def _grow(peak, scores, count):
    """The largest score of each lane so far."""
    for token in range(count):
        start = token * LANES
        for lane in range(LANES):
            score = scores[start + lane]
            peak[lane] = score if score > peak[lane] else peak[lane]


@njit(nogil=True, fastmath=EXACT)
def _weigh(scores, peak, count):
    """Scores to weights."""
    for token in range(count):
        start = token * LANES
        for lane in range(LANES):
            scores[start + lane] = exponential(scores[start + lane] - peak[lane])


@njit(nogil=True, fastmath=EXACT)
def _shrink(sums, old, peak, columns):
    """Sums in units of the old peak to units of the new one."""
    for lane in range(LANES):
        old[lane] = exponential(old[lane] - peak[lane])
    for column in range(columns):
        for lane in range(LANES):
            sums[column * LANES + lane] *= old[lane]


@njit(nogil=True)
def _sum(out, at, constant, values, places, first_place, shares, first_share, count):
    """A combination of registers, or of rows of scores, for all lanes."""
    for lane in range(0, LANES, len(PART)):
        combine(out, at + lane, constant, values, lane, places, first_place, shares, first_share, count, PART)


@njit(nogil=True)
def _attend(registers, operation, heads, room):
    """A head: all tokens, in chunks with a running maximum; the last column of the values is 1 and sums up the mass."""
    _, query, features, offset, tokens, key, value, columns, out = operation
    queries, keys, offsets, values = heads
    scores, peak, old, sums, more, ramp = room
    peak[:] = -np.inf
    for start in range(0, tokens, CHUNK):
        count = min(CHUNK, tokens - start)
        for token in range(count):
            first, offset_here = key + (start + token) * features, offsets[offset + start + token]
            _sum(scores, token * LANES, offset_here, registers, queries, query, keys, first, features)
        for lane in range(LANES):  # assigning arrays to slices takes seconds to compile
            old[lane] = peak[lane]
        _grow(peak, scores, count)
        _weigh(scores, peak, count)
        target = sums if start == 0 else more
        for column in range(columns):
            first = value + column * tokens + start
            _sum(target, column * LANES, 0.0, scores, ramp, 0, values, first, count)
        if start > 0:
            _shrink(sums, old, peak, columns)
            for number in range(columns * LANES):
                sums[number] += more[number]
    mass = (columns - 1) * LANES
    for column in range(columns - 1):
        for lane in range(LANES):
            registers[(out + column) * LANES + lane] = sums[column * LANES + lane] / sums[mass + lane]


@njit(nogil=True, fastmath=EXACT)
def _own_scores(scores, at, registers, queries, query, features):
    """Scores of tokens with their own keys, which are in registers behind the query."""
    for lane in range(LANES):
        scores[at + lane] = 0.0
    for feature in range(features):
        left, right = queries[query + feature], queries[query + features + feature]
        for lane in range(LANES):
            scores[at + lane] += registers[left + lane] * registers[right + lane]


@njit(nogil=True, fastmath=EXACT)
def _weigh_two(scores):
    """Two scores a lane to weights, the larger one's 1."""
    for lane in range(LANES):
        apart = scores[LANES + lane] - scores[lane]
        least = exponential(-abs(apart))
        least = least if least > NOTHING else 0.0
        scores[lane] = 1.0 if apart < 0.0 else least
        scores[LANES + lane] = least if apart < 0.0 else 1.0


@njit(nogil=True, fastmath=EXACT)
def _average(registers, out, own_value, sums, own, mass):
    """The values of memory tokens, summed up, and a token's own value of weight `own`: over the mass."""
    for lane in range(LANES):
        registers[out + lane] = (sums[lane] + own[lane] * registers[own_value + lane]) / mass[lane]


@njit(nogil=True)
def _attend_self(registers, operation, heads, room):
    """The same for a few memory tokens and the token itself, whose key and value are in registers behind the query."""
    _, query, features, offset, tokens, key, value, columns, out = operation
    queries, keys, offsets, values = heads
    scores, peak, _, sums, mass, ramp = room
    for token in range(tokens):
        first, offset_here = key + token * features, offsets[offset + token]
        _sum(scores, token * LANES, offset_here, registers, queries, query, keys, first, features)
    own = scores[tokens * LANES : (tokens + 1) * LANES]
    _own_scores(scores, tokens * LANES, registers, queries, query, features)
    if tokens == 1:
        _weigh_two(scores)
    else:
        peak[:] = -np.inf
        _grow(peak, scores, tokens + 1)
        _weigh(scores, peak, tokens + 1)
        for place in range((tokens + 1) * LANES):
            scores[place] = scores[place] if scores[place] > NOTHING else 0.0
    last = columns - 1
    _sum(mass, 0, 0.0, scores, ramp, 0, values, value + last * tokens, tokens)
    for lane in range(LANES):
        mass[lane] += own[lane]
    for column in range(last):
        _sum(sums, 0, 0.0, scores, ramp, 0, values, value + column * tokens, tokens)
        _average(registers, (out + column) * LANES, queries[query + 2 * features + column], sums, own, mass)


@njit(cache=True, nogil=True, error_model="numpy")
def run(X, out, count, operations, rows, heads, results):
    """X (B, I) -> out (B, O), with `count` registers; the other arrays are those of `Code`."""
    (starts, sources, weights, constants), (queries, keys, offsets, values) = rows, heads
    sources, queries = LANES * sources, LANES * queries
    most = 1
    for operation in operations:
        if operation[0] != AFFINE:
            most = max(most, operation[7])
    registers, scores, ramp = np.empty(count * LANES), np.empty(CHUNK * LANES), LANES * np.arange(CHUNK)
    room = scores, np.empty(LANES), np.empty(LANES), np.empty(most * LANES), np.empty(most * LANES), ramp
    for begin in range(0, len(X), LANES):
        filled = min(LANES, len(X) - begin)
        for column in range(X.shape[1]):
            for lane in range(LANES):
                registers[column * LANES + lane] = X[begin + min(lane, filled - 1), column]
        for operation in operations:
            if operation[0] == AFFINE:
                for number in range(operation[2]):
                    row, target = operation[1] + number, (operation[3] + number) * LANES
                    first, terms = starts[row], starts[row + 1] - starts[row]
                    _sum(registers, target, constants[row], registers, sources, first, weights, first, terms)
            elif operation[0] == HEAD:
                _attend(registers, operation, (queries, keys, offsets, values), room)
            else:
                _attend_self(registers, operation, (queries, keys, offsets, values), room)
        for column in range(len(results)):
            source = results[column] * LANES
            for lane in range(filled):
                out[begin + lane, column] = registers[source + lane]
