"""Enclosures of attention on many boxes at once.

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
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..interval import Interval, join
from ..interval.directed import ULP, above
from ..network import Attention
from ..network.reference import softmax
from .mixture import exponentials, largest_average
from .ragged import Integers, Ragged

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

NEGLIGIBLE = 60.0
"""A token whose score is surely this far below another's leaves the list; its mass joins the tail."""
ENTRIES = 2**21
"""Numbers in the largest temporary array."""


@dataclass(frozen=True, eq=False)
class Region:
    """A batch of boxes on its way through a network: intervals, and the image of each box's centre in plain floats."""

    tokens: Interval  # (B, n, d)
    points: Floats  # (B, n, d)

    def take(self, rows: Integers) -> Region:
        """Some of the boxes."""
        return Region(self.tokens[rows], self.points[rows])

    @classmethod
    def join(cls, parts: list[Region]) -> Region:
        """Several batches as one."""
        return cls(join([part.tokens for part in parts]), np.concatenate([part.points for part in parts]))


@dataclass(frozen=True, eq=False)
class Focus:
    """For each box of a batch, the memory tokens of one attention layer still in play, and the tail of the others."""

    active: Ragged
    tail: Floats  # (B, H, n)

    def take(self, rows: Integers) -> Focus:
        """The same for some of the boxes."""
        return Focus(self.active.take(rows), self.tail[rows])

    @classmethod
    def join(cls, parts: list[Focus]) -> Focus:
        """Several batches as one."""
        return cls(Ragged.join([part.active for part in parts]), np.concatenate([part.tail for part in parts]))


@dataclass(frozen=True, eq=False)
class Bank:
    """Keys and values of one head's memory tokens, with bounds on how far these floats are from the real ones."""

    keys: Floats  # (M, k)
    key_radius: Floats  # (M, k)
    values: Floats  # (M, v)
    value_radius: Floats  # (M, v)

    @classmethod
    def of(cls, layer: Attention, head: int) -> Bank:
        """Project the memory."""
        keys = _project(layer.memory, layer.key[head], layer.key_bias[head])
        return cls(*keys, *_project(layer.memory, layer.value[head], layer.value_bias[head]))

    @property
    def highest(self) -> Floats:
        """Largest value over all tokens, (v,)."""
        return (self.values + self.value_radius).max(axis=0, initial=-np.inf)

    @property
    def lowest(self) -> Floats:
        """Smallest value over all tokens, (v,)."""
        return (self.values - self.value_radius).min(axis=0, initial=np.inf)


def attend(layer: Attention, banks: list[Bank], region: Region, focus: Focus) -> tuple[Region, Focus]:
    """Attention on a batch, in chunks of boxes with lists of similar length."""
    lengths = focus.active.lengths
    order = np.argsort(lengths, kind="stable")
    cost = np.maximum(lengths[order], 1) * region.points.shape[1] * layer.query.shape[2]
    done, start = [], 0
    while start < len(order):
        room = int(np.searchsorted(cost[start:] * np.arange(1, len(order) - start + 1), ENTRIES))
        rows = order[start : start + max(1, room)]
        done.append(_attend_chunk(layer, banks, region.take(rows), focus.take(rows)))
        start += len(rows)
    back = np.argsort(order, kind="stable")
    return Region.join([part for part, _ in done]).take(back), Focus.join([part for _, part in done]).take(back)


def _attend_chunk(layer: Attention, banks: list[Bank], region: Region, focus: Focus) -> tuple[Region, Focus]:
    index, real = focus.active.padded(np.arange(len(region.points)))  # (B, T)
    kept = np.zeros(real.shape, dtype=bool)
    tails, upper, lower, centre = [], [], [], []
    for head, bank in enumerate(banks):
        keys = _gather(layer, head, bank, region, index, real)
        stays, tail = keys.narrow(focus.tail[:, head])
        kept |= stays
        tails.append(tail)
        upper.append(keys.largest(tail, bank.highest))
        lower.append(-keys.mirrored().largest(tail, -bank.lowest))
        centre.append(keys.weights @ keys.at)
    heads = Interval(np.stack(lower, 2), np.stack(upper, 2), region.tokens.defined.all())  # (B, n, H, v)
    flat = layer.output.reshape(-1, layer.width_out)  # (H*v, o)
    out = heads.reshape(*heads.shape[:2], -1) @ flat + layer.output_bias  # (B, n, o)
    at = np.stack(centre, 2).reshape(*heads.shape[:2], -1) @ flat + layer.output_bias
    if layer.residual:
        out, at = out + region.tokens, at + region.points
    return Region(out, at), Focus(Ragged.from_padded(index, kept), np.stack(tails, 1))


