"""Truncated linear maps by p interpolation points in one head ([B], truncated linear theorem, single head) [T 4.1].

**Construction.** For `f_i = clip(z_i, a, b)`, `z_i = w_i·x_i + t_i`, the query of token i is `(z_i - c, 1)`, c the
centre of [a, b]. Memory token k holds an interpolation point L_k, p of them over [a, b] with spacing Δ: key `(β (L_k
- c), -β (L_k - c)²/2)`, value L_k, so up to a common term its score is `-β (z_i - L_k)²/2`; `β Δ² = γ = 5.4`. The
data tokens, keys too, have the score -200 and are muted.

**Bound.** The head is within 0.7 Δ of the clip everywhere. *Proof.* Let Δ = 1 and L_0 the point nearest to z in [a,
b], `z = L_0 + θ`, |θ| <= 1/2, `d_j = j² - 2θj >= |j| (|j| - 1)`. The weights are `w_j = e^{-γ d_j/2} / Z` with Z >=
1, so `Σ w_j (z - L_j)² <= θ² + Σ_{j≠0} d_j e^{-γ d_j/2}`. Of j = ±1 one has `d e^{-γd/2} <= 2/(γ e) < 0.137`, the
other d >= 1 and less than 0.068; the others give less than 0.019 together. The sum is below 0.48, and `|z - Σ w_j
L_j|` is at most its root. Outside [a, b] the head moves monotonically towards the end (its slope is β times a
variance). The data tokens have the value 0 and the score -200, and the nearest point's score is at least
`-βΔ²/8 = -γ/8`, so they add at most `n e^{γ/8 - 200} max(|a|, |b|)`. ∎

The paper's bound is `(b - a)/p`. The true error oscillates between the points by about 0.06 Δ, slightly more near the
ends.
"""

from __future__ import annotations

from math import ceil, exp
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..arguments import whole_number
from ..errors import InputError
from ..network import Attention, Network
from ..network.network import rounded
from ..targets import Target
from ..targets.piecewise import TruncatedLinearTarget
from .base import Construction, Plan, PlanRequest
from .knots import read_in
from .sharpness import MUTED, muted

GAMMA = 5.4
WITHIN = 0.7
"""The bound above, in spacings."""
TYPICAL = 0.066
"""The error, in spacings, that a plan counts on; the certificate decides."""
MOST = 10**15
"""No size is larger."""


class TruncatedLinearConstruction(Construction[TruncatedLinearTarget, int]):
    """One head, p memory tokens."""

    name: ClassVar[str] = "truncated-linear"
    theorem: ClassVar[str] = "arXiv 2504.15956 (truncated linear maps, single head)"
    options: ClassVar[frozenset[str]] = frozenset({"p"})
    proves: ClassVar[frozenset[str]] = frozenset({TruncatedLinearTarget.kind})
    automatic: ClassVar[bool] = False

    def serves(self, target: Target) -> bool:
        """Truncated linear maps only."""
        return isinstance(target, TruncatedLinearTarget)

    def plan(self, target: TruncatedLinearTarget, request: PlanRequest) -> Plan[int]:
        """p as requested, or as the tolerance needs."""
        width = target.family.b - target.family.a
        points = requested_size(request, "p", 2, width * TYPICAL)
        data = muted(len(target.family.w), max(abs(target.family.a), abs(target.family.b))) * exp(GAMMA / 8)
        return Plan(points, WITHIN * width / (points - 1) + data, points)

    def build(self, target: TruncatedLinearTarget, plan: Plan[int], dtype: str) -> Network:
        """Affine map and one head."""
        family = target.family
        places, centre, beta = interpolation_points(family.a, family.b, plan.details)
        length, keys = len(family.w), parabola(places - centre, beta)  # (p, 2)
        width = 1 + length + 3  # features: z | position, not used | key and value of memory tokens
        memory = np.zeros((len(places), width))
        memory[:, -3:] = np.hstack([keys, places[:, None]])
        query, key = np.zeros((2, width, 2))
        query[0, 0] = 1.0
        key[1 : 1 + length, 1] = -MUTED
        key[-3:-1] = np.eye(2)
        head = Attention.of(
            query=query[None],
            query_bias=np.array([[-centre, 1.0]]),
            key=key[None],
            value=np.eye(width)[None, :, -1:],
            output=np.ones((1, 1, 1)),
            memory=memory,
            attends_data=True,
        )
        return Network(tuple(rounded(layer, dtype) for layer in (read_in(family, width), head)), length, dtype)

    def paper_tokens(self, target: TruncatedLinearTarget, plan: Plan[int], eps: float) -> int | None:
        """p with (b - a)/p = eps."""
        return ceil((target.family.b - target.family.a) / eps)


def requested_size(request: PlanRequest, name: str, least: int, error_at_one: float) -> int:
    """A size from the options, or the one for which `error_at_one / size` is the aim."""
    requested = request.options.get(name)
    if requested is None and request.aim is None:
        raise InputError(f'without eps, a size must be given, as in options={{"{name}": 60}}')
    if requested is None:
        return max(least, ceil(min(error_at_one / request.aim, MOST)) + 1) if request.aim else MOST
    return whole_number(f"options {name}", requested, least, MOST)


def interpolation_points(low: float, high: float, count: int) -> tuple[npt.NDArray[np.float64], float, float]:
    """Points over [low, high], (count,), the centre and β."""
    return np.linspace(low, high, count), (low + high) / 2, GAMMA / ((high - low) / (count - 1)) ** 2


def parabola(offsets: npt.NDArray[np.float64], beta: float) -> npt.NDArray[np.float64]:
    """Keys `(β s, -β s²/2)` of points at offsets s, (N,) -> (N, 2)."""
    return np.stack([beta * offsets, -beta * offsets**2 / 2], axis=1)
