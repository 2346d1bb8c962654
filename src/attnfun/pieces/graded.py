"""Grids with cuts of their own on each axis, fine where f varies much: cells for L_p around poles and jumps [T 3.9].

**Cells.** Begin with the whole box. Of every cell take the p-norm of what f differs from its mean along each axis, by
Gauss's rule; of a cell on which f is not bounded, the proved p-mean of f. Slabs of cells, those between two cuts on one
axis, are halved where these norms are largest. So all slabs come to about the same error: around `|x|^{-a}` their
widths fall like a power of the distance. With such cuts the error falls like 1/N for every `a p < 1`, where N equal
cells have `N^{a - 1/p}`.

**Scores.** Along an axis with cuts `t_1 < t_2 < ..`, token i has the score `s_i`, affine, with

    s_{i+1}(x) - s_i(x) = κ_i (x - t_i),      κ_i = γ / min(h_i, h_{i+1}),      s_r = 0 for the widest cell r,

so the largest score is that of the cell of x, at least 0 everywhere, and γ says how sharply: on equal cells this is
`grid`. In D variables scores of the axes are added. Counted from a place o at the finest cut and from the widest cell,
slopes and heights stay within a few γ/h where they matter: the scores of cells of width h at a distance d from o are
known to about `γ u d/h`, and to `γ u |x|/h` where x is rounded, too. No cell is made narrower than either demands, or
than the largest number of the format allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import numpy.typing as npt

from ..arithmetic import Interval
from ..arithmetic.formats import FORMATS, Format, round_to
from ..domains.box import Box
from ..resources.deadline import NEVER, Deadline
from ..targets import Target
from ..targets.defects import axes_towards_poles

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class GradingTuning:
    """How cells are cut. A cut that is missed costs tokens, not truth."""

    nodes: int = 4
    """Gauss points an axis and cell. By trial."""
    together: float = 0.5
    """Slabs with at least this share of the largest error are halved at once. By trial."""
    room: float = 64.0
    """Errors of scores by rounding are at most about one over this. A round number."""
    rounds: int = 4096
    """Rounds of halving, at most."""
    axes: int = 3
    """Variables, at most: points of Gauss's rule multiply."""


TUNING = GradingTuning()


@dataclass(frozen=True, eq=False)
class GradedGrid:
    """The box cut at `cuts[k]` along axis k, from its low to its high end, (N_k + 1,).

    >>> grid = GradedGrid(Box([0], [1]), (np.array([0, 0.25, 1]),))
    >>> grid.size, grid.cells[1].ravel()
    (2, array([0.25, 1.  ]))
    """

    domain: Box
    cuts: tuple[Floats, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Cells along each axis."""
        return tuple(len(cuts) - 1 for cuts in self.cuts)

    @property
    def size(self) -> int:
        """Number of cells, N."""
        return prod(self.counts)

    @property
    def cells(self) -> tuple[Floats, Floats]:
        """Low and high ends of all cells, (N, D) each, the last axis fastest."""
        return _products([cuts[:-1] for cuts in self.cuts]), _products([cuts[1:] for cuts in self.cuts])

    def origin(self, dtype: str) -> Floats:
        """The place from which scores are counted: the low end of the narrowest cell along each axis, rounded, (D,)."""
        return round_to(np.array([cuts[np.argmin(np.diff(cuts))] for cuts in self.cuts]), dtype)

    def scores(self, gamma: float, origin: Floats) -> tuple[Floats, Floats]:
        """Slopes (N, D) and heights (N,) of the scores, as functions of x - origin."""
        slopes, heights = [], []
        for cuts, start in zip(self.cuts, origin, strict=True):
            widths = np.diff(cuts)  # (N_k,)
            steps = gamma / np.minimum(widths[:-1], widths[1:])  # κ, (N_k - 1,)
            falls, widest = -steps * (cuts[1:-1] - start), int(np.argmax(widths))
            slopes.append(_counted(steps, widest))
            heights.append(_counted(falls, widest))
        return _products(slopes), _products(heights).sum(axis=1)


def _counted(steps: Floats, zero: int) -> Floats:
    """Sums of steps counted from one place, in either direction, so that none is a difference of large ones."""
    before, after = -np.cumsum(steps[:zero][::-1])[::-1], np.cumsum(steps[zero:])
    return np.concatenate([before, [0.0], after])


def _products(axes: list[Floats]) -> Floats:
    """All combinations of one number from each list, (N, D), the last axis fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)


@dataclass(frozen=True, eq=False)
class Grading:
    """A graded grid, and the p-mean that f is expected to differ from its means over the cells."""

    grid: GradedGrid
    error: float


