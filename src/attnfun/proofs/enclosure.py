"""Enclosures of a whole network on many boxes at once, layer by layer."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from ..arithmetic import Interval
from ..arithmetic.directed import dot_up, expm1_up, sum_error
from ..arithmetic.formats import FORMATS, Format
from ..arithmetic.rounding import (
    MOST_DOUBT,
    OWN,
    Column,
    Floats,
    HeadSizes,
    head_error,
    linear_error,
    storage_error,
    weight_doubt,
    with_sum,
)
from ..network import Affine, Attention, Network, Softmax
from ..network.reference import apply, softmax
from .heads import TAIL_SHARE, BoxBatch, EnclosedBank, Focus, attend
from .mixture import exponentials, largest_average
from .ragged import Ragged

STILL = 4.0
"""A head is at rest where it is at most this multiple of what tails may move it by."""


class Encloser:
    """Encloses one network, in its own arithmetic, on batches of boxes; the memory is projected once.

    With a `goal`, tails of dropped tokens and heads at rest take a small share of it. In coarse arithmetic tails are as
    small as can be: the weights of dropped tokens may be far from their real ones there.
    """

    def __init__(self, network: Network, goal: float | None = None) -> None:
        self.network, self.arithmetic = network, FORMATS[network.dtype]
        share = _share(network, goal)
        aim = 0.0 if self.arithmetic.coarse else share
        self.banks = [
            [EnclosedBank.of(layer, head, self.arithmetic, aim, STILL * share) for head in range(layer.heads)]
            if isinstance(layer, Attention)
            else []
            for layer in network.layers
        ]

    def moved(self, boxes: Interval) -> Floats:
        """How far rounding to the network's dtype moves a point."""
        return storage_error(boxes.magnitude, self.arithmetic)

    def start(self) -> tuple[Focus, ...]:
        """The focus of a single box that nothing is known about: all tokens in play."""
        length, focus = self.network.rows, []
        for layer in self.network.layers:
            if isinstance(layer, Attention):
                every = np.arange(len(layer.memory))[None]  # (1, M)
                active = Ragged.from_padded(every, np.ones(every.shape, dtype=bool))
                rests = np.zeros((1, layer.heads), dtype=bool)
                focus.append(Focus(active, np.zeros((1, layer.heads, length, 2)), rests))
            length = layer.length_out(length)
        return tuple(focus)

    def __call__(
        self, boxes: Interval, focus: tuple[Focus, ...], moved: Floats | None = None
    ) -> tuple[BoxBatch, tuple[Focus, ...]]:
        """Outputs of the network over boxes (B, n, d), and a narrower focus for their parts.

        The network's input is off by `moved`, (B, n, d); by what rounding it costs if nothing is said. Tiny numbers may
        be flushed to zero where the network reads them, which is its own error.
        """
        moved = self.moved(boxes) if moved is None else moved
        error = np.stack([moved, np.full_like(moved, self.arithmetic.tiny)], axis=-1)  # (B, n, d, 2)
        region, narrowed = BoxBatch(boxes, boxes.mid, error), []
        remaining = iter(focus)
        for layer, banks in zip(self.network.layers, self.banks, strict=True):
            if isinstance(layer, Attention):
                region, after = attend(layer, banks, region, next(remaining), self.arithmetic)
                narrowed.append(after)
            else:
                region = push(layer, region, self.arithmetic)
        return region, tuple(narrowed)


def _share(network: Network, goal: float | None) -> float:
    """How far all heads' averages may be moved so that the output is moved by a small share of the goal, or 0.

    What comes behind the heads magnifies it, by a known factor only if that is affine.
    """
    if goal is None or not network.is_shallow:
        return 0.0
    factor, seen = 1.0, False
    for layer in network.layers:
        if isinstance(layer, Attention):
            factor, seen = float(np.abs(layer.output).sum(axis=(0, 1)).max(initial=1.0)), True
        elif isinstance(layer, Affine) and seen:
            left = 1.0 if layer.left is None else float(np.abs(layer.left).sum(axis=(0, 2)).max())
            factor *= max(left * float(np.abs(layer.right).sum(axis=1).max()), 1.0)
    return TAIL_SHARE * goal / factor


@singledispatch
def push(layer: object, region: BoxBatch, arithmetic: Format) -> BoxBatch:
    """A layer without focus."""
    raise TypeError(f"no enclosure for {type(layer).__name__}")


@push.register
def _(layer: Affine, region: BoxBatch, arithmetic: Format) -> BoxBatch:
    tokens, points = region.tokens, apply(layer, region.points)
    if layer.left is None:
        weight, bias = layer.right[0], layer.constant[0]
        out = tokens @ weight + bias
        error = linear_error(region.error, tokens.magnitude, weight, bias, arithmetic, out.magnitude)
        return BoxBatch(out, points, error)
    flat = tokens.reshape(len(tokens), -1)  # (B, n*d)
    matrix, size = (
        np.einsum("kNn,kdm->ndNm", part(layer.left), part(layer.right)).reshape(flat.shape[1], -1)
        for part in (np.asarray, np.abs)
    )  # (n*d, N*m)
    exact = ((layer.left != 0).sum(axis=0) <= 1).all() and np.isin(layer.left, (0.0, 1.0)).all()  # one product a weight
    slack = 0 if exact else sum_error(dot_up(flat.magnitude, size), len(layer.right) + 2)
    out = flat @ matrix + Interval(-slack, slack) + layer.constant.ravel()  # (B, N*m)
    error = linear_error(
        region.error.reshape(len(tokens), -1, 2), flat.magnitude, size, layer.constant.ravel(), arithmetic
    )
    if not exact:
        error = with_sum(error, flat.magnitude @ size, np.array(len(layer.right) + 2), arithmetic)
        error[..., OWN] += arithmetic.lost * flat.magnitude.sum(axis=1, keepdims=True)  # weights near zero
    shape = (len(tokens), *layer.constant.shape)
    return BoxBatch(out.reshape(shape), points, error.reshape(*shape, 2))


@push.register
def _(layer: Softmax, region: BoxBatch, arithmetic: Format) -> BoxBatch:
    low, high = exponentials(region.tokens.lo, region.tokens.hi)
    units = [np.broadcast_to(unit, low.shape) for unit in np.eye(layer.width)]  # weight i is the average of unit i
    least = np.stack([-largest_average(low, high, -unit) for unit in units], axis=-1)
    most = np.stack([largest_average(low, high, unit) for unit in units], axis=-1)
    behind = (region.tokens.hi.max(axis=2, keepdims=True) - region.tokens.lo).max(axis=2)  # (B, n)
    off, own = region.error.sum(axis=3).max(axis=2), region.error[..., OWN].max(axis=2)  # (B, n)
    zero, every = np.zeros(low.shape[:2]), np.full(low.shape[:2], layer.width)
    doubt, doubt_own = (
        np.minimum(weight_doubt(part, part, behind, layer.width, arithmetic), MOST_DOUBT) for part in (off, own)
    )
    sizes = HeadSizes(
        doubt=doubt,
        doubt_own=doubt_own,
        tail=zero,
        computed_tail=zero,
        in_play=every,
        core=every,
        keys=layer.width,
    )
    exact = np.zeros((*zero.shape, 2))
    column = Column(expm1_up(doubt), expm1_up(doubt_own), zero + 1, zero + 1, zero, zero, 1.0, exact, 0.0)
    columns = [head_error(sizes, column, arithmetic) for _ in units]
    return BoxBatch(Interval(least, most, region.tokens.defined), softmax(region.points), np.stack(columns, axis=2))
