"""Layers in which one token sees itself and a few memory tokens, as those of rectifier networks: one compiled loop.

Every sum runs over its terms in the order in which they are stored, each product and sum rounded once, so what comes
out for one token does not depend on the others of its batch. It starts no threads and does not hold Python's lock.
"""

from __future__ import annotations

from math import exp

import numpy as np

from ...resources.kernels import njit

UNDERFLOW = -746.0
"""Below this the exponential is 0 in every number format."""


@njit(cache=True, nogil=True, error_model="numpy")
def attended(X, projection, bias, keys, values, output, output_bias, out):
    """Tokens X (b, d) -> out (b, o), to which the average values of all heads are added.

    `projection` (d, P) and `bias` (P,) make the queries (H k), keys (H k) and values (H v) of a token, one after the
    other; `keys` (H, M, k) and `values` (H, M, v) are those of the memory, `output` (H v, o) maps averages. Weights are
    relative to the largest score, whose own is 1. O(d P + H M (k + v) + H v o) a token.
    """
    heads, memory, size = keys.shape
    width, zero, one = values.shape[2], X.dtype.type(0), X.dtype.type(1)
    first_key, first_value = heads * size, 2 * heads * size
    row = np.empty(projection.shape[1], dtype=X.dtype)
    shares, mean = np.empty(memory + 1, dtype=X.dtype), np.empty(width, dtype=X.dtype)
    for i in range(len(X)):
        row[:] = zero
        for feature in range(X.shape[1]):
            number = X[i, feature]
            for place in range(len(row)):
                row[place] += number * projection[feature, place]
        for place in range(len(row)):
            row[place] += bias[place]
        for head in range(heads):
            query, own = head * size, first_key + head * size
            top = zero
            for token in range(memory + 1):
                score = zero
                for k in range(size):
                    key = row[own + k] if token == 0 else keys[head, token - 1, k]
                    score += row[query + k] * key
                shares[token] = score
                if token == 0 or score > top:
                    top = score
            whole = zero
            for token in range(memory + 1):
                below = shares[token] - top
                shares[token] = zero if below < UNDERFLOW else one if below == zero else exp(below)
                whole += shares[token]
            value = first_value + head * width
            for v in range(width):
                mean[v] = shares[0] / whole * row[value + v]
                for token in range(memory):
                    mean[v] += shares[token + 1] / whole * values[head, token, v]
            for v in range(width):
                for column in range(output.shape[1]):
                    out[i, column] += mean[v] * output[head * width + v, column]
        for column in range(output.shape[1]):
            out[i, column] += output_bias[column]
