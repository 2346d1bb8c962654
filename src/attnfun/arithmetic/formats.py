"""The number formats a network can be deployed in: one record each, which everything that depends on the format reads.

NumPy has no bfloat16: its numbers are float32 numbers with 8 significant bits, so such networks are held and run in
float32 here, with every weight rounded to bfloat16.
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
    """A floating-point format and what is assumed of the kernels that run in it."""

    name: str
    bits: int
    """Significant bits of numbers given in this format."""
    unit: float
    """Unit roundoff u of sums."""
    store: float
    """Unit roundoff of results as they are stored, where that is coarser than sums; 0 where it is the same."""
    exp_error: float
    """Relative error of exp in the kernels we know (streaming kernels use a 20-ulp exp in float32)."""
    tiny: float
    """Numbers below this may be flushed to zero."""
    largest: float
    """The largest finite number; no number that a network computes may exceed it [T 10.4]."""
    held: str
    """The NumPy format that holds its numbers exactly, and in which NumPy computes with them."""

    @property
    def grain(self) -> float:
        """Unit roundoff of numbers given in this format."""
        return max(self.unit, self.store)

    @property
    def assumption(self) -> str:
        """What the rounding part takes for granted about the machine that runs the network."""
        sums = self.held if self.store else self.name
        return (
            f"the kernel's exp is within {self.exp_error / self.unit:.0f} units of roundoff, sums use {sums} "
            f"throughout (no TF32 or half sums), and blocks hold at least {FLASH_BLOCK} keys"
        )


_U64, _U32, _U16 = 2.0**-53, 2.0**-24, 2.0**-8
FORMATS = {
    each.name: each
    for each in (
        Format("float64", 53, _U64, 0.0, 16 * _U64, 2.0**-1020, (2 - 2.0**-52) * 2.0**1023, "float64"),
        Format("float32", 24, _U32, 0.0, 40 * _U32, 2.0**-125, (2 - 2.0**-23) * 2.0**127, "float32"),
        Format("bfloat16", 8, _U32, _U16, 40 * _U32, 2.0**-125, (2 - 2.0**-7) * 2.0**127, "float32"),
    )
}
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
    """The nearest numbers of `dtype`, ties to even, as float64.

    >>> round_to([1.0, 1.0 + 2.0**-8, 3.14159], "bfloat16")
    array([1.      , 1.      , 3.140625])
    """
    with np.errstate(over="ignore"):
        held = np.asarray(numbers, dtype=np.float64).astype(held_in(dtype))
    if dtype == "bfloat16":
        bits = held.view(np.uint32)
        bits = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
        held = (bits & np.uint32(0xFFFF0000)).view(np.float32)
    return held.astype(np.float64)
