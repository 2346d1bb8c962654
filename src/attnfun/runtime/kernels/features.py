"""What is known of a network's features before it runs: which are constant, and in what range the others stay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from ...network import Affine, Attention, FactoredAttention, Layer, Softmax

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

LEEWAY = 2.0**-16
"""Ranges are widened by this fraction of all sizes involved, far more than rounding in float32 can move a feature."""


@dataclass(frozen=True, eq=False)
class Features:
    """For tokens (n, d): which features vary with the input, and the range [low, high] of each."""

    varies: Flags
    low: Floats
    high: Floats

    def after(self, layer: Layer) -> Features:
        """Behind a layer."""
        return _after(layer, self)


def linear(before: Features, weight: Floats, bias: Floats) -> Features:
    """Behind `x weight + bias`, token by token."""
    positive, negative = np.maximum(weight, 0), np.minimum(weight, 0)
    size = np.maximum(np.abs(before.low), np.abs(before.high)) @ np.abs(weight) + np.abs(bias)  # (n, m)
    low = before.low @ positive + before.high @ negative + bias - LEEWAY * size
    high = before.high @ positive + before.low @ negative + bias + LEEWAY * size
    return Features(before.varies @ (weight != 0), low, high)


@singledispatch
def _after(layer: object, before: Features) -> Features:
    raise TypeError(f"nothing is known of {type(layer).__name__}")


@_after.register
def _(layer: Affine, before: Features) -> Features:
    if layer.left is None:
        return linear(before, layer.right[0], layer.constant[0])
    shape = layer.constant.shape
    varies, low, high = np.zeros(shape, dtype=bool), layer.constant.copy(), layer.constant.copy()
    for left, right in zip(layer.left, layer.right, strict=True):
        moved = linear(Features(before.varies.T, before.low.T, before.high.T), left.T, np.zeros(len(left)))  # (d, N)
        part = linear(Features(moved.varies.T, moved.low.T, moved.high.T), right, np.zeros(right.shape[1]))  # (N, m)
        varies, low, high = varies | part.varies, low + part.low, high + part.high
    slack = LEEWAY * np.abs(layer.constant)
    return Features(varies, low - slack, high + slack)


@_after.register
def _(layer: Attention, before: Features) -> Features:
    """Averages lie between the least and the largest value."""
    low, high = layer.output_bias.copy(), layer.output_bias.copy()
    moved = np.zeros(layer.width_out, dtype=bool)
    for head in range(layer.heads):
        ends = [layer.memory @ layer.value[head] + layer.value_bias[head]] * 2  # (M, v)
        if layer.attends_data:
            data = linear(before, layer.value[head], layer.value_bias[head])
            ends = [np.vstack([ends[0], data.low]), np.vstack([ends[1], data.high])]
        range_of = Features(
            np.ones((1, ends[0].shape[1]), dtype=bool), ends[0].min(axis=0)[None], ends[1].max(axis=0)[None]
        )
        part = linear(range_of, layer.output[head], np.zeros(layer.width_out))
        low, high, moved = low + part.low[0], high + part.high[0], moved | part.varies[0]
    shape = (len(before.low), layer.width_out)
    low, high, moved = (np.broadcast_to(array, shape) for array in (low, high, moved))
    if layer.residual:
        low, high, moved = low + before.low, high + before.high, moved | before.varies
    return Features(moved, low, high)


@_after.register
def _(layer: FactoredAttention, before: Features) -> Features:
    shape = (len(before.low), layer.values.shape[1])
    low, high = (np.broadcast_to(end, shape) for end in (layer.values.min(axis=0), layer.values.max(axis=0)))
    return linear(Features(np.ones(shape, dtype=bool), low, high), layer.output[0], layer.output_bias)


@_after.register
def _(layer: Softmax, before: Features) -> Features:
    return Features(np.ones_like(before.varies), np.zeros_like(before.low), np.ones_like(before.high))
