"""One softmax head over a grid: single-head cross-attention ([A]), in the sup norm and L_p.

**Construction.** That of `grid.py`, with queries from X after the affine map, and keys and values from the memory
tokens alone. On one domain the memory is constant.

**Two inputs** [T 3.8]. For f(Q, K) cut the box of all pairs into cells with centres c_j = (c_j^Q, c_j^K). The score
`β c_j·x - β|c_j|²/2` of a pair x is a part that is linear in Q and `t_j = β c_j^K·K + b_j`, which depends on K alone.
So queries are made of Q, and the key of token j, `(β c_j^Q, t_j)`, by a sum of linear maps of K. Values are constants.
All that is said about one domain holds for the box of pairs.

**Bound.** That of `grid.py` without the data tokens' mass, for the same grid, sharpness and layout.
"""

from __future__ import annotations

from typing import ClassVar

from ..domains import Points, Region, TwoInputs
from ..domains.box import Box
from ..targets import Target
from .grid import GridConstruction


class CrossConstruction(GridConstruction):
    """Single-head cross-attention with one value a cell."""

    name: ClassVar[str] = "cross"
    theorem: ClassVar[str] = "arXiv 2504.19901 (single-head cross-attention, sup norm and L_p), with sharper bounds"
    attends_data: ClassVar[bool] = False
    automatic: ClassVar[bool] = False
    treats_tokens_alone: ClassVar[bool] = True
    options: ClassVar[frozenset[str]] = GridConstruction.options - {"memory"}
    domains: ClassVar[frozenset[str]] = frozenset({Box.kind, Region.kind, Points.kind, TwoInputs.kind})

    def rivals(self, target: Target) -> bool:
        """For two inputs there is no other construction."""
        return isinstance(target.domain, TwoInputs)
