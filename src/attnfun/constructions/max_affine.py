"""Maxima of affine functions, and differences of two, one head each (ours, sharp) [T 1.2].

**Construction.** The read-in map makes N tokens; token j holds the value `s_j = A_j·x + b_j` of plane j (of each of
the two functions, for a difference). A head with constant query scores them by `R s_j` and returns the average of the
s_j. The output of token 0 is the result; all tokens compute the same.

**Bound.** `0 <= max_j s_j - Σ_j w_j s_j <= W((N-1)/e)/R`, W Lambert's function: the tokens are a fan
(`proofs/fans.py`). Equality holds where one plane leads all others by the same gap. For a difference the two
errors add up at most.

**Smooth targets** of one output become a maximum of tangent planes if they are convex, and a difference of two such
maxima if not, with the bound of `pieces/tangents.py`; softmax gets a small share of the tolerance.
"""

from __future__ import annotations

from dataclasses import replace
from math import e
from typing import ClassVar

import numpy as np

from ..arithmetic.directed import lambert_up
from ..errors import InputError
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces.tangents import Tangents, has_second_derivatives, tangents
from ..targets import Expression, Target
from ..targets.callables import Traced
from ..targets.max_affine import MaxAffineTarget
from .base import Construction, Plan, PlanRequest
from .sharpness import sharpness

SOFT = 0.05
"""The share of the tolerance that softmax gets where planes approximate."""


class MaxAffineConstruction(Construction[Target, tuple[np.ndarray, float]]):
    """One head for each maximum."""

    name: ClassVar[str] = "max-affine"
    theorem: ClassVar[str] = "sharp bound on softmax averages of affine functions (partitions of arXiv 2504.19901)"
    options: ClassVar[frozenset[str]] = frozenset({"R", "tokens"})
    figures: ClassVar[frozenset[str]] = frozenset({"planes"})
    proves: ClassVar[frozenset[str]] = frozenset({MaxAffineTarget.kind, Expression.kind, Traced.kind})
    automatic: ClassVar[bool] = False
    made_for: ClassVar[tuple[type[Target], ...]] = (MaxAffineTarget,)

    def serves(self, target: Target) -> bool:
        """Max-affine functions, and smooth ones with one output."""
        return isinstance(target, MaxAffineTarget) or has_second_derivatives(target)

    def plan(self, target: Target, request: PlanRequest) -> Plan[tuple[np.ndarray, float]]:
        """The planes themselves or tangent planes, and R from the tolerance."""
        if isinstance(target, MaxAffineTarget):
            fit = Tangents(target.tables(), 0.0)
        else:
            fit = tangents(
                target,
                request.aim and (1 - SOFT) * request.aim,
                requested_planes(request),
                request.deadline,
                request.memory,
            )
            request = replace(request, aim=request.aim and SOFT * request.aim)
        heads, planes = fit.tables.shape[:2]
        error = heads * lambert_up((planes - 1) / e)
        sharp = sharpness(error, request)
        figures = {"planes": float(heads * planes)}
        return Plan(heads * planes, fit.error + error / sharp, (fit.tables, sharp), figures=figures)

    def build(self, target: Target, plan: Plan[tuple[np.ndarray, float]], dtype: str) -> Network:
        """Affine map to N tokens, one head for each maximum, and the output of the first token."""
        tables, sharp = plan.details
        return max_affine_network(tables, sharp, target.domain.tokens, dtype)

    def paper_tokens(self, target: Target, plan: Plan[tuple[np.ndarray, float]], eps: float) -> int | None:
        """The papers have no such construction."""
        return None


def requested_planes(request: PlanRequest) -> int | None:
    """The number of planes requested, of both maxima together."""
    requested = request.options.get("tokens")
    if requested is None and request.aim is None:
        raise InputError('without eps, a size must be given, as in options={"tokens": 100}')
    return None if requested is None else int(requested)


def max_affine_network(tables: np.ndarray, sharp: float, tokens: tuple[int, int], dtype: str) -> Network:
    """Coefficients (G, N, D+1) -> the network `max over tables[0] - max over tables[1]`, on sequences (n, d)."""
    heads, planes, _ = tables.shape
    length, width = tokens
    features = heads + 1  # the planes' values and a constant 1
    slopes = tables[:, :, :-1].reshape(heads, planes, length, width)  # (G, N, n, d)
    left = slopes.transpose(0, 3, 1, 2).reshape(heads * width, planes, length)  # (K=G*d, N, n)
    right = np.zeros((heads, width, width, features))
    for head in range(heads):
        right[head, np.arange(width), np.arange(width), head] = 1.0
    constant = np.hstack([tables[:, :, -1].T, np.ones((planes, 1))])  # (N, G+1)
    query = np.zeros((heads, features, 1))
    query[:, -1] = 1.0
    pick = np.eye(heads, features)[:, :, None]  # (G, G+1, 1)
    attention = Attention.of(
        query=query,
        key=sharp * pick,
        value=pick,
        output=np.array([1.0, -1.0])[:heads, None, None],
        attends_data=True,
    )
    first = Affine(np.ones((1, 1, 1)), np.zeros((1, 1)), np.eye(1, planes)[None])
    read_in = Affine(right.reshape(heads * width, width, features), constant, left)
    return Network(tuple(rounded(layer, dtype) for layer in (read_in, attention, first)), length, dtype)
