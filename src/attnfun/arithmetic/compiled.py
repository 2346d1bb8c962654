"""The inner loops of series arithmetic, compiled by numba when they are first used and kept on disk after that.

Each does, element by element, the operations of its namesake in `jet_functions.py` in the same order, so it returns
the same floats on every machine: nothing is fused, nothing is reordered. What it gains is that a block of series stays
near the processor. Series are rows (C, X): coefficients first, a batch of any shape as X.

`starts` and `places` are the basis's table of products: the product of monomials k and g is `places[starts[k] + g]`.
"""

from __future__ import annotations

import numpy as np

from ..resources.kernels import njit

BLOCK = 64
"""Series that are worked on at a time, copied to where their coefficients lie side by side."""


@njit(nogil=True)
def _fetch(rows, first, count, block):
    """Columns of rows (C, X) from `first` on into a block (C, BLOCK)."""
    for k in range(rows.shape[0]):
        for i in range(count):
            block[k, i] = rows[k, first + i]


@njit(nogil=True)
def _store(block, first, count, rows):
    """A block (C, BLOCK) into columns of rows (C, X) from `first` on."""
    for k in range(rows.shape[0]):
        for i in range(count):
            rows[k, first + i] = block[k, i]


@njit(cache=True, nogil=True, error_model="numpy")
def convolve(starts, places, a, b, rows, known, out):
    """Products of the first rows of a (C, X) with the known ones of b (C, X), into `out` (C, X)."""
    size, series = out.shape
    left, right, total = np.empty((size, BLOCK)), np.empty((size, BLOCK)), np.empty((size, BLOCK))
    for first in range(0, series, BLOCK):
        width = min(BLOCK, series - first)
        _fetch(a, first, width, left)
        _fetch(b, first, width, right)
        total[:] = 0.0
        for k in range(rows):
            begin, count = starts[k], min(known, starts[k + 1] - starts[k])
            for g in range(count):
                place = places[begin + g]
                for i in range(width):
                    total[place, i] += left[k, i] * right[g, i]
        _store(total, first, width, out)


@njit(cache=True, nogil=True, error_model="numpy")
def divide(starts, places, a, doubt_a, b, doubt_b, least, known, numbers, mid, rad):
    """Quotients mid ± rad of a ± doubt (C, X) by b ± doubt (C, X), whose first are at least `least` (X,) in size."""
    slack, step, tiny = numbers
    grow, (size, series) = 1 + slack, mid.shape
    rest, doubt = np.empty((size, BLOCK)), np.empty((size, BLOCK))
    other, spread = np.empty((size, BLOCK)), np.empty((size, BLOCK))
    value, off = np.empty((size, BLOCK)), np.empty((size, BLOCK))
    for first in range(0, series, BLOCK):
        width = min(BLOCK, series - first)
        _fetch(a, first, width, rest)
        _fetch(doubt_a, first, width, doubt)
        _fetch(b, first, width, other)
        _fetch(doubt_b, first, width, spread)
        for k in range(size):
            for i in range(width):
                quotient = rest[k, i] / other[0, i]
                known_size = abs(quotient)
                value[k, i] = quotient
                error = (doubt[k, i] + known_size * spread[0, i] + tiny) / least[first + i] + step * known_size
                off[k, i] = error * grow + tiny
            begin, count = starts[k], min(known, starts[k + 1] - starts[k])
            for g in range(1, count):
                place = places[begin + g]
                for i in range(width):
                    known_size, across = abs(value[k, i]), abs(other[g, i])
                    left = rest[place, i] - value[k, i] * other[g, i]
                    rest[place, i] = left
                    error = known_size * spread[g, i] * grow + step * (known_size * across + abs(left))
                    doubt[place, i] += off[k, i] * ((across + spread[g, i]) * grow) + error
        _store(value, first, width, mid)
        _store(off, first, width, rad)


@njit(cache=True, nogil=True, error_model="numpy")
def exponential(starts, places, degrees, g, doubt_g, known, numbers, mid, rad):
    """Series mid ± rad of `e^{g - g_0}` from `|β| g_β` and its doubt, (C, X) each."""
    slack, tiny = numbers
    size, series = mid.shape
    step, doubt = np.empty((size, BLOCK)), np.empty((size, BLOCK))
    value, off = np.empty((size, BLOCK)), np.empty((size, BLOCK))
    for first in range(0, series, BLOCK):
        width = min(BLOCK, series - first)
        _fetch(g, first, width, step)
        _fetch(doubt_g, first, width, doubt)
        value[:], off[:] = 0.0, 0.0
        value[0] = 1.0
        for k in range(size):
            if k > 0:
                degree = degrees[k]
                grow = (1 + slack) / degree
                for i in range(width):
                    value[k, i] /= degree
                    off[k, i] = off[k, i] * grow + tiny
            begin, count = starts[k], min(known, starts[k + 1] - starts[k])
            for j in range(1, count):
                place = places[begin + j]
                for i in range(width):
                    own, reach = abs(value[k, i]), abs(step[j, i]) + doubt[j, i]
                    value[place, i] += value[k, i] * step[j, i]
                    off[place, i] += off[k, i] * reach + own * doubt[j, i] + slack * (own * reach)
        _store(value, first, width, mid)
        _store(off, first, width, rad)
