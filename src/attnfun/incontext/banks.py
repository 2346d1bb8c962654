"""Derivatives of losses as banks of memory tokens: ψ(z) = Σ_t softmax_t(slope_t·z + offset_t) value_t.

    logistic   σ(z) - 1/2          slopes ±1/2, values ±1/2                      exact
    softmax    softmax(z)          one token a class                            exact
    poisson    e^z                 scores z and TOP, values e^TOP and 0           relative error e^(z - TOP)
    log-cosh   δ tanh(z/δ)         slopes ±1/δ, values ±δ                         exact
    huber      z clipped to ±δ     points L_t, scores β (z L_t - L_t²/2)           at most 0.13 δ/POINTS

A row holds -z where its mirror image holds z. An odd bank answers both. For any other, a row and its mirror image query
a copy each: tokens (slope, value) for rows of sign 1 and (-slope, -value) for rows of sign -1; rows that are no
examples get zero.

**Floors.** Robust losses have ψ odd, ψ'(0) = 1 and ψ(r)/r falling with |r|; Newton steps with ψ'(r), which vanishes
far from zero, would run away. The loss lies below the parabola of curvature ψ(r)/r that touches it at ±r. So if the
step uses the curvatures c(r) = φ + (1 - φ) ψ'(r), Σ_i c(r_i) x_i x_iᵀ = B, and M is the same sum with ψ(r)/r, a step
-B⁻¹g changes the objective by at most -gᵀB⁻¹g + gᵀB⁻¹MB⁻¹g/2, which is not positive if ψ(r)/r ≤ 2 c(r) for all r.
Where ψ' = 0 (huber) that is φ ≥ 1/2; for tanh the largest value of (ψ(r)/r - 2ψ'(r))/(2 - 2ψ'(r)) is below 0.19. ∎
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, inf, log
from typing import Any

import numpy as np
import numpy.typing as npt

from ..network import Attention
from .precision import precision_of
from .registers import Registers

Floats = npt.NDArray[np.float64]

TOP = 30.0
POINTS = 64
SHARPNESS = 5.4
"""β Δ² for points at distance Δ: the sharpness at which the largest error, at the ends, is least [T 4.1]."""


@dataclass(frozen=True)
class LossBank:
    """Tokens, and what the learner must know about ψ."""

    slopes: Floats  # (T, m)
    offsets: Floats  # (T,)
    values: Floats  # (T, m)
    odd: bool
    curvature: float
    """Bounds the derivative of ψ, as an operator."""
    highest: float = inf
    """`curvature` holds where the linear model is at most this, and so do masks."""
    residual: bool = False
    """Is the loss ℓ(z - y), with derivative ψ(z - y), instead of one with derivative ψ(z) - y?"""
    floor: float = 0.0
    """Share φ of the largest curvature that Newton's method needs to descend from everywhere; see below."""

    def __call__(self, z: Floats) -> Floats:
        """ψ, for comparison: (..., m) -> (..., m)."""
        scores = z @ self.slopes.T + self.offsets  # (..., T)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return weights @ self.values / weights.sum(axis=-1, keepdims=True)

    def sizes(self, z: Floats) -> Floats:
        """ψ with the absolute values of its tokens' values: what relative errors of weights are multiplied with."""
        return replace(self, values=np.abs(self.values))(z)


def _pair(slope: float, value: float, curvature: float, **rest: Any) -> LossBank:
    ends = np.array([[1.0], [-1.0]])
    return LossBank(slope * ends, np.zeros(2), value * ends, True, curvature, **rest)


def softmax(classes: int, dtype: str) -> LossBank:
    """One token a class; the derivative is diag(p) - p pᵀ, with eigenvalues of at most 1/2."""
    highest = precision_of(dtype).lead / 4
    return LossBank(np.eye(classes), np.zeros(classes), np.eye(classes), odd=False, curvature=0.5, highest=highest)


def poisson(curvature: float) -> LossBank:
    """e^z; means are at most 1 in the prompt's units, and a few times that on the way: at most `curvature`."""
    slopes, values = np.array([[1.0], [0.0]]), np.array([[exp(TOP)], [0.0]])
    return LossBank(slopes, np.array([0.0, TOP]), values, odd=False, curvature=curvature, highest=log(curvature))