def graded(
    target: Target, p: float, gamma: float, dtype: str, aim: float | None, most: int, deadline: Deadline = NEVER
) -> Grading:
    """The first grading with an error of at most `aim`, or the last with at most so many cells.

    O(N) evaluations a round; a pole takes as many rounds as cells around it are deep.
    """
    low, high = target.domain.lo.ravel(), target.domain.hi.ravel()
    cuts: list[Floats] = [np.array([first, last]) for first, last in zip(low, high, strict=True)]
    arithmetic = FORMATS[dtype]
    best = _graded(target, cuts, p)
    for _ in range(TUNING.rounds):
        grading, errors = best
        if deadline.over or (aim is not None and grading.error <= aim):
            break
        origin = grading.grid.origin(dtype)
        room = [_divisible(own, start, gamma, arithmetic) for own, start in zip(cuts, origin, strict=True)]
        largest = max(float(np.where(free, own, 0.0).max()) for free, own in zip(room, errors, strict=True))
        if largest == 0:
            break
        chosen = [free & (own >= TUNING.together * largest) for free, own in zip(room, errors, strict=True)]
        cuts = [
            np.sort(np.concatenate([own, (own[:-1] + np.diff(own) / 2)[pick]]))
            for own, pick in zip(cuts, chosen, strict=True)
        ]
        if prod(len(own) - 1 for own in cuts) > most:
            break
        best = _graded(target, cuts, p)
    return best[0]


def _divisible(cuts: Floats, origin: float, gamma: float, arithmetic: Format) -> npt.NDArray[np.bool_]:
    """Which cells along an axis may be halved, (N_k,): scores of the halves would still be known, and numbers."""
    low, high = cuts[:-1], cuts[1:]
    middle, half = low + (high - low) / 2, (high - low) / 2
    distance = np.where(
        (low == origin) | (high == origin), 0.0, np.maximum(np.abs(low - origin), np.abs(high - origin))
    )
    if arithmetic.coarse:
        distance = np.maximum(distance, np.minimum(np.abs(low), np.abs(high)))
    narrowest = TUNING.room * gamma * (arithmetic.grain * distance + (cuts[-1] - cuts[0]) / arithmetic.largest)
    return (low < middle) & (middle < high) & (half > narrowest)


def _graded(target: Target, cuts: list[Floats], p: float) -> tuple[Grading, list[Floats]]:
    """This grid with its error, and the share of every slab in the p-th power of it, (N_k,) an axis."""
    grid = GradedGrid(target.domain, tuple(cuts))
    low, high = grid.cells
    widths = np.array([own[-1] - own[0] for own in cuts])
    volumes = np.prod((high - low) / widths, axis=1)  # (N,), sum 1
    sizes = _variation(target, low, high, p) * volumes[:, None] ** (1 / p)  # (N, D)
    shape = (*grid.counts, len(cuts))
    unit = float(sizes.max()) or 1.0
    powers = (sizes / unit).reshape(shape) ** p
    others = [tuple(k for k in range(len(cuts)) if k != axis) for axis in range(len(cuts))]
    slabs = [powers[..., axis].sum(axis=others[axis]) for axis in range(len(cuts))]
    error = unit * sum(float(slab.sum()) ** (1 / p) for slab in slabs)
    return Grading(grid, error), slabs


def _variation(target: Target, low: Floats, high: Floats, p: float) -> Floats:
    """The p-mean over each cell of what f differs from its mean along each axis, (N, D); largest over outputs.

    Where f is not bounded, its own p-mean counts for the axis whose cut leaves it bounded on a half.
    """
    bounded = np.isfinite(target.enclose(Interval(low, high)).magnitude).all(axis=1)
    inner, poles = np.flatnonzero(bounded), np.flatnonzero(~bounded)
    found = np.zeros(low.shape)
    if len(inner):
        found[inner] = _off_means(target, low[inner], high[inner], p)
    if len(poles):
        low, high = low[poles], high[poles]
        axes = axes_towards_poles(target, low, high, np.argmax(high - low, axis=1))
        known = target.p_means(Interval(low, high), p)
        means = np.full(len(low), np.inf) if known is None else known[0]  # (c,)
        found[poles, axes] = np.where(np.isfinite(means), means, target.largest_value(0))
    return found


def _off_means(target: Target, low: Floats, high: Floats, p: float) -> Floats:
    """What f differs from its mean along each axis, by Gauss's rule, (N, D)."""
    size, q = low.shape[1], TUNING.nodes
    nodes, weights = np.polynomial.legendre.leggauss(q)  # on [-1, 1]
    mesh, shares = _products([nodes] * size), _products([weights / 2] * size).prod(axis=1)  # (q^D, D), (q^D,)
    middle, half = ((low + high) / 2)[:, None], ((high - low) / 2)[:, None]  # (N, 1, D)
    values = target.values((middle + half * mesh).reshape(-1, size)).reshape(len(low), *[q] * size, target.outputs)
    found = np.empty(low.shape)
    for axis in range(size):
        along = np.moveaxis(values, axis + 1, -1)  # (N, .., m, q)
        off = np.moveaxis(along - (along @ (weights / 2))[..., None], -1, axis + 1)
        sizes = np.abs(off).max(axis=-1).reshape(len(low), -1)  # (N, q^D)
        unit = np.maximum(sizes.max(axis=1), FORMATS["float64"].normal)  # (N,)
        found[:, axis] = unit * ((sizes / unit[:, None]) ** p @ shares) ** (1 / p)
    return found
