"""The number formats that a network can be deployed in, and what is assumed of the kernels that compute in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from flint import arb

from .ranges import ZERO

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Format:
    """A number format, and what is assumed of the kernels that compute in it."""

    bits: int
    least: float
    """The smallest positive number."""
    largest: float
    exp_units: int
    """Error of exp, in units of the roundoff of sums."""
    sums: str = ""
    """The finer format in which kernels add, if any."""
    keeps_subnormal: bool = False

    @property
    def held(self) -> str:
        """The format of NumPy that holds its numbers exactly."""
        return "float64" if self.bits > FORMATS["float32"].bits else "float32"

    @property
    def grain(self) -> arb:
        """Unit roundoff of numbers in this format."""
        return arb(2.0**-self.bits)

    @property
    def added(self) -> Format:
        """The format of sums."""
        return FORMATS[self.sums] if self.sums else self

    @cached_property
    def half(self) -> arb:
        """Half of the largest number."""
        return arb(self.largest) / 2

    @cached_property
    def unit(self) -> arb:
        """Unit roundoff u of sums."""
        return self.added.grain

    @cached_property
    def store(self) -> arb:
        """Unit roundoff of what is stored, where that is coarser than sums; else 0."""
        return self.grain if self.sums else ZERO

    @cached_property
    def lost(self) -> arb:
        """Absolute error of a rounding near zero: numbers that are not normal may be taken for zero."""
        return arb(self.least) / 2 if self.keeps_subnormal else arb(self.least) * arb(2) ** self.bits

    @cached_property
    def tiny(self) -> arb:
        """The same in a sum."""
        return self.added.lost

    @cached_property
    def exp_error(self) -> arb:
        """Relative error of exp."""
        return self.exp_units * self.unit


FORMATS = {
    "float64": Format(53, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, 16),
    "float32": Format(24, 2.0**-149, (2 - 2.0**-23) * 2.0**127, 40),
    "bfloat16": Format(8, 2.0**-133, (2 - 2.0**-7) * 2.0**127, 40, "float32"),
    "float16": Format(11, 2.0**-24, (2 - 2.0**-10) * 2.0**15, 40, "float32", keeps_subnormal=True),
}


def rounded(numbers: Floats, dtype: str) -> Floats:
    """The nearest numbers of a format, ties to even; infinite beyond the largest."""
    format_ = FORMATS[dtype]
    if format_.held == dtype:
        with np.errstate(over="ignore"):
            return numbers.astype(dtype).astype(np.float64)
    step = np.maximum(np.ldexp(1.0, np.frexp(numbers)[1] - format_.bits), format_.least)
    nearest = np.rint(numbers / step) * step
    return np.where(np.abs(nearest) > format_.largest, np.copysign(np.inf, numbers), nearest)
