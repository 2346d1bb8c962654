"""Bounds on target minus network by Taylor series: the two nearly cancel, coefficient by coefficient.

On a box with centre p and half-widths r let `d_α` be the Taylor coefficients at p of the difference, up to degree m,
and `D_α` enclosures of its coefficients of degree m + 1 over the whole box. By Taylor's theorem the difference at p + t
is

    Σ_{|α| <= m} d_α t^α + Σ_{|α| = m+1} D_α(ξ) t^α,          |t_k| <= r_k,

and `t^α` lies in `[0, r^α]` if all exponents are even, in `[-r^α, r^α]` otherwise. Scores of tokens in play are taken
relative to the average key at the centre, so that their series stay short. Dropped tokens move the value by at most the
tail times the spread of values: for any fixed shift within that, the series hold, so it is added to the constant term.
"""

from __future__ import annotations

from functools import singledispatch

import numpy as np
import numpy.typing as npt

from ..interval import Interval, Jet
from ..interval.directed import ULP
from ..interval.jets import divide, exp, multiply, variables
from ..interval.jets import join as join_jets
from ..network import Affine, Attention, Network, Softmax
from ..targets import Target
from .heads import Bank, Focus
from .ragged import Integers

Floats = npt.NDArray[np.float64]

DEGREES = {1: 10, 2: 6, 3: 5}
"""Degree m + 1 of the remainder by the number of variables; 2 beyond."""
ENTRIES = 2**22
"""Numbers in the largest temporary array."""


