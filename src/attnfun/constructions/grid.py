"""One softmax head over a grid: single-head self-attention behind a sum of linear maps ([A]), in the sup norm and
L_p [T 3.1], [T 3.2], [T 3.3].

**Construction.** Cut the domain into N cells, spacing h_k on axis k, centres c_j. The head looks up (`one_head.py`) one
value a cell with sharpness `β_k = γ/h_k²`: in the sup norm the sample `f(c_j)`, in L_p the mean of f over the cell
(`pieces/means.py`). The weights are products of normalised Gaussians that concentrate on the cell that x is in.
Sequences (n, d) are read as vec(X), D = n d coordinates; n = 1 is a function of d variables. Data tokens are keys too.
Points and regions get a net instead of a grid (`covering.py`). In L_p, where f is not bounded, cells are graded if they
are fewer than equal ones (`pieces/graded.py`) [T 3.9]; the bounds below are about equal cells.

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
oscillation and no log N enter. In L_p see `pieces/means.py`. To both, wrong positions and the data tokens add what
`Layout.leak` says; the best score is nowhere below `-γD/8`, because x is within h_k/2 of a centre on every axis. All of
this is a bound where L is declared. Otherwise the L_k are sampled, and it is an estimate.

[A] says instead that `|f - head| <= ω(r) + osc N e^{-β(r² - r_0²)/2}` for every r > r_0. On cells that are not cubes
put `ρ² = Σ_k β_k (x_k - c_k)²` in the place of r²: `r_0² = γD/4`, and f changes by at most `ρ √(Σ_k L_k²/β_k)`. This
falls as γ grows and ends at `L r_0`. The bound by the paper's argument is quoted at the best ρ and the largest γ that
the option allows, whatever γ the network has; r = 2 r_0 on cubes gives the paper's number of tokens.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isinf, log, sqrt
from typing import ClassVar

import numpy as np

from ..arguments import one_of, real_number
from ..arithmetic import Interval
from ..domains import Points, Region
from ..domains.box import Box, Floats
from ..errors import InputError, counted
from ..network import Network
from ..pieces import Grid
from ..pieces.graded import TUNING as GRADING
from ..pieces.graded import GradedGrid, graded
from ..pieces.means import Modulus, cell_means, growth, paper_factor
from ..pieces.slopes import paper_tokens, sampled_slopes, steepest
from ..targets import Target
from ..targets.callables import Lipschitz
from .base import Construction, Plan, PlanRequest
from .covering import NetDetails, plan_net
from .one_head import SIZES, Layout, Lookup, single_head, sizes_of

GAMMA = 10.0
"""Default sharpness β h²; the bound above needs at least 10."""
CELLS = ("equal", "graded")
"""The cells of a grid on a box."""
SHARPEST = 1e6
"""Cells are cut off sharply long before; beyond, scores would leave the floats."""
JENSEN = 1.0004
"""2 √0.2502, rounded up."""


@dataclass(frozen=True, eq=False)
class GridDetails:
    """A grid, how sharply the head selects its cells, and what the cells hold."""

    grid: Grid
    gamma: float
    layout: Layout
    means: bool
    """Do cells hold means (L_p) or samples?"""
    slope: float
    """A Euclidean Lipschitz constant, declared or estimated from samples."""
    modulus: Modulus | None
    """How f changes under shifts in L_p; None in the sup norm."""

    def lookup(self, target: Target, dtype: str) -> Lookup:
        """Means of the cells, or samples at their centres."""
        grid, gamma = self.grid, self.gamma
        means = self.means and not isinstance(target, Lipschitz)  # a black box is called once a cell
        centres = grid.centres()
        values = cell_means(target, *grid.cells) if means else target.values(centres)  # (N, m)
        depth = gamma * grid.domain.size / 8
        return Lookup.at_places(grid.domain, centres, gamma / grid.spacing**2, values, depth, dtype)

    def paper_tokens(self, eps: float) -> int:
        """[A] with the slope or the shifts, declared or sampled."""
        if self.modulus is None:
            return paper_tokens(self.grid.domain, self.slope, eps) * self.layout.rows
        return Grid.with_spacing(self.grid.domain, self.modulus.paper_spacing(eps)).size * self.layout.rows


@dataclass(frozen=True, eq=False)
class GradedDetails:
    """Cells of their own widths, which hold means of f."""

    grid: GradedGrid
    gamma: float
    layout: Layout
    modulus: Modulus

    def lookup(self, target: Target, dtype: str) -> Lookup:
        """Means of the cells; somewhere the score of the widest cell is 0."""
        origin = self.grid.origin(dtype)
        means = cell_means(target, *self.grid.cells)  # (N, m)
        return Lookup(origin, *self.grid.scores(self.gamma, origin), means, depth=0.0)

    def paper_tokens(self, eps: float) -> int:
        """[A] with equal cells and sampled shifts."""
        return Grid.with_spacing(self.grid.domain, self.modulus.paper_spacing(eps)).size * self.layout.rows


Details = GridDetails | GradedDetails | NetDetails


class GridConstruction(Construction[Target, Details]):
    """Single-head self-attention with one value a cell."""

    name: ClassVar[str] = "grid"
    theorem: ClassVar[str] = "arXiv 2504.19901 (single-head self-attention, sup norm and L_p), with sharper bounds"
    options: ClassVar[frozenset[str]] = frozenset({"tokens", "gamma", "layout", "memory", "cells"})
    figures: ClassVar[frozenset[str]] = frozenset({"cells", "net radius", "beta", "gamma", "kappa"})
    proves: ClassVar[frozenset[str]] = frozenset({Lipschitz.kind})
    domains: ClassVar[frozenset[str]] = frozenset({Box.kind, Region.kind, Points.kind})
    serves_jumps: ClassVar[bool] = True
    attends_data: ClassVar[bool] = True

    def plan(self, target: Target, request: PlanRequest) -> Plan[Details]:
        """Equal or graded cells on a box: the fewer, then the better; a net on other domains."""
        kinds, plans, most = _cells(target, request), list[Plan[Details]](), inf
        if not target.domain.fills_box:
            return plan_net(target, request, Layout.read(target, request.options), self.attends_data)
        if "equal" in kinds:
            plans.append(self.plan_on_box(target, request))
            most = plans[0].tokens
        if "graded" in kinds:
            plans.append(self._graded(target, request, most))
        aim = request.aim or inf
        return min(plans, key=lambda plan: (plan.promised > aim, plan.tokens if request.aim else 0, plan.promised))

    def plan_on_box(self, target: Target, request: PlanRequest) -> Plan[GridDetails]:
        """The coarsest grid whose predicted error is `aim`, by slopes or, in L_p, by shifts if that is coarser."""
        gamma, layout = self._read(target, request)
        rule = _BySlopes(target) if isinf(request.norm) else _ByShifts(target, gamma, request.norm)
        grid = _sized(target, rule, request, layout.rows)
        a_priori, expected, paper = rule.errors(grid)
        peak, osc = sizes_of(target, layout.rows)
        layout = layout.sharp_enough(expected, osc)
        leak = layout.leak(peak, osc, self.attends_data)
        with np.errstate(divide="ignore", over="ignore"):  # of grids beyond any budget
            beta = gamma / grid.spacing**2
        return Plan(
            tokens=grid.size * layout.rows,
            a_priori=a_priori + leak,
            details=GridDetails(grid, gamma, layout, not isinf(request.norm), rule.slope, rule.modulus),
            expected=expected + leak,
            paper_bound=paper + leak,
            figures={"cells": grid.size, "beta": float(beta.max()), "gamma": gamma, "kappa": layout.kappa},
        )

    def _graded(self, target: Target, request: PlanRequest, most: float) -> Plan[GradedDetails]:
        """Cells that are fine where f varies much, at most so many tokens [T 3.9]."""
        gamma, layout = self._read(target, request)
        allowed = request.budget if request.aim is not None else request.requested_tokens(layout.rows)
        cells = int(min(allowed, most)) // layout.rows
        grading = graded(target, request.norm, gamma, request.dtype, request.aim, cells, request.deadline)
        peak, osc = sizes_of(target, layout.rows)
        layout = layout.sharp_enough(grading.error, osc)
        return Plan(
            tokens=grading.grid.size * layout.rows,
            a_priori=grading.error + layout.leak(peak, osc, self.attends_data),
            details=GradedDetails(grading.grid, gamma, layout, Modulus.of(target, request.norm)),
            figures={"cells": grading.grid.size, "gamma": gamma, "kappa": layout.kappa},
        )

    def _read(self, target: Target, request: PlanRequest) -> tuple[float, Layout]:
        """The sharpness and the layout that the options say."""
        gamma = real_number("options gamma", request.options.get("gamma", GAMMA), least=GAMMA, most=SHARPEST)
        return gamma, Layout.read(target, request.options)

    def build(self, target: Target, plan: Plan[Details], dtype: str) -> Network:
        """Values of the cells, looked up by one head."""
        details = plan.details
        lookup = details.lookup(target, dtype)
        return single_head(lookup, target, details.layout, dtype, attends_data=self.attends_data)

    def paper_tokens(self, target: Target, plan: Plan[Details], eps: float) -> int:
        """[A] on a uniform grid, with the slope or the shifts declared or sampled."""
        return plan.details.paper_tokens(eps)


def _cells(target: Target, request: PlanRequest) -> tuple[str, ...]:
    """Which kinds of cells to plan: those of the options; in L_p both where the target is not known to be bounded."""
    domain = target.domain
    possible = not isinf(request.norm) and target.enclosable and domain.fills_box and domain.size <= GRADING.axes
    given = request.options.get("cells")
    if given is None:
        hull = Interval(domain.lo.reshape(1, -1), domain.hi.reshape(1, -1))
        return CELLS if possible and not np.isfinite(target.enclose(hull).magnitude).all() else CELLS[:1]
    if one_of("options cells", given, CELLS) == "graded" and not possible:
        raise InputError(
            "graded cells need an L_p norm, norm=p, and a formula or a traced function on a box in at most "
            f"{GRADING.axes} variables",
            got=f"{counted(domain.size, 'variable')}, norm={request.norm:g}",
            remedy='Leave options={"cells": ...} out.',
        )
    return (str(given),)


class _BySlopes:
    """Sup norm: spacings that balance the axes, `L_k h_k` equal; errors in proportion to the spacings."""

    modulus: Modulus | None = None

    def __init__(self, target: Target, at_corners: bool = True) -> None:
        self.target, size = target, target.domain.size
        if isinstance(target, Lipschitz):
            self.slope, self.spacing = target.constant, np.ones(size)
            self.slopes = np.full((1, size), self.slope / sqrt(size))
        else:
            self.slopes = sampled_slopes(target, at_corners)  # (S, D): |∂f/∂x_k|, largest over outputs
            self.slope = steepest(self.slopes)
            with np.errstate(divide="ignore"):
                self.spacing = 1 / self.slopes.max(axis=0)  # inf where f does not vary
        self.osc = float(np.ptp(target.values(target.domain.sample(SIZES, np.random.default_rng(1))), axis=0).max())

    def grid(self, error: float) -> Grid:
        """The coarsest grid of a good shape with this error."""
        unit = self._jensen(np.where(np.isfinite(self.spacing), self.spacing, 0.0))
        if unit == 0:
            return Grid(self.target.domain, (1,) * self.target.domain.size)
        return Grid.with_spacing(self.target.domain, self.spacing * (error / unit))

    def errors(self, grid: Grid) -> tuple[float, float, float]:
        """Bound or its estimate, expected error, the bound by the paper's argument at its best parameters."""
        bound = self._jensen(grid.spacing)
        change = steepest(self.slopes * grid.spacing / sqrt(SHARPEST))
        if isinstance(self.target, Lipschitz):
            change = self.slope * float(grid.spacing.max()) / sqrt(SHARPEST)
        squares = SHARPEST * grid.domain.size / 4 + np.linspace(0, 4 * log(grid.size) + 80, 400)  # ρ²
        with np.errstate(over="ignore"):
            tail = self.osc * np.exp(log(grid.size) + (squares[0] - squares) / 2) if self.osc else 0.0
        paper = (change * np.sqrt(squares) + tail).min()
        return bound, bound, float(paper)

    def _jensen(self, spacing: Floats) -> float:
        if isinstance(self.target, Lipschitz):
            return JENSEN * self.slope * float(np.sqrt((spacing**2).sum())) / 2
        return JENSEN * float((self.slopes * spacing).sum(axis=1).max()) / 2


