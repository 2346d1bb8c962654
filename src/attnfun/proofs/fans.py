"""Heads that compute a maximum: what one head returns to one query token, when scores and values are affine [T 1.4].

**Fan.** Let one token be the base (score s_0, value v_0) and let every other token j have `v_j - v_0 = λ_j t_j` with
`t_j = s_j - s_0` and λ_j = +λ (class P) or -λ (class N), and let `t_j + t_k <= 0` for j in P, k in N. Then the head
is

    φ = v_0 + λ max(0, max_P t_j) - λ max(0, max_N t_j)    within    λ W(max(|P|, |N|)/e),

W Lambert's function. A maximum of affine functions has N empty; a clip `{-R(z-a), 0, R(z-b)} -> {a, z, b}` has one
token in each class, so `0.27847/R`.

*Proof.* Let * be the token with the largest score. If it is the base, the error `Σ w_j λ_j t_j` has terms of one sign
for P and of the other for N. If it is in P (N is the mirror image), `y - φ = Σ_j w_j (λ_j t_j - λ t_*)`: for the base
and for j in P the term is `-λ w_j (t_* - t_j) <= 0`, for j in N it is `-λ w_j (t_j + t_*) >= 0` and at most `λ w_j
(t_* - t_j)`, as `-t_j - t_* <= t_* - t_j`. Either way the error is a difference of two nonnegative sums `λ Σ w_j g_j`
over at most max(|P|, |N|) tokens with gaps `g_j = s_* - s_j`, besides the top itself. And `Σ_j g_j e^{-g_j} / (1 +
Σ_j e^{-g_j})` over n tokens is at most `W(n/e)`: where it is largest, with value y, all derivatives vanish, so `g_j =
1 + y`, hence `n e^{-(1+y)} = y`. ∎

**Perturbed** ([T 1.3] is the case of a plain maximum).
If scores are off by at most ε, values by δ from a fan with `t_j + t_k <= ξ`, apply this to the true
scores: values deviate from the fan's by `δ + 2λε`; the condition holds up to `ξ' = max(0, ξ + 4ε)`, which costs 2λξ';
and the maxima move by 2ε, of which only one counts if ξ' = 0. So |y - φ| <= `λ W + δ + 4λε`, and `2λε + 2λξ'` more if
ξ' > 0. If one of the classes is empty, `λ W + δ + λ (ε_1 + ε_2)` is enough, with the two largest errors of single
scores: let τ lead in the true scores s and let b_j be the errors, `|b_j| <= ε_j`. But for δ,

    |φ - y| = λ Σ w_j (s_τ - s_j) = λ Σ w_j ((s_τ + b_τ) - (s_j + b_j)) + λ Σ w_j (b_j - b_τ),

whose first sum is at most W, as τ leads the perturbed scores at most, and whose second is at most `ε_1 + ε_2`.

**Rounding.** The computed weights are those of scores off by `η + u' t_j` (`rounding.py`), t_j the gap of token j.
Along the way from the true scores to those, `dy = Σ w_j ds_j (v_j - y)`. For the token τ on top, `|v_j - v_τ| <= λ
(1.01 g_j + 7η + ξ') + 2δ'` with ξ', δ' as above (same class: `λ|s_j - s_τ|`; opposite: `|t_j + t_τ|`, where t_τ >=
-2η), so `Σ w_j |v_j - y| <= 2X`, `X = λ (1.01 W((n-1)/e) + 7η + ξ') + 2δ'`, n tokens in all. As `Σ w_j g_j² <= 0.55
(n-1)`, the output moves by at most `2ηX + 1.01 u' (0.55 λ (n-1) + 2 W X + 4ηX)`. It is also at most the sum of two
distances from φ, that of y and that of the computed
output (perturbed by ε = η), and at most the spread of the values; the smallest counts.

The same integral bounds the effect of errors in the head's input: values moving by at most dv and scores, relative to
the base, by ds move the output by at most `dv + 2 X ds`, with η = 0 in X. As ds grows with the gain 1/λ of the scores,
there is a second bound that does not. If `t_j + t_k <= 0` throughout, φ is a maximum and a minimum of the fan's values,

    φ = max(min(v_0, min_N v_k), max_P v_j),

so it moves by at most dv, and 2δ where the values are off the fan's by δ. The computed output is within
`λ W + δ + 4λε` of φ there, the real one within `λ W + δ` of φ here: altogether `dv + 2δ` beside the two distances.

Tokens that belong to no fan must be *mute*: scores surely below that of some token l by g_j > 0 give them at most
`Σ e^{-g_j}` of the weight. Their computed weight is at most `1.05 e^{-0.999 (g_j - A_j - A_l)}` [T 10.2], A the errors
of these two scores. Tokens with equal scores and values are one token whose score is larger by the logarithm of their
number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import e

import numpy as np
import numpy.typing as npt

from ..arithmetic.directed import LIBRARY_ULPS, above, dot_up, exp_up, lambert_up, rounded_up, sum_error, sum_up
from ..arithmetic.formats import Format
from ..arithmetic.forms import Forms
from ..arithmetic.rounding import (
    MOST_ROUNDINGS,
    ROUNDINGS,
    all_orders,
    computed_weight,
    score_doubt,
    stored_result,
    stored_weights,
    sums_elsewhere,
    sums_in_play,
)

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MUTE = 30.0
"""Tokens that are surely this far below the base may be taken as mute."""
NEGLIGIBLE = 0.01
"""A far token that fits up to this fraction of λ stays in the fan."""
PAIRS = 2**16
"""Pairs of tokens of both classes that are looked at one by one."""
FEW = 4
"""Among so few tokens each is tried as the base."""


@dataclass(frozen=True, eq=False)
class Keys:
    """The tokens that one head shows to one query token, as forms of the variables of the layer's input."""

    scores: Forms  # (T,)
    values: Forms  # (T, v)
    score_error: Floats  # (T,), by rounding here
    value_error: Floats  # (T, v), by rounding here
    score_moved: Floats  # (T, 2), by errors in the layer's input where scores are not affine in it
    value_moved: Floats  # (T, v, 2), by errors in the layer's input
    variable_error: Floats  # (V, 2), errors of the variables in the layer's input
    noise: Flags  # (V,), variables that are only errors of constants

    def without_noise(self, tokens: Flags) -> Keys:
        """The same with some tokens (T,) free of noise, which becomes slack and error."""
        lost = np.where(tokens[:, None] & self.noise, np.abs(self.scores.coefficients[:, 1:]), 0.0)  # (T, V)
        moved = rounded_up(self.score_moved + dot_up(lost, self.variable_error), 1)
        scores, values = (_without_noise(forms, tokens, self.noise) for forms in (self.scores, self.values))
        return replace(self, scores=scores, values=values, score_moved=moved)