class TaylorBounds:
    """Bounds the difference of one target and one network on batches of boxes."""

    def __init__(self, target: Target, network: Network, banks: list[list[Bank]]) -> None:
        self.target, self.network, self.banks = target, network, banks
        self.degree = DEGREES.get(target.domain.size, 2)

    def __call__(self, boxes: Interval, focus: tuple[Focus, ...]) -> Floats:
        """Bounds on |target - network| over boxes (B, D), largest over outputs, inf where nothing is known; (B,)."""
        size = variables(boxes[:1], self.degree).basis.size
        longest = max((int(layer.active.lengths.max(initial=1)) for layer in focus), default=1)
        rows = max(1, ENTRIES // (size * (longest + 1) * self.network.length))
        parts = []
        for start in range(0, len(boxes), rows):
            pick = np.arange(start, min(start + rows, len(boxes)))
            parts.append(self._bound(boxes[pick], tuple(layer.take(pick) for layer in focus)))
        return np.concatenate(parts)

    def _bound(self, boxes: Interval, focus: tuple[Focus, ...]) -> Floats:
        centre = self._difference(Interval(boxes.mid), boxes.mid, focus)
        around = self._difference(boxes, boxes.mid, focus)
        base = centre.basis
        with np.errstate(under="ignore"):
            reach = np.prod(boxes.radius[:, None, :] ** base.exponents, axis=2) * (1 + 4 * base.degree * ULP) + 1e-300
        last = base.degrees == base.degree  # (C,)
        mid, rad = np.where(last, around.mid, centre.mid), np.where(last, around.rad, centre.rad)  # (B, m, C)
        even = (base.exponents % 2 == 0).all(axis=1)
        constant = base.degrees == 0
        bounds = []
        for sign in (1.0, -1.0):
            most = sign * mid + rad
            term = np.where(constant, most, np.where(even, np.maximum(most, 0.0), np.abs(mid) + rad) * reach[:, None])
            bounds.append(term.sum(axis=2) + (base.size + 4) * ULP * np.abs(term).sum(axis=2))
        bound = np.maximum(*bounds).max(axis=1)  # (B,)
        return np.where(np.isnan(bound), np.inf, bound)

    def _difference(self, where: Interval, centres: Floats, focus: tuple[Focus, ...]) -> Jet:
        """Series of network minus target at points or over boxes (B, D); (B, m)."""
        inputs = variables(where, self.degree)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            tokens = inputs.reshape(len(inputs), *self.network.shape_in)
            points = centres.reshape(len(inputs), *self.network.shape_in)
            remaining = iter(focus)
            for layer, banks in zip(self.network.layers, self.banks, strict=True):
                if isinstance(layer, Attention):
                    tokens, points = attend(layer, banks, tokens, points, next(remaining))
                else:
                    tokens, points = push(layer, tokens), points_through(layer, points)
            return tokens.reshape(len(inputs), -1) - self.target.jets(inputs)


def points_through(layer: Affine | Softmax, points: Floats) -> Floats:
    """The image of each centre, in plain floats: only used to choose reference keys."""
    from ..network.reference import apply

    return apply(layer, points)


@singledispatch
def push(layer: object, tokens: Jet) -> Jet:
    """Series of tokens (B, n, d) through a layer without memory."""
    raise TypeError(f"no Taylor series for {type(layer).__name__}")


@push.register
def _(layer: Affine, tokens: Jet) -> Jet:
    if layer.left is None:
        return tokens.linear(layer.right[0], layer.constant[0])
    shape = (len(tokens), *layer.constant.shape)
    total = Jet.constant(tokens.basis, Interval(np.broadcast_to(layer.constant, shape)))
    zero = np.zeros(1)
    for left, right in zip(layer.left, layer.right, strict=True):
        moved = tokens.linear(right, zero)  # (B, n, m)
        across = moved.transpose(0, 2, 1).linear(left.T, zero).transpose(0, 2, 1)  # (B, N, m)
        total = total + across
    return total


@push.register
def _(layer: Softmax, tokens: Jet) -> Jet:
    weights = exp(tokens - Interval(tokens.mid[..., 0].max(axis=2, keepdims=True)))
    total = weights.sum(2).reshape(*tokens.shape[:2], 1)
    return divide(weights, total)


def attend(layer: Attention, banks: list[Bank], tokens: Jet, points: Floats, focus: Focus) -> tuple[Jet, Floats]:
    """Series of attention over the tokens in play, (B, n, d) -> (B, n, o), and the images of the centres."""
    index, real = focus.active.padded(np.arange(len(tokens)))  # (B, T)
    averages, images = [], []
    for head, bank in enumerate(banks):
        average, image = _head(layer, head, bank, tokens, points, index, real)
        spread = (bank.highest - bank.lowest) * (1 + 4 * ULP)  # (v,)
        average.rad[..., 0] += focus.tail[:, head, :, None] * spread * (1 + 4 * ULP)
        averages.append(average)
        images.append(image)
    flat, bias = layer.output.reshape(-1, layer.width_out), layer.output_bias  # (H*v, o), (o,)
    out = join_jets(averages, axis=2).linear(flat, bias)  # (B, n, o)
    image = np.concatenate(images, axis=2) @ flat + bias
    return (out + tokens, image + points) if layer.residual else (out, image)


def _head(
    layer: Attention, head: int, bank: Bank, tokens: Jet, points: Floats, index: Integers, real: npt.NDArray[np.bool_]
) -> tuple[Jet, Floats]:
    """Series of one head's average value, (B, n, v)."""
    q = tokens.linear(layer.query[head], layer.query_bias[head])  # (B, n, k)
    q_at = points @ layer.query[head] + layer.query_bias[head]  # (B, n, k)
    keys = bank.keys[index]  # (B, T, k)
    at = np.where(real[:, None], q_at @ np.swapaxes(keys, 1, 2), -np.inf)  # (B, n, T)
    share = np.exp(at - np.maximum(at.max(axis=2, keepdims=True), -1e300))
    reference = share @ keys / np.maximum(share.sum(axis=2, keepdims=True), 1e-300)  # (B, n, k)
    scores = _scores(q, keys, bank.key_radius[index], reference)  # (B, n, T)
    weights = exp(scores)
    weights.mid[~np.broadcast_to(real[:, None], weights.shape)] = 0.0
    weights.rad[~np.broadcast_to(real[:, None], weights.shape)] = 0.0
    mass = weights.sum(2)  # (B, n)
    values = bank.values[index]  # (B, T, v)
    sums = _weighted(weights, values, bank.value_radius[index])  # (B, n, v)
    image = share @ values / np.maximum(share.sum(axis=2, keepdims=True), 1e-300)
    if layer.attends_data:
        data_key = tokens.linear(layer.key[head], layer.key_bias[head])  # (B, n, k)
        data_value = tokens.linear(layer.value[head], layer.value_bias[head])  # (B, n, v)
        batch, length = len(index), tokens.shape[1]
        apart = data_key.reshape(batch, 1, length, -1) - Interval(reference[:, :, None])  # (B, n, n, k)
        data = exp(multiply(apart, q.reshape(batch, length, 1, -1)).sum(3))  # (B, n, n)
        mass = mass + data.sum(2)
        mixed = multiply(data.reshape(batch, length, length, 1), data_value.reshape(batch, 1, length, -1))
        sums = sums + mixed.sum(2)
    return divide(sums, mass.reshape(*mass.shape, 1)), image


def _scores(q: Jet, keys: Floats, radius: Floats, reference: Floats) -> Jet:
    """Series of `(k_j - k̄)·q`, (B, n, T)."""
    base, known = q.basis, q.basis.count(q.degree)
    relative = keys[:, None] - reference[:, :, None]  # (B, n, T, k)
    size = np.abs(relative)
    slack = (relative.shape[3] + 6) * ULP
    shape = (*relative.shape[:3], base.size)
    mid, rad = np.zeros(shape), np.zeros(shape)
    mid[..., :known] = relative @ q.mid[..., :known]
    reach = slack * np.abs(q.mid[..., :known]) + q.rad[..., :known] * (1 + slack)
    rad[..., :known] = size @ reach + radius[:, None] @ (np.abs(q.mid[..., :known]) + q.rad[..., :known]) * (1 + slack)
    return Jet(base, mid, rad, q.degree)


def _weighted(weights: Jet, values: Floats, radius: Floats) -> Jet:
    """`Σ_j w_j v_j` for series w (B, n, T) and values (B, T, v); (B, n, v)."""
    slack = (values.shape[1] + 4) * ULP
    across = np.swapaxes(values, 1, 2)[:, None]  # (B, 1, v, T)
    mid = across @ weights.mid  # (B, n, v, C)
    rad = np.abs(across) @ (weights.rad * (1 + slack) + slack * np.abs(weights.mid))
    if radius.any():
        rad = rad + np.swapaxes(radius, 1, 2)[:, None] @ (np.abs(weights.mid) + weights.rad) * (1 + slack)
    return Jet(weights.basis, mid, rad)
