"""How far a network computed in floating point can be from the same network in real arithmetic.

Each feature carries a bound on its error in two parts: what rounding the input causes, and what the network's own
operations cause. Sizes and weights are those of the box at hand, so the analysis is as local as the enclosure. u is
the unit roundoff.

- **Sums** in any order [T 10.1]: terms that are tiny beside the others cost at most their sizes, the *core* ones a
  rounding of the whole each.
- **Weights** [T 10.2]: computed unnormalised weights are the true ones times `e^{±η_j}`, `η_j = ζ_j + u' t_j`, where
  ζ_j holds the errors of scores A_j and of exp, and t_j is how far a token is behind the largest score. (A_j: a score
  is a sum of products; stock attention may scale queries and keys, which is exact for some sizes of heads. See
  `score_error` and `network/stock.py`.)
- **Averages** [T 10.2]: the sum of what weights, values and sums are off, with the names of that statement: D_j, Δ, Γ,
  H, τ, τ̂, δ, δ', M, M', K, σ, π.

Every function here returns an upper bound as it is computed in float64: sums and products are rounded up by the number
of their roundings [T 9.9], or have a part of the factor 1.01 to spare.

**Stored results** [T 10.5]. Where the format that is stored (unit s) is coarser than that of sums, each number that a
kernel stores is off by at most s times its size, and by `lost` near zero, on top:

- a projection: the product, unless it is a single exact one, and the sum with the bias, if there is one;
- a score: the score itself, which may be far smaller than its products, and once more where it is scaled inexactly;
  scaled queries and keys;
- a weight, before or after normalisation. Rounded after it, weights no longer add up to one, so they are charged to
  the sum, with s M' and, near zero, `N lost` times the largest value;
- the average.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
import numpy.typing as npt

from .directed import T, exp_up, rounded_up
from .formats import FLASH_BLOCK, Format

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]

MARGIN = 1.01
"""Covers what is of higher order in roundings."""
MOST_ROUNDINGS = 0.005
"""Largest N u for which it does."""
MOST_DOUBT = 50.0
"""Beyond this η_j the error is taken to be osc."""
SCALED = 16
"""Stock attention scales queries and keys by the fourth root of the head's size, which is at most this."""
FINE = 1.0
"""Larger H are not used to bound sums over tokens that are no longer in play."""
STORED = 3
"""Times that a number may be rounded as it is stored, at most."""
SCALINGS = 4
"""Roundings that this may add to a score."""
SPARE = 4
"""Roundings of a framework beyond those of a sum of products: a bias, a scale on either factor or on the result."""
FARTHEST = 0.37
"""More than the largest value of `t e^-t`."""
ROUNDINGS = 48
"""More than there are in the formulas of this file."""
INPUT, OWN = 0, 1
"""Positions of the two parts of an error on its last axis."""


def linear_error(
    error: Floats, size: Floats, weight: Floats, bias: Floats, arithmetic: Format, result: Floats | None = None
) -> Floats:
    """Error of `x weight + bias`: (..., d, 2) and sizes (..., d) -> (..., m, 2); `result` bounds |x weight + bias|.

    Features that are tiny beside the largest one are not core (see above); zero ones do not count at all.
    """
    whole = size + error.sum(axis=-1)  # (..., d)
    used, doubles = weight != 0, (np.abs(np.frexp(weight)[0]) == 0.5) & (np.abs(weight) >= 1)  # (d, m)
    core = (whole > arithmetic.unit * whole.max(axis=-1, keepdims=True, initial=0.0)).astype(np.float64)
    active = (whole > 0).astype(np.float64)
    inexact, terms = active @ (used & ~doubles) > 0, active @ used  # (..., m)
    every, few = (np.maximum(part @ used + (bias != 0) - 1, 0) for part in (active, core))  # additions
    carried = carried_error(error, weight)  # (..., m, 2)
    total = size @ np.abs(weight) + np.abs(bias)
    least = total if result is None else np.minimum(total, result)  # bounds |x weight + bias|
    total = np.where(every + inexact <= 1, least, total)
    product, shifted = inexact | (terms > 1), (terms > 0) & (bias != 0)  # what is stored inexactly
    stored = product * np.minimum(least + np.abs(bias), size @ np.abs(weight)) + shifted * least
    out = with_sum(carried, total, every + inexact, arithmetic, stored, product * 1.0 + shifted)
    rest = with_sum(carried, total, few + inexact, arithmetic, stored, product * 1.0 + shifted)
    rest[..., OWN] += MARGIN * ((1 - core) * whole) @ np.abs(weight)
    return np.where((rest[..., OWN] < out[..., OWN])[..., None], rest, out)


