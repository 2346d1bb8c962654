"""Enclosures of attention on many boxes at once [T 9.7].

Scores enter softmax only through their differences. For each box and query token, subtract a reference
key `k̄` (the average key under the weights at the centre of the box; any vector is legal): the score of
token j becomes `(k_j - k̄)·q`, whose interval over the box is narrow for the tokens that matter.

Tokens that cannot matter on a box cannot matter on its parts. Each box therefore carries a list of the memory
tokens still in play and a bound `tail` on the total weight of all others, as a fraction of the weight Z of those in
play. If a cut drops tokens whose scores are surely below that of one kept token by g_j, then

    Σ_dropped e^{s_j} <= Σ_j e^{-g_j} Z =: φ Z,

and an inherited tail τ, a fraction of at most Z + φZ, becomes `τ (1 + φ) + φ`. The average over all tokens is
`(1 - λ) y + λ v` with y the average over those in play, v between the least and the largest value, and `λ <= τ`. Lists
shrink as boxes are cut, so the work per box is that of a few tokens, whatever N is.

The same goes for the weights that the deployed network computes, with a tail of its own: a dropped token counts with
what its score and that of the kept token are off, and no other score's error matters [T 10.2]. So steep tokens, whose
scores are far off and far behind, cost nothing where they do not matter. Their values as computed may lie far
beyond the real ones (sums that cancel): they count with the computed share of all tokens out of play.

The distance of a value from the average y, which rounding is proportional to, is taken at one point of the box, not
from the ranges of both over the box: `|v_j - y| <= Σ_i w_i |v_j - v_i| <= (1 - w_j) spread` [T 10.6]. So a token with
nearly all the weight is near the average, however much its value varies over the box.

**Heads at rest.** A chain of heads (`pieces/chains.py`) has many of which each is zero but on its own stretch. If on a
box the average of a head, and what rounding may add to it, are at most S, so they are on every part of the box
[T 9.14]. From there on that is all that is said of the head: it is at rest, its tokens join no list, and boxes cost no
more where there are more heads.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, join
from ..arithmetic.directed import SMALLEST, above, exp_up, expm1_up, rounded_up, sum_down, sum_error, sum_up
from ..arithmetic.formats import Format
from ..arithmetic.rounding import (
    INPUT,
    MOST_DOUBT,
    OWN,
    ROUNDINGS,
    Column,
    HeadSizes,
    computed_gap,
    head_error,
    key_sum_error,
    linear_error,
    score_error,
    weight_doubt,
    with_sum,
)
from ..network import Attention
from ..network.layers import selects
from ..network.reference import softmax
from .mixture import exponentials, largest_average
from .ragged import Integers, Ragged
from .scaling import scaling_roundings

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NEGLIGIBLE = 60.0
"""A token whose score is surely this far below another's leaves the list; its mass joins the tail. (At most: a proof
with a goal in float64 may make do with less, `EnclosedBank.gap`.)"""
TAIL_SHARE = 1e-3
"""The share of a proof's goal that tails may take."""
FAINT = math.exp(-NEGLIGIBLE)
"""Weight of such a token beside the other's, at most."""
HOPELESS = 200.0
"""A tail of 1 or more says nothing, however large it is: larger exponents count as this one."""
ENTRIES = 2**21
"""Numbers in the largest temporary array."""


@dataclass(frozen=True, eq=False)
class BoxBatch:
    """A batch of boxes on its way through a network: intervals, and the image of each box's centre in plain floats."""

    tokens: Interval  # (B, n, d)
    points: Floats  # (B, n, d)
    error: Floats  # (B, n, d, 2): how far the deployed network may be off, because of its input and of its own rounding

    def take(self, rows: Integers) -> BoxBatch:
        """Some of the boxes."""
        return BoxBatch(self.tokens[rows], self.points[rows], self.error[rows])

    @classmethod
    def join(cls, parts: list[BoxBatch]) -> BoxBatch:
        """Several batches as one."""
        tokens = join([part.tokens for part in parts])
        points, error = (np.concatenate([getattr(part, name) for part in parts]) for name in ("points", "error"))
        return cls(tokens, points, error)


