"""How large the numbers in a network can get on its domain."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..domains.box import Box
from ..network import Affine, Attention, Network

Floats = npt.NDArray[np.float64]


def largest_numbers(network: Network, domain: Box) -> tuple[float, float]:
    """Bounds on the largest score and the largest value in any head, from the sizes of queries, keys and values."""
    size = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).reshape(network.shape_in)  # (n, d)
    logit = value = 0.0
    for layer in network.layers:
        if isinstance(layer, Affine):
            left = np.eye(len(size))[None] if layer.left is None else np.abs(layer.left)
            size = np.einsum("kNn,nd,kdm->Nm", left, size, np.abs(layer.right)) + np.abs(layer.constant)
        elif isinstance(layer, Attention):
            tokens = np.vstack([np.abs(layer.memory), size]) if layer.attends_data else np.abs(layer.memory)
            out = np.abs(layer.output_bias) + (size if layer.residual else 0.0)
            for head in range(layer.heads):
                q = size @ np.abs(layer.query[head]) + np.abs(layer.query_bias[head])  # (n, k)
                k = tokens @ np.abs(layer.key[head]) + np.abs(layer.key_bias[head])  # (T, k)
                v = tokens @ np.abs(layer.value[head]) + np.abs(layer.value_bias[head])  # (T, v)
                logit, value = max(logit, float((q @ k.T).max())), max(value, float(v.max()))
                out = out + v.max(axis=0) @ np.abs(layer.output[head])
            size = np.broadcast_to(out, (len(size), layer.width_out))
        else:
            size = np.ones_like(size)
    return logit, value
