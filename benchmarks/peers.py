"""What others need for functions of one variable: polynomials, splines, rational functions, a trained head."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.interpolate import AAA, CubicSpline

Floats = np.ndarray
Function = Callable[[Floats], Floats]
"""(S,) -> (S,) on [-1, 1]."""

CHECKS = np.cos(np.linspace(0, np.pi, 1001))
MOST_COEFFICIENTS, MOST_KNOTS = 2**11, 2**14
ADAM, LBFGS = 500, 200
"""Steps of training."""


def _shortest(errors: Callable[[int], Floats], eps: float, start: int, largest: int) -> int | str:
    """The first size whose errors are at most eps, sizes growing by a tenth."""
    size = start
    while size <= largest:
        if errors(size).max() <= eps:
            return size
        size += max(1, size // 10)
    return f"> {largest}"


def chebyshev(function: Function, eps: float) -> int | str:
    """Coefficients of a Chebyshev interpolant."""
    truth = function(CHECKS)

    def errors(size: int) -> Floats:
        series = np.polynomial.chebyshev.chebinterpolate(function, size - 1)
        return np.abs(np.polynomial.chebyshev.chebval(CHECKS, series) - truth)

    return _shortest(errors, eps, 2, MOST_COEFFICIENTS)


def spline(function: Function, eps: float) -> int | str:
    """Knots of a cubic spline, equidistant."""
    truth = function(CHECKS)

    def errors(size: int) -> Floats:
        knots = np.linspace(-1, 1, size)
        return np.abs(CubicSpline(knots, function(knots))(CHECKS) - truth)

    return _shortest(errors, eps, 4, MOST_KNOTS)


def rational(function: Function, eps: float) -> int:
    """Support points of a rational interpolant found by AAA."""
    points = CHECKS
    values = function(points)
    return len(AAA(points, values, rtol=eps / np.abs(values).max(), max_terms=150).support_points)


def trained(function: Function, tokens: int) -> float:
    """Largest error of one softmax head of as many tokens, float64: Adam, then L-BFGS, from equidistant centres."""
    import torch

    torch.manual_seed(0)
    points = torch.tensor(CHECKS)
    truth = torch.tensor(function(CHECKS))
    centres = torch.linspace(-1, 1, tokens, dtype=torch.float64)
    sharp = float(max(tokens - 1, 1)) ** 2 / 4
    slopes = (sharp * centres).requires_grad_()
    offsets = (-sharp * centres**2 / 2).requires_grad_()
    values = torch.tensor(function(centres.numpy())).requires_grad_()
    parameters = [slopes, offsets, values]

    def output(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x[:, None] * slopes + offsets, dim=1) @ values

    adam = torch.optim.Adam(parameters, lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(adam, ADAM)
    for _ in range(ADAM):
        adam.zero_grad()
        ((output(points) - truth) ** 2).mean().backward()
        adam.step()
        schedule.step()
    fine = torch.optim.LBFGS(parameters, max_iter=LBFGS, history_size=20, line_search_fn="strong_wolfe")

    def closure() -> torch.Tensor:
        fine.zero_grad()
        loss = ((output(points) - truth) ** 2).mean()
        loss.backward()
        return loss

    fine.step(closure)
    with torch.no_grad():
        return float(np.abs(output(torch.tensor(CHECKS)).numpy() - function(CHECKS)).max())