@dataclass(frozen=True, eq=False)
class Focus:
    """For each box of a batch, the memory tokens of one attention layer still in play, and the tails of the others."""

    active: Ragged
    tails: Floats  # (B, H, n, 2), in real arithmetic and as computed
    rests: Flags  # (B, H), is the head at most `EnclosedBank.still` on the whole box, and what rounding adds to it?

    @property
    def tail(self) -> Floats:
        """In real arithmetic, (B, H, n)."""
        return self.tails[..., 0]

    def take(self, rows: Integers) -> Focus:
        """The same for some of the boxes."""
        return Focus(self.active.take(rows), self.tails[rows], self.rests[rows])

    @classmethod
    def join(cls, parts: list[Focus]) -> Focus:
        """Several batches as one."""
        tails, rests = (np.concatenate([getattr(part, name) for part in parts]) for name in ("tails", "rests"))
        return cls(Ragged.join([part.active for part in parts]), tails, rests)


@dataclass(frozen=True, eq=False)
class EnclosedBank:
    """Keys and values of one head's memory tokens, with bounds on how far these floats are from the real ones."""

    keys: Floats  # (M, k)
    key_radius: Floats  # (M, k)
    key_error: Floats  # (M, k)
    values: Floats  # (M, v)
    value_radius: Floats  # (M, v)
    value_error: Floats  # (M, v)
    gap: float
    """A token whose score is surely this far below another's leaves the list."""
    still: float = 0.0
    """A head is at rest where it is, and rounding makes it, at most this large; 0 if no head ever is."""

    @classmethod
    def of(cls, layer: Attention, head: int, arithmetic: Format, aim: float = 0.0, still: float = 0.0) -> EnclosedBank:
        """Project the memory; `_radius` is our own rounding, `_error` that of the deployed network.

        Where there is no memory, one row of zeros stands in; it is never in play. Tails may move the head's average by
        about `aim`.
        """
        memory = layer.memory if len(layer.memory) else np.zeros((1, layer.memory.shape[1]))
        keys = _project(memory, layer.key[head], layer.key_bias[head], arithmetic)
        values = _project(memory, layer.value[head], layer.value_bias[head], arithmetic)
        worth = len(memory) * float(np.abs(values[0]).max())
        enough = math.log(max(worth / aim, 1.0)) if aim > 0 else math.inf
        return cls(*keys, *values, min(NEGLIGIBLE, enough), still)

    @property
    def highest(self) -> Floats:
        """Largest value over all tokens, (v,)."""
        return (self.values + self.value_radius).max(axis=0, initial=-np.inf)

    @property
    def lowest(self) -> Floats:
        """Smallest value over all tokens, (v,)."""
        return (self.values - self.value_radius).min(axis=0, initial=np.inf)


def attend(
    layer: Attention, banks: list[EnclosedBank], region: BoxBatch, focus: Focus, arithmetic: Format
) -> tuple[BoxBatch, Focus]:
    """Attention on a batch, in chunks of boxes with lists of similar length."""
    lengths = focus.active.lengths
    order = np.argsort(lengths, kind="stable")
    cost = np.maximum(lengths[order], 1) * region.points.shape[1] * layer.query.shape[2]
    done, start = [], 0
    while start < len(order):
        room = int(np.searchsorted(cost[start:] * np.arange(1, len(order) - start + 1), ENTRIES))
        rows = order[start : start + max(1, room)]
        done.append(_attend_chunk(layer, banks, region.take(rows), focus.take(rows), arithmetic))
        start += len(rows)
    back = np.argsort(order, kind="stable")
    return BoxBatch.join([part for part, _ in done]).take(back), Focus.join([part for _, part in done]).take(back)


