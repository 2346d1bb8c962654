"""Softmax of affine forms, and averages under its weights.

Weights depend on differences of scores alone, and forms of differences have what all scores share cancelled:

    p_i = 1 / Σ_j e^{s_j - s_i}.

Ranges of the differences bound the weights. Around the centre a weight is linear in the differences up to what the
products p_i p_j vary over the box [T 12.4]. An average of values under weights whose scores lie in a box is bounded by
the vertex rule [T 1.5], which knows that weights add up to one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import (
    SMALLEST,
    ULP,
    above,
    add_down,
    add_up,
    below,
    exp_down,
    exp_up,
    rounded_up,
    sum_down,
    sum_up,
)
from ..proofs.mixture import exponentials, largest_average
from .forms import SPARE, Form, Symbols, made, opened

Floats = npt.NDArray[np.float64]
MOST_ENTRIES = 2**24
"""Numbers in the largest temporary array."""
STAGES = 4
"""Parts of the way from the centre on which products of weights are bounded."""


@dataclass(frozen=True, eq=False)
class Weights:
    """What is known of numbers that softmax normalised: unnormalised weights (B, *S), and where each comes from."""

    light: Floats
    heavy: Floats
    off: Floats
    """How far a computed weight can be from the real one."""
    place: npt.NDArray[np.int64]
    """The number of the row that is normalised, times its length, plus the place in it; (1, *S)."""
    length: int

    def arranged(self, how: Callable[[Any], Any]) -> Weights:
        """Elements moved about."""
        return replace(self, light=how(self.light), heavy=how(self.heavy), off=how(self.off), place=how(self.place))

    @property
    def complete(self) -> bool:
        """Does the last axis hold whole rows everywhere, each element once?"""
        rows, places = np.divmod(np.sort(self.place.reshape(-1, self.place.shape[-1]), axis=1), self.length)
        whole = places.shape[1] == self.length and (places == np.arange(self.length)).all()
        return bool(whole and (rows == rows[:, :1]).all())


def gaps(scores: Form) -> tuple[Floats, Floats]:
    """`s_j - s_i` for scores (B, R, n) by the forms alone: centres and how far they can be off, (B, R, i, j) each."""
    count = scores.shape[-1]
    rows, symbols, groups = len(scores.centre), scores.terms.shape[1], scores.shape[0]
    centre = scores.centre[..., None, :] - scores.centre[..., :, None]
    reach = np.empty_like(centre)
    for i in range(count):
        if rows * symbols * groups * count > MOST_ENTRIES:
            spread = scores.spread + scores.spread[..., i : i + 1]
        else:
            spread = np.abs(scores.terms - scores.terms[..., i : i + 1]).sum(axis=1)
        sizes = scores.size + scores.size[..., i : i + 1]
        own = scores.slack + scores.slack[..., i : i + 1]
        reach[..., i, :] = rounded_up(spread + own + 4 * ULP * sizes, symbols + SPARE)
    places = np.arange(count)
    reach[..., places, places] = 0.0
    return centre, np.where(np.isnan(reach), np.inf, reach)


def ends(centre: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """The ends of intervals; those without reach are exact."""
    with np.errstate(invalid="ignore"):
        lo, hi = below(centre - reach), above(centre + reach)
    return np.where(reach == 0, centre, lo), np.where(reach == 0, centre, hi)


def differences(scores: Form, centre: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Ends of `s_j - s_i`, (B, R, i, j), by the forms and by the ends of the scores."""
    lo, hi = ends(centre, reach)
    lo = np.maximum(lo, add_down(scores.lo[..., None, :], -scores.hi[..., :, None]))
    hi = np.minimum(hi, add_up(scores.hi[..., None, :], -scores.lo[..., :, None]))
    places = np.arange(scores.shape[-1])
    lo[..., places, places] = hi[..., places, places] = 0.0
    return lo, hi


