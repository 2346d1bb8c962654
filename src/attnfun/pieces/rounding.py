"""What rounding will cost, about, before a proof says so exactly: `arithmetic/rounding.py` at single points.

A weight is off by as many units of roundoff as its score's roundings and its exponential add up to; the output then
moves by the average of that times the distance of the values from it; and each token whose weight can be seen costs two
roundings of sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Costs:
    """Roundings that count in one arithmetic, in its unit."""

    unit: float
    exponential: float
    score: float
    """For each unit of a score's roundings."""
    term: float
    """For each token of a sum."""
    result: float

    def of(self, weights: Floats, roundings: Floats, values: Floats) -> Floats:
        """Expected errors (S,) of heads with weights (S, N), roundings of scores (S, N), values (N, C); O(S N C)."""
        heavy = weights > self.unit
        moved = weights * (self.exponential + self.score * roundings)  # (S, N)
        output = weights @ values  # (S, C)
        apart = [np.abs(v - y[:, None]) for v, y in zip(values.T, output.T, strict=True)]  # C of (S, N)
        drawn = np.stack([(moved * far).sum(axis=1) for far in apart]).max(axis=0)  # (S,)
        size = np.abs(output).max(axis=1) + np.stack([(weights * far).sum(axis=1) for far in apart]).max(axis=0)
        return self.unit * (drawn + (self.term * heavy.sum(axis=1) + self.result) * size)


COSTS = {
    "float64": Costs(2.0**-53, exponential=16, score=1, term=2, result=3),
    "float32": Costs(2.0**-24, exponential=40, score=1, term=2, result=3),
    "bfloat16": Costs(2.0**-8, exponential=0, score=3, term=0, result=5),
}
