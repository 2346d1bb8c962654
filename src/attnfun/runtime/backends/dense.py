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
from ...network import Affine, Attention, Network, Softmax
from ...network.two_inputs import separated

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


@dataclass(frozen=True, eq=False)
class CrossKeys:
    """Cross-attention in which a second input K makes the keys: t_j of `Separated`, and the layer that it completes."""

    features: Affine
    sums: Array  # (s, M)
    layer: Attention

    @property
    def width_out(self) -> int:
        """Features of a token that comes out."""
        return self.layer.width_out

    def length_out(self, length_in: int) -> int:
        """Tokens that come out."""
        return length_in


@dataclass(frozen=True, eq=False)
class Emitted:
    """A network as it is emitted: the sequence that goes in, and its layers, of which one may take a second input."""

    shape_in: tuple[int, int]
    layers: tuple[Affine | Attention | Softmax | CrossKeys, ...]


def emitted(network: Network, second_shape: tuple[int, ...] | None) -> Emitted:
    """All layers written out, and the two inputs apart where there are two."""
    network = network.dense()
    if second_shape is None:
        return Emitted(network.shape_in, network.layers)  # type: ignore[arg-type] - factored ones are gone
    apart = separated(network)
    keys = CrossKeys(apart.key_features, apart.sums, apart.layer)
    return Emitted((1, apart.first_size), (apart.query_rows, keys, *apart.after))  # type: ignore[arg-type]


def written_out(
    target: str,
    network: Network,
    form: Emitted,
    layers: Iterable[tuple[dict[str, Any], dict[str, Planned]]],
    point_shape: tuple[int, ...],
    value_shape: tuple[int, ...],
    second_shape: tuple[int, ...] | None,
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """What `standalone` files need to know, and the weights by name, from those of each layer; refused if too large."""
    parts = list(layers)
    weights = {f"layers.{n}.{name}": weight for n, (_, named) in enumerate(parts) for name, weight in named.items()}
    check_size(target, weights.values(), network.dtype)
    shapes = {"shape_in": form.shape_in, "point_shape": point_shape, "value_shape": value_shape}
    two = {} if second_shape is None else {"second_shape": second_shape}
    description = {"layers": [layer for layer, _ in parts], "dtype": network.dtype, **shapes, **two}
    return description, {name: weight.make() for name, weight in weights.items()}


def check_size(target: str, weights: Iterable[Planned], dtype: str) -> None:
    """Refuse an export that is too large before any of it is made."""
    size = sum(prod(weight.shape) for weight in weights) * np.dtype(held_in(dtype)).itemsize
    if size > LARGEST:
        raise InputError(
            f"the weights of an export to {target} must take at most {LARGEST:,} bytes in their dense form",
            got=f"{size:,} bytes",
            remedy="Compile with a larger eps, in float32, or for fewer tokens; `save` keeps the compact form.",
        )
