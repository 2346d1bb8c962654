"""How far a network computed in floating point can be from the same network in real arithmetic.

Each feature carries a bound on its error in two parts: what rounding the input causes, and what the network's own
operations cause. Sizes and weights are those of the box at hand, so the analysis is as local as the enclosure. u is
the unit roundoff. Sums of products may be taken in any order, fused or not: a sum of c nonzero products is off by at
most `(c + 2) u Σ|products|` (products with a zero weight are exact).

**Attention.** Let the computed score of token j be off by at most A_j, up to a shift common to all tokens,
`t_j = max s - s_j`, ε the error of exp, B the number of blocks of a streaming kernel. Exponents are differences of
computed scores: `s_j - m` within a block and `m - m'` when a running maximum grows. Those of one token add up to t_j,
so their rounding costs at most `u (t_j + 2Ā)` altogether, and the computed unnormalised weight is the true one times
`e^{±η_j}` with

    η_j <= ζ_j + u' t_j,     ζ_j = 1.01 (A_j + 2 (B + 1) u Ā + B ε) <= η,     u' = 1.01 u,

η the same with Ā, the largest A_j, in place of A_j.

With w the true weights and `D_j >= |v_j - y|` the error of the average is at most (THEORY 10)

    Σ_j w_j (e^{η_j} - 1) D_j / (1 - Σ_j w_j (1 - e^{-η_j})).

The terms `u' t_j` are unbounded, but heavy tokens have small t_j: with `Z = Σ e^{-t_j} >= 1` and w_j = e^{-t_j}/Z,
Hölder's inequality gives `Σ e^{-(1-u')t_j} <= N^{u'} Z^{1-u'}`, hence `Σ_j w_j e^{u' t_j} <= N^{u'}`, and likewise
(entropy) `Σ_j w_j t_j <= log N`. Let Δ be the largest average of D over the tokens in play, Γ that of
`(e^{ζ_j} - 1) D_j` (heavy tokens count most, and their scores are the smaller ones), τ the tail (`heads.py`), η̂ a bound
on η_j for dropped tokens and osc the spread of all values. As `e^{η_j} - 1 = (e^{ζ_j} - 1) + e^{ζ_j} (e^{u' t_j} - 1)`,
the error is at most

    (Γ + e^η (N^{u'} - 1) osc + τ e^{η̂} osc) / (1 - η - u' log N - τ)                 (weights)
    + 1.01 (2K + 2B + 4) u (|y| + Δ + ...)                                            (sums over K tokens in play)
    + min(8.1 τ e^{η̂}, 2.02 N u) (|y| + osc + ...)                                    (sums over the others)
    + 2N tiny (1 + max|v|)                                                            (underflow),

and never more than osc plus the errors of the sums.

**bfloat16.** Kernels add in float32 but round what they store: projections, scaled queries and keys, scores, weights
and results. Each of these costs its own unit 2⁻⁸ on top; weights rounded after normalisation no longer add up to
one, so that rounding is charged to the sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.integer]

FLASH_BLOCK = 512
MOST_ROUNDINGS = 0.005
"""Largest N u for which the factors 1.01 cover the products of roundings."""
MOST_DOUBT = 50.0
"""Larger ζ_j are not told apart: the error is then osc."""
STORED = 3
"""Times a result may be rounded to the stored format on its way (product, bias, result)."""
INPUT, OWN = 0, 1
"""Positions of the two parts of an error on its last axis."""


@dataclass(frozen=True)
class Arithmetic:
    """A floating-point format and the kernels that run in it."""

    name: str
    unit: float
    """Unit roundoff u of sums."""
    store: float
    """Unit roundoff of results as they are stored, where that is coarser than sums; 0 where it is the same."""
    exp_error: float
    """Relative error of exp in the kernels we know (streaming kernels use a 20-ulp exp in float32)."""
    tiny: float
    """Numbers below this may be flushed to zero."""

    @property
    def grain(self) -> float:
        """Unit roundoff of numbers given in this format."""
        return max(self.unit, self.store)

    @property
    def assumption(self) -> str:
        """What the rounding part takes for granted about the machine that runs the network."""
        sums = "float32" if self.store else self.name
        return (
            f"the kernel's exp is within {self.exp_error / self.unit:.0f} units of roundoff, sums use {sums} "
            f"throughout (no TF32 or half sums), and blocks hold at least {FLASH_BLOCK} keys"
        )


ARITHMETIC = {
    "float64": Arithmetic("float64", unit=2.0**-53, store=0.0, exp_error=16 * 2.0**-53, tiny=2.0**-1020),
    "float32": Arithmetic("float32", unit=2.0**-24, store=0.0, exp_error=40 * 2.0**-24, tiny=2.0**-125),
    "bfloat16": Arithmetic("bfloat16", unit=2.0**-24, store=2.0**-8, exp_error=40 * 2.0**-24, tiny=2.0**-125),
}


def linear_error(error: Floats, size: Floats, weight: Floats, bias: Floats, arithmetic: Arithmetic) -> Floats:
    """Error of `x weight + bias`: (..., d, 2) and sizes (..., d) -> (..., m, 2).

    Features that are zero do not count. Constants are exact, and so is a single product with 1, 2, 4, ...
    """
    active = ((size > 0) | (error > 0).any(axis=-1)).astype(np.float64)  # (..., d)
    doubles = (np.abs(np.frexp(weight)[0]) == 0.5) & (np.abs(weight) >= 1)
    products, inexact = active @ (weight != 0), active @ ((weight != 0) & ~doubles)  # (..., m)
    exact = (products == 0) | ((products == 1) & (inexact == 0) & (bias == 0))
    terms = np.where(exact, 0, products + (bias != 0))
    carried = np.swapaxes(np.swapaxes(error, -1, -2) @ np.abs(weight), -1, -2)  # (..., m, 2)
    return with_sum(carried, size @ np.abs(weight) + np.abs(bias), terms, arithmetic)


def with_sum(error: Floats, size: Floats, terms: Integers | Floats, arithmetic: Arithmetic) -> Floats:
    """Add the error of sums of `terms` products whose absolute values add up to `size`, (..., m)."""
    count = np.where(terms > 0, (terms + 2) * arithmetic.unit + STORED * arithmetic.store, 0.0)
    added = 1.01 * count * (size + error.sum(axis=-1)) + (terms > 0) * terms * arithmetic.tiny
    return np.stack([error[..., INPUT], error[..., OWN] + added], axis=-1)


@dataclass(frozen=True, eq=False)
class HeadSizes:
    """What the error of one head depends on, for each box and query token, (B, n) unless said otherwise."""

    own: Floats
    """Largest score error A_j of a token in play, from rounding."""
    moved: Floats
    """Largest score error of a token in play, from errors already in the input."""
    anywhere: Floats
    """Largest score error of any token."""
    reach: Floats
    """Largest |score| of any token."""
    tail: Floats
    in_play: Integers  # (B, 1)
    keys: int


def score_doubt(errors: Floats, sizes: HeadSizes, arithmetic: Arithmetic) -> Floats:
    """e^{ζ_j} - 1 for tokens whose scores are off by A_j (B, n, T), up to a limit far beyond any use."""
    blocks = ceil(sizes.keys / FLASH_BLOCK)
    common = 2 * (blocks + 1) * arithmetic.unit * (sizes.own + sizes.moved) + blocks * arithmetic.exp_error
    return np.expm1(np.minimum(1.01 * (errors + common[..., None]), MOST_DOUBT))


def head_error(
    sizes: HeadSizes, drawn: Floats, spread: Floats, average: Floats, osc: float, arithmetic: Arithmetic
) -> Floats:
    """Error of one output column: Γ, Δ and |y| of shape (B, n) -> (B, n, 2)."""
    unit, blocks = arithmetic.unit, ceil(sizes.keys / FLASH_BLOCK)
    if sizes.keys * unit > MOST_ROUNDINGS:
        return np.full((*spread.shape, 2), np.inf)
    drift, entropy = 1.01 * unit, 1.01 * unit * log(max(sizes.keys, 1))
    own = 1.01 * (sizes.own + 2 * (blocks + 1) * unit * (sizes.own + sizes.moved) + blocks * arithmetic.exp_error)
    moved = 1.01 * sizes.moved
    far = 1.01 * (sizes.anywhere * (1 + 2 * (blocks + 1) * unit) + blocks * arithmetic.exp_error)
    far = np.exp(np.minimum(far + drift * 2 * sizes.reach, 700.0))
    eta = own + moved
    room = 1 - eta - entropy - sizes.tail
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        weights = drawn + np.exp(eta) * np.expm1(entropy) * osc + sizes.tail * far * osc
        weights = np.where(room > 0.25, weights / np.maximum(room, 0.25), osc)
        weights = np.minimum(weights, osc)
        share = np.where(eta > 0, moved / np.where(eta > 0, eta, 1.0), 0.0)
    largest = average + spread + weights
    every = 2.02 * sizes.keys * unit
    others = np.where(room > 0.25, np.minimum(8.1 * sizes.tail * far, every), every)
    sums = 1.01 * (2 * sizes.in_play + 2 * blocks + 4) * unit * largest + others * (largest + osc)
    sums = sums + (STORED + 1) * 1.01 * arithmetic.store * (largest + sizes.tail * osc)
    sums = sums + 2 * sizes.keys * arithmetic.tiny * (1 + largest + osc)
    return np.stack([weights * share, weights * (1 - share) + sums], axis=-1)
