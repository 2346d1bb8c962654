"""Rectifier networks as attention: error against sharpness, and trained networks of scikit-learn converted."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import attnfun as af

from . import rates
from .base import Cell, Experiment, Picture, Result, Step, Table, quietly

NAMES = ("relu",)
COLUMNS = ("data", "network", "heads", "proved", "largest deviation on the test split", "same classes")
SHARPNESSES = tuple(2**k for k in range(6, 23, 4))


class Relu(Experiment):
    """One head a unit, as exact as requested."""

    name = "relu"
    title = "Rectifier networks"
    constructions = NAMES
    extras = ("sklearn",)

    def run(self, quick: bool = False, step: Step = quietly) -> Result:
        """Networks that scikit-learn trained on real data; one of them at several sharpnesses."""
        names = ("diabetes",) if quick else ("diabetes", "digits")
        models = {name: _trained(name, step) for name in names}
        rows = tuple(_converted(name, *models[name], step) for name in names)
        model, X, _ = models["diabetes"]
        study = rates.RateStudy("sharpness", "diabetes", model, _box(X), SHARPNESSES, -1.0, NAMES, option="R")
        result = rates.run(study, quick, step)
        text = (
            "A rectifier is two keys with scores 0 and R z, and values 0 and z: a head is within 0.27847/R of it "
            "(arXiv 2504.15956, made exact). One head for each unit, one attention layer for each hidden layer, "
            "whatever the tolerance is. Networks of 32 units that scikit-learn trained, on the box that holds all "
            "data. Random points miss the neighbourhoods of kinks, of width 1/R, so measured errors fall faster than "
            "the largest."
        )
        picture = Picture("rates", "A converted network: error against sharpness R", (rates.panel(study, result),))
        tables = (Table("converted", "scikit-learn's networks", COLUMNS, rows), rates.table(study, result))
        return Result(text, (picture,), tables)


def _trained(name: str, step: Step) -> tuple[Any, Any, Any]:
    """A model, all rows, the rows it has not seen."""
    from sklearn.datasets import load_diabetes, load_digits
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.model_selection import train_test_split
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import StandardScaler

    step(f"training scikit-learn's network on {name}")
    load, kind = {"diabetes": (load_diabetes, MLPRegressor), "digits": (load_digits, MLPClassifier)}[name]
    X, y = load(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    train_X, test_X, train_y, _ = train_test_split(X, y, random_state=0)
    model = kind(hidden_layer_sizes=(32,), max_iter=300, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 300 epochs are enough to have a network
        model.fit(train_X, train_y)
    return model, X, test_X


def _box(X: Any) -> af.Box:
    return af.Box(X.min(axis=0) - 0.1, X.max(axis=0) + 0.1)


def _converted(name: str, model: Any, X: Any, test_X: Any, step: Step) -> tuple[Cell, ...]:
    """A row of the table."""
    step(f"converting it, {name}")
    net = af.compile(model, _box(X), 1e-6)
    output = net(test_X)
    hidden = np.maximum(test_X @ model.coefs_[0] + model.intercepts_[0], 0)
    plain = (hidden @ model.coefs_[1] + model.intercepts_[1]).reshape(output.shape)
    same = None
    if hasattr(model, "classes_"):
        agree = model.classes_[output.argmax(axis=1)] == model.predict(test_X)
        same = f"{agree.sum()} of {len(agree)}"
    off = float(np.abs(output - plain).max())
    return name, f"{type(model).__name__}, 32 units", net.network.heads, net.certificate.bound, off, same
