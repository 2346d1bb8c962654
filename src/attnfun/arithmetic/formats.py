"""The number formats a network can be deployed in: one record each, which everything that depends on the format reads.

Networks in bfloat16 and float16 are held and run in float32 here, which holds their numbers exactly, with every weight
and every input rounded to the format.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError, shown

FLASH_BLOCK = 512
"""Keys in a block of a streaming kernel, at least."""


@dataclass(frozen=True)
class Format:
    """A floating-point format and what is assumed of the kernels that run in it.

    Kernels add in the format itself, or in a finer one, `sums`; then they round what they store: projections, scores,
    weights and results.
    """

    name: str
    bits: int
    """Significant bits of its numbers."""
    least: float
    """The smallest positive number, a subnormal one."""
    largest: float
    """The largest finite number; no number that a network stores may exceed it [T 10.4]."""
    held: str
    """The NumPy format that holds its numbers exactly, and in which NumPy computes with them."""
    exp_units: int
    """Error of the exponential in the kernels we know, in units of the roundoff of sums (streaming kernels use one of
    20 units in the last place in float32)."""
    sums: Format | None = None
    """The finer format that kernels add in, if any."""
    keeps_subnormal: bool = False
    """Do kernels round to subnormal numbers instead of flushing them?"""

    @property
    def normal(self) -> float:
        """The smallest normal number."""
        return self.least * 2.0 ** (self.bits - 1)

    @property
    def lost(self) -> float:
        """Absolute error of a rounding near zero, beside the relative one.

        Half of the smallest number where subnormal numbers are kept. Elsewhere an operation may take its operands and
        its result for zero if they are not normal.
        """
        return self.least / 2 if self.keeps_subnormal else 2 * self.normal

    @property
    def grain(self) -> float:
        """Unit roundoff of numbers given in this format."""
        return 2.0**-self.bits

    @property
    def coarse(self) -> bool:
        """Is it coarser than the float64 in which points are given and proofs are computed?"""
        return self.bits < np.finfo(np.float64).nmant + 1

    @property
    def unit(self) -> float:
        """Unit roundoff u of sums."""
        return self.grain if self.sums is None else self.sums.grain

    @property
    def store(self) -> float:
        """Unit roundoff of results as they are stored, where that is coarser than sums; 0 where it is the same."""
        return 0.0 if self.sums is None else self.grain

    @property
    def tiny(self) -> float:
        """Absolute error of a rounding in a sum."""
        return self.lost if self.sums is None else self.sums.lost

    @property
    def largest_sum(self) -> float:
        """The largest finite number of the format that kernels add in."""
        return self.largest if self.sums is None else self.sums.largest

    @property
    def exp_error(self) -> float:
        """Relative error of exp."""
        return self.exp_units * self.unit

    @property
    def assumption(self) -> str:
        """What the rounding part takes for granted about the machine that runs the network."""
        sums, kept = self.name if self.sums is None else self.sums.name, ""
        if self.keeps_subnormal:
            kept = f", {self.name} numbers below {self.normal:.3g} are not flushed to zero"
        return (
            f"the kernel's exp is within {self.exp_units} units of roundoff, sums use {sums} "
            f"throughout (no TF32 or half sums){kept}, and blocks hold at least {FLASH_BLOCK} keys"
        )


_FLOAT64 = Format("float64", 53, 2.0**-1074, (2 - 2.0**-52) * 2.0**1023, "float64", exp_units=16)
_FLOAT32 = Format("float32", 24, 2.0**-149, (2 - 2.0**-23) * 2.0**127, "float32", exp_units=40)
_BFLOAT16 = Format("bfloat16", 8, 2.0**-133, (2 - 2.0**-7) * 2.0**127, "float32", exp_units=40, sums=_FLOAT32)
_FLOAT16 = Format(
    "float16", 11, 2.0**-24, (2 - 2.0**-10) * 2.0**15, "float32", exp_units=40, sums=_FLOAT32, keeps_subnormal=True
)
FORMATS = {each.name: each for each in (_FLOAT64, _FLOAT32, _BFLOAT16, _FLOAT16)}
DTYPES = tuple(FORMATS)


def dtype_name(dtype: object, known: tuple[str, ...] = DTYPES) -> str:
    """The name of a number format, given by name or as the format of NumPy or PyTorch.

    >>> dtype_name("float64"), dtype_name(np.float32), dtype_name(np.dtype("float32"))
    ('float64', 'float32', 'float32')
    """
    plain = dtype.__name__ if isinstance(dtype, type) else dtype.name if isinstance(dtype, np.dtype) else dtype
    name = plain if isinstance(plain, str) else shown(plain).removeprefix("torch.")
    if name not in known:
        raise InputError(f"dtype must be one of {', '.join(known)}", got=shown(dtype), remedy='Write dtype="float64".')
    return name


def held_in(dtype: str) -> str:
    """The NumPy format that holds numbers of `dtype` exactly, and in which NumPy computes with them."""
    return FORMATS[dtype].held


def round_to(numbers: npt.ArrayLike, dtype: str) -> npt.NDArray[np.float64]:
    """The nearest numbers of `dtype`, ties to even, as float64; infinite beyond the largest.

    A number with exponent e is a multiple of `2^(e - bits)`, and of the smallest number, if it is one of the format.

    >>> round_to([1.0, 1.0 + 2.0**-8, 3.14159], "bfloat16")
    array([1.      , 1.      , 3.140625])
    >>> round_to([65519.0, 65520.0, 2.0**-25, 2.0**-24], "float16")
    array([6.55040000e+04,            inf, 0.00000000e+00, 5.96046448e-08])
    """
    form, exact = FORMATS[dtype], np.asarray(numbers, dtype=np.float64)
    if form.held == dtype:
        with np.errstate(over="ignore"):
            return exact.astype(dtype).astype(np.float64)
    step = np.maximum(np.ldexp(1.0, np.frexp(exact)[1] - form.bits), form.least)
    with np.errstate(invalid="ignore"):
        nearest = np.rint(exact / step) * step
    return np.where(np.abs(nearest) > form.largest, np.copysign(np.inf, exact), nearest)
