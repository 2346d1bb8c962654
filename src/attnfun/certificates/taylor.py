"""Bounds on target minus network by Taylor series: the two nearly cancel, coefficient by coefficient.

On a box with centre p and half-widths r let `d_α` be the Taylor coefficients at p of the difference, up to degree m,
and `D_α` enclosures of its coefficients of degree m + 1 over the whole box. By Taylor's theorem the difference at p + t
is

    Σ_{|α| <= m} d_α t^α + Σ_{|α| = m+1} D_α(ξ) t^α,          |t_k| <= r_k,

and `t^α` lies in `[0, r^α]` if all exponents are even, in `[-r^α, r^α]` otherwise. Scores of tokens in play are taken
relative to the average key at the centre, so that their series stay short. Dropped tokens turn the average y into
`(1 - λ) y + λ v` with `0 <= λ <= tail` and v among the memory's values (`heads.py`). For any fixed λ and v that is y
with its coefficients moved by `λ |y_α|`, and the constant one by `λ |v|` more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import numpy as np
import numpy.typing as npt

from ..interval import Interval, Jet
from ..interval.directed import ULP
from ..interval.jets import TINY, divide, exp, multiply, variables
from ..interval.jets import join as join_jets
from ..network import Affine, Attention, Network, Softmax
from ..network.reference import apply, softmax
from ..targets import Target
from .heads import Bank, Focus
from .ragged import Integers

Floats = npt.NDArray[np.float64]
Pair = tuple[Jet, Jet]
"""The same quantity at the centres of boxes and over the boxes."""

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
        centre, around = self._difference(boxes, focus)
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

    def _difference(self, boxes: Interval, focus: tuple[Focus, ...]) -> Pair:
        """Series of network minus target at the centres of boxes (B, D) and over them; (B, m) each."""
        inputs = [variables(where, self.degree) for where in (Interval(boxes.mid), boxes)]
        shape = (len(boxes), *self.network.shape_in)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            tokens = (inputs[0].reshape(shape), inputs[1].reshape(shape))
            points, remaining = boxes.mid.reshape(shape), iter(focus)
            for layer, banks in zip(self.network.layers, self.banks, strict=True):
                if isinstance(layer, Attention):
                    tokens, points = attend(layer, banks, tokens, points, next(remaining), boxes.radius)
                else:
                    tokens, points = (push(layer, tokens[0]), push(layer, tokens[1])), apply(layer, points)
            at, over = (
                part.reshape(len(boxes), -1) - self.target.jets(x) for part, x in zip(tokens, inputs, strict=True)
            )
            return at, over


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


def attend(
    layer: Attention, banks: list[Bank], tokens: Pair, points: Floats, focus: Focus, radius: Floats
) -> tuple[Pair, Floats]:
    """Series of attention over the tokens in play, (B, n, d) -> (B, n, o), and the images of the centres."""
    index, real = focus.active.padded(np.arange(len(points)))  # (B, T)
    flat, bias = layer.output.reshape(-1, layer.width_out), layer.output_bias  # (H*v, o), (o,)
    heads: tuple[list[Jet], list[Jet]] = ([], [])
    images = []
    for head, bank in enumerate(banks):
        view = _view(layer, head, bank, points, index, real)
        sums = _moments(layer, head, view, tokens, radius) if tokens[0].degree <= 1 else None
        for part, jet in enumerate(tokens):
            total, mass = sums[part] if sums else _sums(layer, head, view, jet)
            if layer.attends_data:
                total, mass = _with_data(layer, head, view, jet, total, mass)
            average = divide(total, mass.reshape(*mass.shape, 1))  # (B, n, v)
            heads[part].append(_with_tail(average, focus.tail[:, head], bank))
        images.append(view.share @ view.values)
    image = np.concatenate(images, axis=2) @ flat + bias
    out = [join_jets(part, axis=2).linear(flat, bias) for part in heads]  # (B, n, o)
    if layer.residual:
        return (out[0] + tokens[0], out[1] + tokens[1]), image + points
    return (out[0], out[1]), image


def _with_tail(average: Jet, tail: Floats, bank: Bank) -> Jet:
    """Series (B, n, v) that hold whatever the tail (B, n) of dropped tokens does."""
    share = tail[..., None, None] * (1 + 8 * ULP)  # (B, n, 1, 1)
    rad = average.rad * (1 + 4 * ULP) + share * (np.abs(average.mid) + average.rad)
    rad[..., 0] += share[..., 0] * np.maximum(np.abs(bank.highest), np.abs(bank.lowest)) * (1 + 4 * ULP)
    return Jet(average.basis, average.mid, rad * (1 + 4 * ULP), average.degree)


@dataclass(frozen=True, eq=False)
class _View:
    """The memory tokens in play, as one head sees them from the centres of a chunk of boxes."""

    relative: Floats  # (B, n, T, k), keys minus the reference key
    reference: Floats  # (B, n, k)
    key_radius: Floats  # (B, 1, T, k)
    values: Floats  # (B, T, v)
    value_radius: Floats  # (B, T, v)
    share: Floats  # (B, n, T), weights at the centre, not rigorous
    real: npt.NDArray[np.bool_]  # (B, 1, T)


def _view(
    layer: Attention, head: int, bank: Bank, points: Floats, index: Integers, real: npt.NDArray[np.bool_]
) -> _View:
    q = points @ layer.query[head] + layer.query_bias[head]  # (B, n, k)
    keys = bank.keys[index]  # (B, T, k)
    share = softmax(np.where(real[:, None], q @ np.swapaxes(keys, 1, 2), -1e300))  # (B, n, T)
    reference = share @ keys  # (B, n, k)
    return _View(
        relative=keys[:, None] - reference[:, :, None],
        reference=reference,
        key_radius=bank.key_radius[index][:, None],
        values=bank.values[index],
        value_radius=bank.value_radius[index],
        share=share,
        real=real[:, None],
    )


def _scores(layer: Attention, head: int, view: _View, tokens: Jet) -> Jet:
    """Series of `(k_j - k̄)·q`, (B, n, T)."""
    q = tokens.linear(layer.query[head], layer.query_bias[head])  # (B, n, k)
    base, known = q.basis, q.basis.count(q.degree)
    slack = (view.relative.shape[3] + 6) * ULP
    mid, rad = (np.zeros((*view.relative.shape[:3], base.size)) for _ in range(2))
    size = np.abs(q.mid[..., :known])
    mid[..., :known] = view.relative @ q.mid[..., :known]
    rad[..., :known] = np.abs(view.relative) @ (slack * size + q.rad[..., :known] * (1 + slack))
    rad[..., :known] += view.key_radius @ (size + q.rad[..., :known]) * (1 + slack) + TINY
    return Jet(base, mid, rad, q.degree)


def _sums(layer: Attention, head: int, view: _View, tokens: Jet) -> tuple[Jet, Jet]:
    """Series of `Σ_j e^{s_j} v_j` (B, n, v) and `Σ_j e^{s_j}` (B, n), whatever the series of the scores."""
    weights = exp(_scores(layer, head, view, tokens))  # (B, n, T)
    absent = ~np.broadcast_to(view.real, weights.shape)
    weights.mid[absent] = weights.rad[absent] = 0.0
    slack = (view.values.shape[1] + 4) * ULP
    across, spread = (np.swapaxes(part, 1, 2)[:, None] for part in (view.values, view.value_radius))  # (B, 1, v, T)
    rad = np.abs(across) @ (weights.rad * (1 + slack) + slack * np.abs(weights.mid))
    rad += spread @ (np.abs(weights.mid) + weights.rad) * (1 + slack) + TINY
    return Jet(weights.basis, across @ weights.mid, rad), weights.sum(2)


def _moments(layer: Attention, head: int, view: _View, tokens: Pair, radius: Floats) -> list[tuple[Jet, Jet]]:
    """The same sums for scores affine in x, at the centres and over the boxes at once.

    `e^{s + a·t}` has the coefficients `e^s a^α/α!`, so the sums are moments of the slopes a_j. Over a box the weight
    lies between `e^{s - ρ}` and `e^{s + ρ}`, ρ = Σ_k |a_k| r_k; ρ = 0 at the centre. The two ends are computed each on
    its own: e^s may underflow where e^{s + ρ} matters.
    """
    scores = _scores(layer, head, view, tokens[0])
    base, size = scores.basis, tokens[0].basis.variables
    start, doubt = scores.mid[..., 0], scores.rad[..., 0]  # (B, n, T)
    slopes = np.moveaxis(scores.mid[..., 1 : 1 + size], -1, 0)  # (D, B, n, T)
    most = np.abs(slopes) + np.moveaxis(scores.rad[..., 1 : 1 + size], -1, 0)
    shape = (*start.shape[:2], base.size, start.shape[2])
    powers, sizes = np.ones(shape), np.ones(shape)  # (B, n, C, T)
    for k, (before, axis) in enumerate(base.parents, start=1):
        count = float(base.exponents[k, axis])
        np.multiply(powers[:, :, before], slopes[axis] / count, out=powers[:, :, k])
        np.multiply(sizes[:, :, before], most[axis] / count, out=sizes[:, :, k])
    slack = (4 * base.degree + 2 * start.shape[2] + 16) * ULP
    off = np.maximum(sizes - np.abs(powers), 0.0) + slack * sizes + TINY
    span = (most * np.moveaxis(radius, -1, 0)[:, :, None, None]).sum(axis=0) * (1 + slack)  # (B, n, T)
    known = np.concatenate([np.ones_like(view.values[..., :1]), view.values], axis=2)  # (B, T, 1+v)
    spread = np.concatenate([np.zeros_like(view.values[..., :1]), view.value_radius], axis=2)
    known, spread = (np.swapaxes(part, 1, 2)[:, None] for part in (known, spread))  # (B, 1, 1+v, T)
    results = []
    for reach in (np.zeros_like(span), span):
        light, heavy = np.exp(start - reach), np.exp(start + reach)
        error = (np.expm1(doubt) + (16 + np.abs(start) + reach) * ULP) * (1 + 1e-9)
        mid, rad = (light + heavy) / 2, ((heavy - light) / 2 + error * heavy) * (1 + slack) + TINY
        mid, rad = (np.where(view.real, part, 0.0)[:, :, None] for part in (mid, rad))  # (B, n, 1, T)
        sums = (mid * known) @ np.swapaxes(powers, 2, 3)  # (B, n, 1+v, C)
        reach = np.abs(known) * rad + spread * (mid + rad)
        radii = (np.abs(known) * mid) @ np.swapaxes(off, 2, 3) + reach @ np.swapaxes(sizes, 2, 3) * (1 + slack)
        radii += slack * np.abs(sums) + TINY
        results.append((Jet(base, sums[:, :, 1:], radii[:, :, 1:]), Jet(base, sums[:, :, 0], radii[:, :, 0])))
    return results


def _with_data(layer: Attention, head: int, view: _View, tokens: Jet, total: Jet, mass: Jet) -> tuple[Jet, Jet]:
    """Add the data tokens, whose keys and values depend on x too."""
    q = tokens.linear(layer.query[head], layer.query_bias[head])  # (B, n, k)
    key = tokens.linear(layer.key[head], layer.key_bias[head])  # (B, n, k)
    value = tokens.linear(layer.value[head], layer.value_bias[head])  # (B, n, v)
    batch, length = tokens.shape[:2]
    apart = key.reshape(batch, 1, length, -1) - Interval(view.reference[:, :, None])  # (B, n, n, k)
    weights = exp(multiply(apart, q.reshape(batch, length, 1, -1)).sum(3))  # (B, n, n)
    mixed = multiply(weights.reshape(batch, length, length, 1), value.reshape(batch, 1, length, -1))
    return total + mixed.sum(2), mass + weights.sum(2)
