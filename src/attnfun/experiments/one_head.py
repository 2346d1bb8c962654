"""One softmax head, self- and cross-attention, sampled values: the theorems of arXiv 2504.19901, sup norm and L_p."""

from __future__ import annotations

from math import inf
from typing import Any, ClassVar

import numpy as np

import attnfun as af

from .rates import Convergence, RateStudy

BOTH = ("grid", "cross")
LINE, SQUARE, CUBE = (dict.fromkeys(names, (-1, 1)) for names in ("x", "xy", "xyz"))


def mixed(X: Any) -> Any:
    """A map on sequences of 2 tokens with 2 features: each output token depends on both input tokens."""
    a, b = X[..., 0, :], X[..., 1, :]
    rows = [a[..., 0] * b[..., 1], np.sin(a[..., 1] + b[..., 0]), np.tanh(a[..., 0] - b[..., 0]), a[..., 1] * b[..., 1]]
    return np.stack(rows, axis=-1).reshape((*a.shape[:-1], 2, 2))


class OneHead(Convergence):
    """The sup norm: error about the slope times the radius of a cell, N^{-1/D}."""

    name = "one-head"
    title = "One head, sup norm"
    constructions = BOTH
    text = (
        "A softmax head with one stored value a cell, by self-attention (`grid`) and cross-attention (`cross`), for "
        "continuous targets. The theorem of arXiv 2504.19901 makes the error fall like N^(-1/D) with N memory tokens "
        "in D variables, up to a logarithm; the a priori estimate is our bound, without one, at "
        "sampled slopes. Certificates have a few seconds "
        "each and no tolerance, so a bound may be above what more time would prove; the largest networks are measured "
        "only, at random points and by a search."
    )
    studies: ClassVar[tuple[RateStudy, ...]] = (
        RateStudy("line", "sin(3x)exp(-x)", "sin(3*x)*exp(-x)", LINE, (8, 16, 32, 64, 128, 256, 512), -1.0, BOTH),
        RateStudy(
            "square", "sin(3x)cos(2y)", "sin(3*x)*cos(2*y)", SQUARE, (16, 64, 256, 1024, 4096), -1 / 2, BOTH, 256
        ),
        RateStudy("cube", "x sin(2y) + z²", "x*sin(2*y) + z**2", CUBE, (27, 125, 512, 2197, 8000), -1 / 3, BOTH, 125),
        RateStudy(
            "sequences",
            "2 x 2 sequences, by position",
            mixed,
            af.Box(np.zeros((2, 2)), np.ones((2, 2))),
            (32, 162, 512, 2592),
            -1 / 4,
            BOTH,
            32,
            options={"layout": "position"},
        ),
    )


def _jumps(p: int) -> tuple[RateStudy, ...]:
    """A step on a line and the indicator of a disc, in L_p."""
    disc = "where(x**2 + y**2 <= 0.5, 1, 0)"
    sizes = (16, 32, 64, 128, 256, 512)
    return (
        RateStudy(f"step-{p}", f"step, L_{p}", "where(x > 0.3, 1, 0)", LINE, sizes, -1 / p, BOTH, inf, p),
        RateStudy(f"disc-{p}", f"disc, L_{p}", disc, SQUARE, (64, 256, 1024, 4096), -1 / (2 * p), BOTH, 256, p),
    )


class OneHeadLp(Convergence):
    """L_p: cells hold means, jumps are allowed."""

    name = "one-head-lp"
    title = "One head, L_p, targets that jump"
    constructions = BOTH
    text = (
        "The same head with the means of cells as values, for targets that jump, in L_1 and L_2. A jump costs the "
        "volume of the cells it crosses, so the error falls like N^(-1/(pD)). Errors are measured by a midpoint rule."
    )
    studies: ClassVar[tuple[RateStudy, ...]] = (*_jumps(1), *_jumps(2))
