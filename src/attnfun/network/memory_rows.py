"""Memory tokens as rows that the affine map before a layer makes: the layer is Attn(Z, Z, Z), and nothing else.

A layer that attends to its data and to memory tokens m_1..m_M is the same as one without memory on Z, if the map before
it appends the rows m_j to what it makes and the map behind it drops what becomes of them. The rows are constants: a sum
of zeros and m_j, which is exact in every arithmetic. So both networks compute the same numbers but for the order of
sums over keys [T 11.16].
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .layers import Affine, Attention, Layer
from .network import Network


def with_rows(before: Affine, layer: Attention, length: int) -> tuple[Affine, Attention, Affine]:
    """The map that makes the memory tokens, too, the layer without memory, and the map that keeps its first rows.

    `length` tokens go into the map.
    """
    rows, count = before.length_out(length), len(layer.memory)
    left = np.eye(length)[None] if before.left is None else before.left  # (K, N, n)
    constant = np.broadcast_to(before.constant, (rows, before.width_out))
    made = Affine(
        before.right,
        np.concatenate([constant, layer.memory]),
        np.concatenate([left, np.zeros((len(left), count, left.shape[2]))], axis=1),
    )
    keep = Affine(np.eye(layer.width_out)[None], np.zeros((rows, layer.width_out)), np.eye(rows, rows + count)[None])
    return made, replace(layer, memory=layer.memory[:0]), keep


def with_memory(network: Network) -> Network:
    """The network in which constant rows that only serve as keys are memory tokens again; itself if it has none."""
    layers = list(network.layers)
    for place in range(len(layers) - 2):
        found = _as_memory(*layers[place : place + 3])
        if found is not None:
            layers[place : place + 3] = found
    changed = any(new is not old for new, old in zip(layers, network.layers, strict=True))
    return replace(network, layers=tuple(layers)) if changed else network


def _as_memory(before: Layer, layer: Layer, after: Layer) -> list[Layer] | None:
    """Three layers with the last rows of the first one as memory of the second; None if there are no such rows."""
    if not isinstance(before, Affine) or not isinstance(layer, Attention) or not isinstance(after, Affine):
        return None
    made, read = before.left, after.left
    if made is None or read is None or not layer.attends_data:
        return None
    idle = np.logical_not(made.any(axis=(0, 2)) | read.any(axis=(0, 1)))  # (N,): constant, and not read
    used = np.flatnonzero(~idle)
    first = int(used[-1]) + 1 if len(used) else len(idle)  # rows behind the last one that is used
    if first == len(idle):
        return None
    return [
        Affine(before.right, before.constant[:first], made[:, :first]),
        replace(layer, memory=np.concatenate([before.constant[first:], layer.memory])),
        Affine(after.right, after.constant, read[:, :, :first]),
    ]
