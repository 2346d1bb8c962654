"""Sums of products of linear forms over the cube `|ε_k| <= 1`, as differences of two squares [T 12.2].

What a sum of products leaves open is a quadratic form `Σ_j (a_j·ε)(b_j·ε)` of low rank: one product for each of a few
j, of rows with many symbols. Sizes of rows do not see that all products cannot be large at once. Two squares do,

    Σ_j (a_j·ε)(b_j·ε) = ¼ |Z₊ε|² - ¼ |Z₋ε|²,      rows t_j a_j ± b_j/t_j of Z±,

and `|Zε|² <= |Z R² Zᵀ| Σ_k r_k⁻²` for every R = diag(r) > 0, with the spectral norm of a small matrix.

>>> rows = np.array([[1.0, 2.0, -3.0]])
>>> 36.0 <= largest_square(rows) < 36.001
np.True_
"""

from __future__ import annotations

import numpy as np

from ..arithmetic.directed import SMALLEST, ULP, Floats, rounded_up

SPARE = 8
"""Roundings beyond those that are counted, for the few operations around a sum."""
IMPROVED = 2
"""Times that the numbers r are chosen anew. By trial: the first two gain a tenth, the next ones a few hundredths."""
SQUARINGS = 5
"""Times that a matrix is squared for its norm: n rows are off by a factor of at most `n^(1/64)`. By trial."""
LEAST_SHARE = 1e-9
"""No number `r_k⁻²` is a smaller share of their mean. Any will do."""


def sums_of_products(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """Bounds on `Σ_j (a_lj·ε)(b_jm·ε)` for terms a (B, K, .., l, n) and b (B, K, .., n, m): (B, .., l, m) each."""
    x = np.moveaxis(a, 1, -1)[..., :, None, :, :]  # (B, .., l, 1, n, K)
    y = np.swapaxes(np.moveaxis(b, 1, -1), -3, -2)[..., None, :, :, :]  # (B, .., 1, m, n, K)
    own, other = np.abs(x).sum(axis=-1, keepdims=True), np.abs(y).sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        ratio = np.sqrt(other / own)
        ratio = np.where(np.isfinite(ratio) & (ratio > 0), ratio, 1.0)  # t_j; any number > 0 will do
        inverse = 1 / ratio
        nothing = (own == 0) | (other == 0)  # these products are zero
        x, y = np.where(nothing, 0.0, x * ratio), np.where(nothing, 0.0, y * inverse)
        sizes = np.where(nothing, 0.0, own * ratio + other * inverse).sum(
            axis=(-2, -1)
        )  # (B, .., l, m), of all entries
        count = a.shape[1] + a.shape[-1]
        lost = rounded_up(4 * ULP * sizes + 4 * count * SMALLEST, count)  # by rounding the entries
        high, low = (rounded_up((np.sqrt(largest_square(z)) + lost) ** 2 / 4, SPARE) for z in (x + y, x - y))
        unequal = 4 * ULP * (own * other).sum(axis=(-2, -1)) + count * SMALLEST  # t_j (1/t_j) is 1 up to rounding
        high, low = (rounded_up(each + unequal, count + SPARE) for each in (high, low))
    return np.where(np.isnan(low), -np.inf, -low), np.where(np.isnan(high), np.inf, high)


def largest_square(rows: Floats) -> Floats:
    """A bound on `|Zε|²` over all `|ε_k| <= 1`, for Z (.., n, K): (..)."""
    symbols = rows.shape[-1]
    top = np.abs(rows).max(axis=(-2, -1), initial=0.0)
    known = np.isfinite(top)
    shift = np.frexp(np.where(known, top, 0.0))[1]  # a power of two: the largest entry is then in [1/2, 1)
    z = np.ldexp(np.where(known[..., None, None], rows, 0.0), -shift[..., None, None])
    scale = _scales(z)  # (.., K)
    y = z * scale[..., None, :]
    gram = y @ np.swapaxes(y, -1, -2)  # (.., n, n)
    trace, norm = _normalised(gram)
    norm = trace * (norm + (symbols + 2 * SPARE) * ULP) + symbols * SMALLEST
    reach = rounded_up((1 / scale**2).sum(axis=-1), symbols + SPARE)
    bound = np.ldexp(rounded_up(norm * reach, SPARE), 2 * shift)
    return np.where(known, np.where(top == 0, 0.0, bound), np.inf)


def _scales(z: Floats) -> Floats:
    """Numbers r > 0 for which the bound is small, (.., K).

    The best bound is the largest `(Σ_k √(z_kᵀ W z_k))²` over W >= 0 of trace 1, with `r_k⁻² = √(z_kᵀ W z_k)`.
    """
    count = z.shape[-2]
    weight = np.broadcast_to(np.eye(count) / count, (*z.shape[:-2], count, count))
    scale = _of_weight(weight, z)
    for _ in range(IMPROVED if count > 1 else 0):
        y = z * scale[..., None, :]
        values, vectors = np.linalg.eigh(weight)
        root = (vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :]) @ np.swapaxes(vectors, -1, -2)
        moved = root @ (y @ np.swapaxes(y, -1, -2)) @ root
        weight = moved / np.maximum(np.trace(moved, axis1=-2, axis2=-1), SMALLEST)[..., None, None]
        scale = _of_weight(weight, z)
    return scale


def _of_weight(weight: Floats, z: Floats) -> Floats:
    """`(z_kᵀ W z_k)^(-1/4)`, (.., K)."""
    sizes = np.sqrt(np.maximum((z * (weight @ z)).sum(axis=-2), 0.0))
    sizes = sizes + LEAST_SHARE * sizes.mean(axis=-1, keepdims=True)
    return 1 / np.sqrt(np.where(sizes > 0, sizes, 1.0))


def _normalised(matrix: Floats) -> tuple[Floats, Floats]:
    """The trace of matrices (.., n, n) of the form `Y Yᵀ`, and a bound on the spectral norm of what they are of it.

    `|T|² = |TᵀT|`, again and again; the last norm is at most Frobenius' norm. Each product is off by at most
    `n u |T|_F²` in Frobenius' norm, and `|T|_F²` is the trace of TᵀT.
    """
    count, traces = matrix.shape[-1], []
    for squaring in range(SQUARINGS + 1):
        matrix = np.swapaxes(matrix, -1, -2) @ matrix if squaring else matrix
        trace = np.trace(matrix, axis1=-2, axis2=-1)
        traces.append(rounded_up(trace, 2 * count))
        matrix = matrix / np.where(trace > 0, trace, 1.0)[..., None, None]
    norm = rounded_up(np.sqrt((matrix**2).sum(axis=(-2, -1))), count**2 + SPARE) + SPARE * ULP
    for trace in reversed(traces[1:]):
        norm = rounded_up(np.sqrt(trace * (norm + (count + SPARE) * ULP)), SPARE)
    return traces[0], norm