def _attend_chunk(
    layer: Attention, banks: list[EnclosedBank], region: BoxBatch, focus: Focus, arithmetic: Format
) -> tuple[BoxBatch, Focus]:
    boxes, length = region.points.shape[:2]
    index, real = focus.active.padded(np.arange(boxes))  # (B, T)
    kept, rests, tails = np.zeros(real.shape, dtype=bool), focus.rests.copy(), focus.tails.copy()
    averages, centres, errors = [], [], []
    for head, bank in enumerate(banks):
        shape = (boxes, length, bank.values.shape[1])
        low, high = np.full(shape, -bank.still), np.full(shape, bank.still)  # (B, n, v)
        error, centre = np.full((*shape, 2), bank.still), np.zeros(shape)
        rows = np.flatnonzero(~rests[:, head])
        if len(rows):
            keys = _gather(layer, head, bank, region.take(rows), index[rows], real[rows], arithmetic)
            stays, tail = keys.narrow(tails[rows, head], bank.gap, arithmetic)
            average, off = keys.average(tail, bank, arithmetic)
            low[rows], high[rows], error[rows], tails[rows, head] = average.lo, average.hi, off, tail
            centre[rows] = keys.weights @ keys.at
            largest = np.maximum(average.magnitude, off.max(axis=3)).max(axis=(1, 2))  # (R,)
            rests[rows, head] = (bank.still > 0) & (largest <= bank.still)
            kept[rows] |= stays & ~rests[rows, head, None]
        averages.append(Interval(low, high))
        errors.append(error)
        centres.append(centre)
    heads = join(averages, axis=2).reshape(*region.points.shape[:2], -1)  # (B, n, H*v)
    flat, bias = layer.output.reshape(-1, layer.width_out), layer.output_bias  # (H*v, o), (o,)
    out, at = heads @ flat + bias, np.concatenate(centres, axis=2) @ flat + bias  # (B, n, o)
    error = linear_error(
        np.concatenate(errors, axis=2), heads.magnitude, flat, bias, arithmetic, out.magnitude
    )  # (B, n, o, 2)
    if layer.residual:
        out, at, error = out + region.tokens, at + region.points, error + region.error
        error = with_sum(error, out.magnitude, np.array(1), arithmetic)
    return BoxBatch(out, at, error), Focus(Ragged.from_padded(index, kept), tails, rests)


