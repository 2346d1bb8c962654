"""How far a network computed in floating point can be from the same network in real arithmetic, on one box [T 10].

Every feature carries one bound on what it is off as computed. The lemmas are those of docs/theory.md: sums in any order
(10.1), weights and averages (10.2, 10.6, 10.7), overflow (10.4), results that are stored in a coarser format (10.5). A
bound is infinite where a hypothesis does not hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, frexp, isqrt

import numpy as np
from flint import arb

from .files import Attention
from .formats import Format
from .models import total
from .ranges import INFINITE, ONE, ZERO, Range, down, larger, largest, smaller, smallest, up

MARGIN = arb("1.01")
"""Covers what is of higher order in at most `MOST` relative roundings."""
MOST = arb("0.005")
BLOCK = 512
"""Keys in a block of a streaming kernel, at least."""
MOST_DOUBT = 50
"""Beyond this η_j nothing is said but the range of the values."""
FAINT = 60
"""A token with larger η_j counts with e^{-60} if it is so far behind [T 10.7]."""
SCALED = 16
"""Stock attention scales queries and keys by the fourth root of the head's size, which is at most this."""
EXACT_SIZES = (1, 16)
"""Sizes of heads for which stock attention scales exactly."""


@dataclass(frozen=True, eq=False)
class Column:
    """The weights of one sum `Σ_i w_i x_i + b`, as far as rounding is concerned."""

    used: list[tuple[int, arb, bool]]
    """Places of weights that are not zero, their sizes, and whether a product with them is rounded."""
    bias: arb
    """Its size."""
    further: int = 0
    """Roundings of each term beside those of the sum."""
    reach: arb = ZERO
    """The largest factor that features may meet on their way; 0 if they meet none but the weights."""

    @classmethod
    def of(cls, weights: Sequence[float], bias: float) -> Column:
        """Of plain weights; products with powers of two from 1 on are exact."""
        used = [(k, arb(abs(w)), not (abs(w) >= 1 and abs(frexp(w)[0]) == 0.5)) for k, w in enumerate(weights) if w]
        return cls(used, arb(abs(bias)))


def moved(size: arb, format_: Format) -> arb:
    """How far rounding to the format moves a number of this size, which must not overflow."""
    return up(format_.grain * size + format_.lost) if fits(size, format_) else INFINITE


def linear(column: Column, sizes: Sequence[arb], errors: Sequence[arb], result: arb, format_: Format) -> arb:
    """What `Σ_i w_i x_i + b` is off as computed [T 10.1, 10.5].

    |x_i| is at most `sizes`, x_i is off by `errors`, and the sum is at most `result`.
    """
    products, carried, every, terms, inexact = ZERO, ZERO, ZERO, 0, False
    for place, weight, rounded in column.used:
        if sizes[place].is_zero() and errors[place].is_zero():
            continue
        terms, inexact = terms + 1, inexact or rounded
        products += weight * sizes[place]
        carried += weight * errors[place]
        every += sizes[place]
    shifted, whole = not column.bias.is_zero(), up(products + column.bias)
    heaviest = largest([weight for _, weight, _ in column.used])
    if not all(fits(each, format_) for each in (whole + carried, column.reach * (every + carried), heaviest)):
        return INFINITE
    roundings = max(terms + shifted - 1, 0) + inexact + column.further
    if not roundings or not terms:
        return up(carried)
    least = smaller(whole, result)
    base = least if roundings <= 1 else whole
    off = MARGIN * roundings * format_.unit * (base + carried) + (roundings + 1) * format_.tiny
    if column.further:
        off += format_.lost * every
    if not format_.store.is_zero():
        product = inexact or terms > 1
        times = int(product) + int(shifted) + column.further
        stored = smaller(up(least + column.bias), up(products)) if product else ZERO
        stored += (least if shifted else ZERO) + column.further * whole
        off += MARGIN * (format_.store * (stored + times * (carried + off)) + times * format_.lost)
    return INFINITE if roundings * format_.unit > MOST else up(carried + off)


def added(size: arb, errors: arb, format_: Format) -> arb:
    """What one more sum of numbers that are off by `errors` altogether is off, its result being at most `size`."""
    off = MARGIN * format_.unit * (size + errors) + 2 * format_.tiny
    if not format_.store.is_zero():
        off += MARGIN * (format_.store * (size + errors + off) + format_.lost)
    return up(errors + off) if fits(size + errors, format_) else INFINITE