def with_sum(
    error: Floats,
    size: Floats,
    roundings: Integers | Floats,
    arithmetic: Format,
    stored: Floats | None = None,
    times: Floats | float = 1.0,
) -> Floats:
    """Add the error of so many roundings of numbers no larger than `size`, (..., m).

    On the way numbers are stored so many `times`, which are no larger than `stored` altogether; the result is, if
    nothing is said.
    """
    before = error.sum(axis=-1)
    added = MARGIN * roundings * arithmetic.unit * (size + before)
    added = added + (roundings > 0) * (roundings + 1) * arithmetic.tiny
    if arithmetic.store:
        kept = (size if stored is None else stored) + times * (before + added)
        added = added + (roundings > 0) * MARGIN * (arithmetic.store * kept + times * arithmetic.lost)
    added = np.where(roundings * arithmetic.unit > MOST_ROUNDINGS, np.inf, added)
    return rounded_up(np.stack([error[..., INPUT], error[..., OWN] + added], axis=-1), 2)


def carried_error(error: Floats, weight: Floats) -> Floats:
    """Errors of features through a linear map, without its own rounding: (..., d, 2) -> (..., m, 2)."""
    return rounded_up(np.swapaxes(np.swapaxes(error, -1, -2) @ np.abs(weight), -1, -2), len(weight))


def storage_error(size: T, arithmetic: Format) -> T:
    """How far a number of at most this size moves when it is rounded to the format."""
    return rounded_up(arithmetic.grain * size + arithmetic.lost, 2)


def grown(size: Floats, roundings: int, arithmetic: Format) -> Floats:
    """Bounds on absolute values of computed numbers, where exact ones are at most `size` [T 10.4]."""
    relative = roundings * arithmetic.unit + STORED * arithmetic.grain
    return size * (1 + MARGIN * relative) + STORED * arithmetic.lost


def score_error(
    rounded: Floats, products: Floats, score: Floats, carried: Floats, features: Floats, scaling: int, format_: Format
) -> Floats:
    """How far scores are off beside what queries and keys are off: sums and scaling, and where they are stored.

    `rounded` adds up the sizes of all numbers rounded in sums, `products` is Σ|q_i||k_i|, `score` bounds |Σ q_i k_i|,
    `carried` what queries and keys are off, `features` is Σ|q_i| + |k_i|. Stored scores are relative to themselves.
    """
    summed = MARGIN * format_.unit * (rounded + scaling * products)
    if not format_.store:
        return summed
    times = 2 if scaling else 1
    kept = scaling * products + times * (np.minimum(score, products) + carried + summed)
    return summed + MARGIN * (format_.store * kept + format_.lost * (times + SCALED * features))


def all_orders(first: T, times: int = 1) -> T:
    """A bound on an error from its first-order part, for at most `MOST_ROUNDINGS` relative roundings a time [T 10.1].

    >>> all_orders(100.0)
    101.0
    """
    return MARGIN**times * first


def key_sum_error(products: Floats, terms: int, arithmetic: Format) -> Floats:
    """How far a sum of so many products is off that a key holds, `products` the sum of their sizes [T 10.8]."""
    none = np.zeros((*products.shape, 2))
    return with_sum(none, products, np.full(products.shape, float(terms)), arithmetic)[..., OWN]


@dataclass(frozen=True, eq=False)
class HeadSizes:
    """What the error of one head depends on, for each box and query token, (B, n) unless said otherwise."""

    doubt: Floats
    """H, the following included."""
    doubt_own: Floats
    """The same without errors that come from rounding the network's input."""
    tail: Floats
    """Weight of the tokens that are no longer in play, as a fraction of the others', in real arithmetic."""
    computed_tail: Floats
    """The same of the weights that the network computes."""
    in_play: Integers
    core: Integers
    """Tokens in play whose weights may exceed a unit of roundoff."""
    keys: int


