"""A statistical model fitted to data, as a target: the coefficients that minimise an objective."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ..arithmetic import Interval
from ..domains.box import Box
from ..errors import InputError
from .base import Floats, Status, Target

Loss = Callable[[Any, Floats, float], tuple[Any, list[list[Any]]]]
"""Derivatives by the values z of the linear model, (n, m) intervals, and second derivatives, m x m of (n,)."""


def _alone(first: Any, second: Any) -> tuple[Any, list[list[Any]]]:
    """Losses that add up over outputs."""
    outputs, none = range(first.shape[1]), Interval(np.zeros(len(first)))
    return first, [[second[:, k] if k == q else none for q in outputs] for k in outputs]


def _squared(z: Any, y: Floats, delta: float) -> tuple[Any, list[list[Any]]]:
    return _alone(z - y, Interval(np.ones(z.shape)))


def _logistic(z: Any, y: Floats, delta: float) -> tuple[Any, list[list[Any]]]:
    t = np.tanh(z * 0.5)
    return _alone(t * 0.5 - y, (1.0 - np.square(t)) * 0.25)


def _poisson(z: Any, y: Floats, delta: float) -> tuple[Any, list[list[Any]]]:
    return _alone(np.exp(z) - y, np.exp(z))


def _log_cosh(z: Any, y: Floats, delta: float) -> tuple[Any, list[list[Any]]]:
    t = np.tanh((z - y) / delta)
    return _alone(t * delta, 1.0 - np.square(t))


def _softmax(z: Any, y: Floats, delta: float) -> tuple[Any, list[list[Any]]]:
    outputs = range(z.shape[1])
    p = [1.0 / np.sum(np.exp(z - z[:, k : k + 1]), axis=1) for k in outputs]
    second = [[p[k] * (1.0 - p[k]) if k == q else -p[k] * p[q] for q in outputs] for k in outputs]
    return np.stack(p, axis=1) - y, second


STEPS, HALVINGS, SWEEPS = 100, 60, 10_000
"""At most so many Newton steps, halvings of one, and rounds of all coordinates. Round numbers."""
LOSSES: dict[str, Loss] = {
    "squared": _squared,
    "logistic": _logistic,
    "poisson": _poisson,
    "log-cosh": _log_cosh,
    "softmax": _softmax,
}


class FittedModel(Target):
    """The coefficients W (P, m) that minimise `Σ_i ℓ(z_i, y_i) + alpha |W|²/2 + n beta Σ|W|`, z_i = x_i W.

    With an intercept, points x_i are measured from their mean and have a last feature 1, whose coefficients are not
    penalised: they are the values of the model at the mean. ℓ by its derivative in z:

        squared   z - y              logistic   tanh(z/2)/2 - y      poisson   e^z - y
        log-cosh  δ tanh((z - y)/δ)  softmax    softmax(z) - y, with the square of the sum of the intercepts over two

    It is a constant: the domain says at which prompt a network must know it. No formula has its value; a proof brings
    an approximation, and `derivatives` say how close that is [T 11.17]. The penalty `beta` goes with squares.
    """

    X: Floats  # (n, d)
    y: Floats  # (n, m)
    words: dict[str, Any]
    status = Status.PROVED
    kind = "fitted model"
    enclosable = False

    def __init__(self, X: Floats, y: Floats, words: dict[str, Any], domain: Box) -> None:
        shape = X.shape[1] + words["intercept"], y.shape[1]
        vars(self).update(X=X, y=y, words=words, domain=domain, output_shape=shape)

    @classmethod
    def of(
        cls,
        loss: str,
        X: Floats,
        y: Floats,
        domain: Box,
        *,
        intercept: bool,
        alpha: float = 0.0,
        beta: float = 0.0,
        delta: float = 1.0,
    ) -> FittedModel:
        """The model with this loss and these penalties."""
        words = {"loss": loss, "intercept": bool(intercept), "alpha": alpha, "beta": beta, "delta": delta}
        return cls(X, y, words, domain)

    @property
    def continuous(self) -> bool:
        """It is a constant."""
        return True

    def values(self, rows: Floats) -> Floats:
        """The coefficients, whatever the point."""
        return np.broadcast_to(self.solution.ravel(), (len(rows), self.outputs))

    @cached_property
    def solution(self) -> Floats:
        """The coefficients as floats, (P, m): along coordinates where there is `beta`, else by Newton steps."""
        W = np.zeros(self.output_shape)
        gradient, curvature = self.derivatives(Interval(W))
        if self.words["beta"]:
            return self._along_coordinates(gradient.mid, curvature.mid)
        for _ in range(STEPS):
            step, size = np.linalg.pinv(curvature.mid) @ gradient.mid.ravel(), np.abs(gradient.mid).sum()
            for _ in range(HALVINGS):
                gradient, curvature = self.derivatives(Interval(W - step.reshape(W.shape)))
                if np.abs(gradient.mid).sum() < size:
                    break
                step /= 2
            else:
                return W
            W = W - step.reshape(W.shape)
        return W

    def _along_coordinates(self, gradient: Floats, curvature: Floats) -> Floats:
        """The minimiser of a quadratic objective with these derivatives at zero, and the penalty `beta`."""
        w, free = np.zeros(gradient.size), np.repeat(np.arange(len(gradient)) >= self.X.shape[1], gradient.shape[1])
        push = np.where(free, 0.0, self.words["beta"] * len(self.X))
        for _ in range(SWEEPS):
            before = w.copy()
            for j in np.flatnonzero(np.diag(curvature) > 0):
                pull = curvature[j, j] * w[j] - gradient.ravel()[j] - curvature[j] @ w
                w[j] = np.sign(pull) * max(abs(pull) - push[j], 0.0) / curvature[j, j]
            if np.array_equal(w, before):
                break
        return w.reshape(gradient.shape)

    def as_dict(self) -> dict[str, Any]:
        """Kind, name and parameters; the data are in `arrays`."""
        (n, d), m = self.X.shape, self.outputs // self.output_shape[0]
        size = f"{n} examples, {d} feature{'s' * (d > 1)}, {m} output{'s' * (m > 1)}"
        return {
            "kind": self.kind,
            "name": f"coefficients for the {self.words['loss']} loss ({size})",
            "where": "the prompt in this file",
            "meaning": "the bound holds of every execution on this prompt, in any order of summation",
            **self.words,
        }

    def arrays(self) -> dict[str, Floats]:
        """The data."""
        return {"X": self.X, "y": self.y}

    @classmethod
    def restored(
        cls, description: dict[str, Any], arrays: dict[str, Floats], domain: Box, output_shape: tuple[int, ...]
    ) -> FittedModel:
        """The target of a saved network."""
        del output_shape
        X, y = (arrays.get(name, np.empty(0)) for name in ("X", "y"))
        fits = X.ndim == y.ndim == 2 and len(X) == len(y) and min(X.shape[1], y.shape[1], len(X)) > 0
        if set(arrays) != {"X", "y"} or not fits or not all(np.isfinite(each).all() for each in (X, y)):
            raise InputError("a fitted model must have points X and labels y", got=f"{X.shape} and {y.shape}")
        words = {name: description[name] for name in ("loss", "intercept", "alpha", "beta", "delta")}
        return cls(X, y, words, domain)

    def points(self) -> Any:
        """Points from their mean, and the feature 1: intervals (n, P)."""
        X = Interval(self.X)
        if not self.words["intercept"]:
            return X
        middle = np.sum(X, axis=0) / float(len(self.X))
        return np.concatenate([X - middle, Interval(np.ones((len(self.X), 1)))], axis=1)  # type: ignore[list-item]

    def derivatives(self, W: Any) -> tuple[Any, Any]:
        """Gradient (P, m) and second derivatives (P m, P m) of the objective without `beta`, for intervals W (P, m)."""
        points, (P, m) = self.points(), self.output_shape
        z = np.sum(points.reshape(-1, P, 1) * W.reshape(1, P, m), axis=1)  # (n, m)
        first, second = LOSSES[self.words["loss"]](z, self.y, self.words["delta"])
        own = np.where(np.arange(P) < self.X.shape[1], self.words["alpha"], 0.0)  # (P,)
        gradient = np.sum(points.reshape(-1, P, 1) * first.reshape(-1, 1, m), axis=0) + W * own[:, None]
        squares = points.reshape(-1, P, 1) * points.reshape(-1, 1, P)  # (n, P, P)
        blocks = [
            np.stack([np.sum(squares * each.reshape(-1, 1, 1), axis=0) for each in row], axis=2) for row in second
        ]
        curvature = np.stack(blocks, axis=1).reshape(P * m, P * m) + np.diag(np.repeat(own, m))
        if self.words["loss"] == "softmax" and self.words["intercept"]:
            last = np.eye(P)[:, -1:]  # (P, 1)
            gradient = gradient + np.sum(W[-1:], axis=1).reshape(1, 1) * last
            curvature = curvature + np.kron(last @ last.T, np.ones((m, m)))
        return gradient, curvature