@dataclass(frozen=True, eq=False)
class FanColumn:
    """One value column of a head for one query token: `base + max(0, above) - max(0, below)`, and what that is off."""

    base: Forms  # ()
    above: Forms  # (|P|,), times λ
    below: Forms  # (|N|,), times λ
    construction: float
    rounding: Floats  # (2,): because of the input, because of operations here

    @property
    def off(self) -> float:
        """All that it is off."""
        return self.construction + float(self.rounding.sum())


def read(keys: Keys, arithmetic: Format) -> list[FanColumn]:
    """What the head returns, one reading for each value column; O(T V) work."""
    together, copies = _merged(keys)
    leading = int(np.argmax(together.scores.range.lo))
    gaps = (together.scores - together.scores[leading : leading + 1]).range.hi  # (T,)
    computed = gaps + all_orders(together.score_error + together.score_error[leading])  # (T,), as computed
    far = computed <= -MUTE
    near = np.flatnonzero(~far)
    tried = near if len(near) <= FEW else near[near == leading]
    fans = [_Fan.around(together, int(token), far, gaps, computed) for token in tried]
    count, columns = len(keys.score_error), range(keys.value_error.shape[1])
    readings = ([fan.reading(column, count, copies, arithmetic) for fan in fans] for column in columns)
    return [min(ways, key=lambda reading: reading.off) for ways in readings]