def score_doubt(errors: Floats, largest: Floats, keys: int, arithmetic: Format) -> Floats:
    """ζ_j for tokens whose scores are off by A_j, where the largest such error among `keys` tokens is Ā."""
    blocks = ceil(keys / FLASH_BLOCK)
    return MARGIN * (errors + 2 * (blocks + 1) * arithmetic.unit * largest + blocks * arithmetic.exp_error)


def weight_doubt(errors: Floats, largest: Floats, behind: Floats, keys: int, arithmetic: Format) -> Floats:
    """η_j, by which the logarithms of computed weights are off, for tokens at most `behind` the largest score."""
    return score_doubt(errors, largest, keys, arithmetic) + MARGIN * arithmetic.unit * behind


def average_error(scores: Floats | float, terms: int, tokens: int, keys: int, arithmetic: Format) -> Floats:
    """What an average of so many tokens is off by its weights and sums, relative to that of the values' sizes [T 10.2].

    Each score is a sum of so many products, whose sizes add up to at most `scores`; all `keys` but these tokens have
    no weight.
    """
    scores = np.asarray(scores)
    nothing = np.zeros(scores.shape)
    errors = score_error(terms * scores, scores, scores, nothing, nothing, SCALINGS, arithmetic)
    weights = weight_doubt(errors, errors, 2 * scores, keys, arithmetic)
    return np.expm1(2 * weights) + sums_in_play(np.array(tokens), np.exp(2 * weights), keys, arithmetic)


def softmax_error(behind: Floats, weight: Floats, arithmetic: Format) -> Floats:
    """How far softmax weights (.., n) are off of tokens that are at most `behind` the largest score [T 12.6].

    It covers kernels that divide by the sum at the end and stream over blocks of keys.
    """
    count, unit = weight.shape[-1], arithmetic.unit
    blocks = ceil(count / FLASH_BLOCK)
    own = 2 * blocks * arithmetic.exp_error + unit * (2 * count + 4 * blocks + SPARE + log(count) + 1)
    if own > MOST_ROUNDINGS:
        return np.full_like(weight, np.inf)
    with np.errstate(invalid="ignore", over="ignore"):
        drawn = np.minimum(behind * weight, FARTHEST)
    off = all_orders(own * weight + unit * np.where(np.isnan(drawn), FARTHEST, drawn), 2)
    return rounded_up(off + 4 * count * arithmetic.tiny, 8)


def normalised_error(
    magnitude: Floats, squares: Floats, least: Floats, result: Floats, count: int, arithmetic: Format
) -> Floats:
    """How far `(x - mean)/sqrt(var + epsilon)` is off, over `count` numbers of at most this magnitude [T 12.6].

    `squares` bounds the mean of squares, `least` is a lower bound on var + epsilon, `result` bounds the results.
    """
    unit, roundings = arithmetic.unit, count + SPARE + arithmetic.exp_units
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        variance = 4 * (count + 2 * SPARE) * unit * squares / least  # relative to var + epsilon
        off = roundings * unit * (3 * magnitude / np.sqrt(least) + result) + variance * result
        off = all_orders(off, 2) + SPARE * arithmetic.tiny * (1 + 1 / least)
        off = np.where((variance <= MOST_ROUNDINGS) & (roundings * unit <= MOST_ROUNDINGS), off, np.inf)
    return rounded_up(np.where(np.isnan(off), np.inf, off), 16)


def computed_gap(gap: Floats, errors: Floats, keys: int, arithmetic: Format) -> Floats:
    """How far a token that leaves play is behind, as computed, where scores are `gap` apart or more [T 10.2].

    `errors` bounds the sum of the errors of both scores.
    """
    doubt = score_doubt(errors, 2 * errors, keys, arithmetic) + MARGIN * arithmetic.exp_error * keys
    return (1 - MARGIN * arithmetic.unit) * gap - doubt


def computed_weight(gap: Floats) -> Floats:
    """A bound on the computed weight of a token whose computed score is at least `gap` below another one.

    Exponents are differences of computed scores from the largest, which is at least that other one, and rounding a
    difference is relative; exp costs less than a twentieth.
    """
    return 1.05 * np.exp(-np.maximum(0.999 * gap, 0.0))


