"""Kernel regression is one softmax head: ŷ(x) = Σ_i K(x, x_i) y_i / Σ_i K(x, x_i), K(x, x') = exp(-gamma |x -
x'|²) [T 8.3].

With the query 2 gamma x and the key (x_i, |x_i|²), scores are gamma (2 x·x_i - |x_i|²); the term -gamma |x|² cancels in
softmax. So the estimate of Nadaraya and Watson is exact, whatever the number of examples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from ..network import Network
from ..runtime.backends.numpy import run
from .base import Learner, check_number
from .layers import finish
from .precision import precision_of
from .registers import RegisterHead, RegisterMove, Registers, attention, moving, select, widen
from .report import Iterate, Report, norm

Floats = npt.NDArray[np.float64]
LEAD = 2.0**40
"""By how much rows that are no examples stay behind; a power of two."""


class KernelRegression(MultiOutputMixin, RegressorMixin, Learner):
    """The average of y over the examples, weighted by a Gaussian kernel around the query.

    >>> KernelRegression(gamma=1.0).fit([[0.0], [1.0]], [0.0, 10.0]).predict([[0.5], [1.0]]).round(4)
    array([5.    , 7.3106])
    """

    def __init__(self, gamma: float = 1.0, *, dtype: str = "float64") -> None:
        self.gamma, self.dtype = gamma, dtype

    def fit(self, X: Any, y: Any) -> KernelRegression:
        """Keep the examples."""
        self._check_parameters()
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self.X_, self.y_, self._many = X, np.asarray(y, dtype=np.float64).reshape(len(X), -1), np.ndim(y) > 1
        return self

    def network(
        self, n_features: int | None = None, n_steps: int | None = None, n_outputs: int | None = None
    ) -> Network:
        """One attention layer for prompts of any number of rows; there are no steps to choose."""
        self._check_parameters()
        d, m = self._sizes(n_features, n_outputs)
        given = _columns(d, m)
        registers = Registers(**given, z=m)
        query, key = np.zeros((registers.width, d + 2)), np.zeros((registers.width, d + 2))
        query[:, :d] = 2 * self.gamma * registers.read({"query": 1.0})
        key[:, :d] = registers.read({"x": 1.0})
        key[registers["square"], d] = 1.0
        key[registers["data"], d + 1] = LEAD
        biases = np.append(np.zeros(d), [-self.gamma, 1.0]), np.append(np.zeros(d + 1), -LEAD)
        value, output = moving(registers, [RegisterMove({"y": 1.0}, "z")], 1.0)
        head = RegisterHead(query, biases[0], key, biases[1], value, output)
        layers = [widen(registers, sum(given.values())), attention([head]), select(registers, "z")]
        return finish(layers, self.dtype)

    def prompt(self, X: npt.ArrayLike, y: npt.ArrayLike, queries: npt.ArrayLike) -> Floats:
        """Rows (x, |x|², y, 1, 0) for examples and then (0, 0, 0, 0, x) for queries, relative to the examples' mean."""
        X, y, queries = (np.asarray(array, dtype=np.float64) for array in (X, y, queries))
        y, middle = y.reshape(len(y), -1), X.mean(axis=0)
        place = Registers(**_columns(X.shape[1], y.shape[1]))
        rows = np.zeros((len(X) + len(queries), place.width))
        examples, query_rows = rows[: len(X)], rows[len(X) :]
        examples[:, place["x"]] = X - middle
        examples[:, place["square"]] = np.square(X - middle).sum(axis=1, keepdims=True)
        examples[:, place["y"]], examples[:, place["data"]] = y, 1.0
        query_rows[:, place["query"]] = queries - middle
        return rows

    def predict(self, X: Any) -> Floats:
        """Predictions for the rows of X, by one forward pass."""
        check_is_fitted(self, "y_")
        X = validate_data(self, X, dtype=np.float64, reset=False)
        out = run(self.network(), self.prompt(self.X_, self.y_, X)[None])[0, len(self.X_) :].astype(np.float64)
        return out if self._many else out[:, 0]

    def report(self) -> Report:
        """How far predictions at the examples are from the exact ones, with a bound.

        Scores s_i = γ (2 x·x_i - |x_i|²) are sums of d + 2 products, so they err by at most δ = (d + 8) u γ (2|x|·|x_i|
        + |x_i|²). Weights err by e^(2δ + 2u max|s| + 8u) - 1, relatively, and averages over n rows by twice that and by
        2 (n + 8) u for sums in any order, times the average of |y|.
        """
        check_is_fitted(self, "y_")
        rows, u = self.prompt(self.X_, self.y_, self.X_), precision_of(self.dtype).unit
        held = run(self.network(), rows[None])[0, len(self.X_) :].astype(np.longdouble)
        place = Registers(**_columns(self.X_.shape[1], self.y_.shape[1]))
        X = rows[: len(self.X_), place["x"]].astype(np.longdouble)  # (n, d)
        squares, gamma = rows[: len(X), place["square"]].T.astype(np.longdouble), np.longdouble(self.gamma)
        scores = gamma * (2 * X @ X.T - squares)  # (n, n)
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        exact, sizes = (weights @ y / weights.sum(axis=1, keepdims=True) for y in (self.y_, np.abs(self.y_)))
        delta = (X.shape[1] + 8) * u * gamma * (2 * np.abs(X) @ np.abs(X).T + squares)  # (n, n)
        off = np.expm1((2 * delta + 2 * u * np.abs(scores)).max(axis=1, keepdims=True) + 8 * u)  # (n, 1)
        bound = (2 * off + 2 * (len(X) + 8) * u + u) * (1 + off) * sizes  # (n, m)
        return Report((Iterate(1, "z", norm(held - exact), norm(bound), norm(exact)),))

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_number("gamma", self.gamma, zero=False)


def _columns(features: int, outputs: int) -> dict[str, int]:
    return {"x": features, "square": 1, "y": outputs, "data": 1, "query": features}
