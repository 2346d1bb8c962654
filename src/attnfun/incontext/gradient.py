"""Gradient descent in context, with the steps that the user writes down."""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import inf, isfinite, log
from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import as_float, real_array, real_number, whole_number
from ..errors import InputError, did_you_mean, shown
from ..network import Network
from . import descent, exact
from .base import TUNING, check_number
from .linear import InContextRegressor
from .losses import READY, Loss, of_formula
from .precision import precision_of
from .prompt import Answer, Prompt, write
from .registers import Registers
from .report import Report

Floats = npt.NDArray[np.float64]


class GradientDescent(InContextRegressor):
    """Steps of gradient descent on `L(w, b) = mean_i ℓ(w·x_i + b, y_i) + alpha |w|²/2`, in your units.

        v <- w + momentum (w - previous w),    (w, b) <- v - step ∇L(v),    `steps` times from `start`

    With `momentum=0`, the default, this is plain gradient descent; otherwise Nesterov's. `start` holds coefficients
    and then the intercept, (d + 1,), or (m, d + 1) for m outputs; without an intercept (d,); zero if it is None. A step
    of None is one over a bound on the curvature of L.

    loss        ℓ(z, y), z the prediction and y the label
    squared     (z - y)²/2
    logistic    log(1 + e^z) - y z, labels from 0 to 1
    huber       r²/2 up to |r| = delta, linear beyond, r = z - y
    log-cosh    delta² log cosh(r/delta)
    poisson     e^z - y z, labels that are not negative
    a formula   any other convex loss that can be differentiated twice, such as "log(1 + exp(-y*z))" (tolerance 1e-6)

    `reach` is for poisson and formulas: predictions at the examples stay within ±reach in all steps; those that do not
    are an error. The derivative of a formula is then computed within `tolerance` (1e-8; 1e-3 in float32), by heads that
    are proved to be so close for |z| ≤ reach and the labels of `fit`. `predict` returns z. `report` has the distance of
    every iterate from the exact one, and bounds on what a step adds and on what all steps so far do.

    >>> model = GradientDescent(step=0.2, steps=200, momentum=0.5).fit([[0.0], [1.0], [3.0]], [1.0, 3.0, 7.0])
    >>> model.coef_.round(6)
    array([2.])
    >>> once = GradientDescent("exp(z - y) - z", step=0.5, steps=1, reach=2).fit([[1.0], [2.0]], [0.0, 0.5])
    >>> once.coef_.round(6), round(once.intercept_, 6)  # e^-y - 1 is 0 and -0.393469
    (array([0.196735]), 0.098367)
    """

    def __init__(
        self,
        loss: str = "squared",
        *,
        step: float | None = None,
        start: npt.ArrayLike | None = None,
        steps: int = 100,
        momentum: float = 0.0,
        alpha: float = 0.0,
        delta: float = 1.0,
        reach: float = 8.0,
        tolerance: float | None = None,
        fit_intercept: bool = True,
        dtype: str = "float64",
        n_steps: int | None = None,
    ) -> None:
        self.loss, self.step, self.start, self.steps, self.momentum = loss, step, start, steps, momentum
        self.alpha, self.delta, self.reach, self.tolerance = alpha, delta, reach, tolerance
        self.fit_intercept, self.dtype, self.n_steps = fit_intercept, dtype, n_steps

    def fit(self, X: Any, y: Any) -> Any:
        """Keep the examples."""
        super().fit(X, y)
        if self.loss in READY:
            low, high = {"poisson": (0.0, inf)}.get(self.loss, self._loss.labels)
            if not (self.y_.min() >= low and self.y_.max() <= high):
                raise InputError(
                    f"labels of the {self.loss} loss must be from {low:g} to {high:g}",
                    got=f"{self.y_.min():g} to {self.y_.max():g}",
                )
        return self

    @property
    def _default_steps(self) -> int:
        return self.steps

    @property
    def _centres(self) -> bool:
        return False

    @property
    def _loss(self) -> Loss:
        if self.loss in READY:
            return READY[self.loss](float(self.delta), float(self.reach))
        if not hasattr(self, "y_"):
            raise InputError("a loss given as a formula needs the range of labels", got="no examples", remedy=FIT)
        low, high = float(self.y_.min()), float(self.y_.max())
        labels = (low, high) if low < high else (low - 0.5, high + 0.5)
        tolerance = precision_of(self.dtype).derivative if self.tolerance is None else float(self.tolerance)
        return of_formula(self.loss, float(self.reach), labels, tolerance, self.dtype)

    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        sizes = n_features, n_outputs, self._loss, self.fit_intercept, n_steps, self.dtype
        return descent.network(*sizes, float(self.momentum))

    def _report(self, network: Network, prompt: Prompt) -> Report:
        loss = self._loss
        place = descent.registers_for(prompt.features, len(prompt.units.y), loss, self._steps)
        some, first = exact.Examples(prompt, self.dtype), self._first(prompt)
        algorithm = exact.Descent(some, loss, self._step(self.X_), float(self.momentum), first)
        return exact.follow(network, prompt, place, algorithm)

    def _step(self, X: Floats) -> float:
        """The step in the user's units."""
        if self.step is not None:
            return float(self.step)
        squares = float(np.square(X).sum(axis=1).mean()) + self.fit_intercept
        return 1 / (self._loss.curvature * squares + self.alpha) if squares + self.alpha > 0 else 1.0

    def _first(self, prompt: Prompt) -> Floats:
        """Where steps start, (p, m), in the prompt's units."""
        p, m = prompt.features, len(prompt.units.y)
        given = np.zeros((m, p)) if self.start is None else np.atleast_2d(real_array("start", self.start))
        if given.shape != (m, p):
            words = "coefficients, then the intercept," if self.fit_intercept else "coefficients"
            shape, wanted = (given.shape[1:], (p,)) if m == 1 and len(given) == 1 else (given.shape, (m, p))
            raise InputError(f"start must hold {words} {wanted}", got=f"shape {shape}")
        return given.T * np.append(prompt.units.x, np.ones(p - len(prompt.units.x)))[:, None] / prompt.units.y

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        loss, step, n = self._loss, self._step(X), len(X)
        if not (y.min() >= loss.labels[0] and y.max() <= loss.labels[1]):
            raise InputError(
                f"labels of this loss must be from {loss.labels[0]:g} to {loss.labels[1]:g}",
                got=f"{y.min():g} to {y.max():g}",
                remedy=FIT,
            )
        penalty, p = self.alpha * n, X.shape[1] + self.fit_intercept
        least = np.sqrt(max(penalty / (n + p), descent.SMALLEST / step))
        prompt = write(
            X,
            y - loss.shift,
            queries,
            intercept=self.fit_intercept,
            penalty=penalty,
            least_unit=least,
            y_unit=None if loss.name == "squared" else 1.0,
            centred=False,
        )
        units = np.append(prompt.units.x, np.ones(int(self.fit_intercept)))  # (p,)
        rates = step * units**2 * ((n + p) / n if penalty else 1.0)  # (p,)
        if not (rates.max() < descent.LARGEST and rates.min() >= descent.SMALLEST / 8):
            raise InputError(
                "a step times the squares of the features' sizes must be from "
                f"{descent.SMALLEST:g} to {descent.LARGEST:g}",
                got=f"{step:g} for sizes up to {units.max():g}",
                remedy="Take another step, or rescale the data.",
            )
        place = Registers(**descent.given_columns(p, y.shape[1], loss))
        rows = np.zeros((len(prompt.rows), place.width))
        rows[:, : prompt.rows.shape[1]] = prompt.rows
        first = self._first(prompt)
        rows[: 2 * p : 2, place["start"]], rows[1 : 2 * p : 2, place["start"]] = first, -first
        rows[: 2 * p, place["odds"]] = np.repeat(np.log(descent.LARGEST / rates - 1), 2)[:, None]
        if loss.delta is not None:
            if len(rows) > 2**descent.DIGITS:
                raise InputError(f"prompts of the huber loss have at most {2**descent.DIGITS} rows", got=len(rows))
            rows[:, place["code"]] = descent.codes(len(rows))
        return replace(prompt, rows=rows)

    def _check_answer(self, prompt: Prompt, answer: Answer) -> None:
        """Refuse predictions that left the range of the loss, and steps that diverged; steps are never too few here."""
        reach = self._loss.reach
        found = answer.peaks.max(initial=-inf) + log(2 * prompt.examples) / precision_of(self.dtype).peak[0]
        if not found <= reach:
            raise InputError(
                f"predictions at the examples must stay within ±{reach:g} in every step",
                got=f"up to {found:.4g}",
                remedy="Raise `reach`, or take smaller steps.",
            )
        if not isfinite(answer.change):
            raise InputError(
                "coefficients must stay finite",
                got=f"an overflow within {self._steps} steps",
                remedy="Take smaller steps.",
            )

    def _check_parameters(self) -> None:
        if self.n_steps is not None:
            warnings.warn("n_steps of GradientDescent is now called steps", DeprecationWarning, stacklevel=4)
        whole_number("steps", self.steps, 1, TUNING.most_steps)
        super()._check_parameters()
        if self.step is not None:
            check_number("step", self.step, zero=False)
        check_number("alpha", self.alpha, zero=True)
        check_number("delta", self.delta, zero=False)
        real_number("reach", self.reach, above=0.0)
        if self.tolerance is not None:
            real_number("tolerance", self.tolerance, above=0.0)
        if not 0 <= as_float(self.momentum) < 1:
            raise InputError("momentum must be at least 0 and below 1", got=shown(self.momentum))
        if not isinstance(self.loss, str) or (self.loss not in READY and self.loss.replace("-", "").isidentifier()):
            raise InputError(
                f"loss must be {', '.join(READY)}, or a formula of z and y",
                got=shown(self.loss),
                remedy=did_you_mean(str(self.loss), READY),
            )


FIT = "Call fit first with examples that have such labels."
