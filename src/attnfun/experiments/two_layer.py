"""Two attention layers for maps of sequences, constructed and trained: a theorem of arXiv 2504.15956 at work."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import attnfun as af

from . import rates
from .base import Cell, Experiment, Picture, Result, Step, Table, quietly
from .one_head import LINE, SQUARE

SAMPLES, FRESH = 800, 200
BANK = ("two-layer-lookup",)
STUDIES = (
    rates.Study("line", "sin(3x)exp(-x)", "sin(3*x)*exp(-x)", LINE, (8, 16, 32, 64, 128, 256), -1.0, BANK),
    rates.Study("square", "sin(3x)cos(2y)", "sin(3*x)*cos(2*y)", SQUARE, (16, 64, 256, 1024), -1 / 2, BANK, 256),
)


@dataclass(frozen=True)
class Setup:
    """Tokens of a sequence, their features, hidden units, epochs of training, and the networks to be made."""

    length: int
    width: int
    hidden: int
    epochs: int
    layouts: tuple[str, ...]
    heads: tuple[int, ...]


FULL = Setup(20, 5, 10, 50, ("position-dependent", "token-wise"), (4, 16))
QUICK = Setup(6, 3, 4, 10, ("position-dependent",), (4,))


class TwoLayer(Experiment):
    """Rectifiers to any tolerance, other targets by a bank."""

    name = "two-layer"
    title = "Two attention layers"
    constructions = ("two-layer", *BANK)
    extras = ("torch",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """A rectifier network on sequences, and the rates of the bank."""
        setup, studies = (QUICK, STUDIES[:1]) if quick else (FULL, STUDIES)
        results = [(study, rates.run(study, quick, step)) for study in studies]
        picture = Picture(
            "rates", "Two layers with a bank: error against tokens", tuple(rates.panel(*result) for result in results)
        )
        text = (
            "Maps of sequences by two layers of attention and no feed-forward part (arXiv 2504.15956). The paper's "
            f"set-up, {setup.length} x {setup.width} to the same with {setup.hidden} hidden rectifiers, takes a head a "
            "unit and is as exact as is asked. The rates are those of a variant, `two-layer-lookup`, whose second "
            "layer looks up in a bank of memory."
        )
        return Result(text, (picture,), (_sequences(setup, step), *(rates.table(*result) for result in results)))


def _sequences(setup: Setup, step: Step) -> Table:
    """Both layouts of the constructed network, and trained ones."""
    import torch
    from torch import nn

    from .training import TwoLayers, fitted, recipe

    rng, shape, hidden = np.random.default_rng(0), (setup.length, setup.width), setup.hidden
    size = setup.length * setup.width
    module = nn.Sequential(nn.Linear(size, hidden), nn.ReLU(), nn.Linear(hidden, size)).double()
    X = rng.uniform(0, 1, (SAMPLES + FRESH, *shape))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=parameter.shape)))
        wanted = module(torch.tensor(X.reshape(len(X), -1))).numpy().reshape(X.shape)
    rows: list[tuple[Cell, ...]] = []
    for layout in setup.layouts:
        step(f"rectifiers, {layout}")
        box = af.Box(np.zeros(shape), np.ones(shape))
        net = af.compile(module, box, 1e-6, construction="two-layer", options={"layout": layout})
        error = np.abs(net(X[SAMPLES:]) - wanted[SAMPLES:])
        rows.append(
            (f"constructed, {layout}", net.network.heads, net.certificate.bound, error.max(), np.mean(error**2))
        )
    for heads in setup.heads:
        step(f"training two layers of {heads} heads")
        mse = fitted(lambda heads=heads: TwoLayers(*shape, heads), X, wanted, SAMPLES, setup.epochs)
        rows.append(("trained", 2 * heads, None, None, mse))
    notes = f"Variance of the target: {wanted.var():.3g}. Trained: {recipe(SAMPLES, FRESH, setup.epochs)}."
    title = f"Sequence to sequence: {hidden} hidden units"
    return Table("sequences", title, ("network", "heads", "proved", "largest error", "MSE"), tuple(rows), notes)