def weights_between(lo: Floats, hi: Floats) -> tuple[Floats, Floats]:
    """Bounds on the weights from ends of differences (B, R, i, j): (B, R, i) each."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        most, least = sum_up(exp_up(hi), axis=-1), sum_down(exp_down(lo), axis=-1)
        low = np.maximum(below(1.0 / most), 0.0)
        high = np.where(least >= 1, np.minimum(above(1.0 / least), 1.0), 1.0)
    return np.where(np.isfinite(most), low, 0.0), high


def softmax(scores: Form, symbols: Symbols) -> Form:
    """Softmax over the last axis of scores (B, R, n) [T 12.4]."""
    centre, reach = gaps(scores)
    lo, hi = weights_between(*differences(scores, centre, reach))
    slopes, left = _linear_part(scores, centre, reach)
    middle = lo / 2 + hi / 2
    flat = np.maximum(add_up(hi, -middle), add_up(middle, -lo))
    bent = np.isfinite(left) & (left < flat)  # where the line is worth more than the range
    slopes = np.where(bent[..., None], slopes, 0.0)
    low, high = weights_between(*ends(centre, 2 * ULP * np.abs(centre)))  # at the centre
    base = np.where(bent, low / 2 + high / 2, middle)
    off = np.where(bent, rounded_up(left + (high - low), 2), flat)
    moved = replace(applied(slopes, scores, base), lo=lo, hi=hi)
    return opened(moved, off, symbols)


def applied(slopes: Floats, scores: Form, base: Floats) -> Form:
    """`base_i + Σ_j slopes_ij (s_j - its centre)` for slopes (B, R, i, j) and scores (B, R, n).

    The ends are left open: callers add what the linear form leaves out.
    """
    moved = np.einsum("brij,bkrj->bkri", slopes, scores.terms, optimize=True)
    sizes = np.abs(slopes)
    with np.errstate(invalid="ignore"):
        slack = (sizes * np.where(sizes == 0, 0.0, scores.slack[..., None, :])).sum(axis=-1)
        spent = (sizes * np.where(sizes == 0, 0.0, scores.size[..., None, :])).sum(axis=-1)
    count = scores.shape[-1] + SPARE
    slack = slack + count * ULP * spent + count * (scores.terms.shape[1] + 1) * SMALLEST
    everything = np.full_like(base, np.inf)
    line = made(base, moved, rounded_up(slack, 2 * count), -everything, everything)
    return replace(line, lo=-everything, hi=everything)


def _linear_part(scores: Form, centre: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Coefficients of the scores (B, R, i, j) in a linear form of the weights, and what it leaves open (B, R, i).

    On the way from the centre to the scores, at the share t of it, differences are within t times their reach.
    """
    bounds = []
    with np.errstate(invalid="ignore", over="ignore"):
        for stage in range(1, STAGES + 1):
            room = reach * (stage / STAGES) + 4 * ULP * (np.abs(centre) + reach)
            bounds.append(products(*weights_between(*ends(centre, room))))
    slopes, left = lines(bounds, reach)
    diagonal = np.abs(np.diagonal(slopes, axis1=-2, axis2=-1))
    with np.errstate(invalid="ignore"):  # the diagonal is a sum: what it is off is not covered by differences
        off = np.where(diagonal == 0, 0.0, 2 * scores.shape[-1] * ULP * diagonal * scores.radius)
    return slopes, rounded_up(left + off + SMALLEST, SPARE)


def products(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds on p_i p_j, (B, R, i, j) each, from bounds on the weights."""
    return below(low[..., :, None] * low[..., None, :]), above(high[..., :, None] * high[..., None, :])


def lines(bounds: list[tuple[Floats, Floats]], reach: Floats) -> tuple[Floats, Floats]:
    """Slopes by the scores and what they leave open, from bounds on p_i p_j on equal parts of the way."""
    middle = np.sum([low + high for low, high in bounds], axis=0) / (2 * len(bounds))
    open_ = np.sum([np.maximum(high - middle, middle - low) for low, high in bounds], axis=0) / len(bounds)
    with np.errstate(invalid="ignore"):
        left = np.where(reach == 0, 0.0, open_ * reach).sum(axis=-1)
    slopes, places = -middle, np.arange(reach.shape[-1])
    slopes[..., places, places] = 0.0
    slopes[..., places, places] = -slopes.sum(axis=-1)
    return slopes, rounded_up(left, reach.shape[-1] + 2 * SPARE)


def averages(weights: Weights, values: Form) -> tuple[Floats, Floats]:
    """Ends of averages of values (B, .., n, m) under weights (B, .., l, n): (B, .., l, m) each [T 1.5]."""
    light, heavy = weights.light[..., :, None, :], weights.heavy[..., :, None, :]  # (B, .., l, 1, n)
    low, high = (np.swapaxes(end, -1, -2)[..., None, :, :] for end in (values.lo, values.hi))  # (B, .., 1, m, n)
    with np.errstate(invalid="ignore"):
        off = (weights.off[..., :, None, :] * np.maximum(np.abs(low), np.abs(high))).sum(axis=-1)
    off = rounded_up(np.where(np.isnan(off), np.inf, off), weights.length + 1)
    light, heavy, low, high = np.broadcast_arrays(light, heavy, low, high)
    unknown = np.logical_not((np.isfinite(low) & np.isfinite(high)).all(axis=-1, keepdims=True))
    low, high = np.where(unknown, 0.0, low), np.where(unknown, 0.0, high)
    unknown = unknown[..., 0]
    bottom, top = -largest_average(light, heavy, -low), largest_average(light, heavy, high)
    bottom, top = add_down(bottom, -off), add_up(top, off)
    return np.where(unknown, -np.inf, bottom), np.where(unknown, np.inf, top)


def weights_of(scores: Form, off: Floats) -> Weights:
    """What is known of the weights of scores (B, R, n) by their ends."""
    light, heavy = exponentials(scores.lo, scores.hi)
    groups, length = scores.shape
    return Weights(light, heavy, off, np.arange(groups * length).reshape(1, groups, length), length)
