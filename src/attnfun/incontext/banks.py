"""Derivatives of losses as banks of memory tokens: ψ(z) = Σ_t softmax_t(slope_t·z + offset_t) value_t.

    logistic   σ(z) - 1/2          slopes ±1/2, values ±1/2                      exact
    softmax    softmax(z)          one token a class                            exact
    poisson    e^z                 scores z and TOP, values e^TOP and 0           relative error e^(z - TOP)
    log-cosh   δ tanh(z/δ)         slopes ±1/δ, values ±δ                         exact
    huber      z clipped to ±δ     points L_t, scores β (z L_t - L_t²/2)           at most 0.13 δ/POINTS

A row holds -z where its mirror image holds z. An odd bank answers both. For any other, a row and its mirror image ask
a copy each: tokens (slope, value) for rows of sign 1 and (-slope, -value) for rows of sign -1; rows that are no
examples get zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp

import numpy as np
import numpy.typing as npt

from ..network import Attention
from .registers import Registers

Floats = npt.NDArray[np.float64]

TOP = 30.0
POINTS = 64
SHARPNESS = 5.4
"""β Δ² for points at distance Δ: the sharpness at which the largest error, at the ends, is least (THEORY 5.1)."""
LEADS = {"float64": 2.0**12, "float32": 2.0**6}
"""Lead of a row's own copy; scores of a bank that is not odd must stay below half of it."""
STEPS = {"float64": 2.0**-10, "float32": 2.0**-6}
"""Step h of the differences that make second derivatives."""


@dataclass(frozen=True)
class Bank:
    """Tokens, and what the learner must know about ψ."""

    slopes: Floats  # (T, m)
    offsets: Floats  # (T,)
    values: Floats  # (T, m)
    odd: bool
    curvature: float
    """Bounds the derivative of ψ."""
    residual: bool = False
    """Is the loss ℓ(z - y), with derivative ψ(z - y), instead of one with derivative ψ(z) - y?"""

    def __call__(self, z: Floats) -> Floats:
        """ψ, for comparison: (..., m) -> (..., m)."""
        scores = z @ self.slopes.T + self.offsets  # (..., T)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights @ self.values / weights.sum(axis=-1, keepdims=True)


def _pair(slope: float, value: float, curvature: float, residual: bool) -> Bank:
    ends = np.array([[1.0], [-1.0]])
    return Bank(slope * ends, np.zeros(2), value * ends, True, curvature, residual)


def softmax(classes: int) -> Bank:
    """One token a class; the curvature is that of Σ_k p_k (1 - p_k)."""
    return Bank(np.eye(classes), np.zeros(classes), np.eye(classes), odd=False, curvature=1.0)


def poisson(delta: float) -> Bank:
    """e^z; means are at most 1 in the prompt's units, and a few times that on the way."""
    slopes, values = np.array([[1.0], [0.0]]), np.array([[exp(TOP)], [0.0]])
    return Bank(slopes, np.array([0.0, TOP]), values, odd=False, curvature=4.0)


def huber(delta: float) -> Bank:
    """Interpolation between points, [B] theorem 3.1."""
    points = np.linspace(-delta, delta, POINTS + 1)[:, None]
    beta = SHARPNESS / (points[1, 0] - points[0, 0]) ** 2
    return Bank(beta * points, -beta * points[:, 0] ** 2 / 2, points, odd=True, curvature=1.5, residual=True)


FAMILIES: dict[str, Callable[[float], Bank]] = {
    "logistic": lambda delta: _pair(0.5, 0.5, 0.25, residual=False),
    "poisson": poisson,
    "huber": huber,
    "log-cosh": lambda delta: _pair(1 / delta, delta, 1.0, residual=True),
}


def derivatives(registers: Registers, bank: Bank, dtype: str, slopes: bool) -> Attention:
    """Cross-attention to the bank: d += ψ(z) and, with `slopes`, D_k += (ψ(z + h x_k) - ψ(z))/h ≈ ψ'(z) x_k.

    With several outputs the derivative is Σ_l ∂ψ_l/∂z_l, the trace: one head for each feature k and output l.
    """
    m, p, h = bank.slopes.shape[1], registers.size("x"), STEPS[dtype]
    plain = registers.read({"z": 1.0, "y": -1.0} if bank.residual else {"z": 1.0})  # (F, m)
    shifts = [(k, output) for k in range(p) for output in range(m)] if slopes else []
    heads = 1 + len(shifts)
    query = np.zeros((heads, registers.width, m + 2))
    query[:, :, :m] = plain
    query[:, registers["sign"], m] = 1.0
    query[:, registers["data"], m + 1] = 1.0
    output = np.zeros((heads, m, registers.width))
    output[0, :, registers["d"]] = np.eye(m)
    for head, (k, column) in enumerate(shifts, 1):
        place = registers["D"].start + k
        query[head, registers["x"].start + k, column] = h
        output[head, column, place] += 1 / h
        output[0, column, place] -= 1 / h
    memory = _copies(bank, LEADS[dtype])  # (T', m + 3 + m)
    size = m + 3
    return Attention.of(
        query=np.concatenate([query, np.zeros((heads, registers.width, 1))], axis=2),  # (H, F, m + 3)
        query_bias=np.tile(np.append(np.zeros(m + 2), 1.0), (heads, 1)),
        key=np.tile(np.eye(memory.shape[1], size), (heads, 1, 1)),
        value=np.tile(np.eye(memory.shape[1], m, -size), (heads, 1, 1)),
        output=output,
        memory=memory,
        residual=True,
    )


def _copies(bank: Bank, lead: float) -> Floats:
    """Memory rows (slope, lead for its sign, lead for examples, offset, value); the last one answers all other rows."""
    count, m = bank.slopes.shape
    if bank.odd:
        blank = np.zeros((count, 2))
        return np.concatenate([bank.slopes, blank, bank.offsets[:, None], bank.values], axis=1)
    rows = [
        np.concatenate(
            [sign * bank.slopes, np.tile([sign * lead, lead], (count, 1)), bank.offsets[:, None], sign * bank.values],
            axis=1,
        )
        for sign in (1.0, -1.0)
    ]
    other = np.zeros((1, 2 * m + 3))
    other[0, m + 2] = 1.5 * lead  # examples score 2 lead with their own copy, other rows at most lead with any
    return np.concatenate([*rows, other])