def huber(delta: float) -> LossBank:
    """Interpolation between points, [B] theorem 3.1."""
    points = np.linspace(-delta, delta, POINTS + 1)[:, None]
    beta = SHARPNESS / (points[1, 0] - points[0, 0]) ** 2
    offsets = -beta * points[:, 0] ** 2 / 2
    return LossBank(beta * points, offsets, points, odd=True, curvature=1.5, residual=True, floor=0.5)


FAMILIES: dict[str, Callable[[float], LossBank]] = {
    "logistic": lambda delta: _pair(0.5, 0.5, 0.25),
    "huber": huber,
    "log-cosh": lambda delta: _pair(1 / delta, delta, 1.0, residual=True, floor=0.19),
}


def derivatives(registers: Registers, bank: LossBank, dtype: str, slopes: bool) -> Attention:
    """Cross-attention to the bank: d += ψ(z) and, with `slopes`, D += (ψ(z + h x_k e_l) - ψ(z))/h ≈ ∂ψ/∂z_l x_k.

    One head for each feature k and output l. D consists of m parts, one for each output of ψ, and in them of m parts,
    one for each l. Without slopes several outputs may share a bank of one variable.
    """
    m, p, h = bank.slopes.shape[1], registers.size("x"), precision_of(dtype).step
    copies = registers.size("z") // m  # outputs that share a bank of one variable
    shifts = [(k, column) for column in range(m) for k in range(p)] if slopes else []
    heads = copies + len(shifts)
    query = np.zeros((heads, registers.width, m + 2))
    output = np.zeros((heads, m, registers.width))
    for head in range(heads):
        copy = head if head < copies else 0
        z, y, d = (registers.part(name, copy, copies) for name in ("z", "y", "d"))
        query[head, :, :m] = registers.read({z: 1.0, y: -1.0} if bank.residual else {z: 1.0})
        if head < copies:
            output[head, :, registers[d]] = np.eye(m)
    query[:, registers["sign"], m] = 1.0
    query[:, registers["data"], m + 1] = 1.0
    for head, (k, column) in enumerate(shifts, copies):
        query[head, registers["x"].start + k, column] = h
        for row in range(m):
            place = registers[registers.part("D", row, m)].start + column * p + k
            output[head, row, place] = 1 / h
            output[0, row, place] = -1 / h
    memory = _copies(bank, precision_of(dtype).lead)  # (T', m + 3 + m)
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


def _copies(bank: LossBank, lead: float) -> Floats:
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
    other = np.zeros((1, m + 3 + bank.values.shape[1]))
    other[0, m + 2] = 1.5 * lead  # examples score 2 lead with their own copy, other rows at most lead with any
    return np.concatenate([*rows, other])


def looked_up(registers: Registers, banks: tuple[LossBank, ...], dtype: str) -> Attention:
    """Cross-attention to banks of two variables, z and y, for every output: d += Σ_banks ψ(z, y).

    Each bank is a head with a block of the memory's features. A row and its mirror image query a copy each, as above; a
    bank with fewer tokens than others has some that are muted.
    """
    outputs, lead, size = registers.size("z"), precision_of(dtype).lead, 5  # z, y, sign, data, 1
    blocks = [_copies(bank, lead) for bank in banks]  # (T', size + 1) each
    tokens = max(map(len, blocks))
    memory = np.zeros((tokens, (size + 1) * len(banks)))
    for number, block in enumerate(blocks):
        place = memory[:, number * (size + 1) : (number + 1) * (size + 1)]
        place[: len(block)] = block
        place[len(block) :, size - 1] = -4 * lead
    heads = outputs * len(banks)
    query, output = np.zeros((heads, registers.width, size)), np.zeros((heads, 1, registers.width))
    key, value = np.zeros((heads, memory.shape[1], size)), np.zeros((heads, memory.shape[1], 1))
    for head, (copy, number) in enumerate(np.ndindex(outputs, len(banks))):
        z, y, d = (registers.part(name, copy, outputs) for name in ("z", "y", "d"))
        query[head, :, 0], query[head, :, 1] = registers.read({z: 1.0})[:, 0], registers.read({y: 1.0})[:, 0]
        query[head, registers["sign"], 2] = query[head, registers["data"], 3] = 1.0
        output[head, 0, registers[d]] = 1.0
        first = number * (size + 1)
        key[head, first : first + size], value[head, first + size] = np.eye(size), 1.0
    bias = np.tile(np.eye(size)[-1], (heads, 1))
    return Attention.of(query, key, value, output, memory, query_bias=bias, residual=True)
