"""The inner loops over the tokens of a head, compiled by numba when they are first used and kept on disk after that.

They serve `moments.py`, which states what is computed and why the bounds hold; elementary functions are NumPy's, but
for shares that choose a reference key, which may be any. Nothing is fused and nothing reordered, so results are the
same on every machine. A *pair* is a box and one of its n data tokens. The tokens in play on box b are the items from
`starts[b]` on; what is known of them stands end to end, that of the first pair first, as `offsets` (B+1,) say.
"""

from __future__ import annotations

from math import exp

import numpy as np

from ..resources.kernels import njit


@njit(cache=True, nogil=True, error_model="numpy")
def relative_scores(items, starts, offsets, bank, query, radius, numbers, scores, ranges, image):
    """Scores of the tokens in play relative to the average key, as polynomials of degree 1 with radii.

    `bank` holds keys (N, k), their radii, values (N, v); `query` the coefficients
    (P, k, 1+D) and radii; `radius` (B, D) half-widths. Into `scores`: constants (L,), their radii (L,) and slopes
    (L, D); into `ranges`: spans `Σ_d (|a_d| + wobble_d) r_d` (L,) and wobbles (P, D); average values into `image`
    (P, v).
    """
    (keys, key_radius, values), (mid, rad), (ulp, tiny) = bank, query, numbers
    (start, doubt, slopes), (span, wobble) = scores, ranges
    features, width = mid.shape[1:]
    length, roundings = len(mid) // (len(offsets) - 1), mid.shape[1] + 6
    slack, grow, rise = roundings * ulp, 1 + (roundings + 1) * ulp, 1 + (width + 2) * ulp
    reference, relative = np.empty(features), np.empty(features)
    for pair in range(len(mid)):
        box = pair // length
        count = offsets[box + 1] - offsets[box]
        first = offsets[box] * length + (pair % length) * count
        top = -np.inf
        for j in range(count):
            score, key = 0.0, keys[items[starts[box] + j]]
            for f in range(features):
                score += mid[pair, f, 0] * key[f]
            start[first + j] = score
            top = max(top, score)
        total = 0.0
        reference[:] = 0.0
        image[pair] = 0.0
        for j in range(count):
            share, token = exp(start[first + j] - top), items[starts[box] + j]
            total += share
            for f in range(features):
                reference[f] += share * keys[token, f]
            for c in range(values.shape[1]):
                image[pair, c] += share * values[token, c]
        if total > 0:
            reference /= total
            image[pair] /= total
        wobble[pair] = 0.0
        for j in range(count):
            token = items[starts[box] + j]
            for f in range(features):
                relative[f] = keys[token, f] - reference[f]
            for d in range(width):
                value, size, off = 0.0, 0.0, 0.0
                for f in range(features):
                    known, apart = abs(mid[pair, f, d]), abs(relative[f])
                    value += relative[f] * mid[pair, f, d]
                    size += apart * known
                    off += apart * rad[pair, f, d] + key_radius[token, f] * (known + rad[pair, f, d])
                off = (size * slack + off) * grow + tiny
                if d == 0:
                    start[first + j], doubt[first + j] = value, off
                else:
                    slopes[first + j, d - 1] = value
                    if off > wobble[pair, d - 1] or off != off:  # the first NaN stays; `max` would drop it
                        wobble[pair, d - 1] = off
        for j in range(count):
            reach = 0.0
            for d in range(width - 1):
                reach += (abs(slopes[first + j, d]) + wobble[pair, d]) * radius[box, d]
            span[first + j] = reach * rise


