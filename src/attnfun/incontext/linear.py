"""Linear models for numbers: least squares, ridge regression and the lasso."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin

from ..domains import Points
from ..network import Network
from ..targets import FittedModel
from . import exact, least_squares, sparse
from .base import InContextLearner, check_number
from .precision import precision_of
from .prompt import Prompt, write
from .report import Report, report

Floats = npt.NDArray[np.float64]


class InContextRegressor(MultiOutputMixin, RegressorMixin, InContextLearner):
    """Predicts numbers, one or several outputs."""

    def fit(self, X: Any, y: Any) -> Any:
        """Keep the examples."""
        X, y = self._keep(X, y, multi_output=True, y_numeric=True)
        self.X_, self.y_, self._many = X, np.asarray(y, dtype=np.float64).reshape(len(X), -1), np.ndim(y) > 1
        return self

    def predict(self, X: Any) -> Floats:
        """Predictions for the rows of X, by one forward pass."""
        values = self._values(X)
        return values if self._many else values[:, 0]


class LinearRegression(InContextRegressor):
    """Ordinary least squares. With fewer examples than features: the solution of least norm, as in scikit-learn.

    >>> model = LinearRegression().fit([[0.0], [1.0], [3.0]], [1.0, 3.0, 7.0])
    >>> model.coef_.round(9), round(model.intercept_, 9)
    (array([2.]), 1.0)
    """

    def __init__(self, *, fit_intercept: bool = True, n_steps: int | None = None, dtype: str = "float64") -> None:
        self.fit_intercept, self.n_steps, self.dtype = fit_intercept, n_steps, dtype

    @property
    def _default_steps(self) -> int:
        return precision_of(self.dtype).doublings

    @property
    def _most_steps(self) -> int:
        return precision_of(self.dtype).most_doublings

    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        return least_squares.network(n_features, n_outputs, self.fit_intercept, n_steps, self.dtype)

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        return write(X, y, queries, intercept=self.fit_intercept, common_unit=len(X) <= X.shape[1] + 1)

    def _model(self, domain: Points) -> FittedModel:
        alpha = getattr(self, "alpha", 0.0)
        return FittedModel.of("squared", self.X_, self.y_, domain, intercept=self.fit_intercept, alpha=float(alpha))

    def _report(self, network: Network, prompt: Prompt) -> Report:
        return report(network, prompt)


class Ridge(LinearRegression):
    """Least squares with the penalty `alpha |w|²` on the coefficients, not on the intercept; scikit-learn's objective.

    >>> model = Ridge(alpha=2.0).fit([[-1.0], [1.0]], [-4.0, 4.0])
    >>> model.coef_.round(9)
    array([2.])
    """

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, n_steps: int | None = None, dtype: str = "float64"
    ) -> None:
        super().__init__(fit_intercept=fit_intercept, n_steps=n_steps, dtype=dtype)
        self.alpha = alpha

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        least = np.sqrt(self.alpha / (len(X) + X.shape[1] + self.fit_intercept))  # penalties of at most 1
        return write(X, y, queries, intercept=self.fit_intercept, penalty=self.alpha, least_unit=least)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, zero=True)


class Lasso(InContextRegressor):
    """Least squares with the penalty `alpha Σ|w_j|`; scikit-learn's objective, (1/2n)|y - Xw|² + alpha |w|_1.

    `n_steps` Newton steps on active sets, about 15 layers each.

    >>> model = Lasso(alpha=0.5).fit([[-1.0, 1.0], [1.0, 1.0], [0.0, -2.0]], [-3.0, 3.0, 0.0])
    >>> model.coef_.round(6) + 0.0
    array([2.25, 0.  ])
    """

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, n_steps: int | None = None, dtype: str = "float64"
    ) -> None:
        self.alpha, self.fit_intercept, self.n_steps, self.dtype = alpha, fit_intercept, n_steps, dtype

    @property
    def _default_steps(self) -> int:
        return 23

    def _build(self, n_features: int, n_outputs: int, n_steps: int) -> Network:
        return sparse.network(n_features, n_outputs, self.fit_intercept, n_steps, self.dtype)

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        return write(X, y, queries, intercept=self.fit_intercept, threshold=self.alpha, blocks=y.shape[1])

    def _model(self, domain: Points) -> FittedModel:
        beta = float(self.alpha)
        return FittedModel.of("squared", self.X_, self.y_, domain, intercept=self.fit_intercept, beta=beta)

    def _report(self, network: Network, prompt: Prompt) -> Report:
        place = sparse.registers_for(prompt.features, len(prompt.units.y))
        return exact.follow(network, prompt, place, exact.ExactLasso(exact.Examples(prompt, self.dtype), self._steps))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("alpha", self.alpha, zero=True)
