"""Truncated linear maps, constructed and trained side by side: the first experiments of arXiv 2504.15956, and knots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import attnfun as af

from .base import Cell, Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, GREY, ORANGE, SKY

REACH = 5.0
SAMPLES, FRESH = 800, 200
COLUMNS = ("construction", "size", "b - a", "paper's bound", "proved", "largest error", "MSE", "MSE trained")


@dataclass(frozen=True)
class Size:
    """One construction at one size; `ends` is b - a."""

    construction: str
    option: str
    size: int
    ends: float
    train: bool = False


@dataclass(frozen=True)
class Measured:
    """What came out."""

    size: Size
    paper: float | None
    proved: float
    largest: float
    mse: float
    trained: float | None

    @property
    def cells(self) -> tuple[Cell, ...]:
        """A row of the table."""
        size = self.size
        figures = (size.ends, self.paper, self.proved, self.largest, self.mse, self.trained)
        return (size.construction, f"{size.option} = {size.size}", *figures)


@dataclass(frozen=True)
class Setup:
    """Tokens of a sequence and their features, epochs of training, seconds for a proof, and all sizes."""

    length: int
    width: int
    epochs: int
    seconds: float
    sizes: tuple[Size, ...]

    def paper(self, size: Size) -> float | None:
        """The paper's bound."""
        steps = {"p": size.size, "heads": (self.length - 2) * size.size}.get(size.option)
        return None if steps is None else size.ends / steps


FULL = Setup(
    *(50, 10, 50, 1200.0),
    (
        *(Size("truncated-linear", "p", p, 50.0, p in (30, 60, 120)) for p in (15, 30, 60, 120, 240)),
        *(Size("multihead", "heads", heads, 50.0, heads in (1, 4, 16)) for heads in (1, 2, 4, 8, 16)),
        *(Size("truncated-linear", "p", 60, ends, True) for ends in (10.0, 25.0, 100.0)),
        *(Size("knots", "R", 2**k, 50.0) for k in (6, 13, 20, 27)),
    ),
)
QUICK = Setup(
    *(8, 4, 10, 2.0),
    (
        *(Size("truncated-linear", "p", p, 20.0, p == 30) for p in (15, 30, 60)),
        *(Size("multihead", "heads", heads, 20.0, heads == 2) for heads in (1, 2)),
        Size("truncated-linear", "p", 60, 10.0),
        *(Size("knots", "R", 2**k, 20.0) for k in (6, 13)),
    ),
)


class TruncatedLinear(Experiment):
    """Error against p, H, b - a and R."""

    name = "truncated-linear"
    title = "Truncated linear maps"
    constructions = ("truncated-linear", "multihead", "knots")
    extras = ("torch",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All sizes; quickly, the smallest."""
        from .training import recipe

        setup, rng = QUICK if quick else FULL, np.random.default_rng(0)
        shape = (setup.length, setup.width)
        w, t = rng.normal(size=shape), rng.normal(size=setup.length)
        X = rng.uniform(-REACH, REACH, (SAMPLES + FRESH, *shape))
        done = []
        for size in setup.sizes:
            step(f"{size.construction}, {size.option} = {size.size}, b - a = {size.ends:g}")
            done.append(_measured(setup, size, af.TruncatedLinear(w, t, -size.ends / 2, size.ends / 2), X))
        text = (
            f"`clip(w_i·x_i + t_i, a, b)` for each of {setup.length} tokens of {setup.width} features, x uniform in "
            f"[-{REACH:g}, {REACH:g}]: p interpolation points in one head, H heads without memory (arXiv 2504.15956), "
            f"and knots (ours), beside the same architecture trained: {recipe(SAMPLES, FRESH, setup.epochs)}. Proofs "
            f"have at most {setup.seconds:g} seconds each."
        )
        table = Table("sizes", "All sizes", COLUMNS, tuple(row.cells for row in done))
        return Result(text, (_picture(done),), (table,))


def _measured(setup: Setup, size: Size, target: af.TruncatedLinear, X: npt.NDArray[np.float64]) -> Measured:
    """Construct it, and train the same architecture if that is asked for; X (samples, n, d)."""
    from .training import OneLayer, fitted

    shape = X.shape[1:]
    net = af.compile(
        target,
        af.Box(np.full(shape, -REACH), np.full(shape, REACH)),
        construction=size.construction,
        options={size.option: size.size},
        time_limit=setup.seconds,
    )
    wanted, trained = target(X), None
    error = np.abs(net(X[SAMPLES:]) - wanted[SAMPLES:])
    if size.train:
        memory, heads = (size.size, 1) if size.option == "p" else (0, size.size)
        trained = fitted(lambda: OneLayer(setup.length, setup.width, memory, heads), X, wanted, SAMPLES, setup.epochs)
    return Measured(
        size, setup.paper(size), net.certificate.bound, float(error.max()), float(np.mean(error**2)), trained
    )


def _picture(results: list[Measured]) -> Picture:
    """Errors against each size."""
    usual = results[0].size.ends
    groups = (
        (f"p (one head, b - a = {usual:g})", "size", lambda size: size.option == "p" and size.ends == usual),
        (f"H (no memory, b - a = {usual:g})", "size", lambda size: size.option == "heads"),
        ("b - a (p = 60)", "ends", lambda size: size.option == "p" and size.size == 60),
        (f"R (knots, b - a = {usual:g})", "size", lambda size: size.option == "R"),
    )
    panels = []
    for label, axis, belongs in groups:
        rows = sorted((row for row in results if belongs(row.size)), key=lambda row: getattr(row.size, axis))
        across = [getattr(row.size, axis) for row in rows]
        curves = (
            Curve("paper's bound", across, [row.paper for row in rows], "--", GREY),
            Curve("proved", across, [row.proved for row in rows], "-", BLUE),
            Curve("largest error", across, [row.largest for row in rows], "o", SKY),
            Curve("root mean square", across, [row.mse**0.5 for row in rows], "s", GREEN),
            Curve(
                "root mean square, trained",
                across,
                [None if row.trained is None else row.trained**0.5 for row in rows],
                "x",
                ORANGE,
            ),
        )
        panels.append(Panel(label, label.split(" (")[0], "error", curves))
    return Picture("sizes", "Errors against p, H, b - a and R, constructed and trained", tuple(panels))
