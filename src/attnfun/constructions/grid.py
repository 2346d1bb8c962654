"""One softmax head over a grid of sampled values ([A], single-head self-attention, sup norm).

**Construction.** Cut the domain into N cells, spacing h_k on axis k, centres c_j. Subtract the centre of
the domain from x. The query is `(x, 1)`; memory token j has key `(β_k c_jk, -Σ_k β_k c_jk²/2)` with
`β_k = γ/h_k²` and value `f(c_j)`. Up to a term in x alone, which softmax ignores, its score is

    s_j(x) = -Σ_k β_k (x_k - c_jk)² / 2,

so the weights are a product of normalised Gaussians that concentrate on the cell that x is in. The data
token is a key too (self-attention): it gets the constant score -B and the value 0.

**Bound.** Let `M_k` be the largest mean square distance `Σ_j w_j (x_k - c_jk)²` on axis k. For γ >= 10,
`M_k <= 0.2502 h_k²`. *Proof.* Weights factor over axes, so take one axis, h = 1, x in the cell of c_0 at offset
θ in [0, 1/2] (mirror otherwise), τ = 1/2 - θ, d_j = j² - 2θj >= 0. As `w_j ∝ e^{-γ d_j/2}` and `(θ-j)² = θ² + d_j`, the
mean square is `θ² + Σ_{j≠0} d_j e^{-γ d_j/2} / Σ_i e^{-γ d_i/2}`. The terms 0 and 1 give at most
`1/4 + τ² - τ tanh(γτ/2)`, and `tanh(5τ) >= 1.97 τ` on [0, 1/2] by concavity, so at most `1/4 - 0.97 τ²`. As
`y e^{-5y}` falls for y >= 1/5, the terms j >= 2, which have d_j >= 2, give less than 9.2e-5; j = -1 has d = 2 - 2τ and
gives at most `(2 - 2τ) e^{-10(1-τ)} <= 9.1e-5 + 0.97 τ² + 1e-6`; the others give less than 1e-8. Of the denominator
only the terms 0 and 1 were used, and θ² alone is at most `1/4 - 0.97 τ²`, so tokens missing beyond the ends of the
grid change nothing. ∎

If `|f(x) - f(c)| <= Σ_k L_k |x_k - c_k|`, then by Jensen

    |f(x) - head(x)| <= Σ_j w_j |f(x) - f(c_j)| <= Σ_k L_k √M_k <= 1.0004 Σ_k L_k h_k / 2;

for a Euclidean Lipschitz constant L it is at most `1.0004 L |h|/2 = 1.0004 L r_0`, r_0 the circumradius of a cell. No
oscillation and no log N enter. The data token's mass is at most `e^{-B + γD/8}`.

[A] asks instead for `L r + osc N e^{-β(r² - r_0²)/2} <= eps` with some r > r_0; we quote it with r = 2 r_0.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..dtypes import round_to
from ..errors import InputError
from ..network import Affine, Attention, Network
from ..network.network import rounded
from ..pieces import Grid
from ..pieces.slopes import paper_tokens, sampled_slopes
from ..targets import Target
from ..targets.callables import Lipschitz
from .base import Construction, Plan, Wish

Floats = npt.NDArray[np.float64]

GAMMA = 10.0
"""Default sharpness β h²; the bound above needs at least 10."""
DATA_TOKEN_GAP = 60.0
"""The data token's score lies at least this far below the best memory token's."""
JENSEN = 1.0004
"""2 √0.2502, rounded up."""


@dataclass(frozen=True, eq=False)
class GridDetails:
    """A grid and how sharply the head selects its cells."""

    grid: Grid
    gamma: float
    slope: float
    """A Euclidean Lipschitz constant, declared or estimated from samples."""


class GridConstruction(Construction):
    """Single-head self-attention with sampled values."""

    name: ClassVar[str] = "grid"
    theorem: ClassVar[str] = "arXiv 2504.19901 (single-head self-attention, sup norm), with a sharper bound"
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "gamma"})

    def plan(self, target: Target, wish: Wish) -> Plan:
        """Spacings that balance the axes: `L_k h_k` equal, their sum what `aim` allows."""
        gamma = float(wish.options.get("gamma", GAMMA))
        if not gamma >= GAMMA:
            raise InputError(f"options gamma must be at least {GAMMA:g} for the grid's bound", got=gamma)
        relative, error, slope = _balanced_spacing(target)
        if wish.aim is None:
            grid = _with_tokens(target, relative, int(wish.options.get("tokens", 0)), wish.budget)
        elif error == 0:
            grid = Grid(target.domain, (1,) * target.domain.size)
        else:
            grid = Grid.with_spacing(target.domain, relative * (wish.aim / error))
        scale = float(np.max(grid.spacing / relative, where=np.isfinite(relative), initial=0.0))
        return Plan(grid.size, scale * error, GridDetails(grid, gamma, slope))

    def build(self, target: Target, plan: Plan, dtype: str) -> Network:
        """Affine map (flatten, centre), one head, and for sequences an affine map back to tokens."""
        grid, gamma = plan.details.grid, plan.details.gamma
        length, size, outputs = target.domain.tokens[0], target.domain.size, target.outputs
        centres = grid.centres()  # (N, D)
        values = target.values(centres)  # (N, m)
        origin = round_to(((target.domain.lo + target.domain.hi) / 2).ravel(), dtype)  # (D,)
        beta = gamma / grid.spacing**2  # (D,)
        offset = centres - origin  # (N, D)
        keys = np.hstack([beta * offset, -(beta * offset**2).sum(axis=1, keepdims=True) / 2])  # (N, D+1)

        asks, answers = size + 1, size + 1 + outputs
        memory = np.hstack([np.zeros((grid.size, asks)), keys, values])  # (N, 2(D+1)+m): query | key | value
        to_query = np.eye(size, asks + answers)  # (D, 2(D+1)+m)
        data_key = -(DATA_TOKEN_GAP + gamma * size / 8)
        bias = np.concatenate([-origin, [1.0], np.zeros(size), [data_key], np.zeros(outputs)])
        blocks = np.split(np.eye(asks + answers), [asks, 2 * asks], axis=1)  # three selections
        head = Attention(
            query=blocks[0][None],
            query_bias=np.zeros((1, asks)),
            key=blocks[1][None],
            key_bias=np.zeros((1, asks)),
            value=blocks[2][None],
            value_bias=np.zeros((1, outputs)),
            output=np.eye(outputs)[None],
            output_bias=np.zeros(outputs),
            memory=memory,
            attends_data=True,
        )
        read_in = Affine.tokenwise(to_query, bias) if length == 1 else Affine.flatten(length, to_query, bias)
        read_out = [Affine.unflatten(*target.output_shape)] if len(target.output_shape) == 2 else []
        layers = tuple(rounded(layer, dtype) for layer in (read_in, head, *read_out))
        return Network(layers, length, dtype)

    def paper_tokens(self, target: Target, plan: Plan, eps: float) -> int:
        """[A] on a uniform grid, with the slope declared or sampled."""
        return paper_tokens(target.domain, plan.details.slope, eps)


def _balanced_spacing(target: Target) -> tuple[Floats, float, float]:
    """Spacings of a good shape (inf where f does not vary), the error they would give, a Lipschitz constant."""
    size = target.domain.size
    if isinstance(target, Lipschitz):
        slope = target.constant
        return np.ones(size), JENSEN * slope * sqrt(size) / 2, slope
    slopes = sampled_slopes(target)  # (S, D): |∂f/∂x_k|, largest over outputs
    peak = slopes.max(axis=0)
    with np.errstate(divide="ignore"):
        spacing = np.where(peak > 0, 1 / peak, np.inf)
    error = JENSEN * float((slopes * np.where(peak > 0, spacing, 0.0)).sum(axis=1).max()) / 2
    return spacing, error, float(np.sqrt((slopes**2).sum(axis=1)).max())


def _with_tokens(target: Target, relative: Floats, tokens: int, budget: int) -> Grid:
    """The finest balanced grid with at most the number of tokens asked for."""
    if not 1 <= tokens <= budget:
        raise InputError(
            f'without eps, options={{"tokens": N}} must say how many, from 1 to the budget {budget}',
            got=tokens,
        )
    low, high = -60.0, 60.0
    widest = (target.domain.hi - target.domain.lo).ravel().max()
    for _ in range(60):
        middle = (low + high) / 2
        fits = _cells(target, relative * widest * 2.0**middle) <= tokens
        low, high = (low, middle) if fits else (middle, high)
    return Grid.with_spacing(target.domain, relative * widest * 2.0**high)


def _cells(target: Target, spacing: Floats) -> float:
    """Number of cells as a float: it may be far beyond any integer worth having."""
    widths = (target.domain.hi - target.domain.lo).ravel()
    return float(np.prod(np.maximum(1.0, np.ceil(widths / spacing))))
