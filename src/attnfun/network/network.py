"""A network: layers in order, the shape of the sequence that goes in, and the arithmetic it is deployed in."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..dtypes import DTYPES, round_to
from ..errors import InputError
from .layers import Affine, Attention, Layer


@dataclass(frozen=True, eq=False)
class Network:
    """An attention-only network from sequences (n, d) to sequences (n', d').

    Weights are held as float64 and are exactly representable in `dtype`.
    """

    layers: tuple[Layer, ...]
    length: int
    dtype: str = "float64"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise InputError(f"dtype must be one of {', '.join(DTYPES)}", got=repr(self.dtype))
        if not self.layers:
            raise InputError("a network needs at least one layer", got=0)
        for before, after in zip(self.layers, self.layers[1:], strict=False):
            if before.width_out != after.width_in:
                raise InputError(
                    f"a {after.kind} layer of width {after.width_in} must follow a layer of that width",
                    got=before.width_out,
                )

    @property
    def shape_in(self) -> tuple[int, int]:
        """(n, d)."""
        return self.length, self.layers[0].width_in

    @property
    def shape_out(self) -> tuple[int, int]:
        """(n', d')."""
        length = self.length
        for layer in self.layers:
            length = layer.length_out(length)
        return length, self.layers[-1].width_out

    @property
    def attention(self) -> tuple[Attention, ...]:
        """The attention layers."""
        return tuple(layer for layer in self.layers if isinstance(layer, Attention))

    @property
    def is_shallow(self) -> bool:
        """Is at most one layer not affine, attention to memory only? Then scores are affine in the input."""
        others = [layer for layer in self.layers if not isinstance(layer, Affine)]
        return len(others) <= 1 and all(isinstance(layer, Attention) and not layer.attends_data for layer in others)

    @property
    def heads(self) -> int:
        """Heads over all layers."""
        return sum(layer.heads for layer in self.attention)

    @property
    def tokens(self) -> int:
        """Memory keys over all heads and layers."""
        return sum(layer.tokens for layer in self.attention)

    @property
    def parameters(self) -> int:
        """Stored numbers over all layers."""
        return sum(layer.parameters for layer in self.layers)

    def __repr__(self) -> str:
        return (
            f"Network({self.shape_in} -> {self.shape_out}, {len(self.layers)} layers, "
            f"{self.heads} heads, {self.tokens} tokens, {self.dtype})"
        )


def rounded(layer: Layer, dtype: str) -> Layer:
    """The layer with every weight rounded to `dtype`; a weight that overflows is an error."""
    changed: dict[str, Any] = {}
    for field in fields(layer):
        value = getattr(layer, field.name)
        if isinstance(value, np.ndarray):
            changed[field.name] = round_to(value, dtype)
    return replace(layer, **changed)
