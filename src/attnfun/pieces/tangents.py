"""Convex functions as maxima of their tangent planes, and other smooth functions as differences of two such
maxima [T 4.5].

**Bound.** Let g be convex and T_j its tangent plane at the centre p_j of a cell with half widths r. Then `T_j <= g`
everywhere, and on the cell `g - T_j <= ½ Σ_kl |g_kl| r_k r_l`, the second derivatives at their largest there. So `max_j
T_j` is below g by at most e, the largest of these over all cells.

A function f whose Hessian is at least -c is `g - h` with `g = f + c|x|²/2` and `h = c|x|²/2`, both convex (c = 0 and h
= 0 if f is convex). The tangent planes of both at the same points leave `f - (G - H)` in `[-e_h, e_g]`; with half of
`e_g - e_h` added, `|f - (G - H)| <= (e_g + e_h)/2`. c is proved: the second derivatives are enclosed on boxes that
cover the domain. Where c is so small that f is taken for convex, planes are above it by at most `c |w|²/2`, w the
widths of the domain, which is added.

**Cells.** A product grid. With `m_k² = f_kk + 2c`, the largest for each place on axis k, the cells of an axis have
equal `∫ m_k = 2σ`; the error is then about `½ σ² Σ_kl ρ_kl`, ρ_kl the largest `|f_kl + 2c δ_kl| / (m_k m_l)`. So the
number of planes grows like `eps^{-D/2}`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval, Jet
from ..arithmetic.directed import with_room
from ..arithmetic.jets import variables
from ..domains.box import Box
from ..errors import InputError, ToleranceNotMet
from ..resources.deadline import NEVER, Deadline
from ..resources.memory import UNLIMITED, Memory
from ..targets import Target

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class TangentTuning:
    """How tangent planes are spread. The error of the fit is proved whatever they are."""

    boxes: int = 4096
    """Boxes on which second derivatives are enclosed for a start. For time."""
    entries: int = 2**20
    """Numbers in the largest temporary array. For memory."""
    copies: int = 6
    """Arrays of all second derivatives at a time. Counted."""
    floor: float = 0.03
    """The density of cells is at least this fraction of the largest on its axis. By trial."""
    most_planes: int = 1024
    """Every plane is a token that attends to all others. For time: a plane attends to all others."""
    nearly: float = 0.02
    """Convex up to this fraction of the requested error is convex. A small part of the tolerance."""


TUNING = TangentTuning()


@dataclass(frozen=True, eq=False)
class Tangents:
    """Planes (A_j, b_j) of one or two maxima, the second to be subtracted, and the error of the difference."""

    tables: Floats  # (G, N, D+1)
    error: float


def has_second_derivatives(target: Target) -> bool:
    """One output, with Taylor series? Those of degree 1 tell: a target has series of all degrees or none."""
    if target.outputs != 1:
        return False
    middle = (target.domain.lo / 2 + target.domain.hi / 2).reshape(1, -1)
    return target.jets(variables(Interval(middle), 1)) is not None


def tangents(
    target: Target, aim: float | None, count: int | None, deadline: Deadline = NEVER, memory: Memory = UNLIMITED
) -> Tangents:
    """Planes that stay within `aim`, as far as `error` says, or `count` of them; O(N) evaluations."""
    survey = _Survey.of(target, deadline, memory)
    scale = aim if aim is not None else float(np.abs(survey.hessians).max()) * float(survey.widths.max()) ** 2
    above = survey.concave * float((survey.widths**2).sum()) / 2
    concave, above = (survey.concave, 0.0) if above > TUNING.nearly * scale else (0.0, above)
    edges = survey.edges(concave, aim, count if count is None or concave == 0 else max(1, count // 2))
    planes = prod(len(axis) - 1 for axis in edges)
    if planes > TUNING.most_planes:
        raise ToleranceNotMet(
            f"a maximum may have at most {TUNING.most_planes} planes, each a token that attends to all",
            got=f"about {planes} planes",
            remedy="Relax eps=, shrink the domain, or use another construction.",
        )
    low, high = (_product([axis[part] for axis in edges]) for part in (slice(None, -1), slice(1, None)))  # (N, D)
    centres, radius = low / 2 + high / 2, (high - low) / 2
    at, slopes = _planes(target, centres)
    bends = np.abs(_hessians(target, low, high, deadline)).max(axis=0)  # (N, D, D)
    ours = 0.5 * concave * (radius**2).sum(axis=1).max()  # e_h
    theirs = float((0.5 * np.einsum("nk,nkl,nl->n", radius, bends, radius)).max() + ours)  # e_g
    slopes_g = slopes + concave * centres
    starts_g = at + concave * (centres**2).sum(axis=1) / 2 - (slopes_g * centres).sum(axis=1)
    tables = [np.column_stack([slopes_g, starts_g + (theirs - ours) / 2])]
    if concave:
        tables.append(np.column_stack([concave * centres, -concave * (centres**2).sum(axis=1) / 2]))
    return Tangents(np.stack(tables), (theirs + ours) / 2 + above)


@dataclass(frozen=True, eq=False)
class _Survey:
    """Second derivatives on a grid of boxes that cover the domain."""

    domain: Box
    places: list[Floats]  # the ends of boxes on each axis
    hessians: Floats  # (2, B, D, D), lower and upper ends

    @classmethod
    def of(cls, target: Target, deadline: Deadline, memory: Memory) -> _Survey:
        domain = target.domain
        each = int(np.clip(TUNING.boxes ** (1 / domain.size), 2, 512))
        remedy = "Use another construction, or fewer variables."
        memory.require(TUNING.copies * float(each) ** domain.size * domain.size**2, "the second derivatives", remedy)
        places = [np.linspace(a, b, each + 1) for a, b in zip(domain.lo.ravel(), domain.hi.ravel(), strict=True)]
        low, high = (_product([axis[part] for axis in places]) for part in (slice(None, -1), slice(1, None)))
        overlap = (high - low) / 8  # no kink may hide between two boxes
        low, high = np.maximum(low - overlap, domain.lo.ravel()), np.minimum(high + overlap, domain.hi.ravel())
        hessians = _hessians(target, low, high, deadline)
        lost = ~np.isfinite(hessians).all(axis=(0, 2, 3))
        if lost.any():
            box = Interval(low[lost][:1], high[lost][:1])
            raise InputError(
                "tangent planes need second derivatives that are bounded on the whole domain",
                got=f"none near {box.mid.ravel().tolist()}",
                remedy="Shrink the domain, or use another construction.",
            )
        return cls(domain, places, hessians)

    @property
    def widths(self) -> Floats:
        """Of the domain, (D,)."""
        return (self.domain.hi - self.domain.lo).ravel()

    @property
    def concave(self) -> float:
        """The least c >= 0 for which every symmetric matrix in the enclosures is at least -c."""
        middle, radius = self.hessians.mean(axis=0), np.diff(self.hessians, axis=0)[0] / 2  # (B, D, D)
        least = np.linalg.eigvalsh(middle)[:, 0] - radius.sum(axis=2).max(axis=1)
        return with_room(max(0.0, -float(least.min())))

    def edges(self, concave: float, aim: float | None, count: int | None) -> list[Floats]:
        """Ends of the cells on each axis."""
        size, each = len(self.places), len(self.places[0]) - 1
        bends = np.abs(self.hessians + 2 * concave * np.eye(size)).max(axis=0)  # (B, D, D)
        grid = np.einsum("bkk->kb", bends).reshape(size, *[each] * size)
        squares = [part.max(axis=tuple(axis for axis in range(size) if axis != k)) for k, part in enumerate(grid)]
        density = [np.sqrt(np.maximum(part, TUNING.floor**2 * part.max())) for part in squares]  # (each,) for each axis
        sums = [np.append(0.0, np.cumsum(m * np.diff(axis))) for m, axis in zip(density, self.places, strict=True)]
        totals = np.array([total[-1] for total in sums])
        local = np.stack([m.ravel() for m in np.meshgrid(*density, indexing="ij")], axis=1)  # (B, D)
        pairs = local[:, :, None] * local[:, None]
        together = float((bends / np.where(pairs > 0, pairs, np.inf)).max(axis=0).sum())  # Σ ρ
        step = sqrt(4 * aim / max(together, 1e-300)) if aim else _step_for(totals, count or 1)  # σ
        cells = np.maximum(np.ceil(np.minimum(totals / (2 * step), 1e6)), 1).astype(int)
        if count is not None:
            cells = np.maximum(np.floor(totals / (2 * step) + 1e-9), 1).astype(int)
        return [
            np.linspace(axis[0], axis[-1], n + 1)
            if total[-1] == 0
            else np.interp(np.linspace(0, total[-1], n + 1), total, axis)
            for n, total, axis in zip(cells, sums, self.places, strict=True)
        ]


def _step_for(totals: Floats, count: int) -> float:
    """The smallest σ with `Π max(1, ⌊S_k / 2σ⌋) <= count`, by bisection."""
    low, high = 1e-12, 1.0 + float(totals.max())
    for _ in range(100):
        middle = sqrt(low * high)
        fits = np.prod(np.maximum(np.floor(totals / (2 * middle) + 1e-9), 1)) <= count
        low, high = (low, middle) if fits else (middle, high)
    return high


def _product(axes: list[Floats]) -> Floats:
    """All combinations, (N, D)."""
    return np.stack([part.ravel() for part in np.meshgrid(*axes, indexing="ij")], axis=1)


def _series(target: Target, boxes: Interval, degree: int) -> Jet:
    """Taylor series on boxes (B, D), (B, 1), of a target that has them."""
    series = target.jets(variables(boxes, degree))
    if series is None:
        raise InputError("tangent planes need a function with derivatives", got=str(target.as_dict()["kind"]))
    return series


def _planes(target: Target, points: Floats) -> tuple[Floats, Floats]:
    """Values and gradients at points, (N,) and (N, D), in plain floats."""
    jet = _series(target, Interval(points), 1)
    return jet.mid[:, 0, 0], jet.mid[:, 0, 1 : 1 + points.shape[1]]


def _hessians(target: Target, low: Floats, high: Floats, deadline: Deadline) -> Floats:
    """Lower and upper ends of the second derivatives on boxes, (B, D) -> (2, B, D, D)."""
    ends = []
    size = low.shape[1]
    step = max(
        1, TUNING.entries // ((size + 1) * (size + 2) // 2) ** 2
    )  # products of series take their coefficients squared
    for start in range(0, len(low), step):
        deadline.check("enclosing second derivatives")
        part = slice(start, start + step)
        jet = _series(target, Interval(low[part], high[part]), 2)
        base = jet.basis
        second = base.exponents[base.degrees == 2]  # (C, D)
        rows = np.array([np.flatnonzero(row)[[0, -1]] for row in second])  # (C, 2)
        factor = np.where(rows[:, 0] == rows[:, 1], 2.0, 1.0)
        middle, radius = (part[:, 0, base.count(1) :] * factor for part in (jet.mid, jet.rad))  # (B, C)
        hessians = np.zeros((2, len(middle), size, size))
        for row, column in (rows.T, rows.T[::-1]):
            hessians[0][:, row, column], hessians[1][:, row, column] = middle - radius, middle + radius
        ends.append(hessians)
    return np.concatenate(ends, axis=1)
