"""Tokens, heads and depth that a tolerance takes, construction by construction, beside the rate of the theory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import attnfun as af
from attnfun.experiments.base import Cell, Curve, Panel, Picture, Result, Step, Table, quietly
from attnfun.experiments.circuit import ENERGY, RANGES
from attnfun.experiments.drawing import BLUE, GREEN, GREY, ORANGE
from attnfun.experiments.one_head import LINE, SQUARE
from attnfun.experiments.rates import fitted

from .base import Contest

COARSE = (0.3, 0.1, 0.03, 0.01, 0.003)
SMALL = (0.03, 0.01, 0.003, 0.001)
MIDDLE = (0.5, 0.25, 0.12, 0.06)
FINE = (1e-2, 1e-4, 1e-6, 1e-8, 1e-10)
QUICK_STUDIES, QUICK_TOLERANCES = 3, 3
SECONDS, QUICK_SECONDS = 20.0, 2.0
WAVE, WAVES = "sin(3*x)*exp(-x)", "sin(3*x)*cos(2*y)"
TOKENS, WIDTH = 6, 2
EXAMPLES, FEATURES = 40, 5


@dataclass(frozen=True)
class Point:
    """What one tolerance took; `size` is the resource that grows."""

    eps: float
    size: int
    tokens: int
    heads: int
    depth: int

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """All of them."""
        return self.size, self.tokens, self.heads, self.depth


@dataclass(frozen=True)
class Study:
    """A target whose tolerance falls. The theory's law is a power of 1/eps, or of its digits, log10(1/eps)."""

    name: str
    target: Any
    domain: Any
    tolerances: tuple[float, ...]
    power: float
    """The exponent that the theory predicts."""
    digits: bool = False
    """Of the digits, not of 1/eps?"""
    counted: str = "tokens"
    """The resource that grows: tokens, heads, depth, or a name among the construction's figures."""
    construction: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def law(self) -> str:
        """In words."""
        of = "digits" if self.digits else "1/eps"
        if self.power == 0:
            return f"log({of})" if self.digits else "constant"
        return of if self.power == 1 else f"({of})^{self.power:g}"

    def across(self, eps: float) -> float:
        """What the size is a power of."""
        return float(-np.log10(eps)) if self.digits else 1 / eps


def _clip() -> af.TruncatedLinear:
    rng = np.random.default_rng(0)
    return af.TruncatedLinear(rng.normal(size=(TOKENS, WIDTH)), rng.normal(size=TOKENS), -2.0, 2.0)


def studies() -> tuple[Study, ...]:
    """All of them; quickly, the first."""
    clip, box = _clip(), af.Box(np.full((TOKENS, WIDTH), -2.0), np.full((TOKENS, WIDTH), 2.0))
    franke = "0.75*exp(-((9*x-2)**2+(9*y-2)**2)/4) + 0.5*exp(-((9*x-7)**2+(9*y-3)**2)/4)"
    unit = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
    return (
        Study("grid, 1 variable", WAVE, LINE, COARSE, 1, construction="grid"),
        Study("spectral, 1 variable", "sin(10*x)", LINE, FINE, 1, True, construction="spectral"),
        Study("max-affine, 1 variable", "exp(x)", LINE, (1e-1, 1e-2, 1e-3, 1e-4), 1 / 2, False, "planes", "max-affine"),
        Study("grid, 2 variables", WAVES, SQUARE, MIDDLE, 2, construction="grid"),
        Study("cross, 2 variables", WAVES, SQUARE, MIDDLE, 2, construction="cross"),
        Study("softmax-readout", WAVE, LINE, COARSE, 1, False, "cells", "softmax-readout"),
        Study("two-layer", WAVE, LINE, COARSE, 1, construction="two-layer-lookup"),
        Study("truncated-linear", clip, box, SMALL, 1, construction="truncated-linear"),
        Study("multihead", clip, box, SMALL, 1, False, "heads", "multihead"),
        Study("knots", clip, box, FINE, 0, construction="knots"),
        Study(
            "max-affine, 2 variables",
            "x**2 + exp(y)",
            SQUARE,
            (0.03, 0.01, 0.003, 0.001),
            1,
            False,
            "planes",
            "max-affine",
        ),
        Study("spectral, a pole", "1/(1 + 25*x**2)", LINE, FINE, 1, True, construction="spectral"),
        Study("spectral, 2 variables", franke, unit, FINE[:4], 2, True, construction="spectral"),
        Study("circuit, 3 variables", ENERGY, RANGES, FINE, 1, True, construction="circuit"),
    )


def compiled(study: Study, quick: bool) -> Iterator[Point]:
    """One network for each tolerance, relative to the largest value, until one is out of reach."""
    for eps in study.tolerances[:QUICK_TOLERANCES] if quick else study.tolerances:
        try:
            net = af.compile(
                study.target,
                study.domain,
                eps,
                relative=True,
                construction=study.construction,
                options=study.options,
                time_limit=QUICK_SECONDS if quick else SECONDS,
                proof=False,
            )
        except af.errors.ToleranceNotMet:
            return
        network = net.network
        counts = {"tokens": network.tokens, "heads": network.heads, "depth": len(network.attention)}
        yield Point(eps, int({**net.figures, **counts}[study.counted]), *counts.values())


