"""Truncated linear maps by H heads whose interpolation points are the tokens' own positions ([B], truncated linear
theorem, multi-head) [T 4.2].

**Construction.** No memory at all. [a, b] is cut into H slices [a_h, a_h + (b-a)/H], each with n points of spacing `Δ
= (b - a)/((n - 1) H)`. Token j, through its one-hot position, is the j-th point L of every head: key `(β (L - c_h),
-β (L - c_h)²/2)`, value `L - a_h`, c_h the centre of the slice; the query of token i is `(z_i - c_h, 1)`. The sum of
the heads and a is the output: `clip(z, a, b) = a + Σ_h (clip(z, slice h) - a_h)`.

**Bound.** 0.85 Δ: the head of the slice that z is in is within 0.7 Δ (`truncated_linear.py`). A head whose slice ends
at a distance xΔ from z is off by at most `Δ Σ_j j e^{-γ (j²/2 + xj)}`, less than 0.07 Δ for x = 0, and for the two
slices next to z and all others together less than 0.15 Δ, as x grows by at least 1 a slice. The paper's bound is `(b
- a)/((n - 2) H)`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from ..network import Attention, Network
from ..network.network import rounded
from ..targets import Target
from ..targets.piecewise import TruncatedLinearTarget
from .base import Construction, Plan, PlanRequest
from .knots import read_in
from .truncated_linear import TYPICAL, interpolation_points, parabola, requested_size

WITHIN = 0.85
"""The bound above, in spacings."""


class MultiheadConstruction(Construction[TruncatedLinearTarget, int]):
    """H heads, no memory tokens."""

    name: ClassVar[str] = "multihead"
    theorem: ClassVar[str] = "arXiv 2504.15956 (truncated linear maps, multi-head)"
    options: ClassVar[frozenset[str]] = frozenset({"heads"})
    proves: ClassVar[frozenset[str]] = frozenset({TruncatedLinearTarget.kind})
    automatic: ClassVar[bool] = False

    def serves(self, target: Target) -> bool:
        """Truncated linear maps of at least two tokens."""
        return isinstance(target, TruncatedLinearTarget) and len(target.family.w) >= 2

    def plan(self, target: TruncatedLinearTarget, request: PlanRequest) -> Plan[int]:
        """H as requested, or as the tolerance needs."""
        spacing = (target.family.b - target.family.a) / (len(target.family.w) - 1)
        heads = requested_size(request, "heads", 1, 2 * spacing * TYPICAL)
        return Plan(0 if heads <= request.budget else heads, WITHIN * spacing / heads, heads)

    def build(self, target: TruncatedLinearTarget, plan: Plan[int], dtype: str) -> Network:
        """Affine map and one layer of heads."""
        family, heads = target.family, plan.details
        length = len(family.w)
        width = 1 + length  # features: z | position
        ends = np.linspace(family.a, family.b, heads + 1)
        query, key, value = np.zeros((heads, width, 2)), np.zeros((heads, width, 2)), np.zeros((heads, width, 1))
        bias = np.ones((heads, 2))
        query[:, 0, 0] = 1.0
        for head in range(heads):
            places, centre, beta = interpolation_points(ends[head], ends[head + 1], length)
            key[head, 1:] = parabola(places - centre, beta)
            value[head, 1:, 0] = places - ends[head]
            bias[head, 0] = -centre
        layer = Attention.of(
            query=query,
            query_bias=bias,
            key=key,
            value=value,
            output=np.ones((heads, 1, 1)),
            output_bias=np.array([family.a]),
            attends_data=True,
        )
        return Network(tuple(rounded(part, dtype) for part in (read_in(family, width), layer)), length, dtype)

    def paper_tokens(self, target: TruncatedLinearTarget, plan: Plan[int], eps: float) -> int | None:
        """There are no memory tokens."""
        return 0