def _without_noise(forms: Forms, tokens: Flags, noise: Flags) -> Forms:
    """Forms (T, ...) of some tokens without the terms of noise, whose size is added to the slack."""
    dropped = tokens.reshape(-1, *[1] * (forms.coefficients.ndim - 1)) & np.append(False, noise)
    lost = dot_up(np.where(dropped, np.abs(forms.coefficients), 0.0), forms.frame.sizes)
    return Forms(np.where(dropped, 0.0, forms.coefficients), rounded_up(forms.slack + lost, 1), forms.frame)


def _merged(keys: Keys) -> tuple[Keys, Floats]:
    """Tokens with scores and values that are equal up to noise as one, and how many each stands for."""
    kept = np.append(True, ~keys.noise)
    parts = (forms.coefficients * kept for forms in (keys.scores, keys.values))
    table = np.concatenate([part.reshape(len(keys.score_error), -1) for part in parts], axis=1)
    places: dict[bytes, list[int]] = {}
    for token, row in enumerate(table + 0.0):  # -0.0 is 0.0
        places.setdefault(row.tobytes(), []).append(token)
    copies = np.array([len(same) for same in places.values()], dtype=np.float64)
    if len(places) == len(table):
        return keys, copies
    first = np.array([same[0] for same in places.values()])
    shared = np.zeros(len(table), dtype=bool)
    shared[[token for same in places.values() if len(same) > 1 for token in same]] = True
    keys = keys.without_noise(shared)

    def worst(part: Floats) -> Floats:
        return np.stack([part[same].max(axis=0) for same in places.values()])

    def one(forms: Forms) -> Forms:
        return Forms(forms.coefficients[first], worst(forms.slack), forms.frame)

    more = Forms.constants(np.log(copies), keys.scores.frame)
    more = Forms(more.coefficients, sum_error(np.log(copies), LIBRARY_ULPS + 1), more.frame)
    merged = Keys(
        one(keys.scores) + more,
        one(keys.values),
        worst(keys.score_error),
        worst(keys.value_error),
        worst(keys.score_moved),
        worst(keys.value_moved),
        keys.variable_error,
        keys.noise,
    )
    return merged, copies


