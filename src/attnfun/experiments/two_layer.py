"""Two attention layers for maps of sequences, constructed and trained: a theorem of arXiv 2504.15956 at work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import attnfun as af

from . import rates
from .base import Cell, Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, ORANGE
from .one_head import LINE, SQUARE

WHOLE = "Samples, epochs, sizes and seeds are the authors'; numbers are drawn by NumPy, from the same distributions."
BANK = ("two-layer-lookup",)
STUDIES = (
    rates.RateStudy("line", "sin(3x)exp(-x)", "sin(3*x)*exp(-x)", LINE, (8, 16, 32, 64, 128), -1.0, BANK),
    rates.RateStudy("square", "sin(3x)cos(2y)", "sin(3*x)*cos(2*y)", SQUARE, (16, 64, 256), -1 / 2, BANK),
)


HIDDEN = (
    ("sin(3x)exp(-x)", "sin(3*x)*exp(-x)", LINE, (0.1, 0.01, 0.001)),
    ("sin(3x)cos(2y)", "sin(3*x)*cos(2*y)", SQUARE, (0.4, 0.2, 0.1)),
    ("sin of the sum of six", "sin(a + b + c + d + e + f)", dict.fromkeys("abcdef", (0, 0.5)), (0.3, 0.1)),
)
"""Continuous maps, and the tolerances at which their rectifiers are counted."""
SEED = 42
"""Of the generator."""
COLUMNS = ("network", "tokens", "heads", "proved", "largest error", "MSE", "spread")
TRAIN = 0.8
"""The share of the samples that is trained on."""


@dataclass(frozen=True)
class Sweep:
    """The sequence task at one length: networks of so many features, heads or tokens varying; layouts constructed."""

    name: str
    length: int
    features: int
    points: tuple[int, ...]
    heads: tuple[int, ...]
    seeds: range
    """Of training."""
    layouts: tuple[str, ...] = ("position-dependent",)

    @property
    def networks(self) -> list[tuple[int, int]]:
        """Tokens and heads of what is trained."""
        return [(p, H) for p in self.points for H in self.heads]


@dataclass(frozen=True)
class TwoLayerSetup:
    """Features of tokens, hidden units of the generator, samples and epochs of training, and what varies."""

    width: int
    hidden: int
    samples: int
    epochs: int
    sweeps: tuple[Sweep, ...]


FULL = TwoLayerSetup(
    *(5, 10, 50_000, 3),
    (
        Sweep("heads", 20, 32, (20,), (1, 2, 4, 8, 16, 32), range(1237, 1244)),
        Sweep(
            *("points", 10, 16, (10, 12, 14, 16, 18, 20), (8,), range(1234, 1237)), ("position-dependent", "token-wise")
        ),
    ),
)
QUICK = TwoLayerSetup(
    *(3, 4, 200, 1),
    (Sweep("heads", 6, 8, (6,), (1, 2), range(2)), Sweep("points", 4, 8, (4, 6), (2,), range(2))),
)


@dataclass(frozen=True, eq=False)
class SequenceTask:
    """The generator's map, points and values (B, n, d)."""

    module: Any
    X: npt.NDArray[np.float64]
    Y: npt.NDArray[np.float64]

    @classmethod
    def drawn(cls, length: int, setup: TwoLayerSetup) -> SequenceTask:
        """All weights normal, points uniform in [0, 1]."""
        import torch
        from torch import nn

        rng, size, hidden = np.random.default_rng(SEED), length * setup.width, setup.hidden
        module = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size)).double()
        X = rng.uniform(0, 1, (setup.samples, length, setup.width))
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
            Y = module(torch.tensor(X.reshape(len(X), -1))).numpy().reshape(X.shape)
        return cls(module, X, Y)