class _ByShifts(_BySlopes):
    """L_p, as p-means: ω_p equal on all axes, or by slopes where that promises more."""

    def __init__(self, target: Target, gamma: float, p: float) -> None:
        super().__init__(target, at_corners=False)  # where it may be unbounded
        self.p, size = p, target.domain.size
        self.modulus = None if isinstance(target, Lipschitz) else Modulus.of(target, p)
        self.growth, self.paper_factor = growth(gamma, p, size), paper_factor(SHARPEST, p, size)

    def grid(self, error: float) -> Grid:
        """The coarser of the two grids."""
        grids = [super().grid(error)]
        if self.modulus is not None:
            shape = self.modulus.spacing(2 * error / self.target.domain.size)
            grids.append(Grid.with_spacing(self.target.domain, shape))
        return min(grids, key=lambda grid: grid.size)

    def errors(self, grid: Grid) -> tuple[float, float, float]:
        """Bound or its estimate, expected error, the bound by the paper's argument at its best parameters.

        A shift moves half a cell on average: expect half of ω_p.
        """
        bound = super().errors(grid)[0]
        if self.modulus is None:
            shift = self.slope * float(np.sqrt((grid.spacing**2).sum()))
        else:
            shift = self.modulus.at(grid.spacing)
        paper = 2 ** (grid.domain.size / self.p) * shift + self.osc * self.paper_factor
        return min(bound, self.growth * shift), min(bound, shift / 2), paper


def _sized(target: Target, rule: _BySlopes, request: PlanRequest, rows: int) -> Grid:
    """The grid for the aim, or the finest one with at most the number of tokens requested."""
    if request.aim is not None:
        return rule.grid(request.aim)
    tokens = request.requested_tokens(rows)
    low, high = -1000.0, 1000.0  # logarithms of errors
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rule.grid(2.0**middle).size * rows <= tokens else (middle, high)
    return rule.grid(2.0**high)
