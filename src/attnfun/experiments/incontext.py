"""In-context learners beside scikit-learn: coefficients, predictions, layers, seconds, and convergence with layers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import attnfun as af

from .base import Cell, Curve, Experiment, Panel, Picture, Result, Step, Table, quietly
from .drawing import BLUE, GREEN, ORANGE

COLUMNS = (
    "data",
    "learner",
    "coefficients",
    "zeros",
    "score",
    "its score",
    "attention layers",
    "seconds",
    "its seconds",
)
TRAIN, TEST = slice(0, None, 2), slice(1, None, 2)


@dataclass(frozen=True)
class Case:
    """A data set, a learner of ours and its peer; both made when they are needed."""

    data: str
    title: str
    learner: Callable[[], Any]
    peer: Callable[[], Any]
    quick: bool = False


class InContext(Experiment):
    """Statistics by attention."""

    name = "in-context"
    title = "Learning in context"
    extras = ("sklearn",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """All learners; quickly, a few on diabetes and iris."""
        rows, ratios = [], []
        for case in cases():
            if quick and not case.quick:
                continue
            step(f"{case.title}, {case.data}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                row, ratio = _compared(case)
            rows.append(row)
            ratios.append(ratio)
        step("layers")
        least, middle, most = np.quantile(ratios, [0.0, 0.5, 1.0])
        notes = (
            f"Coefficients: largest difference over largest coefficient. Score: R² or accuracy on the held-out half. "
            f'"Its" is scikit-learn, which is {least:.0f} to {most:,.0f} times faster here ({middle:.0f} times in the '
            f"middle): the table shows what attention computes, not speed. Zeros: coefficients of the lasso that are "
            f"exactly zero, here and there. Seconds are by the clock, whatever else the machine does."
        )
        text = (
            "Networks with fixed weights that read examples and queries from their prompt (arXiv 2504.15956, section "
            "on in-context learning), against scikit-learn on its data sets; every other row is held out. Logistic "
            "regression is compared with the solver newton-cholesky, converged; features are standardised for it. The "
            "picture has more steps than the default in float32, 16: further doublings amplify rounding, and the "
            "learner warns."
        )
        return Result(text, (_picture(),), (Table("learners", "Learners", COLUMNS, tuple(rows), notes),))


def cases() -> tuple[Case, ...]:
    """Every row of the table."""
    from sklearn import linear_model as peers

    learn = af.incontext

    def logistic(data: str, C: float, more: str = "", quick: bool = False) -> Case:
        newton = {"tol": 1e-12, "solver": "newton-cholesky", "max_iter": 1000}
        title = f"logistic, C {C:g}{more}"
        return Case(
            data, title, lambda: learn.LogisticRegression(C), lambda: peers.LogisticRegression(C=C, **newton), quick
        )

    def lasso(data: str, alpha: float, quick: bool = False) -> Case:
        title = f"lasso, alpha {alpha:g}"
        return Case(
            data, title, lambda: learn.Lasso(alpha), lambda: peers.Lasso(alpha, tol=1e-12, max_iter=10**6), quick
        )

    def linear(data: str, dtype: str, quick: bool) -> tuple[Case, Case]:
        more = "" if dtype == "float64" else f", {dtype}"
        return (
            Case(
                data,
                f"least squares{more}",
                lambda: learn.LinearRegression(dtype=dtype),
                lambda: peers.LinearRegression(),
                quick,
            ),
            Case(
                data,
                f"ridge, alpha 1{more}",
                lambda: learn.Ridge(1.0, dtype=dtype),
                lambda: peers.Ridge(1.0),
                quick,
            ),
        )

    def poisson() -> Any:
        return peers.PoissonRegressor(alpha=1e-3, tol=1e-12, max_iter=1000, solver="newton-cholesky")

    sets = ("diabetes", "breast cancer", "wine", "digits")
    three = ", 3 classes"
    return (
        *(
            case
            for dtype in ("float64", "float32")
            for name in sets
            for case in linear(name, dtype, name == "diabetes")
        ),
        lasso("diabetes", 0.1, quick=True),
        lasso("diabetes", 1.0),
        lasso("wine", 0.01),
        lasso("digits", 0.1),
        lasso("breast cancer", 0.01),
        logistic("breast cancer", 1.0),
        logistic("breast cancer", 100.0),
        logistic("digits 0, 1", 1.0),
        logistic("wine", 1.0, three),
        logistic("wine", 100.0, three),
        logistic("iris", 1.0, three, quick=True),
        logistic("iris", 100.0, three),
        logistic("digits 0-2", 1.0, three),
        Case("diabetes", "poisson, alpha 0.001", lambda: learn.GLM("poisson", alpha=1e-3), poisson),
    )


def _data(name: str) -> tuple[Any, Any]:
    """Rows and values of a data set that scikit-learn carries; "digits 0-2" are those below 3."""
    from sklearn import datasets

    X, y = getattr(datasets, f"load_{name.split(' 0')[0].replace(' ', '_')}")(return_X_y=True)
    kept = {"digits 0, 1": 2, "digits 0-2": 3}.get(name)
    return (X, y) if kept is None else (X[y < kept], y[y < kept])


def _compared(case: Case) -> tuple[tuple[Cell, ...], float]:
    """One row of the table, and how many times faster the peer was."""
    from sklearn.metrics import accuracy_score, r2_score

    ours, peer = case.learner(), case.peer()
    classifies = isinstance(ours, af.incontext.LogisticRegression)
    X, y = _data(case.data)
    if classifies:
        spread = X[TRAIN].std(axis=0)
        X = (X - X[TRAIN].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    began = time.perf_counter()
    peer.fit(X[TRAIN], y[TRAIN])
    theirs = time.perf_counter() - began
    began = time.perf_counter()
    coefficients = ours.fit(X[TRAIN], y[TRAIN]).coef_
    seconds = time.perf_counter() - began
    off = np.abs(coefficients - peer.coef_).max() / np.abs(peer.coef_).max()
    measure = accuracy_score if classifies else r2_score
    scores = [f"{measure(y[TEST], model.predict(X[TEST])):.4f}" for model in (ours, peer)]
    zeros = ", ".join(str(int((found == 0).sum())) for found in (coefficients, peer.coef_))
    shown = zeros if isinstance(ours, af.incontext.Lasso) else None
    layers = len(ours.network().attention)
    row = (case.data, case.title, f"{off:.1e}", shown, *scores, layers, f"{seconds:.2f}", f"{theirs:.4f}")
    return row, seconds / theirs


def _picture() -> Picture:
    """Coefficients of ridge regression against attention layers: doubling steps, and steps of gradient descent."""
    from sklearn.linear_model import Ridge

    X, y = _data("diabetes")
    wanted = Ridge(1.0).fit(X, y).coef_
    learners = {
        "doubling steps, float64": (lambda n: af.incontext.Ridge(1.0, n_steps=n), range(4, 29, 3)),
        "doubling steps, float32": (lambda n: af.incontext.Ridge(1.0, n_steps=n, dtype="float32"), range(4, 21, 3)),
        "gradient descent with momentum": (
            lambda n: af.incontext.GradientDescent(alpha=1.0 / len(X), steps=n, momentum=0.9),
            (2, 4, 8, 16, 32, 64, 128),
        ),
    }
    curves = []
    for (label, (make, steps)), style, colour in zip(
        learners.items(), ("o-", "x-", "s-"), (BLUE, ORANGE, GREEN), strict=True
    ):
        layers, off = [], []
        for count in steps:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # few steps have not converged, and the learner says so
                model = make(count).fit(X, y)
                off.append(float(np.abs(model.coef_ - wanted).max() / np.abs(wanted).max()))
            layers.append(len(model.network().attention))
        curves.append(Curve(label, layers, off, style, colour))
    title = "ridge regression on diabetes, in context"
    panel = Panel(title, "attention layers", "relative distance from scikit-learn's coefficients", tuple(curves))
    return Picture("convergence", f"{title}: distance from scikit-learn against attention layers", (panel,))
