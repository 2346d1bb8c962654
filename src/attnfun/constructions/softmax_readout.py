"""One attention layer, then a softmax over features, then a linear map ([B], corollary on one layer and a
softmax) [T 5.3].

**Construction.** The embedding puts token i into its own block, `z_i = (e_i ⊗ x_i)`. One head with equal scores
averages the n tokens: n times that is vec(X), exactly affine in X. Its output map makes the N scores of the grid's
cells, `s_j = Σ_k β_k (x_k - o_k) (c_jk - o_k) - Σ_k β_k (c_jk - o_k)²/2`, o the centre of the domain. The softmax
turns them into the partition of unity that a head of the construction `grid` has for weights, and the linear map
reads out the sampled values.

**Bound.** That of `grid.py`: `1.0004 Σ_k L_k h_k / 2` for slopes L_k and spacings h_k. For the proof, softmax and
linear map are one head of cross-attention (`proofs/rewriting.py`).
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import ClassVar

import numpy as np

from ..arithmetic.formats import round_to
from ..network import Affine, Attention, Network, Softmax
from ..network.network import rounded
from ..targets import Target
from .base import Construction, Plan, PlanRequest
from .grid import GridConstruction


class SoftmaxReadoutConstruction(Construction):
    """The grid's partition of unity by a softmax over features."""

    name: ClassVar[str] = "softmax-readout"
    theorem: ClassVar[str] = "arXiv 2504.15956 (one attention layer followed by a softmax)"
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "gamma"})
    figures: ClassVar[frozenset[str]] = GridConstruction.figures
    proves: ClassVar[frozenset[str]] = GridConstruction.proves
    automatic: ClassVar[bool] = False

    def plan(self, target: Target, request: PlanRequest) -> Plan:
        """The grid's plan; its cells are features here."""
        return GridConstruction().plan(target, replace(request, norm=inf))

    def build(self, target: Target, plan: Plan, dtype: str) -> Network:
        """Embedding, one averaging head, softmax, read-out."""
        grid, gamma = plan.details.grid, plan.details.gamma
        (length, width), size = target.domain.tokens, target.domain.size
        centres = grid.centres()  # (N, D)
        values = target.values(centres)  # (N, m)
        origin = round_to(((target.domain.lo + target.domain.hi) / 2).ravel(), dtype)  # (D,)
        beta = gamma / grid.spacing**2
        offset = centres - origin  # (N, D)
        blocks = np.eye(size).reshape(length, width, size)  # token i -> features of block i
        each = np.eye(length)  # (n, n): A_i keeps row i
        constant = np.zeros((length, size))
        for token in range(length):
            constant[token, token * width : (token + 1) * width] = -origin[token * width : (token + 1) * width]
        embedding = Affine(blocks, constant, each[:, :, None] * each[:, None, :])
        head = Attention.of(
            query=np.zeros((1, size, 1)),
            key=np.zeros((1, size, 1)),
            value=np.eye(size)[None],
            output=(length * beta[:, None] * offset.T)[None],  # (1, D, N)
            output_bias=-(beta * offset**2).sum(axis=1) / 2,
            attends_data=True,
        )
        first = np.eye(1, length)[None]  # all rows are equal
        readout = [Affine(values[None], np.zeros((1, target.outputs)), first)]
        if len(target.output_shape) == 2:
            readout.append(Affine.unflatten(*target.output_shape))
        layers = [embedding, head, Softmax(len(centres)), *readout]
        return Network(tuple(rounded(layer, dtype) for layer in layers), length, dtype)

    def paper_tokens(self, target: Target, plan: Plan, eps: float) -> int | None:
        """The grid's."""
        return GridConstruction().paper_tokens(target, plan, eps)
