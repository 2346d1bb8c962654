"""One softmax head with solved values: spectral accuracy from a bank of moderate temperature (ours).

**Construction.** The keys are those of a product grid with potential `φ = Σ_k β_k x_k²/2`, `γ = β h²` between about 0.2
and 1.2, and a few ghost tokens beyond each end of each axis; attention is to memory tokens only (cross-attention). Its
softmax factors over the axes exactly, `w_{i1..iD} = Π_k w^{(k)}_{ik}`, so values that reproduce samples of f come from
one truncated pseudo-inverse per axis. The numbers of tokens per axis are found on random lines through the domain.

**Bound.** There is none a priori for a general f: the size is chosen by samples, and the certificate proves what was
reached, by Taylor series of head and target. For analytic f the error falls exponentially with the tokens per axis.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..dtypes import BITS
from ..errors import InputError
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces.axes import CHECKS, SAMPLES, SHAPES, Axis
from ..pieces.slopes import paper_tokens, sampled_slopes
from ..targets import Target
from ..targets.callables import Lipschitz
from .base import Construction, Plan, Wish

Floats = npt.NDArray[np.float64]

LINES = 12
"""Random lines per axis on which sizes are tried."""
SMALLEST, LARGEST, GROWTH = 5, 400, 1.2
"""Tokens per axis: first, last and factor between tries."""
MOST_AXES = 4
AMPLIFICATION = 1000.0
"""Largest value allowed, as a multiple of the target's size."""


@dataclass(frozen=True, eq=False)
class SpectralDetails:
    """The axes of the product grid."""

    axes: tuple[Axis, ...]


class SpectralConstruction(Construction):
    """Single-head cross-attention with solved values."""

    name: ClassVar[str] = "spectral"
    theorem: ClassVar[str] = "solved values on a uniform Bregman bank (attnfun)"
    options: ClassVar[frozenset[str]] = frozenset({"tokens"})

    def serves(self, target: Target) -> bool:
        """Few variables; a declared Lipschitz constant alone proves nothing about solved values."""
        return target.domain.size <= MOST_AXES and not isinstance(target, Lipschitz)

    def plan(self, target: Target, wish: Wish) -> Plan:
        """The fewest tokens per axis that follow random lines to within a share of `aim`."""
        aim, budget, options = wish.aim, wish.budget, wish.options
        size, most = target.domain.size, LARGEST
        if aim is None:
            tokens = int(options.get("tokens", 0))
            if not SMALLEST**size <= tokens <= budget:
                raise InputError(
                    f'without eps, options={{"tokens": N}} must say how many, from {SMALLEST**size} to {budget}',
                    got=tokens,
                )
            most = int(tokens ** (1 / size) * (1 + 1e-12))
        fits = [_fit_axis(target, axis, 0.0 if aim is None else aim / (2 * size), most) for axis in range(size)]
        axes, error = tuple(axis for axis, _ in fits), sum(error for _, error in fits)
        return Plan(prod(axis.size for axis in axes), error, SpectralDetails(axes))

    def build(self, target: Target, plan: Plan, dtype: str) -> Network:
        """Affine map (flatten, centre), one head, and for sequences an affine map back to tokens."""
        length, size, outputs = target.domain.tokens[0], target.domain.size, target.outputs
        axes = _exact_axes(plan.details.axes, dtype)
        origin = np.array([axis.origin for axis in axes])  # (D,)
        mesh = np.meshgrid(*(np.arange(axis.size) for axis in axes), indexing="ij")
        index = np.stack([axis.ravel() for axis in mesh], axis=1)  # (N, D)
        slopes = np.stack([axis.slopes[index[:, k]] for k, axis in enumerate(axes)], axis=1)  # (N, D)
        offsets = sum(axis.offsets[index[:, k]] for k, axis in enumerate(axes))  # (N,)
        memory = np.hstack([slopes, np.reshape(offsets, (-1, 1)), _solved_values(target, axes)])  # (N, D+1+m)
        asks = size + 1
        keys, values = np.split(np.eye(asks + outputs), [asks], axis=1)  # selections
        head = Attention(
            query=np.eye(asks)[None],
            query_bias=np.zeros((1, asks)),
            key=keys[None],
            key_bias=np.zeros((1, asks)),
            value=values[None],
            value_bias=np.zeros((1, outputs)),
            output=np.eye(outputs)[None],
            output_bias=np.zeros(outputs),
            memory=memory,
        )
        weight, bias = np.eye(size, asks), np.append(-origin, 1.0)
        read_in = Affine.tokenwise(weight, bias) if length == 1 else Affine.flatten(length, weight, bias)
        read_out = [Affine.unflatten(*target.output_shape)] if len(target.output_shape) == 2 else []
        layers = tuple(rounded(layer, dtype) for layer in (read_in, head, *read_out))
        return Network(layers, length, dtype)

    def paper_tokens(self, target: Target, plan: Plan, eps: float) -> int:
        """[A] on a uniform grid, with a sampled slope."""
        slope = float(np.sqrt((sampled_slopes(target) ** 2).sum(axis=1)).max())
        return paper_tokens(target.domain, slope, eps)