def fits(size: arb, format_: Format, *, stored: bool = True) -> bool:
    """Are numbers of this size at most half of the largest [T 10.4]?"""
    return bool(MARGIN * size <= (format_.half if stored else format_.added.half))


def scaling_roundings(layer: Attention) -> int:
    """Roundings that scaling by the root of a head's size may add to a score."""
    return 0 if layer.stock_size in EXACT_SIZES else 4


@dataclass(frozen=True, eq=False)
class Query:
    """A query as computed: sizes and errors of its features, and which of them are exact powers of two."""

    sizes: list[arb]
    errors: list[arb]
    exact: list[bool]

    @cached_property
    def whole(self) -> list[arb]:
        """Sizes as computed."""
        return [up(a + b) for a, b in zip(self.sizes, self.errors, strict=True)]

    @cached_property
    def largest(self) -> arb:
        """The largest of them."""
        return largest(self.whole)


def score(
    query: Query, relative: Sequence[arb], sizes: Sequence[arb], errors: Sequence[arb], range_: arb, layer: Attention,
    format_: Format,
) -> arb:  # fmt: skip
    """A_j: what a score is off, up to a shift common to all tokens [T 10.2].

    `relative` holds |k_j - k̄|, `sizes` |k_j|, `errors` what the key is off, `range_` bounds |q·k_j|. Features that keys
    hold the sum of cost what that sum costs [T 10.8].
    """
    carried = products = inexact = features = ZERO
    terms, scaling = 0, scaling_roundings(layer)
    for q, off, exact, apart, size, error in zip(
        query.whole, query.errors, query.exact, relative, sizes, errors, strict=True
    ):
        key = size + error
        features += q + key
        carried += apart * off + q * error
        if key.is_zero() or q.is_zero():
            terms += not key.is_zero()
            continue
        terms += 1
        products += q * key
        inexact += ZERO if exact and not scaling else q * key
    if layer.keyed:
        held = total([query.whole[k] * (sizes[k] + errors[k]) for k in layer.keyed])
        sums = _held(up(held), len(layer.keyed), format_)
        carried, products = carried + sums, products + sums
    off = MARGIN * format_.unit * (max(terms - 1, 0) * products + inexact + scaling * products)
    if not format_.store.is_zero():
        times = 2 if scaling else 1
        kept = scaling * products + times * (smaller(up(range_), up(products)) + carried + off)
        off += MARGIN * (format_.store * kept + format_.lost * (times + SCALED * features))
    root = isqrt(layer.stock_size)  # stock attention holds queries times this
    stored = fits(root * larger(up(products), query.largest), format_)
    if not (stored and fits(2 * root * products, format_, stored=False)):
        return INFINITE
    return up(carried + off)


def _held(products: arb, terms: int, format_: Format) -> arb:
    """What a stored sum of so many products is off, their sizes adding up to `products`."""
    off = MARGIN * terms * format_.unit * products + (terms + 1) * format_.tiny
    if not format_.store.is_zero():
        off += MARGIN * (format_.store * (products + off) + format_.lost)
    return INFINITE if terms * format_.unit > MOST else up(off)


def doubt(score_error: arb, largest: arb, keys: int, format_: Format) -> arb:
    """ζ_j [T 10.2]."""
    blocks = ceil(keys / BLOCK)
    return MARGIN * (score_error + 2 * (blocks + 1) * format_.unit * largest + blocks * format_.exp_error)


def computed_share(count: int, gap: arb, error: arb, largest: arb, keys: int, format_: Format) -> arb:
    """The weight of `count` tokens whose scores are at least `gap` below the largest, as a fraction of the others'.

    As computed, such a token has at most `e^{-(1-u') gap + ζ_j + ζ}` times the weight of the leading one [T 10.2];
    scores of both are off by at most `error`, all scores by at most `largest`.
    """
    if not (error.is_finite() and largest.is_finite()):
        return INFINITE
    return up(count * (2 * doubt(error, largest, keys, format_) - (1 - MARGIN * format_.unit) * gap).exp())


