"""Fitted scikit-learn estimators: multi-layer perceptrons, linear models, kernel expansions, and pipelines of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...arguments import on_one_line
from ...domains.box import Box
from ...errors import InputError, counted
from .graph import Floats
from .kernels import gaussian_process, kernel_ridge, support_vectors
from .writer import Reading, Value, Writer, unsupported


def is_sklearn(model: object) -> bool:
    """Is it an estimator of scikit-learn, or of a class made from one?"""
    origins = {kind.__module__.split(".")[0] + "." + kind.__name__ for kind in type(model).__mro__}
    return "sklearn.BaseEstimator" in origins


def read_sklearn(model: Any, domain: Box) -> Reading:
    """The graph of an estimator; of classifiers, the values before the last activation, their logits."""
    write = Writer(domain.shape or (1,), (1, domain.size))
    name = on_one_line(type(model).__name__)
    value = _whole(write, write.input, model)
    last = _activation(_steps(model)[-1])
    single = last == "identity" and _is_single(model, domain)
    graph = write.graph(write.reshape(value, (1,)) if single else value)

    def run(rows: Floats) -> Floats:
        return _RUN[last](model, rows).reshape(len(rows), -1)

    return Reading(graph, name, run, np.dtype(np.float64), (), "" if last == "identity" else last)


def _steps(model: Any) -> list[Any]:
    """The estimators of a pipeline in order, or the one there is."""
    if not hasattr(model, "steps"):
        return [model]
    return [part for _, step in model.steps for part in _steps(step) if not isinstance(part, str) and part is not None]


def _whole(write: Writer, value: Value, model: Any) -> Value:
    """A pipeline, or the one estimator there is."""
    *transformers, final = _steps(model)
    for step in transformers:
        value = _apply(TRANSFORMERS, step, write, value)
    return _apply(ESTIMATORS, final, write, value)


def _apply(table: dict[str, Callable[[Writer, Value, Any], Value]], step: Any, write: Writer, value: Value) -> Value:
    """One estimator, by its class or one that it was made from."""
    names = [kind.__name__ for kind in type(step).__mro__ if kind.__module__.split(".")[0] == "sklearn"]
    for name in names:
        if name in table:
            write.name = on_one_line(type(step).__name__)
            learned = [attribute for attribute in vars(step) if attribute.endswith("_") and attribute[0] != "_"]
            if not learned and not hasattr(step, "transformer_list"):  # whose parts have what they learned
                raise InputError("the scikit-learn estimator must have been fitted", got=repr(step))
            features = getattr(step, "n_features_in_", write.shape(value)[1])
            if features != write.shape(value)[1]:
                raise InputError(
                    f"{write.name} must have {counted(write.shape(value)[1], 'input')}, as many as it is given here",
                    got=features,
                    remedy=f"Give a domain= of {counted(features, 'variable')}.",
                )
            return table[name](write, value, step)
    raise unsupported(type(step).__name__, [each for name in table for each in FAMILIES.get(name, (name,))])


def _activation(final: Any) -> str:
    """What the estimator does to the values of the graph when it predicts."""
    if hasattr(final, "out_activation_"):
        if final.out_activation_ not in ("identity", "logistic", "softmax"):
            raise unsupported(f"out_activation_={final.out_activation_!r}", ["identity", "logistic", "softmax"])
        return {"logistic": "sigmoid"}.get(final.out_activation_, final.out_activation_)
    if hasattr(final, "support_vectors_"):  # probabilities of support vectors are not functions of their margins
        if not hasattr(final, "decision_function"):
            return "identity"
        return "pairs" if len(getattr(final, "classes_", ())) > 2 else "margin"
    if hasattr(final, "classes_") and hasattr(final, "predict_proba"):
        return "sigmoid" if len(final.classes_) == 2 else "softmax"
    return "margin" if hasattr(final, "classes_") else "identity"


def _is_single(model: Any, domain: Box) -> bool:
    """Does it predict one number a point, without an axis for it?"""
    return model.predict(domain.sample(1, np.random.default_rng(0))).ndim == 1


def _probabilities(model: Any, rows: Floats) -> Floats:
    found = model.predict_proba(rows)
    final = _steps(model)[-1]
    return found[:, -1:] if getattr(final, "n_outputs_", 1) == 1 and found.shape[1] == 2 else found


_RUN: dict[str, Callable[[Any, Floats], Floats]] = {
    "identity": lambda model, rows: model.predict(rows),
    "sigmoid": _probabilities,
    "softmax": lambda model, rows: model.predict_proba(rows),
    "margin": lambda model, rows: model.decision_function(rows),
    "pairs": lambda model, rows: model.decision_function(rows),
}
"""What an estimator says at points, by the activation that it applies to its last values."""


# ---------------------------------------------------------------- estimators


def _perceptron(write: Writer, value: Value, model: Any) -> Value:
    activations = {"identity": None, "relu": "relu", "tanh": "tanh", "logistic": "sigmoid"}
    if model.activation not in activations:
        raise unsupported(f"activation={model.activation!r}", [*activations])
    own, name = activations[model.activation], write.name
    for number, (weight, bias) in enumerate(zip(model.coefs_, model.intercepts_, strict=True)):
        write.name = f"layer {number} of {name}"
        value = write.linear(value, np.asarray(weight, dtype=np.float64), np.asarray(bias, dtype=np.float64))
        if number < len(model.coefs_) - 1 and own is not None:
            value = write.apply(own, value)
    return value


def _linear(write: Writer, value: Value, model: Any) -> Value:
    weight = np.atleast_2d(np.asarray(model.coef_, dtype=np.float64))
    return write.linear(value, weight.T, np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)))


def _logistic(write: Writer, value: Value, model: Any) -> Value:
    return _linear(write, value, model)


def _standard(write: Writer, value: Value, step: Any) -> Value:
    value = write.subtract(value, step.mean_) if step.with_mean else value
    return write.divide(value, step.scale_) if step.with_std else value


def _min_max(write: Writer, value: Value, step: Any) -> Value:
    value = write.add(write.multiply(value, step.scale_), step.min_)
    return (
        write.apply("clip", value, low=float(step.feature_range[0]), high=float(step.feature_range[1]))
        if step.clip
        else value
    )


def _robust(write: Writer, value: Value, step: Any) -> Value:
    value = write.subtract(value, step.center_) if step.with_centering else value
    return write.divide(value, step.scale_) if step.with_scaling else value


def _principal(write: Writer, value: Value, step: Any) -> Value:
    value = write.linear(write.subtract(value, step.mean_), step.components_.T)
    if not step.whiten:
        return value
    return write.divide(value, write.apply("sqrt", np.asarray(step.explained_variance_)[None]))


def _polynomial(write: Writer, value: Value, step: Any) -> Value:
    """Products of powers of the variables, one a row of `powers_`."""
    columns = []
    for powers in step.powers_:  # (D,)
        product: Value | None = None
        for axis in np.flatnonzero(powers):
            factor = write.power(write.gather(value, 1, np.array([axis])), float(powers[axis]))
            product = factor if product is None else write.multiply(product, factor)
        columns.append(np.ones((1, 1)) if product is None else product)
    return write.concat(columns, 1)


def _columns(write: Writer, value: Value, step: Any) -> Value:
    """Transformers of some columns each, side by side."""
    parts = list[Value]()
    for _, transformer, columns in step.transformers_:
        entries = _numbers(columns, step)
        if not entries or (isinstance(transformer, str) and transformer == "drop"):
            continue
        part = write.gather(value, 1, np.array(entries))
        for each in [] if isinstance(transformer, str) else _steps(transformer):
            part = _apply(TRANSFORMERS, each, write, part)
        parts.append(part)
    return write.concat(parts, 1)


def _numbers(columns: Any, step: Any) -> list[int]:
    """Columns as numbers, whether they are named, counted, marked or a slice."""
    if isinstance(columns, slice):
        return list(range(step.n_features_in_)[columns])
    chosen = np.atleast_1d(np.asarray(columns))
    if chosen.dtype == bool:
        return [int(number) for number in np.flatnonzero(chosen)]
    if chosen.dtype.kind in "OU":
        names = [str(name) for name in step.feature_names_in_]
        return [names.index(str(name)) for name in chosen]
    return [int(number) % step.n_features_in_ for number in chosen]


def _union(write: Writer, value: Value, step: Any) -> Value:
    """Several transformers of all columns, side by side, each times its weight."""
    parts = list[Value]()
    for name, transformer in step.transformer_list:
        if isinstance(transformer, str) and transformer == "drop":
            continue
        part = value
        for each in [] if isinstance(transformer, str) else _steps(transformer):
            part = _apply(TRANSFORMERS, each, write, part)
        weight = (step.transformer_weights or {}).get(name, 1.0)
        parts.append(part if weight == 1.0 else write.multiply(part, np.array(float(weight))))
    return write.concat(parts, 1)


def _function_transformer(write: Writer, value: Value, step: Any) -> Value:
    if step.func is not None:
        function = getattr(step.func, "__name__", "a function")
        raise unsupported(f"FunctionTransformer of {function}", ["FunctionTransformer without a function"])
    return value


def _imputer(write: Writer, value: Value, step: Any) -> Value:
    """Points of a domain miss no numbers."""
    if step.add_indicator or np.isnan(np.asarray(step.statistics_, dtype=np.float64)).any():
        raise unsupported(f"{write.name} that adds or drops columns", [*TRANSFORMERS])
    return value


def _transformed_target(write: Writer, value: Value, model: Any) -> Value:
    """A regressor of scaled values, scaled back."""
    value, back = _whole(write, value, model.regressor_), model.transformer_
    kind = type(back).__name__
    if kind == "StandardScaler":
        value = write.multiply(value, back.scale_) if back.with_std else value
        return write.add(value, back.mean_) if back.with_mean else value
    if kind == "MinMaxScaler" and not back.clip:
        return write.divide(write.subtract(value, back.min_), back.scale_)
    if kind == "FunctionTransformer" and back.inverse_func is None:
        return value
    raise unsupported(f"{kind} of the target of {write.name}", ["StandardScaler", "MinMaxScaler"])


TRANSFORMERS: dict[str, Callable[[Writer, Value, Any], Value]] = {
    "StandardScaler": _standard,
    "MinMaxScaler": _min_max,
    "MaxAbsScaler": lambda write, value, step: write.divide(value, step.scale_),
    "RobustScaler": _robust,
    "PCA": _principal,
    "TruncatedSVD": lambda write, value, step: write.linear(value, step.components_.T),
    "PolynomialFeatures": _polynomial,
    "ColumnTransformer": _columns,
    "FeatureUnion": _union,
    "FunctionTransformer": _function_transformer,
    "SimpleImputer": _imputer,
}
"""Steps of a pipeline before the last one, by their classes."""
ESTIMATORS: dict[str, Callable[[Writer, Value, Any], Value]] = {
    "BaseMultilayerPerceptron": _perceptron,
    "LogisticRegression": _logistic,
    "LinearClassifierMixin": _linear,
    "LinearModel": _linear,
    "LinearSVR": _linear,
    "SGDRegressor": _linear,
    "KernelRidge": kernel_ridge,
    "BaseLibSVM": support_vectors,
    "GaussianProcessRegressor": gaussian_process,
    "TransformedTargetRegressor": _transformed_target,
}
"""Last steps, by their classes."""
FAMILIES = {
    "BaseMultilayerPerceptron": ("MLPRegressor", "MLPClassifier"),
    "LinearClassifierMixin": ("RidgeClassifier", "SGDClassifier", "LinearSVC"),
    "LinearModel": ("LinearRegression", "Ridge", "Lasso", "ElasticNet", "BayesianRidge"),
    "BaseLibSVM": ("SVR", "NuSVR", "SVC", "NuSVC"),
}
"""Estimators that users know, of the classes that they were made from."""
