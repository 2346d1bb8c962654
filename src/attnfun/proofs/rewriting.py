"""Equal networks in a form that proofs follow more closely.

A softmax over N features with a linear map behind it averages the rows of that map: it is one head of cross-attention
with N memory tokens. If the scores come from an attention layer's output map, `s = y W + b` with y the concatenated
heads, then the query is `(y, 1)` and the key of token j is `(W_j, b_j)`. The same sums, so the same rounding errors:
scores are sums of as many products, and the weights are divided by their sum before the average instead of after it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..network import Affine, Attention, Network, Softmax
from ..network.layers import Layer
from ..network.memory_rows import with_memory


def with_banks(network: Network) -> Network:
    """The network with every attention, softmax, affine in a row written as two attention layers.

    Constant rows that only serve as keys are memory tokens [T 11.16].
    """
    network = with_memory(network)
    layers, rest = list[Layer](), list(network.layers)
    while rest:
        match rest:
            case [Attention(residual=False) as scores, Softmax(), Affine() as values, *after] if len(values.right) == 1:
                layers += _as_bank(scores, values)
                rest = after
            case [layer, *after]:
                layers.append(layer)
                rest = after
    return replace(network, layers=tuple(layers))


def _as_bank(scores: Attention, values: Affine) -> list[Layer]:
    heads, width, count = scores.output.shape
    size, outputs = heads * width, values.width_out
    joined = np.eye(size).reshape(heads, width, size)
    keys = np.vstack([scores.output.reshape(size, count), scores.output_bias]).T  # (N, size + 1)
    memory = np.hstack([keys, values.right[0]])  # (N, size + 1 + m)
    bank = Attention.of(
        query=np.eye(size, size + 1)[None],
        query_bias=np.eye(1, size + 1, size),
        key=np.eye(size + 1 + outputs, size + 1)[None],
        value=np.eye(size + 1 + outputs, outputs, -(size + 1))[None],
        output=np.eye(outputs)[None],
        memory=memory,
    )
    behind = Affine(np.eye(outputs)[None], values.constant, values.left)
    return [replace(scores, output=joined, output_bias=np.zeros(size)), bank, behind]
