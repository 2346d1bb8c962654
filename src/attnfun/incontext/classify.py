"""Logistic regression, for two classes or more."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from ..domains import Points
from ..errors import InputError
from ..targets import FittedModel
from .banks import FAMILIES, LossBank, softmax
from .base import check_number
from .newton import NewtonLearner
from .prompt import Prompt, write

Floats = npt.NDArray[np.float64]


class LogisticRegression(ClassifierMixin, NewtonLearner):
    """Classes by a linear model of the log-odds, with the penalty `|w|²/(2C)`; multinomial for more than two classes.

    `n_steps` Newton steps with the whole matrix of second derivatives: a network for K classes has a state row for each
    of their coefficients.

    >>> model = LogisticRegression().fit([[-2.0], [-1.0], [1.0], [2.0]], ["no", "no", "yes", "yes"])
    >>> model.predict([[-0.5], [0.5]]).tolist(), model.coef_.round(4)
    (['no', 'yes'], array([[1.0066]]))
    """

    classes_: npt.NDArray[Any]

    def __init__(
        self, C: float = 1.0, *, fit_intercept: bool = True, n_steps: int | None = None, dtype: str = "float64"
    ) -> None:
        self.C, self.fit_intercept, self.n_steps, self.dtype = C, fit_intercept, n_steps, dtype

    def fit(self, X: Any, y: Any) -> LogisticRegression:
        """Keep the examples."""
        X, y = self._keep(X, y)
        check_classification_targets(y)
        self.classes_, number = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError("a classifier needs examples of at least two classes", got="only one class")
        shares = np.eye(len(self.classes_))[number]  # (n, K)
        self.X_, self.y_, self._many = X, shares if len(self.classes_) > 2 else shares[:, 1:] - 0.5, True
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds: (k,) for two classes, (k, K) for more."""
        values = self._values(X)
        return values[:, 0] if values.shape[1] == 1 else values

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, (k, K)."""
        values = self._values(X)
        scores = np.concatenate([-values, values], axis=1) / 2 if values.shape[1] == 1 else values
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        return weights / weights.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any) -> Floats:
        """Logarithms of the probabilities."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The likeliest classes."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(axis=1)]

    def _bank(self, n_outputs: int) -> LossBank:
        return FAMILIES["logistic"](1.0) if n_outputs == 1 else softmax(n_outputs, self.dtype)

    def _model(self, domain: Points) -> FittedModel:
        loss = "logistic" if self.y_.shape[1] == 1 else "softmax"
        return FittedModel.of(loss, self.X_, self.y_, domain, intercept=self.fit_intercept, alpha=1 / self.C)

    def _write(self, X: Floats, y: Floats, queries: Floats) -> Prompt:
        alpha, blocks = 1 / self.C, y.shape[1]
        least = np.sqrt(alpha / (len(X) + (X.shape[1] + self.fit_intercept) * blocks))
        sizes = {"penalty": alpha, "least_unit": least, "y_unit": 1.0}
        return write(X, y, queries, intercept=self.fit_intercept, blocks=blocks, gauge=blocks > 1, **sizes)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("C", self.C, zero=False, infinite=True)
