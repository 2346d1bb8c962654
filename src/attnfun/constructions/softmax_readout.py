"""One attention layer, then a softmax over features, then a linear map ([B], corollary on one layer and a
softmax) [T 5.3].

**Construction.** Self-attention over the rows `(0, e_0)` and `(x_i - o_i, e_i)`, i = 1..n, o the centre of the domain.
Head p looks at row p from every row: the query is `200 e_p`, the key of row i is e_i, its value `x_i - o_i`.
Its output map makes what token p adds to the N scores of the grid's cells, `s_j = Σ_k β_k (x_k - o_k) (c_jk - o_k) -
Σ_k β_k (c_jk - o_k)²/2`. The softmax turns them into the partition of unity that a head of the construction `grid` has
for weights, and the linear map reads out the sampled values.

**Bound.** That of `grid.py`, `1.0004 Σ_k L_k h_k / 2` for slopes L_k and spacings h_k, and what the mass `n e^{-200}`
of rows that are not meant moves the scores. For the proof, softmax and linear map are one head of cross-attention
(`proofs/rewriting.py`).
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
from .grid import GridConstruction, GridDetails
from .sharpness import MUTED


class SoftmaxReadoutConstruction(Construction[Target, GridDetails]):
    """The grid's partition of unity by a softmax over features."""

    name: ClassVar[str] = "softmax-readout"
    theorem: ClassVar[str] = "arXiv 2504.15956 (one attention layer followed by a softmax)"
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "gamma"})
    figures: ClassVar[frozenset[str]] = GridConstruction.figures
    proves: ClassVar[frozenset[str]] = GridConstruction.proves
    automatic: ClassVar[bool] = False

    def plan(self, target: Target, request: PlanRequest) -> Plan[GridDetails]:
        """The grid's plan; its cells are features here."""
        return GridConstruction().plan_on_box(target, replace(request, norm=inf))

    def build(self, target: Target, plan: Plan[GridDetails], dtype: str) -> Network:
        """Rows with positions, one head for each token, softmax, read-out."""
        grid, gamma = plan.details.grid, plan.details.gamma
        length, width = target.domain.tokens
        rows = length + 1
        centres = grid.centres()  # (N, D)
        values = target.values(centres)  # (N, m)
        origin = round_to(((target.domain.lo + target.domain.hi) / 2).reshape(length, width), dtype)  # (n, d)
        beta = gamma / grid.spacing**2
        offset = centres - origin.ravel()  # (N, D)
        start = np.zeros((rows, width))
        start[1:] = -origin
        embedding = Affine(
            np.eye(width, width + rows)[None], np.hstack([start, np.eye(rows)]), np.eye(rows, length, -1)[None]
        )
        query, key = np.zeros((length, width + rows, rows)), np.zeros((length, width + rows, rows))
        query[np.arange(length), width:, np.arange(length) + 1] = MUTED
        key[:, width:] = np.eye(rows)
        attention = Attention.of(
            query,
            key,
            value=np.broadcast_to(np.eye(width + rows, width), (length, width + rows, width)),
            output=(beta * offset).T.reshape(length, width, -1),  # (n, d, N)
            output_bias=-(beta * offset**2).sum(axis=1) / 2,
            attends_data=True,
        )
        first = np.eye(1, rows)[None]  # all rows are equal
        readout = [Affine(values[None], np.zeros((1, target.outputs)), first)]
        if len(target.output_shape) == 2:
            readout.append(Affine.unflatten(*target.output_shape))
        layers = [embedding, attention, Softmax(len(centres)), *readout]
        return Network(tuple(rounded(layer, dtype) for layer in layers), length, dtype)

    def paper_tokens(self, target: Target, plan: Plan[GridDetails], eps: float) -> int | None:
        """The grid's."""
        return GridConstruction().paper_tokens(target, plan, eps)
