"""Few directions of many variables: error against tokens, whatever the number of variables."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import attnfun as af

from . import rates
from .base import Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, ORANGE

Floats = npt.NDArray[np.float64]

VARIABLES, QUICK_VARIABLES = (5, 10, 20), (5, 10)
TOKENS, QUICK_TOKENS = (16, 36, 64, 144, 324, 729), (16, 36, 64)
POINTS = 20_000


class RidgeTarget:
    """tanh(u·x) exp(v·x/2) + w·x for unit vectors u, v drawn at random: two directions beside a slope."""

    def __init__(self, variables: int) -> None:
        drawn = np.random.default_rng(variables).normal(size=(3, variables))
        self.directions = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    def __call__(self, points: npt.ArrayLike) -> Floats:
        """(..., D) -> (...); evaluated as a black box."""
        u, v, w = np.moveaxis(np.asarray(points, dtype=float) @ self.directions.T, -1, 0)
        return np.tanh(u) * np.exp(v / 2) + w


class Subspace(Experiment):
    """Tokens are those of the directions."""

    name = "subspace"
    title = "Few directions of many variables"
    constructions = ("subspace",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Black boxes in several numbers of variables."""
        variables, sizes = (QUICK_VARIABLES, QUICK_TOKENS) if quick else (VARIABLES, TOKENS)
        found: dict[int, list[tuple[int, float, float]]] = {}
        for count in variables:
            found[count] = []
            for tokens in sizes:
                step(f"{count} variables, {tokens} tokens")
                net = af.compile(
                    RidgeTarget(count),
                    [(-1, 1)] * count,
                    construction="subspace",
                    options={"tokens": tokens},
                    proof=False,
                )
                found[count].append((net.network.tokens, net.certificate.bound, rates.measured(net, POINTS)))
        text = (
            "`tanh(u·x) exp(v·x/2) + w·x` with random unit vectors u, v, w, given as a black box: directions are found "
            "from sampled slopes, values are solved in their plane (ours). Errors are estimates, by sampling and "
            "search, not proofs, and grow with the plane's reach, about the square root of the number of variables; "
            "the number of tokens for an error does not grow like a power of it."
        )
        marks = zip(found.items(), ((BLUE, "o-"), (ORANGE, "x-"), (GREEN, "s-")), strict=False)
        curves = tuple(
            Curve(f"{count} variables", [row[0] for row in rows], [row[2] for row in rows], style, colour)
            for (count, rows), (colour, style) in marks
        )
        panel = Panel("two directions and a slope", "tokens", "largest error found", curves)
        columns = ("variables", "tokens", "estimated", "largest error at fresh points")
        rows = tuple((count, *row) for count, rows in found.items() for row in rows)
        picture = Picture("rates", "Errors against tokens in 5 to 20 variables", (panel,))
        return Result(text, (picture,), (Table("errors", "Errors", columns, rows),))
