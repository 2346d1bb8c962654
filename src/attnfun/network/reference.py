"""What a network means: the formulas of `layers.py` in float64, as plainly as NumPy can say them.

This is the yardstick for back ends and certificates, not the way to evaluate a million points: it builds
the full matrix of weights. `runtime/backends/numpy.py` is the way to run.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from .layers import Affine, Attention, FactoredAttention, Floats, Softmax
from .network import Network


def run(network: Network, X: Floats) -> Floats:
    """Evaluate on sequences: (..., n, d) -> (..., n', d')."""
    for layer in network.layers:
        X = apply(layer, X)
    return X


@singledispatch
def apply(layer: object, X: Floats) -> Floats:
    """One layer on sequences (..., n, d)."""
    raise TypeError(f"no reference semantics for {type(layer).__name__}")


@apply.register
def _(layer: Affine, X: Floats) -> Floats:
    if layer.left is None:
        return X @ layer.right[0] + layer.constant  # (..., n, m)
    mix = np.einsum("kNn,kdm->ndNm", layer.left, layer.right).reshape(-1, layer.constant.size)  # (n*d, N*m)
    flat = X.reshape(*X.shape[:-2], -1) @ mix  # (..., N*m)
    return flat.reshape(*flat.shape[:-1], *layer.constant.shape) + layer.constant


@apply.register
def _(layer: Attention, X: Floats) -> Floats:
    memory = np.broadcast_to(layer.memory, (*X.shape[:-2], *layer.memory.shape))  # (..., M, e)
    tokens = np.concatenate([X, memory], axis=-2) if layer.attends_data else memory  # (..., T, e)
    q = np.einsum("...nd,hdk->...hnk", X, layer.query) + layer.query_bias[:, None]  # (..., H, n, k)
    k = np.einsum("...te,hek->...htk", tokens, layer.key) + layer.key_bias[:, None]  # (..., H, T, k)
    v = np.einsum("...te,hev->...htv", tokens, layer.value) + layer.value_bias[:, None]  # (..., H, T, v)
    y = softmax(q @ np.swapaxes(k, -1, -2)) @ v  # (..., H, n, v)
    out = np.einsum("...hnv,hvo->...no", y, layer.output) + layer.output_bias  # (..., n, o)
    return X + out if layer.residual else out


@apply.register
def _(layer: FactoredAttention, X: Floats) -> Floats:
    return apply(layer.dense(), X)


@apply.register
def _(layer: Softmax, X: Floats) -> Floats:
    return softmax(X)


def softmax(scores: Floats) -> Floats:
    """Softmax over the last axis."""
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)
