"""The range of a softmax average when its scores are known only up to intervals [T 1.5].

With unnormalised weights `W_j` anywhere in `[L_j, U_j]`, the average `y = Σ W_j v_j / Σ W_j` is largest when
tokens above a threshold take U and the others L. Instead of sorting, climb: for any number y
let `g(y) = Σ_j max(L_j (v_j - y), U_j (v_j - y))`. For the true weights and their average y*,
`(y* - y) Σ W_j = Σ W_j (v_j - y) <= g(y)`, so

    y* <= y + max(g(y), 0) / Σ L_j        for every y,

with equality at the optimum. Dinkelbach's step `y <- Σ W v / Σ W`, W the maximiser in g(y), climbs there in a
few passes of O(T). Whatever y it stops at, the bound holds; rounding is added to g.

**Scale.** An average is the same for `c W` in place of W, and c times as large for `c v` in place of v. So weights are
multiplied by a power of two until the largest is in [1/2, 1), and values until the largest size is in
[2^499, 2^500): products of weights and differences do not overflow, and each loses to underflow at most half of the
smallest float s, the sum of T of them at most `T s`. Light weights below LIGHTEST are taken for zero and heavy ones for
LIGHTEST, which can only widen the range. So `Σ L_j` is zero, where the bound is the largest value, or at least
LIGHTEST, and what underflow takes is at most `T s / LIGHTEST`, about 1e-33 T beside values of 1e150. It is added.
Values that are scaled down may be off by s each, and so may their average; this is added as well.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import SMALLEST, above, exp_down, exp_up, rounded_up, sum_down, sum_error

Floats = npt.NDArray[np.float64]

STEPS = 6
LIGHTEST = 1e-290
VALUE_EXPONENT = 500
"""Values are computed with as if the largest were just below two to this power."""


def largest_average(light: Floats, heavy: Floats, values: Floats) -> Floats:
    """Upper bound on `Σ W v / Σ W` over `light <= W <= heavy`, along the last axis.

    Never more than the largest value that can have weight at all.
    """
    top, count = np.where(heavy > 0, values, -np.inf).max(axis=-1), values.shape[-1]
    light, heavy = _scaled_weights(light, heavy)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore", under="ignore"):
        shift = VALUE_EXPONENT - np.frexp(np.abs(values).max(axis=-1, keepdims=True))[1]
        values = np.ldexp(values, shift)
        mass = sum_down(light, axis=-1)
        y = (light * values).sum(axis=-1) / mass
        y = np.where(np.isfinite(y), y, 0.0)
        for _ in range(STEPS):
            chosen = np.where(values > y[..., None], heavy, light)
            total = chosen.sum(axis=-1)
            y = np.where(total > 0, (chosen * values).sum(axis=-1) / total, y)
        gains = np.where(values > y[..., None], heavy, light) * (values - y[..., None])
        slack = sum_error(np.abs(gains).sum(axis=-1), count + 8) + count * SMALLEST
        rise = rounded_up(np.maximum(gains.sum(axis=-1) + slack, 0.0) / mass, 3)
        bound = above(y + (rise + 2 * SMALLEST))
        bound = above(np.ldexp(bound, -shift[..., 0]))
    return np.where(bound < top, bound, top)


def _scaled_weights(light: Floats, heavy: Floats) -> tuple[Floats, Floats]:
    """Weights times a power of two for each row, the largest in [1/2, 1), none between zero and LIGHTEST."""
    shift, present = -np.frexp(heavy.max(axis=-1, keepdims=True))[1], heavy > 0
    light, heavy = np.ldexp(light, shift), np.ldexp(heavy, shift)
    return np.where(light < LIGHTEST, 0.0, light), np.where(present, np.maximum(heavy, LIGHTEST), 0.0)


def exponentials(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Weights (light, heavy) that enclose `e^s` for scores s in [low, high], up to one common factor per row.

    The common factor is `e^-m`, m the largest upper score. A score of -inf above means no token at all. A row with a
    score that is not known (inf above, NaN) gets weights about which nothing is known.
    """
    shift = high.max(axis=-1, keepdims=True)
    lost = ~np.isfinite(shift) | np.isnan(low).any(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", under="ignore"):
        light, heavy = exp_down(low - shift, 1), exp_up(high - shift, 1)
    light = np.where(lost | ~(light > LIGHTEST), 0.0, light)
    return light, np.where(lost, 1.0, np.where(np.isneginf(high), 0.0, heavy))