@dataclass(eq=False)
class _Keys:
    """The keys that one head sees from a chunk of boxes: T memory tokens in play, then the data tokens."""

    low: Floats  # (B, n, T'), bounds on relative scores
    high: Floats  # (B, n, T')
    values: Interval  # (B, 1, T', v)
    at: Floats  # (B, T', v), values at the centre
    weights: Floats  # (B, n, T'), weights at the centre, not rigorous
    real: Flags  # (B, T)
    keys: int
    off: Floats  # (B, n, T'), how far scores may be off, up to a shift common to all
    own: Floats  # (B, n, T'), the same where the network's input is exact
    value_error: Floats  # (B, v, 2)

    def narrow(self, tails: Floats, least: float, arithmetic: Format) -> tuple[Flags, Floats]:
        """Drop memory tokens that cannot matter: those that stay (B, T), and the new tails (B, n, 2)."""
        memory = self.real.shape[1]
        leader = np.argmax(self.low, axis=2)[..., None]  # (B, n, 1), which stays
        gap = np.take_along_axis(self.low, leader, axis=2) - self.high[:, :, :memory]
        stays = (gap < least).any(axis=1) & self.real  # (B, T): a token stays if any query token needs it
        leaves = (self.real & ~stays)[:, None]
        either = self.off[:, :, :memory] + np.take_along_axis(self.off, leader, axis=2)  # (B, n, T)
        lifted = np.maximum(computed_gap(gap, either, self.keys, arithmetic), -HOPELESS)
        behind = np.where(leaves[..., None], np.stack([gap, lifted], axis=-1), 0.0)  # (B, n, T, 2)
        shares = sum_up(np.where(leaves[..., None], exp_up(-behind, 1), 0.0), axis=2)  # (B, n, 2)
        self.low[:, :, :memory][np.broadcast_to(leaves, gap.shape)] = -np.inf
        self.high[:, :, :memory][np.broadcast_to(leaves, gap.shape)] = -np.inf
        return stays, np.minimum(rounded_up(tails * (1 + shares) + shares, 3), math.exp(HOPELESS))

    def _doubts(self, off: Floats, rest: Floats, behind: Floats, arithmetic: Format) -> _Doubts:
        """From score errors (B, n, T'), relative to a token that surely has most of the weight, if there is one."""
        leader = np.argmin(rest, axis=2)[..., None]  # (B, n, 1)
        sure = np.take_along_axis(rest, leader, axis=2) <= 0.25
        shifted = off + np.take_along_axis(off, leader, axis=2)
        np.put_along_axis(shifted, leader, 0.0, axis=2)
        largest = off.max(axis=2, keepdims=True)
        eta = weight_doubt(np.where(sure, shifted, off), largest, behind, self.keys, arithmetic)
        with np.errstate(invalid="ignore"):
            far = self.low.max(axis=2, keepdims=True) - self.high - eta > NEGLIGIBLE + 1
        wild, present = ~(eta <= MOST_DOUBT), np.isfinite(self.high)
        faint = wild & far & present
        return _Doubts(np.where(wild, 0.0, eta), faint, (wild & ~far & present).any(axis=2))

    def average(self, tails: Floats, bank: EnclosedBank, arithmetic: Format) -> tuple[Interval, Floats]:
        """The range of the average value (B, n, v), and how far the deployed network may be off it (B, n, v, 2)."""
        light, heavy = exponentials(self.low, self.high)
        present, tail = np.isfinite(self.high), tails[..., 0]  # (B, n, T'), (B, n)
        behind = np.where(present, self.high.max(axis=2, keepdims=True) - self.low, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            most_weight = rounded_up(heavy / sum_down(light, axis=2, keepdims=True), 1) + SMALLEST
        most_weight = np.where(present, np.minimum(most_weight, 1.0), 0.0)  # (B, n, T')
        core = present & ~(most_weight <= arithmetic.unit)
        rest = _without(light, heavy)
        both = [self._doubts(np.where(present, part, 0.0), rest, behind, arithmetic) for part in (self.off, self.own)]
        doubts = [expm1_up(each.eta) for each in both]
        light_weights = np.where(core, 0.0, most_weight * (1 + doubts[0]))  # (B, n, T')
        light_weights = light_weights + np.where(both[0].faint, FAINT, 0.0)
        averages = [largest_average(light, heavy, each.eta) for each in both]  # (B, n) each
        averages = [
            rounded_up(mean + each.faint.sum(axis=2) * FAINT, ROUNDINGS)
            for mean, each in zip(averages, both, strict=True)
        ]
        sizes = HeadSizes(
            doubt=np.where(both[0].lost, MOST_DOUBT, averages[0]),
            doubt_own=np.where(both[1].lost, MOST_DOUBT, averages[1]),
            tail=tail,
            computed_tail=tails[..., 1],
            in_play=present.sum(axis=2),
            core=core.sum(axis=2),
            keys=self.keys,
        )
        ends, errors = [], []
        for column, (most, least) in enumerate(zip(bank.highest, bank.lowest, strict=True)):
            high, low = (np.broadcast_to(end[..., column], light.shape) for end in (self.values.hi, self.values.lo))
            upper = _lifted(largest_average(light, heavy, high), tail, most)  # (B, n)
            lower = -_lifted(largest_average(light, heavy, -low), tail, -least)
            apart = np.maximum(high - lower[..., None], upper[..., None] - low)  # (B, n, T')
            widest = np.where(present, high, -np.inf).max(axis=2) - np.where(present, low, np.inf).min(axis=2)  # (B, n)
            with np.errstate(invalid="ignore", over="ignore"):
                apart = np.fmin(apart, rounded_up(rest * above(widest)[..., None], 1))
            distances = apart, *(apart * doubt for doubt in doubts)
            spread, *draws = (rounded_up(largest_average(light, heavy, far), 4) for far in distances)
            drawn, drawn_own = (
                np.where(each.lost, np.inf, rounded_up(draw + sum_up(faint, axis=2) * FAINT, 4))
                for draw, each in zip(draws, both, strict=True)
                for faint in (np.where(each.faint, apart, 0.0),)  # (B, n, T')
            )
            size = np.maximum(np.abs(lower), np.abs(upper))
            lightest = rounded_up(sum_up(light_weights * (2 * size[..., None] + apart), axis=2), 6)
            known = Column(
                drawn=drawn,
                drawn_own=drawn_own,
                spread=spread,
                average=size,
                light=np.where(both[0].lost, np.inf, lightest),
                light_weight=rounded_up(sum_up(light_weights, axis=2), 3),
                osc=float(above(max(most, high.max()) - min(least, low.min()))),
                value_off=np.broadcast_to(self.value_error[:, None, column], (*size.shape, 2)),
                value_off_elsewhere=float(bank.value_error[:, column].max()),
            )
            ends.append(Interval(lower, upper))
            errors.append(head_error(sizes, known, arithmetic))
        return join(ends, axis=2, function=np.stack), np.stack(errors, axis=2)


@dataclass(frozen=True, eq=False)
class _Doubts:
    """How far computed weights are off: by factors `e^{±η_j}` [T 10.7]."""

    eta: Floats  # (B, n, T'), at most MOST_DOUBT
    faint: Flags  # (B, n, T'), is η_j larger, but `w_j e^{η_j}` at most FAINT, as it is far behind? η_j is 0 then
    lost: Flags  # (B, n), is η_j larger for any other token? Then nothing is known but the range of the values


def _without(light: Floats, heavy: Floats) -> Floats:
    """Upper bounds on `1 - w_j`, the weight of all tokens but one, along the last axis; sums without differences."""
    before, after = (np.cumsum(part, axis=-1) for part in (heavy, heavy[..., ::-1]))
    others = np.zeros_like(heavy)
    others[..., 1:] += before[..., :-1]
    others[..., :-1] += after[..., -2::-1]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = rounded_up(others / (light + others), 2 * (heavy.shape[-1] + 4))
    return np.where(others > 0, np.minimum(share, 1.0), 0.0)


def _lifted(average: Floats, tail: Floats, extreme: float) -> Floats:
    """An upper bound on the average when a tail of tokens has values up to `extreme`."""
    return above(average + rounded_up(tail * np.maximum(above(extreme - average), 0.0), 1))


def _gather(
    layer: Attention, head: int, bank: EnclosedBank, region: BoxBatch, index: Integers, real: Flags, arithmetic: Format
) -> _Keys:
    """Relative scores and values of the keys in play, and the sizes that rounding depends on."""
    boxes = len(index)
    project = layer.query[head], layer.query_bias[head]
    q = region.tokens @ project[0] + project[1]  # (B, n, k)
    q_at = region.points @ project[0] + project[1]  # (B, n, k)
    q_error = linear_error(region.error, region.tokens.magnitude, *project, arithmetic, q.magnitude)  # (B, n, k, 2)
    q_size = q.magnitude + q_error.sum(axis=3)  # (B, n, k)

    keys, radius = bank.keys[index], bank.key_radius[index]  # (B, T, k)
    score_at = np.where(real[:, None], q_at @ np.swapaxes(keys, 1, 2), -np.inf)  # (B, n, T)
    every = keys
    if layer.attends_data:
        data_at = region.points @ layer.key[head] + layer.key_bias[head]  # (B, n, k)
        score_at = np.concatenate([score_at, q_at @ np.swapaxes(data_at, 1, 2)], axis=2)  # (B, n, T + n)
        every = np.concatenate([keys, data_at], axis=1)
    share = np.exp(score_at - np.maximum(score_at.max(axis=2, keepdims=True), -1e300))
    reference = share @ every / np.maximum(share.sum(axis=2, keepdims=True), 1e-300)  # (B, n, k)
    relative = keys[:, None] - reference[:, :, None]  # (B, n, T, k)
    low, high = _relative_scores(relative, radius, q)
    low, high = np.where(real[:, None], low, -np.inf), np.where(real[:, None], high, -np.inf)
    values = Interval(bank.values[index] - bank.value_radius[index], bank.values[index] + bank.value_radius[index])
    at, value_error = bank.values[index], bank.value_error[index].max(axis=1)  # (B, T, v), (B, v)
    value_error = np.stack([np.zeros_like(value_error), value_error], axis=-1)  # (B, v, 2)
    score = np.abs(q.mid @ np.swapaxes(keys, 1, 2)) + q.radius @ np.swapaxes(np.abs(keys), 1, 2)  # (B, n, T)
    score = score + q.magnitude @ np.swapaxes(radius, 1, 2)
    size, key_error = np.abs(keys), bank.key_error[index]  # (B, T, k)
    key_error = np.stack([np.zeros_like(key_error), key_error], axis=-1)  # (B, T, k, 2)

    if layer.attends_data:
        project = layer.key[head], layer.key_bias[head]
        data_key = region.tokens @ project[0] + project[1]  # (B, n, k)
        data_error = linear_error(
            region.error, region.tokens.magnitude, *project, arithmetic, data_key.magnitude
        )  # (B, n, k, 2)
        difference = data_key.reshape(boxes, 1, *data_key.shape[1:]) - reference[:, :, None]  # (B, n, n, k)
        data = (difference * q.reshape(*q.shape[:2], 1, -1)).sum(axis=3)  # (B, n, n)
        low, high = np.concatenate([low, data.lo], axis=2), np.concatenate([high, data.hi], axis=2)
        itself = data_key.reshape(boxes, 1, *data_key.shape[1:]) * q.reshape(*q.shape[:2], 1, -1)  # (B, n, n, k)
        score = np.concatenate([score, itself.sum(axis=3).magnitude], axis=2)  # (B, n, T + n)
        size = np.concatenate([size, data_key.magnitude], axis=1)  # (B, T + n, k)
        relative = np.concatenate([relative, difference.magnitude], axis=2)  # (B, n, T + n, k)
        key_error = np.concatenate([key_error, data_error], axis=1)
        project = layer.value[head], layer.value_bias[head]
        data_value = region.tokens @ project[0] + project[1]  # (B, n, v)
        values = join([values, data_value], axis=1)  # (B, T + n, v)
        at = np.concatenate([at, region.points @ project[0] + project[1]], axis=1)  # (B, T + n, v)
        data_error = linear_error(
            region.error, region.tokens.magnitude, *project, arithmetic, data_value.magnitude
        )  # (B, n, v, 2)
        value_error = np.maximum(value_error, data_error.max(axis=1))

    scaling, whole = scaling_roundings(layer), size + key_error.sum(axis=3)  # (B, T', k)
    exact = (q.radius == 0) & (q_error == 0).all(axis=3) & (np.abs(np.frexp(q.mid)[0]) == 0.5)  # (B, n, k)
    exact &= scaling == 0  # a power of two, scaled inexactly, is none
    moved = [(np.abs(relative) * q_error[:, :, None, :, part]).sum(axis=3) for part in (INPUT, OWN)]  # (B, n, T')
    by_keys = [q_size @ np.swapaxes(key_error[..., part], 1, 2) for part in (INPUT, OWN)]
    products = q_size @ np.swapaxes(whole, 1, 2)  # (B, n, T')
    if layer.keyed:
        held = list(layer.keyed)
        sums = key_sum_error(q_size[..., held] @ np.swapaxes(whole[..., held], 1, 2), len(held), arithmetic)
        by_keys[OWN], products = by_keys[OWN] + sums, products + sums
    inexact = np.where(exact, 0.0, q_size) @ np.swapaxes(whole, 1, 2)
    additions = np.maximum((whole > 0).sum(axis=2) - 1, 0)[:, None]  # (B, 1, T')
    features = q_size.sum(axis=2)[..., None] + whole.sum(axis=2)[:, None]  # (B, n, T')
    score = score + sum_error(products, 2 * q_size.shape[2] + 6)  # what our own sums are off
    carried = moved[INPUT] + moved[OWN] + by_keys[INPUT] + by_keys[OWN]  # (B, n, T')
    own = score_error(additions * products + inexact, products, score, carried, features, scaling, arithmetic)
    own = own + moved[OWN] + by_keys[OWN]
    own, off = (rounded_up(part, q_size.shape[2] + 8) for part in (own, own + moved[INPUT] + by_keys[INPUT]))
    count = len(bank.keys) + (layer.attends_data and q_size.shape[1])
    values = values.reshape(boxes, 1, *values.shape[1:])
    return _Keys(low, high, values, at, softmax(score_at), real, count, off, own, value_error)


def _relative_scores(relative: Floats, radius: Floats, q: Interval) -> tuple[Floats, Floats]:
    """Bounds on `(k_j - k̄)·q` over each box, (B, n, T), in midpoint and radius form."""
    size = np.abs(relative)  # (B, n, T, k)
    mid, reach = q.mid[:, :, None], (np.abs(q.mid) + q.radius)[:, :, None]  # (B, n, 1, k)
    count = size.shape[3]
    slack = sum_error((size * reach).sum(axis=3), count + 6) + 4 * count * SMALLEST
    slack = slack + rounded_up((radius[:, None] * reach).sum(axis=3), count + 4)
    score = (relative * mid).sum(axis=3)
    spread = (size * q.radius[:, :, None]).sum(axis=3) + slack
    return score - spread, score + spread


def _project(memory: Floats, weight: Floats, bias: Floats, arithmetic: Format) -> tuple[Floats, Floats, Floats]:
    """`memory @ weight + bias`, a bound on our rounding error in it, and one on the deployed network's."""
    result, size = memory @ weight + bias, np.abs(memory) @ np.abs(weight) + np.abs(bias)
    radius = np.where(selects(weight, bias), 0.0, sum_error(size, len(weight) + 4) + len(weight) * SMALLEST)
    error = linear_error(
        np.zeros((*memory.shape, 2)), np.abs(memory), weight, bias, arithmetic, np.abs(result) + radius
    )
    return result, radius, error[..., OWN]
