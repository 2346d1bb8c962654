"""Generalised linear models and robust regression."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import one_of
from ..domains import Points
from ..errors import InputError
from ..targets import FittedModel
from .banks import FAMILIES, LossBank, poisson
from .base import check_number
from .linear import InContextRegressor
from .newton import NewtonLearner
from .prompt import Prompt, power_of_two, write

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

    def _bank(self, n_outputs: int) -> LossBank:
        return poisson(self.curvature) if self.family == "poisson" else FAMILIES[self.family](self.delta)

    _relief = "Raise `curvature`, which is e to that power, or use a stronger penalty."

    def _model(self, domain: Points) -> FittedModel:
        if self.family == "huber":
            return super()._model(domain)
        sizes = {"alpha": self.alpha * len(self.y_), "delta": float(self.delta)}
        return FittedModel.of(self.family, self.X_, self.y_, domain, intercept=self.fit_intercept, **sizes)

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        unit = float(power_of_two(y.max(axis=0))[0]) if self._scales else 1.0
        y, alpha = y / unit, self.alpha * len(y) / unit
        least = np.sqrt(alpha / (len(X) + X.shape[1] + self.fit_intercept))
        return write(X, y, queries, intercept=self.fit_intercept, penalty=alpha, least_unit=least, y_unit=1.0)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, zero=True)
        check_number("delta", self.delta, zero=False)
        check_number("curvature", self.curvature, zero=False)
        known = ["huber", "log-cosh", "poisson"]
        one_of("family", self.family, known)
