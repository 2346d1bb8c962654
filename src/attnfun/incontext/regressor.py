"""Regression on rows of data by one attention head, as a scikit-learn estimator.

`AttentionRegressor` compiles `af.Samples` (`constructions/regression.py`): it fits no more and no less than
`af.compile` does, and its network takes raw rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..arguments import whole_number
from ..compiled import Compiled
from ..compiler import compile
from ..constructions.regression import FOLDS
from ..errors import InputError, MissingExtra
from ..targets import Samples
from ..targets.samples import SamplesTarget, Study

try:
    from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MissingExtra("scikit-learn", "sklearn") from None

Floats = npt.NDArray[np.float64]


class AttentionRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """One softmax head with learnt tokens and an affine part, sized by cross-validation.

    Parameters
    ----------
    tokens
        Memory tokens of the head; None for the size that does best in cross-validation.
    polish
        Whether every token is moved freely after the metric was found; None: if that does better in cross-validation.
    folds
        Of the cross-validation inside `fit`.
    dtype
        The arithmetic of the network.
    random_state
        A whole number; equal numbers give equal networks.

    Attributes
    ----------
    network_
        The compiled network (`af.types.Compiled`), which takes raw rows and can be saved, exported and drawn. Its
        axes have the names of a data frame's columns.
    cv_results_
        Dict of arrays, one entry for each recipe tried: `param_tokens`, `param_polish`, `mean_test_rmse`,
        `std_test_rmse`, `rank_test_rmse`.
    held_out_rmse_, held_out_r2_
        At rows that were held out; see `network_.certificate` for what exactly.
    n_features_in_, feature_names_in_
        As in all of scikit-learn.

    Examples
    --------
    >>> X = np.linspace(-3, 3, 60)[:, None]
    >>> model = AttentionRegressor(tokens=16).fit(X, np.sin(X[:, 0]))
    >>> model.predict([[0.5]]).round(2), model.network_.network
    (array([0.48]), Network((1, 1) -> (1, 1), 3 layers, 1 head, 16 tokens, float64))
    """

    def __init__(
        self,
        tokens: int | None = None,
        polish: bool | None = None,
        folds: int = FOLDS,
        dtype: str = "float64",
        random_state: int = 0,
    ) -> None:
        self.tokens, self.polish, self.folds = tokens, polish, folds
        self.dtype, self.random_state = dtype, random_state

    def fit(self, X: Any, y: Any) -> AttentionRegressor:
        """Fit rows X (n, D) and y (n,) or (n, m)."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, ensure_min_samples=2)
        seed = whole_number("random_state", self.random_state, 0)
        self.network_: Compiled = compile(
            Samples(X, np.asarray(y, dtype=np.float64), getattr(self, "feature_names_in_", None)),
            options={"tokens": self.tokens, "polish": self.polish, "folds": self.folds},
            dtype=self.dtype,
            outside="allow",
            seed=seed,
        )
        study = _study(self.network_)
        self.held_out_rmse_, self.held_out_r2_ = study.rmse, study.r2
        self.cv_results_ = _table(study)
        return self

    def predict(self, X: Any) -> Floats:
        """The network's values at rows (k, D): (k,) or (k, m)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return self.network_(X).astype(np.float64)


def _study(network: Compiled) -> Study:
    """What was measured while rows were held out."""
    target = network.certificate.claim.target
    if not isinstance(target, SamplesTarget) or target.study is None:
        raise InputError("the network must have been fitted to samples", got=repr(network))
    return target.study


def _table(study: Study) -> dict[str, npt.NDArray[Any]]:
    """Trials by column."""
    errors = np.array([trial["rmse"] for trial in study.trials])  # (T, folds)
    mean = errors.mean(axis=1)
    return {
        "param_tokens": np.array([trial["tokens"] for trial in study.trials]),
        "param_polish": np.array([trial["polish"] for trial in study.trials]),
        "mean_test_rmse": mean,
        "std_test_rmse": errors.std(axis=1),
        "rank_test_rmse": np.argsort(np.argsort(mean, kind="stable"), kind="stable") + 1,
    }
