"""Generalised linear models, robust regression, and plain gradient descent."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import as_float, one_of
from ..errors import InputError, shown
from ..network import Network
from . import convex, exact
from .banks import FAMILIES, Bank, poisson
from .base import check_number
from .linear import InContextRegressor
from .newton import NewtonLearner
from .prompt import Prompt, power_of_two, write
from .report import Report

Floats = npt.NDArray[np.float64]


class GLM(NewtonLearner, InContextRegressor):
    """A linear model with another loss, `mean_i ℓ(w·x_i + b, y_i) + alpha |w|²/2`, by Newton's method.

    family     loss                                    scikit-learn's name for it
    poisson    e^z - y z, predictions e^z               PoissonRegressor
    huber      r²/2 up to |r| = delta, linear beyond   (HuberRegressor also estimates a scale)
    log-cosh   delta² log cosh(r/delta)

    `n_steps` Newton steps. `delta` is in the units of y. `curvature` is for the poisson family: a bound on e^z at the
    examples, in units of the largest y, that must hold in every step; examples that break it are an error.

    >>> model = GLM("poisson", alpha=0).fit([[0.0], [0.0], [1.0], [1.0]], [1, 3, 5, 7])
    >>> model.predict([[0.0], [1.0]]).round(6)
    array([2., 6.])
    """

    def __init__(
        self,
        family: str = "poisson",
        *,
        alpha: float = 1.0,
        delta: float = 1.0,
        curvature: float = 4.0,
        fit_intercept: bool = True,
        n_steps: int | None = None,
        dtype: str = "float64",
    ) -> None:
        self.family, self.alpha, self.delta, self.curvature = family, alpha, delta, curvature
        self.fit_intercept, self.n_steps, self.dtype = fit_intercept, n_steps, dtype

    def fit(self, X: Any, y: Any) -> GLM:
        """Keep the examples."""
        X, y = self._keep(X, y, y_numeric=True)
        if self.family == "poisson" and (y.min() < 0 or y.max() <= 0):
            raise InputError("targets of the poisson family must not be negative, nor all zero", got=y.min())
        self.X_, self.y_, self._many = X, np.asarray(y, dtype=np.float64)[:, None], False
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions for the rows of X, by one forward pass; means e^z for the poisson family."""
        values = self._values(X)[:, 0]
        return np.exp(values) if self.family == "poisson" else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = False
        tags.target_tags.positive_only = self.family == "poisson"
        return tags

    def _values(self, X: Any) -> Floats:
        return super()._values(X) + self._offset

    @property
    def intercept_(self) -> float:
        """The intercept."""
        return float(super().intercept_ + self._offset)

    @property
    def _offset(self) -> float:
        """The network sees poisson targets in a unit that makes them at most 1: log of that unit."""
        return float(np.log(power_of_two(self.y_.max(axis=0))[0])) if self._scales else 0.0

    @property
    def _scales(self) -> bool:
        return self.family == "poisson" and self.fit_intercept

    def _bank(self, n_outputs: int) -> Bank:
        return poisson(self.curvature) if self.family == "poisson" else FAMILIES[self.family](self.delta)

    _relief = "Raise `curvature`, which is e to that power, or use a stronger penalty."

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        unit = float(power_of_two(y.max(axis=0))[0]) if self._scales else 1.0
        alpha = self.alpha * len(X) / unit
        least = np.sqrt(alpha / (len(X) + X.shape[1] + self.fit_intercept))
        return write(X, y / unit, queries, intercept=self.fit_intercept, penalty=alpha, least_unit=least, y_unit=1.0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, zero=True)
        check_number("delta", self.delta, zero=False)
        check_number("curvature", self.curvature, zero=False)
        known = ["huber", "log-cosh", "poisson"]
        one_of("family", self.family, known)


class GradientDescent(InContextRegressor):
    """`n_steps` steps of gradient descent from zero on `mean_i ℓ(w·x_i + b - y_i) + alpha |w|²/2`.

    The step is 1/(p c + 1), p the number of features with the intercept and c the largest curvature of the loss, in
    units in which features have mean squares of at most 1; with `momentum`, Nesterov's.

    >>> model = GradientDescent(n_steps=200, momentum=0.5).fit([[0.0], [1.0], [3.0]], [1.0, 3.0, 7.0])
    >>> model.coef_.round(6)
    array([2.])
    """

    def __init__(
        self,
        loss: str = "squared",
        *,
        alpha: float = 0.0,
        delta: float = 1.0,
        momentum: float = 0.9,
        fit_intercept: bool = True,
        n_steps: int | None = None,
        dtype: str = "float64",
    ) -> None:
        self.loss, self.alpha, self.delta, self.momentum = loss, alpha, delta, momentum
        self.fit_intercept, self.n_steps, self.dtype = fit_intercept, n_steps, dtype

    @property
    def _default_steps(self) -> int:
        return 100

    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        sizes = n_features, n_outputs, self._bank, self.fit_intercept, n_steps, self.dtype
        return convex.descend(*sizes, momentum=self.momentum)

    @property
    def _bank(self) -> Bank | None:
        return None if self.loss == "squared" else FAMILIES[self.loss](self.delta)

    def _report(self, network: Network, prompt: Prompt) -> Report:
        place = convex.descent_registers(prompt.features, len(prompt.units.y))
        algorithm = exact.Descent(exact.Examples(prompt, self.dtype), self._bank, self.momentum)
        return exact.follow(network, prompt, place, algorithm)

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        alpha = self.alpha * len(X)
        least = np.sqrt(alpha / (len(X) + X.shape[1] + self.fit_intercept))
        unit = None if self.loss == "squared" else 1.0
        return write(X, y, queries, intercept=self.fit_intercept, penalty=alpha, least_unit=least, y_unit=unit)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, zero=True)
        check_number("delta", self.delta, zero=False)
        known = ["squared", "huber", "log-cosh"]
        one_of("loss", self.loss, known)
        if not 0 <= as_float(self.momentum) < 1:
            raise InputError("momentum must be at least 0 and below 1", got=shown(self.momentum))