@dataclass(frozen=True, eq=False)
class _Fan:
    """The tokens seen from one of them as the base."""

    keys: Keys
    base: int
    t: Forms  # (T,)
    scale: Floats  # (v,), λ
    signs: Floats  # (T, v)
    misfits: Floats  # (T, v), how far a token is from its place in the fan
    mute: Flags  # (T,)
    gaps: Floats  # (T,), largest score minus that of some other token
    computed: Floats  # (T,), the same with rounding

    @classmethod
    def around(cls, keys: Keys, base: int, far: Flags, gaps: Floats, computed: Floats) -> _Fan:
        """Find λ and the classes; a far token that does not fit is mute."""
        t, rise = keys.scores - keys.scores[base : base + 1], keys.values - keys.values[base : base + 1]  # (T,), (T, v)
        weights = t.coefficients * t.frame.sizes**2  # (T, 1+V)
        norm = (weights * t.coefficients).sum(axis=1)  # (T,)
        slopes = np.einsum("tcv,tv->tc", rise.coefficients, weights) / np.where(norm > 0, norm, 1.0)[:, None]  # (T, v)
        scale = np.abs(np.where(far[:, None], 0.0, slopes)).max(axis=0)  # (v,)
        signs = np.where(slopes < 0, -1.0, 1.0)
        every = (
            np.broadcast_to(t.coefficients[:, None], rise.coefficients.shape),
            np.broadcast_to(t.slack[:, None], signs.shape),
        )
        misfits = (rise - Forms(*every, t.frame).scaled(signs * scale)).size  # (T, v)
        misfits[base] = 0.0
        spread = keys.values.range.hi.max(axis=0) - keys.values.range.lo.min(axis=0)  # (v,)
        mute = far & (misfits > np.maximum(np.exp(gaps)[:, None] * spread, NEGLIGIBLE * scale)).any(axis=1)
        return cls(keys, base, t, scale, signs, misfits, mute, gaps, computed)

    def reading(self, column: int, count: int, copies: Floats, arithmetic: Format) -> FanColumn:
        """One column; `count` keys in all."""
        keys, scale = self.keys, float(self.scale[column])
        inside = ~self.mute
        others = inside & (np.arange(len(inside)) != self.base)
        higher, lower = (np.flatnonzero(others & (self.signs[:, column] == sign)) for sign in (1.0, -1.0))
        highest = self._crossing(higher, lower)
        crossing = max(highest, 0.0)
        tokens = 1 + len(higher) + len(lower)
        misfit = float(self.misfits[inside, column].max())
        range_ = keys.values[:, column].range
        spread = float(above(range_.hi.max() - range_.lo.min()))
        mass = float(rounded_up(sum_up((copies * exp_up(self.gaps))[self.mute]), 1))
        plain = scale * lambert_up(max(len(higher), len(lower)) / e) + misfit + 2 * scale * crossing

        worst = float(keys.score_error[inside].max())
        eta = float(score_doubt(np.array(worst), np.array(worst), count, arithmetic))
        whole, drift = lambert_up((tokens - 1) / e), all_orders(arithmetic.unit, 3)
        reach = scale * (all_orders(whole) + crossing) + 2 * misfit  # X with η = 0
        along = reach + 7 * scale * eta
        path = 2 * eta * along + drift * (0.55 * scale * (tokens - 1) + 2 * whole * along + 4 * eta * along)
        if len(higher) and len(lower):
            apart = 4 * eta + (2 * eta + 2 * (highest + 4 * eta) if highest > -4 * eta else 0.0)
        else:
            apart = 2 * (eta - all_orders(worst)) + all_orders(float(np.sort(keys.score_error[inside])[-2:].sum()))
        direct = all_orders(2 * plain + scale * apart)
        leak = (copies * computed_weight(-self.computed))[self.mute].sum()
        largest = float(range_.magnitude[inside].max()) + float(keys.value_error[:, column].max())
        average = largest + leak * spread
        sums = sums_in_play(copies[inside].sum(), largest, count, arithmetic)
        sums = sums + sums_elsewhere(4 * leak, average, spread, count, arithmetic)
        if arithmetic.store:
            sums = sums + stored_weights(average, spread, count, arithmetic)
            sums = sums + stored_result(average + sums, arithmetic)
        rest = float(keys.value_error[:, column].max()) + (3 * mass + min(leak, 1.0)) * spread + float(sums)
        if count * arithmetic.unit > MOST_ROUNDINGS:
            rest = np.inf
        by_variables = dot_up(np.abs(self.t.coefficients[inside, 1:]), keys.variable_error)  # (T', 2)
        moved = by_variables + keys.score_moved[inside] + keys.score_moved[self.base]
        carried = keys.value_moved[inside, column].max(axis=0)  # (2,)
        along_path = (1 if tokens <= 2 else 2) * reach * moved.max(axis=0) + [0.0, min(path, direct, spread)]
        by_values = np.array([0.0, direct + 2 * misfit if highest <= 0 else np.inf])
        rounding = carried + min(along_path, by_values, key=np.sum) + [0.0, rest]
        t = self.t.scaled(np.full(len(inside), scale))
        construction = rounded_up(plain + mass * spread, ROUNDINGS)
        return FanColumn(
            keys.values[self.base, column], t[higher], t[lower], construction, rounded_up(rounding, ROUNDINGS)
        )

    def _crossing(self, above: npt.NDArray[np.integer], below: npt.NDArray[np.integer]) -> float:
        """The largest `t_j + t_k` for a token of each class, -inf if there are no such pairs.

        Where these are many, the sum of the largest of each class is taken: more, but O(T V) work as all else here.
        """
        if len(above) * len(below) > PAIRS:
            high = self.t.range.hi
            return float(np.nextafter(high[above].max() + high[below].max(), np.inf))
        pairs = [self.t[above] + self.t[token : token + 1] for token in below] if len(above) else []
        return max((float(pair.range.hi.max()) for pair in pairs), default=-np.inf)