class TwoLayer(Experiment):
    """Rectifiers to any tolerance, other maps through rectifiers or by a bank."""

    name = "two-layer"
    title = "Two attention layers"
    constructions = ("two-layer", *BANK)
    extras = ("torch",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """The authors' task on sequences, sizes for continuous maps, and the rates of the bank."""
        setup, studies = (QUICK, STUDIES[:1]) if quick else (FULL, STUDIES)
        done = [(sweep, _sequences(sweep, setup, step)) for sweep in setup.sweeps]
        results = [(study, rates.run(study, quick, step)) for study in studies]
        rated = tuple(rates.panel(*result) for result in results)
        pictures = (
            Picture(
                "sequences", "Two layers, constructed and trained: mean squares", tuple(_panel(*one) for one in done)
            ),
            Picture("rates", "Two layers with a bank: error against tokens", rated),
        )
        text = (
            "Maps of sequences by two layers of attention and no feed-forward part (arXiv 2504.15956). The paper's "
            f"task, a map of sequences with {setup.hidden} hidden rectifiers, takes one head for each unit, whatever "
            "the tolerance. Other continuous maps become a hidden layer of rectifiers. Trained: the authors' network, "
            "a shared projection with a diagonal for each token, p tokens in all, two layers with linear maps; Adam, "
            f"{setup.epochs} epochs, batches of 32, lr 0.001, {int(TRAIN * setup.samples):,} of {setup.samples:,} "
            f"samples, errors on the others; mean and standard deviation over several seeds. All coordinates "
            "belong to the target here. The rates are those of a variant, `two-layer-lookup`, whose second layer looks "
            f"up in a bank of memory. {'' if quick else WHOLE}"
        )
        hidden = _rectified(HIDDEN[:1] if quick else HIDDEN, step)
        tables = (*(table for _, table in done), hidden, *(rates.table(*result) for result in results))
        return Result(text.strip(), pictures, tables)


def _sequences(sweep: Sweep, setup: TwoLayerSetup, step: Step) -> Table:
    """Both layouts of the constructed network, and trained ones."""
    from .training import TwoLayers, fitted

    task, shape = SequenceTask.drawn(sweep.length, setup), (sweep.length, setup.width)
    fit = int(TRAIN * setup.samples)
    fresh, wanted = task.X[fit:], task.Y[fit:]
    rows: list[tuple[Cell, ...]] = []
    for layout in sweep.layouts:
        step(f"{sweep.length} tokens, rectifiers, {layout}")
        box = af.Box(np.zeros(shape), np.ones(shape))
        net = af.compile(task.module, box, 1e-6, construction="two-layer", options={"layout": layout})
        error = np.abs(net(fresh) - wanted)
        figures = net.certificate.bound, float(error.max()), float(np.mean(error**2))
        rows.append((f"constructed, {layout}", sweep.length + 1, net.network.heads, *figures, None))
    for points, heads in sweep.networks:
        step(f"{sweep.length} tokens, training, p = {points}, H = {heads}")
        sizes = (*shape, points, heads, sweep.features)
        errors = [
            fitted(lambda sizes=sizes: TwoLayers(*sizes), task.X, task.Y, fit, setup.epochs, seed)
            for seed in sweep.seeds
        ]
        rows.append(("trained", points, 2 * heads, None, None, float(np.mean(errors)), float(np.std(errors))))
    notes = (
        f"Variance of the target: {wanted.var():.3g}. Networks that are trained have {sweep.features} features; "
        f"{len(sweep.seeds)} seeds each."
    )
    title = f"Sequence to sequence, {sweep.length} tokens of {setup.width} features"
    return Table(sweep.name, title, COLUMNS, tuple(rows), notes)


def _panel(sweep: Sweep, table: Table) -> Panel:
    """Mean squares against what varies."""
    column = "tokens" if len(sweep.points) > 1 else "heads"
    rows = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    trained = [row for row in rows if row["network"] == "trained"]
    across = [float(row[column] or 0) / (2 if column == "heads" else 1) for row in trained]

    def level(what: str, row: dict[str, Cell]) -> list[float]:
        return [float(row[what] or 0.0)] * len(across)  # type: ignore[arg-type]

    curves = (
        Curve("trained", across, [float(row["MSE"] or 0) for row in trained], "x-", ORANGE,
              [float(row["spread"] or 0) for row in trained]),
        Curve("constructed", across, level("MSE", rows[0]), "-", GREEN),
        Curve("constructed, square of what is proved", across, [y**2 for y in level("proved", rows[0])], "--", BLUE),
    )  # fmt: skip
    (least, _), (_, most) = sweep.networks[0], sweep.networks[-1]
    axis, fixed = ("p", f"H = {most}") if column == "tokens" else ("H", f"p = {least}")
    return Panel(f"{sweep.length} tokens: {axis} ({fixed})", axis, "mean square", curves)


def _rectified(maps: tuple[tuple[str, str, Any, tuple[float, ...]], ...], step: Step) -> Table:
    """How many rectifiers continuous maps take."""
    rows: list[tuple[Cell, ...]] = []
    for title, formula, domain, tolerances in maps:
        for eps in tolerances:
            step(f"{title} to {eps:g}")
            net = af.compile(formula, domain, eps, construction="two-layer")
            hidden = af.rectifiers(formula, domain, eps)
            figures = net.summary().figures
            rows.append((
                title, eps, int(figures["rectifiers"]), int(figures["directions"]), net.network.heads,
                net.certificate.bound, hidden.units, hidden.certificate.bound,
            ))  # fmt: skip
    columns = ("map", "eps", "rectifiers", "directions", "heads", "proved", "af.rectifiers", "its bound")
    notes = "`af.rectifiers` makes the hidden layer by itself, without attention."
    return Table("rectifiers", "Continuous maps through rectifiers", columns, tuple(rows), notes)