@njit(nogil=True)
def _closed(level, slope, powers, tables, sums):
    """Add what tokens with one slope along an axis have summed up to the sums of its level; begin those below again."""
    power, source, begins, orders = tables
    here, below, count = begins[level], begins[level + 1], begins[level + 1] - begins[level]
    powers[0] = 1.0
    for m in range(1, orders):
        powers[m] = powers[m - 1] * slope
    columns = sums.shape[0] // 3
    for c in range(columns):
        for e in range(count):
            sums[c, here + e] += powers[power[here + e]] * sums[c, below + source[here + e]]
    for c in range(columns, 3 * columns):
        for e in range(count):
            sums[c, here + e] += abs(powers[power[here + e]]) * sums[c, below + source[here + e]]
    sums[:, below : begins[level + 2]] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def moments(items, starts, offsets, bank, weights, slopes, distances, tables, numbers, found, heavy, apart, largest):
    """Sums over the tokens of each pair, of rows times powers of slopes, tokens with equal slopes together.

    `bank` holds values (N, v) and their radii; `weights` e^s (L,) and their relative errors; `distances` `e^{s + ρ}`
    and ρ (L,). Into `found` (P, 3 (1+v), C): sums, sums of sizes and of doubts; into `heavy` (P, M+2) and `apart`
    (P, v) those of `moments.py`; into `largest` (P, 2) the largest slope and the largest row.

    O(M) a token and O(C) for each run of tokens that share all slopes but the last: on a grid of T tokens in two
    variables O(T M + √T M²) instead of O(T M²).
    """
    (values, spreads), (weight, error), (far, span), (tiny, smallest) = bank, weights, distances, numbers
    _, _, begins, orders = tables
    pairs, columns, size = found.shape
    columns, variables = columns // 3, slopes.shape[1]
    length, last = pairs // (len(offsets) - 1), variables - 1
    sums, row = np.empty((3 * columns, begins[variables])), np.empty(3 * columns)
    powers, own = np.empty(orders), begins[last]
    most = 0
    for box in range(len(offsets) - 1):
        most = max(most, offsets[box + 1] - offsets[box])
    terms = np.empty(most)
    for pair in range(pairs):
        box = pair // length
        count = offsets[box + 1] - offsets[box]
        first = offsets[box] * length + (pair % length) * count
        sums[:] = 0.0
        heavy[pair], apart[pair], largest[pair] = 0.0, 0.0, 0.0
        for j in range(count):
            place, token = first + j, items[starts[box] + j]
            changed = last
            if j > 0:
                for d in range(last - 1, -1, -1):
                    if slopes[place, d] != slopes[place - 1, d]:
                        changed = d
            for level in range(last - 1, changed - 1, -1):
                _closed(level, slopes[place - 1, level], powers, tables, sums)
            least = 4 * smallest * (1 + weight[place])
            row[0], row[columns] = weight[place], abs(weight[place])
            row[2 * columns] = weight[place] * error[place] + tiny + least
            for c in range(1, columns):
                value, spread = values[token, c - 1], spreads[token, c - 1]
                row[c] = weight[place] * value
                row[columns + c] = abs(row[c])
                off = weight[place] * (abs(value) * error[place] + spread * (1 + error[place]))
                row[2 * columns + c] = off + tiny * (abs(value) + spread) + least
            for d in range(variables):
                largest[pair, 0] = max(largest[pair, 0], abs(slopes[place, d]))
            for c in range(columns, 3 * columns):
                largest[pair, 1] = max(largest[pair, 1], row[c])
            powers[0] = 1.0
            for m in range(1, orders):
                powers[m] = powers[m - 1] * slopes[place, last]
            for c in range(columns):
                for m in range(orders):
                    sums[c, own + m] += row[c] * powers[m]
            for m in range(orders):
                powers[m] = abs(powers[m])
            for c in range(columns, 3 * columns):
                for m in range(orders):
                    sums[c, own + m] += row[c] * powers[m]
            term = max(far[place], tiny)
            heavy[pair, 0] += term + tiny
            for m in range(1, orders + 1):
                term = term * (span[place] / m)
                heavy[pair, m] += term + tiny
            terms[j] = term + tiny
        for level in range(last - 1, -1, -1):
            if count > 0:
                _closed(level, slopes[first + count - 1, level], powers, tables, sums)
        found[pair] = sums[:, :size]
        for c in range(1, columns):
            pivot = sums[c, 0] / sums[0, 0]
            for j in range(count):
                token = items[starts[box] + j]
                apart[pair, c - 1] += terms[j] * (abs(values[token, c - 1] - pivot) + spreads[token, c - 1])
