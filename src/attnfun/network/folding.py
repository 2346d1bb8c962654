"""A network with one attention layer as that layer alone: affine maps before and behind it become part of its weights.

In real arithmetic both are one function. The weights are rounded anew and the sums are others, so what is proved about
the one says nothing about the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..errors import InputError
from .layers import Affine, Attention, Floats
from .network import Network, on_each_token, rounded


def folded(network: Network) -> Network:
    """The network as a single layer of attention to memory, without a residual connection; an error if it is none."""
    alone = on_each_token(network.dense(), network.length)
    if alone is None:
        raise _refusal("layers that mix tokens")
    layers = alone.layers
    attention = [(number, layer) for number, layer in enumerate(layers) if isinstance(layer, Attention)]
    maps = [layer for layer in layers if isinstance(layer, Affine)]
    if len(attention) != 1 or len(maps) + 1 != len(layers):
        raise _refusal(f"{len(attention)} attention layers, {len(layers)} layers in all")
    (place, layer), *_ = attention
    (into, start), (out, end) = _joined(maps[:place], network.width_in), _joined(maps[place:], layer.width_out)
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


def _joined(maps: Sequence[Affine], width: int) -> tuple[Floats, Floats]:
    """Affine maps of tokens, one after the other, as one: a matrix and a constant."""
    weight, bias = np.eye(width), np.zeros(width)
    for layer in maps:
        weight, bias = weight @ layer.right[0], bias @ layer.right[0] + layer.constant[0]
    return weight, bias


def _refusal(got: str) -> InputError:
    return InputError(
        "af.init_ needs a network with one attention layer, which attends to memory tokens alone",
        got=got,
        remedy='Compile with construction="spectral" or "cross".',
    )
