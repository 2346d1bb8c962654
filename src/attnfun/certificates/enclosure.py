"""Enclosures of a whole network on many boxes at once, layer by layer."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

import numpy as np

from ..interval import Interval
from ..interval.directed import ULP
from ..network import Affine, Attention, Network, Softmax
from ..network.reference import apply, softmax
from .heads import Bank, Focus, Region, attend
from .mixture import exponentials, largest_average
from .ragged import Ragged


class Encloser:
    """Encloses one network on batches of boxes. Keys and values of the memory are computed once."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.banks = [
            [Bank.of(layer, head) for head in range(layer.heads)] if isinstance(layer, Attention) else []
            for layer in network.layers
        ]

    def start(self) -> tuple[Focus, ...]:
        """The focus of a single box that nothing is known about: all tokens in play."""
        length, focus = self.network.length, []
        for layer in self.network.layers:
            if isinstance(layer, Attention):
                every = np.arange(len(layer.memory))[None]  # (1, M)
                active = Ragged.from_padded(every, np.ones(every.shape, dtype=bool))
                focus.append(Focus(active, np.zeros((1, layer.heads, length))))
            length = layer.length_out(length)
        return tuple(focus)

    def __call__(self, boxes: Interval, focus: tuple[Focus, ...]) -> tuple[Region, tuple[Focus, ...]]:
        """Outputs of the network over boxes (B, n, d), and a narrower focus for their parts."""
        region, narrowed = Region(boxes, boxes.mid), []
        remaining = iter(focus)
        for layer, banks in zip(self.network.layers, self.banks, strict=True):
            if isinstance(layer, Attention):
                region, after = attend(layer, banks, region, next(remaining))
                narrowed.append(after)
            else:
                region = push(layer, region)
        return region, tuple(narrowed)


@singledispatch
def push(layer: object, region: Region) -> Region:
    """A layer without focus."""
    raise TypeError(f"no enclosure for {type(layer).__name__}")


@push.register
def _(layer: Affine, region: Region) -> Region:
    points, tokens = apply(layer, region.points), region.tokens
    if layer.left is None:
        return replace(region, tokens=tokens @ layer.right[0] + layer.constant, points=points)
    flat = tokens.reshape(len(tokens), -1)  # (B, n*d)
    matrix = np.einsum("kNn,kdm->ndNm", layer.left, layer.right)  # (n, d, N, m)
    size = np.einsum("kNn,kdm->ndNm", np.abs(layer.left), np.abs(layer.right))
    slack = (len(layer.right) + 2) * ULP * flat.magnitude @ size.reshape(flat.shape[1], -1)  # rounding of `matrix`
    out = flat @ matrix.reshape(flat.shape[1], -1) + Interval(-slack, slack) + layer.constant.ravel()
    return replace(region, tokens=out.reshape(len(tokens), *layer.constant.shape), points=points)


@push.register
def _(layer: Softmax, region: Region) -> Region:
    low, high = exponentials(region.tokens.lo, region.tokens.hi)
    units = [np.broadcast_to(unit, low.shape) for unit in np.eye(layer.width)]  # weight i is the average of unit i
    least = np.stack([-largest_average(low, high, -unit) for unit in units], axis=-1)
    most = np.stack([largest_average(low, high, unit) for unit in units], axis=-1)
    return Region(Interval(least, most, region.tokens.defined), softmax(region.points))
