"""How far a network computed in floating point can be from the same network in real arithmetic.

Each feature carries a bound on its error in two parts: what rounding the input causes, and what the network's own
operations cause. Sizes and weights are those of the box at hand, so the analysis is as local as the enclosure. u is
the unit roundoff.

**Sums**, in any order, fused or not [T 10.1].
A sum is a tree; each node rounds the sum of two floats a and b and is off by at
most `u |a + b|`, and by at most |a| and at most |b|, because b and a themselves are floats (ours). Call c of the terms
*core*, any c, and let τ be the sum of the absolute values of the others and S that of all. Nodes that join two subtrees
with core terms are at most c - 1 and cost at most u S each; a node that joins one with a subtree of other terms costs
at most the latter's size, altogether τ; nodes among other terms cost at most N u τ. So the sum is off by at most
`1.01 ((c - 1) u S + τ)`. Products cost u S once, if any of them is inexact; products with zero and with powers of two
are exact, and a single rounding costs u times the result.

**Attention.** Let the computed score of token j be off by at most A_j, up to a shift common to all tokens,
`t_j = max s - s_j`, ε the error of exp, B the number of blocks of a streaming kernel. Exponents are differences of
computed scores: `s_j - m` within a block and `m - m'` when a running maximum grows. Those of one token add up to t_j,
so their rounding costs at most `u (t_j + 2Ā)` altogether, and the computed unnormalised weight is the true one times
`e^{±η_j}` with

    η_j <= ζ_j + u' t_j,     ζ_j = 1.01 (A_j + 2 (B + 1) u Ā + B ε) <= η,     u' = 1.01 u,

η the same with Ā, the largest A_j, in place of A_j. (A_j: a score is a sum of products; stock attention may scale
queries and keys, which is exact for some sizes of heads, `network.layers.stock_size`.)

**Lemma** [T 10.2]. Let w be the true weights of the tokens in play, y their average and `D_j >= |v_j - y|`. If their
computed unnormalised weights are the true ones times `e^{θ_j}` with |θ_j| <= η_j, the average ŷ under the computed
weights ŵ is off by at most `Σ_j w_j (e^{η_j} - 1) D_j / r`, and `Σ_j ŵ_j D_j <= Σ_j w_j e^{η_j} D_j / r`, for any
`0 < r <= Σ_j w_j e^{-η_j}`.

*Proof.* `ŷ - y = Σ_j w_j e^{θ_j} (v_j - y) / Σ_j w_j e^{θ_j}`. The denominator is at least r, and in the numerator
`e^{θ_j}` may be replaced by `e^{θ_j} - 1`, because `Σ_j w_j (v_j - y) = 0`; `ŵ_j <= w_j e^{η_j} / r`. ∎

`r = 1 - η - u' log N` will do: `e^{-η_j} >= 1 - η_j`, and the terms `u' t_j` average to at most u' log N (entropy: with
`Z = Σ e^{-t_j} >= 1` and w_j = e^{-t_j}/Z, `Σ_j w_j t_j <= log N`). Where r <= 1/4, only `D_j <= osc` is used, osc the
spread of all values. Let Δ be the largest average of D over the tokens in play and Γ that of `(e^{η_j} - 1) D_j` (heavy
tokens count most, and their scores are the smaller ones). Under the computed weights, D then averages to at most

    Δ̂ = min((Δ + Γ) / r, osc),     or osc where r <= 1/4.

Tokens no longer in play take a share of at most τ of the real average and τ̂ of the computed one (`heads.py`), so they
add at most (τ + τ̂) osc. Values are computed themselves: those in play are off by at most δ, all others by δ'. So the
average of |v̂_j| over the tokens in play is at most `M = |y| + Δ̂ + δ`, over all at most `M' = M + min(τ̂, 1) (osc + δ')`.
Of the tokens in play, K are core to the sums and the others have weights w_j with `Σ w_j (2|y| + D_j) <= σ` and
`Σ w_j <= π`; they cost at most their sizes, `|v̂_j| + M'` each. The error is at most

    Γ / r + (τ + τ̂) osc                                                                (weights)
    + δ + min(τ̂, 1) δ'                                                                 (values)
    + 1.01 (2K + 2B + 1) u M + 1.02 (σ + 2 π (M' - |y|)) e^η / r                         (sums in play)
    + min(2.1 τ̂, 2.02 N u) (M' + osc + δ')                                             (sums over the others)
    + 2N tiny (1 + M' + osc + δ')                                                       (underflow),

where 2K + 2B + 1 are one rounding of products and K - 1 sums above, K - 1 sums below, a reciprocal and a product with
it, two products for each further block, and two to spare. All tokens in play may be core, too. The first line is never
more than osc.

**Hypotheses.** No number overflows (`overflow.py`), `N u <= 0.005`, and what `Format.assumption` says.

**bfloat16.** Kernels add in float32 but round what they store: projections, scaled queries and keys, scores, weights
and results. Each of these costs its own unit 2⁻⁸ on top; weights rounded after normalisation no longer add up to
one, so that rounding is charged to the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
import numpy.typing as npt

from .formats import FLASH_BLOCK, Format

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]

MOST_ROUNDINGS = 0.005
"""Largest N u for which the factors 1.01 cover the products of roundings."""
MOST_DOUBT = 50.0
"""Larger η_j are not told apart: the error is then osc."""
STORED = 3
"""Times a result may be rounded to the stored format on its way (product, bias, result)."""
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
    inexact = active @ (used & ~doubles) > 0  # (..., m)
    every, few = (np.maximum(part @ used + (bias != 0) - 1, 0) for part in (active, core))  # additions
    carried = np.swapaxes(np.swapaxes(error, -1, -2) @ np.abs(weight), -1, -2)  # (..., m, 2)
    total = size @ np.abs(weight) + np.abs(bias)
    if result is not None:
        total = np.where(every + inexact <= 1, np.minimum(total, result), total)
    out = with_sum(carried, total, every + inexact, arithmetic)
    rest = with_sum(carried, total, few + inexact, arithmetic)
    rest[..., OWN] += 1.01 * ((1 - core) * whole) @ np.abs(weight)
    return np.where((rest[..., OWN] < out[..., OWN])[..., None], rest, out)


def with_sum(error: Floats, size: Floats, roundings: Integers | Floats, arithmetic: Format) -> Floats:
    """Add the error of so many roundings of numbers no larger than `size`, (..., m)."""
    count = np.where(roundings > 0, roundings * arithmetic.unit + STORED * arithmetic.store, 0.0)
    added = 1.01 * count * (size + error.sum(axis=-1)) + (roundings > 0) * (roundings + 1) * arithmetic.tiny
    added = np.where(roundings * arithmetic.unit > MOST_ROUNDINGS, np.inf, added)
    return np.stack([error[..., INPUT], error[..., OWN] + added], axis=-1)


@dataclass(frozen=True, eq=False)
class HeadSizes:
    """What the error of one head depends on, for each box and query token, (B, n) unless said otherwise."""

    off: Floats
    """Largest score error A_j of a token in play, the following included."""
    own: Floats
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
    return 1.01 * (errors + 2 * (blocks + 1) * arithmetic.unit * largest + blocks * arithmetic.exp_error)


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


def head_error(sizes: HeadSizes, column: Column, arithmetic: Format) -> Floats:
    """Error of one output column, (B, n, 2).

    Both parts together bound the error, and the network's own part bounds it alone where the input is exact.
    """
    unit, blocks, osc = arithmetic.unit, ceil(sizes.keys / FLASH_BLOCK), column.osc
    if sizes.keys * unit > MOST_ROUNDINGS:
        return np.full((*column.spread.shape, 2), np.inf)
    entropy = 1.01 * unit * log(max(sizes.keys, 1))

    def by_weights(off: Floats, drawn: Floats) -> tuple[Floats, Floats, Floats]:
        eta = score_doubt(off, off, sizes.keys, arithmetic)
        room = 1 - eta - entropy
        rated = drawn / np.maximum(room, 0.25) + (sizes.tail + sizes.computed_tail) * osc
        return np.minimum(np.where(room > 0.25, rated, osc), osc), eta, room

    weights, eta, room = by_weights(sizes.off, column.drawn)
    own, *_ = by_weights(sizes.own, column.drawn_own)
    fine, room = room > 0.25, np.maximum(room, 0.25)
    elsewhere = np.minimum(sizes.computed_tail, 1.0)
    farthest = osc + column.value_off_elsewhere
    apart = np.where(fine, np.minimum((column.spread + column.drawn) / room, osc), osc)
    largest = column.average + apart + column.value_off.sum(axis=-1)  # M
    whole = largest + elsewhere * farthest  # M'
    light = column.light + 2 * column.light_weight * (whole - column.average)
    few, all_ = (
        1.01 * unit * (2 * np.stack([sizes.core, sizes.in_play]) + 2 * blocks + 1) * largest
    )  # core only, or all
    sums = np.where(fine, np.minimum(few + 1.02 * light * (1.01 + eta) / room**2, all_), all_)
    every = 2.02 * sizes.keys * unit
    sums = sums + np.where(fine, np.minimum(2.1 * sizes.computed_tail, every), every) * (whole + farthest)
    sums = sums + (STORED + 1) * 1.01 * arithmetic.store * whole
    sums = sums + 2 * sizes.keys * arithmetic.tiny * (1 + whole + farthest)
    sums = sums + elsewhere * column.value_off_elsewhere
    return np.stack([np.maximum(weights - own, 0.0), own + sums], axis=-1) + column.value_off
