"""What rounding will cost, about, before a proof says so exactly: `certificates/rounding.py` at single points.

Weights computed from scores of size L are off by about `(e + 8 L) u` of themselves, e for the exponential; the output
then moves by that times the average distance of the values from it; and sums over K tokens round too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LIGHT = 1e-9
"""Weights below this do not count."""


@dataclass(frozen=True)
class Costs:
    """Roundings that count in one arithmetic, in its unit."""

    unit: float
    exponential: float
    score: float
    """For each unit of the products that make up a score."""
    term: float
    """For each token of a sum."""
    result: float

    def of(self, weights: Floats, sizes: Floats, values: Floats) -> Floats:
        """Expected errors (S,) of heads with weights (S, N), sizes of scores (S, N) and values (N, C); O(S N C)."""
        heavy = weights > LIGHT
        relative = self.exponential + self.score * np.where(heavy, sizes, 0.0).max(axis=1)  # (S,)
        output = weights @ values  # (S, C)
        spread = np.stack(
            [(weights * np.abs(v - y[:, None])).sum(axis=1) for v, y in zip(values.T, output.T, strict=True)]
        )
        spread, size = spread.max(axis=0), np.abs(output).max(axis=1)  # (S,)
        return self.unit * (relative * spread + (self.term * heavy.sum(axis=1) + self.result) * (size + spread))


COSTS = {
    "float64": Costs(2.0**-53, exponential=16, score=8, term=2, result=6),
    "float32": Costs(2.0**-24, exponential=40, score=8, term=2, result=6),
    "bfloat16": Costs(2.0**-8, exponential=0, score=7, term=0, result=5),
}
