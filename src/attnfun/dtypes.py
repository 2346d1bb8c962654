"""The number formats a network can be deployed in, as NumPy sees them.

NumPy has no bfloat16: its numbers are float32 numbers with 8 significant bits, so such networks are held and run in
float32 here, with every weight rounded to bfloat16.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .errors import InputError, shown

DTYPES = ("float64", "float32", "bfloat16")
BITS = {"float64": 53, "float32": 24, "bfloat16": 8}
"""Significant bits."""


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
    return "float32" if dtype == "bfloat16" else dtype


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
