"""What a framework computes in its number format, beside what the operation is in real arithmetic [T 12.6].

The model: every operation of the graph is computed in the format, sums in any order, with or without fused products,
elementary functions within so many units of roundoff, attention in one piece or streamed in blocks. Results are
rounded once an operation or less often. Each function here bounds how far the computed number is from the operation
applied to the computed arguments. Where something may overflow, or has too many roundings for the lemmas, the bound is
infinite. `None` in place of a format is real arithmetic: nothing is off.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import rounded_up
from ..arithmetic.formats import FORMATS, Format, round_to
from ..arithmetic.rounding import OWN, SPARE, all_orders, normalised_error, softmax_error, storage_error, with_sum

Floats = npt.NDArray[np.float64]
ARITHMETICS = tuple(name for name, each in FORMATS.items() if not each.store)
"""Formats whose kernels add in the format itself."""


@dataclass(frozen=True)
class Machine:
    """The arithmetic that a network runs in; real arithmetic without a format."""

    format: Format | None

    @classmethod
    def of(cls, dtype: str | None) -> Machine:
        """By the name of the number format; None for real arithmetic."""
        return cls(None if dtype is None else FORMATS[dtype])

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What is taken for granted about the machine."""
        if self.format is None:
            return ()
        functions = "elementary functions, quotients and roots"
        return (self.format.assumption, f"{functions} are within {self.format.exp_units} units of roundoff")

    def entered(self, lo: Floats, hi: Floats) -> tuple[Floats, Floats, Floats]:
        """Inputs in [lo, hi] rounded to the format: how far off, and the ends of the rounded ones."""
        if self.format is None:
            return np.zeros_like(lo), lo, hi
        off = storage_error(np.maximum(np.abs(lo), np.abs(hi)), self.format)
        ends = (round_to(end, self.format.name) for end in (lo, hi))
        low, high = (np.where(np.abs(end) < self.format.normal, 0.0, end) for end in ends)
        return off, np.minimum(low, lo), np.maximum(high, hi)

    def summed(self, size: Floats, terms: int) -> Floats:
        """Off by, where so many products or numbers of absolute values `size` altogether are added."""
        if self.format is None:
            return np.zeros_like(size)
        nothing = np.zeros((*size.shape, 2))
        with np.errstate(invalid="ignore", over="ignore"):
            off = with_sum(nothing, size, np.full(size.shape, terms + SPARE), self.format)[..., OWN]
            return self._finite(off, size)

    def rounded(self, size: Floats, units: float = 1.0) -> Floats:
        """Off by so many units of roundoff of numbers of this size."""
        if self.format is None:
            return np.zeros_like(size)
        with np.errstate(invalid="ignore", over="ignore"):
            off = all_orders(units * self.format.unit * size) + 2 * self.format.tiny
            return self._finite(rounded_up(off, 4), size)

    def function(self, scale: Floats) -> Floats:
        """Off by, where an elementary function is computed relative to numbers of this size."""
        units = 1.0 if self.format is None else self.format.exp_units + SPARE
        return self.rounded(scale, units)

    def weights(self, behind: Floats, weight: Floats) -> Floats:
        """Off by, for softmax weights (.., n) of tokens that are at most `behind` the largest score [T 12.6]."""
        if self.format is None:
            return np.zeros_like(weight)
        return softmax_error(behind, weight, self.format)

    def normalised(self, magnitude: Floats, squares: Floats, least: Floats, result: Floats, count: int) -> Floats:
        """Off by, for `(x - mean)/sqrt(var + epsilon)` over `count` numbers of at most this magnitude [T 12.6].

        `squares` bounds the mean of squares, `least` is a lower bound on var + epsilon, `result` bounds the results.
        """
        if self.format is None:
            return np.zeros_like(result)
        off = normalised_error(magnitude, squares, least, result, count, self.format)
        return self._finite(off, np.maximum(squares * count, result))

    def _finite(self, off: Floats, size: Floats) -> Floats:
        """Infinite where numbers of this size may overflow, or are not known."""
        assert self.format is not None  # noqa: S101 - callers have one
        return np.where(np.isnan(off) | ~(size <= self.format.largest / 2), np.inf, off)
