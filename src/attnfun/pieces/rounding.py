"""What rounding will cost, about, before a proof says so exactly: `arithmetic/rounding.py` at single points.

A weight is off by as many units of roundoff as its score's roundings and its exponential add up to; the output then
moves by the average of that times the distance of the values from it; and each token whose weight can be seen costs two
roundings of sums. Where a coarser format is stored, only what is stored counts: coordinates, scores, weights, results.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arithmetic.formats import Format
from .tokens import Tokens

Floats = npt.NDArray[np.float64]

LEVELS = 9
"""Constants that are tried."""
RESULT = 3
"""Roundings of a result: a reciprocal, a product, and one to spare; or weights, the average and one to spare."""


def rounding_cost(tokens: Tokens, points: Floats, weights: Floats, values: Floats, format_: Format) -> Floats:
    """Expected errors (S,) of a head at points (S, r), with weights (S, N) there and values (N, C); O(S N C)."""
    unit = format_.grain
    moved = weights * (
        _stored(tokens, points, weights) if format_.store else _summed(tokens, points, format_)
    )  # (S, N)
    output = weights @ values  # (S, C)
    apart = [np.abs(v - y[:, None]) for v, y in zip(values.T, output.T, strict=True)]  # C of (S, N)
    drawn = np.stack([(moved * far).sum(axis=1) for far in apart]).max(axis=0)  # (S,)
    size = np.abs(output).max(axis=1) + np.stack([(weights * far).sum(axis=1) for far in apart]).max(axis=0)
    sums = 0 if format_.store else 2 * (weights > unit).sum(axis=1)
    with np.errstate(over="ignore"):  # what overflows is too much
        return unit * (drawn + (sums + RESULT) * size)


def _summed(tokens: Tokens, points: Floats, format_: Format) -> Floats:
    """Units of roundoff that weights are off by sums, (S, N).

    The coordinate, the product and the sum round `a u`; the offset only the sum.
    """
    return format_.exp_units + 3 * np.abs(points) @ np.abs(tokens.slopes.T) + np.abs(tokens.offsets)


def _stored(tokens: Tokens, points: Floats, weights: Floats) -> Floats:
    """The same where scores and coordinates are stored, (S, N).

    A rounded coordinate moves all scores together, but for the differences of their slopes. Scores are levelled
    (`levelled`).
    """
    scores, mean = tokens.scores(points), weights @ tokens.slopes  # (S, N), (S, r)
    level = _level(scores, weights)
    by_coordinates = np.abs(tokens.slopes - mean[:, None]) @ np.abs(points)[..., None]  # (S, N, 1)
    return np.abs(scores - level) + by_coordinates[..., 0]


def _level(scores: Floats, weights: Floats) -> float:
    """The constant, taken off scores (S, N), with which errors relative to scores move weights least."""
    largest, undecided = scores.max(axis=1), weights * (1 - weights)  # (S,), (S, N): a token alone is not moved
    tried = [0.0, *np.linspace(largest.min(), largest.max(), LEVELS)]
    return float(min(tried, key=lambda level: (undecided * np.abs(scores - level)).sum(axis=1).max()))


def levelled(tokens: Tokens, points: Floats) -> Tokens:
    """The same weights, with scores that are as small as a common constant makes them where they matter, (S, r).

    A stored score is off by a share of its own size.
    """
    return Tokens(tokens.slopes, tokens.offsets - _level(tokens.scores(points), tokens.weights(points)))
