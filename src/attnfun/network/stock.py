"""Stock multi-head attention, as PyTorch has it, and the size of its heads in which a layer is emitted."""

from __future__ import annotations

from .layers import Attention

EXACT = 16
"""Features of a head for which stock attention scales exactly."""
MOST_FEATURES = 1024
"""Features of stock attention that are not exceeded only for that."""


FEW = 4
"""Heads of one feature stay so unless they would have to be so many times as many to hold the features."""


def stock_size(layer: Attention) -> int:
    """Features of one head of stock multi-head attention that holds the layer's keys and values.

    Stock attention divides scores by the root of this size s, some kernels after multiplying queries and keys by
    `s^(-1/4)` each. For s = 1 and s = 16 both are exact; any other power of four makes the first exact. Which it is
    depends on nothing but the heads, so a layer scales no less exactly where it carries further features. (Heads of one
    feature become heads of 16 where few of them would have to hold many features.)
    """
    size, keys = 1, layer.key.shape[2] - max(len(layer.keyed) - 1, 0)  # those that keys hold are one number there
    while size < max(keys, layer.value.shape[2]):
        size *= 4
    narrow = size > 1 or FEW * layer.heads < max(layer.width_in, layer.width_out)
    return EXACT if narrow and size <= EXACT and layer.heads * EXACT <= MOST_FEATURES else size


def stock_heads(layer: Attention) -> int:
    """Heads of that size that also hold the layer's inputs and outputs; those beyond the layer's own are silent."""
    return max(layer.heads, -(-max(layer.width_in, layer.width_out) // stock_size(layer)))
