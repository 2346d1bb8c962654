"""Maxima of planes: the sharp bound W((N-1)/e)/R, and tangent planes of smooth functions."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

import attnfun as af

from .one_head import LINE, SQUARE
from .rates import Convergence, RateStudy

NAMES = ("max-affine",)
VARIABLES, PLANES = 4, 20
SHARPNESSES = tuple(2**k for k in range(6, 21, 2))


def _two() -> af.MaxAffine:
    """max(0, x_1): the bound is attained where R x_1 is W(1/e) + 1."""
    return af.MaxAffine(np.eye(2, VARIABLES) * [[1.0], [0.0]], np.zeros(2))


def _fan() -> af.MaxAffine:
    """x_1 leads all others, multiples of x_2, by the same gap where x_2 = 0: the bound is attained there."""
    slopes = np.zeros((PLANES, VARIABLES))
    slopes[0, 0] = 1.0
    slopes[1:, 1] = np.linspace(-0.5, 0.5, PLANES - 1)
    return af.MaxAffine(slopes, np.zeros(PLANES))


class MaxAffineRate(Convergence):
    """Softmax averages of planes against their maximum."""

    name = "max-affine"
    title = "Maxima of planes"
    constructions = NAMES
    text = (
        "A head whose scores are R times its values is a maximum of N planes to within W((N-1)/e)/R, W Lambert's "
        "function (ours). The bound is sharp. It is attained where one plane leads all others by the same gap: in the "
        "first study on a hyperplane, in the third on a plane of two dimensions less, which random points miss as R "
        "grows. Smooth functions are maxima of tangent planes, or differences of two, with an error like "
        "N^(-2/D)."
    )
    studies: ClassVar[tuple[RateStudy, ...]] = (
        RateStudy("two", "max(0, x), 4 variables", _two(), [(-1, 1)] * VARIABLES, SHARPNESSES, -1.0, NAMES, option="R"),
        RateStudy("line", "exp(x)", "exp(x)", LINE, (4, 8, 16, 32, 64), -2.0, NAMES, counted="planes"),
        RateStudy("fan", "a fan of 20 planes", _fan(), [(-1, 1)] * VARIABLES, SHARPNESSES, -1.0, NAMES, option="R"),
        RateStudy(
            "square", "x² + exp(y)", "x**2 + exp(y)", SQUARE, (9, 16, 36, 64, 144), -1.0, NAMES, counted="planes"
        ),
    )
