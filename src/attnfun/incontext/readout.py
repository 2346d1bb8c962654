"""Sums of products by attention: the bilinear read-out [T 8.1].

Rows stand in pairs, each with its mirror image: the row r_k with value v_k, and -r_k with -v_k. A head whose scores are
η s_k, s_k = q·r_k, returns

    T(η) = Σ_k v_k sinh(η s_k) / Σ_k cosh(η s_k) = η (1/N) Σ_k s_k v_k + O(η³),

N the number of pairs. T is odd in η, so heads at η, 2η, .., Hη with the weights `richardson(H)`, each over its own
multiple of η, cancel the terms in η³, .., η^(2H-1). Dividing by η would also magnify whatever mirror images have in
common through rounding, layer after layer; heads at -η, .., -Hη, taken off, return the same T and cancel that. So
there are 2H heads.

**Bound.** Let ρ = max |s_k|, q² = mean s_k² / ρ² ≤ 1, t = ηρ, μ = mean |s_k||v_k|. Write S(z) = sinh(z)/z. Numerator
and denominator of T(η)/η are power series in η²; coefficient by coefficient, in absolute value,

    mean v_k s_k S(η s_k)  ≪  μ S(t),        mean cosh(η s_k) - 1  ≪  q² (cosh t - 1),

because |s_k| ≤ ρ and mean s^2j ≤ q² ρ^2j. As 1/(1+u) ≪ 1/(1-u), T(η)/η ≪ μ Σ_j c_j t^2j with
Σ_j c_j t^2j = S(t) / (1 - q² (cosh t - 1)). The heads keep the term j = 0 and multiply term j by Σ_h a_h h^2j, which
is zero for 0 < j < H. So the error is at most μ Σ_{j≥H} |Σ_h a_h h^2j| c_j t^2j, if q² (cosh(Ht) - 1) < 1. ∎

>>> round(truncation(2, 0.1) / 0.1**4, 1), round(truncation(3, 0.1) / 0.1**6, 1)
(1.6, 8.6)
"""

from __future__ import annotations

from fractions import Fraction
from math import acosh, factorial, inf, prod, sinh

from ..arithmetic.directed import rounded_up

TERMS = 40
"""Terms of the series; what follows them is bounded by a geometric series."""


def richardson(heads: int) -> list[Fraction]:
    """Weights a_1, .., a_H with Σ a_h = 1 and Σ a_h h^2j = 0 for 0 < j < H: Lagrange's, at the nodes h².

    >>> [float(weight) for weight in richardson(3)]
    [1.5, -0.6, 0.1]
    """
    nodes = range(1, heads + 1)
    return [prod((Fraction(k * k, k * k - h * h) for k in nodes if k != h), start=Fraction(1)) for h in nodes]


def truncation(heads: int, t: float, q: float = 1.0) -> float:
    """The bound above, relative to μ; infinite where it does not hold.

    Of the series TERMS terms are added. With F(z) = S(z)/(1 - q² (cosh z - 1)) and any z₀ for which that is finite,
    c_j ≤ F(z₀) z₀^-2j, so the rest is at most Σ|a_h| F(z₀) r^TERMS/(1 - r), r = (Ht/z₀)². Here F(z₀) = 2 S(z₀).
    """
    square = max(q * q, 1e-4)
    z0 = acosh(1 + 0.5 / square)
    ratio = (heads * t / z0) ** 2
    if ratio >= 1:
        return inf
    weights, c, total = richardson(heads), [], 0.0
    for j in range(TERMS):
        before = sum(c[j - i] / factorial(2 * i) for i in range(1, j + 1))
        c.append(1 / factorial(2 * j + 1) + square * before)
        if j >= heads:
            kept = abs(sum(weight * h ** (2 * j) for h, weight in enumerate(weights, 1)))
            total += float(kept) * c[j] * t ** (2 * j)
    rest = float(sum(map(abs, weights))) * 2 * sinh(z0) / z0 * ratio**TERMS / (1 - ratio)
    return rounded_up(total + rest, 60 * TERMS)  # at most TERMS additions and a few products for each coefficient