def sums(tokens: int, largest: arb, share: arb, spread: arb, keys: int, format_: Format) -> arb:
    """Rounding of the sums of an average, all tokens in play being core [T 10.2, 10.5].

    So many of the keys are in play, with values of at most `largest`; the others have at most a share of the computed
    weights, and all values a spread.
    """
    blocks, whole = ceil(keys / BLOCK), up(largest + smaller(share, ONE) * spread)
    tail = smaller(up(arb("8.4") * share), up(2 * MARGIN * keys * format_.unit))
    off = MARGIN * (2 * tokens + 2 * blocks + 1) * format_.unit * largest
    off += tail * (whole + spread) + 2 * keys * format_.tiny * (1 + whole + spread)
    if not format_.store.is_zero():
        off += MARGIN * (format_.store * whole + keys * format_.lost * (whole + spread))
        off += MARGIN * (format_.store * (whole + off) + format_.lost)
    if keys * format_.unit > MOST or not fits(keys * (whole + spread), format_, stored=False):
        return INFINITE
    return up(off)


class Weights:
    """Unnormalised weights of tokens on a box: each lies in [L_j, U_j], L_j >= 0, the largest U_j about 1."""

    def __init__(self, low: list[arb], high: list[arb]) -> None:
        self.low, self.high = low, high
        self.top = top = largest(high)
        self.light = [down((end - top).exp()) for end in low]
        self.heavy = [up((end - top).exp()) for end in high]
        self.least = down(total(self.light))
        ends = [[float(each) for each in column] for column in (self.light, self.heavy)]
        self.rough = np.clip(ends, 1e-300, 1.0)  # (2, T)

    def largest_average(self, values: Sequence[arb]) -> arb:
        """An upper bound on the average of numbers, never more than the largest of them.

        For every z, `y <= z + max(Σ_j max(L_j (v_j - z), U_j (v_j - z)), 0) / Σ_j L_j`, because
        `(y - z) Σ_j W_j = Σ_j W_j (v_j - z)`. A good z is found in floats, by Dinkelbach's iteration.
        """
        most = largest(values)
        rough = np.array([float(value) for value in values])  # (T,)
        if not (np.isfinite(rough).all() and self.least > 0):
            return most
        light, heavy = self.rough
        pivot = float(light @ rough / light.sum())
        for _ in range(STEPS):
            chosen = np.where(rough > pivot, heavy, light)
            pivot = float(chosen @ rough / chosen.sum())
        z, gain = arb(pivot), ZERO
        for value, low, high in zip(values, self.light, self.heavy, strict=True):
            apart = up(value - z)
            gain += apart * (high if apart > 0 else low)
        return smaller(up(z + larger(up(gain), ZERO) / self.least), most)

    @cached_property
    def most(self) -> list[arb]:
        """Upper bounds on the normalised weights."""
        return [smaller(up(high / self.least), ONE) if self.least > 0 else ONE for high in self.heavy]

    @cached_property
    def without(self) -> list[arb]:
        """Upper bounds on `1 - w_j`: `S/(L_j + S)` with S the sum of all other U_i [T 10.6]."""
        every = total(self.heavy)
        others = [larger(up(every - high), ZERO) for high in self.heavy]
        return [
            smaller(up(rest / (low + rest)), ONE) if rest > 0 else ZERO
            for rest, low in zip(others, self.light, strict=True)
        ]


STEPS = 6
"""Steps of Dinkelbach's iteration."""


