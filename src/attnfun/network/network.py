"""A network: layers in order, the shape of the sequence that goes in, and the arithmetic it is deployed in."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..arithmetic.formats import DTYPES, FORMATS, round_to
from ..errors import InputError, counted
from .layers import Affine, Attention, FactoredAttention, Layer


@dataclass(frozen=True, eq=False)
class Network:
    """An attention-only network from sequences (n, d) to sequences (n', d').

    Weights are held as float64 and are exactly representable in `dtype`. A network whose `length` is None takes
    sequences of any length; its affine maps act on each token alone.
    """

    layers: tuple[Layer, ...]
    length: int | None
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
        if self.length is None and any(isinstance(layer, Affine) and layer.left is not None for layer in self.layers):
            raise InputError(
                "a network for any length must act on each token alone", got="an affine map that mixes tokens"
            )

    @property
    def rows(self) -> int:
        """The length n; an error for a network that takes any length."""
        if self.length is None:
            raise InputError("the network must be for sequences of one length", got="a network for any length")
        return self.length

    @property
    def width_in(self) -> int:
        """Features d of a token that goes in."""
        return self.layers[0].width_in

    @property
    def width_out(self) -> int:
        """Features d' of a token that comes out."""
        return self.layers[-1].width_out

    @property
    def shape_in(self) -> tuple[int, int]:
        """(n, d)."""
        return self.rows, self.width_in

    @property
    def shape_out(self) -> tuple[int, int]:
        """(n', d')."""
        length = self.rows
        for layer in self.layers:
            length = layer.length_out(length)
        return length, self.width_out

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
    def keyed(self) -> bool:
        """Does a second input make the keys of a layer?"""
        return any(layer.keyed for layer in self.attention)

    @property
    def heads(self) -> int:
        """Heads over all layers."""
        return sum(layer.heads for layer in self.layers if isinstance(layer, Attention | FactoredAttention))

    @property
    def tokens(self) -> int:
        """Memory keys over all heads and layers."""
        return sum(layer.tokens for layer in self.layers if isinstance(layer, Attention | FactoredAttention))

    @property
    def parameters(self) -> int:
        """Stored numbers over all layers."""
        return sum(layer.parameters for layer in self.layers)

    def dense(self) -> Network:
        """The network with factored attention written out; itself where there is none."""
        if not any(isinstance(layer, FactoredAttention) for layer in self.layers):
            return self
        layers = (layer.dense() if isinstance(layer, FactoredAttention) else layer for layer in self.layers)
        return replace(self, layers=tuple(layers))

    def __repr__(self) -> str:
        ends = (
            [("any", self.width_in), ("any", self.width_out)]
            if self.length is None
            else [self.shape_in, self.shape_out]
        )
        shapes = " -> ".join(f"({length}, {width})" for length, width in ends)
        layers, heads = counted(len(self.layers), "layer"), counted(self.heads, "head")
        return f"Network({shapes}, {layers}, {heads}, {counted(self.tokens, 'token')}, {self.dtype})"


def on_each_token(network: Network, length: int | None) -> Network | None:
    """A network for one token, applied to each of `length` tokens alike; None if it mixes tokens.

    The operations on a token are the same, on the same numbers.
    """
    layers: list[Layer] = []
    for layer in network.layers:
        left = layer.left if isinstance(layer, Affine) else None
        mixes = left is not None and not np.array_equal(left, np.ones((1, 1, 1)))
        if mixes or (isinstance(layer, Attention) and layer.attends_data):
            return None
        if isinstance(layer, Affine) and left is not None:
            layer = Affine(layer.right, layer.constant)
        layers.append(layer)
    return replace(network, layers=tuple(layers), length=length)


def rounded(layer: Layer, dtype: str) -> Layer:
    """The layer with every weight rounded to `dtype`; a weight that overflows is an error."""
    if not FORMATS[dtype].coarse:
        return layer
    changed: dict[str, Any] = {}
    for field in fields(layer):
        value = getattr(layer, field.name)
        if isinstance(value, np.ndarray):
            changed[field.name] = round_to(value, dtype)
    return replace(layer, **changed)
