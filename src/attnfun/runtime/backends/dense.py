"""What exports have in common: weights in the dense form that frameworks want, and a limit on their size."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ...arithmetic.formats import held_in
from ...errors import InputError
from ...network import Affine, Network

Array = npt.NDArray[Any]

LARGEST = 2_000_000_000
"""Bytes of weights in one export. The encoding of ONNX ends at 2 GiB, and the description needs some room."""


@dataclass(frozen=True)
class Planned:
    """A weight whose size is known before it is made."""

    shape: tuple[int, ...]
    make: Callable[[], Array]


def planned(array: Array) -> Planned:
    """A weight that is there already."""
    return Planned(array.shape, lambda: array)


def mixing(layer: Affine) -> Planned:
    """An affine map that mixes tokens, `Σ_k A_k X B_k`, as one matrix from vec(X) to vec(Z), (n*d, N*m)."""
    assert layer.left is not None  # noqa: S101 - for the type checker
    left, right = layer.left, layer.right
    shape = (left.shape[2] * right.shape[1], left.shape[1] * right.shape[2])
    return Planned(shape, lambda: np.einsum("kNn,kdm->ndNm", left, right).reshape(shape))


def describe(
    network: Network, layers: list[dict[str, Any]], point_shape: tuple[int, ...], value_shape: tuple[int, ...]
) -> dict[str, Any]:
    """What `standalone` files need to know beside the weights."""
    shapes = {"shape_in": network.shape_in, "point_shape": point_shape, "value_shape": value_shape}
    return {"layers": layers, "dtype": network.dtype, **shapes}


def check_size(target: str, weights: Iterable[Planned], dtype: str) -> None:
    """Refuse an export that is too large before any of it is made."""
    size = sum(prod(weight.shape) for weight in weights) * np.dtype(held_in(dtype)).itemsize
    if size > LARGEST:
        raise InputError(
            f"the weights of an export to {target} must take at most {LARGEST:,} bytes in their dense form",
            got=f"{size:,} bytes",
            remedy="Compile with a larger eps, in float32, or for fewer tokens; `save` keeps the compact form.",
        )
