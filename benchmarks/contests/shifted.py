"""Learners in context on tasks that they were not compiled for: kernel regression and gradient descent.

A batch is prompts, each with a task of its own; the error is that of the predictions at the queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

import attnfun as af

from .trials import Task

Floats = npt.NDArray[np.float64]
Drawn = tuple[Floats, Floats, Floats, Floats]
"""A task: examples (n, d) and their y (n,), queries (k, d) and what they should get (k,)."""
Draw = Callable[[np.random.Generator], Drawn]
PROMPTS, QUERIES = 8, 4
MANY, FEW = 32, 8
"""Examples in a prompt, for kernel regression and for gradient descent, which is slow and gets half of the prompts."""
GAMMA = 4.0
"""The kernel that is compiled."""


@dataclass(frozen=True)
class Waves:
    """Random waves of one variable: their frequency, and the noise on examples."""

    frequency: float
    noise: float

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """One task."""
        phase, strength = rng.uniform(0, 2 * np.pi, 4), rng.normal(size=4) / 2
        rates = self.frequency * rng.uniform(0.5, 1, 4)

        def f(x: Floats) -> Floats:
            return np.sin(x * rates + phase) @ strength

        X, queries = rng.uniform(-1, 1, (MANY, 1)), rng.uniform(-1, 1, (QUERIES, 1))
        return X, f(X) + self.noise * rng.normal(size=MANY), queries, f(queries)


@dataclass(frozen=True)
class Lines:
    """Linear functions of two correlated variables."""

    correlation: float
    noise: float

    def __call__(self, rng: np.random.Generator) -> Drawn:
        """One task."""
        root = np.linalg.cholesky(np.array([[1.0, self.correlation], [self.correlation, 1.0]]))
        X = np.clip(rng.normal(size=(FEW + QUERIES, 2)), -2.5, 2.5) @ root.T
        values = X @ rng.normal(size=2)
        y = values[:FEW] + self.noise * rng.normal(size=FEW)
        return X[:FEW], y, X[FEW:], values[FEW:]


def tasks(kernel_steps: int, descent_steps: int, checks: int) -> list[Task]:
    """Waves of another frequency or with noise for kernel regression, correlated variables for gradient descent.

    Errors are measured on so many prompts, always the same.
    """
    kernel = af.incontext.KernelRegression(GAMMA)
    descent = af.incontext.GradientDescent(fit_intercept=False, steps=2, momentum=0.9)
    waves = {"waves twice as fast": Waves(12.0, 0.1), "noise 10 times as large": Waves(6.0, 1.0)}
    kernels = [
        _kernel_task(f"kernel regression, {name}", draw, kernel, kernel_steps, checks) for name, draw in waves.items()
    ]
    line = _descent_task("gradient descent, correlated variables", Lines(0.9, 0.1), descent, descent_steps, checks // 2)
    return [*kernels, line]


def _kernel_task(title: str, draw: Draw, learner: Any, steps: int, count: int) -> Task:
    """One attention layer, and beside it the exact learner with the best kernel for these tasks."""
    checks = [draw(rng) for rng in np.random.default_rng(1).spawn(count)]

    def error(gamma: float) -> float:
        off = [_kernel(gamma, X, y, queries) - wanted for X, y, queries, wanted in checks]
        return float(np.sqrt(np.mean(np.square(off))))

    def prompt(X: Floats, y: Floats, queries: Floats) -> tuple[Floats, float]:
        return learner.prompt(X, y, queries), 1.0

    learner.fit(*checks[0][:2])
    best = min(error(gamma) for gamma in np.geomspace(0.25, 256, 41))
    rows = slice(MANY, MANY + QUERIES)
    shown = best, "the best kernel"
    return _task(title, (draw, checks, PROMPTS), (learner.to_torch(), rows, prompt), steps, shown)


def _kernel(gamma: float, X: Floats, y: Floats, queries: Floats) -> Floats:
    """Nadaraya and Watson."""
    weights = np.exp(-gamma * np.square(queries[:, None] - X).sum(axis=2))  # (k, n)
    return weights @ y / weights.sum(axis=1)


def _descent_task(title: str, draw: Lines, learner: Any, steps: int, count: int) -> Task:
    """Two steps of gradient descent in its layers, and beside it the best estimate given the noise, by ridge."""
    learner.fit(*draw(np.random.default_rng(0))[:2])

    def prompt(X: Floats, y: Floats, queries: Floats) -> tuple[Floats, float]:
        made = learner.prompt(X, y, queries)
        return made.rows, float(made.units.y[0])

    checks, off = [draw(rng) for rng in np.random.default_rng(1).spawn(count)], list[Floats]()
    for X, y, queries, wanted in checks:
        w = np.linalg.solve(X.T @ X + draw.noise**2 * np.eye(2), X.T @ y)
        off.append((queries @ w - wanted) / prompt(X, y, queries)[1])
    first = 2 * 2 + 1 + 2 * FEW
    shown, rows = (float(np.sqrt(np.mean(np.square(off)))), "ridge"), slice(first, first + QUERIES)
    return _task(title, (draw, checks, PROMPTS // 2), (learner.to_torch(), rows, prompt), steps, shown)


def _task(
    title: str,
    drawing: tuple[Draw, list[Drawn], int],
    learner: tuple[Any, slice, Callable[..., tuple[Floats, float]]],
    steps: int,
    best: tuple[float, str],
) -> Task:
    """Prompts in batches. What is wanted is measured in the unit of y that the prompt is written in."""
    import torch

    from .training import OutputRows, masks_held, perturbed, randomised

    (draw, held, count), (module, rows, prompt) = drawing, learner

    def made(drawn: list[Drawn]) -> tuple[Any, Any]:
        written = [prompt(X, y, queries) for X, y, queries, _ in drawn]
        wanted = [values / unit for (*_, values), (_, unit) in zip(drawn, written, strict=True)]
        inputs = np.stack([prompt for prompt, _ in written])
        return torch.tensor(inputs, dtype=torch.float64), torch.tensor(np.stack(wanted), dtype=torch.float64)

    checks, truth = made(held)
    model = OutputRows(module, rows)
    return Task(
        title,
        lambda rng: made([draw(rng) for _ in range(count)]),
        lambda model: float((model(checks) - truth).square().mean().sqrt()),
        {
            "compiled": lambda seed: perturbed(model, 0.0, seed),
            "compiled, masks held": lambda seed: masks_held(perturbed(model, 0.0, seed)),
            "random": lambda seed: randomised(model, seed),
        },
        steps,
        *best,
    )
