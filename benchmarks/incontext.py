"""In-context learners against scikit-learn: coefficients, held-out predictions, layers and seconds.

    python benchmarks/incontext.py

Writes benchmarks/results/incontext.md. Differences of coefficients are the largest, relative to the largest
coefficient. Every other row of a data set is held out. Logistic regression is compared with the solver
newton-cholesky, converged; features are standardised for it.
"""

from __future__ import annotations

import platform
import time
import warnings
from pathlib import Path

import numpy as np
import sklearn
from sklearn import linear_model as peers
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.metrics import accuracy_score, r2_score

import attnfun as af

learn = af.incontext


HEADER = """# In-context learners and scikit-learn

`python benchmarks/incontext.py`; {versions}, one thread on a busy machine.

Coefficients: largest difference over largest coefficient. Score: R² or accuracy on the held-out half. "Its" is
scikit-learn, which is {least:.0f} to {most:,.0f} times faster here ({middle:.0f} times in the middle): the point is
what attention can do, not speed. Zeros: coefficients of the lasso that are exactly zero, here and there.

| data | learner | coefficients | zeros | score | its score | attention layers | seconds | its seconds |
|---|---|---|---|---|---|---|---|---|"""


def digits(which):
    """Digits below `which`; all pixels."""
    X, y = load_digits(return_X_y=True)
    return X[y < which], y[y < which]


DATA = {
    "diabetes": load_diabetes(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "iris": load_iris(return_X_y=True),
    "digits": load_digits(return_X_y=True),
    "digits 0, 1": digits(2),
    "digits 0-2": digits(3),
}


def logistic(C):
    """The peer of in-context logistic regression."""
    return peers.LogisticRegression(C=C, tol=1e-12, solver="newton-cholesky", max_iter=1000)


def lasso(alpha):
    """The peer of the in-context lasso."""
    return peers.Lasso(alpha, tol=1e-12, max_iter=10**6)


REGRESSION = ("diabetes", "breast cancer", "wine", "digits")
CASES = [
    *[(name, "least squares", learn.LinearRegression(), peers.LinearRegression()) for name in REGRESSION],
    *[(name, "ridge, alpha 1", learn.Ridge(1.0), peers.Ridge(1.0)) for name in REGRESSION],
    *[
        (name, "least squares, float32", learn.LinearRegression(dtype="float32"), peers.LinearRegression())
        for name in REGRESSION
    ],
    *[(name, "ridge, alpha 1, float32", learn.Ridge(1.0, dtype="float32"), peers.Ridge(1.0)) for name in REGRESSION],
    ("diabetes", "lasso, alpha 0.1", learn.Lasso(0.1), lasso(0.1)),
    ("diabetes", "lasso, alpha 1", learn.Lasso(1.0), lasso(1.0)),
    ("wine", "lasso, alpha 0.01", learn.Lasso(0.01), lasso(0.01)),
    ("digits", "lasso, alpha 0.1", learn.Lasso(0.1), lasso(0.1)),
    ("breast cancer", "lasso, alpha 0.01", learn.Lasso(0.01), lasso(0.01)),
    ("breast cancer", "logistic, C 1", learn.LogisticRegression(1.0), logistic(1.0)),
    ("breast cancer", "logistic, C 100", learn.LogisticRegression(100.0), logistic(100.0)),
    ("digits 0, 1", "logistic, C 1", learn.LogisticRegression(1.0), logistic(1.0)),
    ("wine", "logistic, C 1, 3 classes", learn.LogisticRegression(1.0), logistic(1.0)),
    ("wine", "logistic, C 100, 3 classes", learn.LogisticRegression(100.0), logistic(100.0)),
    ("iris", "logistic, C 1, 3 classes", learn.LogisticRegression(1.0), logistic(1.0)),
    ("iris", "logistic, C 100, 3 classes", learn.LogisticRegression(100.0), logistic(100.0)),
    ("digits 0-2", "logistic, C 1, 3 classes", learn.LogisticRegression(1.0), logistic(1.0)),
    (
        "diabetes",
        "poisson, alpha 0.001",
        learn.GLM("poisson", alpha=1e-3),
        peers.PoissonRegressor(alpha=1e-3, tol=1e-12, max_iter=1000, solver="newton-cholesky"),
    ),
]


def compare(name, ours, peer):
    """One row of the table, and how many times faster the peer was."""
    X, y = DATA[name]
    train, test = slice(0, None, 2), slice(1, None, 2)
    if isinstance(ours, learn.LogisticRegression):
        spread = X[train].std(axis=0)
        X = (X - X[train].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    began = time.perf_counter()
    peer.fit(X[train], y[train])
    theirs = time.perf_counter() - began
    began = time.perf_counter()
    ours.fit(X[train], y[train])
    coefficients = ours.coef_
    seconds = time.perf_counter() - began
    off = np.abs(coefficients - peer.coef_).max() / np.abs(peer.coef_).max()
    measure = accuracy_score if isinstance(ours, learn.LogisticRegression) else r2_score
    scores = [measure(y[test], model.predict(X[test])) for model in (ours, peer)]
    layers = len(ours.network().attention)
    zeros = [int((found == 0).sum()) for found in (coefficients, peer.coef_)]
    shown = f"{zeros[0]}, {zeros[1]}" if isinstance(ours, learn.Lasso) else ""
    row = f"{off:.1e} | {shown} | {scores[0]:.4f} | {scores[1]:.4f} | {layers} | {seconds:.2f} | {theirs:.4f}"
    return row, seconds / theirs


def main() -> None:
    """Write the table."""
    table, ratios = [], []
    for name, title, ours, peer in CASES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row, ratio = compare(name, ours, peer)
        table.append(f"| {name} | {title} | {row} |")
        ratios.append(ratio)
    versions = f"scikit-learn {sklearn.__version__}, Python {platform.python_version()}"
    least, middle, most = np.quantile(ratios, [0.0, 0.5, 1.0])
    table.insert(0, HEADER.format(versions=versions, least=least, middle=middle, most=most))
    (Path(__file__).parent / "results" / "incontext.md").write_text("\n".join(table) + "\n")


if __name__ == "__main__":
    main()