def _fit_axis(target: Target, axis: int, aim: float, most: int) -> tuple[Axis, float]:
    """The smallest axis that reaches `aim` on random lines, or the best one with at most `most` tokens."""
    low, high = target.domain.lo.ravel()[axis], target.domain.hi.ravel()[axis]
    lines = target.domain.sample(LINES if target.domain.size > 1 else 1, np.random.default_rng(axis))
    lines[0] = target.domain.lo.ravel()  # (L, D)
    amplification = AMPLIFICATION ** (1 / target.domain.size)
    best: tuple[float, Axis] | None = None
    count = float(SMALLEST)
    while best is None or (count <= most and best[0] > aim):
        tokens = min(int(count), most)
        count *= GROWTH
        probe = Axis.uniform(low, high, tokens, *SHAPES[0])
        at = [_on_lines(target, axis, probe.points(share * tokens), lines) for share in (SAMPLES, CHECKS)]
        for gamma, ghosts in SHAPES:
            if tokens - 2 * ghosts < 2 and tokens != SMALLEST:
                continue
            fitted, error = Axis.uniform(low, high, tokens, gamma, ghosts).fitted(at[0], at[1], aim, amplification)
            if fitted.size <= max(tokens, SMALLEST) and (best is None or error < best[0]):
                best = (error, fitted)
            if error <= aim:
                break
    return best[1], best[0]


def _on_lines(target: Target, axis: int, points: Floats, lines: Floats) -> Floats:
    """The target along lines parallel to an axis, (S, L*m)."""
    rows = np.repeat(lines[None], len(points), axis=0)  # (S, L, D)
    rows[:, :, axis] = points[:, None]
    return target.values(rows.reshape(-1, lines.shape[1])).reshape(len(points), -1)


def _exact_axes(axes: tuple[Axis, ...], dtype: str) -> tuple[Axis, ...]:
    """Axes whose keys are representable, sums of offsets included, so that the softmax factors exactly."""
    largest = sum(float(np.abs(axis.offsets).max()) for axis in axes)
    quantum = 2.0 ** (np.ceil(np.log2(max(largest, 1e-300))) + 1 - BITS[dtype])
    return tuple(axis.rounded(dtype, quantum) for axis in axes)


def _solved_values(target: Target, axes: tuple[Axis, ...]) -> Floats:
    """Values of all tokens (N, m): samples on a product of Chebyshev points, one pseudo-inverse per axis."""
    share = SAMPLES if len(axes) == 1 else 2
    points = [axis.points(share * axis.size) for axis in axes]
    mesh = np.meshgrid(*points, indexing="ij")
    rows = np.stack([coordinate.ravel() for coordinate in mesh], axis=1)  # (S, D)
    values = target.values(rows).reshape(*(len(line) for line in points), -1)  # (S_1, ..., S_D, m)
    for k, axis in enumerate(axes):
        values = np.moveaxis(np.tensordot(axis.solver(points[k]), values, axes=(1, k)), 0, k)
    return values.reshape(-1, values.shape[-1])
