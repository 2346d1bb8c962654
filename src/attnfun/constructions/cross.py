"""One softmax head over a grid: single-head cross-attention ([A]), in the sup norm and L_p.

**Construction.** That of `grid.py`, with queries from X after the affine map, and keys and values from the memory
tokens alone. The memory is constant.

**Bound.** That of `grid.py` without the data tokens' mass, for the same grid, sharpness and layout.
"""

from __future__ import annotations

from typing import ClassVar

from .grid import GridConstruction


class CrossConstruction(GridConstruction):
    """Single-head cross-attention with one value a cell."""

    name: ClassVar[str] = "cross"
    theorem: ClassVar[str] = "arXiv 2504.19901 (single-head cross-attention, sup norm and L_p), with sharper bounds"
    attends_data: ClassVar[bool] = False
    automatic: ClassVar[bool] = False
    treats_tokens_alone: ClassVar[bool] = True