def sums_in_play(tokens: Floats | Integers, size: Floats | float, keys: int, arithmetic: Format) -> Floats:
    """Rounding of the sums of an average over so many core tokens, `1.01 (2K + 2B + 1) u M`."""
    blocks = ceil(keys / FLASH_BLOCK)
    roundings = np.asarray(2 * tokens + 2 * blocks + 1, dtype=np.float64)
    return MARGIN * arithmetic.unit * roundings * size


def sums_elsewhere(tail: Floats, whole: Floats, farthest: Floats | float, keys: int, arithmetic: Format) -> Floats:
    """Rounding of the sums of an average over the tokens out of play, and underflow."""
    sums = np.minimum(2.1 * tail, 2 * MARGIN * keys * arithmetic.unit) * (whole + farthest)
    return sums + 2 * keys * arithmetic.tiny * (1 + whole + farthest)


def stored_weights(whole: Floats, farthest: Floats | float, keys: int, arithmetic: Format) -> Floats:
    """What an average is off where its weights are stored in a coarser format."""
    return MARGIN * (arithmetic.store * whole + keys * arithmetic.lost * (whole + farthest))


def stored_result(average: Floats, arithmetic: Format) -> Floats:
    """What an average is off where it is stored in a coarser format itself."""
    return MARGIN * (arithmetic.store * average + arithmetic.lost)


@dataclass(frozen=True, eq=False)
class Column:
    """What the error of one output column of a head depends on, (B, n) each."""

    drawn: Floats
    """Γ."""
    drawn_own: Floats
    """The same without errors that come from rounding the network's input."""
    spread: Floats
    """Δ."""
    average: Floats
    """|y|."""
    light: Floats
    """σ."""
    light_weight: Floats
    """π."""
    osc: float
    value_off: Floats
    """δ, by the input and by rounding, (B, n, 2)."""
    value_off_elsewhere: float
    """δ'."""


def computed_distance(spread: Floats, drawn: Floats, lifted: Floats, osc: float) -> Floats:
    """Δ̂, how far values are from the real average y, averaged under the computed weights [T 10.2]; `lifted` is 1/r."""
    return np.minimum((spread + drawn) * lifted, osc)


def head_error(sizes: HeadSizes, column: Column, arithmetic: Format) -> Floats:
    """Error of one output column, (B, n, 2).

    Both parts together bound the error, and the network's own part bounds it alone where the input is exact.
    """
    osc = column.osc
    if sizes.keys * arithmetic.unit > MOST_ROUNDINGS:
        return np.full((*column.spread.shape, 2), np.inf)

    def by_weights(doubt: Floats, drawn: Floats) -> Floats:
        return np.minimum(drawn * exp_up(doubt) + (sizes.tail + sizes.computed_tail) * osc, osc)

    weights, own = by_weights(sizes.doubt, column.drawn), by_weights(sizes.doubt_own, column.drawn_own)
    lifted, fine = exp_up(sizes.doubt), sizes.doubt < FINE  # 1 / r
    elsewhere = np.minimum(sizes.computed_tail, 1.0)
    farthest = osc + column.value_off_elsewhere
    apart = computed_distance(column.spread, column.drawn, lifted, osc)
    largest = column.average + apart + column.value_off.sum(axis=-1)  # M
    whole = largest + elsewhere * farthest  # M'
    light = column.light + 2 * column.light_weight * (whole - column.average)
    tokens = np.stack([sizes.core, sizes.in_play])  # core only, or all
    few, all_ = sums_in_play(tokens, largest, sizes.keys, arithmetic)
    sums = np.minimum(few + 1.02 * light * lifted, all_)
    tail = np.where(fine, sizes.computed_tail, np.inf)
    sums = sums + sums_elsewhere(tail, whole, farthest, sizes.keys, arithmetic)
    sums = sums + elsewhere * column.value_off_elsewhere
    if arithmetic.store:
        sums = sums + stored_weights(whole, farthest, sizes.keys, arithmetic)
        sums = sums + stored_result(column.average + weights + sums + column.value_off.sum(axis=-1), arithmetic)
    return rounded_up(np.stack([np.maximum(weights - own, 0.0), own + sums], axis=-1) + column.value_off, ROUNDINGS)
