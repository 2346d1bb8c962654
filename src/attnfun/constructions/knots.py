"""Truncated linear maps with three keys a token and no interpolation points (ours; the targets of [B], truncated linear
theorems) [T 4.3].

**Construction.** For `f_i = clip(z_i, a, b)`, `z_i = w_i·x_i + t_i`, the read-in map makes tokens `(z_i, e_i)`, e_i a
one-hot position. One head; the query of token i is `(R z_i, 1, κ e_i)` and it finds

    its own token: key (0, -κ, e_i),  score 0,            value z_i
    other tokens:  key (0, -κ, e_j),  score -κ,           value z_j
    two memory tokens: (∓1, ±R a|b),  scores -R (z_i - a) and R (z_i - b),  values a and b.

**Bound.** The three tokens are a fan with one on each side (`proofs/fans.py`): within `0.27847/R` of the clip.
The other n - 1 tokens have at most `(n-1) e^{-κ}` of the weight, as the top score is never negative; they cost that
times the spread of the values. κ = 200. The paper's heads need `(b - a)/eps` interpolation points instead.
"""

from __future__ import annotations

from math import ceil
from typing import ClassVar

import numpy as np

from ..arithmetic.formats import round_to
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..targets import Target
from ..targets.piecewise import TruncatedLinear, TruncatedLinearTarget
from .base import Construction, Plan, PlanRequest
from .sharpness import MUTED, RECTIFIER, muted, sharpness


class KnotsConstruction(Construction[TruncatedLinearTarget, float]):
    """One head, two memory tokens."""

    name: ClassVar[str] = "knots"
    theorem: ClassVar[str] = "truncated linear maps of arXiv 2504.15956 with exact knots"
    options: ClassVar[frozenset[str]] = frozenset({"R"})
    proves: ClassVar[frozenset[str]] = frozenset({TruncatedLinearTarget.kind})
    made_for: ClassVar[tuple[type[Target], ...]] = (TruncatedLinearTarget,)

    def serves(self, target: Target) -> bool:
        """Truncated linear maps only."""
        return isinstance(target, TruncatedLinearTarget)

    def plan(self, target: TruncatedLinearTarget, request: PlanRequest) -> Plan[float]:
        """R from the tolerance."""
        sharp = sharpness(RECTIFIER, request)
        others = muted(len(target.family.w) - 1, largest_value(target))
        return Plan(2, RECTIFIER / sharp + others, sharp)

    def build(self, target: TruncatedLinearTarget, plan: Plan[float], dtype: str) -> Network:
        """Affine map and one head."""
        family, sharp = target.family, plan.details
        length = len(family.w)
        width = 1 + length + 2  # features: z | position | the two memory tokens
        position, ends = slice(1, 1 + length), round_to([family.a, family.b], dtype)
        query, key = np.zeros((2, width, 2 + length))
        query[0, 0] = sharp
        query[position, 2:] = MUTED * np.eye(length)
        key[position, 1] = -MUTED
        key[position, 2:] = np.eye(length)
        key[-2:, 0] = -1.0, 1.0
        key[-2:, 1] = sharp * ends * [1.0, -1.0]
        value = np.zeros((width, 1))
        value[0], value[-2:, 0] = 1.0, ends
        head = Attention.of(
            query=query[None],
            query_bias=np.eye(1, 2 + length, 1),
            key=key[None],
            value=value[None],
            output=np.ones((1, 1, 1)),
            memory=np.eye(width)[-2:],
            attends_data=True,
        )
        layers = tuple(rounded(layer, dtype) for layer in (read_in(family, width), head))
        return Network(layers, length, dtype)

    def paper_tokens(self, target: TruncatedLinearTarget, plan: Plan[float], eps: float) -> int | None:
        """The paper's single head has p interpolation points and an error of (b - a)/p."""
        return ceil((target.family.b - target.family.a) / eps)


def largest_value(target: TruncatedLinearTarget) -> float:
    """A bound on |z_i|, |a| and |b| over the domain."""
    family, domain = target.family, target.domain
    reach = np.maximum(np.abs(domain.lo), np.abs(domain.hi)).reshape(family.w.shape)  # (n, d)
    widest = (np.abs(family.w) * reach).sum(axis=1) + np.abs(family.t)  # (n,)
    return max(float(widest.max()), abs(family.a), abs(family.b))


def read_in(family: TruncatedLinear, width: int) -> Affine:
    """Tokens `(w_i·x_i + t_i, e_i, 0...)` of this width, each with its own weights."""
    length, features = family.w.shape
    right = np.zeros((length, features, width))
    right[:, :, 0] = family.w
    constant = np.zeros((length, width))
    constant[:, 0], constant[:, 1 : 1 + length] = family.t, np.eye(length)
    left = np.zeros((length, length, length))
    left[np.arange(length), np.arange(length), np.arange(length)] = 1.0
    return Affine(right, constant, left)