@dataclass(eq=False)
class _Keys:
    """The keys that one head sees from a chunk of boxes: T memory tokens in play, then the data tokens."""

    low: Floats  # (B, n, T'), bounds on relative scores
    high: Floats  # (B, n, T')
    values: Interval  # (B, 1, T', v)
    at: Floats  # (B, T', v), values at the centre
    weights: Floats  # (B, n, T'), weights at the centre, not rigorous
    real: Flags  # (B, T)

    def narrow(self, tail: Floats) -> tuple[Flags, Floats]:
        """Drop memory tokens that cannot matter: those that stay (B, T), and the new tail (B, n)."""
        memory = self.real.shape[1]
        gap = self.low.max(axis=2, keepdims=True) - self.high[:, :, :memory]
        stays = (gap < NEGLIGIBLE).any(axis=1) & self.real  # (B, T): a token stays if any query token needs it
        leaves = (self.real & ~stays)[:, None]
        share = np.where(leaves, np.exp(-np.where(leaves, gap, 0.0)) * (1 + 1e-12) + 1e-300, 0.0)
        share = share.sum(axis=2) * (1 + 2 * memory * ULP)  # (B, n)
        self.low[:, :, :memory][np.broadcast_to(leaves, gap.shape)] = -np.inf
        self.high[:, :, :memory][np.broadcast_to(leaves, gap.shape)] = -np.inf
        return stays, (tail * (1 + share) + share) * (1 + 4 * ULP)

    def largest(self, tail: Floats, extreme: Floats) -> Floats:
        """Upper bound on the average value, (B, n, v); `extreme` is the largest value of any dropped token."""
        light, heavy = exponentials(self.low, self.high)
        columns = []
        for column, most in enumerate(extreme):
            average = largest_average(light, heavy, np.broadcast_to(self.values.hi[..., column], light.shape))
            lift = tail * np.maximum(above(most - average), 0.0) * (1 + 4 * ULP)
            columns.append(above(average + lift))
        return np.stack(columns, axis=2)

    def mirrored(self) -> _Keys:
        """The same keys with all values negated."""
        return _Keys(self.low, self.high, -self.values, -self.at, self.weights, self.real)


def _gather(layer: Attention, head: int, bank: Bank, region: Region, index: Integers, real: Flags) -> _Keys:
    """Relative scores and values of the keys in play."""
    q = region.tokens @ layer.query[head] + layer.query_bias[head]  # (B, n, k)
    q_at = region.points @ layer.query[head] + layer.query_bias[head]  # (B, n, k)
    keys, radius = bank.keys[index], bank.key_radius[index]  # (B, T, k)
    score_at = np.where(real[:, None], q_at @ np.swapaxes(keys, 1, 2), -np.inf)  # (B, n, T)
    values = Interval(bank.values[index] - bank.value_radius[index], bank.values[index] + bank.value_radius[index])
    at = bank.values[index]  # (B, T, v)
    share = np.exp(score_at - np.maximum(score_at.max(axis=2, keepdims=True), -1e300))
    reference = share @ keys / np.maximum(share.sum(axis=2, keepdims=True), 1e-300)  # (B, n, k)
    low, high = _relative_scores(keys, radius, reference, q)
    low, high = np.where(real[:, None], low, -np.inf), np.where(real[:, None], high, -np.inf)
    if layer.attends_data:
        data_key = region.tokens @ layer.key[head] + layer.key_bias[head]  # (B, n, k)
        data_key_at = region.points @ layer.key[head] + layer.key_bias[head]
        data_value = region.tokens @ layer.value[head] + layer.value_bias[head]  # (B, n, v)
        data_value_at = region.points @ layer.value[head] + layer.value_bias[head]
        difference = data_key.reshape(len(index), 1, *data_key.shape[1:]) - reference[:, :, None]  # (B, n, n, k)
        data = (difference * q.reshape(*q.shape[:2], 1, -1)).sum(axis=3)  # (B, n, n)
        low, high = np.concatenate([low, data.lo], axis=2), np.concatenate([high, data.hi], axis=2)
        values = join([values, data_value], axis=1)  # (B, T + n, v)
        at = np.concatenate([at, data_value_at], axis=1)  # (B, T + n, v)
        score_at = np.concatenate([score_at, q_at @ np.swapaxes(data_key_at, 1, 2)], axis=2)
    return _Keys(low, high, values.reshape(len(index), 1, *values.shape[1:]), at, softmax(score_at), real)


def _relative_scores(keys: Floats, radius: Floats, reference: Floats, q: Interval) -> tuple[Floats, Floats]:
    """Bounds on `(k_j - k̄)·q` over each box, (B, n, T), in midpoint and radius form."""
    relative = keys[:, None] - reference[:, :, None]  # (B, n, T, k)
    size = np.abs(relative)
    mid, reach = q.mid[:, :, None], (np.abs(q.mid) + q.radius)[:, :, None]  # (B, n, 1, k)
    slack = (size.shape[3] + 6) * ULP * (size * reach).sum(axis=3) + 1e-300
    slack = slack + (radius[:, None] * reach).sum(axis=3) * (1 + 1e-12)
    score = (relative * mid).sum(axis=3)
    spread = (size * q.radius[:, :, None]).sum(axis=3) + slack
    return score - spread, score + spread


def _project(memory: Floats, weight: Floats, bias: Floats) -> tuple[Floats, Floats]:
    """`memory @ weight + bias` and a bound on its rounding error, zero where `weight` only selects features."""
    result = memory @ weight + bias
    selects = ((weight != 0).sum(axis=0) <= 1).all() and np.isin(weight, (0.0, 1.0)).all() and not bias.any()
    if selects:
        return result, np.zeros_like(result)
    return result, (len(weight) + 4) * ULP * (np.abs(memory) @ np.abs(weight) + np.abs(bias))
