"""Data: what an estimate from held-out rows is worth, and how errors fall with rows."""

from __future__ import annotations

import numpy as np

import attnfun as af

from .base import Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREY, ORANGE

ROWS, QUICK_ROWS = (50, 100, 200, 400, 800), (50, 100)
NOISE, VARIABLES, FRESH = 1.0, 6, 5000
COLUMNS = ("rows", "tokens", "estimated RMSE (held out)", "RMSE on fresh rows", "RMSE against the function")


class Regression(Experiment):
    """Friedman's first function, noisy."""

    name = "regression"
    title = "Data"
    constructions = ("regression",)
    extras = ("sklearn",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """More and more rows of one source; fresh rows judge the estimate."""
        from sklearn.datasets import make_friedman1

        fresh, noisy = make_friedman1(FRESH, VARIABLES, noise=NOISE, random_state=1)
        truth = make_friedman1(FRESH, VARIABLES, noise=0.0, random_state=1)[1]
        rows = []
        for count in QUICK_ROWS if quick else ROWS:
            step(f"{count} rows")
            net = af.compile(af.Samples(*make_friedman1(count, VARIABLES, noise=NOISE, random_state=0)))
            output = net(fresh, outside="allow")
            errors = [float(np.sqrt(np.mean((output - values) ** 2))) for values in (noisy, truth)]
            rows.append((count, net.network.tokens, net.figures["held_out_rmse"], *errors))
        text = (
            f"One head with learnt tokens and an affine part, sized by cross-validation, for Friedman's first function "
            f"of {VARIABLES} variables with noise of size {NOISE:g}. The estimate comes from rows that were held out "
            f"and is never a proof; {FRESH} fresh rows test it. On noisy rows the error is at least the noise; the "
            "error against the function itself falls."
        )
        counts, _, held, noisy_errors, exact = zip(*rows, strict=True)
        curves = (
            Curve("estimated, held out", counts, held, "o", BLUE),
            Curve("fresh rows", counts, noisy_errors, "x", ORANGE),
            Curve("against the function", counts, exact, "s-", BLUE),
            Curve("noise", counts, [NOISE] * len(counts), "--", GREY),
        )
        picture = Picture("rates", "RMSE against rows", (Panel("Friedman 1", "rows", "RMSE", curves, "semilogx"),))
        return Result(text, (picture,), (Table("rows", "RMSE", COLUMNS, tuple(rows)),))
