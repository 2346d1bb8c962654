"""Solved values on a polished Bregman bank: tokens against tolerance beside other ways, and pictures of the idea."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

import attnfun as af

from ..pieces.potentials import Mesh
from ..pieces.singularities import survey
from .base import Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, GREY, ORANGE, PINK, SKY

Floats = npt.NDArray[np.float64]
Domain = dict[str, tuple[float, ...]]

TOLERANCES = (1e-2, 1e-4, 1e-6, 1e-8, 1e-9, 1e-10, 3e-11, 1e-11, 3e-12, 1e-12, 3e-13, 1e-13)
"""Until one is not reached."""
QUICK_TOLERANCES = (1e-2, 1e-4, 1e-6)
SECONDS = 60.0
RUNGE = "1/(1 + 25*x**2)"
FORMULAS = (RUNGE, "sin(10*x)", "tanh(50*x)*cos(3*x)", "exp(-200*x**2)")
QUICK_FORMULAS = FORMULAS[:2]
LINE: Domain = {"x": (-1.0, 1.0)}
POINTS = np.linspace(-1, 1, 2001)
COLUMNS = ("eps", "tokens", "proved", "grid")


class Spectral(Experiment):
    """Tokens grow with the digits of eps."""

    name = "spectral"
    title = "Bregman attention"
    constructions = ("spectral",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Tolerances for a few functions of one variable, and two pictures of Runge's."""
        tables, panels = [], []
        for formula in QUICK_FORMULAS if quick else FORMULAS:
            step(formula)
            nets = reached(formula, QUICK_TOLERANCES if quick else TOLERANCES, SECONDS)
            panels.append(_panel(formula, nets))
            tables.append(_table(formula, nets, len(tables)))
        step("pictures")
        text = (
            "One head whose scores are tangents of a convex function and whose values are solved (ours; see "
            "docs/bregman-attention.md). Tokens with a proof, beside the grid that the bound of arXiv 2504.19901 "
            "takes. `benchmarks/tokens.py` compares them with other approximations."
        )
        pictures = (Picture("tokens", "Tokens against eps", tuple(panels)), _cells(), _errors())
        return Result(text, pictures, tuple(tables))


def reached(formula: str, tolerances: Iterable[float], limit: float) -> dict[float, af.types.Compiled]:
    """Networks at falling tolerances, up to the first that is not proved within the limit (seconds)."""
    nets: dict[float, af.types.Compiled] = {}
    for eps in tolerances:
        try:
            nets[eps] = af.compile(formula, LINE, eps, construction="spectral", time_limit=limit)
        except af.errors.ToleranceNotMet:
            break
    return nets


def _panel(title: str, nets: dict[float, af.types.Compiled]) -> Panel:
    """Tokens against eps."""
    eps, sizes = list(nets), [net.network.tokens for net in nets.values()]
    grid = Curve("grid of the paper (its bound)", eps, [net.paper_tokens for net in nets.values()], ":", GREY)
    return Panel(title, "eps", "tokens", (grid, Curve("spectral attention, proved", eps, sizes, "o-", BLUE)))


def _table(formula: str, nets: dict[float, af.types.Compiled], number: int) -> Table:
    rows = ((f"{eps:g}", net.network.tokens, net.certificate.bound, net.paper_tokens) for eps, net in nets.items())
    return Table(f"function-{number + 1}", f"`{formula}`", COLUMNS, tuple(rows))


def runge(x: Floats) -> Floats:
    """The function that RUNGE says."""
    return 1 / (1 + 25 * x**2)


def _meshes() -> dict[str, Mesh]:
    """A uniform mesh, and the one that the poles of the function need."""
    graded = survey(lambda x: runge(x)[:, None], -1, 1, 1e-8).mesh()
    return {"uniform density": Mesh.uniform(-1, 1), "density from the poles": graded}


def _cells() -> Picture:
    """Tangents of two potentials above, the weights of their softmax below."""
    colours = (BLUE, ORANGE, GREEN, SKY, PINK)
    above, below = [], []
    for name, mesh in _meshes().items():
        tokens, places = mesh.tokens(14, 1.0, 1), POINTS[:, None] - mesh.origin
        scores, weights = tokens.scores(places), tokens.weights(places)  # (P, N)
        lines = [Curve("", POINTS, column, "-", colours[k % 5]) for k, column in enumerate(scores.T)]
        top = scores.max(axis=1)
        lines.append(Curve("largest score", POINTS, top, "-", "#000000"))
        above.append(
            Panel(f"tangents of φ: {name}", "x", "score", tuple(lines), "plot", (top.min() - 3, top.max() + 1))
        )
        bumps = [Curve("", POINTS, column, "-", colours[k % 5]) for k, column in enumerate(weights.T)]
        walls = POINTS[1:][np.diff(scores.argmax(axis=1)) != 0]
        bumps.append(Curve("walls of the cells", walls, np.zeros(len(walls)), "|", "#000000"))
        below.append(Panel("their softmax", "x", "weight", tuple(bumps), "plot"))
    return Picture("cells", "Tangents of a convex potential, and the softmax weights of its cells", (*above, *below))


def _errors() -> Picture:
    """The error of 16 tokens: sampled values, solved values, a graded potential, polish."""
    curves = []
    for (name, mesh), colour in zip(_meshes().items(), (SKY, GREEN), strict=True):
        tokens, samples = mesh.tokens(16, 0.5, 2), mesh.points(200)
        values = np.linalg.lstsq(tokens.weights(samples[:, None] - mesh.origin), runge(samples), rcond=1e-12)[0]
        error = tokens.weights(POINTS[:, None] - mesh.origin) @ values - runge(POINTS)
        curves.append(Curve(f"solved values, {name}", POINTS, np.abs(error), "-", colour))
    grid = af.compile(RUNGE, LINE, options={"tokens": 16}, construction="grid", proof=False)
    net = af.compile(RUNGE, LINE, options={"tokens": 16}, construction="spectral", time_limit=10.0)
    curves.append(Curve("sampled values (the paper's head)", POINTS, np.abs(grid(POINTS) - runge(POINTS)), "-", GREY))
    curves.append(Curve("polished", POINTS, np.abs(net(POINTS) - runge(POINTS)), "-", BLUE))
    curves.append(Curve("proved", POINTS[[0, -1]], [net.certificate.bound] * 2, "--", ORANGE))
    title = f"error of 16 tokens for {RUNGE}"
    return Picture("errors", title, (Panel(title, "x", "error", tuple(curves), "semilogy", (1e-15, 1)),))
