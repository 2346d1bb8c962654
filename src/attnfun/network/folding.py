"""A network with one attention layer as that layer alone: affine maps before and behind it become part of its weights.

In real arithmetic both are one function. The weights are rounded anew and the sums are others, so what is proved about
the one says nothing about the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError
from .layers import Affine, Attention, Floats, Layer
from .network import Network, on_each_token, rounded


def folded(network: Network) -> Network:
    """The network as a single layer of attention to memory, without a residual connection; an error if it is none."""
    alone = on_each_token(network.dense(), network.length)
    if alone is None:
        raise _refusal("layers that mix tokens")
    layers = alone.layers
    place = [number for number, layer in enumerate(layers) if isinstance(layer, Attention)]
    before, after = (layers[: place[0]], layers[place[0] + 1 :]) if place else ((), ())
    if len(place) != 1 or not all(isinstance(layer, Affine) for layer in (*before, *after)):
        raise _refusal(f"{len(place)} attention layers, {len(layers)} layers in all")
    layer = layers[place[0]]
    assert isinstance(layer, Attention)  # noqa: S101 - for the type checker
    (into, start), (out, end) = _joined(before, network.width_in), _joined(after, layer.width_out)
    end = layer.output_bias @ out + end
    if layer.residual:
        if (into @ out).any():
            raise _refusal("an affine function of the input beside it")
        end = start @ out + end
    one = replace(
        layer,
        query=into @ layer.query,  # (H, d, k)
        query_bias=start @ layer.query + layer.query_bias,
        output=layer.output @ out,  # (H, v, o)
        output_bias=end,
        residual=False,
        keyed=(),
    )
    return replace(network, layers=(rounded(one, network.dtype),))


def _joined(maps: Sequence[Layer], width: int) -> tuple[Floats, Floats]:
    """Affine maps of tokens, one after the other, as one: a matrix and a constant."""
    weight, bias = np.eye(width), np.zeros(width)
    for layer in maps:
        assert isinstance(layer, Affine)  # noqa: S101 - for the type checker
        weight, bias = weight @ layer.right[0], bias @ layer.right[0] + layer.constant[0]
    return weight, bias


def _refusal(got: str) -> InputError:
    return InputError(
        "a network in one attention layer must have one layer of attention to memory",
        got=got,
        remedy='Compile with construction="spectral" or "cross".',
    )