@dataclass(frozen=True, eq=False)
class HeadFacts:
    """What the error of a head depends on, apart from its values."""

    weights: Weights
    score_errors: list[arb]
    """A_j of the tokens in play."""
    largest_error: arb
    """Ā, over the tokens in play. The exponents of one token add up to its distance from the largest computed score,
    which is that of a token in play where the share of all others is below one half: errors of others do not count."""
    share: arb
    """τ: the weight of tokens out of play, as a fraction of the others'."""
    computed_share: arb
    """τ̂."""
    keys: int
    format: Format

    @cached_property
    def doubts(self) -> tuple[list[arb], list[bool], bool]:
        """η_j, relative to a leading token if there is one; which tokens are faint; whether nothing is known."""
        weights, format_ = self.weights, self.format
        leader = int(np.argmin([float(each) for each in weights.without]))
        sure = weights.without[leader] <= arb("0.25")
        front = largest(weights.low)
        etas, faint, lost = [], [], not self.computed_share <= arb("0.5")
        for place, (own, low, high) in enumerate(zip(self.score_errors, weights.low, weights.high, strict=True)):
            off = own if not sure else ZERO if place == leader else own + self.score_errors[leader]
            behind = up(weights.top - low)
            eta = up(doubt(off, self.largest_error, self.keys, format_) + MARGIN * format_.unit * behind)
            wild = not eta <= MOST_DOUBT
            far = wild and bool(front - high - eta > FAINT)
            lost = lost or (wild and not far)
            etas.append(ZERO if wild else eta)
            faint.append(far)
        return etas, faint, lost

    @cached_property
    def lifted(self) -> arb:
        """1/r: `e^H`, H the largest average of η_j."""
        etas, faint, _ = self.doubts
        return up((self.weights.largest_average(etas) + sum(faint) * arb(-FAINT).exp()).exp())

    def error(self, values: Sequence[Range], average: Range, spread: arb, off: arb, off_elsewhere: arb) -> arb:
        """What one average is off as computed [T 10.2].

        `values` and `average` are those of the tokens in play, `spread` that of all values; computed values are off by
        `off`, those of tokens out of play by `off_elsewhere`.
        """
        format_, keys, weights = self.format, self.keys, self.weights
        etas, faint, lost = self.doubts
        widest = self._widest(values)
        apart = [
            smaller(larger(up(v.high - average.low), up(average.high - v.low)), up(rest * widest))
            for v, rest in zip(values, weights.without, strict=True)
        ]  # D_j
        drawn = INFINITE
        if not lost:
            drawn = weights.largest_average([up(eta.expm1() * d) for eta, d in zip(etas, apart, strict=True)])
            drawn = up(drawn + arb(-FAINT).exp() * total([d for d, far in zip(apart, faint, strict=True) if far]))
        lifted = INFINITE if lost else self.lifted
        share, elsewhere = up(self.share + self.computed_share), smaller(self.computed_share, ONE)
        by_weights = smaller(_times(drawn, lifted) + _times(share, spread), spread)
        distance = smaller(_times(weights.largest_average(apart) + drawn, lifted), spread)
        size = average.most
        largest = size + distance + off  # M
        farthest = spread + off_elsewhere
        whole = largest + elsewhere * farthest  # M'
        sums = self._sums(apart, size, largest, whole, lifted, lost=lost)
        fine = not lost and self.lifted <= arb("2.7")
        tail = 2 * MARGIN * keys * format_.unit
        if fine:
            tail = smaller(up(arb("2.1") * self.computed_share), up(tail))
        sums += tail * (whole + farthest) + 2 * keys * format_.tiny * (1 + whole + farthest) + elsewhere * off_elsewhere
        if not format_.store.is_zero():
            sums += MARGIN * (format_.store * whole + keys * format_.lost * (whole + farthest))
            sums += MARGIN * (format_.store * (size + by_weights + sums + off) + format_.lost)
        if keys * format_.unit > MOST or not fits(keys * (whole + farthest), format_, stored=False):
            return INFINITE
        return up(by_weights + sums + off)

    def _widest(self, values: Sequence[Range]) -> arb:
        return up(largest([value.high for value in values]) - smallest([value.low for value in values]))

    def _sums(self, apart: list[arb], size: arb, largest: arb, whole: arb, lifted: arb, *, lost: bool) -> arb:
        """Rounding of sums over the tokens in play: all of them core, or those whose weights exceed a roundoff."""
        format_, weights = self.format, self.weights
        etas, faint, _ = self.doubts
        blocks, every = ceil(self.keys / BLOCK), len(apart)
        unit = MARGIN * format_.unit
        plain = up(unit * (2 * every + 2 * blocks + 1) * largest)
        light = [not most > format_.unit for most in weights.most]
        if lost or not any(light):
            return plain
        sizes = mass = ZERO  # σ, π
        for most, eta, far, d, outside in zip(weights.most, etas, faint, apart, light, strict=True):
            weight = (most * eta.exp() if outside else ZERO) + (arb(-FAINT).exp() if far else ZERO)
            sizes, mass = sizes + weight * (2 * size + d), mass + weight
        core = every - sum(light)
        few = unit * (2 * core + 2 * blocks + 1) * largest
        return smaller(plain, up(few + arb("1.02") * (sizes + 2 * mass * (whole - size)) * lifted))


def _times(a: arb, b: arb) -> arb:
    """A product of sizes; nothing times infinity is nothing."""
    return ZERO if a.is_zero() or b.is_zero() else up(a * b)