def learnt(make: Callable[[int], Any], steps: tuple[int, ...]) -> Iterator[Point]:
    """Ridge regression in context: the distance of coefficients from the exact ones, for growing depth."""
    from sklearn.linear_model import Ridge

    rng = np.random.default_rng(0)
    X = rng.normal(size=(EXAMPLES, FEATURES))
    y = X @ rng.normal(size=FEATURES) + 0.1 * rng.normal(size=EXAMPLES)
    exact = Ridge(1.0).fit(X, y).coef_
    for count in steps:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few steps have not converged, and the learner says so
            model = make(count).fit(X, y)
            distance = float(np.abs(model.coef_ - exact).max() / np.abs(exact).max())
        network = model.network()
        depth = len(network.attention)
        yield Point(distance, depth, network.tokens, network.heads, depth)


LEARNERS: tuple[tuple[Study, Callable[[int], Any], tuple[int, ...]], ...] = (
    (
        Study("in context, gradient descent", None, None, (), 1, True, "depth"),
        lambda n: af.incontext.GradientDescent(alpha=1.0 / EXAMPLES, steps=n, momentum=0.9),
        (8, 16, 32, 64, 128),
    ),
    (
        Study("in context, doubling", None, None, (), 0, True, "depth"),
        lambda n: af.incontext.Ridge(1.0, n_steps=n),
        (3, 4, 5, 6, 7, 8, 9),
    ),
)


class Resources(Contest):
    """Size against tolerance."""

    name = "resources"
    title = "Resources against tolerance"
    extras = ("sklearn",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All studies; quickly, the first tolerances of the first."""
        done = []
        for study in studies()[:QUICK_STUDIES] if quick else studies():
            step(study.name)
            done.append((study, list(compiled(study, quick))))
        for study, make, steps in LEARNERS[1:] if quick else LEARNERS:
            step(study.name)
            done.append((study, list(learnt(make, steps))))
        text = (
            "What tolerances take, relative to the largest value: the resource that grows, and tokens, heads and "
            "attention layers from the largest tolerance to the smallest. The theory predicts a power of 1/eps, or of "
            "the digits log10(1/eps); the exponent is fitted by least squares. Errors "
            "are estimated here, not proved, so that large grids take part. The logarithm of the digits is less than "
            "any power of them. In-context learners run so many steps, and their distance from "
            "scikit-learn's coefficients is the tolerance. Fits are over few digits: a part of the size that does not "
            "depend on the tolerance, such as tokens for the waves of sin(10x), makes the exponent smaller."
        )
        rows = tuple(_row(study, points) for study, points in done)
        columns = (
            "construction",
            "what grows",
            "theory",
            "predicted",
            "fitted",
            "eps",
            "size",
            "tokens",
            "heads",
            "depth",
        )
        every = tuple((study.name, point.eps, *point.counts) for study, points in done for point in points)
        tables = (
            Table("rates", "Rates", columns, rows),
            Table(
                "points",
                "All tolerances",
                ("construction", "eps", "size", "tokens", "heads", "depth"),
                every,
                "",
                False,
            ),
        )
        return Result(text, (_picture(done),), tables)


def rate(study: Study, points: list[Point]) -> float:
    """The exponent of what the size is a power of."""
    return fitted([study.across(point.eps) for point in points], [point.size for point in points])


def _row(study: Study, points: list[Point]) -> tuple[Cell, ...]:
    first, last = points[0], points[-1]
    spans = (f"{a} to {b}" if a != b else str(a) for a, b in zip(first.counts, last.counts, strict=True))
    span = f"{first.eps:.1g} to {last.eps:.1g}"
    return study.name, study.counted, study.law, float(study.power), round(rate(study, points), 3) + 0.0, span, *spans


def _picture(done: list[tuple[Study, list[Point]]]) -> Picture:
    """Sizes as marks, the predicted rate dashed through the last."""
    panels = []
    for study, points in done:
        eps, last = [point.eps for point in points], points[-1]
        guide = [last.size * (study.across(one) / study.across(last.eps)) ** study.power for one in eps]
        curves = (
            Curve("the theory's rate", eps, guide, "--", GREY),
            Curve("what grows", eps, [point.size for point in points], "o-", BLUE),
            Curve("heads", eps, [point.heads for point in points], "x:", ORANGE),
            Curve("depth", eps, [point.depth for point in points], "s:", GREEN),
        )
        panels.append(Panel(f"{study.name}: {study.law}", "eps", study.counted, curves))
    return Picture("sizes", "Tokens, heads and depth against the tolerance, with the theory's rate", tuple(panels), 4)
