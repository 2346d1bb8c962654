"""One attention layer followed by a softmax over features: the corollary of arXiv 2504.15956."""

from __future__ import annotations

from typing import ClassVar

from .one_head import LINE, SQUARE
from .rates import Convergence, RateStudy

NAMES = ("softmax-readout",)


class SoftmaxReadout(Convergence):
    """The cells of a grid, as features instead of tokens."""

    name = "softmax-readout"
    title = "One layer and a softmax"
    constructions = NAMES
    text = (
        "The attention layer makes the scores, the softmax over features is the partition of unity and a linear map "
        "reads the values out (arXiv 2504.15956). Sizes are cells, one feature each; there are no memory tokens. The "
        "error is that of one head with as many cells, N^(-1/D)."
    )
    studies: ClassVar[tuple[RateStudy, ...]] = (
        RateStudy(
            "line", "sin(3x)exp(-x)", "sin(3*x)*exp(-x)", LINE, (8, 16, 32, 64, 128, 256), -1.0, NAMES, counted="cells"
        ),
        RateStudy(
            "square",
            "sin(3x)cos(2y)",
            "sin(3*x)*cos(2*y)",
            SQUARE,
            (16, 64, 256, 1024),
            -1 / 2,
            NAMES,
            256,
            counted="cells",
        ),
    )
