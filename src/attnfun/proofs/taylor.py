"""Bounds on target minus network by Taylor series: the two nearly cancel, coefficient by coefficient [T 9.5].

On a box with centre p and half-widths r let `d_α` be the Taylor coefficients at p of the difference, up to degree m,
and `D_α` enclosures of its coefficients of degree m + 1 over the whole box. By Taylor's theorem the difference at p + t
is

    Σ_{|α| <= m} d_α t^α + Σ_{|α| = m+1} D_α(ξ) t^α,          |t_k| <= r_k,

a polynomial up to the radii of its coefficients (`polynomials.py`). Scores of tokens in play are taken relative to the
average key at the centre, so that their series stay short. Heads whose scores are affine in x are polynomials in closed
form (`moments.py`), other layers are computed in series at the centre and over the box. Dropped tokens turn the average
y into `(1 - λ) y + λ v` with `0 <= λ <= tail` and v among the memory's values (`heads.py`). For any fixed λ and v that
is y with its coefficients moved by `λ |y_α|`, and the constant one by `λ |v|` more.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial, singledispatch

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet, join
from ..arithmetic.basis import Basis, basis
from ..arithmetic.directed import SMALLEST, rounded_up, sum_error
from ..arithmetic.jet_functions import divide, exp, multiply
from ..arithmetic.jets import TINY, variables
from ..arithmetic.jets import join as join_jets
from ..network import Affine, Attention, Network, Softmax
from ..network.reference import apply, softmax
from ..targets import Target
from .heads import EnclosedBank, Focus
from .moments import Moments
from .polynomials import largest_value, reaches, recentred
from .ragged import Integers

Floats = npt.NDArray[np.float64]
Pair = tuple[Jet, Jet]
"""The same quantity at the centres of boxes and over the boxes."""

DEGREES = {1: 16, 2: 16, 3: 10}
"""Degree m + 1 of the remainder by the number of variables, where heads come in closed form; 2 beyond."""
DEEP_DEGREES = {1: 10, 2: 6, 3: 5}
"""The same where they do not."""
ENTRIES = 2**22
"""Numbers in the largest temporary array."""
PAIRS = 2**20
"""Coefficients of series for all pairs of data tokens on one box; beyond that natural enclosures must do."""
WORK = 16
"""Numbers a coefficient that a box takes beside the sums over its tokens."""
LISTED = 2**19
"""Tokens in play on the boxes that compiled loops are given at a time."""
CACHE = 2**17
"""Numbers in the largest temporary array of a sum over tokens: it should stay near the processor."""


@dataclass(frozen=True, eq=False)
class Expanded:
    """What Taylor series say about boxes; only the bounds are bounds."""

    each: Floats  # (B, m), on |target - network| for each output; inf where nothing is known
    at: Floats  # (B,), |target - network| at the centres, about
    steep: Floats  # (B, D), how much of what is left beyond the polynomial each axis makes; 0 where nothing is known

    @property
    def bound(self) -> Floats:
        """On |target - network|, largest over outputs; inf where nothing is known of one of them, (B,)."""
        return self.each.max(axis=1)

    @classmethod
    def nothing(cls, boxes: int, outputs: int, variables: int) -> Expanded:
        """Where there are no series."""
        return cls(np.full((boxes, outputs), np.inf), np.zeros(boxes), np.zeros((boxes, variables)))

    @classmethod
    def join(cls, parts: list[Expanded]) -> Expanded:
        """Several batches as one."""
        return cls(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(cls)))


class TaylorBounds:
    """Bounds the difference of one target and one network on batches of boxes."""

    def __init__(self, target: Target, network: Network, banks: list[list[EnclosedBank]]) -> None:
        self.target, self.network, self.banks = target, network, banks
        self.pairs = _most_pairs(network)
        self.degree = (DEGREES if network.is_shallow else DEEP_DEGREES).get(target.domain.size, 2)

    def __call__(self, boxes: Interval, focus: tuple[Focus, ...]) -> Expanded:
        """Series on boxes (B, D). Nothing is known for long sequences of tokens that attend to each other."""
        size = basis(boxes.shape[1], self.degree).size
        if self.pairs * size > PAIRS:
            return Expanded.nothing(len(boxes), self.target.outputs, boxes.shape[1])
        longest = max((int(layer.active.lengths.max(initial=1)) for layer in focus), default=1)
        each = WORK if self.network.is_shallow else longest + 1
        rows = max(1, ENTRIES // (size * each * self.network.rows))
        parts = []
        for start in range(0, len(boxes), rows):
            pick = np.arange(start, min(start + rows, len(boxes)))
            parts.append(self._bound(boxes[pick], tuple(layer.take(pick) for layer in focus)))
        return Expanded.join(parts)

    def _bound(self, boxes: Interval, focus: tuple[Focus, ...]) -> Expanded:
        difference = self._difference(boxes, focus)
        if difference is None:
            return Expanded.nothing(len(boxes), self.target.outputs, boxes.shape[1])
        centre, around = difference
        base = centre.basis
        last = base.degrees == base.degree  # (C,)
        mid, rad = np.where(last, around.mid, centre.mid), np.where(last, around.rad, centre.rad)  # (B, m, C)
        reach = reaches(base, boxes.radius)[:, None]  # (B, 1, C)
        roundings = 8 * (base.degree + base.size)
        with np.errstate(invalid="ignore", over="ignore", under="ignore"):
            scaled = mid * reach
            off = rad * reach + sum_error(np.abs(scaled), roundings) + TINY * np.abs(mid)  # reach has TINY to spare
            bound = largest_value(base, scaled) + rounded_up(off.sum(axis=2), roundings)  # (B, m)
            bound = bound + 4 * base.size * SMALLEST  # a few products for each coefficient may underflow
            rest = ((np.abs(scaled) + rad * reach) * last).max(axis=1) @ base.exponents  # (B, D)
            at = np.abs(mid[..., 0]).max(axis=1)  # (B,)
        exists = np.isfinite(around.rad).all(axis=2)  # (B, m), on the whole box, as Taylor's theorem needs
        bound = np.where(exists & ~np.isnan(bound), bound, np.inf)
        known = np.isfinite(rest) & np.isfinite(bound).all(axis=1, keepdims=True)
        return Expanded(bound, at, np.where(known, rest, 0.0))

    def _difference(self, boxes: Interval, focus: tuple[Focus, ...]) -> Pair | None:
        """Series of network minus target at the centres of boxes (B, D) and over them, (B, m) each, if there are."""
        count, shape = len(boxes), (len(boxes), *self.network.shape_in)
        both = variables(join([Interval(boxes.mid), boxes]), self.degree)  # (2B, D)
        with np.errstate(over="ignore", invalid="ignore", under="ignore"):
            target = self.target.jets(both)  # (2B, m)
            if target is None:
                return None
            tokens = (both[:count].reshape(shape), both[count:].reshape(shape))
            points, remaining = boxes.mid.reshape(shape), iter(focus)
            for layer, banks in zip(self.network.layers, self.banks, strict=True):
                if isinstance(layer, Attention):
                    tokens, points = attend(layer, banks, tokens, points, next(remaining), boxes.radius)
                else:
                    tokens, points = (push(layer, tokens[0]), push(layer, tokens[1])), apply(layer, points)
            return tokens[0].reshape(count, -1) - target[:count], tokens[1].reshape(count, -1) - target[count:]


def _most_pairs(network: Network) -> int:
    """Pairs of data tokens of which one attends to the other, in the layer that has most."""
    length, most = network.rows, 0
    for layer in network.layers:
        if isinstance(layer, Attention) and layer.attends_data:
            most = max(most, length**2)
        length = layer.length_out(length)
    return most


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
    weights = exp(tokens - tokens.mid[..., 0].max(axis=2, keepdims=True))
    total = weights.sum(2).reshape(*tokens.shape[:2], 1)
    return divide(weights, total)


def attend(
    layer: Attention, banks: list[EnclosedBank], tokens: Pair, points: Floats, focus: Focus, radius: Floats
) -> tuple[Pair, Floats]:
    """Series of attention over the tokens in play, (B, n, d) -> (B, n, o), and the images of the centres."""
    closed = tokens[0].degree <= 1 and not layer.attends_data
    heads: tuple[list[Jet], ...] = ([],) if closed else ([], [])
    images = []
    for head, bank in enumerate(banks):
        rows = np.flatnonzero(~focus.rests[:, head])
        image = np.zeros((*points.shape[:2], bank.values.shape[1]))  # (B, n, v)
        averages = tuple(_at_rest(tokens[0].basis, image.shape, bank) for _ in heads)
        if len(rows):
            bench = _Bench(layer, head, bank, points[rows], focus.take(rows))
            awake = tokens[0][rows], tokens[1][rows]
            found = (bench.polynomials(awake[0], radius[rows]),) if closed else bench.series(awake)
            known = tuple(_with_tail(each, focus.tail[rows, head], bank) for each in found)
            whole = len(rows) == len(points)
            averages = known if whole else tuple(map(partial(_placed, rows), known, averages))
            image[rows] = bench.image
        for collection, average in zip(heads, averages, strict=True):
            collection.append(average)  # (B, n, v)
        images.append(image)
    flat, bias = layer.output.reshape(-1, layer.width_out), layer.output_bias  # (H*v, o), (o,)
    image = np.concatenate(images, axis=2) @ flat + bias
    out = [join_jets(part, axis=2).linear(flat, bias) for part in heads]  # (B, n, o)
    at, over = (out[0], recentred(out[0], reaches(out[0].basis, radius))) if closed else out
    if layer.residual:
        return (at + tokens[0], over + tokens[1]), image + points
    return (at, over), image


def _at_rest(base: Basis, shape: tuple[int, ...], bank: EnclosedBank) -> Jet:
    """Series (B, n, v) of a head that is at most `still`: at any one point it is a number of that size [T 9.14]."""
    return Jet.constant(base, Interval(np.full(shape, -bank.still), np.full(shape, bank.still)))


def _placed(rows: Integers, some: Jet, every: Jet) -> Jet:
    """Series on some boxes among those on all of them, which are constants."""
    mid, rad = every.mid.copy(), every.rad.copy()
    mid[rows], rad[rows] = some.mid, some.rad
    return Jet(some.basis, mid, rad, some.degree)


def _with_tail(average: Jet, tail: Floats, bank: EnclosedBank) -> Jet:
    """Series (B, n, v) that hold whatever the tail (B, n) of dropped tokens does."""
    share = tail[..., None, None]  # (B, n, 1, 1)
    rad = average.rad + share * (np.abs(average.mid) + average.rad) + np.where(share > 0, SMALLEST, 0.0)
    rad[..., 0] += share[..., 0] * np.maximum(np.abs(bank.highest), np.abs(bank.lowest))
    return Jet(average.basis, average.mid, rounded_up(rad, 6), average.degree)


class _Bench:
    """One head on a batch of boxes: its memory tokens in play, seen from the centres (points (B, n, d))."""

    def __init__(self, layer: Attention, head: int, bank: EnclosedBank, points: Floats, focus: Focus) -> None:
        self.layer, self.head, self.bank, self.points, self.active = layer, head, bank, points, focus.active
        self.image = np.empty((*points.shape[:2], bank.values.shape[1]))  # (B, n, v), averages at the centres

    def view(self, rows: Integers) -> _HeadView:
        """The tokens in play on some of the boxes; notes the image of their centres."""
        view = _view(self.layer, self.head, self.bank, self.points[rows], *self.active.padded(rows))
        self.image[rows] = view.image
        return view

    def polynomials(self, at: Jet, radius: Floats) -> Jet:
        """Averages (B, n, v) in closed form, for scores affine in x; by compiled loops where sums are long."""
        base = at.basis
        moments = self._by_lists(at, radius) if base.variables > 1 else self._padded(at, radius)
        return moments.average(base, reaches(base, radius))

    def _by_lists(self, at: Jet, radius: Floats) -> Moments:
        query = at.linear(self.layer.query[self.head], self.layer.query_bias[self.head])  # (B, n, k)
        affine = slice(0, 1 + at.basis.variables)
        ends = np.cumsum(self.active.lengths * self.points.shape[1]) // LISTED
        parts = []
        for rows in np.split(np.arange(len(ends)), np.flatnonzero(np.diff(ends)) + 1):
            queries = query.mid[rows][..., affine], query.rad[rows][..., affine]  # (R, n, k, 1+D)
            lists = self.active.take(rows)
            moments, self.image[rows] = Moments.of_lists(at.basis, lists, self.bank, queries, radius[rows])
            parts.append(moments)
        return Moments.join(parts)

    def _padded(self, at: Jet, radius: Floats) -> Moments:
        """The same in NumPy; boxes with lists of similar length go together."""
        base, lengths = at.basis, self.active.lengths
        order = np.argsort(lengths, kind="stable")
        cost = np.maximum(lengths[order], 1) * base.size * self.points.shape[1]
        parts, start = [], 0
        while start < len(order):
            room = int(np.searchsorted(cost[start:] * np.arange(1, len(order) - start + 1), CACHE))
            rows = order[start : start + max(1, room)]
            view = self.view(rows)
            scores = _scores(self.layer, self.head, view, at[rows])
            values = view.values, view.value_radius
            parts.append(Moments.of(base, scores, values, view.real, radius[rows]))
            start += len(rows)
        return Moments.join(parts).take(np.argsort(order, kind="stable"))

    def series(self, tokens: Pair) -> tuple[Jet, ...]:
        """Averages (B, n, v) at the centres and over the boxes, whatever the series of the tokens."""
        view, averages = self.view(np.arange(len(self.points))), []
        for jet in tokens:
            total, mass = _sums(self.layer, self.head, view, jet)
            if self.layer.attends_data:
                total, mass = _with_data(self.layer, self.head, view, jet, total, mass)
            averages.append(divide(total, mass.reshape(*mass.shape, 1)))
        return tuple(averages)


@dataclass(frozen=True, eq=False)
class _HeadView:
    """The memory tokens in play, as one head sees them from the centres of a chunk of boxes.

    The reference key is the average of all keys, data tokens included, under the weights at the centre.
    """

    relative: Floats  # (B, n, T, k), keys minus the reference key
    reference: Floats  # (B, n, k)
    key_radius: Floats  # (B, 1, T, k)
    values: Floats  # (B, T, v)
    value_radius: Floats  # (B, T, v)
    image: Floats  # (B, n, v), the average value at the centre, not rigorous
    real: npt.NDArray[np.bool_]  # (B, 1, T)


def _view(
    layer: Attention, head: int, bank: EnclosedBank, points: Floats, index: Integers, real: npt.NDArray[np.bool_]
) -> _HeadView:
    q = points @ layer.query[head] + layer.query_bias[head]  # (B, n, k)
    keys = bank.keys[index]  # (B, T, k)
    scores, values = np.where(real[:, None], q @ np.swapaxes(keys, 1, 2), -1e300), bank.values[index]
    every, answers = keys, values
    if layer.attends_data:
        data = points @ layer.key[head] + layer.key_bias[head]  # (B, n, k)
        scores = np.concatenate([scores, q @ np.swapaxes(data, 1, 2)], axis=2)  # (B, n, T+n)
        every = np.concatenate([keys, data], axis=1)
        answers = np.concatenate([values, points @ layer.value[head] + layer.value_bias[head]], axis=1)
    share = softmax(scores)
    reference = share @ every  # (B, n, k)
    return _HeadView(
        relative=keys[:, None] - reference[:, :, None],
        reference=reference,
        key_radius=bank.key_radius[index][:, None],
        values=values,
        value_radius=bank.value_radius[index],
        image=share @ answers,
        real=real[:, None],
    )


def _scores(layer: Attention, head: int, view: _HeadView, tokens: Jet) -> tuple[Floats, Floats]:
    """Coefficients of `(k_j - k̄)·q` up to the degree of the tokens, at least 1, and their radii; (B, n, T, .)."""
    q = tokens.linear(layer.query[head], layer.query_bias[head])  # (B, n, k)
    known = q.basis.count(max(q.degree, 1))
    roundings = view.relative.shape[3] + 6
    mid, off = q.mid[..., :known], q.rad[..., :known]
    rad = sum_error(np.abs(view.relative) @ np.abs(mid), roundings) + np.abs(view.relative) @ off
    rad += view.key_radius @ (np.abs(mid) + off)
    return view.relative @ mid, rounded_up(rad, roundings) + TINY


def _sums(layer: Attention, head: int, view: _HeadView, tokens: Jet) -> tuple[Jet, Jet]:
    """Series of `Σ_j e^{s_j} v_j` (B, n, v) and `Σ_j e^{s_j}` (B, n), whatever the series of the scores."""
    base = tokens.basis
    scores = [np.zeros((base.size, *view.relative.shape[:3])) for _ in range(2)]  # (C, B, n, T)
    for whole, known in zip(scores, _scores(layer, head, view, tokens), strict=True):
        whole[: known.shape[3]] = np.moveaxis(known, -1, 0)
    mid, rad = (np.moveaxis(part, 0, -1) for part in scores)  # (B, n, T, C)
    weights = exp(Jet(base, mid, rad, max(tokens.degree, 1)))  # (B, n, T)
    absent = ~np.broadcast_to(view.real, weights.shape)
    weights.mid[absent] = weights.rad[absent] = 0.0
    roundings = view.values.shape[1] + 4
    across, spread = (np.swapaxes(part, 1, 2)[:, None] for part in (view.values, view.value_radius))  # (B, 1, v, T)
    rad = np.abs(across) @ (weights.rad + sum_error(np.abs(weights.mid), roundings))
    rad += spread @ (np.abs(weights.mid) + weights.rad)
    return Jet(weights.basis, across @ weights.mid, rounded_up(rad, roundings) + TINY), weights.sum(2)


def _with_data(layer: Attention, head: int, view: _HeadView, tokens: Jet, total: Jet, mass: Jet) -> tuple[Jet, Jet]:
    """Add the data tokens, whose keys and values depend on x too."""
    q = tokens.linear(layer.query[head], layer.query_bias[head])  # (B, n, k)
    key = tokens.linear(layer.key[head], layer.key_bias[head])  # (B, n, k)
    value = tokens.linear(layer.value[head], layer.value_bias[head])  # (B, n, v)
    batch, length = tokens.shape[:2]
    apart = key.reshape(batch, 1, length, -1) - view.reference[:, :, None]  # (B, n, n, k)
    weights = exp(multiply(apart, q.reshape(batch, length, 1, -1)).sum(3))  # (B, n, n)
    mixed = multiply(weights.reshape(batch, length, length, 1), value.reshape(batch, 1, length, -1))
    return total + mixed.sum(2), mass + weights.sum(2)
